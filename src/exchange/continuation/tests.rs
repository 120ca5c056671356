use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::*;
use crate::exchange::Shape;
use crate::policy::Timeouts;
use crate::protocol::request::peek;

const PARTIAL: &str = r#"Hel\"l\u00f6 你\n"#;
const PREFILL: (ContinuationMode, PrefillFlags) = (ContinuationMode::Prefill, PrefillFlags::None);
const INSTRUCT: (ContinuationMode, PrefillFlags) = (ContinuationMode::Instruct, PrefillFlags::None);
const VLLM: (ContinuationMode, PrefillFlags) = (ContinuationMode::Prefill, PrefillFlags::Vllm);
const PREFIX: (ContinuationMode, PrefillFlags) = (ContinuationMode::Prefill, PrefillFlags::Prefix);

fn build_for(
    body: &str,
    how: (ContinuationMode, PrefillFlags),
    partial: &str,
    delivered: u64,
) -> Result<String, Refused> {
    build_trimmed(body, how, partial, delivered, false)
}

fn build_trimmed(
    body: &str,
    (continuation, prefill_flags): (ContinuationMode, PrefillFlags),
    partial: &str,
    delivered: u64,
    trim_trailing_space: bool,
) -> Result<String, Refused> {
    let body = Bytes::copy_from_slice(body.as_bytes());
    let request = Request { shape: Shape::ChatStream, peek: peek(&body).unwrap(), body };
    let none = Duration::ZERO;
    let target = Target {
        label: Arc::from("b/m"),
        model: Bytes::from_static(b"\"m-b\""),
        timeouts: Timeouts { connect: none, first_token: none, idle: none, response: none, total: none },
        continuation,
        prefill_flags,
        trim_trailing_space,
        ask_usage: false,
        prompt: None,
    };
    let slices = build(&request, &target, partial.as_bytes(), delivered)?;
    assert!(slices.iter().all(|slice| !slice.is_empty()), "an empty slice");
    Ok(String::from_utf8(slices.concat()).unwrap())
}

/// Builds a body and gives it, checked to be JSON.
fn built(body: &str, how: (ContinuationMode, PrefillFlags), partial: &str) -> String {
    let text = build_for(body, how, partial, 0).unwrap();
    let parsed: Result<Value, _> = serde_json::from_str(&text);
    assert!(parsed.is_ok(), "{parsed:?}: {text}");
    text
}

const SAID: &str = "Your previous answer was cut off. Continue it exactly where it stops, without repeating \
                    or introducing anything.";

