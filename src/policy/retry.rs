//! Before the commit: what follows an attempt that gave no answer?
//!
//! One function over one table (`docs/failover.md`, "Before the commit"). It reads no clock and draws no
//! random number; an outcome that is added must be judged here, since there is no wildcard arm.

use std::time::Duration;

use super::{RetryLimits, RoutePolicy};

/// How an attempt ended before the commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// No connection: refused, unreachable, or not made in time.
    ConnectFailed,
    /// Reset or closed before any byte of a response.
    ClosedEarly,
    /// A pooled connection that had been closed before the request was sent on it.
    StaleConnection,
    /// Reset or closed after the response had begun, before any content.
    Cut,
    /// No response head, no content or no whole answer in time.
    TimedOut,
    /// An error status, as a head or inside a stream.
    Status(Refusal),
    /// A response that is not HTTP, an unexpected 1xx or 3xx, or a body that is no answer.
    Protocol,
    /// Frames that are no JSON, twice in a row or with text lost.
    Undecodable,
    /// The answer ended properly with nothing in it.
    Empty,
    /// A head, frame or answer over its limit.
    TooLarge,
    DnsFailed,
    TlsFailed,
    /// The attempt's own actor or task died: a fault of Baton's.
    Died,
    /// The exchange's total deadline has passed.
    DeadlinePassed,
}

/// An error status with what the judgement needs of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    /// What the upstream asked to be left alone for.
    pub retry_after: Option<Duration>,
    /// It speaks of a spent quota, which no wait of seconds mends.
    pub quota: bool,
    /// Its code or type stands in `fallback_on_codes`, or its status in `fallback_on_statuses`.
    pub listed: bool,
}

/// How far the exchange has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    pub streamed: bool,
    /// Retries of this target so far.
    pub retries: u32,
    /// Whether this is the first target of the exchange: only that one is retried.
    pub first_target: bool,
    /// Whether a connection was already dialled anew in place of a stale one.
    pub redialled: bool,
    /// Whether a further target is there and within `max_fallbacks`.
    pub next_target: bool,
    /// Whether the route has this target alone.
    pub only_target: bool,
    /// What is left of the total deadline; None: no limit.
    pub time_left: Option<Duration>,
    /// The wait that `backoff` drew for the next retry of the same target.
    pub backoff: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The same target again, after `wait`. `free`: it spends no retry.
    Retry { wait: Duration, free: bool },
    /// The next target, at once.
    Fallback,
    /// The answer is the client's to see.
    Forward,
    /// All is spent: the last upstream answer, or an error of Baton's.
    Fail,
}

/// What a row of the table allows.
struct Allowed {
    same: bool,
    next: bool,
    wait: Option<Duration>,
}

/// Says what follows an attempt that ended in `outcome` before the commit.
pub fn judge(outcome: Outcome, so_far: &Progress, policy: &RoutePolicy) -> Verdict {
    let yes = Allowed { same: true, next: true, wait: None };
    let allowed = match outcome {
        Outcome::StaleConnection if !so_far.redialled => {
            return Verdict::Retry { wait: Duration::ZERO, free: true };
        }
        Outcome::ConnectFailed
        | Outcome::ClosedEarly
        | Outcome::StaleConnection
        | Outcome::Cut
        | Outcome::Empty
        | Outcome::Died => yes,
        Outcome::TimedOut => Allowed { same: so_far.only_target, ..yes },
        Outcome::Protocol | Outcome::Undecodable | Outcome::TooLarge => Allowed { same: false, ..yes },
        Outcome::DnsFailed | Outcome::TlsFailed => {
            Allowed { same: false, next: policy.fallback_on_config_faults, wait: None }
        }
        Outcome::Status(refusal) => match judge_status(refusal, policy) {
            Some(allowed) => allowed,
            None => return Verdict::Forward,
        },
        Outcome::DeadlinePassed => Allowed { same: false, next: false, wait: None },
    };
    spend(&allowed, so_far, &policy.retry)
}

/// The rows of the table that speak of a status; None: the answer is forwarded.
fn judge_status(refusal: Refusal, policy: &RoutePolicy) -> Option<Allowed> {
    let Refusal { status, retry_after, quota, listed } = refusal;
    match status {
        429 if policy.retry_on_429 || listed => {
            Some(Allowed { same: policy.retry_on_429 && !quota, next: true, wait: retry_after })
        }
        500.. => Some(Allowed { same: true, next: true, wait: retry_after }),
        _ if listed => Some(Allowed { same: false, next: true, wait: None }),
        _ => None,
    }
}

