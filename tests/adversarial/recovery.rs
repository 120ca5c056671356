//! What the second target does with a broken answer: whole, empty, refusing, silent, in other shapes; and the client
//! meanwhile.

use serde_json::{Value, json};

use crate::support::openai::{
    self, LAST_CHUNK, STREAM_HEAD, ask, beginning, ch, chunk, chunk_as, completion, done, ev, response, role,
    stream, stream_as,
};
use crate::support::upstream::send;
use crate::support::*;
use crate::trial::*;

const FIRST: &str = "Once upon a time there was a proxy that ";
const REST: &str = "never lost a word.";

fn whole() -> String {
    format!("{FIRST}{REST}")
}

/// The first target breaks off behind [`FIRST`]; the second does what its script says.
fn broken(name: &str, second: Script) -> Trial {
    trial(name, cut([role(), chunk(FIRST)].concat()), Want::Recovered(whole())).second(second)
}

fn text(t: &str) -> Vec<u8> {
    chunk_as("chatcmpl-b", "m", &json!({ "content": t }), &Value::Null)
}

fn stop() -> Vec<u8> {
    chunk_as("chatcmpl-b", "m", &json!({}), &json!("stop"))
}

fn instruct(config: Config) -> Config {
    config.set("upstreams.up2", "continuation", "\"instruct\"")
}

#[test]
fn a_continuation_may_come_in_any_shape() {
    let frames = |list: &[Vec<u8>]| streams(list.concat());
    let at_once =
        chunk_as("chatcmpl-b", "m", &json!({ "role": "assistant", "content": REST }), &json!("stop"));
    let parts = chunk_as(
        "chatcmpl-b",
        "m",
        &json!({ "content": [{ "type": "text", "text": "never lost " }, { "type": "text", "text": "a word." }] }),
        &Value::Null,
    );
    let plain = |t: &str| send(response("200 OK", "application/json", completion(t).to_string()));
    let letters: Vec<Vec<u8>> = REST.chars().map(|c| text(&c.to_string())).chain([stop(), done()]).collect();
    let crlf = String::from_utf8([text(REST), stop(), done()].concat()).unwrap().replace('\n', "\r\n");
    run_all(vec![
        broken("text, role and finish in one frame", frames(&[at_once.clone(), done()])),
        broken("the same and no [DONE]", frames(&[at_once])),
        broken("a letter a frame", frames(&letters)),
        broken("parts", frames(&[parts, stop(), done()])),
        broken("empty deltas first", frames(&[text(""), text(""), text(REST), stop(), done()])),
        broken(
            "pings first",
            frames(&[b": x\n\n".to_vec(), ev("null"), ev("{}"), text(REST), stop(), done()]),
        ),
        broken("CRLF", streams(crlf)),
        broken(
            "until the end",
            vec![
                Step::Send(
                    [
                        &b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"[..],
                        &text(REST),
                        &stop(),
                        &done(),
                    ]
                    .concat(),
                ),
                Step::Fin,
            ],
        ),
        broken("a completion", plain(REST)),
        broken("a completion that repeats all", plain(&whole())),
        broken("a completion that repeats all, instructed", plain(&whole())).with(instruct),
        broken("white space doubled, instructed", frames(&[text(" "), text(REST), stop(), done()]))
            .with(instruct),
        broken(
            "the last words again in other spacing, instructed",
            frames(&[text("a proxy  that "), text(REST), stop(), done()]),
        )
        .with(instruct),
        broken("all again in one frame, instructed", frames(&[text(&whole()), stop(), done()]))
            .with(instruct),
        broken(
            "its own ids each time",
            frames(&[
                chunk_as("x1", "m", &json!({ "content": "never lost " }), &Value::Null),
                chunk_as("x2", "n", &json!({ "content": "a word." }), &Value::Null),
                stop(),
                done(),
            ]),
        ),
    ]);
}

