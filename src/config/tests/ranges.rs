//! Each limit of each range, and one past it.

use super::{bad, good};

/// (table, key, lowest, highest, one below, one above) as TOML values; "" where there is no such value.
type Row = (&'static str, &'static str, [&'static str; 2], [&'static str; 2]);

const ROWS: &[Row] = &[
    ("server", "workers", ["0", "1024"], ["-1", "1025"]),
    ("server", "header_timeout", ["'100ms'", "'5m'"], ["'99ms'", "'300001ms'"]),
    ("server", "body_timeout", ["'100ms'", "'1h'"], ["'99ms'", "'3600001ms'"]),
    ("server", "idle_timeout", ["'100ms'", "'1h'"], ["'99ms'", "'3600001ms'"]),
    ("server", "write_timeout", ["'100ms'", "'1h'"], ["'99ms'", "'3600001ms'"]),
    ("server", "heartbeat", ["'10ms'", "'5m'"], ["'9ms'", "'300001ms'"]),
    ("server", "heartbeat", ["'0s'", "'10ms'"], ["'1ns'", "'5m1ms'"]),
    ("server", "drain", ["'0s'", "'24h'"], ["'-1s'", "'24h1ms'"]),
    ("limits", "request_body", ["'1KiB'", "'1GiB'"], ["1023", "1073741825"]),
    ("limits", "response_body", ["1024", "1073741824"], ["'1023B'", "'1025MiB'"]),
    ("limits", "head", ["'1KiB'", "'1MiB'"], ["1023", "1048577"]),
    ("limits", "frame_bytes", ["'64KiB'", "'64MiB'"], ["65535", "67108865"]),
    ("limits", "partial", ["'1KiB'", "'64MiB'"], ["1023", "67108865"]),
    ("limits", "window", ["'64KiB'", "'16MiB'"], ["65535", "16777217"]),
    ("limits", "buffered_bytes", ["'1MiB'", "'1TiB'"], ["1048575", "1099511627777"]),
    ("limits", "connections", ["0", "1000000"], ["-1", "1000001"]),
    ("upstreams.a", "pool_idle", ["'1ms'", "'1h'"], ["'0s'", "'3600001ms'"]),
    ("upstreams.a", "pool_size", ["0", "65536"], ["-1", "65537"]),
    ("defaults", "max_fallbacks", ["0", "32"], ["-1", "33"]),
    ("defaults", "settle", ["'1ms'", "'1m'"], ["'999us'", "'60001ms'"]),
    ("defaults", "settle", ["'0s'", "'1s'"], ["'1ns'", "'2m'"]),
    ("defaults", "fallback_on_statuses", ["[400]", "[599]"], ["[399]", "[600]"]),
    ("defaults.retry", "max_retries", ["0", "10"], ["-1", "11"]),
    ("defaults.retry", "streaming_max_retries", ["0", "10"], ["-1", "11"]),
    ("defaults.retry", "initial_backoff", ["'1ms'", "'2s'"], ["'0s'", "'60001ms'"]),
    ("defaults.retry", "max_backoff", ["'250ms'", "'60s'"], ["'0s'", "'60001ms'"]),
    ("defaults.retry", "retry_after_max", ["'1ms'", "'60s'"], ["'999us'", "'60001ms'"]),
    ("defaults.cooldown", "failures", ["0", "15"], ["-1", "16"]),
    ("defaults.cooldown", "window", ["'1s'", "'10m'"], ["'999ms'", "'600001ms'"]),
    ("defaults.cooldown", "open", ["'100ms'", "'60s'"], ["'99ms'", "'600001ms'"]),
    ("defaults.cooldown", "open_max", ["'5s'", "'10m'"], ["'99ms'", "'600001ms'"]),
    ("defaults.stream_failure", "max_fallbacks", ["0", "32"], ["-1", "33"]),
    ("defaults.timeouts", "connect", ["'1ms'", "'59999ms'"], ["'999us'", "'300001ms'"]),
    ("defaults.timeouts", "first_token", ["'1ms'", "'24h'"], ["'999us'", "'24h1ms'"]),
    ("defaults.timeouts", "idle", ["'1ms'", "'24h'"], ["'999us'", "'24h1ms'"]),
    ("defaults.timeouts", "response", ["'1ms'", "'24h'"], ["'999us'", "'24h1ms'"]),
    ("defaults.timeouts", "total", ["'1ms'", "'7d'"], ["'999us'", "'7d1ms'"]),
    ("defaults.timeouts", "total", ["'0s'", "'1s'"], ["'1ns'", "'8d'"]),
];

fn text(table: &str, key: &str, value: &str) -> String {
    let base = if table == "upstreams.a" { "base_url = 'http://h'\n" } else { "" };
    format!("[{table}]\n{key} = {value}\n{base}")
}

#[test]
fn what_is_within_a_range_is_taken() {
    for (table, key, within, _) in ROWS {
        for value in within {
            good(&text(table, key, value));
        }
    }
}

