use super::*;
use crate::protocol::Finish;

fn delta(payload: &str) -> Delta {
    match Found::walk(payload.as_bytes(), Shape::Chunk).unwrap().judge(payload.as_bytes(), EventName::Unnamed)
    {
        Reading::Delta(delta) => *delta,
        other => panic!("{payload}: {other:?}"),
    }
}

fn chunk(delta: &str) -> String {
    format!(r#"{{"id":"c","choices":[{{"index":0,"delta":{delta},"finish_reason":null}}]}}"#)
}

fn texts<'a>(payload: &'a str, delta: &Delta) -> Vec<&'a str> {
    delta.text.iter().map(|Span { start, end }| &payload[*start..*end]).collect()
}

fn cut(payload: &str, span: Option<Span>) -> String {
    let Span { start, end } = span.unwrap();
    format!("{}{}", &payload[..start], &payload[end..])
}

#[test]
fn finds_the_text_of_choice_0() {
    let cases: &[(&str, &[&str])] = &[
        (r#"{"content":"Hel"}"#, &["Hel"]),
        (r#"{"content":""}"#, &[]),
        (r#"{"content":null,"role":"assistant"}"#, &[]),
        (r#"{"content":" "}"#, &[" "]),
        (r#"{"content":"a\"b\\"}"#, &[r#"a\"b\\"#]),
        (r#"{"content":"\ud83d"}"#, &[r"\ud83d"]),
        (r#"{ "content" : "x" , "y" : [1,{}] }"#, &["x"]),
        (r#"{"cont\u0065nt":"x"}"#, &["x"]),
        (r#"{"content":"x","content":"y"}"#, &["y"]),
        (
            r#"{"content":[{"type":"text","text":"a"},{"text":"b","type":"text"},{"text":""},"c"]}"#,
            &["a", "b", "c"],
        ),
        (r#"{"content":[{"type":"thinking","thinking":[{"type":"text","text":"t"}]}]}"#, &[]),
        (r#"{"content":[{"type":"reference","reference_ids":[1],"text":"no"}]}"#, &[]),
        (r#"{"content":7}"#, &[]),
        (r#""text""#, &[]),
    ];
    for (said, want) in cases {
        let payload = chunk(said);
        let delta = delta(&payload);
        assert_eq!(texts(&payload, &delta), *want, "{said}");
        assert_eq!(delta.choices.as_slice(), [Choice { index: 0, finish: None }], "{said}");
    }
    let legacy = r#"{"choices":[{"text":"old","index":0}]}"#;
    assert_eq!(texts(legacy, &delta(legacy)), ["old"]);
    let both = r#"{"choices":[{"text":"old","delta":{"content":"new"}}]}"#;
    assert_eq!(texts(both, &delta(both)), ["new"]);
}

#[test]
fn tells_what_else_a_delta_holds() {
    type Sees = fn(&Delta) -> bool;
    let cases: &[(&str, Sees, bool)] = &[
        (r#"{"role":"assistant"}"#, |d| d.role && d.edits.role_member.is_some(), false),
        (r#"{"role":null}"#, |d| !d.role && d.edits.role_member.is_none(), false),
        (r#"{"tool_calls":[{"index":4294967295}]}"#, |d| d.tool_call, true),
        (r#"{"tool_calls":[{"index":-1},{"index":null},{}]}"#, |d| d.tool_call, true),
        (r#"{"tool_calls":[]}"#, |d| !d.tool_call, false),
        (r#"{"tool_calls":null,"function_call":null}"#, |d| !d.tool_call, false),
        (r#"{"function_call":{"name":"f"}}"#, |d| d.tool_call, true),
        (r#"{"reasoning":"th"}"#, |d| d.reasoning, true),
        (r#"{"reasoning_content":"ink"}"#, |d| d.reasoning, true),
        (r#"{"reasoning_details":[{"text":"!"}]}"#, |d| d.reasoning, true),
        (r#"{"reasoning":null,"reasoning_content":"","reasoning_details":[]}"#, |d| !d.reasoning, false),
        (r#"{"thinking":"t"}"#, |d| d.reasoning, true),
        (r#"{"content":[{"type":"thinking","thinking":[{"text":"t"}]}]}"#, |d| d.reasoning, true),
        (r#"{"content":[{"type":"thinking","thinking":[]}]}"#, |d| !d.reasoning, false),
        (r#"{"refusal":"no"}"#, |d| d.refusal, true),
        (r#"{"refusal":null}"#, |d| !d.refusal, false),
        (r#"{"content":[{"type":"refusal","refusal":"no"}]}"#, |d| d.refusal, true),
        (r#"{"content":[{"type":"refusal","refusal":""}]}"#, |d| !d.refusal, false),
        (r#"{"audio":{"id":"a"}}"#, |d| d.audio, true),
        (r#"{"images":[{"type":"image_url"}]}"#, |d| d.audio, true),
        (r#"{"annotations":[{"type":"url_citation"}]}"#, |d| *d != Delta::default(), false),
        ("{}", |d| !d.role, false),
        ("null", |d| !d.role, false),
    ];
    for (said, sees, is_content) in cases {
        let delta = delta(&chunk(said));
        assert!(sees(&delta), "{said}: {delta:?}");
        assert_eq!(delta.has_content(), *is_content, "{said}");
    }
    assert!(delta(r#"{"choices":[{"delta":{},"logprobs":{"content":[{}]}}]}"#).logprobs);
    assert!(!delta(r#"{"choices":[{"delta":{},"logprobs":null}]}"#).logprobs);
}

#[test]
fn choices_and_their_ends() {
    type Case = (&'static str, &'static [(i64, Option<Finish>)]);
    let cases: &[Case] = &[
        ("[]", &[]),
        (r#"[{"delta":{},"finish_reason":"stop"}]"#, &[(0, Some(Finish::Stop))]),
        (r#"[{"finish_reason":"length","index":3}]"#, &[(3, Some(Finish::Length))]),
        (r#"[{"finish_reason":"MAX_TOKENS"}]"#, &[(0, Some(Finish::Length))]),
        (r#"[{"finish_reason":"tool_calls"}]"#, &[(0, Some(Finish::ToolCalls))]),
        (r#"[{"finish_reason":"function_call"}]"#, &[(0, Some(Finish::ToolCalls))]),
        (r#"[{"finish_reason":"content_filter"}]"#, &[(0, Some(Finish::ContentFilter))]),
        (r#"[{"finish_reason":"eos"}]"#, &[(0, Some(Finish::Other))]),
        (r#"[{"finish_reason":""}]"#, &[(0, None)]),
        (r#"[{"index":null,"finish_reason":null},{"index":-7}]"#, &[(0, None), (-7, None)]),
        (
            r#"[{"index":99999999999999999999},{"index":"1"},{"index":2.0}]"#,
            &[(i64::MAX, None), (0, None), (2, None)],
        ),
        ("[null,3,[]]", &[]),
    ];
    for (choices, want) in cases {
        let delta = delta(&format!("{{\"choices\":{choices}}}"));
        let got: Vec<_> = delta.choices.iter().map(|choice| (choice.index, choice.finish)).collect();
        assert_eq!(got, *want, "{choices}");
    }
    let other = delta(r#"{"choices":[{"index":1,"delta":{"content":"x"}}]}"#);
    assert!(other.text.is_empty() && other.other_choice && other.has_content());
    let both =
        delta(r#"{"choices":[{"delta":{"content":"x"},"index":1}],"choices":[{"delta":{"content":"y"}}]}"#);
    assert!(both.text.len() == 1 && !both.other_choice && both.choices.len() == 1);
}

#[test]
fn usage_is_read_whatever_its_numbers() {
    type Case = (&'static str, Option<(u64, u64, u64)>);
    let cases: &[Case] = &[
        (r#""usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}"#, Some((3, 1, 4))),
        (r#""usage":{"prompt_tokens":9,"total_tokens":9}"#, Some((9, 0, 9))),
        (r#""usage":{"completion_tokens":2,"total_tokens":9}"#, Some((7, 2, 9))),
        (r#""usage":{"prompt_tokens":3,"completion_tokens":2}"#, Some((3, 2, 5))),
        (
            r#""usage":{"prompt_tokens":-3,"completion_tokens":1e400,"total_tokens":1.5}"#,
            Some((0, u64::MAX, 1)),
        ),
        (
            r#""usage":{"prompt_tokens":18446744073709551617,"completion_tokens":null}"#,
            Some((u64::MAX, 0, u64::MAX)),
        ),
        (r#""x_groq":{"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3}}"#, Some((1, 2, 3))),
        (r#""usage":null"#, None),
        (r#""usage":{}"#, None),
        (r#""usage":"many""#, None),
    ];
    for (usage, want) in cases {
        let want = want.map(|(prompt_tokens, completion_tokens, total_tokens)| Usage {
            prompt_tokens,
            completion_tokens,
            total_tokens,
        });
        assert_eq!(delta(&format!("{{\"choices\":[],{usage}}}")).usage, want, "{usage}");
    }
    assert!(delta(r#"{"choices":null,"usage":{"total_tokens":4}}"#).usage.is_some());
    assert!(delta(r#"{"usage":{"total_tokens":4}}"#).choices.is_empty());
}

#[test]
fn edits_can_be_cut_out() {
    let with_error = |rest: &str| format!(r#"{{"error":null{rest}}}"#);
    let cases = [
        (r#"{"choices":[],"error":null}"#.to_owned(), r#"{"choices":[]}"#),
        (r#"{"choices":[] , "error" : null , "x":1}"#.to_owned(), r#"{"choices":[]  , "x":1}"#),
        (with_error(r#","choices":[]"#), r#"{"choices":[]}"#),
        (r#"{"choices":[],"error":{}}"#.to_owned(), r#"{"choices":[]}"#),
        (r#"{"choices":[],"error":false}"#.to_owned(), r#"{"choices":[]}"#),
    ];
    for (payload, want) in cases {
        assert_eq!(cut(&payload, delta(&payload).edits.error_null_member), want, "{payload}");
    }
    let payload = r#"{"error":null,"usage":null,"choices":[]}"#;
    let edits = delta(payload).edits;
    let (error, usage) = (edits.error_null_member.unwrap(), edits.usage_null_member.unwrap());
    assert!(error.end <= usage.start);
    assert_eq!(
        [&payload[..error.start], &payload[error.end..usage.start], &payload[usage.end..]].concat(),
        r#"{"choices":[]}"#
    );
    let figures = r#""usage":{"total_tokens":4}"#;
    for payload in [
        format!(r#"{{{figures} ,"choices":[]}}"#),
        format!(r#"{{"choices":[], {figures}}}"#),
        format!(r#"{{"choices":[],{figures}}}"#),
    ] {
        assert_eq!(cut(&payload, delta(&payload).edits.usage_member), r#"{"choices":[]}"#, "{payload}");
    }
    // Usage that stays does not change how its neighbour is cut.
    let payload = format!(r#"{{{figures},"error":null}}"#);
    assert_eq!(cut(&payload, delta(&payload).edits.error_null_member), format!("{{{figures}}}"));
    for (said, want) in [
        (r#"{"role":"assistant","content":"x"}"#, r#"{"content":"x"}"#),
        (r#"{"content":"x","role":"assistant"}"#, r#"{"content":"x"}"#),
        (r#"{"role":"assistant"}"#, "{}"),
    ] {
        let payload = chunk(said);
        assert_eq!(cut(&payload, delta(&payload).edits.role_member), chunk(want));
    }
    let payload = r#"{"id":"a","created":17,"choices":[{"index":1,"delta":{"role":"assistant"}}]}"#;
    let edits = delta(payload).edits;
    assert_eq!(
        (edits.id, edits.created),
        (Some(Span { start: 6, end: 9 }), Some(Span { start: 20, end: 22 }))
    );
    assert_eq!((edits.role_member, edits.usage_null_member), (None, None));
}

#[test]
fn members_of_some_servers_own_are_passed_over_when_they_are_no_objects() {
    for member in
        [r#""x_groq":null"#, r#""x_groq":"x""#, r#""x_groq":[1]"#, r#""response":7"#, r#""response":"r""#]
    {
        let payload = format!(r#"{{{member},"choices":[{{"index":0,"delta":{{"content":"Hi"}}}}]}}"#);
        assert_eq!(texts(&payload, &delta(&payload)), ["Hi"], "{member}");
    }
}
