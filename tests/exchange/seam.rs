//! The seam as the client sees it: what is repeated is taken out of the frames, and nothing else.

use baton::exchange::HOLD_BYTES;
use baton::policy::ContinuationMode::{self, Instruct, Prefill};

use crate::support::words::*;
use crate::support::{Setup, World};

const PARTIAL: &str = "The old sailor looked at the sea and thought of home. ";
/// The partial in two.
const BEGIN: &str = "The old sailor looke";
const REST: &str = "d at the sea and thought of home. ";

/// Cuts behind the partial and lets the second say the deltas (escaped text); its answer ends properly.
fn join(mode: ContinuationMode, partial: &[&str], deltas: &[&str]) -> World {
    let mut world = World::new(&Setup::stream(&[mode; 2]));
    world.ok(0);
    for piece in partial {
        world.send(0, raw_text("a", piece));
    }
    world.fin(0).ok(1).send(1, role_b());
    for delta in deltas {
        world.advance(10).send(1, raw_text("bb", delta));
    }
    world.send(1, finish_b() + DONE);
    world
}

/// Name, mode, partial, deltas, what is delivered behind the partial, and the kind of seam.
const SEAMS: &[(&str, ContinuationMode, &str, &[&str], &str, &str)] = &[
    ("goes on [S10]", Prefill, PARTIAL, &["Then."], "Then.", "exact"),
    ("goes on, told to [S10]", Instruct, PARTIAL, &["Then."], "Then.", "none"),
    ("starts over [S2]", Prefill, PARTIAL, &[BEGIN, REST, "Then."], "Then.", "restart"),
    ("starts over, told to [S2]", Instruct, PARTIAL, &[BEGIN, REST, "Then."], "Then.", "restart"),
    (
        "starts over within a delta",
        Instruct,
        PARTIAL,
        &["The old sailor looked at the sea and thought of home. Then."],
        "Then.",
        "restart",
    ),
    ("repeats the end [S5]", Instruct, PARTIAL, &["thought of ", "home. Then."], "Then.", "overlap"),
    (
        "repeats the end natively: kept [S5, D8]",
        Prefill,
        PARTIAL,
        &["of home. Then."],
        "of home. Then.",
        "exact",
    ),
    ("doubles the space [S6]", Instruct, PARTIAL, &[" Then."], "Then.", "none"),
    ("doubles the space natively: kept [S6]", Prefill, PARTIAL, &[" Then."], " Then.", "exact"),
    (
        "ha ha ha [S4]",
        Prefill,
        "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha ",
        &["ha ha ha ha ha ha ha ha ha ha ha ha ha ha ", "ha!"],
        "ha ha ha ha ha ha ha ha ha ha ha ha ha ha ha!",
        "exact",
    ),
    (
        "ha ha ha, told to [S5]",
        Instruct,
        "ha ha ha ha ha ha ",
        &["ha ha ha ha ", "ha!"],
        "ha ha ha ha ha!",
        "none",
    ),
    (
        "a table [S9]",
        Prefill,
        "| a | b |\\n|---|---|\\n| 1 | 2 |\\n",
        &["| 1 | 2 |\\n", "| 1 | 2 |\\n"],
        "| 1 | 2 |\\n| 1 | 2 |\\n",
        "exact",
    ),
    (
        "code [S9]",
        Prefill,
        "    }\\n    if a {\\n        b();\\n    }\\n",
        &["    if a {\\n", "        b();\\n    }\\n"],
        "    if a {\\n        b();\\n    }\\n",
        "exact",
    ),
    (
        "other escapes, told to",
        Instruct,
        "Sch\\u00f6n war es am See/Ufer. ",
        &["Schön war es am ", "See\\/Ufer. Dann."],
        "Dann.",
        "restart",
    ),
];

#[test]
fn what_is_repeated_goes_and_nothing_else() {
    for (name, mode, partial, deltas, want, kind) in SEAMS {
        let world = join(*mode, &[partial], deltas);
        let plain = |text: &str| serde_json::from_str::<String>(&format!("\"{text}\"")).expect("a text");
        assert!(world.client.is_complete(), "{name}: {}", world.client.text_of_body());
        assert_eq!(world.client.answer(), plain(partial) + &plain(want), "{name}");
        assert_eq!(world.seams(), [*kind], "{name}");
    }
}

