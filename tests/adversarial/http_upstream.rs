//! Answers in HTTP that is odd, faulty or cut; and what may be used again afterwards.

use std::io::Write;

use serde_json::json;

use crate::support::openai::{
    LAST_CHUNK, STREAM_HEAD, ask, ch, chunk, completion, done, response, role, stream,
};
use crate::support::upstream::send;
use crate::support::*;
use crate::trial::*;

fn hello() -> Vec<u8> {
    [role(), chunk("Hello"), ending()].concat()
}

/// A 200 event stream with these header lines and this raw body, then a FIN.
fn raw(fields: &str, body: &[u8]) -> Script {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{fields}\r\n");
    vec![Step::Send([head.as_bytes(), body].concat()), Step::Fin]
}

const CHUNKED: &str = "Transfer-Encoding: chunked\r\n";

#[test]
fn chunked_coding_in_every_legal_spelling() {
    let body = hello();
    let as_chunk = |size: &str, last: &str| {
        raw(CHUNKED, &[size.as_bytes(), b"\r\n", &body, b"\r\n", last.as_bytes()].concat())
    };
    let len = body.len();
    let cases = [
        ("upper case", format!("{len:X}"), "0\r\n\r\n"),
        ("leading zeros", format!("{len:016x}"), "00000\r\n\r\n"),
        ("spaces behind the size", format!("{len:x} \t "), "0 \r\n\r\n"),
        ("an extension", format!("{len:x};a"), "0;b=c\r\n\r\n"),
        ("a quoted extension", format!("{len:x} ; a = \"x;y \\\" z\" ;b"), "0\r\n\r\n"),
        ("trailers", format!("{len:x}"), "0\r\nContent-Length: 3\r\nX-A:\r\nTransfer-Encoding: gzip\r\n\r\n"),
        ("15 KiB of extension", format!("{len:x};{}", "x".repeat(15_000)), "0\r\n\r\n"),
    ];
    let mut trials: Vec<_> =
        cases.iter().map(|(name, size, last)| trial(*name, as_chunk(size, last), answer("Hello"))).collect();
    for (name, fields) in [
        ("Chunked in capitals", "Transfer-Encoding: CHUNKED\r\n"),
        ("with a tab", "Transfer-Encoding:\tchunked \r\n"),
        ("beside a length", "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"),
        ("a space before the colon", "Transfer-Encoding : chunked\r\n"),
    ] {
        trials.push(trial(name, raw(fields, &[ch(&body), LAST_CHUNK.to_vec()].concat()), answer("Hello")));
    }
    run_all(trials);
}

#[test]
fn broken_chunks_are_a_failure_before_and_after_content() {
    let broken: [(&str, &[u8]); 14] = [
        ("letters", b"zz\r\n"),
        ("a sign", b"+5\r\ndata:\r\n"),
        ("negative", b"-1\r\n"),
        ("0x", b"0x5\r\ndata:\r\n"),
        ("empty", b"\r\n\r\n"),
        ("a space before", b" 5\r\ndata:\r\n"),
        ("17 digits", b"00000000000000005\r\ndata:\r\n"),
        ("overflow", b"fffffffffffffffff\r\n"),
        ("a bare LF", b"5\ndata:\n"),
        ("a bare CR", b"5\rdata:\r\n"),
        ("no CRLF behind the data", b"5\r\ndata:5\r\n"),
        ("more data than said", b"4\r\ndata: x\r\n"),
        ("a control byte in an extension", b"5;a=\x01\r\ndata:\r\n"),
        ("a trailer without a colon", b"0\r\nX-Y\r\n\r\n"),
    ];
    let mut trials = Vec::new();
    for (name, bytes) in broken {
        trials.push(trial(format!("{name}: first"), raw(CHUNKED, bytes), Want::Instead));
        let after = raw(CHUNKED, &[&ch([role(), chunk("Hel")].concat()), bytes].concat());
        trials.push(trial(format!("{name}: behind text"), after, Want::Recovered("Hello".into())));
    }
    let long = format!("5;{}\r\ndata:\r\n", "x".repeat(20_000));
    trials.push(trial("20 KiB of extension", raw(CHUNKED, long.as_bytes()), Want::Instead));
    let trailers = format!("0\r\n{}\r\n", "X-A: b\r\n".repeat(4000));
    trials.push(trial(
        "32 KiB of trailers",
        raw(CHUNKED, &[&ch(chunk("Hel"))[..], trailers.as_bytes()].concat()),
        Want::Recovered("Hello".into()),
    ));
    run_all(trials);
}

