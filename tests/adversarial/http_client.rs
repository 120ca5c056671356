//! Requests in HTTP that is odd, hostile or slow; what follows on the same connection.

use std::time::Instant;

use serde_json::json;

use crate::support::client::{CHAT, Closed, request_bytes};
use crate::support::openai::{STREAM_HEAD, ask, ch, chunk, response, role, stream};
use crate::support::upstream::send;
use crate::support::*;

fn always() -> ScriptedUpstream {
    ScriptedUpstream::always(send(stream(&["Hello"])))
}

fn body() -> String {
    ask("chat").to_string()
}

/// A chat request with these lines instead of a length.
fn with(fields: &str, body: &str) -> Vec<u8> {
    format!("POST {CHAT} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n{fields}\r\n{body}")
        .into_bytes()
}

fn in_chunks(parts: &[&str], last: &str) -> String {
    let parts: Vec<_> = parts.iter().map(|p| format!("{:x}\r\n{p}\r\n", p.len())).collect();
    parts.concat() + last
}

/// Sends each on its own connection: one error response with that status, then the end, and no upstream is asked.
fn all_refused(cases: &[(&str, Vec<u8>, u16)]) {
    let upstream = always();
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    for (name, bytes, status) in cases {
        let mut client = proxy.connect();
        client.try_send(bytes);
        client.try_send(b"GET /v1/models HTTP/1.1\r\nHost: smuggled\r\n\r\n");
        let response = client.try_head(PATIENCE).unwrap_or_else(|| panic!("{name}: no answer"));
        let response = client.rest(response);
        assert_eq!(response.status, *status, "{name}: {}", show(&response.body));
        assert!(response.json()["error"]["message"].is_string(), "{name}: {}", show(&response.body));
        client.wait_closed(PATIENCE);
        assert_eq!(show(client.unread()), "", "{name}: a second answer");
    }
    assert_eq!(upstream.request_count(), 0, "an upstream was asked");
}

#[test]
fn framing_with_two_readings_is_refused() {
    let (b, n) = (body(), body().len());
    let chunked = in_chunks(&[&b], "0\r\n\r\n");
    let te = |value: &str| with(&format!("Transfer-Encoding: {value}\r\n"), &chunked);
    let cl = |value: &str| with(&format!("Content-Length: {value}\r\n"), &b);
    all_refused(&[
        (
            "length and coding",
            with(&format!("Content-Length: {n}\r\nTransfer-Encoding: chunked\r\n"), &chunked),
            400,
        ),
        (
            "coding and length",
            with(&format!("Transfer-Encoding: chunked\r\nContent-Length: {n}\r\n"), &chunked),
            400,
        ),
        ("coding and length 0", with("Transfer-Encoding: chunked\r\nContent-Length: 0\r\n", &chunked), 400),
        ("xchunked", te("xchunked"), 400),
        ("chunked, identity", te("chunked, identity"), 400),
        ("identity", te("identity"), 400),
        ("chunked twice", te("chunked, chunked"), 400),
        ("two lines", with("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", &chunked), 400),
        (
            "two lines, one unknown",
            with("Transfer-Encoding: chunked\r\nTransfer-Encoding: cow\r\n", &chunked),
            400,
        ),
        ("a vertical tab", te("\x0bchunked"), 400),
        ("quoted", te("\"chunked\""), 400),
        ("with a parameter", te("chunked;q=1"), 400),
        ("empty", te(""), 400),
        ("a space before the colon", with("Transfer-Encoding : chunked\r\n", &chunked), 400),
        ("a tab before the colon", with(&format!("Content-Length\t: {n}\r\n"), &b), 400),
        ("a plus", cl(&format!("+{n}")), 400),
        ("an underscore", cl("1_0"), 400),
        ("hexadecimal", cl("0x10"), 400),
        ("a fraction", cl("10.0"), 400),
        ("negative", cl("-1"), 400),
        ("empty length", cl(""), 400),
        ("two that differ", with("Content-Length: 5\r\nContent-Length: 6\r\n", &b), 400),
        ("a list that differs", cl(&format!("{n}, 6")), 400),
        ("a list with a hole", cl(&format!("{n},")), 400),
        ("a length in other digits", cl("\u{664}\u{664}"), 400),
        ("past 64 bits", cl("18446744073709551616"), 400),
        ("64 bits", cl("18446744073709551615"), 413),
        (
            "HTTP/1.0 in chunks",
            String::from_utf8(te("chunked")).unwrap().replace("HTTP/1.1", "HTTP/1.0").into_bytes(),
            400,
        ),
    ]);
}

