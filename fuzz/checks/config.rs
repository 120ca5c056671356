//! What must hold for any text given as a config. Run by the fuzz target and, over its corpus, by `cargo test`.

use std::io;
use std::path::Path;

use baton::config::{Config, Sources, parse};

/// What every environment variable and every secret file holds.
const SECRET: &str = "zq7-SECRET-7qz";

/// Panics when the reading of `data` breaks a promise.
pub fn check(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let env = |_: &str| Some(SECRET.to_owned());
    let read_file = |_: &Path| -> io::Result<Vec<u8>> { Ok(SECRET.as_bytes().to_vec()) };
    match parse(text, &Sources { env: &env, read_file: &read_file }) {
        Ok(config) => check_config(&config),
        Err(errors) => {
            assert!(!errors.is_empty(), "refused, and nothing says why");
            let lines = text.lines().count() + 1;
            for error in errors {
                let shown = error.to_string();
                assert!(text.contains(SECRET) || !shown.contains(SECRET), "shows a secret: {shown}");
                assert!(!shown.chars().any(char::is_control), "more than one line: {shown:?}");
                assert!(error.line.is_none_or(|line| (1..=lines).contains(&line)), "no such line: {shown}");
                assert!(!error.message.is_empty(), "says nothing: {shown}");
            }
        }
    }
}

fn check_config(config: &Config) {
    assert!(!config.server.listen.is_empty());
    assert!(config.limits.window >= 64 << 10);
    let open = config.server.open || !config.keys.is_empty();
    assert!(open || config.server.listen.iter().all(|address| address.ip().to_canonical().is_loopback()));
    assert!(!config.routes.is_empty());
    for (index, route) in config.routes.iter().enumerate() {
        assert_eq!(config.route(&route.name).map(|(found, _)| found), Some(index));
        assert!(!route.targets.is_empty());
        assert!(route.policy.retry.initial_backoff <= route.policy.retry.max_backoff);
        for target in &route.targets {
            assert!(target.upstream < config.upstreams.len());
            assert!(!target.model.is_empty());
            assert!(target.label.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' '));
        }
    }
    for upstream in &config.upstreams {
        assert!(!upstream.base.host.is_empty());
        assert!(!upstream.base.path.ends_with('/'));
        for value in upstream.auth_value().iter().chain(upstream.headers.iter().map(|(_, value)| value)) {
            assert!(!value.contains(['\r', '\n', '\0']));
        }
    }
    for key in &config.keys {
        assert!(!key.sha256.is_empty());
        assert!(config.routes.iter().any(|route| key.allows(&route.name)));
    }
}