#[test]
fn a_continuation_that_says_nothing_more_ends_the_answer() {
    let first = || cut([role(), chunk(FIRST)].concat());
    let ended = |name: &str, second: Vec<Vec<u8>>| {
        trial(name, first(), Want::Recovered(FIRST.to_owned())).second(streams(second.concat()))
    };
    run_all(vec![
        ended("a finish alone", vec![stop(), done()]),
        ended(
            "role and finish",
            vec![
                chunk_as("b", "m", &json!({ "role": "assistant", "content": "" }), &Value::Null),
                stop(),
                done(),
            ],
        ),
        ended("length", vec![chunk_as("b", "m", &json!({}), &json!("length")), done()]),
    ]);
}

#[test]
fn a_continuation_that_fails_leaves_the_first_error() {
    let failing: Vec<(&str, Script)> = vec![
        (
            "refused by status",
            send(response("500 X", "application/json", r#"{"error":{"message":"second"}}"#)),
        ),
        ("busy", send(response("429 X", "application/json", r#"{"error":{"message":"second"}}"#))),
        ("an error first", streams(ev(r#"{"error":{"message":"second"}}"#))),
        ("nothing but [DONE]", streams(done())),
        ("a role and an end", streams(role())),
        ("HTML", send(response("200 OK", "text/html", "<p>second"))),
        ("a close", vec![Step::Fin]),
        ("silence", vec![Step::PauseUntilPeerCloses(PATIENCE)]),
        (
            "pings alone",
            vec![
                Step::Send(STREAM_HEAD.to_vec()),
                Step::Send(ch(b": x\n\n")),
                Step::PauseUntilPeerCloses(PATIENCE),
            ],
        ),
        ("a frame cut in its text", streams(openai::broken_text())),
    ];
    for (name, second) in failing {
        let (up1, up2) = (
            ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[FIRST])), Step::Fin]]),
            ScriptedUpstream::new(vec![second]),
        );
        let config = Config::chat([&up1.addr, &up2.addr]).set(
            "routes.chat",
            "timeouts",
            "{ first_token = \"300ms\", idle = \"300ms\" }",
        );
        let proxy = Proxy::start(&config);
        let error = proxy.ask(&ask("chat")).response().assert_failed_after(FIRST);
        assert_eq!(error["code"], "transport_error", "{name}");
        assert!(!error.to_string().contains("second"), "{name}: {error}");
        assert_eq!((up1.request_count(), up2.request_count()), (1, 1), "{name}");
    }
}

#[test]
fn stalls_are_noticed_wherever_they_begin() {
    let head = STREAM_HEAD.to_vec();
    let half = &ch(chunk(REST))[..100];
    let then = |bytes: &[u8]| vec![Step::Send([&head, bytes].concat()), Step::PauseUntilPeerCloses(PATIENCE)];
    let behind = |bytes: &[u8]| then(&[&ch([role(), chunk(FIRST)].concat()), bytes].concat());
    let pings = |bytes: &[u8], ping: &[u8]| {
        let mut script = vec![Step::Send([&head, bytes].concat())];
        (0..40).for_each(|_| script.extend([Step::Pause(ms(50)), Step::Send(ch(ping))]));
        script
    };
    let begun = ch([role(), chunk(FIRST)].concat());
    let goes_on = || streams([text(REST), stop(), done()].concat());
    let recovered =
        |name: &str, first: Script| trial(name, first, Want::Recovered(whole())).second(goes_on());
    let instead = |name: &str, first: Script| trial(name, first, Want::Instead);
    run_all(vec![
        instead("no byte", vec![Step::PauseUntilPeerCloses(PATIENCE)]),
        instead("half a head", vec![Step::Send(head[..30].to_vec()), Step::PauseUntilPeerCloses(PATIENCE)]),
        instead("a head", then(b"")),
        instead("a role", then(&ch(role()))),
        instead("half the first frame", then(half)),
        instead("pings before content", pings(&ch(role()), b": ping\n\n")),
        instead("usage before content", pings(b"", &openai::usage(1, 0))),
        recovered("behind content", behind(b"")),
        recovered("within a frame", behind(half)),
        recovered("within a chunk size", behind(b"1")),
        recovered("pings", pings(&begun, b": ping\n\n")),
        recovered("data that says nothing", pings(&begun, b"data: null\n\n")),
        recovered("empty deltas", pings(&begun, &chunk(""))),
        recovered("usage for ever", pings(&begun, &openai::usage(1, 1))),
        recovered("named events", pings(&begun, b"event: status\ndata: {\"x\":1}\n\n")),
    ]);
}

#[test]
fn a_model_that_thinks_in_empty_deltas_is_waited_for() {
    let empty = chunk_as("chatcmpl-a", "m", &json!({ "role": "assistant", "content": "" }), &Value::Null);
    let first = streams([empty.repeat(2000), text("Hello"), stop(), done()].concat());
    let second = streams(
        [
            role(),
            chunk_as("b", "m", &json!({ "content": "" }), &Value::Null).repeat(2000),
            text(REST),
            stop(),
            done(),
        ]
        .concat(),
    );
    run_all(vec![trial("before content", first, answer("Hello")), broken("behind a seam", second)]);
}

#[test]
fn a_drip_of_content_is_no_stall() {
    let pieces: Vec<String> = (0..8).map(|n| format!("{n} ")).collect();
    let mut script = vec![Step::Send(STREAM_HEAD.to_vec())];
    for piece in &pieces {
        script.extend([Step::Pause(ms(250)), Step::Send(ch(chunk(piece)))]);
    }
    script.push(Step::Send([ch(ending()), LAST_CHUNK.to_vec()].concat()));
    run_all(vec![trial("a word every 250 ms, idle 400 ms", script, answer(&pieces.concat()))]);
}

#[test]
fn tokens_left_are_those_not_delivered() {
    let words = ["a ", "b ", "c ", "d "];
    for delivered in 1..=words.len() {
        let up1 = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&words[..delivered])), Step::Fin]]);
        let up2 = ScriptedUpstream::new(vec![send(stream_as("b", "m", &words[delivered..]))]);
        let proxy = Proxy::start(&Config::chat([&up1.addr, &up2.addr]));
        let mut body = ask("chat");
        body["max_completion_tokens"] = json!(4);
        let response = proxy.ask(&body).response();
        response.assert_success("a b c d ");
        let left = 4 - delivered;
        match up2.requests().first() {
            Some(request) => assert_eq!(request.json()["max_completion_tokens"], left),
            None => assert_eq!((left, response.finish_reasons()[&0][0].as_str()), (0, "length")),
        }
    }
}