/// In the wanted bodies `<P>` stands for the partial and `<I>` for the instruction.
const GOLDEN: &[(&str, &str, (ContinuationMode, PrefillFlags), &str)] = &[
    (
        "prefill: a message of its own",
        r#"{"model":"r","messages":[{"role":"user","content":"Hi"}],"stream":true}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"<P>"}],"stream":true}"#,
    ),
    (
        "instruct without a system message [R3]",
        r#"{"model":"r","messages":[{"role":"user","content":"Hi"}]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"role":"system","content":"<I>"},{"role":"user","content":"Hi"},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "instruct with a system message [R3]",
        r#"{"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}],"model":"r"}"#,
        INSTRUCT,
        r#"{"messages":[{"role":"system","content":"Be brief.\n\n<I>"},{"role":"user","content":"Hi"},{"role":"assistant","content":"<P>"}],"model":"m-b"}"#,
    ),
    (
        "instruct with an empty system message",
        r#"{"model":"r","messages":[{"content":"","role":"system"}]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"content":"<I>","role":"system"},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "instruct with a developer message of parts",
        r#"{"model":"r","messages":[{"role":"developer","content":[{"type":"text","text":"Be brief."}]}]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"role":"developer","content":[{"type":"text","text":"Be brief."},{"type":"text","text":"<I>"}]},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "instruct with no parts",
        r#"{"model":"r","messages":[{"role":"system","content":[ ]}]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"role":"system","content":[ {"type":"text","text":"<I>"}]},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "instruct with a system message that says nothing",
        r#"{"model":"r","messages":[{"role":"system","content":null}]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"role":"system","content":"<I>"},{"role":"system","content":null},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "a system message that does not lead is left alone",
        r#"{"model":"r","messages":[{"role":"user","content":"Hi"},{"role":"system","content":"x"}]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"role":"system","content":"<I>"},{"role":"user","content":"Hi"},{"role":"system","content":"x"},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "the client's own trailing assistant message is joined [R2]",
        r#"{"model":"r","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Once"}]}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Once<P>"}]}"#,
    ),
    (
        "in parts [R2]",
        r#"{"model":"r","messages":[{"role":"assistant","content":[{"type":"text","text":"Once"}],"name":"a"}]}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"assistant","content":[{"type":"text","text":"Once"},{"type":"text","text":"<P>"}],"name":"a"}]}"#,
    ),
    (
        "in no parts",
        r#"{"model":"r","messages":[{"role":"assistant","content":[]}]}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"assistant","content":[{"type":"text","text":"<P>"}]}]}"#,
    ),
    (
        "one with calls is not joined [R2]",
        r#"{"model":"r","messages":[{"role":"assistant","content":"x","tool_calls":[{"id":"c"}]}]}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"assistant","content":"x","tool_calls":[{"id":"c"}]},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "empty tool_calls are none",
        r#"{"model":"r","messages":[{"role":"assistant","content":"x","tool_calls":[]}]}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"assistant","content":"x<P>","tool_calls":[]}]}"#,
    ),
    (
        "no messages",
        r#"{"model":"r","messages":[]}"#,
        PREFILL,
        r#"{"model":"m-b","messages":[{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "no messages, instruct",
        r#"{"model":"r","messages":[ ]}"#,
        INSTRUCT,
        r#"{"model":"m-b","messages":[{"role":"system","content":"<I>"} ,{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "vLLM's flags [R6]",
        r#"{"model":"r","messages":[{"role":"user","content":"Hi"}]}"#,
        VLLM,
        r#"{"continue_final_message":true,"add_generation_prompt":false,"model":"m-b","messages":[{"role":"user","content":"Hi"},{"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "the prefix flag [R6]",
        r#"{"model":"r","messages":[{"role":"user","content":"Hi"}]}"#,
        PREFIX,
        r#"{"model":"m-b","messages":[{"role":"user","content":"Hi"},{"prefix":true,"role":"assistant","content":"<P>"}]}"#,
    ),
    (
        "the prefix flag on the client's own message",
        r#"{"model":"r","messages":[{"role":"assistant","content":"prefix"}]}"#,
        PREFIX,
        r#"{"model":"m-b","messages":[{"prefix":true,"role":"assistant","content":"prefix<P>"}]}"#,
    ),
    (
        "a prefix flag that is there already",
        r#"{"model":"r","messages":[{"role":"assistant","content":"x","prefix" : true}]}"#,
        PREFIX,
        r#"{"model":"m-b","messages":[{"role":"assistant","content":"x<P>","prefix" : true}]}"#,
    ),
    (
        "escapes, unicode, odd numbers and white space stay as they are",
        "\n { \"model\" : \"r\\u002f\" ,\r\n\t\"x\": [1.10, 1E+2, -0.0, \"\\ud83d\\ude00 \\/ 你\"],\n  \"messages\" : [\n  {\"role\":\"user\",\"content\":\"\\u4f60 é \\\"\"}\n ] } ",
        PREFILL,
        "\n { \"model\" : \"m-b\" ,\r\n\t\"x\": [1.10, 1E+2, -0.0, \"\\ud83d\\ude00 \\/ 你\"],\n  \"messages\" : [\n  {\"role\":\"user\",\"content\":\"\\u4f60 é \\\"\"}\n ,{\"role\":\"assistant\",\"content\":\"<P>\"}] } ",
    ),
];

#[test]
fn golden_bodies() {
    for (name, body, how, want) in GOLDEN {
        let want = want.replace("<P>", PARTIAL).replace("<I>", SAID);
        assert_eq!(built(body, *how, PARTIAL), want, "{name}");
    }
}

// [R1]
#[test]
fn nothing_but_the_intended_members_differs() {
    let body = r#"{"model":"r","temperature":0.7,"max_tokens":100,"messages":[{"role":"system","content":"S"},
        {"role":"user","content":[{"type":"text","text":"a"},{"type":"image_url","image_url":{"url":"data:x"}}]}],
        "stream":true,"stream_options":{"include_usage":true},"seed":18446744073709551615,"stop":["\n","\u0000"]}"#;
    for how in [INSTRUCT, PREFILL, VLLM, PREFIX] {
        let mut got: Value = serde_json::from_str(&build_for(body, how, PARTIAL, 30).unwrap()).unwrap();
        let mut want: Value = serde_json::from_str(body).unwrap();
        assert_eq!(got["model"], "m-b");
        assert_eq!(got["max_tokens"], 70);
        let messages = got["messages"].as_array_mut().unwrap();
        let partial: Value = serde_json::from_str(&format!("\"{PARTIAL}\"")).unwrap();
        let added = messages.pop().unwrap();
        assert_eq!((&added["role"], &added["content"]), (&Value::from("assistant"), &partial));
        if how == INSTRUCT {
            assert_eq!(messages[0]["content"], format!("S\n\n{SAID}"));
            messages[0]["content"] = "S".into();
        }
        let object = got.as_object_mut().unwrap();
        for flag in ["continue_final_message", "add_generation_prompt"] {
            assert_eq!(object.remove(flag).is_some(), how == VLLM);
        }
        for member in ["model", "max_tokens"] {
            got[member] = Value::Null;
            want[member] = Value::Null;
        }
        assert_eq!(got, want, "{how:?}");
    }
}

