//! Answers that are not streamed, other paths, and the fields of responses.

use std::io::Write;

use serde_json::{Value, json};

use crate::support::client::{CHAT, request_bytes};
use crate::support::openai::{
    LAST_CHUNK, STREAM_HEAD, ask, ask_plain, ch, chunk, completion, response, response_with, role, stream,
};
use crate::support::upstream::send;
use crate::support::*;
use crate::trial::*;

const JSON: &str = "application/json";

/// What a plain request came to: status, body, and how often each target was asked.
fn plain(first: Script, second: Script) -> (Response, usize, usize) {
    let (up1, up2) = (ScriptedUpstream::new(vec![first]), ScriptedUpstream::new(vec![second]));
    let config = Config::chat([&up1.addr, &up2.addr])
        .set("routes.chat", "timeouts", "{ response = \"400ms\" }")
        .set("routes.chat", "settle", "\"200ms\"");
    let proxy = Proxy::start(&config);
    let response = proxy.ask(&ask_plain("chat")).response();
    (response, up1.request_count(), up2.request_count())
}

fn gzipped(body: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(body).unwrap();
    encoder.finish().unwrap()
}

fn ok(body: impl AsRef<[u8]>) -> Script {
    send(response("200 OK", JSON, body))
}

#[test]
fn whole_answers_pass_as_they_are() {
    let usual = completion("Hello").to_string();
    let cases = [
        ("usual", usual.clone()),
        ("blank lines while it was busy", format!("\n\n\r\n  {usual}\n")),
        ("error null", usual.replacen('{', "{\"error\":null,", 1)),
        ("numbers and halves", r#"{"choices":[{"index":0,"message":{"content":"\ud83d x","n":1.10e400},"finish_reason":"stop","logprobs":{"a":NaN}}]}"#.to_owned()),
        ("a call", r#"{"choices":[{"message":{"role":"assistant","content":null,"tool_calls":[{"id":"a"}]},"finish_reason":"tool_calls"}]}"#.to_owned()),
        ("a refusal", r#"{"choices":[{"message":{"content":null,"refusal":"no"},"finish_reason":"stop"}]}"#.to_owned()),
        ("filtered", r#"{"choices":[{"message":{"content":""},"finish_reason":"content_filter"}]}"#.to_owned()),
        ("no message, length", r#"{"choices":[{"index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":9,"total_tokens":9}}"#.to_owned()),
        ("reasoning alone", r#"{"choices":[{"message":{"content":"","reasoning_content":"hm"},"finish_reason":"stop"}]}"#.to_owned()),
        ("parts", r#"{"choices":[{"message":{"content":[{"type":"text","text":"Hello"}]},"finish_reason":"stop"}]}"#.to_owned()),
    ];
    for (name, body) in cases {
        let (response, first, second) = plain(ok(&body), hola());
        assert_eq!(String::from_utf8_lossy(&response.body), body, "{name}");
        assert_eq!((response.status, first, second), (200, 1, 0), "{name}");
    }
}

#[test]
fn what_is_no_whole_answer_is_asked_for_elsewhere() {
    let usual = completion("Hello").to_string();
    let sized = response("200 OK", JSON, &usual);
    let chunked = |body: &[u8]| {
        [
            &b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
            body,
        ]
        .concat()
    };
    let cases: Vec<(&str, Script)> = vec![
        ("cut", vec![Step::Send(sized[..sized.len() - 9].to_vec()), Step::Fin]),
        ("reset", vec![Step::Send(sized[..sized.len() - 9].to_vec()), Step::Rst]),
        ("whole JSON and no last chunk", vec![Step::Send(chunked(&ch(&usual))), Step::Fin]),
        ("half JSON and a last chunk", send(chunked(&[ch(&usual[..50]), LAST_CHUNK.to_vec()].concat()))),
        (
            "half JSON until the end",
            vec![Step::Send([&b"HTTP/1.1 200 OK\r\n\r\n"[..], &usual.as_bytes()[..60]].concat()), Step::Fin],
        ),
        (
            "silence within",
            vec![Step::Send(sized[..sized.len() - 9].to_vec()), Step::PauseUntilPeerCloses(PATIENCE)],
        ),
        ("silence", vec![Step::PauseUntilPeerCloses(PATIENCE)]),
        ("nothing", ok("")),
        ("null", ok("null")),
        ("a text", ok("\"Hello\"")),
        ("no choices", ok(r#"{"choices":[]}"#)),
        ("an empty text", ok(completion("").to_string())),
        ("an error", ok(r#"{"error":{"message":"x","code":"server_error"}}"#)),
        ("an error in a list", ok(r#"[{"error":{"code":503,"message":"x"}}]"#)),
        ("a finish of error", ok(r#"{"choices":[{"message":{"content":"Hel"},"finish_reason":"error"}]}"#)),
        ("HTML", send(response("200 OK", "text/html", "<p>busy"))),
        (
            "busy, its body never ends",
            vec![
                Step::Send(b"HTTP/1.1 503 X\r\nContent-Length: 99\r\n\r\n{".to_vec()),
                Step::PauseUntilPeerCloses(PATIENCE),
            ],
        ),
        ("two answers", ok(format!("{usual}{usual}"))),
    ];
    let hola = completion("Hola").to_string();
    for (name, first) in cases {
        let (response, asked, second) = plain(first, ok(&hola));
        assert_eq!(String::from_utf8_lossy(&response.body), hola, "{name}");
        assert_eq!((response.status, asked, second), (200, 1, 1), "{name}");
    }
}

#[test]
fn coded_answers_and_errors_are_decoded_and_relabelled() {
    let error = r#"{"error":{"message":"no","type":"invalid_request_error","param":null,"code":null}}"#;
    let usual = completion("Hello").to_string();
    let coded = |status: &str, body: &str| {
        send(response_with(
            status,
            &[("Content-Type", JSON), ("Content-Encoding", "gzip")],
            gzipped(body.as_bytes()),
        ))
    };
    for (status, body, want) in [("200 OK", &usual[..], 200), ("400 Bad Request", error, 400)] {
        let (response, ..) = plain(coded(status, body), hola());
        assert_eq!((response.status, String::from_utf8_lossy(&response.body).as_ref()), (want, body));
        assert!(response.header("content-encoding").is_none() && response.end == End::Complete);
    }
    run_all(vec![
        trial("a stream's refusal", coded("400 Bad Request", error), Want::Refused(400))
            .also(move |r| assert_eq!(String::from_utf8_lossy(&r.body), error)),
        trial("a completion for a stream", coded("200 OK", &usual), answer("Hello")),
    ]);
}

#[test]
fn an_error_whose_body_never_ends_keeps_its_status() {
    for (body, name) in [(&b"{\"error\":"[..], "half"), (b"", "none")] {
        let first = vec![
            Step::Send(
                [
                    &b"HTTP/1.1 422 X\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"[..],
                    body,
                ]
                .concat(),
            ),
            Step::PauseUntilPeerCloses(PATIENCE),
        ];
        let (response, first, second) = plain(first, hola());
        response.assert_error(422);
        assert_eq!((first, second), (1, 0), "{name}");
    }
}

#[test]
fn fields_of_one_hop_end_here_and_ours_stand_once() {
    let fields = "Connection: keep-alive, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTrailer: X-T\r\nProxy-Authenticate: Basic\r\n\
                  Upgrade: h2c\r\nX-Request-Id: theirs\r\nX-Baton-Served-By: liar\r\nSet-Cookie: a=b\r\nServer: x\r\nAlt-Svc: h3\r\n\
                  X-Ratelimit-Remaining-Tokens: 7\r\nopenai-processing-ms: 12\r\nX-Accel-Buffering: no\r\nCache-Control: max-age=1\r\n";
    let gone = [
        "x-hop",
        "keep-alive",
        "trailer",
        "proxy-authenticate",
        "upgrade",
        "set-cookie",
        "server",
        "alt-svc",
    ];
    let once = [
        "content-type",
        "connection",
        "x-request-id",
        "x-baton-served-by",
        "cache-control",
        "x-ratelimit-remaining-tokens",
    ];
    let plain_body = completion("Hello").to_string();
    let stream_body = [ch([role(), chunk("Hello"), ending()].concat()), LAST_CHUNK.to_vec()].concat();
    let error = r#"{"error":{"message":"no"}}"#;
    let sized = |status: &str, body: &str| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: application/json\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    let head = String::from_utf8(STREAM_HEAD.to_vec()).unwrap();
    let streamed = [&head.as_bytes()[..head.len() - 2], fields.as_bytes(), b"\r\n", &stream_body].concat();
    let upstream = ScriptedUpstream::new(vec![
        send(streamed),
        send(sized("200 OK", &plain_body)),
        send(sized("400 X", error)),
        send(sized("200 OK", "{}")),
    ]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.connect();
    for (path, body) in [
        (CHAT, ask("chat")),
        (CHAT, ask_plain("chat")),
        (CHAT, ask("chat")),
        ("/v1/embeddings", json!({ "model": "chat" })),
    ] {
        let bytes = request_bytes("POST", path, &[("X-Request-Id", "mine")], body.to_string().as_bytes());
        let response = client.send(&bytes).response();
        let count = |name: &str| response.headers.iter().filter(|(n, _)| n == name).count();
        for name in gone {
            assert_eq!(count(name), 0, "{name}: {:?}", response.headers);
        }
        for name in once {
            assert_eq!(count(name), 1, "{name}: {:?}", response.headers);
        }
        assert_eq!(count("content-length") + count("transfer-encoding"), 1, "{:?}", response.headers);
        assert_eq!(response.header("x-request-id"), Some("mine"));
        assert!(response.header("x-baton-served-by").unwrap().contains("up1"));
    }
}

#[test]
fn other_paths_are_relayed_whatever_they_carry() {
    let binary: Vec<u8> = (0..200_000u32).map(|n| (n * 7 % 251) as u8).collect();
    let chunked: Vec<u8> = binary.chunks(777).flat_map(ch).chain(LAST_CHUNK.to_vec()).collect();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\nTransfer-Encoding: chunked\r\n\r\n";
    let until = b"HTTP/1.1 200 OK\r\nContent-Type: audio/mpeg\r\n\r\n";
    let events = b"event: response.created\ndata: {\"type\":\"response.created\"}\n\nevent: response.failed\ndata: {}\n\n";
    let typed = |kind: &str, body: &[u8]| send(response("200 OK", kind, body));
    let cases: Vec<(&str, Script, &[u8])> = vec![
        ("chunks", send([&head[..], &chunked].concat()), &binary),
        ("a length", typed("audio/mpeg", &binary), &binary),
        ("until the end", vec![Step::Send([&until[..], &binary].concat()), Step::Fin], &binary),
        ("events of another protocol", typed("text/event-stream", events), events),
        ("an error under a 200", typed(JSON, b"{\"error\":{}}"), b"{\"error\":{}}"),
        ("nothing", typed(JSON, b""), b""),
    ];
    for (name, script, want) in cases {
        let upstream = ScriptedUpstream::new(vec![script]);
        let proxy = Proxy::start(&Config::chat([&upstream.addr]));
        let mut client = proxy.connect();
        client.post_with(
            "/v1/audio/speech?x=1",
            &[("Accept-Encoding", "gzip")],
            b"{\"x\":[1.10], \"model\" : \"chat\"}",
        );
        let response = client.response();
        assert_eq!((response.status, &response.end), (200, &End::Complete), "{name}");
        assert!(response.body == want, "{name}: {}", show(&response.body));
        let request = &upstream.requests()[0];
        assert_eq!(
            (request.target.as_str(), show(&request.body).as_str()),
            ("/v1/audio/speech?x=1", "{\"x\":[1.10], \"model\" : \"model-1\"}"),
            "{name}"
        );
        assert!(request.header("accept-encoding").is_none_or(|v| v == "identity"), "{name}");
    }
}

#[test]
fn an_http_1_0_client_gets_what_it_can_read() {
    let upstream = ScriptedUpstream::new(vec![
        send(stream(&["Hello"])),
        ok(completion("Hello").to_string()),
        ok(completion("again").to_string()),
        ok(completion("last").to_string()),
    ]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let old = |body: &Value, fields: &str| {
        let body = body.to_string();
        format!("POST {CHAT} HTTP/1.0\r\n{fields}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
    };
    let mut client = proxy.connect();
    let streamed = client.send(&old(&ask("chat"), "Connection: keep-alive\r\n")).response();
    assert_eq!((streamed.text().as_str(), &streamed.end), ("Hello", &End::Complete));
    assert!(streamed.header("transfer-encoding").is_none() && streamed.header("connection") == Some("close"));
    let mut client = proxy.connect();
    for text in ["Hello", "again"] {
        let response = client.send(&old(&ask_plain("chat"), "Connection: keep-alive\r\n")).response();
        assert_eq!(response.json()["choices"][0]["message"]["content"], text);
    }
    let response = client.send(&old(&ask_plain("chat"), "Expect: 100-continue\r\n")).response();
    assert_eq!((response.status, client.interim.len()), (200, 0));
    client.wait_closed(PATIENCE);
}