#[test]
fn lengths_are_kept_to_the_byte() {
    let (body, part) = (hello(), [role(), chunk("Hel")].concat());
    let said = |n: usize| format!("Content-Length: {n}\r\n");
    let len = body.len();
    run_all(vec![
        trial("exact", raw(&said(len), &body), answer("Hello")),
        trial("the same twice", raw(&format!("{0}{0}", said(len)), &body), answer("Hello")),
        trial(
            "a list of the same",
            raw(&format!("Content-Length: {len}, {len}\r\n"), &body),
            answer("Hello"),
        ),
        trial("one too many, all finished", raw(&said(len + 1), &body), answer("Hello")),
        trial("more than comes", raw(&said(4000), &part), Want::Recovered("Hello".into())),
        trial(
            "less than comes",
            raw(&said(part.len()), &[&part[..], &chunk("NEVER")].concat()),
            Want::Recovered("Hello".into()),
        ),
        trial(
            "inside a frame",
            raw(&said(part.len() + 150), &[&part[..], &chunk("NEVER"), &ending()].concat()),
            Want::Recovered("Hello".into()),
        ),
        trial("two that differ", raw("Content-Length: 10\r\nContent-Length: 11\r\n", &body), Want::Instead),
        trial("negative", raw("Content-Length: -1\r\n", &body), Want::Instead),
        trial("a sign", raw("Content-Length: +10\r\n", &body), Want::Instead),
        trial(
            "too large for any number",
            raw("Content-Length: 99999999999999999999\r\n", &body),
            Want::Instead,
        ),
        trial("an unknown coding", raw("Transfer-Encoding: gzip\r\n", &body), Want::Instead),
        trial(
            "chunked twice",
            raw("Transfer-Encoding: chunked, chunked\r\n", &[ch(&body), LAST_CHUNK.to_vec()].concat()),
            Want::Instead,
        ),
        trial("no framing, until the end", raw("", &body), answer("Hello")),
        trial(
            "no framing, a reset",
            [raw("", &part)[..1].to_vec(), vec![Step::Pause(ms(30)), Step::Rst]].concat(),
            Want::Recovered("Hello".into()),
        ),
    ]);
}

#[test]
fn heads_that_are_odd_and_heads_that_are_none() {
    let body = [ch(hello()), LAST_CHUNK.to_vec()].concat();
    let head = |start: &str, fields: &str| {
        send([start.as_bytes(), b"\r\n", fields.as_bytes(), b"\r\n", &body].concat())
    };
    let usual = "Content-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n";
    let pad =
        |n: usize, len: usize| (0..n).map(|i| format!("X-{i}: {}\r\n", "p".repeat(len))).collect::<String>();
    let good = |name: &str, script| trial(name, script, answer("Hello"));
    let bad = |name: &str, script| trial(name, script, Want::Instead);
    run_all(vec![
        good("no reason", head("HTTP/1.1 200", usual)),
        good("an empty reason", head("HTTP/1.1 200 ", usual)),
        good("a reason in UTF-8", head("HTTP/1.1 200 Très bien", usual)),
        good(
            "bare LF",
            send(
                [
                    &b"HTTP/1.1 200 OK\nContent-Type: text/event-stream\nTransfer-Encoding: chunked\n\n"[..],
                    &body,
                ]
                .concat(),
            ),
        ),
        good("two hundred fields", head("HTTP/1.1 200 OK", &format!("{usual}{}", pad(198, 10)))),
        good("60 KiB", head("HTTP/1.1 200 OK", &format!("{usual}{}", pad(60, 1000)))),
        good("bytewise", vec![Step::Bytewise { bytes: stream(&["Hello"]), gap: ms(0) }]),
        good(
            "five interim heads",
            send([b"HTTP/1.1 100 Continue\r\n\r\n".repeat(5), stream(&["Hello"])].concat()),
        ),
        bad("two hundred and one fields", head("HTTP/1.1 200 OK", &format!("{usual}{}", pad(199, 10)))),
        bad("80 KiB", head("HTTP/1.1 200 OK", &format!("{usual}{}", pad(80, 1000)))),
        bad("HTTP/2.0", head("HTTP/2.0 200 OK", usual)),
        bad("HTTP/0.9", send(&b"data: hello\n\n"[..])),
        bad("SSH", send(&b"SSH-2.0-OpenSSH_9.6\r\n"[..])),
        bad("TLS alert", send(&b"\x15\x03\x01\x00\x02\x02\x46"[..])),
        bad("small letters", head("http/1.1 200 OK", usual)),
        bad("a status of letters", head("HTTP/1.1 2OO OK", usual)),
        bad("a status of two digits", head("HTTP/1.1 20 OK", usual)),
        bad("a folded line", head("HTTP/1.1 200 OK", &format!("{usual}X-A: 1\r\n 2\r\n"))),
        bad("NUL in a value", head("HTTP/1.1 200 OK", &format!("{usual}X-A: a\0b\r\n"))),
        bad("a name with a space", head("HTTP/1.1 200 OK", &format!("{usual}X A: 1\r\n"))),
        bad("HTTP/1.0 in chunks", head("HTTP/1.0 200 OK", usual)),
        bad("a close inside the head", vec![Step::Send(b"HTTP/1.1 200 OK\r\nContent-".to_vec()), Step::Fin]),
        bad("a reset at once", vec![Step::Rst]),
        bad("a close at once", vec![Step::Fin]),
    ]);
}

