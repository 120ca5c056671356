//! Defaults, and what of a route, of `[defaults]` and of what is built in holds.

use std::time::Duration;

use super::good;
use crate::config::{Config, Route};
use crate::policy::{Cooldown, FailureMode, Strategy, Trigger, WhenAllUnavailable};

fn route(config: &Config) -> &Route {
    config.route("m").map(|(_, route)| route).unwrap()
}

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const TARGET: &str = "targets = [{ upstream = 'a', model = 'x' }]";

#[test]
fn a_route_overrides_timeouts_key_by_key() {
    let text = format!(
        "[defaults]\ntimeouts = {{ connect = '2s', idle = '20s' }}\n[routes.m]\n{TARGET}\ntimeouts = {{ idle = '7s' }}"
    );
    let timeouts = route(&good(&text)).targets[0].timeouts;
    assert_eq!(timeouts.connect, ms(2000), "from [defaults]");
    assert_eq!(timeouts.idle, ms(7000), "from the route");
    assert_eq!(timeouts.first_token, ms(60_000), "built in");
    assert_eq!(timeouts.response, ms(600_000), "built in");
    assert_eq!(timeouts.total, Duration::ZERO, "built in");
}

#[test]
fn a_target_overrides_its_routes_timeouts_key_by_key() {
    let text = "[routes.m]\ntimeouts = { idle = '7s', total = '90s' }\n\
        targets = [{ upstream = 'a', model = 'x', timeouts = { first_token = '80s' } }, { upstream = 'b', model = 'x' }]";
    let config = good(text);
    let targets = &route(&config).targets;
    assert_eq!((targets[0].timeouts.first_token, targets[0].timeouts.idle), (ms(80_000), ms(7000)));
    assert_eq!((targets[1].timeouts.first_token, targets[1].timeouts.idle), (ms(60_000), ms(7000)));
    assert_eq!(targets[0].timeouts.total, ms(90_000));
    assert_eq!((targets[0].upstream, targets[1].upstream), (0, 1));
    assert_eq!((targets[0].label.as_str(), targets[1].label.as_str()), ("a/x", "b/x"));
}

#[test]
fn a_partial_stream_failure_keeps_the_other_keys() {
    let config = good(&format!("[routes.m]\n{TARGET}\nstream_failure = {{ mode = 'continue' }}"));
    let failure = &route(&config).policy.stream_failure;
    assert_eq!(failure.mode, FailureMode::Continue);
    assert_eq!(failure.on, Trigger::ALL);
    assert_eq!(failure.max_fallbacks, 1);

    let text = format!(
        "[defaults.stream_failure]\nmode = 'continue'\non = ['read_timeout']\n\
         [routes.m]\n{TARGET}\nstream_failure = {{ max_fallbacks = 3 }}"
    );
    let config = good(&text);
    let failure = &route(&config).policy.stream_failure;
    assert_eq!(failure.mode, FailureMode::Continue);
    assert_eq!(failure.on, [Trigger::ReadTimeout]);
    assert_eq!(failure.max_fallbacks, 3);
}

#[test]
fn a_partial_retry_keeps_the_other_keys() {
    let text =
        format!("[defaults]\nretry.max_backoff = '9s'\n[routes.m]\n{TARGET}\nretry = {{ max_retries = 0 }}");
    let retry = route(&good(&text)).policy.retry;
    assert_eq!((retry.max_retries, retry.streaming_max_retries), (0, 1));
    assert_eq!(
        (retry.initial_backoff, retry.max_backoff, retry.retry_after_max),
        (ms(250), ms(9000), ms(2000))
    );
}

