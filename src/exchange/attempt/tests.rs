use super::*;
use crate::protocol::openai_chat::Reader;
use crate::protocol::{Choice, Span};

const NOW: MonoTime = MonoTime::ORIGIN;
const SECOND: Duration = Duration::from_secs(1);

fn attempt(kind: Kind) -> Attempt {
    let timeouts = Timeouts {
        connect: SECOND,
        first_token: SECOND,
        idle: SECOND * 2,
        response: SECOND * 3,
        total: SECOND,
    };
    Attempt::new(AttemptId(0), 0, kind, timeouts, NOW)
}

fn writing() -> Attempt {
    Attempt { is_writing: true, ..attempt(Kind::Initial) }
}

/// A chunk with this text, and what else stands in it.
fn read(text: &str, rest: &str) -> Read {
    let payload =
        format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{text}"}},"finish_reason":null}}]{rest}}}"#);
    let mut reads = Vec::new();
    let wire = Bytes::from(format!("data: {payload}\n\n"));
    Reader::default().read(Frame::from_canonical([wire].into_iter().collect()), &mut reads);
    reads.remove(0)
}

#[test]
fn frames_are_forwarded_untouched_while_nothing_is_in_their_way() {
    let held = || Held::new(Frame::from_payload(Bytes::from_static(b"{}")), Box::default());
    let cases: [(&str, Attempt, bool); 5] = [
        ("the writer", writing(), true),
        ("before its content", attempt(Kind::Initial), false),
        ("a continuation", Attempt { kind: Kind::MidStreamFallback, ..writing() }, false),
        ("something is held", Attempt { held: vec![held()], ..writing() }, false),
        ("behind [DONE]", Attempt { is_done: true, ..writing() }, false),
    ];
    for (name, attempt, want) in cases {
        assert_eq!(attempt.is_forwarded(), want, "{name}");
    }
}

#[test]
fn a_template_is_replaced_so_often_and_no_more() {
    let mut attempt = writing();
    for number in 1..=TEMPLATES_MAX + 1 {
        let own = read("Hi", &format!(r#","id":"{number}""#));
        attempt.learn(&own);
        let fits = attempt.template.as_ref().is_some_and(|template| template.text(&own.frame).is_some());
        assert_eq!((attempt.templates, fits), (number.min(TEMPLATES_MAX), number <= TEMPLATES_MAX));
    }
}

#[test]
fn nothing_is_learnt_of_frames_that_are_held_or_edited() {
    let usage = r#","usage":null"#;
    let cases: [(&str, Attempt, &str, bool); 4] = [
        ("forwarded as it is", writing(), "", true),
        ("a null that the client may see", writing(), usage, true),
        ("a null that it may not", Attempt { hides_usage: true, ..writing() }, usage, false),
        ("not forwarded yet", attempt(Kind::Initial), "", false),
    ];
    for (name, mut attempt, rest, want) in cases {
        attempt.learn(&read("Hi", rest));
        assert_eq!(attempt.template.is_some(), want, "{name}");
    }
}

#[test]
fn usage_is_early_in_a_frame_of_its_own_before_the_answer_is_finished() {
    let usage = Some(Usage::default());
    let finished: SmallVec<[Choice; 1]> =
        [Choice { index: 0, finish: Some(Finish::Stop) }].into_iter().collect();
    let unfinished =
        || Delta { choices: [Choice { index: 0, finish: None }].into_iter().collect(), ..Delta::default() };
    let done = Delta { choices: finished, ..Delta::default() };
    let cases: [(&str, Delta, Delta, bool); 4] = [
        ("of its own", unfinished(), Delta { usage, ..Delta::default() }, true),
        ("in a frame with a choice", unfinished(), Delta { usage, ..unfinished() }, false),
        ("none", unfinished(), Delta::default(), false),
        ("behind the finish", done, Delta { usage, ..Delta::default() }, false),
    ];
    for (name, before, delta, want) in cases {
        let mut attempt = writing();
        assert!(attempt.note(&before, NOW));
        assert_eq!(attempt.is_early_usage(&delta), want, "{name}");
    }
}

#[test]
fn a_frame_that_is_not_read_counts_as_one_that_is() {
    let text = Delta { text: [Span { start: 0, end: 1 }].into_iter().collect(), ..Delta::default() };
    let (mut noted, mut unread) = (writing(), writing());
    for attempt in [&mut noted, &mut unread] {
        assert!(attempt.note(&text, NOW));
        attempt.bad_frames_in_row = 1;
    }
    let later = NOW.after(SECOND);
    assert!(noted.note(&text, later));
    unread.note_token(later);
    assert_eq!((unread.tokens(), unread.progress, unread.bad_frames_in_row), (2, later, 0));
    assert_eq!((noted.tokens(), noted.progress, noted.bad_frames_in_row), (2, later, 0));
    assert_eq!(unread.forwarded_frames, 1, "it is forwarded, too");
}

#[test]
fn small_pieces_of_a_body_are_copied_together() {
    let sizes = |attempt: &Attempt| attempt.body.iter().map(Bytes::len).collect::<Vec<_>>();
    let mut attempt = writing();
    // The first stays what it is, however small.
    for (size, pieces) in [(1, vec![1]), (SLIVER_BYTES - 1, vec![1]), (2, vec![1])] {
        attempt.collect(Bytes::from(vec![0; size]));
        assert_eq!(sizes(&attempt), pieces);
    }
    attempt.collect(Bytes::from(vec![0; SLIVER_BYTES]));
    assert_eq!(sizes(&attempt), [1, SLIVER_BYTES + 1, SLIVER_BYTES]);
    assert_eq!(attempt.body_bytes, 2 * SLIVER_BYTES + 2);
}

#[test]
fn each_limit_at_its_time() {
    let first = |limit| Limit::First(Deadline::at(NOW.after(limit)));
    let idle = Limit::Idle(Deadline::at(NOW.after(SECOND * 2)));
    let with_content = || Attempt { has_content: true, ..writing() };
    let with_head = || Attempt { status: Some(200), ..writing() };
    let cases: [(&str, Attempt, Shape, bool, bool, Limit); 9] = [
        ("a stream", writing(), Shape::ChatStream, true, false, first(SECOND)),
        ("its head is no content", with_head(), Shape::ChatStream, true, false, first(SECOND)),
        ("its content is", with_content(), Shape::ChatStream, true, true, idle),
        ("a plain answer", with_head(), Shape::ChatPlain, false, false, first(SECOND * 3)),
        ("bytes", writing(), Shape::Opaque, false, false, first(SECOND * 3)),
        ("bytes behind their head", with_head(), Shape::Opaque, false, false, idle),
        ("streamed bytes", with_head(), Shape::Opaque, true, false, first(SECOND)),
        ("streamed bytes that go out", with_head(), Shape::Opaque, true, true, idle),
        ("bytes that go out", with_head(), Shape::Opaque, false, true, idle),
    ];
    for (name, attempt, shape, streamed, committed, want) in cases {
        assert_eq!(attempt.deadline(shape, streamed, committed, false), want, "{name}");
        let slow = attempt.deadline(shape, streamed, committed, true);
        assert_eq!(
            slow,
            if committed { Limit::Idle(Deadline::NEVER) } else { want },
            "{name}: a slow client"
        );
    }
}
