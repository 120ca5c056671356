//! Frames that are not read because they fit an earlier one say what the full reading says.

#[path = "prop_protocol/generate.rs"]
#[expect(dead_code, reason = "shared with another file of properties")]
mod generate;

use baton::protocol::openai_chat::{Read, Reader, Template};
use baton::protocol::{Delta, Reading, Span};
use baton::sse::Frame;
use bytes::Bytes;
use proptest::prelude::*;

use generate::{Style, chunks};

fn read(payload: &[u8]) -> Vec<Read> {
    let mut out = Vec::new();
    Reader::default().read(Frame::from_canonical([wire(payload)].into_iter().collect()), &mut out);
    out
}

fn wire(payload: &[u8]) -> Bytes {
    Bytes::from([b"data: ", payload, b"\n\n"].concat())
}

/// Where the earlier frame's spans stand in one whose text ends `by` bytes later.
fn moved(delta: &Delta, text: Span, by: isize) -> Delta {
    let place = |at: usize| if at >= text.end { at.strict_add_signed(by) } else { at };
    let span = |span: Span| Span { start: place(span.start), end: place(span.end) };
    let mut delta = delta.clone();
    delta.text = delta.text.iter().map(|text| Span { start: text.start, end: place(text.end) }).collect();
    delta.edits.id = delta.edits.id.map(span);
    delta.edits.created = delta.edits.created.map(span);
    delta.edits.usage_null_member = delta.edits.usage_null_member.map(span);
    delta
}

/// Whether the payload fits the template of `earlier`; if so it must read as told.
fn check(earlier: &Read, payload: &[u8]) -> bool {
    let Reading::Delta(delta) = &earlier.reading else { return false };
    let Some(template) = Template::of(earlier) else { return false };
    let frame = Frame::from_canonical([wire(payload)].into_iter().collect());
    let Some(text) = template.text(&frame) else { return false };
    let before = delta.text[0];
    let by = text.end.cast_signed() - before.end.cast_signed();
    let want = Reading::Delta(Box::new(moved(delta, before, by)));
    let reads = read(payload);
    assert_eq!(reads.len(), 1);
    assert_eq!(reads[0].reading, want);
    assert_eq!(reads[0].frame.wire(), frame.wire(), "the bytes are the upstream's own");
    true
}

/// Texts that stand for themselves, and texts that do not.
fn texts() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        4 => "[ -~äπ語🙂]{0,40}".prop_map(String::into_bytes),
        1 => prop::collection::vec(any::<u8>(), 0..24),
        1 => prop::sample::select(vec![&b"\\n"[..], b"\\\"", b"\"", b"\\", b"\",\"role\":\"x", b"a\nb", b"\xff", b"\\ud83d"])
            .prop_map(<[u8]>::to_vec),
    ]
    .boxed()
}

const AROUND: [(&str, &str); 5] = [
    (r#"{"id":"a","created":7,"choices":[{"index":0,"delta":{"content":""#, r#""},"finish_reason":null}]}"#),
    (r#"{"choices":[{"index":0,"delta":{"content":""#, r#""}}],"model":"m","created":7,"id":"a"}"#),
    (r#"{"choices":[{"delta":{"content":""#, r#""}}],"x":[1,NaN,"y"]}"#),
    (r#"{"choices":[{"index":0,"delta":{"role":"assistant","content":""#, r#""}}]}"#),
    (r#"{"choices":[{"index":0,"delta":{"content":""#, r#""}}],"usage":null}"#),
];

proptest! {
    #[test]
    fn what_fits_reads_as_told(around in prop::sample::select(AROUND.to_vec()), first in texts(), second in texts()) {
        let with = |text: &[u8]| [around.0.as_bytes(), text, around.1.as_bytes()].concat();
        for earlier in read(&with(&first)) {
            check(&earlier, &with(&second));
        }
    }

    #[test]
    fn any_chunks_of_a_stream_agree(a in chunks(), b in chunks(), seed in any::<u64>()) {
        let (a, b) = (Style::new(seed).write(&a), Style::new(seed).write(&b));
        for earlier in read(a.as_bytes()) {
            check(&earlier, a.as_bytes());
            check(&earlier, b.as_bytes());
        }
    }
}

#[test]
fn frames_of_text_alone_are_templates() {
    let cases = [
        ("id and created before the text", 0, "word", "two words", true),
        ("behind it", 1, "word", "two words", true),
        ("not strict JSON around it", 2, "word", "two words", true),
        ("the earlier one had escapes", 0, "a\\n", "b", true),
        ("a role", 3, "word", "words", false),
        ("a usage that is null", 4, "word", "words", true),
        ("an escape", 0, "word", "a\\n", false),
        ("the end of the string", 0, "word", "a\",\"b\":\"c", false),
        ("no text", 0, "word", "", false),
        ("a line feed", 0, "word", "a\nb", false),
    ];
    for (name, around, first, second, want) in cases {
        let with = |text: &str| [AROUND[around].0, text, AROUND[around].1].concat();
        let reads = read(with(first).as_bytes());
        assert_eq!(check(reads.first().unwrap(), with(second).as_bytes()), want, "{name}");
    }
}
