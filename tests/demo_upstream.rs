//! The scripted upstream over TCP: what it sends, byte by byte, for every script.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test stops at the first surprise"
)]

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use baton::demo::{ScriptedUpstream, UpstreamOptions};
use baton::net::driver::Io;

/// No test takes nearly as long.
const HANG: Duration = Duration::from_secs(20);
/// How long nothing must come for an upstream to count as silent.
const SILENCE: Duration = Duration::from_millis(150);

const TEXT: &str = "one \"two\" thrée four";
const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
    transfer-encoding: chunked\r\n\r\n";
const LAST: &str = "0\r\n\r\n";

fn options() -> UpstreamOptions {
    UpstreamOptions { name: "m".to_owned(), text: TEXT.to_owned(), created: 7, ..UpstreamOptions::new("") }
}

fn start(io: Io) -> ScriptedUpstream {
    ScriptedUpstream::start(UpstreamOptions { io, ..options() }).unwrap()
}

fn on_both_drivers(test: impl Fn(&ScriptedUpstream)) {
    for io in [Io::Auto, Io::Epoll] {
        test(&start(io));
    }
}

fn connect(upstream: &ScriptedUpstream) -> TcpStream {
    let stream = TcpStream::connect(upstream.address()).unwrap();
    stream.set_read_timeout(Some(HANG)).unwrap();
    stream
}

