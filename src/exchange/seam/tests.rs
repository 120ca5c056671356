use super::SeamKind::{Exact, None as Plain, Overlap, Restart};
use super::*;

const START: MonoTime = MonoTime::ORIGIN;
const CATCH_UP: Duration = Duration::from_secs(60);

/// Feeds the deltas 1 ms apart and gives what is delivered after the partial, or None where it departed.
fn join(partial: &str, deltas: &[&str], native: bool) -> (Option<String>, Option<SeamKind>) {
    let mut seam = Seam::new(partial.as_bytes(), native, CATCH_UP);
    let (mut held, mut delivered, mut decided) = (String::new(), String::new(), None);
    let take =
        |step: Step, held: &mut String, delivered: &mut String, decided: &mut Option<SeamKind>| match step {
            Step::Hold => true,
            Step::Drop => {
                held.clear();
                true
            }
            Step::Release { skip, kind } => {
                delivered.extend(std::mem::take(held).chars().skip(skip));
                *decided = Some(kind);
                true
            }
            Step::Depart => false,
        };
    for (at, delta) in deltas.iter().enumerate() {
        if decided.is_some() {
            delivered.push_str(delta);
            continue;
        }
        held.push_str(delta);
        let step = seam.push(delta.as_bytes(), START.after(Duration::from_millis(at as u64)));
        if !take(step, &mut held, &mut delivered, &mut decided) {
            return (None, None);
        }
    }
    if decided.is_none() && !take(seam.finish(START), &mut held, &mut delivered, &mut decided) {
        return (None, None);
    }
    (Some(delivered), decided)
}

const STORY: &str = "The old sailor looked at the sea and thought of home. ";

/// Name, partial, deltas, whether natively, what is delivered, and the kind of seam.
const SEAMS: &[(&str, &str, &[&str], bool, &str, SeamKind)] = &[
    ("goes on", STORY, &["Then ", "he slept."], false, "Then he slept.", Plain),
    ("goes on natively", STORY, &["Then ", "he slept."], true, "Then he slept.", Exact),
    (
        "starts over",
        STORY,
        &["The old sailor ", "looked at the sea and thought", " of home. Then"],
        false,
        "Then",
        Restart,
    ),
    (
        "starts over natively",
        STORY,
        &["The old sailor ", "looked at the sea and thought", " of home. Then"],
        true,
        "Then",
        Restart,
    ),
    (
        "starts over in one delta",
        STORY,
        &["The old sailor looked at the sea and thought of home. Then"],
        true,
        "Then",
        Restart,
    ),
    ("a short partial starts over", "Hello", &["Hel", "lo", " you"], false, " you", Restart),
    ("repeats the last words", STORY, &["thought of home. Then"], false, "Then", Overlap),
    ("repeats five letters and a space: six", "one two seven ", &["seven eight"], false, "eight", Overlap),
    ("repeats five letters: too few", "one two seven", &["seven eight"], false, "seven eight", Plain),
    ("repeats them natively: kept", STORY, &["thought of home. Then"], true, "thought of home. Then", Exact),
    ("repeats them with other white space", STORY, &["thought\\n of  home. Then"], false, "Then", Overlap),
    (
        "repeats the last words, more white space follows: kept",
        "one two three\\n",
        &["two three\\n", "  four"],
        false,
        "  four",
        Overlap,
    ),
    (
        "repeats them without the white space",
        "one two three ",
        &["two three\\nfour"],
        false,
        "\\nfour",
        Overlap,
    ),
    ("doubles white space bit by bit", "one\\n  ", &[" ", " two"], false, "two", Plain),
    ("ha ha, one short of an overlap", "ha ha ", &["ha ha ", "ha!"], false, "ha ha ha!", Plain),
    (
        "a line that came twice may come again",
        "x\nfoo();\nfoo();\n",
        &["foo();\nbar();"],
        false,
        "foo();\nbar();",
        Plain,
    ),
    ("five characters are no overlap", "one two", &["e two three"], false, "e two three", Plain),
    ("doubles a space", STORY, &[" Then"], false, "Then", Plain),
    ("doubles a space natively: kept", STORY, &[" Then"], true, " Then", Exact),
    ("white space that is no repeat is kept", STORY, &["\\nThen"], false, "\\nThen", Plain),
    ("ha ha ha", "ha ha ha ", &["ha ha ha ", "ha!"], true, "ha ha ha ha!", Exact),
    ("ha ha ha after an instruction", "ha ha ha ha ", &["ha ha ha ", "ha!"], false, "ha ha ha ha!", Plain),
    (
        "the same beginning, natively",
        STORY,
        &["The old sailor ", "slept."],
        true,
        "The old sailor slept.",
        Exact,
    ),
    ("ends at once", STORY, &[], true, "", Exact),
];

// [S9]
#[test]
fn joins_every_kind_of_seam() {
    for (name, partial, deltas, native, want, kind) in SEAMS {
        // The helper skips characters, so escapes are compared on text without them.
        let plain = |text: &str| text.replace("\\n", "\n");
        let deltas: Vec<String> = deltas.iter().map(|delta| plain(delta)).collect();
        let deltas: Vec<&str> = deltas.iter().map(String::as_str).collect();
        let got = join(&plain(partial), &deltas, *native);
        assert_eq!(got, (Some(plain(want)), Some(*kind)), "{name}");
    }
}

