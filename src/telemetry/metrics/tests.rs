use std::time::Duration;

use super::*;
use crate::exchange::{Cause, Fault, Kind as AttemptKind, StreamOutcome};

fn metrics() -> Metrics {
    let targets = vec![Arc::from("a/m"), Arc::from("b/m")];
    Metrics::new(&[RouteLabels { name: Arc::from("chat"), targets }])
}

#[test]
fn the_table_is_in_good_order() {
    let rows = Metric::ALL.map(Metric::row);
    for (at, row) in rows.iter().enumerate() {
        let name = row.name;
        assert!(name.starts_with("baton_") && !row.help.is_empty(), "{name}");
        assert!(rows[..at].iter().all(|other| other.name != name), "{name} twice");
        assert_eq!(name.ends_with("_total"), row.kind == Kind::Counter, "{name}: counters end in _total");
        let unit = match row.unit {
            Unit::Seconds => name.ends_with("_seconds"),
            Unit::Bytes => name.ends_with("_bytes"),
            _ => true,
        };
        assert!(unit, "{name}: the unit comes last");
        if let Kind::Histogram(bounds) = row.kind {
            assert!(
                !bounds.is_empty() && bounds.is_sorted() && bounds.iter().all(|bound| *bound > 0.0),
                "{name}"
            );
        }
    }
}

#[test]
fn the_docs_name_every_metric_with_its_labels() {
    let docs = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md")).unwrap();
    for row in Metric::ALL.map(Metric::row) {
        let line = docs.lines().find(|line| line.contains(&format!("`{}`", row.name)));
        let line = line.unwrap_or_else(|| panic!("docs/metrics.md lacks {}", row.name));
        for label in row.labels {
            assert!(
                line.contains(&format!("`{label}`")),
                "docs/metrics.md: {} lacks its label {label}",
                row.name
            );
        }
    }
    for limit in Limit::ALL {
        assert!(
            docs.contains(&format!("`{}`", limit.name())),
            "docs/metrics.md lacks the limit {}",
            limit.name()
        );
    }
}

#[test]
fn results_have_the_names_of_the_causes() {
    let error = || crate::protocol::InBandError { status: 500, message: None, kind: None, code: None };
    let causes = [
        Cause::Answered,
        Cause::ClientGone,
        Cause::Fault(Fault::ConnectFailed),
        Cause::Fault(Fault::DnsFailed),
        Cause::Fault(Fault::TlsFailed),
        Cause::Fault(Fault::StaleConnection),
        Cause::Fault(Fault::ClosedEarly),
        Cause::Fault(Fault::Cut),
        Cause::NotAnAnswer,
        Cause::TooLarge,
        Cause::Fault(Fault::Died),
        Cause::Status(error()),
        Cause::InBand(error()),
        Cause::FirstTokenTimeout,
        Cause::IdleTimeout,
        Cause::NoProperEnd,
        Cause::Truncated,
        Cause::Undecodable,
        Cause::Empty,
        Cause::RestartFailed,
        Cause::DeadlinePassed,
    ];
    let names: Vec<_> = causes.iter().map(Cause::name).collect();
    assert_eq!(names, handles::RESULTS[..handles::RESULTS.len() - 1]);
}

#[test]
fn every_metric_is_rendered_with_its_kind() {
    let metrics = metrics();
    let route = metrics.route(0);
    route.requests.count(Some(200), true);
    metrics.unrouted.count(Some(404), false);
    metrics.unrouted.count(Some(418), false);
    metrics.unrouted.count(None, false);
    route.stream_ended(StreamOutcome::Success);
    let target = route.target(1).unwrap();
    target.attempt_ended(AttemptKind::Initial, &Cause::Answered);
    target.first_token(Duration::from_millis(3));
    target.inter_token(Duration::from_secs(90));
    target.skipped("odd_messages");
    target.skipped("a reason from the future");
    metrics.frame_skipped("foreign");
    metrics.frame_skipped("a reason from the future");
    metrics.reached(Limit::Head);
    metrics.overhead.record(0.00002);
    metrics.open_streams(0, 3);
    metrics.open_streams(1, 0);
    metrics.target_state(&Arc::from("b/m"), State::Open { left: Duration::from_secs(1) });
    metrics.target_state(&Arc::from("b/m"), State::HalfOpen);
    let text = metrics.render();
    for row in Metric::ALL.map(Metric::row) {
        let kind = match row.kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        };
        let wanted = [format!("# TYPE {} {kind}\n", row.name), format!("# HELP {} {}\n", row.name, row.help)];
        assert!(wanted.iter().all(|line| text.contains(line)), "{wanted:?} in\n{text}");
    }
    for line in [
        "baton_requests_total{route=\"unknown\",status=\"404\",stream=\"false\"} 1",
        "baton_requests_total{route=\"unknown\",status=\"4xx\",stream=\"false\"} 1",
        "baton_requests_total{route=\"unknown\",status=\"none\",stream=\"false\"} 1",
        "baton_frames_skipped_total{reason=\"other\"} 1",
        "baton_frames_skipped_total{reason=\"foreign\"} 1",
        "baton_targets_skipped_total{target=\"b/m\",reason=\"odd_messages\"} 1",
        "baton_targets_skipped_total{target=\"b/m\",reason=\"other\"} 1",
        "baton_limits_reached_total{limit=\"head\"} 1",
        "baton_open_streams{core=\"0\"} 3",
        "baton_open_streams{core=\"1\"} 0",
        "baton_connections_handed_over_total 0",
        "baton_target_state{target=\"b/m\"} 1",
        "baton_limits_reached_total{limit=\"window\"} 0",
        "baton_inter_token_seconds_bucket{target=\"b/m\",le=\"60\"} 0",
        "baton_inter_token_seconds_bucket{target=\"b/m\",le=\"+Inf\"} 1",
        "baton_stream_outcomes_total{route=\"chat\",outcome=\"client_aborted\"} 0",
    ] {
        assert!(text.lines().any(|have| have == line), "no {line} in\n{text}");
    }
    assert!(!text.contains("target=\"a/m\""), "nothing was recorded of it");
}