/// Same-target retries first, then the next target, as far as limits and time allow.
fn spend(allowed: &Allowed, so_far: &Progress, limits: &RetryLimits) -> Verdict {
    let retries_max = if so_far.streamed { limits.streaming_max_retries } else { limits.max_retries };
    let wait = match allowed.wait {
        Some(told) => told,
        None if so_far.streamed => Duration::ZERO,
        None => so_far.backoff,
    };
    let bearable = allowed.wait.is_none_or(|told| told <= limits.retry_after_max)
        && so_far.time_left.is_none_or(|left| wait < left);
    if allowed.same && so_far.first_target && so_far.retries < retries_max && bearable {
        return Verdict::Retry { wait, free: false };
    }
    let time_is_left = so_far.time_left.is_none_or(|left| !left.is_zero());
    if allowed.next && so_far.next_target && time_is_left { Verdict::Fallback } else { Verdict::Fail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::policy;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    fn progress() -> Progress {
        Progress {
            streamed: true,
            retries: 0,
            first_target: true,
            redialled: false,
            next_target: true,
            only_target: false,
            time_left: None,
            backoff: MS(100),
        }
    }

    fn status(status: u16) -> Outcome {
        Outcome::Status(Refusal { status, retry_after: None, quota: false, listed: false })
    }

    fn told(code: u16, wait: Duration) -> Outcome {
        Outcome::Status(Refusal { status: code, retry_after: Some(wait), quota: false, listed: false })
    }

    const AT_ONCE: Verdict = Verdict::Retry { wait: Duration::ZERO, free: false };

    #[test]
    fn judges_every_outcome() {
        let listed = Outcome::Status(Refusal { status: 400, retry_after: None, quota: false, listed: true });
        let quota = Outcome::Status(Refusal { status: 429, retry_after: None, quota: true, listed: false });
        let cases = [
            ("refused: again [B1]", Outcome::ConnectFailed, AT_ONCE),
            ("closed early: again [B2]", Outcome::ClosedEarly, AT_ONCE),
            ("cut: again [B4]", Outcome::Cut, AT_ONCE),
            ("empty: again [B15]", Outcome::Empty, AT_ONCE),
            ("died: again [B18]", Outcome::Died, AT_ONCE),
            ("stale: free [B3]", Outcome::StaleConnection, Verdict::Retry { wait: MS(0), free: true }),
            ("silent: not again [B5]", Outcome::TimedOut, Verdict::Fallback),
            ("not HTTP: not again [B12]", Outcome::Protocol, Verdict::Fallback),
            ("garbage: not again [B13]", Outcome::Undecodable, Verdict::Fallback),
            ("too large: not again [B14]", Outcome::TooLarge, Verdict::Fallback),
            ("DNS: not again [B17]", Outcome::DnsFailed, Verdict::Fallback),
            ("TLS: not again [B17]", Outcome::TlsFailed, Verdict::Fallback),
            ("500 [B8]", status(500), AT_ONCE),
            ("529 [B8]", status(529), AT_ONCE),
            ("429 without a wait [B6]", status(429), AT_ONCE),
            ("429: wait as told [B6]", told(429, MS(2_000)), Verdict::Retry { wait: MS(2_000), free: false }),
            ("429: told to wait too long [B6]", told(429, MS(2_001)), Verdict::Fallback),
            ("503: wait as told [B8]", told(503, MS(1_500)), Verdict::Retry { wait: MS(1_500), free: false }),
            ("quota: next at once [B7]", quota, Verdict::Fallback),
            ("400: the client's to see [B11]", status(400), Verdict::Forward),
            ("408: the client's to see [B11]", status(408), Verdict::Forward),
            ("listed 400: next [B9]", listed, Verdict::Fallback),
            ("deadline: over [B19]", Outcome::DeadlinePassed, Verdict::Fail),
        ];
        for (name, outcome, want) in cases {
            assert_eq!(judge(outcome, &progress(), &policy()), want, "{name}");
        }
    }

    #[test]
    fn limits_are_kept_to_the_last_and_not_past_it() {
        let second = Progress { first_target: false, ..progress() };
        let last = Progress { next_target: false, ..progress() };
        let plain = Progress { streamed: false, ..progress() };
        let cases = [
            ("streamed: one retry", Progress { retries: 1, ..progress() }, Verdict::Fallback),
            (
                "plain: the second retry",
                Progress { retries: 1, ..plain },
                Verdict::Retry { wait: MS(100), free: false },
            ),
            ("plain: no third", Progress { retries: 2, ..plain }, Verdict::Fallback),
            ("a fallback is not retried", second, Verdict::Fallback),
            ("nothing left", Progress { retries: 1, ..last }, Verdict::Fail),
            ("no time for a wait", Progress { time_left: Some(MS(100)), ..plain }, Verdict::Fallback),
            ("no time at all", Progress { time_left: Some(MS(0)), ..second }, Verdict::Fail),
        ];
        for (name, so_far, want) in cases {
            assert_eq!(judge(status(503), &so_far, &policy()), want, "{name}");
        }
    }

    #[test]
    fn switches_of_the_policy_change_their_rows_only() {
        let no_429 = RoutePolicy { retry_on_429: false, ..policy() };
        assert_eq!(judge(status(429), &progress(), &no_429), Verdict::Forward);
        let listed = Outcome::Status(Refusal { status: 429, retry_after: None, quota: false, listed: true });
        assert_eq!(judge(listed, &progress(), &no_429), Verdict::Fallback, "listed 429: next [B9]");
        let strict = RoutePolicy { fallback_on_config_faults: false, ..policy() };
        assert_eq!(judge(Outcome::DnsFailed, &progress(), &strict), Verdict::Fail);
        let alone = Progress { only_target: true, next_target: false, ..progress() };
        assert_eq!(judge(Outcome::TimedOut, &alone, &policy()), AT_ONCE);
        let redialled = Progress { redialled: true, ..progress() };
        assert_eq!(judge(Outcome::StaleConnection, &redialled, &policy()), AT_ONCE);
    }
}
