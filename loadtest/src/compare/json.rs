//! The results as JSON: every reading, for other tools.

use serde_json::{Map, Value, json};

use crate::peers::Installed;

use super::Asides;
use super::figures::Kind;
use super::place::Place;
use super::results::Results;

/// One object: the place, the versions, and for each workload and proxy the medians, their range and all readings.
pub fn document(place: &Place, installed: &[Installed], results: &Results, asides: &Asides) -> Value {
    let versions: Map<String, Value> =
        installed.iter().map(|it| (it.proxy.name().to_owned(), json!(it.version))).collect();
    let workloads: Map<String, Value> = results
        .workloads()
        .into_iter()
        .map(|workload| {
            let proxies: Map<String, Value> = results
                .proxies(workload)
                .into_iter()
                .map(|proxy| {
                    let mut entry: Map<String, Value> = Kind::ALL
                        .into_iter()
                        .filter_map(|kind| {
                            let summary = results.summary(workload, proxy, kind)?;
                            let readings = results.of(workload, proxy).iter().filter_map(|it| kind.of(it));
                            let value = json!({
                                "median": summary.median, "low": summary.low, "high": summary.high,
                                "above_direct": results.is_added(workload, proxy, kind),
                                "readings": readings.collect::<Vec<f64>>(),
                            });
                            Some((kind.key().to_owned(), value))
                        })
                        .collect();
                    entry.insert("errors".to_owned(), json!(results.errors(workload, proxy)));
                    (proxy.name().to_owned(), Value::Object(entry))
                })
                .collect();
            let entry = json!({ "title": workload.title(), "unit": workload.unit(), "proxies": proxies });
            (workload.name().to_owned(), entry)
        })
        .collect();
    let void: Vec<&str> = results.void().into_iter().map(|(workload, _)| workload.name()).collect();
    json!({
        "date": place.date, "kernel": place.kernel, "cpu": place.cpu, "load_average": place.load,
        "profile": place.profile, "versions": versions, "workloads": workloads, "void": void,
        "two_empty_actors_kb": asides.pair_kb, "baton_tls_kb_per_stream": asides.baton_tls_kb,
    })
}
