//! The config: TOML text becomes one validated, indexed, immutable [`Config`], or the list of all that is wrong.
//!
//! Pure: what it needs from outside, environment variables and secret files, is asked of [`Sources`]. A file is
//! read in one pass by a small reader ([`reader`]) that walks the spanned TOML document, so that every error is
//! collected with its line; `config/baton.toml` documents each key with its default and range.
//!
//! # Invariants
//! * Every value in a [`Config`] is within its documented range, every index points to something.
//! * Partial tables merge key by key: a route over `[defaults]` over what is built in.
//! * No error text and no `Debug` output holds a secret's value.
//!
//! # Left out
//! Certificates and CA files are only named here; whoever opens the listener or the connection reads them.

mod check;
mod error;
mod keys;
mod reader;
mod routes;
mod server;
mod timeouts;
mod upstreams;
mod url;
mod values;

#[cfg(test)]
mod tests;

use core::net::SocketAddr;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::policy::{ContinuationMode, PrefillFlags, RoutePolicy, Strategy, Timeouts};

pub use error::ConfigError;
pub use url::BaseUrl;

/// The longest config text, in bytes; arbitrary, a thousand routes take about a tenth of it.
pub const TEXT_BYTES_MAX: usize = 4 << 20;

/// What a config may ask of the world around it.
#[derive(Clone, Copy)]
pub struct Sources<'a> {
    /// The value of an environment variable, if it is set.
    pub env: &'a dyn Fn(&str) -> Option<String>,
    /// The bytes of a secret file; a relative path is as written in the config.
    pub read_file: &'a dyn Fn(&Path) -> io::Result<Vec<u8>>,
}

/// Reads a config.
///
/// # Errors
/// Everything that is wrong with it, sorted by line. A TOML syntax error is the only one in its list, since what
/// follows it cannot be judged.
pub fn parse(text: &str, sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    check::parse(text, sources)
}

/// A whole config. Upstreams and routes are sorted by name.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Which text this is: the first 12 hex digits of its SHA-256.
    pub revision: String,
    pub server: Server,
    pub limits: Limits,
    pub admin: Admin,
    pub log: Log,
    /// Client keys; none: no key is asked.
    pub keys: Vec<ClientKey>,
    pub upstreams: Vec<Upstream>,
    pub routes: Vec<Route>,
}

impl Config {
    /// Relative paths are relative to `folder`, the config's own.
    pub fn resolve_paths(&mut self, folder: &Path) {
        if let Some(tls) = &mut self.server.tls {
            tls.cert_file = folder.join(&tls.cert_file);
            tls.key_file = folder.join(&tls.key_file);
        }
        for file in self.upstreams.iter_mut().filter_map(|upstream| upstream.tls.ca_file.as_mut()) {
            *file = folder.join(&*file);
        }
        for log in [&mut self.log.access, &mut self.log.usage] {
            if let LogTo::File(file) = log {
                *file = folder.join(&*file);
            }
        }
    }

    /// The route that answers to `model`, with its index in [`Config::routes`].
    pub fn route(&self, model: &str) -> Option<(usize, &Route)> {
        let index = self.routes.binary_search_by(|route| route.name.as_str().cmp(model)).ok()?;
        self.routes.get(index).map(|route| (index, route))
    }
}

/// `[server]`: the side of the clients.
#[derive(Clone, Debug, PartialEq)]
pub struct Server {
    /// At least one, none twice.
    pub listen: Vec<SocketAddr>,
    /// None: plain HTTP.
    pub tls: Option<ServerTls>,
    /// Whether a listener beyond loopback may go without client keys.
    pub open: bool,
    /// Core threads; 0: one per available core.
    pub workers: usize,
    pub io: Io,
    /// The whole request head.
    pub header_timeout: Duration,
    /// Between two reads of the body.
    pub body_timeout: Duration,
    /// Keep-alive.
    pub idle_timeout: Duration,
    /// No progress of a write.
    pub write_timeout: Duration,
    /// A comment line after that long without a write; zero: never.
    pub heartbeat: Duration,
    /// How long open streams may go on after SIGTERM.
    pub drain: Duration,
    pub half_close: HalfClose,
}

/// PEM files, not read yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerTls {
    pub cert_file: PathBuf,
    pub key_file: PathBuf,
}

/// The driver of the cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Io {
    /// io_uring, or epoll where that is refused.
    Auto,
    IoUring,
    Epoll,
}

/// What a FIN of the client means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HalfClose {
    /// It is gone: the exchange is cancelled.
    Cancel,
    /// It still reads: the exchange goes on.
    Serve,
}