#[test]
fn broken_chunks_of_a_body_are_refused() {
    let b = body();
    let te = |raw: String| with("Transfer-Encoding: chunked\r\n", &raw);
    all_refused(&[
        ("letters", te(format!("zz\r\n{b}\r\n0\r\n\r\n")), 400),
        ("an overflow", te(format!("fffffffffffffffff\r\n{b}\r\n0\r\n\r\n")), 400),
        ("a bare LF", te(format!("{:x}\n{b}\r\n0\r\n\r\n", b.len())), 400),
        ("no CRLF behind the data", te(format!("{:x}\r\n{b}0\r\n\r\n", b.len())), 400),
        ("a size too small", te(format!("{:x}\r\n{b}\r\n0\r\n\r\n", b.len() - 1)), 400),
        ("a CR in an extension", te(format!("{:x};a\rb\r\n{b}\r\n0\r\n\r\n", b.len())), 400),
        ("an extension without end", te(format!("{:x};{}", b.len(), "x".repeat(20_000))), 400),
        ("trailers without end", te(in_chunks(&[&b], &format!("0\r\n{}", "X: y\r\n".repeat(5000)))), 400),
        ("a length past the limit", te(format!("7fffffffffffffff\r\n{}", "x".repeat(33 << 20))), 413),
    ]);
}