#[test]
fn a_partial_cooldown_keeps_the_other_keys() {
    let text = format!(
        "[defaults]\nwhen_all_unavailable = 'fail'\ncooldown.open = '9s'\n[routes.m]\n{TARGET}\n\
         cooldown = {{ failures = 0 }}\n[routes.n]\n{TARGET}\nwhen_all_unavailable = 'try_anyway'"
    );
    let config = good(&text);
    let policy = &route(&config).policy;
    let want = Cooldown { failures: 0, window: ms(30_000), open: ms(9_000), open_max: ms(60_000) };
    assert_eq!(policy.cooldown, want);
    assert_eq!(policy.when_all_unavailable, WhenAllUnavailable::Fail);
    let other = &config.route("n").unwrap().1.policy;
    assert_eq!(other.when_all_unavailable, WhenAllUnavailable::TryAnyway);
    assert_eq!(other.cooldown, Cooldown { failures: 3, ..want });
}

#[test]
fn a_list_replaces_the_list_below_it() {
    let text = format!(
        "[defaults]\nfallback_on_statuses = [408]\nfallback_on_codes = ['x']\nstrategy = 'round_robin'\n\
         retry_on_429 = false\n[routes.m]\n{TARGET}\nfallback_on_codes = []\nretry_on_429 = true"
    );
    let config = good(&text);
    let route = route(&config);
    assert_eq!(route.policy.fallback_on_statuses, [408]);
    assert!(route.policy.fallback_on_codes.is_empty());
    assert_eq!(route.strategy, Strategy::RoundRobin);
    assert!(route.policy.retry_on_429);
}

/// Targets of `[defaults]` are read with the timeouts of the route that inherits them.
#[test]
fn targets_can_be_inherited() {
    let text = "[defaults]\ntargets = [{ upstream = 'b', model = 'y', timeouts = { connect = '1s' } }]\n\
        [routes.m]\ntimeouts = { idle = '3s' }\n[routes.n]\ntargets = [{ upstream = 'a', model = 'z' }]";
    let config = good(text);
    let inherited = &route(&config).targets;
    assert_eq!(inherited.len(), 1);
    assert_eq!(inherited[0].label, "b/y");
    assert_eq!((inherited[0].timeouts.connect, inherited[0].timeouts.idle), (ms(1000), ms(3000)));
    assert_eq!(config.route("n").unwrap().1.targets[0].label, "a/z");
}

#[test]
fn the_built_in_policy_is_the_documented_one() {
    let config = good("");
    let policy = &route(&config).policy;
    assert_eq!(policy.stream_failure.mode, FailureMode::Terminate);
    assert_eq!((policy.retry.max_retries, policy.retry.streaming_max_retries), (2, 1));
    assert_eq!(policy.max_fallbacks, 8);
    assert_eq!(policy.fallback_on_codes, ["context_length_exceeded"]);
    assert_eq!(policy.settle, ms(1000));
    let cooldown = Cooldown { failures: 3, window: ms(30_000), open: ms(5_000), open_max: ms(60_000) };
    assert_eq!(policy.cooldown, cooldown);
    assert_eq!(policy.when_all_unavailable, WhenAllUnavailable::TryAnyway);
    assert!(policy.retry_on_429 && policy.fallback_on_config_faults && !policy.expose_upstream_errors);
}

/// What is built in may be overtaken by what is written: nobody asked for it.
#[test]
fn a_short_total_needs_no_other_key() {
    let text = format!("[routes.m]\n{TARGET}\ntimeouts = {{ total = '2s' }}");
    assert_eq!(route(&good(&text)).targets[0].timeouts.total, ms(2000));
    let text = format!("[routes.m]\n{TARGET}\ntimeouts = {{ first_token = '2s' }}");
    assert_eq!(route(&good(&text)).targets[0].timeouts.first_token, ms(2000));
}

#[test]
fn routes_are_found_by_the_model_name() {
    let names = ["gpt-4.1", "m", "a b", "模型", "x/y:z"];
    let text: String = names
        .iter()
        .filter(|name| **name != "m")
        .map(|name| format!("[routes.'{name}']\n{TARGET}\n"))
        .collect();
    let config = good(&text);
    for name in names {
        let (index, route) = config.route(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(route.name, name);
        assert_eq!(config.routes[index].name, name);
    }
    for unknown in ["", "M", "m ", "gpt-4"] {
        assert!(config.route(unknown).is_none(), "{unknown}");
    }
}
