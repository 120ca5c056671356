//! Compares what was seen of a case with what it expects. A key of `expect` that nobody knows is a failure.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::drive::{Exchange, Seen};
use super::model::Case;
use crate::support::{End, Response, ScriptedUpstream, ms, show, sse};

/// What departs from the expectation; empty when nothing does.
pub fn judge(case: &Case, seen: &Seen) -> Vec<String> {
    let mut failures = Vec::new();
    let expect = case.expect.as_object().expect("expectations");
    for (key, want) in expect {
        let found = judge_answer(key, want, seen)
            .or_else(|| judge_events(key, want, seen))
            .or_else(|| judge_connection(key, want, seen, case))
            .or_else(|| judge_upstreams(key, want, seen));
        match found {
            None => failures.push(format!("the runner does not know the key {key}")),
            Some(Err(got)) => failures.push(format!("{key}: want {want}, got {got}")),
            Some(Ok(())) => {}
        }
    }
    if let Err(got) = judge_outcome(case, seen) {
        failures.push(format!("outcome {}: {got}", case.expect["outcome"]));
    }
    failures
}

/// Nothing: the key is another function's.
type Verdict = Option<Result<(), String>>;

fn same<T: PartialEq + std::fmt::Debug>(got: T, want: T) -> Result<(), String> {
    if got == want { Ok(()) } else { Err(format!("{got:?}")) }
}

fn holds(fine: bool, got: impl FnOnce() -> String) -> Result<(), String> {
    if fine { Ok(()) } else { Err(got()) }
}

/// The last exchange's response; an empty text where there was none.
fn last(seen: &Seen) -> &Exchange {
    seen.exchanges.last().expect("an exchange")
}

fn body(seen: &Seen) -> &[u8] {
    last(seen).response.as_ref().map_or(b"", |r| &r.body)
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().map(|v| v.iter().filter_map(Value::as_str).collect()).unwrap_or_default()
}

fn contains(hay: &[u8], needle: &str) -> bool {
    crate::support::find(hay, needle.as_bytes()).is_some()
}

/// Keys about the whole answer.
fn judge_answer(key: &str, want: &Value, seen: &Seen) -> Verdict {
    let response = last(seen).response.as_ref();
    let header = |name: &str| response.and_then(|r| r.header(name));
    Some(match key {
        "status" => {
            let got = response.map_or(Value::Null, |r| r.status.into());
            let fine = want.as_array().map_or(&got == want, |set| set.contains(&got));
            holds(fine, || format!("{got} {}", show(body(seen))))
        }
        "body_equals" => same(String::from_utf8_lossy(body(seen)).as_ref(), want.as_str()?),
        "body_contains" => holds(contains(body(seen), want.as_str()?), || show(body(seen))),
        "body_not_prefix" => holds(!body(seen).starts_with(want.as_str()?.as_bytes()), || show(body(seen))),
        "body_is_error_object" => error_object(response),
        "raw_has" => {
            let missing: Vec<_> = texts(want).into_iter().filter(|t| !contains(body(seen), t)).collect();
            holds(missing.is_empty(), || format!("without {missing:?}: {}", show(body(seen))))
        }
        "raw_not" | "raw_not_in_last" => {
            let there: Vec<_> = texts(want).into_iter().filter(|t| contains(body(seen), t)).collect();
            holds(there.is_empty(), || format!("with {there:?}: {}", show(body(seen))))
        }
        "raw_not_in_order" => {
            let orders = want.as_array()?.iter();
            let there = orders.filter(|texts| in_order(body(seen), texts)).count();
            holds(there == 0, || show(body(seen)))
        }
        "line_not_prefix" => {
            let text = format!("\n{}", String::from_utf8_lossy(body(seen)));
            let there: Vec<_> =
                texts(want).into_iter().filter(|p| text.contains(&format!("\n{p}"))).collect();
            holds(there.is_empty(), || format!("with {there:?}: {}", show(body(seen))))
        }
        "resp_header" => {
            let wanted = want.as_object()?.iter();
            let fine =
                wanted.clone().all(|(n, v)| header(n).is_some_and(|h| h.starts_with(v.as_str().unwrap())));
            holds(fine, || format!("{:?}", response.map(|r| &r.headers)))
        }
        "resp_header_absent" => {
            let fine = texts(want).iter().all(|name| header(name).is_none());
            holds(fine, || format!("{:?}", response.map(|r| &r.headers)))
        }
        "resp_header_range" => {
            let fine = want.as_object()?.iter().all(|(name, range)| {
                let number = header(name).and_then(|v| v.parse::<u64>().ok());
                number.is_some_and(|n| n >= range[0].as_u64().unwrap() && n <= range[1].as_u64().unwrap())
            });
            holds(fine, || format!("{:?}", response.map(|r| &r.headers)))
        }
        "framing_headers_exclusive" => {
            let both = header("transfer-encoding").is_some() && header("content-length").is_some();
            holds(!both, || format!("{:?}", response.map(|r| &r.headers)))
        }
        _ => return None,
    })
}

