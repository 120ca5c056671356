//! Mistakes in `[defaults]` and `[routes.NAME]`.

use super::{Case, bad, check, shown};

const ROUTES_AND_TARGETS: &[Case] = &[
    ("[routes.m]", 1, "routes.m.targets", &["missing; write targets = [{ upstream"]),
    ("[routes.m]\ntargets = []", 2, "routes.m.targets", &["an empty list, so nobody could answer"]),
    ("[routes.m]\ntargets = {}", 2, "routes.m.targets", &["a table; expected a list like"]),
    ("[routes.m]\ntargets = ['a']", 2, "routes.m.targets[0]", &["\"a\" is a string; expected a table"]),
    ("[routes.m]\ntargets = [{ model = 'x' }]", 2, "routes.m.targets[0].upstream", &["missing; name one of"]),
    (
        "[routes.m]\ntargets = [{ upstream = 'a' }]",
        2,
        "routes.m.targets[0].model",
        &["missing; name the model"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'zzz', model = 'x' }]",
        2,
        "routes.m.targets[0].upstream",
        &["\"zzz\" is no upstream; expected one of: a, b"],
    ),
    (
        "[upstreams.primary]\nbase_url = 'http://h'\n[routes.m]\ntargets = [{ upstream = 'primry', model = 'x' }]",
        4,
        "routes.m.targets[0].upstream",
        &["did you mean \"primary\"?"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'a', model = '' }]",
        2,
        "routes.m.targets[0].model",
        &["\"\" cannot be used; write 1 to 256 printable ASCII characters"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'a', model = \"x\\ny\" }]",
        2,
        "routes.m.targets[0].model",
        &["\"x\\ny\" cannot be used"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'a', model = 'x' },\n{ upstream = 'a', model = 'x' }]",
        3,
        "routes.m.targets[1]",
        &["the same upstream and model as target 0; take one out"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'a', model = 'x', weight = 2 }]",
        2,
        "routes.m.targets[0].weight",
        &["not supported yet"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'a', model = 'x', retry = {} }]",
        2,
        "routes.m.targets[0].retry",
        &["unknown key; expected one of: upstream, model, timeouts"],
    ),
    (
        "[routes.m]\ntargets = [{ upstream = 'a', model = 'x', timeouts = { total = '1s' } }]",
        2,
        "routes.m.targets[0].timeouts.total",
        &["move it to the route's timeouts"],
    ),
    (
        "[defaults]\ntargets = [{ upstream = 'q', model = 'x' }]",
        2,
        "defaults.targets[0].upstream",
        &["\"q\" is no upstream"],
    ),
    (
        "[defaults]\nstrategy = 'least_latency'",
        2,
        "defaults.strategy",
        &["is not supported yet; expected one of: failover, round_robin"],
    ),
    ("[defaults]\nstrategy = 'random'", 2, "defaults.strategy", &["is none of: failover, round_robin"]),
    (
        "[routes.\"x\\u0007\"]\ntargets = [{ upstream = 'a', model = 'x' }]",
        1,
        "routes.\"x\\u{7}\"",
        &["unusable"],
    ),
    (
        "[routes.\"x\\u202e\"]\ntargets = [{ upstream = 'a', model = 'x' }]",
        1,
        "routes.\"x\\u{202e}\"",
        &["name"],
    ),
    ("routes.x = 3", 1, "routes.x", &["3 is an integer; expected a table"]),
];

#[test]
fn of_routes_and_targets() {
    check(ROUTES_AND_TARGETS);
}

