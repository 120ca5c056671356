//! Event streams as no standard client would write them, and HTTP around them cut anywhere.

use crate::support::openai::{LAST_CHUNK, STREAM_HEAD, ch, chunk, done, ev, finish};
use crate::support::*;
use crate::trial::*;

fn p(text: &str) -> String {
    json_of(&chunk(text))
}

fn fin() -> String {
    json_of(&finish("stop"))
}

/// Event streams that all say `Hello`.
fn hellos() -> Vec<(&'static str, Vec<u8>)> {
    let (hel, lo, fin, rest) = (p("Hel"), p("lo"), fin(), [chunk("lo"), ending()].concat());
    let rest = String::from_utf8(rest).unwrap();
    let (first, last) = hel.split_at(40);
    let text = vec![
        ("LF then CR ends an event", format!("data: {hel}\n\rdata: {lo}\n\r{}", text(&ending()))),
        (
            "every mixture of line ends",
            format!("data: {hel}\r\n\ndata: {lo}\n\r\ndata: {fin}\r\r\ndata: [DONE]\r\n\r\n"),
        ),
        ("CR then CRLF", format!("data:{hel}\r\r\ndata:{lo}\r\r\ndata:{fin}\r\r\ndata:[DONE]\r\r\n")),
        ("a mark, then a comment", format!("\u{feff}: hello\n\ndata: {hel}\n\n{rest}")),
        ("a mark, then blank lines", format!("\u{feff}\r\n\r\n\ndata: {hel}\n\n{rest}")),
        ("blank lines everywhere", format!("\n\n\n\ndata: {hel}\n\n\n\r\n\r\n{rest}\n\n\n")),
        ("a comment inside an event", format!("data: {first}\n: not now\ndata: {last}\n\n{rest}")),
        ("comments without a space or a text", format!(":\n:\n\n::\n:data: {lo}\n\ndata: {hel}\n\n{rest}")),
        ("unknown fields", format!("foo: 1\ndata: {hel}\nbar\nbaz:\n\n{rest}")),
        (
            "fields that only begin like data",
            format!("dat: {lo}\ndatax: {lo}\ndata : {lo}\nDATA: {lo}\n data: {lo}\ndata: {hel}\n\n{rest}"),
        ),
        ("an id with NUL, retry with words", format!("id: a\0b\nretry: soon\ndata: {hel}\n\n{rest}")),
        ("event: message", format!("event: message\ndata: {hel}\n\n{rest}")),
        (
            "event: completion, which is no error",
            format!("event: completion\ndata: {hel}\n\nevent: delta\n{rest}"),
        ),
        ("event: behind the data", format!("data: {hel}\nevent: chunk\nid: 3\n\n{rest}")),
        ("an event without data, then data", format!("event: error\n\ndata: {hel}\n\n{rest}")),
        (
            "a comment that reads like an error",
            format!(": {{\"error\":{{\"message\":\"x\"}}}}\n\ndata: {hel}\n\n{rest}"),
        ),
        ("data without colon before and behind", format!("data\ndata: {hel}\ndata\n\ndata\n\n{rest}")),
        ("empty data lines around", format!("data:\ndata: \ndata: {hel}\ndata:\n\n{rest}")),
    ];
    text.into_iter().map(|(name, text)| (name, text.into_bytes())).chain(ended_hellos()).collect()
}

