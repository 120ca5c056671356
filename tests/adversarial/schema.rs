//! Chunks in the shapes of real providers, and in shapes that break typed readers.

use serde_json::{Value, json};

use crate::support::openai::{ask, chunk, chunk_of, done, ev, finish, role, usage};
use crate::support::*;
use crate::trial::*;

/// A chunk with these members besides id and object.
fn with(members: &str) -> Vec<u8> {
    ev(format!(
        "{{\"id\":\"chatcmpl-a\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,{members}}}"
    ))
}

/// A chunk whose one choice has this delta.
fn delta(delta: &str) -> Vec<u8> {
    with(&format!("\"choices\":[{{\"index\":0,\"delta\":{delta},\"finish_reason\":null}}]"))
}

fn asking_usage() -> Value {
    let mut body = ask("chat");
    body["stream_options"] = json!({ "include_usage": true });
    body
}

/// Every frame must reach the client as it is.
fn forwarded(name: &str, frames: &[Vec<u8>], text: &str) -> Trial {
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
    let many = (0..200).map(|i| format!("\"k{i}\":{{}},")).collect::<String>();
    let deep = format!("{}1{}", "[".repeat(90), "]".repeat(90));
    let cases: Vec<(&str, Vec<u8>, &str)> = vec![
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
    ];
    run_all(
        cases
            .into_iter()
            .map(|(name, frame, text)| forwarded(name, &[role(), frame, end.clone()], text))
            .collect(),
    );
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
fn calls_with_odd_indexes_pass_and_commit() {
    let call = |text: &str| delta(&format!("{{\"tool_calls\":{text}}}"));
    let end = [finish("tool_calls"), done()].concat();
    let cases = [
        (
            "no index",
            vec![
                r#"[{"id":"c1","function":{"name":"f","arguments":""}}]"#,
                r#"[{"function":{"arguments":"{}"}}]"#,
            ],
        ),
        (
            "index null and text",
            vec![
                r#"[{"index":null,"id":"c1","function":{"name":"f","arguments":"{}"}}]"#,
                r#"[{"index":"1","id":"c2"}]"#,
            ],
        ),
        (
            "index out of any range",
            vec![
                r#"[{"index":4294967295,"id":"a"}]"#,
                r#"[{"index":-1,"id":"b"}]"#,
                r#"[{"index":1e99,"id":"c"}]"#,
            ],
        ),
        (
            "one index for all",
            vec![
                r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]"#,
                r#"[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]"#,
            ],
        ),
        (
            "two calls in one delta, a gap",
            vec![r#"[{"index":0,"id":"a"},{"index":2,"id":"b","function":{"name":null,"arguments":null}}]"#],
        ),
        (
            "arguments as an object",
            vec![r#"[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}}]"#],
        ),
    ];
    let mut trials: Vec<_> = cases
        .iter()
        .map(|(name, calls)| {
            let frames: Vec<_> = calls.iter().map(|c| call(c)).chain([end.clone()]).collect();
            forwarded(name, &frames, "")
        })
        .collect();
    let legacy = delta(r#"{"function_call":{"name":"f","arguments":"{}"}}"#);
    trials.push(forwarded("the legacy call", &[role(), legacy.clone(), end.clone()], ""));
    let failed = || Want::Failed(String::new());
    trials.push(trial(
        "a call, then a cut",
        cut(call(r#"[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]"#)),
        failed(),
    ));
    trials.push(trial("a legacy call, then a cut", cut(legacy), failed()));
    run_all(trials);
}

#[test]
fn answers_without_text_that_are_answers() {
    let end = [finish("stop"), done()].concat();
    run_all(vec![
        forwarded("length with no text", &[role(), finish("length"), done()], ""),
        forwarded("content_filter with no text", &[role(), finish("content_filter"), done()], ""),
        forwarded("a refusal", &[role(), delta(r#"{"refusal":"no"}"#), end.clone()], ""),
        forwarded("reasoning alone", &[role(), delta(r#"{"reasoning":"hm"}"#), end.clone()], ""),
        forwarded("audio", &[role(), delta(r#"{"audio":{"id":"a","data":"AAAA"}}"#), end.clone()], ""),
        forwarded(
            "a picture",
            &[role(), delta(r#"{"images":[{"type":"image_url","image_url":{"url":"data:"}}]}"#), end.clone()],
            "",
        ),
        trial("stop with no text", streams([role(), end.clone()].concat()), Want::Instead),
        trial(
            "empty texts and null",
            streams([role(), chunk(""), delta(r#"{"content":null}"#), end.clone()].concat()),
            Want::Instead,
        ),
        trial(
            "empty calls",
            streams([role(), delta(r#"{"tool_calls":[]}"#), end.clone()].concat()),
            Want::Instead,
        ),
        trial("usage and [DONE] alone", streams([usage(3, 0), done()].concat()), Want::Instead),
    ]);
}

#[test]
fn several_choices_end_when_all_have() {
    let of = |index: u64, text: &str, finish: &str| {
        with(&format!(
            "\"choices\":[{{\"index\":{index},\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":{finish}}}]"
        ))
    };
    let mut two = ask("chat");
    two["n"] = json!(2);
    let both = [of(0, "Hello", "null"), of(1, "Hi", "null"), of(0, "", "\"stop\""), of(1, "", "\"length\"")];
    let one = [of(1, "Hi", "null"), of(0, "Hello", "null"), of(1, "", "\"stop\"")].concat();
    let joined = with(
        r#""choices":[{"index":1,"delta":{"content":"Hi"},"finish_reason":"stop"},{"index":0,"delta":{"content":"Hello"},"finish_reason":"stop"}]"#,
    );
    run_all(vec![
        trial("both finish, no [DONE]", streams(both.concat()), answer("Hello")).asking(two.clone()),
        trial("both finish, a cut", cut(both.concat()), answer("Hello")).asking(two.clone()),
        trial("both in one chunk", streams(joined), answer("Hello")).asking(two.clone()),
        trial("one finishes, then a cut", cut(&one), Want::Failed("Hello".into())).asking(two.clone()),
        trial("one finishes, then an end", streams(&one), Want::Failed("Hello".into())).asking(two),
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