fn gzip(parts: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut out: Vec<Vec<u8>> = parts
        .iter()
        .map(|part| {
            encoder.write_all(part).unwrap();
            encoder.flush().unwrap();
            std::mem::take(encoder.get_mut())
        })
        .collect();
    out.push(encoder.finish().unwrap());
    out
}

#[test]
fn coded_bodies_that_nobody_asked_for() {
    let parts = gzip(&[role(), chunk("Hel"), chunk("lo"), ending()]);
    let (whole, fields) = (parts.concat(), format!("{CHUNKED}Content-Encoding: gzip\r\n"));
    let bytewise: Vec<u8> = whole.chunks(1).flat_map(ch).collect();
    let half = ch(parts[..2].concat());
    let mut deflate = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::fast());
    deflate.write_all(&hello()).unwrap();
    let two = [gzip(&[role(), chunk("Hello")]).concat(), gzip(&[ending()]).concat()].concat();
    let last = LAST_CHUNK.to_vec();
    let not_labelled = |r: &Response| assert!(r.header("content-encoding").is_none());
    run_all(vec![
        trial("in one chunk", raw(&fields, &[ch(&whole), last.clone()].concat()), answer("Hello"))
            .also(not_labelled),
        trial("a chunk a byte", raw(&fields, &[bytewise, last.clone()].concat()), answer("Hello")),
        trial(
            "with a length",
            raw(&format!("Content-Length: {}\r\ncontent-encoding: X-GZIP\r\n", whole.len()), &whole),
            answer("Hello"),
        ),
        trial("two members", raw(&fields, &[ch(two), last.clone()].concat()), answer("Hello")),
        trial(
            "raw deflate",
            raw(
                &format!("{CHUNKED}Content-Encoding: deflate\r\n"),
                &[ch(deflate.finish().unwrap()), last.clone()].concat(),
            ),
            answer("Hello"),
        ),
        trial(
            "identity",
            raw(&format!("{CHUNKED}Content-Encoding: identity\r\n"), &[ch(hello()), last.clone()].concat()),
            answer("Hello"),
        ),
        trial("cut", raw(&fields, &half), Want::Recovered("Hello".into())),
        trial(
            "cut, and ended as if whole",
            raw(&fields, &[half, last.clone()].concat()),
            Want::Recovered("Hello".into()),
        ),
        trial("labelled, but plain", raw(&fields, &[ch(hello()), last.clone()].concat()), Want::Instead),
        trial(
            "unknown",
            raw(&format!("{CHUNKED}Content-Encoding: zstd\r\n"), &[ch(&whole), last].concat()),
            Want::Instead,
        ),
    ]);
}

#[test]
fn an_answer_before_the_body_was_read_is_an_answer() {
    let mut large = ask("chat");
    large["messages"][0]["content"] = json!("x".repeat(8 << 20));
    let refused = response(
        "400 Bad Request",
        "application/json",
        r#"{"error":{"message":"too much","type":"invalid_request_error","param":null,"code":null}}"#,
    );
    let early = |bytes: Vec<u8>, then: Vec<Step>| [vec![Step::ReadHead, Step::Send(bytes)], then].concat();
    run_all(vec![
        trial(
            "a refusal, then a close",
            early(refused.clone(), vec![Step::Pause(ms(50)), Step::Fin]),
            Want::Refused(400),
        )
        .asking(large.clone()),
        trial(
            "a refusal, kept open",
            early(refused, vec![Step::Pause(ms(300)), Step::Fin]),
            Want::Refused(400),
        )
        .asking(large.clone()),
        trial("a stream", early(stream(&["Hello"]), vec![Step::Pause(ms(50)), Step::Fin]), answer("Hello"))
            .asking(large.clone()),
        trial(
            "busy",
            early(response("503 Busy", "application/json", "{}"), vec![Step::Pause(ms(50)), Step::Fin]),
            Want::Instead,
        )
        .asking(large.clone()),
        trial("a reset inside the body", vec![Step::ReadHead, Step::Rst], Want::Instead).asking(large),
    ]);
}

