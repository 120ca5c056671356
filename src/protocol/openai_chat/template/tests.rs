use bytes::Bytes;

use super::super::Reader;
use super::*;

/// The frame of one event as it stands in one read.
fn frame(wire: &str) -> Frame {
    let mut frames = Vec::new();
    let mut framer = crate::sse::Framer::new(1 << 20);
    framer.feed(Bytes::copy_from_slice(wire.as_bytes()), &mut frames).unwrap();
    assert_eq!(frames.len(), 1, "{wire}");
    frames.remove(0)
}

fn template(payload: &str) -> Option<Template> {
    let mut reads = Vec::new();
    Reader::default().read(frame(&format!("data: {payload}\n\n")), &mut reads);
    Template::of(&reads[0])
}

fn chunk(delta: &str, rest: &str) -> String {
    format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{{{delta}}},"finish_reason":null}}]{rest}}}"#)
}

fn text(text: &str) -> String {
    chunk(&format!(r#""content":"{text}""#), "")
}

#[test]
fn frames_that_say_nothing_but_text_are_templates() {
    let cases: [(&str, String, bool); 15] = [
        ("text", text("Hi"), true),
        ("text with an escape", text(r"\n"), true),
        ("a finish that is empty", text("Hi").replace("null", r#""""#), true),
        ("empty text", text(""), false),
        ("a role", chunk(r#""role":"assistant","content":"Hi""#, ""), false),
        ("a call", chunk(r#""content":"Hi","tool_calls":[{"index":0}]"#, ""), false),
        ("reasoning", chunk(r#""content":"Hi","reasoning_content":"x""#, ""), false),
        ("a refusal", chunk(r#""content":"Hi","refusal":"x""#, ""), false),
        ("a finish", text("Hi").replace("null", r#""stop""#), false),
        ("another choice", text("Hi").replace(r#""index":0"#, r#""index":1"#), false),
        ("usage", chunk(r#""content":"Hi""#, r#","usage":{"prompt_tokens":1}"#), false),
        ("an error that is null", chunk(r#""content":"Hi""#, r#","error":null"#), false),
        ("a usage that is null", chunk(r#""content":"Hi""#, r#","usage":null"#), true),
        ("done", "[DONE]".to_owned(), false),
        (
            "two parts",
            chunk(r#""content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]"#, ""),
            false,
        ),
    ];
    for (name, payload, want) in cases {
        assert_eq!(template(&payload).is_some(), want, "{name}");
    }
}

#[test]
fn a_frame_that_differs_in_its_text_alone_fits() {
    let template = template(&text("Hi")).unwrap();
    let start = text("").find(r#"""}"#).unwrap() + 1;
    let at = |bytes: usize| Some(Span { start, end: start + bytes });
    let cases: [(&str, String, Option<Span>); 12] = [
        ("the same", text("Hi"), at(2)),
        ("shorter", text("x"), at(1)),
        ("longer", text("a longer one, "), at(14)),
        ("of other letters", text("hé ✓"), at(7)),
        ("a control character's neighbour", text(" ~\u{7f}"), at(3)),
        ("empty", text(""), None),
        ("an escape", text(r"\n"), None),
        ("two values in place of one", text(r#"a","x":"b"#), None),
        ("a tab that no JSON may hold", text("a\tb"), None),
        ("another id", text("Hi").replace(r#""c""#, r#""d""#), None),
        ("a finish", text("Hi").replace("null", r#""stop""#), None),
        ("done", "[DONE]".to_owned(), None),
    ];
    for (name, payload, want) in cases {
        let frame = frame(&format!("data: {payload}\n\n"));
        assert_eq!(template.text(&frame), want, "{name}");
        if let Some(span) = want {
            assert_eq!(
                frame.payload_in_one().unwrap()[span.start - 1],
                b'"',
                "{name}: it begins behind a quote"
            );
            assert_eq!(frame.payload_in_one().unwrap()[span.end], b'"', "{name}: and ends before one");
        }
    }
}

#[test]
fn what_a_frame_is_called_or_cut_into_keeps_it_from_fitting() {
    let template = template(&text("Hi")).unwrap();
    let payload = text("Hi");
    let named = frame(&format!("event: other\ndata: {payload}\n\n"));
    let error = frame(&format!("error: {payload}\n\n"));
    let lines = frame(&format!("data: {}\n\n", payload.replacen(",", ",\ndata:", 1)));
    let pieces = ["data: ", &payload, "\n\n"].map(|piece| Bytes::copy_from_slice(piece.as_bytes()));
    let cut = Frame::from_canonical(pieces.into_iter().collect());
    for (name, frame) in [("named", named), ("an error field", error), ("two lines", lines), ("cut", cut)] {
        assert_eq!(template.text(&frame), None, "{name}");
    }
}

#[test]
fn a_half_character_is_read_in_full() {
    let template = template(&text("Hi")).unwrap();
    let mut wire = format!("data: {}\n\n", text("Hi")).into_bytes();
    let at = wire.windows(2).position(|two| two == b"Hi").unwrap();
    wire[at] = 0xc3;
    assert_eq!(template.text(&Frame::from_canonical([Bytes::from(wire)].into_iter().collect())), None);
}

#[test]
fn so_much_may_stand_around_the_text() {
    let around = format!("data: {}\n\n", text("")).len();
    for (over, is_template) in [(0, true), (1, false)] {
        let id = "c".repeat(AROUND_BYTES_MAX - around + 1 + over);
        for words in ["x", "some text which counts for nothing"] {
            let payload = text(words).replace(r#""c""#, &format!("\"{id}\""));
            assert_eq!(template(&payload).is_some(), is_template, "{over} over, {words}");
        }
    }
}
