//! What single values become: text, sizes, durations, URLs, headers, keys.

use core::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;

use super::{bad, good};
use crate::config::keys::glob_matches;
use crate::config::{BaseUrl, HalfClose, Io, Level, LogFormat, LogTo, Upstream};
use crate::policy::{ContinuationMode, PrefillFlags};

fn upstream(rest: &str) -> Upstream {
    good(&format!("[upstreams.a]\n{rest}\n")).upstreams.swap_remove(0)
}

#[test]
fn variables_are_put_in_once() {
    let cases = [
        ("plain", "plain"),
        ("${KEY}", "sk-from-env"),
        ("a${KEY}b${PORT}c", "ask-from-envb9000c"),
        ("$${KEY}", "${KEY}"),
        ("$$$${KEY}", "$${KEY}"),
        ("$$", "$"),
        ("${EMPTY}x", "x"),
        // What a variable holds is not looked into.
        ("${DOLLAR}", "a${KEY}$"),
    ];
    for (written, want) in cases {
        let found = upstream(&format!("base_url = 'http://h'\nheaders = {{ x = '{written}' }}"));
        assert_eq!(found.headers, [("x".to_owned(), want.to_owned())], "{written}");
    }
}

#[test]
fn variables_go_into_every_kind_of_string() {
    let config =
        good("[server]\nlisten = '127.0.0.1:${PORT}'\ndrain = '${PORT}ms'\n[limits]\npartial = '${PORT}'");
    assert_eq!(config.server.listen, ["127.0.0.1:9000".parse::<SocketAddr>().unwrap()]);
    assert_eq!(config.server.drain, Duration::from_secs(9));
    assert_eq!(config.limits.partial, 9000);
}

#[test]
fn durations_are_read() {
    let cases =
        [("250ms", 250), ("30s", 30_000), ("10m", 600_000), ("1h30m", 5_400_000), ("1.5s", 1500), ("0s", 0)];
    for (written, want) in cases {
        let config = good(&format!("[server]\ndrain = '{written}'"));
        assert_eq!(config.server.drain, Duration::from_millis(want), "{written}");
    }
    let nonsense = [
        "",
        "5",
        "s",
        "5 s",
        "1 5s",
        " 5s",
        "5s ",
        "5S",
        "5x",
        "1M",
        "-5s",
        "1,5s",
        "5s-",
        "1e3s",
        "٣s",
        "1.s",
        ".5s",
        "9999999999s",
        "18446744073709551615s1000000000ns",
    ];
    for written in nonsense {
        let errors = bad(&format!("[server]\ndrain = '{written}'"));
        assert!(
            errors[0].message.contains("is no duration; write a number and a unit"),
            "{written}: {}",
            errors[0]
        );
    }
}

#[test]
fn sizes_are_read() {
    let cases = [
        ("1024", 1024),
        ("0x400", 1024),
        ("1_024", 1024),
        ("'1024'", 1024),
        ("'1024B'", 1024),
        ("'64KiB'", 65_536),
        ("'64kB'", 64_000),
        ("'64KB'", 64_000),
        ("'1.5MiB'", 1_572_864),
        ("'1MB'", 1_000_000),
    ];
    for (written, want) in cases {
        assert_eq!(good(&format!("[limits]\npartial = {written}")).limits.partial, want, "{written}");
    }
    let nonsense =
        ["", "KiB", "64k", "64K", "64m", "64 KiB", " 1KiB", "64kb", "64Kib", "64kib", "-1KiB", "1,5KiB"];
    let more = ["1.5", "1.KiB", ".5MiB", "1..5KiB", "1e6", "64KiBs", "1EiB", "9999999999999999", "auto"];
    for written in nonsense.into_iter().chain(more) {
        let errors = bad(&format!("[limits]\npartial = '{written}'"));
        assert!(errors[0].message.contains("is no size; write a number"), "{written}: {}", errors[0]);
    }
    assert_eq!(good("[limits]\nbuffered_bytes = 'auto'").limits.buffered_bytes, None);
    assert_eq!(good("[limits]\nbuffered_bytes = '1GiB'").limits.buffered_bytes, Some(1 << 30));
}

