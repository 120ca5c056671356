//! One request, one uninterrupted answer: what the client gets when an upstream breaks off, byte by byte.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod support;

use serde_json::{Value, json};

use support::openai::{
    self, WORDS, ask, beginning, broken_text, ch, chunk, done, error, finish, role, stream_as,
};
use support::upstream::send;
use support::*;

/// After how many of the sixty words the first upstream breaks off.
const CUT: usize = 25;

fn words() -> Vec<String> {
    openai::word_deltas()
}

/// The deltas that the first upstream delivers, joined.
fn partial() -> String {
    words()[..CUT].concat()
}

/// An upstream that sends the head and [`CUT`] words, then what `ending` says.
fn breaks_off(ending: Vec<Step>) -> ScriptedUpstream {
    let words = words();
    let deltas: Vec<_> = words[..CUT].iter().map(String::as_str).collect();
    let mut script = send(beginning(&deltas));
    script.extend(ending);
    ScriptedUpstream::new(vec![script])
}

/// An upstream that goes on where the first broke off, under another id.
fn goes_on() -> ScriptedUpstream {
    let words = words();
    let deltas: Vec<_> = words[CUT..].iter().map(String::as_str).collect();
    ScriptedUpstream::new(vec![send(stream_as("chatcmpl-b", "m-fallback", &deltas))])
}

fn silent() -> Vec<Step> {
    vec![Step::PauseUntilPeerCloses(PATIENCE)]
}

/// An error inside the stream after which the upstream keeps the connection open.
fn in_band(kind: &str, code: Value) -> Vec<Step> {
    [vec![Step::Send(ch(error("secret words of the upstream", kind, &code)))], silent()].concat()
}

