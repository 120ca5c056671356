//! Mistakes in `[upstreams.NAME]`.

use super::{Case, bad, check, shown};

const UPSTREAMS: &[Case] = &[
    ("[upstreams.a]", 1, "upstreams.a.base_url", &["missing; write where the provider is"]),
    ("[upstreams.a]\nbase_url = 'h/v1'", 2, "upstreams.a.base_url", &["\"h/v1\" has no scheme"]),
    ("[upstreams.a]\nbase_url = 'ws://h/v1'", 2, "upstreams.a.base_url", &["has an unknown scheme"]),
    (
        "[upstreams.a]\nbase_url = 'https://u:sk-p@h/v1'",
        2,
        "upstreams.a.base_url",
        &["a string (not shown) has user information", "move the credentials to api_key"],
    ),
    (
        "[upstreams.a]\nbase_url = 'https://h/v1?key=sk-q'",
        2,
        "upstreams.a.base_url",
        &["a string (not shown) has a query; move it to the upstream's query"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\nprotocol = 'anthropic'",
        3,
        "upstreams.a.protocol",
        &["\"anthropic\" is not supported yet; expected one of: openai"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\nprotocol = 'http'",
        3,
        "upstreams.a.protocol",
        &["is none of: openai"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\ncontinuation = 'user turn'",
        3,
        "upstreams.a.continuation",
        &["is none of: auto, instruct, prefill, user_turn, none"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\nprefill_flags = 'llm'",
        3,
        "upstreams.a.prefill_flags",
        &["did you mean \"vllm\"?"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\nask_usage = 'yes'",
        3,
        "upstreams.a.ask_usage",
        &["expected true or false"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\ntrim_trailing_space = 'yes'",
        3,
        "upstreams.a.trim_trailing_space",
        &["expected true or false"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\nquery = { k = 1 }",
        3,
        "upstreams.a.query.k",
        &["an integer; expected a string"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\nquery = { '' = '1' }",
        3,
        "upstreams.a.query.\"\"",
        &["an empty name"],
    ),
    (
        "[upstreams.a]\nbase_url = 'http://h'\n[upstreams.a.tls]\nverify = false",
        3,
        "upstreams.a.tls",
        &["base_url begins with http://, so this has no effect"],
    ),
    (
        "[upstreams.a]\nbase_url = 'https://h'\ntls.server_name = 'a b'",
        3,
        "upstreams.a.tls.server_name",
        &["\"a b\" is no host name"],
    ),
    ("[upstreams.\" x\"]\nbase_url = 'http://h'", 1, "upstreams.\" x\"", &["an unusable name"]),
    ("[upstreams.\"\"]\nbase_url = 'http://h'", 1, "upstreams.\"\"", &["an unusable name"]),
    ("[upstreams.'é']\nbase_url = 'http://h'", 1, "upstreams.\"é\"", &["a response header, so write ASCII"]),
];

#[test]
fn of_upstreams() {
    check(UPSTREAMS);
}

/// The same upstream, one line each.
#[test]
fn of_an_upstreams_headers_and_key() {
    let cases: [(&str, &str, &str); 22] = [
        ("api_key = ''", "api_key", "an empty key; set it, or leave it out"),
        ("api_key = '${EMPTY}'", "api_key", "an empty key"),
        ("api_key = '${BROKEN}'", "api_key", "look for a line break at its end"),
        ("api_key = 'sk x'", "api_key", "a key with white space"),
        ("api_key = 'sk-é'", "api_key", "non-ASCII"),
        ("api_key = 5", "api_key", "an integer; expected a string"),
        ("api_key_file = '/run/none'", "api_key_file", "\"/run/none\" cannot be read: entity not found"),
        ("api_key_file = '/run/two-lines'", "api_key_file", "a key with white space"),
        ("api_key_file = '/run/binary'", "api_key_file", "non-ASCII"),
        ("api_key_file = '/run/long'", "api_key_file", "a key longer than 8 KiB"),
        ("api_key_file = '/run/blank'", "api_key_file", "an empty key"),
        ("api_key_file = ''", "api_key_file", "is no path"),
        (
            "api_key = 'k'\napi_key_file = '/run/key'",
            "api_key_file",
            "api_key is given too; keep one of the two",
        ),
        ("auth_header = 'Authorization: Bearer sk-x'", "auth_header", "not the name of a header"),
        ("auth_header = 'Host'", "auth_header", "a header that Baton sets itself"),
        ("headers = { Connection = 'x' }", "headers.Connection", "a header of the connection"),
        ("headers = { content-length = '1' }", "headers.content-length", "a header that Baton sets itself"),
        ("headers = { \"x: sk-y\\r\\n\" = '1' }", "headers", "not the name of a header; take it out"),
        ("headers = { x = \"a\\r\\nb: sk-c\" }", "headers.x", "a value that no header can carry"),
        ("headers = { x = 'a', X = 'b' }", "headers.x", "is there twice (case makes no difference)"),
        (
            "api_key = 'k'\nheaders = { Authorization = 'x' }",
            "headers.Authorization",
            "the key of api_key goes into",
        ),
        ("headers = { x = 7 }", "headers.x", "an integer; expected a string"),
    ];
    for (rest, key, part) in cases {
        let errors = bad(&format!("[upstreams.a]\nbase_url = 'https://h'\n{rest}"));
        assert_eq!(errors.len(), 1, "{rest}\n{}", shown(&errors));
        let line = 2 + rest.lines().count();
        assert_eq!(
            (errors[0].line, errors[0].key.as_str()),
            (Some(line), &*format!("upstreams.a.{key}")),
            "{rest}"
        );
        assert!(errors[0].message.contains(part), "{rest}: {}", errors[0]);
        assert!(!errors[0].to_string().contains("sk-"), "shows a secret: {}", errors[0]);
    }
}

#[test]
fn of_hop_by_hop_headers() {
    let names = [
        "Connection",
        "Keep-Alive",
        "Proxy-Authenticate",
        "Proxy-Authorization",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Host",
        "Content-Length",
        "Accept-Encoding",
        "Expect",
    ];
    for name in names {
        let errors = bad(&format!("[upstreams.a]\nbase_url = 'https://h'\nheaders = {{ {name} = 'x' }}"));
        assert_eq!(errors.len(), 1, "{name}");
    }
}