// [S3]
#[test]
fn a_restart_whose_last_frame_says_more_than_text_loses_only_its_text() {
    for mode in [Prefill, Instruct] {
        let mut world = World::new(&Setup::stream(&[mode; 2]));
        world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
        world.send(1, text_b(&PARTIAL[..40]));
        world.send(1, chunk_of("bb", &format!("\"content\":\"{}\"", &PARTIAL[40..]), "\"stop\"") + DONE);
        assert!(world.client.is_complete());
        assert_eq!(world.client.answer(), PARTIAL);
        assert_eq!(world.client.finishes(), ["stop"], "the finish_reason is not lost");
    }
}

#[test]
fn a_restart_may_end_where_the_partial_does() {
    let world = join(Instruct, &[PARTIAL], &[BEGIN, REST]);
    assert!(world.client.is_complete());
    assert_eq!(world.client.answer(), PARTIAL);
    assert_eq!(world.client.finishes(), ["stop"]);
}

// [S3]
#[test]
fn a_restart_that_ends_short_is_a_failure() {
    let world = join(Instruct, &[PARTIAL], &[BEGIN]);
    assert!(world.client.is_visibly_broken());
    assert_eq!(world.client.answer(), PARTIAL);
    assert_eq!(world.results(), ["cut", "restart_failed"]);
}

// [S1]
#[test]
fn what_is_held_at_the_seam_goes_out_after_300_ms() {
    let mut world = World::new(&Setup::pair());
    world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
    world.take();
    world.send(1, text_b("The ")).advance(299);
    assert_eq!(world.take(), [""; 0]);
    world.advance(1);
    assert_eq!(world.client.answer(), format!("{PARTIAL}The "));
    world.send(1, text_b("end.") + &finish_b() + DONE);
    assert!(world.client.is_complete());
}

// [S3]
#[test]
fn catching_up_takes_first_token_at_most_and_counts_as_progress() {
    let setup = Setup::instructed().with(|setup| {
        setup.timeouts.first_token = std::time::Duration::from_secs(10);
        setup.timeouts.idle = std::time::Duration::from_secs(4);
        setup.limits.heartbeat = std::time::Duration::ZERO;
    });
    let begin = || {
        let mut world = World::new(&setup);
        world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1).send(1, text_b(&PARTIAL[..20]));
        world
    };
    let mut world = begin();
    world.advance(3_900).send(1, text_b(&PARTIAL[20..25])).advance(3_900).send(1, text_b(&PARTIAL[25..30]));
    assert_eq!(world.results(), ["cut"], "not idle");
    world.advance(2_199);
    assert_eq!(world.outcome(), "none");
    world.advance(1);
    assert_eq!(world.results(), ["cut", "restart_failed"]);
    assert!(world.client.is_visibly_broken());
    let mut world = begin();
    world.advance(4_000);
    assert_eq!(world.results(), ["cut", "idle_timeout"]);
}

/// Few characters in large frames.
// [A17]
#[test]
fn what_is_held_at_the_seam_is_bounded_in_bytes_too() {
    let mut world = World::new(&Setup::stream(&[Instruct; 3]).with(|setup| {
        setup.policy.stream_failure.max_fallbacks = 2;
    }));
    world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
    let padded = |at: usize| {
        let delta = format!(r#""content":"{}","pad":"{}""#, &PARTIAL[at..=at], "x".repeat(8_000));
        chunk_of("bb", &delta, "null")
    };
    for at in 0..8 {
        world.send(1, padded(at));
    }
    assert_eq!(world.results(), ["cut"], "at the limit");
    world.send(1, padded(8));
    assert_eq!(world.results(), ["cut", "too_large"]);
    assert_eq!((world.attempts[&2].kind, world.attempts[&2].target), ("mid_stream_fallback", 2));
    world.ok(2).send(2, text_b("Then.") + &finish_b() + DONE);
    assert_eq!(world.client.answer(), format!("{PARTIAL}Then."));
}

// [S8]
#[test]
fn content_that_is_no_text_decides_the_seam_at_once() {
    let call = r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]"#;
    let mut world = World::new(&Setup::instructed());
    world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
    world.take();
    world.send(1, text_b("thought of home. "));
    assert_eq!(world.take(), [""; 0], "a repeat so far");
    world.send(1, chunk_of("bb", call, "null"));
    assert_eq!(world.seams(), ["overlap"]);
    assert_eq!(world.client.answer(), PARTIAL, "what was held goes out less its repeat");
    assert!(world.client.text_of_body().contains("tool_calls"));
}

/// What a client of UTF-16 strings makes of the text of all chunks: lone halves of neighbours join.
fn units_of(world: &World) -> String {
    let mut escaped = String::new();
    for event in world.client.events() {
        if let Some((_, rest)) = event.split_once("\"content\":\"") {
            escaped.push_str(&rest[..rest.find("\"}").expect("the text's end")]);
        }
    }
    serde_json::from_str(&format!("\"{escaped}\"")).expect("whole characters")
}

