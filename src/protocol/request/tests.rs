use super::*;

fn peeked(body: &str) -> RequestPeek {
    peek(body.as_bytes()).unwrap_or_else(|error| panic!("{body}: {error}"))
}

fn at(body: &str, span: Span) -> &str {
    &body[span.start..span.end]
}

#[test]
fn finds_what_baton_must_know() {
    let body = r#" {"model" : "gp\u0074-4o","messages":[{"role":"user","content":"]\"}"}], "stream":true,
        "max_tokens":12,"max_completion_tokens":99999999999999999999,"n":2,"logprobs":true,
        "tools":[{}],"response_format":{"type":"json_object"},"modalities":["text","audio"],
        "stream_options":{"include_usage":true},"extra":{"model":"no"}} "#;
    let peek = peeked(body);
    assert_eq!((peek.model.as_str(), at(body, peek.model_span)), ("gpt-4o", r#""gp\u0074-4o""#));
    assert_eq!(at(body, peek.messages.unwrap()), r#"[{"role":"user","content":"]\"}"}]"#);
    let limit = peek.max_tokens.unwrap();
    assert_eq!((at(body, limit.value_span), limit.value), ("12", 12));
    assert_eq!(peek.max_completion_tokens.unwrap().value, u64::MAX);
    assert!(peek.stream && peek.logprobs && peek.tools_offered && peek.structured && peek.audio);
    assert!(peek.include_usage && peek.n == 2);

    let least = peeked(r#"{"model":"m"}"#);
    let model_span = Span { start: 9, end: 12 };
    assert_eq!(least, RequestPeek { model: "m".into(), model_span, n: 1, ..RequestPeek::default() });
    let nulls = peeked(
        r#"{"model":"m","messages":null,"stream":null,"n":null,"max_tokens":null,"logprobs":null,"tools":null,
        "response_format":null,"modalities":null,"audio":null,"stream_options":null}"#,
    );
    assert_eq!(nulls, least);
}

#[test]
fn tells_flags_apart() {
    type Sees = fn(&RequestPeek) -> bool;
    let cases: &[(&str, Sees, bool)] = &[
        (r#""logprobs":false"#, |p| p.logprobs, false),
        (r#""logprobs":0"#, |p| p.logprobs, true),
        (r#""tools":[]"#, |p| p.tools_offered, false),
        (r#""functions":[{}]"#, |p| p.tools_offered, true),
        (r#""response_format":{"type":"text"}"#, |p| p.structured, false),
        (r#""response_format":{"type":"json_schema","json_schema":{}}"#, |p| p.structured, true),
        (r#""response_format":{}"#, |p| p.structured, false),
        (r#""guided_json":{"type":"object"}"#, |p| p.structured, true),
        (r#""modalities":["text"]"#, |p| p.audio, false),
        (r#""modalities":["image"]"#, |p| p.audio, true),
        (r#""audio":{"voice":"v"}"#, |p| p.audio, true),
        (r#""stream_options":{}"#, |p| p.include_usage, false),
        (r#""stream_options":{"include_usage":false}"#, |p| p.include_usage, false),
        (r#""stream_options":{"include_us\u0061ge":true}"#, |p| p.include_usage, true),
        (r#""max_tokens":-1"#, |p| p.max_tokens.is_some(), false),
        (r#""max_tokens":0"#, |p| p.max_tokens.is_some_and(|limit| limit.value == 0), true),
        (r#""stream":false"#, |p| p.stream, false),
    ];
    for (member, sees, want) in cases {
        assert_eq!(sees(&peeked(&format!("{{\"model\":\"m\",{member}}}"))), *want, "{member}");
    }
}

/// Of a stream's request: the body that asks for usage; None: it is left as it is.
#[test]
fn a_request_is_made_to_ask_for_usage_and_nothing_else_changes() {
    let cases = [
        (
            "not spoken of",
            r#" { "stream":true, "model":"m" }"#,
            Some(r#" {"stream_options":{"include_usage":true}, "stream":true, "model":"m" }"#),
        ),
        (
            "null",
            r#"{"stream":true,"stream_options": null ,"model":"m"}"#,
            Some(r#"{"stream":true,"stream_options": {"include_usage":true} ,"model":"m"}"#),
        ),
        (
            "an empty object",
            r#"{"stream":true,"model":"m","stream_options":{ }}"#,
            Some(r#"{"stream":true,"model":"m","stream_options":{"include_usage":true }}"#),
        ),
        (
            "other options",
            r#"{"stream":true,"model":"m","stream_options":{"continuous_usage_stats":true}}"#,
            Some(
                r#"{"stream":true,"model":"m","stream_options":{"include_usage":true,"continuous_usage_stats":true}}"#,
            ),
        ),
        (
            "refused",
            r#"{"stream":true,"model":"m","stream_options":{"x":1,"include_usage": false }}"#,
            Some(r#"{"stream":true,"model":"m","stream_options":{"x":1,"include_usage": true }}"#),
        ),
        (
            "left open, the keys escaped",
            r#"{"stream":true,"model":"m","stre\u0061m_options":{"include_us\u0061ge":null}}"#,
            Some(r#"{"stream":true,"model":"m","stre\u0061m_options":{"include_us\u0061ge":true}}"#),
        ),
        ("asked for", r#"{"stream":true,"model":"m","stream_options":{"include_usage":true}}"#, None),
        ("no stream", r#"{"model":"m"}"#, None),
        (
            "a value for its upstream to judge",
            r#"{"stream":true,"model":"m","stream_options":"usage"}"#,
            None,
        ),
        ("the same", r#"{"stream":true,"model":"m","stream_options":{"include_usage":1}}"#, None),
    ];
    for (name, body, want) in cases {
        let ask = peeked(body).usage_ask;
        let asking = ask.map(|ask| [&body[..ask.span.start], ask.with, &body[ask.span.end..]].concat());
        assert_eq!(asking.as_deref(), want, "{name}");
    }
}

#[test]
fn refuses_what_cannot_be_served_and_says_why() {
    let wrong = |param, expected| PeekError::WrongValue { param, expected };
    let model = || wrong("model", "a string of 1 to 1024 bytes");
    let cases: &[(&str, PeekError)] = &[
        ("", PeekError::NotJson { at: 0 }),
        ("hello", PeekError::NotJson { at: 0 }),
        (r#"{"model":"#, PeekError::NotJson { at: 9 }),
        (r#"{"model":"m","#, PeekError::NotJson { at: 13 }),
        (r#"{"model":"m",}"#, PeekError::NotJson { at: 13 }),
        (r#"{'model':'m'}"#, PeekError::NotJson { at: 1 }),
        ("[1]", PeekError::NotAnObject),
        ("null", PeekError::NotAnObject),
        (r#"{"model":"m"} x"#, PeekError::TrailingBytes { at: 14 }),
        (r#"{"model":"m"}{"#, PeekError::TrailingBytes { at: 13 }),
        (r#"{"model":"a","model":"b"}"#, PeekError::DuplicateKey { key: "model".into() }),
        (r#"{"model":"a","mod\u0065l":"b"}"#, PeekError::DuplicateKey { key: "model".into() }),
        (r#"{"x":1,"model":"a","x":null}"#, PeekError::DuplicateKey { key: "x".into() }),
        (r#"{"messages":[]}"#, PeekError::MissingModel),
        (r#"{"model":null}"#, PeekError::MissingModel),
        (r#"{"model":7}"#, model()),
        (r#"{"model":""}"#, model()),
        (r#"{"model":["m"]}"#, model()),
        (r#"{"model":"m","stream":"true"}"#, wrong("stream", "true or false")),
        (r#"{"model":"m","stream":1}"#, wrong("stream", "true or false")),
        (r#"{"model":"m","n":0}"#, wrong("n", "a positive integer")),
        (r#"{"model":"m","n":-1}"#, wrong("n", "a positive integer")),
        (r#"{"model":"m","n":"2"}"#, wrong("n", "a positive integer")),
        (r#"{"model":"m","max_tokens":1.5}"#, wrong("max_tokens", "an integer")),
        (r#"{"model":"m","max_tokens":"9"}"#, wrong("max_tokens", "an integer")),
        (r#"{"model":"m","max_completion_tokens":true}"#, wrong("max_completion_tokens", "an integer")),
        (r#"{"model":"m","messages":{}}"#, wrong("messages", "an array")),
        (r#"{"model":"m","messages":"hi"}"#, wrong("messages", "an array")),
    ];
    for (body, want) in cases {
        assert_eq!(peek(body.as_bytes()), Err(want.clone()), "{body}");
    }
}

#[test]
fn limits_hold_at_and_past_them() {
    let nested =
        |depth: usize| format!("{{\"model\":\"m\",\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth));
    assert!(peek(nested(DEPTH_MAX as usize - 1).as_bytes()).is_ok());
    assert!(matches!(peek(nested(DEPTH_MAX as usize).as_bytes()), Err(PeekError::TooDeep { .. })));
    assert!(matches!(peek(nested(1_000_000).as_bytes()), Err(PeekError::TooDeep { .. })));
    let members = |count: usize| {
        let rest: String = (1..count).map(|i| format!(",\"k{i}\":0")).collect();
        format!("{{\"model\":\"m\"{rest}}}")
    };
    assert!(peek(members(MEMBERS_MAX).as_bytes()).is_ok());
    assert_eq!(peek(members(MEMBERS_MAX + 1).as_bytes()), Err(PeekError::TooManyMembers));
    let model = |bytes: usize| format!("{{\"model\":\"{}\"}}", "m".repeat(bytes));
    assert!(peek(model(MODEL_BYTES_MAX).as_bytes()).is_ok());
    assert!(peek(model(MODEL_BYTES_MAX + 1).as_bytes()).is_err());
}

#[test]
fn every_error_names_its_code_and_param() {
    let cases: &[(&str, Code, Option<&str>)] = &[
        ("x", Code::InvalidJson, None),
        ("[]", Code::InvalidJson, None),
        (r#"{"a":1,"a":1}"#, Code::DuplicateKey, Some("a")),
        ("{}", Code::MissingModel, Some("model")),
        (r#"{"model":""}"#, Code::InvalidValue, Some("model")),
        (r#"{"model":"m","n":0}"#, Code::InvalidValue, Some("n")),
    ];
    for (body, code, param) in cases {
        let error = ProxyError::from(peek(body.as_bytes()).unwrap_err());
        assert_eq!((error.code, error.param.as_deref(), error.status()), (*code, *param, 400), "{body}");
    }
}

#[test]
fn a_large_body_is_walked_once() {
    let body = format!(
        r#"{{"messages":[{{"role":"user","content":"{}"}}],"model":"m"}}"#,
        "A".repeat(20 << 20) + &r"\n".repeat(1 << 20)
    );
    assert_eq!(peeked(&body).messages.unwrap().end, body.len() - 13);
}

#[test]
fn outlines_conversations() {
    let outlined = |messages: &str| {
        let body = format!("{{\"model\":\"m\",\"messages\":{messages}}}");
        let outline = outline(body.as_bytes(), peeked(&body).messages.unwrap());
        (body, outline)
    };
    let (body, outline) = outlined(
        r#"[ {"role":"system","content":"be \"brief\""}, {"content":[{"type":"text","text":"hi"}],"role":"user"},
        {"role":"assistant","content":null,"tool_calls":[{}]} ]"#,
    );
    let Outline { count, first: Some(first), last: Some(last) } = outline.unwrap() else { panic!("{body}") };
    assert_eq!((count, first.role, last.role), (3, Role::System, Role::Assistant));
    let Content::Text(text) = first.content else { panic!("{first:?}") };
    assert_eq!(at(&body, text), r#"be \"brief\""#);
    assert_eq!(at(&body, first.span), r#"{"role":"system","content":"be \"brief\""}"#);
    assert_eq!((last.content, last.has_tool_calls, first.has_tool_calls), (Content::None, true, false));

    let (body, outline) = outlined(r#"[{"role":"user","content":[ {"type":"text"} ]}]"#);
    let only = outline.unwrap();
    assert_eq!((only.count, only.first), (1, only.last));
    let Some(Message { content: Content::Parts { span, is_empty: false }, .. }) = only.last else {
        panic!("{only:?}")
    };
    assert_eq!(at(&body, span), r#"[ {"type":"text"} ]"#);

    let (_, outline) = outlined("[]");
    assert_eq!(outline, Some(Outline::default()));
    for (role, want) in [("developer", Role::Developer), ("tool", Role::Tool), ("function", Role::Other)] {
        let (_, outline) = outlined(&format!(r#"[{{"role":"{role}","content":[]}}]"#));
        let message = outline.unwrap().first.unwrap();
        assert_eq!(message.role, want);
        assert!(matches!(message.content, Content::Parts { is_empty: true, .. }));
    }
    for odd in [
        r#"["hi"]"#,
        "[{}]",
        r#"[{"role":7}]"#,
        r#"[{"role":"user","content":7}]"#,
        r#"[{"role":"user","content":["hi"]}]"#,
        r#"[{"role":"user","role":"system"}]"#,
        r#"[{"role":"user","content":"a","c\u006fntent":"b"}]"#,
        r#"[{"role":"user","content":"a"},null]"#,
    ] {
        assert_eq!(outlined(odd).1, None, "{odd}");
    }
    assert_eq!(super::outline(b"[]", Span { start: 1, end: 9 }), None);
    assert_eq!(super::outline(b"[]", Span { start: 2, end: 1 }), None);
}
