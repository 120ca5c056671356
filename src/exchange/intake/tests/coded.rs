//! Answers in a content coding: each event is shown as soon as it was flushed, and the coding is taken off.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;

fn gzip_in_flushes(parts: &[&str]) -> Vec<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    let mut reads = Vec::new();
    for part in parts {
        encoder.write_all(part.as_bytes()).unwrap();
        encoder.flush().unwrap();
        reads.push(std::mem::take(encoder.get_mut()));
    }
    reads.push(encoder.finish().unwrap());
    reads
}

/// The three events in brotli, flushed after each, then the end: made with the `brotli` crate's encoder, since
/// the project has none.
fn brotli_in_flushes() -> Vec<Vec<u8>> {
    let mut first = vec![3, 7, 128];
    first.extend_from_slice(b"data: {\"a\":1}\n\n");
    vec![
        first,
        vec![112, 0, 0, 64, 82, 65, 166, 175, 68, 1, 38, 132, 53],
        vec![104, 0, 0, 64, 192, 67, 214, 95, 51, 149, 117, 83, 4, 232, 18, 128, 166, 198, 7, 3],
        vec![3],
    ]
}

const PARTS: [&str; 3] = ["data: {\"a\":1}\n\n", "data: {\"a\":2}\n\n", "data: [DONE]\n\n"];

#[test]
fn coded_bodies_show_each_event_as_soon_as_it_was_flushed() {
    for (coding, reads) in [("gzip", gzip_in_flushes(&PARTS)), ("br", brotli_in_flushes())] {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n\r\n");
        let mut intake = Intake::new(Shape::ChatStream, LIMITS);
        let mut facts = Facts::new();
        intake.feed(Bytes::from(head), &mut facts);
        let Some(Fact::Head(head)) = facts.pop() else { panic!("no head") };
        assert_eq!(head.headers.get("content-encoding"), None, "relabelled");
        for (part, read) in PARTS.iter().zip(&reads) {
            intake.feed(Bytes::copy_from_slice(read), &mut facts);
            let Some(Fact::Frames(frames)) = facts.pop() else { panic!("{coding}: {part:?} was not shown") };
            assert_eq!(frames.len(), 1);
            let payload: Vec<u8> = frames[0].payload().flatten().collect();
            assert_eq!(format!("data: {}\n\n", String::from_utf8(payload).unwrap()), *part, "{coding}");
        }
    }
}

#[test]
fn coded_bodies_are_the_same_wherever_they_are_cut() {
    for (coding, reads) in [("gzip", gzip_in_flushes(&PARTS)), ("br", brotli_in_flushes())] {
        let coded = reads.concat();
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
            coded.len()
        );
        let mut input = head.into_bytes();
        input.extend_from_slice(&coded);
        let seen = take_cut_anywhere(coding, Shape::ChatStream, &input, End::Open);
        assert_eq!(seen.frames, THREE, "{coding}");
        assert_eq!((seen.end, seen.may_reuse), (Some(Ok(())), true), "{coding}");

        // The length was that of the coded bytes: it must not be announced to a client.
        let mut intake = Intake::new(Shape::ChatPlain, LIMITS);
        let mut facts = Facts::new();
        intake.feed(Bytes::from(input), &mut facts);
        let Some(Fact::Head(head)) = facts.first() else { panic!("no head") };
        assert_eq!(head.framing, Framing::UntilClose);
    }
    for (name, coding, body) in [("unknown", "zstd", "x"), ("broken", "gzip", "data: {}\n\n")] {
        let input = format!("HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\n\r\n{body}");
        let seen = take_cut_anywhere(name, Shape::ChatStream, input.as_bytes(), End::Fin);
        assert_eq!(seen.end, protocol(), "{name}");
    }
}

#[test]
fn a_coding_that_is_taken_off_is_not_announced() {
    let mut headers = Headers::default();
    for name in ["content-type", "Content-Encoding", "x-other"] {
        headers.push(Bytes::from_static(name.as_bytes()), Bytes::from_static(b"1"));
    }
    let kept = without_coding(&headers);
    let names: Vec<_> = kept.iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["content-type", "x-other"]);
}
