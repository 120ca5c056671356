//! Properties of the readings, against what serde_json and simd-json read.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a failed property is a panic")]

#[path = "prop_protocol/generate.rs"]
mod generate;
#[path = "prop_protocol/reference.rs"]
mod reference;

use baton::protocol::openai_chat::{Body, Read, Reader, sniff};
use baton::protocol::request::{outline, peek};
use baton::protocol::{Reading, Span, errors};
use baton::sse::Frame;
use bytes::Bytes;
use proptest::prelude::*;
use serde_json::Value;

use generate::{Style, chunks, requests, trees};
use reference::Says;

fn read(payload: &[u8]) -> Vec<Read> {
    let mut out = Vec::new();
    Reader::default().read(Frame::from_payload(Bytes::copy_from_slice(payload)), &mut out);
    out
}

fn reading(payload: &[u8]) -> Reading {
    let mut out = read(payload);
    assert_eq!(out.len(), 1);
    out.remove(0).reading
}

fn without(payload: &str, spans: &[Span]) -> Value {
    let (mut kept, mut at) = (String::new(), 0);
    for span in spans {
        kept.push_str(&payload[at..span.start]);
        at = span.end;
    }
    kept.push_str(&payload[at..]);
    serde_json::from_str(&kept).unwrap_or_else(|error| panic!("{error}: {kept}"))
}

fn value_at(payload: &str, span: Span) -> Value {
    serde_json::from_str(&payload[span.start..span.end]).unwrap()
}

/// Text as an upstream's JSON may hold it, escapes and broken ends included.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::sample::select(vec![
            &b"{"[..],
            b"}",
            b"[",
            b"]",
            b",",
            b":",
            b"\"",
            b"\\",
            b"\\u",
            b"\\ud83d",
            b"null",
            b"true",
            b"NaN",
            b"-1",
            b"1e9",
            b"\"choices\"",
            b"\"delta\"",
            b"\"content\"",
            b"\"error\"",
            b"\"usage\"",
            b"\"model\"",
            b"\"messages\"",
            b"{\"choices\":[{\"delta\":{\"content\":\"",
            b" ",
            b"[DONE]",
        ])
        .prop_map(<[u8]>::to_vec),
        prop::collection::vec(any::<u8>(), 0..4),
    ];
    prop::collection::vec(piece, 0..20).prop_map(|pieces| pieces.concat())
}

/// A text that was JSON, cut off or with one byte changed.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    (chunks(), any::<u64>(), any::<prop::sample::Index>(), prop::option::of(any::<u8>())).prop_map(
        |(value, seed, at, byte)| {
            let mut text = Style::new(seed).write(&value).into_bytes();
            let at = at.index(text.len());
            match byte.filter(|byte| !matches!(byte, b'\r' | b'\n')) {
                Some(byte) => text[at] = byte,
                None => text.truncate(at),
            }
            text
        },
    )
}