/// Two requests of one client; says over how many connections they reached the upstream.
fn connections_for_two(first: Script) -> usize {
    let upstream = ScriptedUpstream::with_fallback(vec![first], send(stream(&["two"])));
    let proxy = Proxy::start(&Config::chat([&upstream.addr]).set("routes.chat", "settle", "\"200ms\""));
    let mut client = proxy.connect();
    client.ask(&ask("chat")).response();
    let mut client = if client.is_idle_for(ms(30)) { client } else { proxy.connect() };
    client.ask(&ask("chat")).response().assert_success("two");
    assert_eq!(upstream.request_count(), 2);
    upstream.connection_count()
}

#[test]
fn only_a_connection_at_a_clean_end_is_used_again() {
    let body = hello();
    let keep = |fields: &str, body: &[u8]| {
        let head = format!("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{fields}\r\n");
        send([head.as_bytes(), body].concat())
    };
    let whole = [ch(&body), LAST_CHUNK.to_vec()].concat();
    let mut old = response("200 OK", "text/event-stream", &body);
    old[7] = b'0';
    let old = send(old);
    let cases = [
        ("chunks", keep(CHUNKED, &whole), 1),
        ("trailers", keep(CHUNKED, &[&ch(&body)[..], b"0\r\nContent-Length: 9\r\n\r\n"].concat()), 1),
        ("a length", keep(&format!("Content-Length: {}\r\n", body.len()), &body), 1),
        ("a refusal", send(response("404 Not Found", "application/json", r#"{"error":{"message":"x"}}"#)), 1),
        ("a refusal without a body", send(response("400 Bad Request", "text/plain", "")), 1),
        ("a completion", send(response("200 OK", "application/json", completion("x").to_string())), 1),
        ("a length and chunks", keep("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n", &whole), 2),
        ("bytes behind the end", keep(CHUNKED, &[&whole[..], b"HTTP/1.1 200 OK\r\n\r\n"].concat()), 2),
        (
            "Connection: close",
            keep("Connection: keep-alive, Close\r\nTransfer-Encoding: chunked\r\n", &whole),
            2,
        ),
        ("no last chunk", keep(CHUNKED, &ch(&body)), 2),
        ("no last chunk and no [DONE]", keep(CHUNKED, &ch(&body[..body.len() - done().len()])), 2),
        ("HTTP/1.0", old, 2),
    ];
    for (name, first, want) in cases {
        assert_eq!(connections_for_two(first), want, "{name}");
    }
}

#[test]
fn what_a_pooled_connection_may_do_to_the_next_request() {
    let ok = || Step::Send(stream(&["one"]));
    let first_of_two = |then: Vec<Step>| [vec![ok(), Step::NextRequest], then].concat();
    let beginning = [STREAM_HEAD, &ch([role(), chunk("tw")].concat())].concat();
    // Whether the second request is asked again on a new connection, and what its client sees.
    let cases: [(&str, Script, usize, &str); 4] = [
        ("a close when idle", vec![ok(), Step::Pause(ms(20)), Step::Fin], 2, "two"),
        ("a reset without a byte", first_of_two(vec![Step::Rst]), 3, "two"),
        ("a close without a byte", first_of_two(vec![Step::Fin]), 3, "two"),
        ("a close in mid-answer", first_of_two(vec![Step::Send(beginning), Step::Fin]), 2, ""),
    ];
    for (name, first, requests, text) in cases {
        let upstream = ScriptedUpstream::with_fallback(vec![first], send(stream(&["two"])));
        let proxy = Proxy::start(&Config::chat([&upstream.addr]));
        proxy.ask(&ask("chat")).response().assert_success("one");
        std::thread::sleep(ms(60));
        let response = proxy.ask(&ask("chat")).response();
        if text.is_empty() {
            response.assert_failed_after("tw");
        } else {
            response.assert_success(text);
        }
        assert_eq!(upstream.request_count(), requests, "{name}");
    }
}