#[test]
fn exchanges_follow_each_other_on_one_connection() {
    let up1 = ScriptedUpstream::new(vec![
        vec![Step::Send(beginning(&["Hel"])), Step::Fin],
        send(stream(&["two"])),
        streams(ev(r#"{"error":{"message":"x"}}"#)),
        send(response("400 X", "application/json", r#"{"error":{"message":"four"}}"#)),
        vec![Step::Send(beginning(&["Hel"])), Step::Fin],
    ]);
    let up2 = ScriptedUpstream::new(vec![
        send(stream_as("chatcmpl-b", "m", &["lo"])),
        send(stream_as("chatcmpl-c", "m", &["three"])),
        send(response("503 X", "text/plain", "five")),
    ]);
    let proxy = Proxy::start(&without_cooldown(Config::chat([&up1.addr, &up2.addr])));
    let mut client = proxy.connect();
    client.ask(&ask("chat")).response().assert_success("Hello");
    client.ask(&ask("chat")).response().assert_success("two");
    client.ask(&ask("chat")).response().assert_success("three");
    assert_eq!(client.ask(&ask("chat")).response().status, 400);
    client.ask(&ask("chat")).response().assert_failed_after("Hel");
    client.wait_closed(PATIENCE);
}

#[test]
fn a_client_that_leaves_during_a_switch_stops_the_second_target() {
    let silent = || Step::PauseUntilPeerCloses(PATIENCE);
    let held = [STREAM_HEAD, &ch(text("ne"))].concat();
    for (name, second) in [
        ("no head", vec![silent()]),
        ("a head", vec![Step::Send(STREAM_HEAD.to_vec()), silent()]),
        ("text held at the seam", vec![Step::Send(held.clone()), silent()]),
    ] {
        for by_reset in [false, true] {
            let up1 = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[FIRST])), Step::Fin]]);
            let up2 = ScriptedUpstream::new(vec![second.clone()]);
            let proxy = Proxy::start(&instruct(Config::chat([&up1.addr, &up2.addr])));
            let mut client = proxy.ask(&ask("chat"));
            let mut response = client.head();
            client.read_text(&mut response, FIRST);
            up2.wait_for_requests(1, PATIENCE);
            let left = if by_reset { client.reset() } else { client.leave() };
            let closed = up2.wait_closed(0, PATIENCE);
            assert!(closed.saturating_duration_since(left) < PROMPT, "{name}");
            assert_eq!((up1.request_count(), up2.request_count()), (1, 1), "{name}");
        }
    }
}

