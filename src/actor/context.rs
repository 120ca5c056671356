//! What the actors of one core share: the routes, the upstreams with their connection pools, timers, scratch.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use send_wrapper::SendWrapper;

use super::budget::Budget;
use super::health::Health;
use super::modes::Modes;
use super::observer::Observer;
use super::status::{CoreStatus, Status};
use super::timers::Timers;
use crate::config::{Config, LogTo, Upstream};
use crate::error::push_json_string;
use crate::exchange::{FallbackLimit, HOLD_BYTES, IntakeLimits, Limits, Plan, Target};
use crate::http1::HeadLimits;
use crate::net::pool::Pool;
use crate::net::tls_config::{self, TlsConfigError};
use crate::policy::{ContinuationMode, FailureMode};
use crate::protocol::openai_chat::Reader;
use crate::telemetry::{SinkError, Telemetry};

/// What the process's cores share: read-only, but for counters.
pub struct Shared {
    pub config: Config,
    pub modes: Modes,
    pub health: Health,
    pub tls: Vec<Option<UpstreamTls>>,
    pub budget: Budget,
    pub telemetry: Arc<Telemetry>,
    pub status: Status,
    pub observer: Option<Arc<dyn Observer>>,
}

/// Why a config that was read cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PrepareError {
    #[error("{0}")]
    Tls(#[from] TlsConfigError),
    #[error("{0}")]
    Log(#[from] SinkError),
}

/// How one upstream is spoken to under TLS.
#[derive(Clone)]
pub struct UpstreamTls {
    pub config: Arc<ClientConfig>,
    pub name: ServerName<'static>,
}

impl Shared {
    /// Prepares a config for `cores` cores. Reads the `ca_file`s, opens the logs.
    pub fn new(
        config: Config,
        cores: usize,
        observer: Option<Arc<dyn Observer>>,
    ) -> Result<Self, PrepareError> {
        let modes = Modes::new(config.upstreams.iter().map(|upstream| upstream.continuation));
        let tls = config.upstreams.iter().map(upstream_tls).collect::<Result<_, TlsConfigError>>()?;
        let budget = Budget::new(config.limits.buffered_bytes.unwrap_or_else(quarter_of_memory), cores);
        let telemetry = Arc::new(Telemetry::new(&config)?);
        let (health, status) = (Health::new(&config), Status::new(cores));
        Ok(Self { config, modes, health, tls, budget, telemetry, status, observer })
    }

    /// Whether every file that the upstreams name can be read and holds what it should.
    pub fn check_files(config: &Config) -> Result<(), TlsConfigError> {
        config.upstreams.iter().try_for_each(|upstream| upstream_tls(upstream).map(drop))
    }
}

fn upstream_tls(upstream: &Upstream) -> Result<Option<UpstreamTls>, TlsConfigError> {
    if !upstream.base.tls {
        return Ok(None);
    }
    let ca = upstream.tls.ca_file.as_deref().map(tls_config::read_pem).transpose()?;
    let config = tls_config::client(&upstream.name, ca.as_deref(), upstream.tls.verify)?;
    let name = tls_config::server_name(upstream.tls.server_name.as_deref().unwrap_or(&upstream.base.host))?;
    Ok(Some(UpstreamTls { config, name }))
}

/// `buffered_bytes = "auto"`: a quarter of the memory that the process may use, 1 GiB if nobody tells.
fn quarter_of_memory() -> usize {
    const UNKNOWN: usize = 4 << 30;
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<usize>().ok();
    let total = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let kib = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
        kib.trim().trim_end_matches("kB").trim().parse::<usize>().ok()?.checked_mul(1024)
    });
    let cgroup = number("/sys/fs/cgroup/memory.max");
    total.into_iter().chain(cgroup).min().unwrap_or(UNKNOWN) / 4
}

/// Every route's plans, and the edition of the modes that they were made with.
fn plans(shared: &Shared) -> (u64, Vec<[Arc<Plan>; FallbackLimit::ALL.len()]>) {
    let (edition, modes) = (shared.modes.edition(), shared.modes.all());
    let of = |route| FallbackLimit::ALL.map(|limit| Arc::new(plan(&shared.config, route, limit, &modes)));
    (edition, (0..shared.config.routes.len()).map(of).collect())
}

