//! Chunks in the shapes of real providers, and in shapes that break typed readers.

use serde_json::{Value, json};

use crate::support::openai::{ask, chunk, chunk_of, done, ev, finish, role, usage};
use crate::support::*;
use crate::trial::*;

/// A chunk with these members besides id and object.
pub fn with(members: &str) -> Vec<u8> {
    ev(format!(
        "{{\"id\":\"chatcmpl-a\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,{members}}}"
    ))
}

/// A chunk whose one choice has this delta.
pub fn delta(delta: &str) -> Vec<u8> {
    with(&format!("\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]"))
}

fn asking_usage() -> Value {
    let mut body = ask("chat");
    body["stream_options"] = json!({ "include_usage": true });
    body
}

/// Every frame must reach the client as it is.
pub fn forwarded(name: &str, frames: &[Vec<u8>], text: &str) -> Trial {
    let body = frames.concat();
    let whole = body.clone();
    trial(name, streams(&body), answer(text))
        .also(move |r| assert_eq!(show(&r.body), show(&whole), "byte for byte"))
}

#[test]
fn chunks_of_every_provider_pass_untouched() {
    let end = [finish("stop"), done()].concat();
    let frames = |list: &[&str]| [list.iter().map(ev).collect::<Vec<_>>(), vec![end.clone()]].concat();
    run_all(vec![
        forwarded(
            "Azure",
            &frames(&[
                r#"{"id":"","object":"","created":0,"model":"","prompt_filter_results":[{"prompt_index":0,"content_filter_results":{"hate":{"filtered":false,"severity":"safe"}}}],"choices":[]}"#,
                r#"{"id":"chatcmpl-a","choices":[{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"finish_reason":null,"logprobs":null,"content_filter_results":{}}],"usage":null}"#,
                r#"{"id":"chatcmpl-a","choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null,"logprobs":null,"content_filter_results":{"hate":{"filtered":false}}}],"usage":null}"#,
                r#"{"id":"","object":"","created":0,"model":"","choices":[{"index":0,"finish_reason":null,"content_filter_offsets":{"check_offset":1},"content_filter_results":{}}]}"#,
            ]),
            "Hello",
        ),
        forwarded(
            "OpenRouter",
            &frames(&[
                r#"{"id":"gen-1","provider":"OpenAI","model":"openai/gpt-4o","object":"chat.completion.chunk","created":1,"choices":[{"index":0,"delta":{"role":"assistant","content":"","reasoning":null,"reasoning_details":[]},"finish_reason":null,"native_finish_reason":null,"logprobs":null}]}"#,
                r#"{"id":"gen-1","provider":"OpenAI","choices":[{"index":0,"delta":{"role":"assistant","content":"Hello"},"finish_reason":null,"native_finish_reason":null}]}"#,
                r#"{"id":"gen-1","provider":"OpenAI","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":"stop","native_finish_reason":"completed"}]}"#,
                r#"{"id":"gen-1","provider":"OpenAI","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null,"native_finish_reason":null}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"cost":0.0001,"is_byok":false}}"#,
            ]),
            "Hello",
        ),
        forwarded(
            "vLLM with running usage",
            &frames(&[
                r#"{"id":"chatcmpl-a","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"prompt_token_ids":null,"usage":{"prompt_tokens":3,"total_tokens":3,"completion_tokens":0}}"#,
                r#"{"id":"chatcmpl-a","choices":[{"index":0,"delta":{"content":"Hello","reasoning_content":null},"logprobs":null,"finish_reason":null,"token_ids":null}],"usage":{"prompt_tokens":3,"total_tokens":4,"completion_tokens":1}}"#,
                r#"{"id":"chatcmpl-a","choices":[{"index":0,"delta":{"content":""},"logprobs":null,"finish_reason":"stop","stop_reason":null}]}"#,
            ]),
            "Hello",
        ),
        forwarded(
            "Mistral",
            &frames(&[
                r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}],"p":"abcdefghij"}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]},"finish_reason":null}]}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{"content":[{"type":"text","text":"Hel"},{"type":"reference","reference_ids":[1,2]},{"type":"text","text":"lo"}]},"finish_reason":null}]}"#,
            ]),
            "Hello",
        ),
    ]);
}

