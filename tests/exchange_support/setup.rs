//! What an exchange is begun with.

use std::sync::Arc;
use std::time::Duration;

use baton::exchange::{HOLD_BYTES, Limits, Plan, Request, Shape, Target};
use baton::policy::balance::Order;
use baton::policy::{
    ContinuationMode, Cooldown, FailureMode, PrefillFlags, RetryLimits, RoutePolicy, StreamFailure, Timeouts,
    Trigger, WhenAllUnavailable,
};
use baton::protocol::request::peek;
use bytes::Bytes;

pub const MS: fn(u64) -> Duration = Duration::from_millis;

#[derive(Clone, Debug)]
pub struct Setup {
    pub shape: Shape,
    pub body: String,
    pub targets: Vec<ContinuationMode>,
    pub prefill_flags: PrefillFlags,
    pub policy: RoutePolicy,
    pub timeouts: Timeouts,
    pub limits: Limits,
    pub order: Option<Order>,
    /// White space at the partial's end is not sent.
    pub trims: bool,
    /// The targets that are asked for usage when the client did not.
    pub asks_usage: Vec<usize>,
    /// The text of answers without usage is told.
    pub tells_text: bool,
    /// How the targets' breakers stand at the start; None: there are none.
    pub health: Option<Vec<u64>>,
    pub seed: u64,
}

impl Setup {
    /// A streamed chat answer over targets with the given modes, with the default policy in mode `continue`.
    pub fn stream(targets: &[ContinuationMode]) -> Self {
        let policy = RoutePolicy {
            continue_with_tools: true,
            continuation_prompt: None,
            retry: RetryLimits {
                max_retries: 0,
                streaming_max_retries: 0,
                initial_backoff: MS(250),
                max_backoff: MS(2_000),
                retry_after_max: MS(2_000),
            },
            max_fallbacks: 8,
            retry_on_429: true,
            fallback_on_statuses: vec![],
            fallback_on_codes: vec![],
            fallback_on_config_faults: true,
            expose_upstream_errors: false,
            settle: MS(1_000),
            cooldown: Cooldown { failures: 3, window: MS(30_000), open: MS(5_000), open_max: MS(60_000) },
            when_all_unavailable: WhenAllUnavailable::TryAnyway,
            stream_failure: StreamFailure {
                mode: FailureMode::Continue,
                on: Trigger::ALL.to_vec(),
                max_fallbacks: 1,
            },
        };
        Self {
            shape: Shape::ChatStream,
            body: r#"{"model":"r","messages":[{"role":"user","content":"Hi"}],"stream":true}"#.to_owned(),
            targets: targets.to_vec(),
            prefill_flags: PrefillFlags::None,
            policy,
            timeouts: Timeouts {
                connect: MS(5_000),
                first_token: MS(60_000),
                idle: MS(30_000),
                response: MS(600_000),
                total: MS(0),
            },
            limits: Limits {
                hold_bytes: HOLD_BYTES,
                response_body: 16 << 20,
                partial: 1 << 20,
                heartbeat: MS(15_000),
            },
            order: None,
            trims: false,
            asks_usage: Vec::new(),
            tells_text: false,
            health: None,
            seed: 1,
        }
    }

    /// Two targets that continue natively.
    pub fn pair() -> Self {
        Self::stream(&[ContinuationMode::Prefill; 2])
    }

    /// Two targets that are told to continue.
    pub fn instructed() -> Self {
        Self::stream(&[ContinuationMode::Instruct; 2])
    }

    /// A plain chat answer over two targets.
    pub fn plain() -> Self {
        Self {
            shape: Shape::ChatPlain,
            body: r#"{"model":"r","messages":[{"role":"user","content":"Hi"}]}"#.to_owned(),
            ..Self::pair()
        }
    }

    /// Another path over two targets.
    pub fn opaque() -> Self {
        Self { shape: Shape::Opaque, body: r#"{"model":"r","input":"Hi"}"#.to_owned(), ..Self::pair() }
    }

    pub fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    pub fn terminate(self) -> Self {
        self.with(|setup| setup.policy.stream_failure.mode = FailureMode::Terminate)
    }

    /// A request with these members besides the model, the messages and `stream`.
    pub fn asking(self, members: &str) -> Self {
        self.with(|setup| {
            setup.body = format!(
                r#"{{"model":"r","messages":[{{"role":"user","content":"Hi"}}],"stream":true,{members}}}"#
            );
        })
    }

    pub fn plan(&self) -> Arc<Plan> {
        let target = |(index, continuation): (usize, &ContinuationMode)| Target {
            label: Arc::from(format!("up{index}/m{index}")),
            model: Bytes::from(format!("\"m{index}\"")),
            timeouts: self.timeouts,
            continuation: *continuation,
            prefill_flags: self.prefill_flags,
            trim_trailing_space: self.trims,
            ask_usage: self.asks_usage.contains(&index),
            prompt: None,
        };
        Arc::new(Plan {
            route: Arc::from("r"),
            targets: self.targets.iter().enumerate().map(target).collect(),
            policy: self.policy.clone(),
            limits: self.limits,
            tells_text: self.tells_text,
        })
    }

    pub fn request(&self) -> Request {
        let body = Bytes::from(self.body.clone());
        Request { shape: self.shape, peek: peek(&body).expect("a request"), body }
    }
}