#[test]
fn logs_and_the_admin_listener_are_off_or_somewhere() {
    let config = good("");
    assert_eq!(config.admin.listen, Some("127.0.0.1:9901".parse().unwrap()));
    assert_eq!((config.log.access, config.log.usage), (LogTo::Stderr, LogTo::Off));
    let mut config = good("[admin]\nlisten = ''\n[log]\naccess = 'off'\nusage = 'logs/usage.jsonl'");
    assert_eq!(config.admin.listen, None);
    assert_eq!(config.log.access, LogTo::Off);
    config.resolve_paths(Path::new("/etc/baton"));
    assert_eq!(config.log.usage, LogTo::File("/etc/baton/logs/usage.jsonl".into()));
    assert_eq!(good("[admin]\nlisten = '[::1]:0'").admin.listen, Some("[::1]:0".parse().unwrap()));
}

#[test]
fn a_revision_names_the_text() {
    let (one, other) = (good("[server]\nopen = false"), good("[server]\nopen  = false"));
    assert_ne!(one.revision, other.revision);
    assert_eq!(one.revision, good("[server]\nopen = false").revision);
    assert!(one.revision.len() == 12 && one.revision.bytes().all(|byte| byte.is_ascii_hexdigit()));
}

#[test]
fn names_of_choices_are_read() {
    let text =
        "[server]\nio = 'io_uring'\nclient_half_close = 'serve'\n[log]\nformat = 'json'\nlevel = 'debug'";
    let config = good(text);
    assert_eq!((config.server.io, config.server.half_close), (Io::IoUring, HalfClose::Serve));
    assert_eq!((config.log.format, config.log.level), (LogFormat::Json, Level::Debug));
    let modes = [
        ("auto", ContinuationMode::Instruct),
        ("instruct", ContinuationMode::Instruct),
        ("prefill", ContinuationMode::Prefill),
        ("none", ContinuationMode::None),
    ];
    for (name, want) in modes {
        assert_eq!(
            upstream(&format!("base_url = 'http://h'\ncontinuation = '{name}'")).continuation,
            want,
            "{name}"
        );
    }
    let found = upstream("base_url = 'http://h'\nprefill_flags = 'prefix'");
    assert_eq!(found.prefill_flags, PrefillFlags::Prefix);
}

/// (text, tls, host, port, host header, path)
#[test]
fn base_urls_are_read() {
    let cases = [
        ("https://api.openai.com/v1", true, "api.openai.com", 443, "api.openai.com", "/v1"),
        ("https://api.openai.com/v1/", true, "api.openai.com", 443, "api.openai.com", "/v1"),
        ("http://localhost", false, "localhost", 80, "localhost", ""),
        ("http://localhost/", false, "localhost", 80, "localhost", ""),
        ("http://localhost:80/v1", false, "localhost", 80, "localhost", "/v1"),
        ("https://h:80/v1", true, "h", 80, "h:80", "/v1"),
        ("HTTPS://API.Example.COM:8443/V1", true, "api.example.com", 8443, "api.example.com:8443", "/V1"),
        ("http://127.0.0.1:8081/v1", false, "127.0.0.1", 8081, "127.0.0.1:8081", "/v1"),
        ("http://[::1]:8081/v1", false, "::1", 8081, "[::1]:8081", "/v1"),
        ("https://[2001:DB8::1]", true, "2001:db8::1", 443, "[2001:db8::1]", ""),
        ("http://my_service/a%20b/~c", false, "my_service", 80, "my_service", "/a%20b/~c"),
    ];
    for (text, tls, host, port, host_header, path) in cases {
        let (host, host_header, path) = (host.to_owned(), host_header.to_owned(), path.to_owned());
        assert_eq!(BaseUrl::parse(text), Ok(BaseUrl { tls, host, port, host_header, path }), "{text}");
    }
}