/// The same with odd ends, and with data that says nothing.
fn ended_hellos() -> Vec<(&'static str, Vec<u8>)> {
    let (hel, lo, fin, rest) = (p("Hel"), p("lo"), fin(), [chunk("lo"), ending()].concat());
    let rest = String::from_utf8(rest).unwrap();
    let text = vec![
        (
            "JSON lines without blank lines, [DONE] too",
            format!("data: {hel}\ndata: {lo}\ndata: {fin}\ndata: [DONE]\n\n"),
        ),
        (
            "the same with comments between",
            format!("data: {hel}\n: x\ndata: {lo}\n: y\ndata: {fin}\ndata: [DONE]\n\n"),
        ),
        ("the same, never a blank line", format!("data: {hel}\ndata: {lo}\ndata: {fin}\ndata: [DONE]\n")),
        ("white space around the JSON", format!("data: \t {hel}\t  \n\n{rest}")),
        ("[DONE] with tabs", format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}\n\ndata:\t[DONE]\t\n\n")),
        (
            "[DONE] under an event name",
            format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}\n\nevent: done\ndata: [DONE]\n\n"),
        ),
        ("[DONE] without any line end", format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}\n\ndata: [DONE]")),
        ("a finish without any line end", format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}")),
        (
            "[DONE] cut short behind a finish",
            format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}\n\ndata: [DO"),
        ),
        ("[done] in small letters", format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}\n\ndata: [done]\n\n")),
        (
            "[DONE] as a JSON text",
            format!("data: {hel}\n\ndata: {lo}\n\ndata: {fin}\n\ndata: \"[DONE]\"\n\n"),
        ),
        ("[DONE] without a finish", format!("data: {hel}\n\ndata: {lo}\n\ndata: [DONE]\n\n")),
        (
            "pings of every kind",
            format!(
                "event: ping\ndata:\n\nevent: ping\ndata: {{}}\n\ndata: {{}}\n\ndata: null\n\ndata: {hel}\n\nevent: heartbeat\ndata: 1712\n\nevent: keepalive\ndata: alive\n\n{rest}"
            ),
        ),
        (
            "an error behind [DONE]",
            format!("data: {hel}\n\n{rest}data: {{\"error\":{{\"message\":\"late\"}}}}\n\n"),
        ),
        (
            "garbage behind [DONE]",
            format!(
                "data: {hel}\n\n{rest}data: {{\"choices\":[{{\"delta\":{{\"content\":\"BRO\n\n<html>\n\n"
            ),
        ),
    ];
    text.into_iter().map(|(name, text)| (name, text.into_bytes())).collect()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Longer than a page: what is large, and what is many.
fn large_hellos() -> Vec<(&'static str, Vec<u8>)> {
    let (hel, rest) = (p("Hel"), [chunk("lo"), ending()].concat());
    let tail = |head: String| [head.as_bytes(), &rest].concat();
    let pretty =
        serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(&hel).unwrap()).unwrap();
    let pretty = pretty.lines().map(|l| format!("data: {l}\n")).collect::<String>();
    vec![
        ("JSON over many data lines", tail(format!("{pretty}\n"))),
        ("the same with CR", tail(format!("{pretty}\n").replace('\n', "\r"))),
        ("a thousand empty data lines", tail(format!("{}data: {hel}\n\n", "data:\n".repeat(1000)))),
        ("a comment of a MiB", tail(format!(": {}\n\ndata: {hel}\n\n", "x".repeat(1 << 20)))),
        ("an unknown field of a MiB", tail(format!("\nx: 1\nx{}: 1\ndata: {hel}\n\n", "x".repeat(1 << 20)))),
        ("ten thousand comments", tail(format!("{}data: {hel}\n\n", ": ping\n\n".repeat(10_000)))),
        ("ten thousand ids", tail(format!("{}data: {hel}\n\n", "id: 1\nretry: 2\n\n".repeat(10_000)))),
        ("a payload that is mostly white space", tail(format!("data: {}{hel}\n\n", " ".repeat(300_000)))),
    ]
}

// [W2]
#[test]
fn every_spelling_of_hello_is_read_in_every_delivery() {
    let mut trials = Vec::new();
    for (name, body) in hellos() {
        trials.push(trial(format!("{name}, in one chunk"), streams(&body), answer("Hello")));
        let chunks: Vec<u8> = body.chunks(1).flat_map(ch).collect();
        let bytewise = [STREAM_HEAD, &chunks, LAST_CHUNK].concat();
        trials.push(trial(format!("{name}, a chunk a byte"), vec![Step::Send(bytewise)], answer("Hello")));
        let head = &b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"[..];
        let script = vec![Step::Send(head.to_vec()), Step::Bytewise { bytes: body, gap: ms(0) }, Step::Fin];
        trials.push(trial(format!("{name}, byte by byte until the end"), script, answer("Hello")));
    }
    for (name, body) in large_hellos() {
        trials.push(trial(name, streams(&body), answer("Hello")));
    }
    run_all(trials);
}