// [R7, R8]
#[test]
fn token_limits_are_reduced_by_what_was_delivered_until_none_is_left() {
    let body =
        |limits: &str| format!(r#"{{"model":"r",{limits}"messages":[{{"role":"user","content":"x"}}]}}"#);
    let cases = [
        ("none", "", 5, Some("")),
        ("max_tokens", r#""max_tokens":10,"#, 4, Some(r#""max_tokens":6,"#)),
        (
            "max_completion_tokens",
            r#""max_completion_tokens": 10 ,"#,
            4,
            Some(r#""max_completion_tokens": 6 ,"#),
        ),
        (
            "both",
            r#""max_tokens":10,"max_completion_tokens":7,"#,
            6,
            Some(r#""max_tokens":4,"max_completion_tokens":1,"#),
        ),
        ("null", r#""max_tokens":null,"#, 4, Some(r#""max_tokens":null,"#)),
        ("the last one", r#""max_tokens":10,"#, 9, Some(r#""max_tokens":1,"#)),
        ("used up", r#""max_tokens":10,"#, 10, None),
        ("one of two used up", r#""max_tokens":10,"max_completion_tokens":3,"#, 3, None),
        ("passed", r#""max_tokens":10,"#, 99, None),
    ];
    for (name, limits, delivered, want) in cases {
        let got = build_for(&body(limits), PREFILL, "x", delivered);
        match want {
            Some(want) => {
                let want = body(want)
                    .replace("\"r\"", "\"m-b\"")
                    .replace("}]", "},{\"role\":\"assistant\",\"content\":\"x\"}]");
                assert_eq!(got, Ok(want), "{name}");
            }
            None => assert_eq!(got, Err(Refused::NoTokensLeft), "{name}"),
        }
    }
}

// [A16]
#[test]
fn what_cannot_be_continued_is_refused() {
    let plain = r#"{"model":"r","messages":[{"role":"user","content":"x"}]}"#;
    let never = (ContinuationMode::None, PrefillFlags::None);
    let cases = [
        ("a target that is never asked", plain, never, "continuation_none"),
        ("no messages", r#"{"model":"r","prompt":"x"}"#, PREFILL, "no_messages"),
        ("messages that are no objects", r#"{"model":"r","messages":["x"]}"#, PREFILL, "odd_messages"),
        (
            "content twice",
            r#"{"model":"r","messages":[{"role":"user","content":"a","content":"b"}]}"#,
            PREFILL,
            "odd_messages",
        ),
    ];
    for (name, body, how, want) in cases {
        assert_eq!(build_for(body, how, "x", 0), Err(Refused::Unsuitable(want)), "{name}");
    }
}

/// What was forwarded may be no proper JSON string (the tolerant reading lets it pass), or end within a character.
// [R9]
#[test]
fn any_partial_makes_a_valid_body() {
    let body = r#"{"model":"r","messages":[{"role":"user","content":"x"}]}"#;
    let cases = [
        ("proper", "a\\n\\ud83d\\ude00\\\"\\\\", "a\n😀\"\\"),
        ("raw control bytes", "a\u{1}b\tc\nd", "a\u{1}b\tc\nd"),
        ("half a character in the middle", "a\\ud83db", "a\u{fffd}b"),
        ("the wrong half", "a\\ude00b", "a\u{fffd}b"),
        ("half a character at the end: what is missing will come", "a\\ud83d", "a"),
        ("an escape that is none", "a\\xb\\u12", "axbu12"),
    ];
    for (name, partial, want) in cases {
        for how in [INSTRUCT, PREFILL] {
            let body: Value = serde_json::from_str(&built(body, how, partial)).unwrap();
            let last = body["messages"].as_array().unwrap().last().unwrap();
            assert_eq!(last["content"], want, "{name}");
        }
    }
}

#[test]
fn white_space_is_taken_off_the_end_alone() {
    let cases: [(&str, &str, &str); 9] = [
        ("none", "Hello", "Hello"),
        ("one", "Hello ", "Hello"),
        ("written in every way", "a b \\n\\t\\u0020\\u00a0 \u{a0}", "a b"),
        ("nothing else", " \\n ", ""),
        ("nothing at all", "", ""),
        ("an escape stays whole", "a\\\\ ", "a\\\\"),
        ("an escaped quote too", "a\\\" ", "a\\\""),
        ("a character of two halves", "a🙂 ", "a🙂"),
        ("at the beginning", "  a", "  a"),
    ];
    for (name, text, want) in cases {
        assert_eq!(without_trailing_space(text.as_bytes()), want.as_bytes(), "{name}");
    }
}

#[test]
fn space_is_trimmed_where_asked_and_only_off_an_end_that_is_the_bodys() {
    let body = r#"{"model":"r","messages":[{"role":"user","content":"x"}]}"#;
    let user_turn = (ContinuationMode::UserTurn, PrefillFlags::None);
    let cases = [
        ("prefill", PREFILL, true, "a b"),
        ("instruct", INSTRUCT, true, "a b"),
        ("a user turn is behind it", user_turn, true, "a b \n"),
        ("not asked", PREFILL, false, "a b \n"),
    ];
    for (name, how, trim, want) in cases {
        let text = build_trimmed(body, how, "a b \\n", 0, trim).unwrap();
        let body: Value = serde_json::from_str(&text).unwrap();
        let messages = body["messages"].as_array().unwrap();
        let said = messages.iter().find(|message| message["role"] == "assistant").unwrap();
        assert_eq!(said["content"], want, "{name}");
    }
}