const A_ROUTES_POLICY: &[Case] = &[
    (
        "[defaults]\nwhen_all_unavailable = 'give_up'",
        2,
        "defaults.when_all_unavailable",
        &["\"give_up\" is none of: try_anyway, fail"],
    ),
    ("[defaults]\ncooldown = 'off'", 2, "defaults.cooldown", &["\"off\" is a string; expected a table"]),
    (
        "[defaults]\ncooldown = { open = '61s' }",
        2,
        "defaults.cooldown.open",
        &["open is 1m 1s but open_max is 1m", "set open to at most open_max"],
    ),
    (
        "[defaults]\ncooldown = { open_max = '4s' }",
        2,
        "defaults.cooldown.open_max",
        &["open is 5s but open_max is 4s"],
    ),
    ("[defaults]\ncooldown = { windows = '5s' }", 2, "defaults.cooldown.windows", &["unknown key", "window"]),
    ("[defaults]\nwhen_tools_offered = 'stop'", 2, "defaults.when_tools_offered", &["continue, terminate"]),
    (
        "[defaults]\ncontinuation_prompt = ' '",
        2,
        "defaults.continuation_prompt",
        &["1 to 4096 bytes of text"],
    ),
    (
        "[defaults]\nfallback_on_statuses = [408, 408]",
        2,
        "defaults.fallback_on_statuses[1]",
        &["408 is there twice"],
    ),
    (
        "[defaults]\nfallback_on_statuses = 408",
        2,
        "defaults.fallback_on_statuses",
        &["expected a list of statuses"],
    ),
    ("[defaults]\nfallback_on_codes = ['']", 2, "defaults.fallback_on_codes[0]", &["\"\" cannot be used"]),
    (
        "[defaults]\nfallback_on_codes = ['x', 'x']",
        2,
        "defaults.fallback_on_codes[1]",
        &["\"x\" is there twice"],
    ),
    (
        "[defaults]\nstream_failure = { mode = 'go on' }",
        2,
        "defaults.stream_failure.mode",
        &["\"go on\" is none of: continue, terminate"],
    ),
    (
        "[defaults]\nstream_failure = { on = [] }",
        2,
        "defaults.stream_failure.on",
        &["an empty list continues nothing"],
    ),
    (
        "[defaults]\nstream_failure.on = ['read_timeout', 'read_timeout']",
        2,
        "defaults.stream_failure.on[1]",
        &["\"read_timeout\" is there twice"],
    ),
    (
        "[defaults]\nstream_failure.on = ['timeout']",
        2,
        "defaults.stream_failure.on[0]",
        &[
            "\"timeout\" is none of: transport_error, read_timeout, upstream_decode_error, upstream_in_band_error",
        ],
    ),
    (
        "[defaults]\nretry = { initial_backoff = '3s' }",
        2,
        "defaults.retry.initial_backoff",
        &["initial_backoff is 3s but max_backoff is 2s", "set initial_backoff to at most max_backoff"],
    ),
    (
        "[defaults]\nretry = { max_backoff = '100ms' }",
        2,
        "defaults.retry.max_backoff",
        &["initial_backoff is 250ms but max_backoff is 100ms"],
    ),
    ("[defaults]\nretry = { retries = 1 }", 2, "defaults.retry.retries", &["unknown key", "max_retries"]),
];

#[test]
fn of_a_routes_policy() {
    check(A_ROUTES_POLICY);
}

const TIMEOUTS_THAT_CAN_NEVER_FIRE: &[Case] = &[
    (
        "[defaults]\ntimeouts = { idle = '30s', total = '20s' }",
        2,
        "defaults.timeouts.idle",
        &["30s can never fire, since defaults.timeouts.total is 20s; set it below 20s, or raise the other"],
    ),
    (
        "[defaults.timeouts]\ntotal = '20s'\nidle = '20s'",
        3,
        "defaults.timeouts.idle",
        &["20s can never fire"],
    ),
    (
        "[defaults.timeouts]\ntotal = '9s'\nfirst_token = '9s'",
        3,
        "defaults.timeouts.first_token",
        &["9s can never"],
    ),
    (
        "[defaults.timeouts]\ntotal = '9s'\nresponse = '10m'",
        3,
        "defaults.timeouts.response",
        &["10m can never"],
    ),
    ("[defaults.timeouts]\ntotal = '9s'\nconnect = '9s'", 3, "defaults.timeouts.connect", &["9s can never"]),
    (
        "[defaults.timeouts]\nfirst_token = '2s'\nconnect = '2s'",
        3,
        "defaults.timeouts.connect",
        &["since defaults.timeouts.first_token is 2s"],
    ),
    (
        "[defaults.timeouts]\nconnect = '60s'",
        2,
        "defaults.timeouts.connect",
        &["since timeouts.first_token (built in) is 1m"],
    ),
    // Written in two places.
    (
        "[defaults.timeouts]\nidle = '30s'\n[routes.m]\ntargets = [{ upstream = 'a', model = 'x' }]\n\
          timeouts.total = '20s'",
        2,
        "defaults.timeouts.idle",
        &["since routes.m.timeouts.total is 20s"],
    ),
    (
        "[routes.m]\ntimeouts.total = '20s'\n\
          targets = [{ upstream = 'a', model = 'x', timeouts = { first_token = '30s' } }]",
        3,
        "routes.m.targets[0].timeouts.first_token",
        &["since routes.m.timeouts.total is 20s"],
    ),
];

#[test]
fn of_timeouts_that_can_never_fire() {
    check(TIMEOUTS_THAT_CAN_NEVER_FIRE);
}

/// A mistake in `[defaults]` is one mistake, however many routes inherit it.
#[test]
fn of_the_defaults_once() {
    let target = "targets = [{ upstream = 'a', model = 'x' }]";
    let text = format!(
        "[defaults]\ntimeouts = {{ idle = '9s', total = '5s' }}\n[routes.n]\n{target}\n[routes.o]\n{target}"
    );
    let errors = bad(&text);
    assert_eq!(errors.len(), 1, "{}", shown(&errors));
}