#[test]
fn characters_split_between_deltas_and_attempts_come_whole() {
    let cases: &[(&str, ContinuationMode, &[&str], &[&str], &str)] = &[
        ("split in the partial", Prefill, &["a \\ud83d", "\\ude00 b "], &["c"], "a 😀 b c"),
        (
            "split in the new text",
            Instruct,
            &["one two three "],
            &["\\ud83d", "\\ude00."],
            "one two three 😀.",
        ),
        (
            "the cut is inside, the new text has all of it",
            Prefill,
            &["one two \\ud83d"],
            &["😀 three"],
            "one two 😀 three",
        ),
        ("escaped", Prefill, &["one two \\ud83d"], &["\\ud83d\\ude00 three"], "one two 😀 three"),
        ("told to", Instruct, &["one two \\ud83d"], &["😀 three"], "one two 😀 three"),
        ("in two deltas", Prefill, &["one two \\ud83d"], &["\\ud83d", "\\ude00 three"], "one two 😀 three"),
        (
            "a restart",
            Instruct,
            &["one two three \\ud83d"],
            &["one two three ", "😀 four"],
            "one two three 😀 four",
        ),
        ("an overlap", Instruct, &["one two three \\ud83d"], &["three 😀 four"], "one two three 😀 four"),
    ];
    for (name, mode, partial, deltas, want) in cases {
        let world = join(*mode, partial, deltas);
        assert!(world.client.is_complete(), "{name}");
        assert_eq!(units_of(&world), *want, "{name}");
        let body: Result<serde_json::Value, _> = serde_json::from_slice(&world.attempts[&1].body);
        assert!(body.is_ok(), "{name}: the request is valid JSON");
    }
}

/// A second failure behind such a seam: the partial holds both halves.
#[test]
fn a_character_mended_at_a_seam_stands_whole_in_the_next_request() {
    let setup = Setup::stream(&[Prefill; 3]).with(|setup| setup.policy.stream_failure.max_fallbacks = 2);
    let mut world = World::new(&setup);
    world.ok(0).send(0, raw_text("a", "one two \\ud83d")).fin(0);
    world.ok(1).send(1, raw_text("bb", "😀 three")).fin(1);
    let body: serde_json::Value = serde_json::from_slice(&world.attempts[&2].body).expect("JSON");
    assert_eq!(body["messages"][1]["content"], "one two 😀 three");
}

/// What was not sent is written once more, in whatever pieces: it is taken out again, and no other white space is.
// [R10, S6]
#[test]
fn white_space_that_was_not_sent_is_restored() {
    let cases: &[(&str, &str, &[&str], &str)] = &[
        ("in one piece", "a:\\n    ", &["\\n    b"], "b"),
        ("slowly, in pieces", "a:\\n    ", &["\\n", "  ", "  b"], "b"),
        ("slowly, a part of longer white space", "a:\\n  ", &["\\n", "    b"], "  b"),
        ("other white space", "a: ", &["\\nb"], "\\nb"),
        ("none", "a: ", &["b"], "b"),
        ("none but it", "a: ", &[" "], ""),
    ];
    for mode in [Prefill, Instruct] {
        for (name, partial, deltas, want) in cases {
            let mut world = World::new(&Setup::stream(&[mode; 2]).with(|setup| setup.trims = true));
            world.ok(0).send(0, raw_text("a", partial)).fin(0).ok(1);
            for delta in *deltas {
                world.send(1, raw_text("bb", delta)).advance(400);
            }
            world.send(1, finish_b() + DONE);
            let plain = |text: &str| serde_json::from_str::<String>(&format!("\"{text}\"")).expect("a text");
            assert!(world.client.is_complete(), "{mode:?}: {name}: {}", world.client.text_of_body());
            assert_eq!(world.client.answer(), plain(partial) + &plain(want), "{mode:?}: {name}");
        }
    }
}

// [B14]
#[test]
fn what_is_held_at_a_seam_is_bounded_to_the_byte() {
    for (over, failed) in [(0, false), (1, true)] {
        let mut world = World::new(&Setup::stream(&[Instruct; 2]));
        world.ok(0).send(0, text(PARTIAL)).fin(0).ok(1);
        // It is held for what it says, and for nothing else.
        let held = |pad: usize| {
            chunk_of("bb", &format!(r#""content":"The old","pad":"{}""#, "x".repeat(pad)), "null")
        };
        world.send(1, held(HOLD_BYTES + over - held(0).len()));
        assert_eq!(world.results().contains(&"too_large"), failed, "{over} past the limit");
    }
}