/// Keys about the events of the stream.
fn judge_events(key: &str, want: &Value, seen: &Seen) -> Verdict {
    let Some(response) = last(seen).response.as_ref() else {
        let known = ["text", "done_count", "finish", "error_frame", "terminal", "text_prefix"].contains(&key);
        return known.then(|| Err("no response".to_owned()));
    };
    let show_body = || show(&response.body);
    let most =
        |got: usize| holds(got as u64 <= want.as_u64().unwrap_or(0), || format!("{got}: {}", show_body()));
    Some(match key {
        "text" => {
            holds(response.text() == want.as_str()?, || format!("{:?} {}", response.text(), show_body()))
        }
        "texts" => {
            let got: Vec<_> =
                seen.exchanges.iter().filter_map(|e| e.response.as_ref().map(Response::text)).collect();
            same(got, texts(want).into_iter().map(str::to_owned).collect())
        }
        "text_len" => same(response.text().len() as u64, want.as_u64()?),
        "text_prefix" => holds(response.text().starts_with(want.as_str()?), show_body),
        "text_allowed" => {
            holds(texts(want).contains(&response.text().as_str()), || format!("{:?}", response.text()))
        }
        "text_forbidden" => {
            holds(!texts(want).iter().any(|t| response.text().contains(t)), || response.text())
        }
        "done_count" => holds(response.done_count() as u64 == want.as_u64()?, show_body),
        "finish" => {
            let got = response.finish_reasons().into_iter().map(|(i, r)| (i.to_string(), r.concat().into()));
            same(Value::Object(got.collect()), want.clone())
        }
        "error_frame" => holds(response.error_frames().is_empty() != want.as_bool()?, show_body),
        "error_not_contains" => {
            let errors = response.error_frames();
            holds(!errors.iter().any(|(f, _)| contains(&f.data, want.as_str().unwrap())), show_body)
        }
        "error_frame_shape" => {
            let fine = response.error_frames().iter().all(|(_, error)| shaped(error, want));
            holds(fine, show_body)
        }
        "json_events" => same(response.chunks().len() as u64, want.as_u64()?),
        "role_deltas_max" => most(response.role_count()),
        "distinct_ids_max" => most(response.ids().len()),
        "usage" => {
            let got = response.usage().unwrap_or_default();
            holds(want.as_object()?.iter().all(|(k, v)| &got[k] == v), || got.to_string())
        }
        "terminal" => judge_terminal(want.as_str()?, response),
        _ => return None,
    })
}

/// How the stream ended after a failure.
fn judge_terminal(want: &str, response: &Response) -> Result<(), String> {
    let error = judge_error_end(response);
    let recovered = judge_good_end(response);
    match want {
        "error" => error,
        "recovered" => recovered,
        "error_or_recovered" | "error_or_recovered_or_skipped" | "error_or_buffered_fallback" => {
            error.or(recovered)
        }
        other => Err(format!("the runner does not know terminal {other}")),
    }
}

/// One error frame, the last; no `[DONE]`; a body that does not end.
fn judge_error_end(response: &Response) -> Result<(), String> {
    let (events, errors) = (response.events(), response.error_frames());
    let is_last = errors.last().map(|(f, _)| f.at) == events.frames.last().map(|f| f.at);
    let named = errors.iter().all(|(f, _)| f.event.as_deref() == Some("error"));
    let cut = matches!(response.end, End::Cut | End::Reset);
    let fine = errors.len() == 1 && is_last && named && cut && response.done_count() == 0;
    holds(fine, || format!("no error end: {:?} {}", response.end, show(&response.body)))
}

/// A finish_reason, one `[DONE]`, a body that ends.
fn judge_good_end(response: &Response) -> Result<(), String> {
    let fine = response.done_count() == 1
        && response.error_frames().is_empty()
        && response.end == End::Complete
        && response.body.ends_with(b"data: [DONE]\n\n");
    holds(fine, || format!("no good end: {:?} {}", response.end, show(&response.body)))
}