#[test]
fn what_is_past_a_range_is_refused() {
    for (table, key, _, past) in ROWS {
        for value in past {
            let errors = bad(&text(table, key, value));
            let place = format!("{table}.{key} = {value}: {}", super::shown(&errors));
            assert_eq!(errors.len(), 1, "{place}");
            assert_eq!(errors[0].line, Some(2), "{place}");
            assert!(errors[0].key.starts_with(&format!("{table}.{key}")), "{place}");
            let negative_text = *value == "'-1s'";
            let part = if negative_text { "is no duration" } else { "is out of range; set it to a" };
            assert!(errors[0].message.contains(part), "{place}");
        }
    }
}

/// A text with that many entries or bytes.
type Made<'a> = &'a dyn Fn(usize) -> String;

fn joined(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(", ")
}

/// (what, a text with that many entries, how many it takes)
#[test]
fn lists_and_tables_have_limits() {
    const UPSTREAM: &str = "[upstreams.a]\nbase_url = 'http://h'";
    const TARGET: &str = "targets = [{ upstream = 'a', model = 'm' }]";
    let listen = |n| format!("[server]\nlisten = [{}]", joined(n, |port| format!("'127.0.0.1:{port}'")));
    let target = |m| format!("{{ upstream = 'a', model = 'm{m}' }}");
    let targets = |n| format!("[routes.m]\ntargets = [{}]", joined(n, target));
    let headers = |n| format!("{UPSTREAM}\nheaders = {{ {} }}", joined(n, |h| format!("x-{h} = ''")));
    let query = |n| format!("{UPSTREAM}\nquery = {{ {} }}", joined(n, |q| format!("q{q} = ''")));
    let codes = |n| format!("[defaults]\nfallback_on_codes = [{}]", joined(n, |code| format!("'c{code}'")));
    let digests = |n| format!("[keys.k]\nsha256 = [{}]", joined(n, |digest| format!("'{digest:064x}'")));
    let glob = |stars| format!("'m{}'", "*".repeat(stars));
    let globs = |n| format!("[keys.k]\nsha256 = ['{:064x}']\nroutes = [{}]", 1, joined(n, glob));
    let key = |key| format!("[keys.k{key}]\nsha256 = ['{key:064x}']\n");
    let keys = |n| (0..n).map(key).collect::<String>();
    // What is added to make a text whole counts too.
    let upstreams =
        |n| (2..n).map(|u| format!("[upstreams.u{u}]\nbase_url = 'http://h'\n")).collect::<String>();
    let routes = |n| (1..n).map(|route| format!("[routes.r{route}]\n{TARGET}\n")).collect::<String>();
    let cases: [(&str, Made<'_>, usize); 10] = [
        ("listen", &listen, 16),
        ("targets", &targets, 32),
        ("headers", &headers, 64),
        ("query", &query, 64),
        ("codes", &codes, 64),
        ("digests", &digests, 64),
        ("globs", &globs, 256),
        ("keys", &keys, 1024),
        ("upstreams", &upstreams, 1024),
        ("routes", &routes, 1024),
    ];
    for (name, made, max) in cases {
        good(&made(max));
        let errors = bad(&made(max + 1));
        let want = format!("{} entries; at most {max} are allowed", max + 1);
        assert!(errors.iter().any(|error| error.message == want), "{name}: {}", super::shown(&errors));
    }
}

#[test]
fn texts_have_limits() {
    let named =
        |n: usize| format!("[routes.{}]\ntargets = [{{ upstream = 'a', model = 'm' }}]", "r".repeat(n));
    let model =
        |n: usize| format!("[routes.m]\ntargets = [{{ upstream = 'a', model = '{}' }}]", "m".repeat(n));
    let code = |n: usize| format!("[defaults]\nfallback_on_codes = ['{}']", "c".repeat(n));
    let upstream = |rest: String| format!("[upstreams.a]\nbase_url = 'http://h'\n{rest}");
    let api_key = |n: usize| upstream(format!("api_key = '{}'", "k".repeat(n)));
    let header = |n: usize| upstream(format!("headers = {{ x = '{}' }}", "v".repeat(n)));
    let header_name = |n: usize| upstream(format!("headers = {{ {} = '' }}", "n".repeat(n)));
    let cases: [(&str, Made<'_>, usize); 6] = [
        ("route name", &named, 256),
        ("model", &model, 256),
        ("code", &code, 128),
        ("api_key", &api_key, 8192),
        ("header", &header, 8192),
        ("header name", &header_name, 128),
    ];
    for (name, made, max) in cases {
        good(&made(max));
        assert_eq!(bad(&made(max + 1)).len(), 1, "{name}");
    }
}

#[test]
fn the_text_itself_has_a_limit() {
    let filled = |bytes: usize| {
        let mut text = super::whole("");
        text.push_str(&"#".repeat(bytes - text.len()));
        text
    };
    assert!(super::load(&filled(crate::config::TEXT_BYTES_MAX)).is_ok());
    let errors = super::load(&filled(crate::config::TEXT_BYTES_MAX + 1)).unwrap_err();
    assert_eq!(errors.len(), 1);
    assert!(errors[0].message.contains("at most 4194304"), "{}", errors[0]);
}