/// A chat request with `more` among its members, after which the connection is to be closed.
fn chat(model: &str, more: &str) -> String {
    let body =
        format!(r#"{{"model":"{model}",{more}"messages":[{{"role":"user","content":"Say it, please."}}]}}"#);
    post(&body, "connection: close\r\n")
}

/// As [`chat`], with the answer begun.
fn chat_on(begun: &str) -> String {
    let body = serde_json::json!({"model": "healthy", "stream": true, "messages": [
        {"role": "user", "content": "Say it, please."}, {"role": "assistant", "content": begun}]});
    post(&body.to_string(), "connection: close\r\n")
}

fn post(body: &str, fields: &str) -> String {
    let length = body.len();
    format!("POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n{fields}content-length: {length}\r\n\r\n{body}")
}

/// What comes until the end, and how it ended.
fn ask(upstream: &ScriptedUpstream, request: &str) -> (String, Option<ErrorKind>) {
    let mut stream = connect(upstream);
    stream.write_all(request.as_bytes()).unwrap();
    let mut got = Vec::new();
    let error = stream.read_to_end(&mut got).err().map(|error| error.kind());
    (String::from_utf8(got).unwrap(), error)
}

fn chunk(data: &str) -> String {
    let frame = format!("data: {data}\n\n");
    format!("{:x}\r\n{frame}\r\n", frame.len())
}

fn choice(delta: &str, finish: &str) -> String {
    chunk(&format!(
        r#"{{"id":"chatcmpl-m","object":"chat.completion.chunk","created":7,"model":"m","choices":[{{"index":0,"delta":{delta},"finish_reason":{finish}}}]}}"#
    ))
}

fn role() -> String {
    choice(r#"{"role":"assistant","content":""}"#, "null")
}

/// A frame a word; the words as they stand in JSON.
fn words(words: &[&str]) -> String {
    words.iter().map(|word| choice(&format!(r#"{{"content":"{word}"}}"#), "null")).collect()
}

fn finish() -> String {
    choice("{}", r#""stop""#)
}

fn done() -> String {
    chunk("[DONE]") + LAST
}

const ALL: [&str; 4] = ["one ", r#"\"two\" "#, "thrée ", "four"];
const ERROR: &str = r#"{"error":{"message":"The scripted upstream was asked to fail.","type":"server_error","param":null,"code":"scripted"}}"#;

fn plain(status: &str, body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n{body}")
}

#[test]
fn a_healthy_answer_is_a_frame_a_word() {
    on_both_drivers(|upstream| {
        let want = HEAD.to_owned() + &role() + &words(&ALL) + &finish() + &done();
        for model in ["healthy", "gpt-4o"] {
            assert_eq!(ask(upstream, &chat(model, r#""stream":true,"#)), (want.clone(), None), "{model}");
        }
    });
}

#[test]
fn every_fault_of_a_stream_is_exact() {
    let garbage = chunk(
        r#"{"id":"chatcmpl-m","object":"chat.completion.chunk","created":7,"model":"m","choices":[{"index":0,"delta":{"content":"lo"#,
    );
    let begun = |count: usize| HEAD.to_owned() + &role() + &words(&ALL[..count]);
    let rate_limited = ERROR.replace("server_error", "rate_limit_error");
    let cases = [
        ("cut-fin-after-0", begun(0), None),
        ("cut-fin-after-2", begun(2), None),
        ("cut-fin-after-9", begun(4), None),
        ("cut-rst-after-2", begun(2), Some(ErrorKind::ConnectionReset)),
        ("garbage-after-2", begun(2) + &garbage + &words(&ALL[3..]) + &finish() + &done(), None),
        ("error-after-1", begun(1) + &chunk(ERROR) + LAST, None),
        ("refuse", String::new(), None),
        ("status-429", plain("429 Too Many Requests", &rate_limited), None),
        ("status-500", plain("500 Internal Server Error", ERROR), None),
        ("status-503", plain("503 Service Unavailable", ERROR), None),
    ];
    on_both_drivers(|upstream| {
        for (model, bytes, error) in &cases {
            let got = ask(upstream, &chat(model, r#""stream":true,"#));
            assert_eq!(got, (bytes.clone(), *error), "{model}");
        }
    });
}

#[test]
fn a_stall_and_a_silence_last_until_the_upstream_stops() {
    let begun = HEAD.to_owned() + &role() + &words(&ALL[..3]);
    for io in [Io::Auto, Io::Epoll] {
        let upstream = start(io);
        let mut waiting = Vec::new();
        for (model, want) in [("stall-after-3", &*begun), ("silent", "")] {
            let mut stream = connect(&upstream);
            stream.write_all(chat(model, r#""stream":true,"#).as_bytes()).unwrap();
            let mut got = vec![0; want.len()];
            stream.read_exact(&mut got).unwrap();
            assert_eq!(String::from_utf8(got).unwrap(), want, "{model}");
            stream.set_read_timeout(Some(SILENCE)).unwrap();
            let silence = stream.read_exact(&mut [0]).map_err(|error| error.kind());
            assert_eq!(silence, Err(ErrorKind::WouldBlock), "{model}");
            waiting.push(stream);
        }
        stops_in_time(upstream);
        for mut stream in waiting {
            stream.set_read_timeout(Some(HANG)).unwrap();
            assert_eq!(stream.read_to_end(&mut Vec::new()).unwrap(), 0);
        }
    }
}

#[test]
fn an_answer_that_was_begun_goes_on_behind_it() {
    let cases: [(&str, &[&str]); 6] = [
        ("one ", &ALL[1..]),
        ("one \"two\" thr", &["ée ", "four"]),
        ("one \"two\" thrée", &[" ", "four"]),
        (TEXT, &[]),
        ("", &ALL),
        ("One ", &ALL),
    ];
    on_both_drivers(|upstream| {
        for (begun, rest) in cases {
            let want = HEAD.to_owned() + &role() + &words(rest) + &finish() + &done();
            assert_eq!(ask(upstream, &chat_on(begun)), (want, None), "{begun:?}");
        }
    });
}

#[test]
fn usage_comes_only_if_it_is_asked_for() {
    let upstream = start(Io::Auto);
    // [{"role":"user","content":"Say it, please."}] has 45 bytes.
    let usage = chunk(
        r#"{"id":"chatcmpl-m","object":"chat.completion.chunk","created":7,"model":"m","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":4,"total_tokens":16}}"#,
    );
    let cases = [
        (r#""stream":true,"stream_options":{"include_usage":true},"#, usage.as_str()),
        (r#""stream":true,"stream_options":{"include_usage":false},"#, ""),
        (r#""stream":true,"stream_options":null,"#, ""),
    ];
    for (more, usage) in cases {
        let want = HEAD.to_owned() + &role() + &words(&ALL) + &finish() + usage + &done();
        assert_eq!(ask(&upstream, &chat("healthy", more)), (want, None), "{more}");
    }
}

#[test]
fn not_streamed_the_answer_is_one_object() {
    let whole = r#"{"id":"chatcmpl-m","object":"chat.completion","created":7,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"one \"two\" thrée four"},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":4,"total_tokens":16}}"#;
    let until = |text: &str| whole[..whole.find(text).unwrap()].to_owned();
    let cut = |text: &str| {
        let bytes = plain("200 OK", whole);
        bytes[..bytes.find(text).unwrap()].to_owned()
    };
    let cases = [
        ("healthy", plain("200 OK", whole), None),
        ("cut-fin-after-2", cut("thrée"), None),
        ("cut-rst-after-3", cut("four"), Some(ErrorKind::ConnectionReset)),
        ("garbage-after-1", plain("200 OK", &until("\\\"two")), None),
        ("error-after-1", plain("200 OK", ERROR), None),
        ("status-503", plain("503 Service Unavailable", ERROR), None),
        ("refuse", String::new(), None),
    ];
    on_both_drivers(|upstream| {
        for (model, bytes, error) in &cases {
            assert_eq!(ask(upstream, &chat(model, "")), (bytes.clone(), *error), "{model}");
        }
    });
}

#[test]
fn requests_follow_each_other_on_one_connection() {
    on_both_drivers(|upstream| {
        let mut stream = connect(upstream);
        let body = |model: &str| format!(r#"{{"model":"{model}","stream":true,"messages":[]}}"#);
        let chunked = "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n";
        // The second one's body is in chunks, and the third is cut within its head.
        let mut requests = post(&body("healthy"), "") + chunked;
        for piece in [&body("status-500")[..9], &body("status-500")[9..]] {
            requests += &format!("{:x}\r\n{piece}\r\n", piece.len());
        }
        requests += LAST;
        let third = "GET /v1/models HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
        stream.write_all((requests + &third[..20]).as_bytes()).unwrap();
        stream.write_all(&third.as_bytes()[20..]).unwrap();
        let mut got = String::new();
        stream.read_to_string(&mut got).unwrap();
        let healthy = HEAD.to_owned() + &role() + &words(&ALL) + &finish() + &done();
        let rest = got.strip_prefix(&healthy).expect("first the stream");
        let rest = rest.strip_prefix(&plain("500 Internal Server Error", ERROR)).expect("then the error");
        let json = rest.split_once("\r\n\r\n").unwrap().1;
        let models: serde_json::Value = serde_json::from_str(json).unwrap();
        assert_eq!(models["data"][0]["id"], "healthy");
        assert_eq!(models["data"].as_array().unwrap().len(), baton::demo::EXAMPLES.len());
    });
}

#[test]
fn what_it_does_not_understand_it_refuses() {
    let upstream = start(Io::Auto);
    let too_large = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n",
        (32 << 20) + 1
    );
    let cases = [
        ("no JSON", post("nonsense", "connection: close\r\n"), "400"),
        ("no model", post("{}", "connection: close\r\n"), "400"),
        ("path", "GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(), "404"),
        (
            "method",
            "GET /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n".to_owned(),
            "405",
        ),
        ("no HTTP", "hello?\r\n\r\n".to_owned(), "400"),
        ("HTTP/1.0", "GET /v1/models HTTP/1.0\r\n\r\n".to_owned(), "505"),
        ("a body over 32 MiB", too_large, "413"),
        (
            "a bad chunk",
            "POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nx\r\n"
                .to_owned(),
            "400",
        ),
    ];
    for (name, request, status) in cases {
        let (got, error) = ask(&upstream, &request);
        assert!(got.starts_with(&format!("HTTP/1.1 {status} ")), "{name}: {got}");
        assert!(got.contains("\"error\":{\"message\":"), "{name}: {got}");
        assert_eq!(error, None, "{name}");
    }
}

#[test]
fn a_body_of_32_mib_is_taken() {
    let upstream = start(Io::Auto);
    let start = r#"{"model":"healthy","messages":[{"role":"user","content":""#;
    let filler = "x".repeat((32 << 20) - start.len() - 4);
    let (got, error) = ask(&upstream, &post(&format!("{start}{filler}\"}}]}}"), "connection: close\r\n"));
    assert!(got.starts_with("HTTP/1.1 200 OK"), "{got}");
    assert_eq!(error, None);
}

#[test]
fn a_body_may_wait_for_its_leave() {
    let upstream = start(Io::Auto);
    let mut stream = connect(&upstream);
    let request = chat("status-500", "").replacen("host", "expect: 100-continue\r\nhost", 1);
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    stream.write_all(format!("{head}\r\n\r\n").as_bytes()).unwrap();
    let mut leave = [0; 25];
    stream.read_exact(&mut leave).unwrap();
    assert_eq!(&leave, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(body.as_bytes()).unwrap();
    let mut got = String::new();
    stream.read_to_string(&mut got).unwrap();
    assert_eq!(got, plain("500 Internal Server Error", ERROR));
}

#[test]
fn a_gap_keeps_the_words_apart() {
    let gap = Duration::from_millis(40);
    let upstream = ScriptedUpstream::start(UpstreamOptions { gap, ..options() }).unwrap();
    let mut stream = connect(&upstream);
    stream.write_all(chat("healthy", r#""stream":true,"#).as_bytes()).unwrap();
    let pieces = [HEAD.to_owned() + &role(), words(&ALL[..1]), words(&ALL[1..2])];
    for piece in pieces {
        // Nothing of the next word comes with this one.
        let mut got = vec![0; piece.len() + 1];
        let mut len = 0;
        while len < piece.len() {
            len += stream.read(&mut got[len..]).unwrap();
        }
        assert_eq!(String::from_utf8_lossy(&got[..len]), piece);
    }
    // It stops in the midst of an answer.
    stops_in_time(upstream);
    assert!(stream.read_to_end(&mut Vec::new()).is_ok());
}

#[test]
fn options_beyond_their_limits_are_refused() {
    let refused = |options| ScriptedUpstream::start(options).err().map(|error| error.kind());
    assert_eq!(refused(UpstreamOptions { text: String::new(), ..options() }), Some(ErrorKind::InvalidInput));
    let gap = Duration::from_secs(61);
    assert_eq!(refused(UpstreamOptions { gap, ..options() }), Some(ErrorKind::InvalidInput));
    let upstream = start(Io::Auto);
    let taken = refused(UpstreamOptions { listen: upstream.address(), ..options() });
    assert_eq!(taken, Some(ErrorKind::AddrInUse));
}

#[test]
fn a_client_that_leaves_takes_its_connection_with_it() {
    let upstream = start(Io::Auto);
    for model in ["stall-after-1", "silent"] {
        let mut stream = connect(&upstream);
        stream.write_all(chat(model, r#""stream":true,"#).as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut got = Vec::new();
        stream.read_to_end(&mut got).unwrap();
    }
    stops_in_time(upstream);
}

fn stops_in_time(upstream: ScriptedUpstream) {
    let (done, stopped) = mpsc::channel();
    let stopper = thread::spawn(move || {
        drop(upstream);
        done.send(()).unwrap();
    });
    stopped.recv_timeout(HANG).expect("the upstream stops");
    stopper.join().unwrap();
}