/// Keys about connections and time on the client's side.
fn judge_connection(key: &str, want: &Value, seen: &Seen, case: &Case) -> Verdict {
    let exchange = last(seen);
    let since = |at: Instant| at.saturating_duration_since(exchange.started);
    let within = |at: Option<Instant>| {
        let limit = ms(want.as_u64().unwrap_or(0));
        holds(at.is_some_and(|at| since(at) <= limit), || format!("{:?}", at.map(since)))
    };
    Some(match key {
        "outcome" => Ok(()),
        "client_connection_closed" => {
            holds(exchange.closed.is_some() == want.as_bool()?, || "open".to_owned())
        }
        "closed_within_ms" => within(exchange.closed.map(|(_, at)| at)),
        "deadline_ms" => within(exchange.response.as_ref().and_then(|r| r.ended_at)),
        "interim_100_within_ms" => {
            within(exchange.interim.iter().find(|(status, _)| *status == 100).map(|(_, at)| *at))
        }
        "http_responses" => {
            same(u64::from(exchange.response.is_some()) + exchange.extra_responses as u64, want.as_u64()?)
        }
        "client_eof_within_ms_of_done" => {
            let response = exchange.response.as_ref();
            let done = response.and_then(|r| when(r, |body| contains(body, "data: [DONE]\n\n")));
            let late = response.and_then(|r| Some(r.ended_at?.saturating_duration_since(done?)));
            holds(late.is_some_and(|l| l <= ms(want.as_u64().unwrap())), || format!("{late:?}"))
        }
        "checkpoints" => judge_checkpoints(want, exchange, case),
        "responses" => judge_responses(want, seen),
        "max_rss_growth_mib" => {
            holds(seen.rss_growth >> 20 < want.as_u64()?, || format!("{} MiB", seen.rss_growth >> 20))
        }
        _ => return None,
    })
}

/// When the body first satisfied `enough`.
fn when(response: &Response, enough: impl Fn(&[u8]) -> bool) -> Option<Instant> {
    let reads = response.reads.iter();
    reads.clone().find(|(_, length)| enough(&response.body[..*length])).map(|(at, _)| *at)
}

fn judge_checkpoints(want: &Value, exchange: &Exchange, case: &Case) -> Result<(), String> {
    for (point, gate) in want.as_array().into_iter().flatten().zip(&case.checkpoints) {
        let text = point["client_text"].as_str().unwrap_or_default().as_bytes();
        let sent = gate.opened_at().ok_or("the step was never reached")?;
        let response = exchange.response.as_ref().ok_or("no response")?;
        let had = when(response, |body| crate::support::find(body, text).is_some()).ok_or("never")?;
        let late = had.saturating_duration_since(sent);
        holds(late <= ms(point["within_ms"].as_u64().unwrap_or(0)), || format!("{late:?}"))?;
    }
    Ok(())
}

fn judge_responses(want: &Value, seen: &Seen) -> Result<(), String> {
    for (number, (want, got)) in want.as_array().into_iter().flatten().zip(&seen.exchanges).enumerate() {
        let response = got.response.as_ref();
        let status =
            want["status"].as_u64().is_none_or(|s| response.is_some_and(|r| u64::from(r.status) == s));
        let text = want["text"].as_str().is_none_or(|t| response.is_some_and(|r| r.text() == t));
        let aborted = want["aborted"].as_bool() != Some(true) || got.left_at.is_some();
        holds(status && text && aborted, || {
            format!("response {number}: {:?}", response.map(Response::text))
        })?;
    }
    Ok(())
}