#[test]
fn thousands_of_frames_in_one_read_pass_in_order() {
    let texts: Vec<String> = (0..6000).map(|n| format!("{n} ")).collect();
    let frames: Vec<u8> = texts.iter().flat_map(|t| chunk(t)).chain(ending()).collect();
    let crlf = String::from_utf8(frames.clone()).unwrap().replace('\n', "\r\n");
    let lines = String::from_utf8(frames.clone()).unwrap().replace("\n\n", "\n");
    let compare = |r: &Response, want: &[u8]| assert!(r.body == want, "bytes differ: {}", show(&r.body));
    let (a, b, c) = (frames.clone(), frames.clone(), frames.clone());
    run_all(vec![
        trial("canonical", streams(&frames), answer(&texts.concat())).also(move |r| compare(r, &a)),
        trial("CRLF", streams(crlf), answer(&texts.concat())).also(move |r| compare(r, &b)),
        trial("two hundred lines a frame", streams(two_hundred_a_frame(&lines)), answer(&texts.concat()))
            .also(move |r| compare(r, &c)),
    ]);
}

fn two_hundred_a_frame(lines: &str) -> String {
    let lines: Vec<&str> = lines.lines().collect();
    lines.chunks(200).map(|block| block.join("\n") + "\n\n").collect()
}

#[test]
fn a_body_of_twenty_mib_reaches_both_targets_byte_for_byte() {
    let mut body = ask("chat");
    body["messages"][0]["content"] = json!([{ "type": "image_url", "image_url": { "url": format!("data:image/png;base64,{}", "QUJD".repeat(5 << 20)) } }]);
    let text = body.to_string();
    let up1 = ScriptedUpstream::new(vec![vec![Step::Send(beginning(&[FIRST])), Step::Fin]]);
    let up2 = ScriptedUpstream::new(vec![send(stream_as("b", "m", &[REST]))]);
    let proxy = Proxy::start(&Config::chat([&up1.addr, &up2.addr]));
    proxy.connect().post(client::CHAT, text.as_bytes()).response().assert_success(&whole());
    let first = String::from_utf8(up1.requests()[0].body.clone()).unwrap();
    assert!(first == text.replacen("\"chat\"", "\"model-1\"", 1), "the first request differs");
    let second = String::from_utf8(up2.requests()[0].body.clone()).unwrap();
    let partial = format!(",{{\"role\":\"assistant\",\"content\":\"{FIRST}\"}}]");
    let end = text.find("}],\"model\"").unwrap() + 1;
    let want = [&text[..end], &partial, &text[end + 1..]].concat().replacen("\"chat\"", "\"model-2\"", 1);
    assert!(second == want, "the continuation differs: {}", show(second.as_bytes()));
}