#[test]
fn characters_that_other_splitters_take_for_line_ends_stay_in_the_text() {
    let odd = "a\u{2028}b\u{2029}c\u{85}d\u{feff}e\u{fffd}f\u{200d}g\u{1f468}\u{200d}\u{1f469}h\u{10ffff}";
    let raw = [chunk(odd), ending()].concat();
    let split: Vec<u8> = raw.chunks(1).flat_map(ch).collect();
    run_all(vec![
        trial("in one chunk", streams(&raw), answer(odd)),
        trial("a chunk a byte", vec![Step::Send([STREAM_HEAD, &split, LAST_CHUNK].concat())], answer(odd)),
    ]);
}

// [W3]
#[test]
fn invalid_utf_8_never_reaches_the_client() {
    let with = |bytes: &[u8]| {
        let frame = chunk("aXb");
        let at = find(&frame, b"X").unwrap();
        [&frame[..at], bytes, &frame[at + 1..], &ending()].concat()
    };
    let cases: [(&str, &[u8], &str); 6] = [
        ("a lone continuation", b"\x80", "a\u{fffd}b"),
        ("a start without its rest", b"\xe4\xbd", "a\u{fffd}b"),
        ("an overlong slash", b"\xc0\xaf", "a\u{fffd}\u{fffd}b"),
        ("a surrogate half in three bytes", b"\xed\xa0\xbd", "a\u{fffd}\u{fffd}\u{fffd}b"),
        ("past the last character", b"\xf4\x90\x80\x80", "a\u{fffd}\u{fffd}\u{fffd}\u{fffd}b"),
        ("FE and FF", b"\xfe\xff", "a\u{fffd}\u{fffd}b"),
    ];
    run_all(
        cases.iter().map(|(name, bytes, want)| trial(*name, streams(with(bytes)), answer(want))).collect(),
    );
}

#[test]
fn what_only_looks_like_an_end_is_none() {
    let hel = chunk("Hel");
    let whole = chunk("lo");
    let half = &whole[..find(&whole, b"lo").unwrap() + 1];
    let close = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";
    let until_close = |body: &[u8]| vec![Step::Send([close, body].concat()), Step::Fin];
    let recovered = || Want::Recovered("Hello".to_owned());
    run_all(vec![
        trial("a close behind a frame", until_close(&hel), recovered()),
        trial("a close inside a frame", until_close(&[&hel, half].concat()), recovered()),
        trial("a close inside [DONE]", until_close(&[&hel[..], b"data: [DON"].concat()), recovered()),
        trial("a last chunk inside a frame", streams([&hel, half].concat()), recovered()),
        trial("[DONE] behind half a frame", streams([&hel, half, b"\n\n", &done()].concat()), recovered()),
        trial("[DONE] and no last chunk", cut([&hel[..], &done()].concat()), recovered()),
        trial(
            "a quoted finish",
            streams([&hel[..], &ev(r#"{"x":"\"finish_reason\":\"stop\""}"#)].concat()),
            recovered(),
        ),
        trial("an empty finish_reason", streams([hel.clone(), finish("")].concat()), recovered()),
        trial("a frame past the limit", streams([&hel[..], &ev("z".repeat(70_000))].concat()), recovered())
            .with(|c| c.set("limits", "frame_bytes", "\"64KiB\"")),
        trial("a line past the limit", streams([&hel[..], b": ", &vec![b'z'; 70_000]].concat()), recovered())
            .with(|c| c.set("limits", "frame_bytes", "\"64KiB\"")),
    ]);
}