/// Keys about what reached the upstreams.
fn judge_upstreams(key: &str, want: &Value, seen: &Seen) -> Verdict {
    let requests = seen.primary.requests();
    let first = requests.first();
    let headers = || format!("{:?}", first.map(|r| &r.headers));
    Some(match key {
        "primary_calls" => judge_calls(Some(&seen.primary), want),
        "fallback_calls" => judge_calls(seen.fallback.as_ref(), want),
        "upstream_headers_absent" => {
            holds(texts(want).iter().all(|n| first.is_some_and(|r| r.header(n).is_none())), headers)
        }
        "upstream_header_not" => {
            let fine = want.as_object()?.iter().all(|(name, value)| {
                let got = first.and_then(|r| r.header(name)).unwrap_or_default().to_ascii_lowercase();
                !got.contains(value.as_str().unwrap())
            });
            holds(fine, headers)
        }
        "upstream_body" => {
            let got = first.map(|r| String::from_utf8_lossy(&r.body).into_owned()).unwrap_or_default();
            same(got.as_str(), want.as_str()?)
        }
        "upstream_body_identical" => {
            let got = first.map_or(b"" as &[u8], |r| &r.body);
            holds(got == last(seen).sent_body, || format!("{} bytes: {}", got.len(), show(got)))
        }
        "bodies_contain" => {
            let bodies = seen.exchanges.iter().map(|e| e.response.as_ref().map_or(b"" as &[u8], |r| &r.body));
            let fine = texts(want).iter().zip(bodies).all(|(text, body)| contains(body, text));
            holds(fine, || show(body(seen)))
        }
        "upstream_closed_within_ms" => judge_closed(first.map(|r| r.at), want, seen),
        "upstream_closed_within_ms_of_client" => {
            // No request had reached the upstream when the client left: nothing is there to be closed.
            if seen.primary.connection_count() == 0 {
                return Some(Ok(()));
            }
            judge_closed(seen.exchanges.iter().find_map(|e| e.left_at), want, seen)
        }
        "upstream_bytes_accepted_max_during_pause" => {
            let pause = last(seen).during_pause.as_ref();
            let fine =
                pause.is_some_and(|p| p.upstream_sent < want.as_u64().unwrap_or(0) && !p.upstream_closed);
            holds(fine, || format!("{:?}", pause.map(|p| (p.upstream_sent, p.upstream_closed))))
        }
        _ => return None,
    })
}

fn judge_calls(upstream: Option<&ScriptedUpstream>, want: &Value) -> Result<(), String> {
    let got = upstream.map_or(0, ScriptedUpstream::request_count) as u64;
    let fine = match want {
        Value::Array(range) => range[0].as_u64() <= Some(got) && Some(got) <= range[1].as_u64(),
        _ => want.as_u64() == Some(got),
    };
    holds(fine, || got.to_string())
}

fn judge_closed(from: Option<Instant>, want: &Value, seen: &Seen) -> Result<(), String> {
    let limit = ms(want.as_u64().unwrap_or(0));
    let late: Option<Duration> =
        from.and_then(|f| Some(seen.primary.closed_at(0)?.saturating_duration_since(f)));
    let open = || {
        format!(
            "open after {} requests, {} bytes sent",
            seen.primary.request_count(),
            seen.primary.sent_bytes()
        )
    };
    holds(late.is_some_and(|l| l <= limit), || late.map_or_else(open, |l| format!("{l:?}")))
}

/// What every case of an outcome has in common.
fn judge_outcome(case: &Case, seen: &Seen) -> Result<(), String> {
    holds(!seen.crashed, || format!("the proxy ended by itself: {}", seen.logs))?;
    let Some(response) = last(seen).response.as_ref() else { return Ok(()) };
    let streamed = response.header("content-type").is_some_and(|t| t.starts_with("text/event-stream"));
    let events = sse::parse(&response.body);
    let paused = last(seen).during_pause.is_some();
    let fine = !streamed || events.breaches.is_empty() && (paused || events.rest.is_empty());
    holds(fine, || format!("not canonical: {:?} {}", events.breaches, show(&response.body)))?;
    holds(!streamed || std::str::from_utf8(&response.body).is_ok() || paused, || "not UTF-8".to_owned())?;
    match case.expect["outcome"].as_str().unwrap_or_default() {
        "forward" | "forward_normalized" | "fallback_clean" | "sequence" if streamed => {
            judge_good_end(response)
        }
        "forward" | "sequence" => holds(response.end == End::Complete, || format!("{:?}", response.end)),
        "reject" => error_object(Some(response)),
        "fallback_clean" | "forward_error" | "midstream" | "client_abort" | "backpressure" => Ok(()),
        other => Err(format!("the runner does not know outcome {other}")),
    }
}

fn error_object(response: Option<&Response>) -> Result<(), String> {
    let value = response.and_then(|r| serde_json::from_slice::<Value>(&r.body).ok()).unwrap_or_default();
    let message = value["error"]["message"].as_str();
    holds(message.is_some_and(|m| !m.is_empty()), || response.map_or("none".to_owned(), |r| show(&r.body)))
}

fn in_order(body: &[u8], wanted: &Value) -> bool {
    let mut at = 0;
    texts(wanted).iter().all(|text| {
        let found = crate::support::find(&body[at..], text.as_bytes());
        at += found.unwrap_or(0) + found.map_or(0, |_| text.len());
        found.is_some()
    })
}

fn shaped(got: &Value, want: &Value) -> bool {
    match want {
        Value::Object(members) => members.iter().all(|(k, v)| shaped(&got[k], v)),
        Value::String(kind) if kind == "str" => got.as_str().is_some_and(|s| !s.is_empty()),
        other => got == other,
    }
}
