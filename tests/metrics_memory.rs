//! Memory of the histograms, alone in its process: other tests would allocate meanwhile.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "a test stops at the first surprise")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use baton::telemetry::Metrics;
use baton::telemetry::metrics::RouteLabels;

/// Resident memory of this process, bytes.
fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn a_million_samples_leave_memory_as_it_was() {
    let metrics = Metrics::new(&[RouteLabels { name: Arc::from("chat"), targets: vec![Arc::from("a/m")] }]);
    let record = |count: u32| {
        let target = metrics.route(0).target(0).unwrap();
        for _ in 0..count {
            target.inter_token(Duration::from_millis(20));
        }
        metrics.upkeep();
    };
    (0..10).for_each(|_| record(10_000));
    let (before, begun) = (resident(), Instant::now());
    (0..100).for_each(|_| record(10_000));
    println!("{} ns a sample, sorting included", begun.elapsed().as_nanos() / 1_000_000);
    let grown = resident().saturating_sub(before);
    // Kept as they come, a million samples take more than 16 MB.
    assert!(grown < 4 << 20, "grew by {grown} bytes");
    assert!(metrics.render().contains("baton_inter_token_seconds_count{target=\"a/m\"} 1100000"));
}