#[test]
fn heads_that_are_no_requests_are_refused() {
    let get = |text: &str| text.as_bytes().to_vec();
    let pad = |n: usize| (0..n).map(|i| format!("X-{i}: y\r\n")).collect::<String>();
    all_refused(&[
        ("no host", get("GET /v1/models HTTP/1.1\r\n\r\n"), 400),
        ("two hosts", get("GET /v1/models HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n"), 400),
        ("a host with a path", get("GET /v1/models HTTP/1.1\r\nHost: a/b\r\n\r\n"), 400),
        ("a host with a user", get("GET /v1/models HTTP/1.1\r\nHost: a@b\r\n\r\n"), 400),
        ("a list of hosts", get("GET /v1/models HTTP/1.1\r\nHost: a b\r\n\r\n"), 400),
        ("a folded line", get("GET /v1/models HTTP/1.1\r\nHost: a\r\nX: 1\r\n 2\r\n\r\n"), 400),
        ("a leading space", get("GET /v1/models HTTP/1.1\r\n Host: a\r\n\r\n"), 400),
        ("a bare CR", get("GET /v1/models HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n"), 400),
        ("NUL", get("GET /v1/models HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"), 400),
        ("bare LF", get("GET /v1/models HTTP/1.1\nHost: a\n\n"), 400),
        ("a line without a colon", get("GET /v1/models HTTP/1.1\r\nHost: a\r\nnonsense\r\n\r\n"), 400),
        ("an empty name", get("GET /v1/models HTTP/1.1\r\nHost: a\r\n: x\r\n\r\n"), 400),
        ("a bracket in a name", get("GET /v1/models HTTP/1.1\r\nHost: a\r\nX[1]: x\r\n\r\n"), 400),
        ("two spaces", get("GET  /v1/models HTTP/1.1\r\nHost: a\r\n\r\n"), 400),
        ("no version", get("GET /v1/models\r\nHost: a\r\n\r\n"), 400),
        ("HTTP/2", get("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400),
        ("HTTP/3.1", get("GET /v1/models HTTP/3.1\r\nHost: a\r\n\r\n"), 400),
        ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03".to_vec(), 400),
        ("a control byte in the target", get("GET /v1/mod\x01els HTTP/1.1\r\nHost: a\r\n\r\n"), 400),
        ("CONNECT", get("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n"), 405),
        ("a target of another scheme", get("GET ftp://a/v1/models HTTP/1.1\r\nHost: a\r\n\r\n"), 400),
        (
            "200 fields and the host",
            get(&format!("GET /v1/models HTTP/1.1\r\nHost: a\r\n{}\r\n", pad(200))),
            431,
        ),
        (
            "a head of 70 KiB",
            get(&format!("GET /v1/models HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "y".repeat(70_000))),
            431,
        ),
        (
            "a target of 40 KiB",
            get(&format!("GET /v1/{} HTTP/1.1\r\nHost: a\r\n\r\n", "y".repeat(40_000))),
            414,
        ),
        ("an unknown expectation", with("Expect: 200-ok\r\nContent-Length: 2\r\n", "{}"), 417),
    ]);
}

#[test]
fn heads_that_are_odd_and_allowed() {
    let (b, n) = (body(), body().len());
    let cl = format!("Content-Length: {n}\r\n");
    let pad = (0..196).map(|i| format!("X-{i}: y\r\n")).collect::<String>();
    let te = "Transfer-Encoding: chunked\r\n";
    let cases = [
        ("the length twice", with(&format!("{cl}{cl}"), &b)),
        ("a list of one length", with(&format!("Content-Length: {n}, {n}\r\n"), &b)),
        ("zeros before", with(&format!("Content-Length: 000{n}\r\n"), &b)),
        ("blank lines before", [&b"\r\n\r\n"[..], &with(&cl, &b)].concat()),
        (
            "chunks, extensions, trailers",
            with(
                te,
                &in_chunks(
                    &[&b[..9], &b[9..20], &b[20..]],
                    "0;x=\"y\"\r\nContent-Length: 1\r\nHost: b\r\n\r\n",
                ),
            ),
        ),
        (
            "a chunk a byte",
            with(
                "transfer-encoding:  Chunked\t\r\n",
                &in_chunks(&b.split("").filter(|c| !c.is_empty()).collect::<Vec<_>>(), "0\r\n\r\n"),
            ),
        ),
        (
            "absolute form",
            String::from_utf8(with(&cl, &b)).unwrap().replacen("POST /", "POST HTTP://b:1/", 1).into_bytes(),
        ),
        ("199 fields", with(&format!("{cl}{pad}"), &b)),
        (
            "HTTP/1.7",
            String::from_utf8(with(&cl, &b)).unwrap().replacen("HTTP/1.1", "HTTP/1.7", 1).into_bytes(),
        ),
        (
            "an IPv6 host",
            String::from_utf8(with(&cl, &b)).unwrap().replacen("Host: a", "Host: [::1]:80", 1).into_bytes(),
        ),
        ("an empty value", with(&format!("{cl}X-Empty:\r\nX-Tab:\t a \t\r\n"), &b)),
        ("bytes past ASCII in a value", with(&format!("{cl}X-Name: Zoë\r\n"), &b)),
        ("an expectation with the body", with(&format!("{cl}Expect: 100-Continue\r\n"), &b)),
        (
            "a query",
            String::from_utf8(with(&cl, &b))
                .unwrap()
                .replacen("completions ", "completions?a=b?c&d=%00 ", 1)
                .into_bytes(),
        ),
    ];
    let upstream = always();
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut kept = proxy.connect();
    for (name, bytes) in &cases {
        println!("{name}");
        kept.send(bytes).response().assert_success("Hello");
        let mut slow = proxy.connect();
        bytes.chunks(7).for_each(|part| {
            slow.send(part);
        });
        slow.response().assert_success("Hello");
    }
    assert_forwarded_in_one_reading(&upstream);
}

fn assert_forwarded_in_one_reading(upstream: &ScriptedUpstream) {
    for request in upstream.requests() {
        let sent = request.json();
        assert_eq!((sent["model"].as_str(), sent["stream"].as_bool()), (Some("model-1"), Some(true)));
        assert_eq!(request.headers.iter().filter(|(n, _)| n == "content-length").count(), 1);
        assert!(request.header("transfer-encoding").is_none() && request.header("expect").is_none());
        assert!(request.header("host").is_some_and(|h| h.starts_with("127.0.0.1")), "{:?}", request.headers);
    }
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    let answers = ["one", "two", "three"].map(|t| send(stream(&[t])));
    let upstream = ScriptedUpstream::new(answers.to_vec());
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let b = ask("chat").to_string();
    let chat = request_bytes("POST", CHAT, &[], b.as_bytes());
    let head = b"HEAD /v1/models HTTP/1.1\r\nHost: a\r\n\r\n";
    let bad = request_bytes("POST", CHAT, &[], b"{\"model\":1}");
    let unknown = request_bytes("GET", "/nope", &[], b"");
    let models = request_bytes("GET", "/v1/models", &[], b"");
    let mut client = proxy.connect();
    client.send(&[&chat[..], &bad, &chat, &unknown, &models, &chat].concat());
    client.response().assert_success("one");
    client.response().assert_error(400);
    client.response().assert_success("two");
    client.response().assert_error(404);
    assert_eq!(client.response().status, 200);
    client.response().assert_success("three");
    // A response to HEAD has the fields and no body: what follows is the next response's head.
    let mut client = proxy.connect();
    client.send(&[&head[..], &unknown].concat());
    assert!(client.read_until_seen(b"HTTP/1.1 404", PATIENCE), "{}", show(client.unread()));
    let seen = client.unread();
    let end = find(seen, b"\r\n\r\n").unwrap() + 4;
    assert!(seen.starts_with(b"HTTP/1.1 200") && seen[end..].starts_with(b"HTTP/1.1 404"), "{}", show(seen));
}

#[test]
fn a_request_that_comes_while_an_answer_streams_waits_its_turn() {
    let gate = Gate::new();
    let rest = stream(&["lo"])[STREAM_HEAD.len()..].to_vec();
    let first = vec![
        Step::Send([STREAM_HEAD, &ch([role(), chunk("Hel")].concat())].concat()),
        Step::Hold(gate.clone()),
        Step::Send(rest),
    ];
    let upstream = ScriptedUpstream::new(vec![first, send(stream(&["two"])), send(stream(&["three"]))]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let chat = request_bytes("POST", CHAT, &[], ask("chat").to_string().as_bytes());
    let mut client = proxy.connect();
    client.send(&chat);
    let mut response = client.head();
    client.read_text(&mut response, "Hel");
    // One whole, and one of which the end is missing.
    client.send(&chat).send(&chat[..chat.len() - 5]);
    assert_eq!(upstream.request_count(), 1);
    gate.open();
    let response = client.rest(response);
    assert_eq!((response.text().as_str(), response.done_count()), ("Hello", 1));
    client.response().assert_success("two");
    client.send(&chat[chat.len() - 5..]);
    client.response().assert_success("three");
}

#[test]
fn an_early_error_is_read_by_a_client_that_sends_on() {
    let upstream = always();
    let config = Config::chat([&upstream.addr]).set("limits", "request_body", "\"1MiB\"");
    let proxy = Proxy::start(&config);
    let large = "x".repeat(6 << 20);
    let cases: [(&str, Vec<u8>, u16); 4] = [
        ("an unknown path", request_bytes("POST", "/nope", &[], large.as_bytes()), 404),
        ("a method", request_bytes("PUT", "/v1/models", &[], large.as_bytes()), 405),
        ("a length past the limit", request_bytes("POST", CHAT, &[], large.as_bytes()), 413),
        (
            "chunks past the limit",
            with("Transfer-Encoding: chunked\r\n", &in_chunks(&[&large], "0\r\n\r\n")),
            413,
        ),
    ];
    for (name, bytes, status) in cases {
        let mut client = proxy.connect();
        assert!(client.try_send(&bytes), "{name}: the connection broke while the request was sent");
        let response = client.response();
        assert_eq!((response.status, &response.end), (status, &End::Complete), "{name}");
        let begun = Instant::now();
        let (how, _) = client.wait_closed(PATIENCE);
        assert!(how == Closed::Fin && begun.elapsed() < ms(3000), "{name}: {how:?} {:?}", begun.elapsed());
    }
    // No 100 for a body that will not be read.
    let mut client = proxy.connect();
    client.send(&with("Expect: 100-continue\r\nContent-Length: 2000000\r\n", ""));
    assert_eq!(client.response().status, 413);
    assert!(client.interim.is_empty() && upstream.request_count() == 0);
}

#[test]
fn bodies_that_are_no_requests_are_refused_and_the_connection_lives_on() {
    let upstream = always();
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.connect();
    let deep = format!("{{\"model\":\"chat\",\"x\":{}{}}}", "[".repeat(5000), "]".repeat(5000));
    let cases: Vec<&[u8]> = vec![
        b"{}",
        b"[]",
        b"null",
        b"{\"model\":\"chat\"}",
        b"{\"model\":null,\"messages\":[]}",
        b"{\"model\":\"\",\"messages\":[]}",
        b"{\"model\":\"chat\",\"model\":\"chat\",\"messages\":[]}",
        b"{\"model\":\"chat\",\"mod\\u0065l\":\"x\",\"messages\":[]}",
        b"{\"model\":\"chat\",\"messages\":{}}",
        b"{\"model\":\"chat\",\"messages\":[],\"stream\":\"yes\"}",
        b"{\"model\":\"chat\",\"messages\":[]",
        b"{\"model\":\"chat\",\"messages\":[]} x",
        b"{\"model\":\"chat\",\"messages\":[]}{}",
        b"{\"model\":\"chat\",\"messages\":[],\"n\":0}",
        b"{'model':'chat'}",
        b"\x1f\x8b\x08\x00",
        b"model=chat",
        b"{\"model\":\"chat\",}",
        deep.as_bytes(),
    ];
    for body in cases {
        let response = client.post(CHAT, body).response();
        let error = response.assert_error(400);
        assert_eq!(error["type"], "invalid_request_error", "{}", show(body));
    }
    assert_eq!(client.ask(&json!({ "model": "nobody", "messages": [] })).response().status, 404);
    client.ask(&ask("chat")).response().assert_success("Hello");
    assert_eq!(upstream.request_count(), 1);
}

#[test]
fn a_client_that_leaves_within_its_request_costs_no_call() {
    let upstream = always();
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let whole = request_bytes("POST", CHAT, &[], ask("chat").to_string().as_bytes());
    let chunked = with("Transfer-Encoding: chunked\r\n", &in_chunks(&[&body()], ""));
    for cut in [1, 20, find(&whole, b"\r\n\r\n").unwrap() + 2, whole.len() - 1] {
        let mut client = proxy.connect();
        client.send(&whole[..cut]).half_close();
        assert!(client.try_head(PATIENCE).is_none(), "an answer to half a request");
        let mut client = proxy.connect();
        client.send(&whole[..cut]);
        client.reset();
    }
    let mut client = proxy.connect();
    client.send(&chunked).half_close();
    assert!(client.try_head(PATIENCE).is_none(), "an answer to half a request");
    proxy.ask(&ask("chat")).response().assert_success("Hello");
    assert_eq!(upstream.request_count(), 1);
}

#[test]
fn a_relayed_error_keeps_the_connection_of_the_client() {
    let refusal = response(
        "422 Unprocessable Entity",
        "application/json",
        r#"{"error":{"message":"no","type":"t","param":null,"code":null}}"#,
    );
    let upstream = ScriptedUpstream::with_fallback(vec![send(refusal)], send(stream(&["Hello"])));
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.connect();
    client.ask(&ask("chat")).response().assert_error(422);
    client.ask(&ask("chat")).response().assert_success("Hello");
    assert_eq!(upstream.connection_count(), 1);
}