/// A route as the machine takes it, under the client's own limit.
fn plan(config: &Config, route: usize, limit: FallbackLimit, modes: &[ContinuationMode]) -> Plan {
    let route = &config.routes[route];
    let mut policy = route.policy.clone();
    match limit {
        FallbackLimit::Continue => {}
        FallbackLimit::BeforeCommit => policy.stream_failure.mode = FailureMode::Terminate,
        FallbackLimit::Off => {
            policy.stream_failure.mode = FailureMode::Terminate;
            policy.max_fallbacks = 0;
        }
    }
    let prompt = policy.continuation_prompt.as_deref().map(json_text);
    let target = |target: &crate::config::Target| {
        let upstream = &config.upstreams[target.upstream];
        let mut model = String::new();
        push_json_string(&mut model, &target.model);
        Target {
            label: Arc::from(target.label.as_str()),
            model: Bytes::from(model),
            timeouts: target.timeouts,
            continuation: modes[target.upstream],
            prefill_flags: upstream.prefill_flags,
            trim_trailing_space: upstream.trim_trailing_space,
            ask_usage: upstream.ask_usage,
            prompt: prompt.clone(),
        }
    };
    Plan {
        route: Arc::from(route.name.as_str()),
        targets: route.targets.iter().map(target).collect(),
        policy,
        limits: Limits {
            hold_bytes: HOLD_BYTES,
            response_body: config.limits.response_body,
            partial: config.limits.partial,
            heartbeat: config.server.heartbeat,
        },
        tells_text: config.log.usage != LogTo::Off,
    }
}

/// Text as it stands between the quotes of a JSON string.
fn json_text(text: &str) -> Bytes {
    let mut quoted = String::new();
    push_json_string(&mut quoted, text);
    let end = quoted.len() - 1;
    Bytes::from(quoted).slice(1..end)
}

/// One core's own things. Lives on its thread alone.
pub struct Context {
    pub shared: Arc<Shared>,
    /// This core's number.
    pub core: usize,
    pub timers: Timers,
    /// The routes' plans, each under every limit, and the edition of the modes that they were made with.
    plans: RefCell<(u64, Vec<[Arc<Plan>; FallbackLimit::ALL.len()]>)>,
    /// A pool for each upstream of the config.
    pub pools: Vec<RefCell<Pool>>,
    /// Scratch for reading frames.
    pub reader: RefCell<Reader>,
    /// How many exchanges each route began: what round robin goes by.
    turns: Vec<Cell<u64>>,
}

/// A context as the state of an actor may hold it: an actor never leaves its core's thread.
pub type ContextRef = SendWrapper<Rc<Context>>;

impl Context {
    /// To be called on the core's thread, inside its runtime.
    pub fn new(shared: Arc<Shared>, core: usize) -> Self {
        let upstreams = &shared.config.upstreams;
        let pools =
            upstreams.iter().map(|upstream| RefCell::new(Pool::new(upstream.pool_size, upstream.pool_idle)));
        let plans = RefCell::new(plans(&shared));
        Self {
            core,
            plans,
            timers: Timers::new(),
            pools: pools.collect(),
            reader: RefCell::default(),
            turns: shared.config.routes.iter().map(|_| Cell::new(0)).collect(),
            shared,
        }
    }

    /// The plan of a route. Made anew after an upstream was demoted.
    pub fn plan(&self, route: usize, limit: FallbackLimit) -> Arc<Plan> {
        let mut plans = self.plans.borrow_mut();
        if plans.0 != self.shared.modes.edition() {
            *plans = self::plans(&self.shared);
        }
        Arc::clone(&plans.1[route][limit as usize])
    }

    /// The number of the next exchange of a route. Cores begin apart, so that they do not go in step.
    pub fn next_turn(&self, route: usize) -> u64 {
        let turn = &self.turns[route];
        turn.set(turn.get() + 1);
        turn.get() - 1 + self.core as u64
    }

    /// What this core tells of itself.
    ///
    /// # Panics
    /// If the config was prepared for fewer cores.
    pub fn status(&self) -> &CoreStatus {
        &self.shared.status.cores()[self.core]
    }

    pub fn intake_limits(&self) -> IntakeLimits {
        let limits = &self.shared.config.limits;
        let head = HeadLimits { bytes: limits.head, fields: limits.head_fields };
        IntakeLimits { head, frame_bytes: limits.frame_bytes }
    }
}