fn poke(bytes: &[u8]) {
    let one_line: Vec<u8> =
        bytes.iter().map(|b| if matches!(b, b'\r' | b'\n') { b' ' } else { *b }).collect();
    for read in read(&one_line) {
        if let Reading::Delta(delta) = &read.reading {
            let len = read.frame.payload_len();
            assert!(delta.text.iter().all(|text| text.start < text.end && text.end < len));
        }
    }
    let mut reader = Reader::default();
    let body = reader.read_body(bytes);
    let frames = reader.completion_to_frames(&Bytes::copy_from_slice(bytes), true);
    if let Some(frames) = frames {
        let mut out = Vec::new();
        frames.into_iter().for_each(|frame| reader.read(frame, &mut out));
        let bad = out.iter().find(|read| matches!(read.reading, Reading::Undecodable { .. }));
        assert!(bad.is_none(), "{bad:?} of {body:?}");
    }
    errors::read_error_body(400, bytes);
    sniff(bytes);
    if let Ok(peek) = peek(bytes)
        && let Some(messages) = peek.messages
    {
        outline(bytes, messages);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn readings_agree_with_serde_json(value in chunks(), seed in any::<u64>()) {
        let payload = Style::new(seed).write(&value);
        let want = Says::of(&value);
        prop_assert_eq!(Says::read(&payload, &reading(payload.as_bytes())), want, "{}", payload);
    }

    #[test]
    fn what_a_strict_reader_accepts_can_be_read(value in trees(), seed in any::<u64>()) {
        let payload = Style::new(seed).write(&value);
        let mut scratch = payload.clone().into_bytes();
        prop_assert!(simd_json::to_tape(&mut scratch).is_ok());
        prop_assert!(!matches!(reading(payload.as_bytes()), Reading::Undecodable { .. }), "{}", payload);
    }

    #[test]
    fn what_simd_json_accepts_of_damaged_text_can_be_read(text in prop_oneof![noise(), damaged()]) {
        if simd_json::to_tape(&mut text.clone()).is_ok() {
            let reading = reading(&text);
            prop_assert!(!matches!(reading, Reading::Undecodable { .. }), "{:?}", reading);
        }
    }

    #[test]
    fn no_bytes_make_it_panic(text in prop_oneof![noise(), damaged(), prop::collection::vec(any::<u8>(), 0..100)]) {
        poke(&text);
    }

    #[test]
    fn members_can_be_cut_out(value in chunks(), seed in any::<u64>()) {
        let payload = Style::new(seed).write(&value);
        let Reading::Delta(delta) = reading(payload.as_bytes()) else { return Ok(()) };
        let edits = &delta.edits;
        prop_assert_eq!(edits.id.map(|span| value_at(&payload, span)), value.get("id").cloned());
        prop_assert_eq!(edits.created.map(|span| value_at(&payload, span)), value.get("created").cloned());
        let mut less = value.clone();
        let mut all = Vec::new();
        let of_usage = edits.usage_member.filter(|_| !delta.choices.is_empty());
        prop_assert_eq!(of_usage.is_some(), !delta.choices.is_empty() && !value["usage"].is_null());
        for (span, key) in [
            (edits.error_null_member, "error"),
            (edits.usage_null_member, "usage"),
            (of_usage, "usage"),
        ] {
            let Some(span) = span else { continue };
            let mut only = value.clone();
            only.as_object_mut().unwrap().remove(key);
            less.as_object_mut().unwrap().remove(key);
            prop_assert_eq!(without(&payload, &[span]), only, "{}", payload);
            all.push(span);
        }
        all.sort_by_key(|span| span.start);
        prop_assert_eq!(without(&payload, &all), less, "{}", payload);
        if let Some(span) = edits.role_member {
            let mut less = value.clone();
            let choices = less["choices"].as_array_mut().unwrap().iter_mut();
            let of_0 = choices.filter(|choice| reference::index(choice) == 0 && !choice["delta"]["role"].is_null());
            of_0.last().unwrap()["delta"].as_object_mut().unwrap().remove("role");
            prop_assert_eq!(without(&payload, &[span]), less, "{}", payload);
        }
    }

    #[test]
    fn a_text_cut_between_any_two_escapes_joins_again(text in "\\PC{0,30}", seed in any::<u64>(), at in any::<prop::sample::Index>()) {
        let escaped = Style::new(seed).write(&Value::String(text.clone()));
        let escaped = escaped.trim();
        let inner = &escaped[1..escaped.len() - 1];
        // Cut points as a server has them that sends UTF-16 units: never inside an escape or a character.
        let mut units = Vec::new();
        let mut rest = inner;
        while let Some(first) = rest.chars().next() {
            let len = match (first, rest.as_bytes().get(1)) {
                ('\\', Some(b'u')) => 6,
                ('\\', _) => 2,
                _ => first.len_utf8(),
            };
            let (unit, behind) = rest.split_at(len);
            units.push(unit);
            rest = behind;
        }
        let cut = at.index(units.len() + 1);
        let mut joined = String::new();
        for part in [units[..cut].concat(), units[cut..].concat()] {
            let payload = format!(r#"{{"choices":[{{"index":0,"delta":{{"content":"{part}"}}}}]}}"#);
            let Reading::Delta(delta) = reading(payload.as_bytes()) else { panic!("{payload}") };
            delta.text.iter().for_each(|span| joined.push_str(&payload[span.start..span.end]));
        }
        prop_assert_eq!(serde_json::from_str::<String>(&format!("\"{joined}\"")).unwrap(), text);
    }

    #[test]
    fn a_completion_streams_what_it_says(value in chunks(), seed in any::<u64>()) {
        let body = Style::new(seed).write(&value).replace("delta", "message");
        let mut reader = Reader::default();
        let Body::Completion { usage, .. } = reader.read_body(body.as_bytes()) else { return Ok(()) };
        let Some(frames) = reader.completion_to_frames(&Bytes::from(body.clone()), true) else { return Ok(()) };
        let value: Value = serde_json::from_str(&body).unwrap();
        let mut texts = Vec::new();
        let mut out = Vec::new();
        for frame in frames {
            let payload = String::from_utf8(frame.wire().concat()).unwrap();
            reader.read(frame, &mut out);
            let Reading::Delta(delta) = &out.last().unwrap().reading else { panic!("{payload}") };
            let text = |span: &Span| value_at(&payload, Span { start: span.start + 5, end: span.end + 7 });
            texts.extend(delta.text.iter().map(text));
        }
        let streamed = Says::of(&serde_json::from_str(&body.replace("message", "delta")).unwrap());
        let Says::Delta(said) = streamed else { panic!("{value}") };
        prop_assert_eq!(texts, said.without_legacy(&value), "{}", body);
        if reference::usage(&value["usage"]).is_some() {
            let Reading::Delta(last) = &out.last().unwrap().reading else { panic!("{body}") };
            prop_assert_eq!(last.usage, usage);
        }
    }

    #[test]
    fn the_peek_agrees_with_serde_json(value in requests(), seed in any::<u64>()) {
        let body = Style::new(seed).write(&value);
        let Ok(peek) = peek(body.as_bytes()) else {
            let good = value["model"].as_str().is_some_and(|model| !model.is_empty())
                && matches!(value["stream"], Value::Null | Value::Bool(_))
                && matches!(value["messages"], Value::Null | Value::Array(_));
            prop_assert!(!good || value.get("n").or(value.get("max_tokens")).is_some(), "{}", body);
            return Ok(());
        };
        prop_assert_eq!(Some(&*peek.model), value["model"].as_str());
        prop_assert_eq!(value_at(&body, peek.model_span), value["model"].clone());
        prop_assert_eq!(peek.stream, value["stream"] == true);
        prop_assert_eq!(peek.n, value["n"].as_u64().unwrap_or(1));
        prop_assert_eq!(peek.max_tokens.map(|limit| limit.value), value["max_tokens"].as_u64());
        prop_assert_eq!(peek.include_usage, value["stream_options"]["include_usage"] == true);
        let mut asked = value.clone();
        if let Some(ask) = peek.usage_ask {
            let body = [&body[..ask.span.start], ask.with, &body[ask.span.end..]].concat();
            asked["stream_options"]["include_usage"] = Value::from(true);
            prop_assert_eq!(serde_json::from_str::<Value>(&body).unwrap(), asked, "{}", body);
        }
        prop_assert_eq!(peek.usage_ask.is_some(), peek.stream && !peek.include_usage);
        let messages = peek.messages.map(|span| value_at(&body, span));
        prop_assert_eq!(messages.unwrap_or(Value::Null), value["messages"].clone());
        let Some(outline) = peek.messages.and_then(|span| outline(body.as_bytes(), span)) else { return Ok(()) };
        let list = value["messages"].as_array().unwrap();
        prop_assert_eq!(outline.count, list.len());
        prop_assert_eq!(outline.first.map(|first| value_at(&body, first.span)), list.first().cloned());
        prop_assert_eq!(outline.last.map(|last| value_at(&body, last.span)), list.last().cloned());
    }
}