// [S3]
#[test]
fn a_restart_that_departs_or_ends_early_fails() {
    let cases: [(&str, &[&str]); 2] = [
        ("departs", &["The old sailor looked at the sea ", "but not of home"]),
        ("ends early", &["The old sailor looked at the sea "]),
    ];
    for (name, deltas) in cases {
        assert_eq!(join(STORY, deltas, false), (None, None), "{name}");
    }
}

// [S7]
#[test]
fn two_readings_remove_nothing() {
    // Its beginning and its end are the same: the new text may start over or repeat the end.
    let partial = "He went home and he slept. He went home";
    assert_eq!(join(partial, &["He went home"], false).0.as_deref(), Some("He went home"));
    // What follows tells them apart.
    assert_eq!(join(partial, &["He went home", " once more."], false).0.as_deref(), Some(" once more."));
}

// [S1, S2]
#[test]
fn a_slow_restart_is_caught_at_the_time_limit() {
    let mut seam = Seam::new(STORY.as_bytes(), false, CATCH_UP);
    assert_eq!(seam.push(b"The ", START), Step::Hold);
    assert_eq!(seam.deadline(), Deadline::at(START.after(HOLD_TIME)));
    assert_eq!(seam.time_out(START.after(HOLD_TIME)), Step::Drop);
    assert_eq!(seam.push(b"old ", START.after(HOLD_TIME)), Step::Drop);
    assert_eq!(seam.deadline(), Deadline::at(START.after(HOLD_TIME).after(CATCH_UP)));
    assert_eq!(seam.time_out(START.after(HOLD_TIME).after(CATCH_UP)), Step::Depart);
}

// [S2, D8]
#[test]
fn natively_a_short_repeat_is_released_at_the_time_limit() {
    let mut seam = Seam::new(STORY.as_bytes(), true, CATCH_UP);
    assert_eq!(seam.push(b"The ", START), Step::Hold);
    assert_eq!(seam.time_out(START.after(HOLD_TIME)), Step::Release { skip: 0, kind: Exact });
}

// [S1]
#[test]
fn nothing_is_held_past_its_limit() {
    let partial: String = (0..200).map(|n| format!("{n} ")).collect();
    let overlap: String = partial.chars().skip(partial.len() - 300).collect();
    let mut seam = Seam::new(partial.as_bytes(), false, CATCH_UP);
    let (first, rest) = overlap.split_at(HOLD_UNITS - 1);
    let mut held = seam.push(first.as_bytes(), START);
    if held == Step::Hold {
        held = seam.push(&rest.as_bytes()[..1], START);
    }
    assert!(matches!(held, Step::Release { .. }), "{held:?}");
}

// [S4]
#[test]
fn periodic_is_what_a_short_shift_maps_onto_itself() {
    let cases = [
        ("abab", true),
        ("aaa", true),
        ("abcab", false),
        ("aba", false),
        ("a", false),
        ("", false),
        ("abaaba", true),
    ];
    for (text, want) in cases {
        let text: Vec<u16> = text.encode_utf16().collect();
        assert_eq!(is_periodic(&text), want, "{text:?}");
    }
}

/// Time in which nothing was read is not the attempt's.
#[test]
fn a_pause_in_reading_begins_the_limits_anew() {
    let later = START.after(Duration::from_secs(9));
    let mut seam = Seam::new(STORY.as_bytes(), false, CATCH_UP);
    seam.resume(later);
    assert_eq!(seam.deadline(), Deadline::NEVER, "nothing is held yet");
    assert_eq!(seam.push(b"The old", START), Step::Hold);
    assert_eq!(seam.deadline(), Deadline::after(START, HOLD_TIME));
    seam.resume(later);
    assert_eq!(seam.deadline(), Deadline::after(later, HOLD_TIME));
    assert_eq!(seam.push(b" sailor looked", later), Step::Drop);
    assert_eq!(seam.deadline(), Deadline::after(later, CATCH_UP));
    let last = later.after(Duration::from_secs(1));
    seam.resume(last);
    assert_eq!(seam.deadline(), Deadline::after(last, CATCH_UP));
}

/// White space is waited for only as long as more of it could repeat the partial's end.
#[test]
fn white_space_as_long_as_the_partial_s_own_is_decided_at_once() {
    let cases: [(&str, &[(&str, Step)]); 3] = [
        ("all of it", &[("  ", Step::Release { skip: 2, kind: Plain })]),
        ("a half, then all", &[(" ", Step::Hold), (" ", Step::Release { skip: 2, kind: Plain })]),
        ("more than that", &[("   ", Step::Release { skip: 2, kind: Plain })]),
    ];
    for (name, pushes) in cases {
        let mut seam = Seam::new(b"Hello  ", false, CATCH_UP);
        for (text, want) in pushes {
            assert_eq!(seam.push(text.as_bytes(), START), *want, "{name}");
        }
    }
}