#[test]
fn chunks_of_further_providers_pass_untouched() {
    let end = [finish("stop"), done()].concat();
    let frames = |list: &[&str]| [list.iter().map(ev).collect::<Vec<_>>(), vec![end.clone()]].concat();
    run_all(vec![
        forwarded(
            "Gemini",
            &frames(&[
                r#"{"choices":[{"delta":{"content":"Hello","role":"assistant","extra_content":{"google":{"thought_signature":"AbC="}}},"finish_reason":"stop","index":0}],"created":1,"id":"a","model":"gemini-2.5","object":"chat.completion.chunk","usage":{"completion_tokens":1,"prompt_tokens":2,"total_tokens":9}}"#,
            ]),
            "Hello",
        ),
        forwarded(
            "Groq",
            &frames(&[
                r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}],"x_groq":{"id":"req_1","seed":1}}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":null,"finish_reason":null}]}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{},"logprobs":null,"finish_reason":"stop"}],"x_groq":{"id":"req_1","usage":{"queue_time":0.1,"prompt_tokens":1,"completion_tokens":1,"total_tokens":2},"error":null}}"#,
            ]),
            "Hello",
        ),
        forwarded(
            "DeepSeek",
            &frames(&[
                r#"{"id":"a","choices":[{"index":0,"delta":{"role":"assistant","content":null,"reasoning_content":""},"finish_reason":null}]}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{"content":null,"reasoning_content":"hm"},"finish_reason":null}]}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{"content":"Hello","reasoning_content":null},"finish_reason":null}]}"#,
                r#"{"id":"a","choices":[{"index":0,"delta":{"content":"","reasoning_content":null},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1,"total_tokens":2,"prompt_cache_hit_tokens":0}}"#,
            ]),
            "Hello",
        ),
        forwarded(
            "llama.cpp",
            &frames(&[
                r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"role":"assistant","content":null}}],"created":1,"id":"a","model":"m","system_fingerprint":"b1","object":"chat.completion.chunk"}"#,
                r#"{"choices":[{"finish_reason":null,"index":0,"delta":{"content":"Hello"}}],"created":1,"id":"a","model":"m","object":"chat.completion.chunk","__verbose":{"index":0,"content":"Hello","tokens":[1],"stop":false}}"#,
                r#"{"choices":[{"finish_reason":"stop","index":0,"delta":{}}],"created":1,"id":"a","object":"chat.completion.chunk","timings":{"prompt_n":1,"predicted_per_second":1e2}}"#,
            ]),
            "Hello",
        ),
    ]);
}

#[test]
fn odd_chunks_pass_untouched() {
    let end = [finish("stop"), done()].concat();
    let cases = oddly_written().into_iter().chain(oddly_filled());
    run_all(cases.map(|(name, frame, text)| forwarded(name, &[role(), frame, end.clone()], text)).collect());
}

