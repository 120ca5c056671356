use super::*;

fn whole(text: &[u8]) -> Result<Value, Broken> {
    let mut scan = Scan::new(text);
    let value = scan.value()?;
    scan.end()?;
    Ok(value)
}

#[test]
fn reads_what_servers_send_and_strict_readers_refuse() {
    let accepted: &[&[u8]] = &[
        b"{}",
        b" [ ] ",
        b"{\"a\":[1,{\"b\":null}],\"c\":\"\"}",
        b"[NaN,Infinity,-Infinity]",
        b"[18446744073709551617,1E400,-0,01,1.10]",
        b"[\"\\ud83d\",\"\\ude00\",\"\\u0000\"]",
        b"[\"\x00\x1f\t\"]",
        b"[\"\xff\"]",
        b"{\"a\":1,\"a\":2}",
    ];
    for text in accepted {
        assert!(whole(text).is_ok(), "{}", String::from_utf8_lossy(text));
    }
    let refused: &[&[u8]] = &[
        b"",
        b" ",
        b"not json",
        b"{",
        b"{\"a\"}",
        b"{\"a\":}",
        b"{\"a\":1,}",
        b"{,}",
        b"{\"a\":1 \"b\":2}",
        b"{a:1}",
        b"{'a':1}",
        b"[1,]",
        b"[,1]",
        b"[1 2]",
        b"[1}",
        b"{\"a\":1]",
        b"[1]]",
        b"{} {}",
        b"\"a",
        b"\"\\",
        b"\"\\x\"",
        b"\"\\u12",
        b"\"\\u12g4\"",
        b"None",
        b"nul",
        b"nullx",
        b"-",
        b".",
        b"NaN1",
        b"/* */ 1",
    ];
    for text in refused {
        assert!(whole(text).is_err(), "{}", String::from_utf8_lossy(text));
    }
}

#[test]
fn nesting_is_read_up_to_the_limit_and_not_past_it() {
    for (open, close) in [("[", "]"), ("{\"a\":", "}")] {
        let nested = |depth: usize| {
            let text = open.repeat(depth) + "0" + &close.repeat(depth);
            whole(text.as_bytes())
        };
        assert!(nested(DEPTH_MAX as usize).is_ok());
        assert!(nested(DEPTH_MAX as usize + 1).is_err_and(|broken| broken.too_deep));
        assert!(nested(1_000_000).is_err_and(|broken| broken.too_deep));
    }
}

#[test]
fn members_are_found_with_their_commas() {
    let text = b" { \"a\" : 1 , \"b\\n\":[ 2 ] }";
    let mut scan = Scan::new(text);
    let mut members = scan.object().unwrap();
    let a = scan.member(&mut members).unwrap().unwrap();
    assert_eq!((&*scan.key_text(a), a.comma), (&b"a"[..], None));
    assert_eq!(scan.value().unwrap(), Value { kind: Kind::Number, span: Span { start: 9, end: 10 } });
    assert_eq!(scan.comma_ahead(), Some(11));
    let b = scan.member(&mut members).unwrap().unwrap();
    assert_eq!((&*scan.key_text(b), b.comma), (&b"b\n"[..], Some(11)));
    assert_eq!(scan.value().unwrap().kind, Kind::Array);
    assert_eq!(scan.member(&mut members), Ok(None));
    assert_eq!(scan.end(), Ok(()));
}

#[test]
fn numbers_are_brought_into_range() {
    let cases: &[(&str, u64, i64)] = &[
        ("0", 0, 0),
        ("12", 12, 12),
        ("-3", 0, -3),
        ("1.9", 1, 1),
        ("2e3", 2000, 2000),
        ("1E400", u64::MAX, i64::MAX),
        ("-1E400", 0, i64::MIN),
        ("18446744073709551617", u64::MAX, i64::MAX),
        ("NaN", 0, 0),
        ("-Infinity", 0, i64::MIN),
        ("1-1", 0, 0),
    ];
    for (text, unsigned, signed) in cases {
        let value = whole(text.as_bytes()).unwrap();
        assert_eq!(value.as_u64(text.as_bytes()), Some(*unsigned), "{text}");
        assert_eq!(value.as_i64(text.as_bytes()), Some(*signed), "{text}");
    }
    assert_eq!(whole(b"\"1\"").unwrap().as_u64(b"\"1\""), None);
}

#[test]
fn tells_whether_something_is_in_a_value() {
    for text in ["null", "false", "\"\"", "0", "0.0", "-0", "[]", "{ }", "NaN"] {
        assert!(whole(text.as_bytes()).unwrap().is_empty(text.as_bytes()), "{text}");
    }
    for text in ["true", "\" \"", "1", "-0.5", "[null]", "{\"a\":null}", "Infinity"] {
        assert!(!whole(text.as_bytes()).unwrap().is_empty(text.as_bytes()), "{text}");
    }
}

#[test]
fn unescapes_texts_and_keeps_lone_halves_apart() {
    let cases: &[(&str, &[u8])] = &[
        ("plain", b"plain"),
        (r#"\"\\\/\b\f\n\r\t"#, b"\"\\/\x08\x0c\n\r\t"),
        (r"mod\u0065l", b"model"),
        (r"\u00e9\u4f60", "é你".as_bytes()),
        (r"\ud83d\ude00", "😀".as_bytes()),
        (r"\ud83d", b"\xed\xa0\xbd"),
        (r"\ude00", b"\xed\xb8\x80"),
        (r"\ud83d\ud83d\ude00", b"\xed\xa0\xbd\xf0\x9f\x98\x80"),
        (r"a\", b"a"),
        (r"a\u12", b"a12"),
    ];
    for (raw, want) in cases {
        assert_eq!(unescape(raw.as_bytes()), *want, "{raw}");
    }
}
