use super::*;

fn named(status: u16, code: &str, kind: &str, message: &str) -> InBandError {
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    InBandError { status, code: text(code), kind: text(kind), message: text(message) }
}

#[test]
fn reads_every_shape_of_an_error_body() {
    let cases: &[(&str, InBandError)] = &[
        (
            r#"{"error":{"message":"m","type":"invalid_request_error","param":null,"code":"context_length_exceeded"}}"#,
            named(418, "context_length_exceeded", "invalid_request_error", "m"),
        ),
        (
            r#"{"error":{"message":"m","type":"server_error","code":null}}"#,
            named(418, "server_error", "", "m"),
        ),
        (
            r#"{"error":{"code":500,"message":"m","type":"InternalServerError"}}"#,
            named(418, "InternalServerError", "500", "m"),
        ),
        (
            r#"{"error":{"code":400,"message":"m","status":"INVALID_ARGUMENT"}}"#,
            named(418, "INVALID_ARGUMENT", "400", "m"),
        ),
        (
            r#"[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]"#,
            named(418, "UNAVAILABLE", "503", "m"),
        ),
        (r#"{"error":"words"}"#, named(418, "", "", "words")),
        (r#"{"error":["words"]}"#, named(418, "", "", "")),
        (r#"{"error":[{"code":"c","message":"m"}]}"#, named(418, "c", "", "m")),
        (
            r#"{"object":"error","message":"m","type":"invalid_request_error","param":"model","code":"unknown_model"}"#,
            named(418, "unknown_model", "invalid_request_error", "m"),
        ),
        (
            r#"{"type":"error","error":{"type":"overloaded_error","message":"m"}}"#,
            named(418, "overloaded_error", "", "m"),
        ),
        (
            r#"{"type":"error","code":"rate_limit_exceeded","message":"m"}"#,
            named(418, "rate_limit_exceeded", "", "m"),
        ),
        (r#"{"detail":"Not Found"}"#, named(418, "", "", "Not Found")),
        (r#"{"error":{"code":"1305","message":"m"}}"#, named(418, "1305", "", "m")),
        (r#"{"error":{"message":"\ud83d\n\"x\""}}"#, named(418, "", "", "\u{fffd}\u{fffd}\u{fffd}\n\"x\"")),
        (r#"{"error":null}"#, named(418, "", "", "")),
        ("[]", named(418, "", "", "")),
        ("upstream is down", named(418, "", "", "upstream is down")),
        ("<html>502</html>", named(418, "", "", "")),
        ("", named(418, "", "", "")),
        ("{\"error\":{\"code\":\"c\",\"message\":\"m\"", named(418, "c", "", "m")),
    ];
    for (body, want) in cases {
        assert_eq!(read_error_body(418, body.as_bytes()), *want, "{body}");
    }
}

#[test]
fn a_status_comes_from_numbers_then_names_and_is_502_otherwise() {
    let cases: &[(&str, u16)] = &[
        (r#"{"code":502}"#, 502),
        (r#"{"code":"503"}"#, 503),
        (r#"{"code":429.0}"#, 429),
        (r#"{"code":"invalid","status":422}"#, 422),
        (r#"{"code":200,"type":"rate_limit_error"}"#, 429),
        (r#"{"code":99999999999999999999}"#, 502),
        (r#"{"code":"insufficient_quota"}"#, 429),
        (r#"{"type":"insufficient_quota","code":null}"#, 429),
        (r#"{"type":"rate_limit_exceeded"}"#, 429),
        (r#"{"type":"RateLimitError"}"#, 429),
        (r#"{"type":"overloaded_error"}"#, 529),
        (r#"{"type":"invalid_request_error"}"#, 400),
        (r#"{"type":"exceed_context_size_error"}"#, 400),
        (r#"{"type":"BadRequestError"}"#, 400),
        (r#"{"type":"authentication_error"}"#, 401),
        (r#"{"type":"permission_error"}"#, 403),
        (r#"{"type":"not_found_error"}"#, 404),
        (r#"{"type":"request_too_large"}"#, 413),
        (r#"{"type":"api_error"}"#, 500),
        (r#"{"type":"server_error"}"#, 500),
        (r#"{"type":"InternalServerError"}"#, 500),
        (r#"{"status":"UNAVAILABLE"}"#, 503),
        (r#"{"status":"RESOURCE_EXHAUSTED"}"#, 429),
        (r#"{"type":"ThrottlingException"}"#, 429),
        (r#"{"type":"serviceUnavailableException"}"#, 503),
        (r#"{"type":"something else"}"#, 502),
        (r#"{"message":"no name"}"#, 502),
    ];
    for (inner, want) in cases {
        let text = format!("{{\"error\":{inner}}}");
        let mut details = Details::default();
        details.read_body(&mut Scan::new(text.as_bytes())).unwrap();
        assert_eq!(details.into_error(text.as_bytes()).status, *want, "{inner}");
    }
}

#[test]
fn names_and_words_are_bounded() {
    let name = "n \u{e9}\\n".repeat(100_000);
    let body = format!("{{\"error\":{{\"code\":\"{name}\",\"message\":\"{}\"}}}}", "é".repeat(100_000));
    let error = read_error_body(500, body.as_bytes());
    let code = error.code.unwrap();
    assert!(code.len() <= NAME_BYTES_MAX && code.bytes().all(|b| b == b'n'), "{code}");
    assert_eq!(error.message.unwrap(), "é".repeat(MESSAGE_BYTES_MAX / 2));
}

#[test]
fn either_name_matches() {
    let list = ["context_length_exceeded".to_owned(), "1305".to_owned()];
    let matches = |code: &str, kind: &str| named(400, code, kind, "").matches_code(&list);
    assert!(matches("context_length_exceeded", "invalid_request_error"));
    assert!(matches("invalid_request_error", "context_length_exceeded"));
    assert!(matches("Context_Length_Exceeded", ""));
    assert!(matches("bad", "1305"));
    assert!(!matches("context_length", "exceeded"));
    assert!(!matches("", ""));
}

#[test]
fn quota_is_told_from_rate() {
    for name in ["insufficient_quota", "credit_balance_exhausted", "billing_hard_limit_reached"] {
        assert!(named(429, name, "", "").is_quota() && named(429, "429", name, "").is_quota(), "{name}");
    }
    for name in ["rate_limit_exceeded", "RESOURCE_EXHAUSTED", ""] {
        assert!(!named(429, name, "", "").is_quota(), "{name}");
    }
}
