//! What an answer is made of besides text: calls, refusals, several choices, nothing.

use serde_json::json;

use crate::schema::{delta, forwarded, with};
use crate::support::openai::{ask, chunk, done, finish, role, usage};
use crate::trial::*;

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
