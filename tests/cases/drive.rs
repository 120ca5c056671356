//! Runs one case: upstreams, the proxy, the client as the case describes it; collects what was seen.

use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::model::{Case, bytes_of, gap, limit};
use crate::support::client::{Closed, request_bytes};
use crate::support::{Client, Config, PATIENCE, Proxy, Response, ScriptedUpstream, ms, show};

/// Everything seen of one case.
pub struct Seen {
    pub exchanges: Vec<Exchange>,
    pub primary: ScriptedUpstream,
    pub fallback: Option<ScriptedUpstream>,
    pub rss_growth: u64,
    pub logs: String,
    /// The proxy ended by itself.
    pub crashed: bool,
}

/// One request and what came of it.
pub struct Exchange {
    pub started: Instant,
    pub response: Option<Response>,
    /// Further responses on the same connection, interim ones left out.
    pub extra_responses: usize,
    pub interim: Vec<(u16, Instant)>,
    pub closed: Option<(Closed, Instant)>,
    /// When the client left by itself.
    pub left_at: Option<Instant>,
    pub during_pause: Option<Pause>,
    /// The body that was sent, where the case makes it.
    pub sent_body: Vec<u8>,
}

/// How things stood at the end of the pause of a client that had stopped reading.
pub struct Pause {
    pub upstream_sent: u64,
    pub upstream_closed: bool,
}

/// How long a connection is watched for what must not come any more.
const AFTERMATH: Duration = Duration::from_millis(300);

pub fn run(case: &Case) -> Seen {
    let primary = ScriptedUpstream::new(case.upstream.clone());
    let wants_fallback = case.config.get("fallback").is_none_or(|f| f != &Value::Array(Vec::new()));
    let fallback = case.fallback.clone().filter(|_| wants_fallback).map(ScriptedUpstream::new);
    let mut proxy = Proxy::start(&config_of(case, &primary, fallback.as_ref()));
    let before = proxy.rss_bytes();
    let parts = case.request["sequence"].as_array().cloned().unwrap_or_else(|| vec![case.request.clone()]);
    let gap = ms(case.request["gap_ms"].as_u64().unwrap_or(0));
    let mut exchanges = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        if number > 0 {
            thread::sleep(gap);
        }
        exchanges.push(exchange(part, &proxy, &primary, &case.expect));
    }
    wait_for_upstream(case, &primary, &exchanges);
    let crashed = proxy.has_ended();
    let rss_growth = if crashed { 0 } else { proxy.rss_peak_bytes().saturating_sub(before) };
    Seen { exchanges, primary, fallback, rss_growth, logs: proxy.logs(), crashed }
}

/// One route named like the model that the case asks for; both targets are asked for the same model.
fn config_of(case: &Case, primary: &ScriptedUpstream, fallback: Option<&ScriptedUpstream>) -> Config {
    let model = case.request["json"]["model"].as_str().unwrap_or("m-primary");
    let route = format!("routes.{model}");
    let time = |key: &str, default: u64| case.config[key].as_u64().unwrap_or(default);
    let first_token = time("ttft_timeout_ms", 2000);
    let response = time("request_timeout_ms", first_token);
    let idle = time("idle_timeout_ms", 1000);
    let timeouts =
        format!("{{ first_token = \"{first_token}ms\", idle = \"{idle}ms\", response = \"{response}ms\" }}");
    let mut targets = vec![("up1", model)];
    let mut config = Config::new()
        .set("server", "header_timeout", format!("\"{}ms\"", time("header_timeout_ms", 2000)))
        .upstream("up1", primary.addr)
        .set(&route, "timeouts", timeouts)
        .set(&route, "retry", "{ max_retries = 0, streaming_max_retries = 0 }");
    if let Some(bytes) = case.config["max_event_bytes"].as_u64() {
        config = config.set("limits", "frame_bytes", format!("\"{}KiB\"", bytes / 1024));
    }
    if let Some(fallback) = fallback {
        targets.push(("up2", model));
        config = config
            .upstream("up2", fallback.addr)
            .set("upstreams.up2", "continuation", "\"prefill\"")
            .set(&route, "stream_failure", "{ mode = \"continue\" }");
    }
    for (path, value) in case.config["set"].as_object().into_iter().flatten() {
        let (table, key) = path.rsplit_once('.').expect("table.key");
        config = config.set(table, key, value.as_str().expect("TOML text"));
    }
    config.route(model, &targets)
}

fn exchange(part: &Value, proxy: &Proxy, primary: &ScriptedUpstream, expect: &Value) -> Exchange {
    let started = Instant::now();
    let narrow = part["client"]["then_pause_ms"].is_u64();
    let client = if narrow { Client::connect_narrow(proxy.addr, 64 * 1024) } else { proxy.connect() };
    let (response, extra_responses, sent_body) = (None, 0, Vec::new());
    let (interim, closed, left_at, during_pause) = (Vec::new(), None, None, None);
    let mut seen =
        Exchange { started, response, extra_responses, interim, closed, left_at, during_pause, sent_body };
    if let Some(script) = part["client_script"].as_array() {
        scripted_client(client, script, &mut seen);
        return seen;
    }
    ordinary_client(client, part, primary, expect, &mut seen);
    seen
}