/// Every way to break off: name, what the upstream does, what the error frame calls it.
fn endings() -> Vec<(&'static str, Vec<Step>, &'static str)> {
    let last = || Step::Send(openai::LAST_CHUNK.to_vec());
    let half = b"ff\r\ndata: {\"id\":\"chatcmpl-a\",\"choices\":[{\"index\":0,\"delta\":{\"content\":\"NEVER"
        .to_vec();
    vec![
        ("FIN without the last chunk", vec![Step::Fin], "transport_error"),
        ("FIN inside a chunk", vec![Step::Send(half), Step::Fin], "transport_error"),
        ("reset", vec![Step::Rst], "transport_error"),
        ("a proper end, but nothing had finished", vec![last(), Step::Fin], "transport_error"),
        ("[DONE] and a cut", vec![Step::Send(ch(done())), Step::Fin], "transport_error"),
        ("silence", silent(), "read_timeout"),
        (
            "a frame broken inside its text",
            vec![Step::Send(ch(broken_text())), silent().remove(0)],
            "upstream_decode_error",
        ),
        ("an error in the stream", in_band("overloaded_error", Value::Null), "overloaded_error"),
        (
            "the same as a bare text",
            vec![Step::Send(ch(openai::ev(r#"{"error":"overloaded"}"#)))],
            "upstream_in_band_error",
        ),
        (
            "finish_reason error",
            vec![Step::Send(ch(finish("error"))), silent().remove(0)],
            "upstream_in_band_error",
        ),
    ]
}

fn two(first: &ScriptedUpstream, second: &ScriptedUpstream) -> Config {
    Config::chat([&first.addr, &second.addr]).set(
        "routes.chat",
        "timeouts",
        "{ first_token = \"3s\", idle = \"300ms\" }",
    )
}

// [H8, W1, W2, W7]
#[test]
fn a_stream_is_relayed_byte_for_byte() {
    let odd = openai::ev(
        r#"{"choices" : [{"index":0,"delta":{"content":"\ud83d\u0065 \/"}}],"zz":1.10,"id":"chatcmpl-a"}"#,
    );
    let frames = [role(), chunk("Hel"), odd, chunk("lo"), finish("stop"), openai::usage(3, 4), done()];
    let chunks: Vec<u8> = frames.iter().flat_map(ch).collect();
    let whole = [openai::STREAM_HEAD, &chunks, openai::LAST_CHUNK].concat();
    let upstream =
        ScriptedUpstream::new(vec![send(whole.clone()), vec![Step::Bytewise { bytes: whole, gap: ms(0) }]]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    for name in ["at once", "byte by byte"] {
        let response = proxy.ask(&ask("chat")).response();
        assert_eq!(show(&response.body), show(&frames.concat()), "{name}");
        assert_eq!((response.status, &response.end), (200, &End::Complete), "{name}");
        assert!(response.header("content-type").unwrap().starts_with("text/event-stream"), "{name}");
        assert!(response.header("x-request-id").is_some_and(|id| !id.is_empty()), "{name}");
        assert!(response.header("x-baton-served-by").is_some_and(|t| t.contains("up1")), "{name}");
        assert!(response.header("content-length").is_none(), "{name}");
    }
}

#[test]
fn frames_reach_the_client_as_they_come() {
    let gate = Gate::new();
    let rest = [ch(chunk("lo")), ch(finish("stop")), ch(done()), openai::LAST_CHUNK.to_vec()].concat();
    let script = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(rest)];
    let upstream = ScriptedUpstream::new(vec![script]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    let mut client = proxy.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "Hel");
    gate.open();
    client.rest(response).assert_success("Hello");
}

#[test]
fn a_plain_answer_is_relayed_byte_for_byte() {
    let body = serde_json::to_string_pretty(&openai::completion("Hello")).unwrap();
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    let chunked = [&head[..], &ch(&body[..50]), &ch(&body[50..]), openai::LAST_CHUNK].concat();
    let sized = openai::response("200 OK", "application/json", &body);
    let upstream = ScriptedUpstream::new(vec![send(sized), send(chunked)]);
    let proxy = Proxy::start(&Config::chat([&upstream.addr]));
    for name in ["with a length", "chunked"] {
        let response = proxy.ask(&openai::ask_plain("chat")).response();
        assert_eq!(String::from_utf8_lossy(&response.body), body, "{name}");
        assert_eq!((response.status, &response.end), (200, &End::Complete), "{name}");
    }
}

#[test]
fn a_plain_answer_that_is_cut_is_asked_for_again() {
    let body = openai::completion("Hello").to_string();
    let sized = openai::response("200 OK", "application/json", &body);
    let cut = ScriptedUpstream::new(vec![vec![Step::Send(sized[..sized.len() - 9].to_vec()), Step::Fin]]);
    let whole = ScriptedUpstream::new(vec![send(sized)]);
    let response = Proxy::start(&two(&cut, &whole)).ask(&openai::ask_plain("chat")).response();
    assert_eq!((response.status, String::from_utf8_lossy(&response.body).as_ref()), (200, body.as_str()));
}

#[test]
fn every_way_to_break_off_is_recovered() {
    for (name, ending, _) in endings() {
        println!("{name}");
        let (first, second) = (breaks_off(ending), goes_on());
        let proxy = Proxy::start(&two(&first, &second));
        let response = proxy.ask(&ask("chat")).response();
        response.assert_success(WORDS);
        assert_eq!((first.request_count(), second.request_count()), (1, 1), "{name}");
        assert_eq!(response.ids(), ["chatcmpl-a"], "{name}");
        assert_eq!(
            second.requests()[0].json()["messages"][1],
            json!({"role": "assistant", "content": partial()})
        );
        assert!(response.header("x-baton-served-by").unwrap().contains("up1"), "{name}");
        first.wait_closed(0, PROMPT);
    }
}

#[test]
fn behind_the_seam_only_id_created_and_role_change() {
    let odd = r#"{"id":"chatcmpl-b","zz":[1.10,"\u0041"],"created" : 42,"choices":[{"index":0,"delta":{"content":" END"}}]}"#;
    let end = r#"{"id":"chatcmpl-b","created":42,"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}"#;
    let frames = [&ch(openai::ev(odd))[..], &ch(openai::ev(end)), &ch(done()), openai::LAST_CHUNK].concat();
    let second = ScriptedUpstream::new(vec![send([openai::STREAM_HEAD, &frames].concat())]);
    let first = breaks_off(vec![Step::Fin]);
    let response = Proxy::start(&two(&first, &second)).ask(&ask("chat")).response();
    response.assert_success(&format!("{} END", partial()));
    let same = |text: &str| text.replace("chatcmpl-b", "chatcmpl-a").replace("42", "1700000000");
    let want = [openai::ev(same(odd)), openai::ev(same(end)), done()].concat();
    let tail = &response.body[response.body.len().saturating_sub(want.len())..];
    assert_eq!(show(tail), show(&want));
}

#[test]
fn in_terminate_mode_the_next_target_is_never_asked() {
    for (name, ending, code) in endings() {
        println!("{name}");
        let (first, second) = (breaks_off(ending), goes_on());
        let config = two(&first, &second).set("routes.chat", "stream_failure", "{ mode = \"terminate\" }");
        let error = Proxy::start(&config).ask(&ask("chat")).response().assert_failed_after(&partial());
        assert_eq!(error["code"], code, "{name}");
        let message = error["message"].as_str().unwrap();
        assert!(!message.contains("127.0.0.1") && !message.contains("secret"), "{name}: {message}");
        assert_eq!((first.request_count(), second.connection_count()), (1, 0), "{name}");
    }
}

#[test]
fn without_stream_failure_a_route_terminates() {
    let (first, second) = (breaks_off(vec![Step::Fin]), goes_on());
    let config = Config::new().upstream("up1", first.addr).upstream("up2", second.addr);
    let config = config.route("chat", &[("up1", "a"), ("up2", "b")]);
    Proxy::start(&config).ask(&ask("chat")).response().assert_failed_after(&partial());
    assert_eq!(second.connection_count(), 0);
}

#[test]
fn when_the_fallback_fails_too_the_client_is_told() {
    let after = |deltas: &[&str], ending: Step| vec![Step::Send(beginning(deltas)), ending];
    let refusal = send(openai::response("503 Busy", "application/json", "{}"));
    let cases = [
        ("cut before any text", after(&[], Step::Fin), ""),
        ("cut after a word", after(&[" more"], Step::Fin), " more"),
        ("reset at once", vec![Step::Rst], ""),
        ("503", refusal, ""),
    ];
    for (name, script, more) in cases {
        println!("{name}");
        let (first, second) = (breaks_off(vec![Step::Fin]), ScriptedUpstream::new(vec![script]));
        let third = goes_on();
        let config = Config::chat([&first.addr, &second.addr, &third.addr]);
        let error = Proxy::start(&config).ask(&ask("chat")).response();
        error.assert_failed_after(&format!("{}{more}", partial()));
        assert_eq!((second.request_count(), third.connection_count()), (1, 0), "{name}: max_fallbacks is 1");
    }
}

#[test]
fn a_larger_budget_reaches_the_third_target() {
    let (first, third) = (breaks_off(vec![Step::Rst]), goes_on());
    let second = ScriptedUpstream::new(vec![send(openai::response("503 Busy", "application/json", "{}"))]);
    let config = Config::chat([&first.addr, &second.addr, &third.addr]);
    let config = config.set("routes.chat", "stream_failure", "{ mode = \"continue\", max_fallbacks = 2 }");
    Proxy::start(&config).ask(&ask("chat")).response().assert_success(WORDS);
    assert_eq!((first.request_count(), second.request_count(), third.request_count()), (1, 1, 1));
}

#[test]
fn before_any_text_the_next_target_gets_the_untouched_request() {
    let quota = json!("insufficient_quota");
    let starts = [
        ("FIN before the head", vec![Step::Fin]),
        ("reset before the head", vec![Step::Rst]),
        ("FIN after the role", vec![Step::Send(beginning(&[])), Step::Fin]),
        (
            "an error after the role",
            vec![Step::Send([beginning(&[]), ch(error("x", "server_error", &quota))].concat())],
        ),
        ("silence after the role", vec![Step::Send(beginning(&[])), silent().remove(0)]),
        ("503", send(openai::response("503 Busy", "application/json", "{}"))),
        ("an empty answer", send(openai::stream(&[]))),
    ];
    for (name, script) in starts {
        for mode in ["continue", "terminate"] {
            println!("{name}, {mode}");
            let (first, second) = (ScriptedUpstream::new(vec![script.clone()]), goes_on());
            let config = two(&first, &second)
                .set("routes.chat", "stream_failure", format!("{{ mode = \"{mode}\" }}"))
                .set("routes.chat", "timeouts", "{ first_token = \"1s\" }");
            let response = Proxy::start(&config).ask(&ask("chat")).response();
            response.assert_success(&words()[CUT..].concat());
            assert_eq!(response.ids(), ["chatcmpl-b"], "{name}");
            assert!(response.header("x-baton-served-by").unwrap().contains("up2"), "{name}");
            let want = ask("chat").to_string().replace("\"chat\"", "\"model-2\"");
            assert_eq!(String::from_utf8_lossy(&second.requests()[0].body), want, "{name}");
        }
    }
}

// [C6]
#[test]
fn after_the_finish_nothing_can_fail() {
    let failed = Step::Send(ch(error("late", "server_error", &Value::Null)));
    let endings = [
        ("FIN", vec![Step::Fin]),
        ("reset", vec![Step::Rst]),
        ("an error", vec![failed, silent().remove(0)]),
        ("silence", silent()),
        ("garbage", vec![Step::Send(b"zz\r\n".to_vec()), Step::Fin]),
    ];
    for (name, ending) in endings {
        println!("{name}");
        // The gate keeps a reset from overtaking the frames before it.
        let gate = Gate::new();
        let finished = [beginning(&["Hello"]), ch(finish("stop"))].concat();
        let script = [vec![Step::Send(finished), Step::Hold(gate.clone())], ending].concat();
        let (first, second) = (ScriptedUpstream::new(vec![script]), goes_on());
        let proxy = Proxy::start(&two(&first, &second));
        let mut client = proxy.ask(&ask("chat"));
        let mut response = client.head();
        client.read_for(&mut response, "the finish", |r| !r.finish_reasons().is_empty());
        gate.open();
        client.rest(response).assert_success("Hello");
        assert_eq!(second.connection_count(), 0, "{name}");
    }
}