/// `[limits]`, in bytes where not said otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    pub request_body: usize,
    /// A plain answer, held whole before the commit.
    pub response_body: usize,
    /// A request or response head.
    pub head: usize,
    /// Header fields of a head.
    pub head_fields: usize,
    /// One event.
    pub frame_bytes: usize,
    /// Delivered text past which a stream is not continued.
    pub partial: usize,
    /// Read and not yet written, a stream.
    pub window: usize,
    /// All buffers of the process; none: a quarter of its memory.
    pub buffered_bytes: Option<usize>,
    /// Open client connections; 0: what the descriptor limit allows.
    pub connections: usize,
}

/// `[admin]`: the operator's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Admin {
    /// None: off.
    pub listen: Option<SocketAddr>,
}

/// `[log]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    pub format: LogFormat,
    pub level: Level,
    /// One line at each exchange's end.
    pub access: LogTo,
    /// Usage events, one JSON line each.
    pub usage: LogTo,
}

/// Where a log goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LogTo {
    Off,
    Stderr,
    /// Appended to.
    File(PathBuf),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// What is logged: this and everything graver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

/// `[keys.NAME]`: who may call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientKey {
    pub name: String,
    /// SHA-256 of each token that is this key.
    pub sha256: Vec<[u8; 32]>,
    /// Globs of route names; `*` stands for any run of characters, none included.
    pub routes: Vec<String>,
}

impl ClientKey {
    /// Whether this key may ask for the route of that name.
    pub fn allows(&self, route: &str) -> bool {
        self.routes.iter().any(|glob| keys::glob_matches(glob, route))
    }
}

/// `[upstreams.NAME]`: one provider endpoint.
#[derive(Clone, PartialEq)]
pub struct Upstream {
    pub name: String,
    pub base: BaseUrl,
    pub api_key: Option<Secret>,
    /// The header that carries the key, in lower case.
    pub auth_header: String,
    /// Added to every request; names in lower case.
    pub headers: Vec<(String, String)>,
    /// Percent-encoded, `a=b&c=d`; empty if there is none.
    pub query: String,
    pub continuation: ContinuationMode,
    pub prefill_flags: PrefillFlags,
    /// It refuses a partial that ends in white space.
    pub trim_trailing_space: bool,
    /// Streams ask for usage on behalf of clients that did not, who do not see it.
    pub ask_usage: bool,
    /// How long an idle connection is kept.
    pub pool_idle: Duration,
    /// Idle connections a core.
    pub pool_size: usize,
    pub tls: UpstreamTls,
}

impl Upstream {
    /// The value of the `auth_header`: `Bearer KEY` in `authorization`, the bare key in any other.
    pub fn auth_value(&self) -> Option<String> {
        let key = self.api_key.as_ref()?.expose();
        Some(if self.auth_header == "authorization" { format!("Bearer {key}") } else { key.to_owned() })
    }
}

/// Header values and the query may hold credentials, so only their names and number are shown.
impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let headers: Vec<&str> = self.headers.iter().map(|(name, _)| name.as_str()).collect();
        f.debug_struct("Upstream")
            .field("name", &self.name)
            .field("base", &self.base)
            .field("api_key", &self.api_key)
            .field("auth_header", &self.auth_header)
            .field("headers", &headers)
            .field("query_bytes", &self.query.len())
            .field("continuation", &self.continuation)
            .field("prefill_flags", &self.prefill_flags)
            .field("pool_idle", &self.pool_idle)
            .field("pool_size", &self.pool_size)
            .field("tls", &self.tls)
            .finish()
    }
}

/// How an `https` upstream proves who it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamTls {
    /// PEM, not read yet; none: the web's own roots.
    pub ca_file: Option<PathBuf>,
    /// The name to expect; none: the host of the base URL.
    pub server_name: Option<String>,
    /// False: any certificate will do.
    pub verify: bool,
}

/// A value that no log, error or debug output shows.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Wraps it; nothing is checked.
    pub fn new(value: impl Into<String>) -> Self {
        Self(value.into())
    }

    /// The value itself, for the one place that sends it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

/// `[routes.NAME]`: a public model name.
#[derive(Clone, Debug, PartialEq)]
pub struct Route {
    /// The `model` that clients send.
    pub name: String,
    pub strategy: Strategy,
    /// At least one, none twice.
    pub targets: Vec<Target>,
    pub policy: RoutePolicy,
}

/// An upstream and the model to ask it for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Index in [`Config::upstreams`].
    pub upstream: usize,
    pub model: String,
    /// The route's, with what this target overrides. `total` is always the route's.
    pub timeouts: Timeouts,
    /// `upstream/model`, printable ASCII: fit for a header, a metric label, a log line.
    pub label: String,
}