#[test]
fn other_urls_are_refused() {
    let cases = [
        ("", "no scheme"),
        ("api.openai.com/v1", "no scheme"),
        ("//h/v1", "no scheme"),
        ("ftp://h", "an unknown scheme"),
        ("https://", "no host"),
        ("https:///v1", "no host"),
        ("https://h h/v1", "no host"),
        ("https://-h/v1", "no host"),
        ("https://h..x/v1", "no host"),
        ("https://bücher.example", "no host"),
        ("https://1.2.3", "no host"),
        ("https://1.2.3.256", "no host"),
        ("https://h:/v1", "no valid port"),
        ("https://h:0/v1", "no valid port"),
        ("https://h:65536/v1", "no valid port"),
        ("https://h:+80/v1", "no valid port"),
        ("https://h:80:80/v1", "no valid port"),
        ("https://::1/v1", "no valid port"),
        ("https://[::1/v1", "closing bracket"),
        ("https://[::g]/v1", "no IPv6 address"),
        ("https://[::1]x/v1", "no valid port"),
        ("https://u:p@h/v1", "user information"),
        ("https://h/v1?k=v", "a query"),
        ("https://h?k=v", "a query"),
        ("https://h/v1#x", "a fragment"),
        ("https://h/a b", "percent-encoded"),
        ("https://h/a\r\nx", "percent-encoded"),
        ("https://h/ä", "percent-encoded"),
        ("https://h/a%2", "a percent sign"),
        ("https://h/a%zz", "a percent sign"),
        ("https://h/../v1", "segment"),
        ("https://h//v1", "segment"),
        ("https://h/v1/chat/completions", "one operation"),
    ];
    for (text, part) in cases {
        let wrong = BaseUrl::parse(text).unwrap_err();
        assert!(wrong.contains(part), "{text}: {wrong}");
    }
    let label = "l".repeat(63);
    let longest = format!("{label}.{label}.{label}.{}", "l".repeat(61));
    assert!(BaseUrl::parse(&format!("http://{longest}")).is_ok());
    assert!(BaseUrl::parse(&format!("http://{longest}l")).is_err());
    assert!(BaseUrl::parse(&format!("http://{label}l")).is_err());
}

#[test]
fn the_key_goes_where_the_upstream_wants_it() {
    let bearer = upstream("base_url = 'https://h'\napi_key = '${KEY}'");
    assert_eq!(bearer.auth_value().as_deref(), Some("Bearer sk-from-env"));
    let shouted = upstream("base_url = 'https://h'\napi_key = 'k'\nauth_header = 'Authorization'");
    assert_eq!(
        (shouted.auth_header.as_str(), shouted.auth_value().as_deref()),
        ("authorization", Some("Bearer k"))
    );
    let azure = upstream("base_url = 'https://h'\napi_key_file = '/run/key'\nauth_header = 'api-key'");
    assert_eq!(
        (azure.auth_header.as_str(), azure.auth_value().as_deref()),
        ("api-key", Some("sk-from-file"))
    );
    assert_eq!(upstream("base_url = 'https://h'").auth_value(), None);
}

#[test]
fn headers_and_query_are_ready_to_send() {
    let text = "base_url = 'https://h'\nheaders = { X-Title = 'a b', authorization = 'Basic x' }\n\
        query = { 'api-version' = '2026-05-01', 'a b' = 'c&d=é/~', e = '' }";
    let found = upstream(text);
    let headers: Vec<_> = found.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    assert_eq!(headers, [("x-title", "a b"), ("authorization", "Basic x")]);
    assert_eq!(found.query, "a%20b=c%26d%3D%C3%A9%2F~&api-version=2026-05-01&e=");
}