/// A client whose every step the case gives.
fn scripted_client(mut client: Client, script: &[Value], seen: &mut Exchange) {
    for step in script {
        if let Some(bytes) = bytes_of(step) {
            if step["bytewise"].as_bool() == Some(true) {
                client.send_bytewise(&bytes, gap(step));
            } else {
                client.try_send(&bytes);
            }
        } else if let Some(text) = step["read_until"].as_str() {
            assert!(
                client.read_until_seen(text.as_bytes(), limit(step)),
                "no {text:?}: {}",
                show(client.unread())
            );
            if text.starts_with("HTTP/1.1 1") {
                seen.interim.push((text[9..12].parse().unwrap_or(0), Instant::now()));
            }
        } else if let Some(time) = step["sleep_ms"].as_u64() {
            thread::sleep(ms(time));
        } else if step.get("half_close").is_some() {
            client.half_close();
            seen.left_at = Some(Instant::now());
        } else if step.get("wait_closed").is_some() {
            client.wait_closed(PATIENCE);
        } else if let Some(how) = step["abort"].as_str() {
            seen.left_at = Some(if how == "rst" { client.reset() } else { client.leave() });
            return;
        } else if step.get("read_to_end").is_some() {
            read_to_end(&mut client, seen);
        } else {
            panic!("a client step that the runner does not know: {step}");
        }
    }
}

fn ordinary_client(
    mut client: Client,
    part: &Value,
    primary: &ScriptedUpstream,
    expect: &Value,
    seen: &mut Exchange,
) {
    let raw = part["raw"].as_str().map(|r| r.as_bytes().to_vec());
    let raw = raw.or_else(|| part["raw_b64"].as_str().map(crate::support::base64::decode));
    let bytes = raw.unwrap_or_else(|| {
        seen.sent_body = body_of(part);
        head_and_body(part, &seen.sent_body)
    });
    client.try_send(&bytes);
    if let Some(pause) = part["client"]["then_pause_ms"].as_u64() {
        let mut response = client.head();
        let events = part["client"]["read_events"].as_u64().unwrap_or(1) as usize;
        client.read_for(&mut response, "first events", |r| r.events().frames.len() >= events);
        thread::sleep(ms(pause));
        let (upstream_sent, upstream_closed) = (primary.sent_bytes(), primary.closed_at(0).is_some());
        seen.during_pause = Some(Pause { upstream_sent, upstream_closed });
        seen.response = Some(response);
        seen.left_at = Some(client.leave());
        return;
    }
    if let Some(bytes) = part["client"]["read_bytes"].as_u64() {
        let every = ms(part["client"]["every_ms"].as_u64().unwrap_or(0));
        let head = client.head();
        seen.response = Some(client.read_slowly(head, bytes as usize, every));
        return;
    }
    read_to_end(&mut client, seen);
    if expect["client_connection_closed"].as_bool() == Some(true) && seen.closed.is_none() {
        seen.closed = Some(client.wait_closed(PATIENCE));
    }
    if expect.get("http_responses").is_some() {
        count_further_responses(&mut client, seen);
    }
}

/// Reads one response until it has ended, or until the connection closed without one.
fn read_to_end(client: &mut Client, seen: &mut Exchange) {
    let head = client.try_head(PATIENCE);
    seen.response = head.map(|head| client.rest(head));
    seen.interim.extend(client.interim.iter().copied());
    if seen.response.is_none() {
        // The time for a response is over: a connection still open was neither served nor refused.
        seen.closed = Some(client.wait_closed(AFTERMATH));
    } else if client.is_idle_for(ms(20)) {
        seen.closed = None;
    } else {
        seen.closed = client.closed;
    }
}

fn count_further_responses(client: &mut Client, seen: &mut Exchange) {
    while let Some(head) = client.try_head(AFTERMATH) {
        seen.extra_responses += 1;
        client.rest(head);
    }
}

fn body_of(part: &Value) -> Vec<u8> {
    let fill = &part["body_fill"];
    let text = |key: &str| fill[key].as_str().unwrap_or_default().to_owned();
    match fill["fill_count"].as_u64() {
        Some(count) => {
            [text("prefix"), text("fill_byte").repeat(count as usize), text("suffix")].concat().into()
        }
        None => part["json"].to_string().into(),
    }
}

fn head_and_body(part: &Value, body: &[u8]) -> Vec<u8> {
    let pairs = part["headers"].as_array().into_iter().flatten();
    let pairs = pairs.filter_map(|pair| Some((pair[0].as_str()?, pair[1].as_str()?)));
    // The client writes these three itself.
    let own = ["host", "content-type", "content-length"];
    let headers: Vec<_> =
        pairs.filter(|(name, _)| !own.contains(&name.to_ascii_lowercase().as_str())).collect();
    let text = |key: &str| part[key].as_str().unwrap_or_default();
    request_bytes(text("method"), text("path"), &headers, body)
}

/// Where the case says that the upstream must see its connection closed, gives it the time for it.
fn wait_for_upstream(case: &Case, primary: &ScriptedUpstream, exchanges: &[Exchange]) {
    let by_client = case.expect["upstream_closed_within_ms_of_client"].as_u64();
    let left = exchanges.iter().find_map(|e| e.left_at);
    let from = match (by_client, case.expect["upstream_closed_within_ms"].as_u64()) {
        (Some(within), _) => left.map(|left| left + ms(within)),
        (None, Some(within)) => primary.requests().first().map(|r| r.at + ms(within)),
        (None, None) => return,
    };
    // The connection may not be accepted yet: what counts is that it is closed in the end.
    while primary.closed_at(0).is_none() && from.is_some_and(|until| Instant::now() < until + AFTERMATH) {
        thread::sleep(ms(5));
    }
}
