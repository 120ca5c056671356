//! The text of a configuration for one test.

use std::net::SocketAddr;

/// Which driver the binary under test is to use: `BATON_TEST_DRIVER`, io_uring when unset.
pub fn driver() -> String {
    match std::env::var("BATON_TEST_DRIVER") {
        Ok(driver) if driver == "io_uring" || driver == "epoll" => driver,
        Ok(other) => panic!("BATON_TEST_DRIVER is {other:?}; set it to io_uring or epoll"),
        Err(_) => "io_uring".to_owned(),
    }
}

/// Tables of TOML in the order they were named; a value is TOML text.
#[derive(Clone, Debug)]
pub struct Config {
    tables: Vec<(String, Vec<(String, String)>)>,
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}

impl Config {
    /// One core on loopback, port 0, no upstream, no route; no admin listener, no cooldown.
    pub fn new() -> Self {
        Self { tables: Vec::new() }
            .set("server", "listen", "\"127.0.0.1:0\"")
            .set("server", "workers", "1")
            .set("server", "io", format!("\"{}\"", driver()))
            // Its default port is one for all processes.
            .set("admin", "listen", "\"\"")
            // Most tests ask a failing upstream more often than it would stay in rotation.
            .set("defaults", "cooldown", "{ failures = 0 }")
    }

    /// A route `chat` with one target a given upstream, named up1, up2, ... in order, each asked for `model-1`,
    /// `model-2`, ...; no retries of the same target, prefill continuations where there is more than one.
    pub fn chat<'a>(upstreams: impl IntoIterator<Item = &'a SocketAddr>) -> Self {
        let mut config = Self::new();
        let mut targets = Vec::new();
        for (n, addr) in (1..).zip(upstreams) {
            let name = format!("up{n}");
            config = config.upstream(&name, *addr).set(
                &format!("upstreams.{name}"),
                "continuation",
                "\"prefill\"",
            );
            targets.push((name, format!("model-{n}")));
        }
        let targets: Vec<_> = targets.iter().map(|(u, m)| (u.as_str(), m.as_str())).collect();
        let retry = "{ max_retries = 0, streaming_max_retries = 0 }";
        let config = config.route("chat", &targets).set("routes.chat", "retry", retry);
        // A route with one target has nothing to go on with.
        if targets.len() < 2 {
            return config;
        }
        config.set("routes.chat", "stream_failure", "{ mode = \"continue\" }")
    }

    /// Sets a key; a later value replaces an earlier one.
    pub fn set(mut self, table: &str, key: &str, value: impl Into<String>) -> Self {
        if !self.tables.iter().any(|(name, _)| name == table) {
            self.tables.push((table.to_owned(), Vec::new()));
        }
        let keys = self.tables.iter_mut().find(|(name, _)| name == table).map(|(_, keys)| keys).unwrap();
        keys.retain(|(name, _)| name != key);
        keys.push((key.to_owned(), value.into()));
        self
    }

    /// An upstream on loopback that speaks plain HTTP, with a key of its own.
    pub fn upstream(self, name: &str, addr: SocketAddr) -> Self {
        let table = format!("upstreams.{name}");
        self.set(&table, "base_url", format!("\"http://{addr}/v1\"")).set(
            &table,
            "api_key",
            format!("\"key-of-{name}\""),
        )
    }

    /// A route with its targets: upstream and model.
    pub fn route(self, name: &str, targets: &[(&str, &str)]) -> Self {
        let targets: Vec<_> =
            targets.iter().map(|(u, m)| format!("{{ upstream = \"{u}\", model = \"{m}\" }}")).collect();
        self.set(&format!("routes.{name}"), "targets", format!("[{}]", targets.join(", ")))
    }

    pub fn text(&self) -> String {
        let mut out = String::new();
        for (table, keys) in &self.tables {
            out.push_str(&format!("[{table}]\n"));
            for (key, value) in keys {
                out.push_str(&format!("{key} = {value}\n"));
            }
        }
        out
    }
}