#[test]
fn empty_tls_values_are_none() {
    let found =
        upstream("base_url = 'https://h'\ntls = { ca_file = '', server_name = '', verify = true }").tls;
    assert_eq!((found.ca_file, found.server_name, found.verify), (None, None, true));
    let found =
        upstream("base_url = 'https://h'\ntls = { ca_file = 'ca.pem', server_name = 'X.example' }").tls;
    assert_eq!(found.ca_file.as_deref(), Some(Path::new("ca.pem")));
    assert_eq!(found.server_name.as_deref(), Some("x.example"));
}

#[test]
fn nothing_secret_is_shown_by_debug() {
    let text = "[upstreams.a]\nbase_url = 'https://h'\napi_key = 'sk-1'\nheaders = { x = 'sk-2' }\nquery = { k = 'sk-3' }";
    let shown = format!("{:?}", good(text));
    assert!(!shown.contains("sk-"), "{shown}");
    assert!(shown.contains("***"), "{shown}");
}

#[test]
fn a_listener_beyond_loopback_is_let_in_on_purpose() {
    let key = format!("[keys.k]\nsha256 = ['{:064X}']", 0xABCDEF);
    let cases = [
        "[server]\nlisten = '0.0.0.0:1'\nopen = true".to_owned(),
        format!("[server]\nlisten = '0.0.0.0:1'\n{key}"),
        "[server]\nlisten = ['127.9.9.9:1', '[::1]:1', '[::ffff:127.0.0.1]:0']".to_owned(),
    ];
    for text in cases {
        good(&text);
    }
    let mut digest = [0; 32];
    digest[29..].copy_from_slice(&[0xAB, 0xCD, 0xEF]);
    assert_eq!(good(&key).keys[0].sha256, [digest]);
}

#[test]
fn globs_match_whole_names() {
    let cases = [
        ("*", "", true),
        ("*", "anything", true),
        ("", "", true),
        ("", "a", false),
        ("chat", "chat", true),
        ("chat", "chats", false),
        ("chat-*", "chat-", true),
        ("chat-*", "chat-big", true),
        ("chat-*", "my-chat-big", false),
        ("*-mini", "gpt-mini", true),
        ("*-mini", "gpt-mini-2", false),
        ("a*b", "ab", true),
        ("a*b", "a", false),
        ("aa*aa", "aaa", false),
        ("a*b*c", "a1b2b3c", true),
        ("a*b*c", "acb", false),
        ("**", "x", true),
        ("?", "x", false),
        ("模*", "模型", true),
    ];
    for (glob, name, want) in cases {
        assert_eq!(glob_matches(glob, name), want, "{glob} {name}");
    }
}

/// A second, slow reading of globs.
fn matches_slowly(glob: &[u8], name: &[u8]) -> bool {
    match glob.split_first() {
        None => name.is_empty(),
        Some((b'*', rest)) => (0..=name.len()).any(|skip| matches_slowly(rest, &name[skip..])),
        Some((first, rest)) => name.first() == Some(first) && matches_slowly(rest, &name[1..]),
    }
}

proptest! {
    #[test]
    fn globs_match_as_read_slowly(glob in "[ab*]{0,8}", name in "[ab]{0,10}") {
        prop_assert_eq!(glob_matches(&glob, &name), matches_slowly(glob.as_bytes(), name.as_bytes()));
    }

    #[test]
    fn no_text_is_too_much_for_a_duration_or_a_size(text in "[0-9.a-zA-Z ]{0,40}") {
        let quoted = format!("[server]\ndrain = \"{text}\"\n[limits]\npartial = \"{text}\"");
        let _either = super::load(&super::whole(&quoted));
    }

    #[test]
    fn a_url_that_is_read_has_parts_fit_to_send(text in "https?://[a-z0-9.:@\\[\\]/%?# -]{0,30}") {
        if let Ok(base) = BaseUrl::parse(&text) {
            prop_assert!(!base.host.is_empty() && base.port != 0);
            prop_assert!(base.host_header.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(base.path.is_empty() || (base.path.starts_with('/') && !base.path.ends_with('/')));
        }
    }
}
