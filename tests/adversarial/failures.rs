//! Upstreams that fail in every shape, before and after content; usage over several attempts.

use serde_json::{Value, json};

use crate::support::openai::{
    LAST_CHUNK, STREAM_HEAD, ask, broken_text, ch, chunk, chunk_as, completion, done, ev, finish, response,
    response_with, role, stream_as, usage,
};
use crate::support::upstream::send;
use crate::support::*;
use crate::trial::*;

/// Every shape of an error inside a stream that asks for another target.
fn in_band() -> Vec<(&'static str, Vec<u8>)> {
    let ride = |members: &str| {
        ev(format!(
            "{{\"id\":\"chatcmpl-a\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"\"}},{members}"
        ))
    };
    vec![
        ("OpenAI", ev(r#"{"error":{"message":"x","type":"server_error","param":null,"code":null}}"#)),
        ("rate limit", ev(r#"{"error":{"message":"x","type":"tokens","code":"rate_limit_exceeded"}}"#)),
        ("quota", ev(r#"{"error":{"message":"x","type":"insufficient_quota","code":"insufficient_quota"}}"#)),
        ("Responses", b"event: error\ndata: {\"type\":\"error\",\"code\":\"server_error\",\"message\":\"x\",\"param\":null,\"sequence_number\":3}\n\n".to_vec()),
        ("response.failed", b"event: response.failed\ndata: {\"type\":\"response.failed\",\"response\":{\"status\":\"failed\",\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}}\n\n".to_vec()),
        ("Anthropic", b"event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"x\"}}\n\n".to_vec()),
        ("OpenRouter", ride("\"finish_reason\":\"error\"}],\"error\":{\"code\":502,\"message\":\"x\"}}")),
        ("OpenRouter's code as text", ride("\"finish_reason\":\"error\"}],\"error\":{\"code\":\"server_error\",\"message\":\"x\"}}")),
        ("vLLM", ev(r#"{"error":{"message":"x","type":"InternalServerError","param":null,"code":500}}"#)),
        ("vLLM, then [DONE]", [ev(r#"{"error":{"message":"x","type":"InternalServerError","code":500}}"#), done()].concat()),
        ("SGLang's abort", ride("\"finish_reason\":\"abort\"}]}")),
        ("SGLang's abort as an object", ride("\"finish_reason\":\"Abort\"}]}")),
        ("DeepSeek", ride("\"finish_reason\":\"insufficient_system_resource\"}]}")),
        ("Gemini", ev(r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#)),
        ("Gemini in a list", ev(r#"[{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}]"#)),
        ("Groq", ev(r#"{"id":"a","choices":[],"x_groq":{"error":"over capacity"}}"#)),
        ("flat", ev(r#"{"object":"error","message":"x","type":"internal_server_error","param":null,"code":"1500"}"#)),
        ("bare text", ev(r#"{"error":"overloaded"}"#)),
        ("list", ev(r#"{"error":["overloaded"]}"#)),
        ("a number", ev(r#"{"error":500}"#)),
        ("true", ev(r#"{"error":true,"choices":[]}"#)),
        ("with choices null", ev(r#"{"id":"","choices":null,"error":{"message":"x"}}"#)),
        ("llama.cpp's field", b"error: {\"code\":500,\"message\":\"x\",\"type\":\"server_error\"}\n\n".to_vec()),
        ("no JSON at all", b"event: error\ndata: Internal Server Error\n\n".to_vec()),
        ("an empty error event with data", b"event: error\ndata: {}\n\n".to_vec()),
    ]
}

#[test]
fn every_error_in_the_stream_is_seen_before_and_after_content() {
    let mut trials = Vec::new();
    for (name, error) in in_band() {
        trials.push(trial(format!("{name}: first"), streams(&error), Want::Instead));
        trials.push(trial(
            format!("{name}: behind a role"),
            streams([&b": x\n\n"[..], &role(), &error].concat()),
            Want::Instead,
        ));
        let after = streams([role(), chunk("Hel"), error].concat());
        trials.push(trial(format!("{name}: behind text"), after, Want::Recovered("Hello".into())));
    }
    run_all(trials);
}

#[test]
fn an_error_that_is_the_clients_own_is_told_with_its_status() {
    let cases = [
        ("a number", r#"{"error":{"message":"too long","type":"x","code":400}}"#, 400),
        ("a name", r#"{"error":{"message":"bad","type":"invalid_request_error","code":null}}"#, 400),
        ("Gemini's name", r#"{"error":{"message":"bad","status":"INVALID_ARGUMENT","code":400}}"#, 400),
        ("content filter", r#"{"error":{"message":"bad","code":"content_filter"}}"#, 400),
        ("not found", r#"{"error":{"message":"no model","code":"model_not_found"}}"#, 404),
        ("too large", r#"{"type":"error","error":{"type":"request_too_large","message":"big"}}"#, 413),
        ("our key", r#"{"error":{"message":"bad key sk-secret","code":"invalid_api_key"}}"#, 401),
        ("our bill", r#"{"error":{"message":"pay","code":402}}"#, 402),
    ];
    let mut trials: Vec<_> = cases
        .iter()
        .map(|(name, error, status)| {
            trial(format!("{name}: first"), streams([role(), ev(error)].concat()), Want::Refused(*status))
                .also(|r| assert!(find(&r.body, b"sk-secret").is_none()))
        })
        .collect();
    for (name, error, _) in cases {
        let frames = streams([role(), chunk("Hel"), ev(error)].concat());
        trials.push(trial(format!("{name}: behind text"), frames, Want::Failed("Hel".into())));
    }
    let too_long = ev(r#"{"error":{"message":"x","code":"context_length_exceeded"}}"#);
    trials.push(trial("a listed code", streams(&too_long), Want::Instead));
    run_all(trials);
}

#[test]
fn what_is_no_stream_is_answered_otherwise() {
    let json = |body: &str| send(response("200 OK", "application/json", body));
    let sse = |body: &str| send(response("200 OK", "text/event-stream", body));
    let call = json!({ "id": "chatcmpl-a", "choices": [{ "index": 0, "message": { "role": "assistant", "content": null,
        "tool_calls": [{ "id": "c1", "type": "function", "function": { "name": "f", "arguments": "{}" } }] }, "finish_reason": "tool_calls" }] });
    let whole = completion("Hello").to_string();
    let pretty = serde_json::to_string_pretty(&completion("Hello")).unwrap();
    run_all(vec![
        trial("a completion", json(&whole), answer("Hello")),
        trial("a completion over lines", json(&pretty), answer("Hello")),
        trial("a completion labelled as a stream", sse(&whole), answer("Hello")),
        trial(
            "a completion behind a mark and white space",
            json(&format!("\u{feff} \r\n {whole}")),
            answer("Hello"),
        ),
        trial("a call", json(&call.to_string()), answer("")).also(|r| {
            assert_eq!(r.finish_reasons()[&0], ["tool_calls"]);
            assert_eq!(
                r.chunks()[0]["choices"][0]["delta"]["tool_calls"][0]["index"],
                0,
                "{}",
                show(&r.body)
            );
        }),
        trial("an empty completion", json(&completion("").to_string()), Want::Instead),
        trial(
            "a completion cut short",
            vec![Step::Send(response("200 OK", "application/json", &whole)[..200].to_vec()), Step::Fin],
            Want::Instead,
        ),
    ]);
}

#[test]
fn labels_do_not_decide_what_a_body_is() {
    let json = |body: &str| send(response("200 OK", "application/json", body));
    let sse = |body: &str| send(response("200 OK", "text/event-stream", body));
    let line = |text: &str| json!({ "choices": [{ "index": 0, "delta": { "content": text } }] }).to_string();
    let ndjson = format!("{}\n{}\n", line("Hel"), line("lo"));
    run_all(vec![
        trial("an error", json(r#"{"error":{"message":"x","type":"server_error"}}"#), Want::Instead),
        trial(
            "a request error",
            json(r#"{"error":{"message":"x","type":"invalid_request_error"}}"#),
            Want::Refused(400),
        ),
        trial(
            "an error in a list",
            json(r#"[{"error":{"code":429,"message":"x","status":"RESOURCE_EXHAUSTED"}}]"#),
            Want::Instead,
        ),
        trial("an empty object", json("{}"), Want::Instead),
        trial("an empty list", json("[]"), Want::Instead),
        trial("NDJSON", send(response("200 OK", "application/x-ndjson", &ndjson)), Want::Instead),
        trial("HTML", send(response("200 OK", "text/html", "<!DOCTYPE html><p>busy")), Want::Instead),
        trial("HTML labelled as a stream", sse("<!DOCTYPE html>\n\n<p>busy\n\n"), Want::Instead),
        trial("words labelled as a stream", sse("upstream connect error or disconnect\n"), Want::Instead),
        trial("nothing", sse(""), Want::Instead),
        trial("nothing, chunked", send([STREAM_HEAD, LAST_CHUNK].concat()), Want::Instead),
        trial("204", send(&b"HTTP/1.1 204 No Content\r\n\r\n"[..]), Want::Instead),
        trial("comments and an end", sse(": a\n\n: b\n\n"), Want::Instead),
        trial(
            "a stream under text/plain",
            send(response(
                "200 OK",
                "text/plain; charset=utf-8",
                [role(), chunk("Hello"), ending()].concat(),
            )),
            answer("Hello"),
        ),
        trial(
            "a stream without a type",
            send(response_with("200 OK", &[], [chunk("Hello"), ending()].concat())),
            answer("Hello"),
        ),
        trial(
            "a stream under another spelling",
            send(response(
                "200 OK",
                "Text/Event-Stream;charset=UTF-8",
                [b"x: 1\n", &chunk("Hello")[..], &ending()].concat(),
            )),
            answer("Hello"),
        ),
    ]);
}

#[test]
fn statuses_of_the_upstream_lead_where_they_should() {
    let with = |status: &str, body: &str| send(response(status, "application/json", body));
    let error = r#"{"error":{"message":"words","type":"t","param":null,"code":"c"}}"#;
    run_all(vec![
        trial(
            "302",
            send(&b"HTTP/1.1 302 Found\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n"[..]),
            Want::Instead,
        ),
        trial("304", send(&b"HTTP/1.1 304 Not Modified\r\n\r\n"[..]), Want::Instead),
        trial("101", send(&b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n"[..]), Want::Instead),
        trial(
            "102",
            send([&b"HTTP/1.1 102 Processing\r\n\r\n"[..], &stream_as("chatcmpl-a", "m", &["x"])].concat()),
            Want::Instead,
        ),
        trial(
            "100 and 103 first",
            send(
                [
                    &b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n"[..],
                    &stream_as("chatcmpl-a", "m", &["Hello"]),
                ]
                .concat(),
            ),
            answer("Hello"),
        ),
        trial("404", with("404 Not Found", error), Want::Refused(404)),
        trial("408", with("408 Request Timeout", error), Want::Refused(408)),
        trial("422 as HTML", send(response("422 X", "text/html", "<h1>no")), Want::Refused(422)),
        trial("498", with("498 Capacity", error), Want::Refused(498)),
        trial("524", with("524 Timeout", "<html>"), Want::Instead),
        trial("529", with("529 Overloaded", error), Want::Instead),
        trial("599", with("599 X", error), Want::Instead),
        trial("600", with("600 X", error), Want::Instead),
        trial(
            "429 with quota",
            with("429 X", r#"{"error":{"message":"x","code":"insufficient_quota"}}"#),
            Want::Instead,
        ),
        trial(
            "401 hides the key",
            with("401 Unauthorized", r#"{"error":{"message":"key sk-secret is wrong"}}"#),
            Want::Refused(401),
        )
        .also(|r| assert!(find(&r.body, b"sk-secret").is_none())),
        trial(
            "400 context length",
            with(
                "400 Bad Request",
                r#"{"error":{"message":"x","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ),
            Want::Instead,
        ),
        trial(
            "400, whatever its body says of its status",
            with("400 Bad Request", r#"{"error":{"message":"x","code":500,"type":"server_error"}}"#),
            Want::Refused(400),
        ),
        trial("the fallback's 400 is the last word", with("503 Busy", error), Want::Spent(400))
            .second(with("400 Bad Request", error)),
        trial("the fallback's 503 too", with("500 X", error), Want::Spent(503))
            .second(with("503 Busy", error)),
    ]);
}

#[test]
fn a_wait_that_was_asked_for_is_told_in_whole_seconds() {
    let busy = |field: &str| {
        let body = r#"{"error":{"message":"slow down"}}"#;
        let len = body.len();
        let head = "HTTP/1.1 429 Slow down\r\nContent-Type: application/json\r\n";
        send(format!("{head}{field}Content-Length: {len}\r\n\r\n{body}"))
    };
    let cases = [
        ("seconds", "Retry-After: 7\r\n", Some(7)),
        ("a fraction", "Retry-After: 6.2\r\n", Some(7)),
        ("milliseconds", "retry-after-ms: 6100\r\nRetry-After: 90\r\n", Some(7)),
        ("a far date", "Retry-After: Wed, 21 Oct 2099 07:28:00 GMT\r\n", Some(120)),
        ("a past date", "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n", None),
        ("words", "Retry-After: soon\r\n", None),
    ];
    let trials = cases.iter().map(|(name, field, want)| {
        let want = *want;
        trial(*name, busy(field), Want::Spent(429)).second(busy("")).also(move |r| {
            let got = r.header("retry-after").map(|v| v.parse::<u64>().unwrap());
            assert!(got == want || want == Some(7) && got == Some(6), "{got:?}");
        })
    });
    run_all(trials.collect());
}

#[test]
fn one_usage_frame_behind_a_seam_and_only_if_it_was_asked_for() {
    let with_usage = |frame: Vec<u8>, completion: u64| {
        let text = String::from_utf8(frame).unwrap();
        text.replace("]}\n", &format!("],\"usage\":{{\"prompt_tokens\":10,\"completion_tokens\":{completion},\"total_tokens\":{}}}}}\n", 10 + completion)).into_bytes()
    };
    let text = |t: &str| chunk_as("chatcmpl-b", "m", &json!({ "content": t }), &Value::Null);
    let stop = || chunk_as("chatcmpl-b", "m", &json!({}), &json!("stop"));
    let seconds = [
        ("its own frame", vec![text("l"), text("o"), stop(), usage(12, 2), done()]),
        ("with the finish", vec![text("l"), text("o"), with_usage(stop(), 2), done()]),
        (
            "with every frame",
            vec![with_usage(text("l"), 1), with_usage(text("o"), 2), with_usage(stop(), 2), done()],
        ),
        (
            "with every frame, and its own",
            vec![with_usage(text("l"), 1), with_usage(text("o"), 2), stop(), usage(12, 2), done()],
        ),
        ("before the finish", vec![text("l"), text("o"), usage(12, 2), stop(), done()]),
    ];
    let mut asking = ask("chat");
    asking["stream_options"] = json!({ "include_usage": true });
    let mut trials = Vec::new();
    for (name, second) in seconds {
        let frames = second.concat();
        let first = cut([role(), chunk("H"), chunk("e"), chunk("l")].concat());
        let make = |label: &str| {
            trial(format!("{name}: {label}"), first.clone(), Want::Recovered("Hello".into()))
                .second(streams(&frames))
        };
        trials.push(make("asked").asking(asking.clone()).also(|r| {
            let seen: Vec<_> = r.chunks().into_iter().filter(|c| !c["usage"].is_null()).collect();
            assert_eq!(seen.len(), 1, "{}", show(&r.body));
            let usage = &seen[0]["usage"];
            assert_eq!(
                (&seen[0]["choices"], &usage["completion_tokens"]),
                (&json!([]), &json!(5)),
                "{}",
                show(&r.body)
            );
            let sum = usage["prompt_tokens"].as_u64().unwrap() + 5;
            assert_eq!(usage["total_tokens"], sum);
        }));
        trials.push(make("not asked").also(|r| {
            assert!(r.chunks().iter().all(|c| c["usage"].is_null()), "{}", show(&r.body));
        }));
    }
    run_all(trials);
}

#[test]
fn what_the_client_was_promised_holds_after_the_finish() {
    let all = [role(), chunk("Hello"), finish("stop")].concat();
    let then = |steps: Vec<Step>| [vec![Step::Send([STREAM_HEAD, &ch(&all)].concat())], steps].concat();
    run_all(vec![
        trial("a reset", then(vec![Step::Rst]), answer("Hello")),
        trial("silence", then(vec![Step::PauseUntilPeerCloses(PATIENCE)]), answer("Hello")),
        trial("half a chunk", then(vec![Step::Send(b"ff\r\ndata: {".to_vec()), Step::Fin]), answer("Hello")),
        trial("a broken chunk size", then(vec![Step::Send(b"zz\r\n".to_vec())]), answer("Hello")),
        trial("an error", then(vec![Step::Send(ch(ev(r#"{"error":{"message":"x"}}"#)))]), answer("Hello")),
        trial("a bad frame", then(vec![Step::Send(ch(broken_text()))]), answer("Hello")),
        trial(
            "pings for ever",
            then(vec![Step::SendRepeated { bytes: ch(b": ping\n\n"), times: 2000 }]),
            answer("Hello"),
        ),
    ]);
}
