use super::*;

#[test]
fn bodies_are_told_apart() {
    let answer = |message: &str, finish: &str| {
        format!(
            r#"{{"object":"chat.completion","choices":[{{"index":0,"message":{message},"finish_reason":{finish}}}]}}"#
        )
    };
    let completions: &[(String, bool)] = &[
        (answer(r#"{"role":"assistant","content":"Hi"}"#, "\"stop\""), true),
        (answer(r#"{"role":"assistant","content":""}"#, "\"stop\""), false),
        (answer(r#"{"content":null,"tool_calls":[{"id":"c"}]}"#, "\"tool_calls\""), true),
        (answer(r#"{"content":null,"refusal":"no"}"#, "\"stop\""), true),
        (answer(r#"{"content":null,"reasoning_content":"r"}"#, "null"), true),
        (answer(r#"{"content":""}"#, "\"content_filter\""), true),
        (answer("null", "\"length\""), true),
        (r#"{"choices":[{"text":"old"}],"error":null}"#.to_owned(), true),
        (r#"{"object":"chat.completion","choices":[]}"#.to_owned(), false),
    ];
    let mut reader = Reader::default();
    for (body, want) in completions {
        let Body::Completion { has_content, .. } = reader.read_body(body.as_bytes()) else {
            panic!("{body}")
        };
        assert_eq!(has_content, *want, "{body}");
    }
    let gemini = br#"{"object":"chat.completion","choices":[{"index":0,"finish_reason":"length"}],"usage":{"prompt_tokens":9,"total_tokens":9}}"#;
    let usage = Some(Usage { prompt_tokens: 9, completion_tokens: 0, total_tokens: 9 });
    assert_eq!(reader.read_body(gemini), Body::Completion { has_content: true, usage, text: None });
    for body in
        [r#"{"error":{"code":500}}"#, r#"[{"error":{"code":500}}]"#, r#"{"object":"error","code":500}"#]
    {
        let Body::Error(error) = reader.read_body(body.as_bytes()) else { panic!("{body}") };
        assert_eq!(error.status, 500);
    }
    for body in [
        "",
        "<html>",
        "[]",
        "{}",
        "7",
        "{\"choices\":[]}\n{\"choices\":[]}",
        "{\"choices\":[{\"message\":{\"content\":\"cut",
    ] {
        assert_eq!(reader.read_body(body.as_bytes()), Body::Other, "{body}");
    }
}

#[test]
fn a_completion_becomes_the_frames_of_a_stream() {
    let body = Bytes::from_static(
        br#"{
  "id": "a", "object": "chat.completion", "created": 1, "model": "m", "citations": ["u"],
  "choices": [
    {"index": 0, "message": {"role": "assistant", "content": "H\u00e9\n", "reasoning_content": "r",
      "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}, {"index": 5}, {}]},
     "logprobs": {"content": []}, "finish_reason": "tool_calls"},
    {"message": {"content": null, "refusal": "no"}}
  ],
  "usage": {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
}"#,
    );
    let mut reader = Reader::default();
    let payloads = |reader: &mut Reader, usage| -> Vec<serde_json::Value> {
        let frames = reader.completion_to_frames(&body, usage).unwrap();
        let parse = |frame: &Frame| {
            let payload = frame.payload_in_one().unwrap();
            assert!(!payload.iter().any(|b| matches!(b, b'\n' | b'\r')));
            serde_json::from_slice(payload).unwrap()
        };
        frames.iter().map(parse).collect()
    };
    let got = payloads(&mut reader, true);
    let head = |choices: serde_json::Value| serde_json::json!({"object": "chat.completion.chunk", "id": "a", "created": 1, "model": "m", "choices": choices});
    let mut first = head(
        serde_json::json!([{"index": 0, "finish_reason": null, "logprobs": {"content": []}, "delta": {
        "role": "assistant", "content": "Hé\n", "reasoning_content": "r",
        "tool_calls": [{"index": 0, "id": "c1", "function": {"name": "f", "arguments": "{}"}}, {"index": 5}, {"index": 2}]}}]),
    );
    first["citations"] = serde_json::json!(["u"]);
    let mut usage = head(serde_json::json!([]));
    usage["usage"] = serde_json::json!({"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3});
    let want = [
        first,
        head(serde_json::json!([{"index": 0, "delta": {}, "finish_reason": "tool_calls"}])),
        head(serde_json::json!([{"index": 1, "finish_reason": null,
            "delta": {"role": "assistant", "content": null, "refusal": "no"}}])),
        head(serde_json::json!([{"index": 1, "delta": {}, "finish_reason": "stop"}])),
        usage,
    ];
    assert_eq!(got, want);
    assert_eq!(payloads(&mut reader, false), want[..4]);
    let frames = reader.completion_to_frames(&body, false).unwrap();
    assert!(memchr::memmem::find(&frames[0].wire().concat(), br"H\u00e9\n").is_some(), "escapes are copied");
    for none in ["{}", "[]", "x", r#"{"choices":[]}"#, r#"{"choices":null}"#, r#"{"choices":[{"#] {
        assert!(reader.completion_to_frames(&Bytes::from_static(none.as_bytes()), true).is_none(), "{none}");
    }
    let many = format!(r#"{{"choices":[{}{{}}]}}"#, "{},".repeat(200));
    assert!(reader.completion_to_frames(&Bytes::from(many), true).is_none());
}

#[test]
fn a_finish_reason_that_is_missing_is_made_up_from_the_message() {
    let cases = [
        (r#"{"content":"Hi"}"#, "stop"),
        (r#"{"content":null,"tool_calls":[{"id":"c"}]}"#, "tool_calls"),
        (r#"{"content":"Hi","tool_calls":[]}"#, "stop"),
    ];
    for (message, want) in cases {
        let body = Bytes::from(format!(r#"{{"choices":[{{"index":0,"message":{message}}}]}}"#));
        let frames = Reader::default().completion_to_frames(&body, false).unwrap();
        let last: serde_json::Value =
            serde_json::from_slice(frames.last().unwrap().payload_in_one().unwrap()).unwrap();
        assert_eq!(last["choices"][0]["finish_reason"], want, "{message}");
    }
}