/// Chunks with JSON that few would write: name, frame, text.
fn oddly_written() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let many = (0..200).map(|i| format!("\"k{i}\":{{}},")).collect::<String>();
    let deep = format!("{}1{}", "[".repeat(90), "]".repeat(90));
    vec![
        (
            "key order and white space",
            ev(
                " { \"choices\" :\t[ { \"finish_reason\" : null , \"delta\" : { \"content\" : \"Hello\" } , \"index\" : 0 } ] , \"id\" : \"chatcmpl-a\" } ",
            ),
            "Hello",
        ),
        (
            "escaped keys",
            ev(
                r#"{"\u0069d":"chatcmpl-a","choice\u0073":[{"index":0,"d\u0065lta":{"c\u006fntent":"Hello"}}]}"#,
            ),
            "Hello",
        ),
        (
            "numbers out of range",
            with(
                r#""x":[1E400,-1e-400,18446744073709551617,1.10,-0,0.1e+7],"choices":[{"index":0,"delta":{"content":"Hello"}}]"#,
            ),
            "Hello",
        ),
        (
            "created as a float and a text",
            with(r#""choices":[{"index":0.0,"delta":{"content":"Hello"}}],"created":1.7e9"#),
            "Hello",
        ),
        ("an index as null", with(r#""choices":[{"index":null,"delta":{"content":"Hello"}}]"#), "Hello"),
        (
            "NaN and infinities",
            with(
                r#""choices":[{"index":0,"delta":{"content":"Hello"},"logprobs":{"content":[{"token":"x","logprob":-Infinity,"top_logprobs":[{"logprob":NaN}]}]}}]"#,
            ),
            "Hello",
        ),
        (
            "two hundred members",
            with(&format!("{many}\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Hello\"}}}}]")),
            "Hello",
        ),
        (
            "deep nesting",
            with(&format!("\"x\":{deep},\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Hello\"}}}}]")),
            "Hello",
        ),
    ]
}

/// Chunks with members that mean something elsewhere, or nothing.
fn oddly_filled() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("error-like texts", delta(r#"{"content":"Hello","x":"\"error\":{\"message\":\"no\"}"}"#), "Hello"),
        (
            "an error member inside the delta",
            delta(r#"{"content":"Hello","error":{"message":"tool said no"}}"#),
            "Hello",
        ),
        (
            "escapes of every kind",
            delta(r#"{"content":"\u0048\u0065llo\"\\\/\b\f\n\r\t\u0000\u2028"}"#),
            "Hello\"\\/\u{8}\u{c}\n\r\t\0\u{2028}",
        ),
        (
            "a delta of null",
            [with(r#""choices":[{"index":0,"delta":null}]"#), chunk("Hello")].concat(),
            "Hello",
        ),
        ("a choice without a delta", [with(r#""choices":[{"index":0}]"#), chunk("Hello")].concat(), "Hello"),
        (
            "choices of null",
            [
                with(r#""choices":null,"usage":{"prompt_tokens":1,"completion_tokens":0,"total_tokens":1}"#),
                chunk("Hello"),
            ]
            .concat(),
            "Hello",
        ),
        (
            "an odd object name",
            ev(r#"{"object":"chat.completion","choices":[{"index":0,"delta":{"content":"Hello"}}]}"#),
            "Hello",
        ),
        (
            "a member of 100 KiB",
            with(&format!(
                "\"x\":\"{}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"Hello\"}}}}]",
                "y".repeat(100_000)
            )),
            "Hello",
        ),
    ]
}

#[test]
fn halves_of_characters_in_neighbouring_deltas_make_one() {
    let halves = [delta(r#"{"content":"a\ud83d"}"#), delta(r#"{"content":"\ude00b"}"#)].concat();
    let raw_second = [
        delta(r#"{"content":"\uD83D"}"#),
        delta(r#"{"content":"\uDE00\uD83D"}"#),
        delta(r#"{"content":"\uDE01"}"#),
    ]
    .concat();
    let end = ending();
    run_all(vec![
        forwarded("one pair", &[role(), halves, end.clone()], "a😀b"),
        forwarded("two pairs over three", &[raw_second, end.clone()], "😀😁"),
        forwarded("a half for ever alone", &[delta(r#"{"content":"x\ud83d"}"#), end], "x\u{fffd}"),
    ]);
}

#[test]
fn error_null_in_any_place_is_no_error_and_is_taken_out() {
    let at = |members: &str| ev(format!("{{{members}}}"));
    let choices = r#""choices":[{"index":0,"delta":{"content":"Hello"},"finish_reason":null}]"#;
    let cases = [
        ("first", format!("\"error\":null,{choices}")),
        ("last", format!("{choices},\"error\":null")),
        ("between", format!("\"id\":\"chatcmpl-a\",\"error\" : null ,{choices}")),
        ("false", format!("\"error\":false,{choices}")),
        ("an empty text", format!("{choices},\"error\":\"\"")),
        ("beside usage null", format!("\"error\":null,\"usage\":null,{choices}")),
    ];
    let trials = cases.iter().map(|(name, members)| {
        trial(*name, streams([at(members), ending()].concat()), answer("Hello")).also(|r| {
            assert!(find(&r.body, b"\"error\"").is_none(), "{}", show(&r.body));
            assert!(
                r.events()
                    .frames
                    .iter()
                    .all(|f| f.data == b"[DONE]" || serde_json::from_slice::<Value>(&f.data).is_ok())
            );
        })
    });
    run_all(trials.collect());
}

#[test]
fn usage_in_every_place_is_passed_on_once() {
    let carried = chunk_of(&json!({}), &json!("stop"));
    let carried = String::from_utf8(carried)
        .unwrap()
        .replace("}]}", "}],\"usage\":{\"prompt_tokens\":7,\"completion_tokens\":2,\"total_tokens\":9}}");
    let want = |name: &str, frames: Vec<Vec<u8>>| {
        forwarded(name, &frames, "Hello").asking(asking_usage()).also(|r| {
            let seen: Vec<_> = r.chunks().into_iter().filter(|c| c["usage"].is_object()).collect();
            assert_eq!(seen.len(), 1, "{}", show(&r.body));
        })
    };
    run_all(vec![
        want("its own frame", vec![chunk("Hello"), finish("stop"), usage(7, 2), done()]),
        want("with the finish", vec![chunk("Hello"), carried.into_bytes(), done()]),
        want("before the finish", vec![chunk("Hello"), usage(7, 2), finish("stop"), done()]),
    ]);
}
