//! The exchange machine and what feeds it: a step, a seam, a whole stream relayed in memory. `cargo bench --bench
//! exchange`; a run's figures compare with those of the same machine only.

mod relay;
mod wire;

use baton::exchange::StreamOutcome;
use baton::policy::ContinuationMode::{Instruct, Prefill};
use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

use relay::{Relay, plan};
use wire::{FRAMES, READ_BYTES, RESPONSE_HEAD, chunk, chunked, frame, reads, stream};

/// A stream that has been committed.
fn streaming(plan: &std::sync::Arc<baton::exchange::Plan>) -> Relay {
    let mut relay = Relay::new(plan);
    relay.read(Bytes::from_static(RESPONSE_HEAD.as_bytes()));
    relay.read(chunked([chunk("{\"role\":\"assistant\",\"content\":\"\"}", "null")]).freeze());
    relay.read(chunked([frame(0)]).freeze());
    assert!(relay.slices > 0, "not committed");
    relay
}

/// One content frame in, one body out.
fn step(c: &mut Criterion) {
    const STEPS: usize = 100;
    let (plan, event) = (plan(Prefill), chunked([frame(1)]).freeze());
    let mut group = c.benchmark_group("exchange step");
    group.throughput(Throughput::Elements(STEPS as u64));
    group.bench_function("100 content frames", |b| {
        // A batch of facts is made ahead, so that reading them off the wire is not measured.
        b.iter_batched_ref(
            || {
                let mut relay = streaming(&plan);
                let facts: Vec<_> = (0..STEPS).map(|_| relay.take_in(event.clone())).collect();
                (relay, facts)
            },
            |(relay, facts)| {
                let before = relay.slices;
                facts.drain(..).for_each(|facts| relay.step(facts));
                assert_eq!(relay.slices - before, STEPS);
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

/// A continuation of forty tokens behind 2 KB of partial, and what it repeats of those before: decided, joined, ended.
fn seam(c: &mut Criterion) {
    const SAID: usize = 256;
    let said = |range: std::ops::Range<usize>| chunked(range.map(frame)).freeze();
    let end = [chunk("{}", "\"stop\""), "data: [DONE]\n\n".to_owned()];
    let end = chunked(end).freeze();
    let cases = [
        ("goes on", Prefill, said(SAID..SAID + 40)),
        ("an overlap", Instruct, said(SAID - 8..SAID + 40)),
        ("a restart", Instruct, said(0..SAID + 40)),
    ];
    let mut group = c.benchmark_group("seam");
    for (name, mode, text) in cases {
        let (plan, text) = (plan(mode), reads(&text, READ_BYTES));
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || {
                    let mut relay = streaming(&plan);
                    relay.read(said(1..SAID));
                    relay.cut();
                    relay.read(Bytes::from_static(RESPONSE_HEAD.as_bytes()));
                    (relay, text.clone())
                },
                |(relay, text)| {
                    text.drain(..).for_each(|read| relay.read(read));
                    relay.read(end.clone());
                    assert_eq!(relay.outcome(), Some(StreamOutcome::PartialRecovered));
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

/// An upstream's bytes, from its head to its last chunk, to the client's slices.
fn whole(c: &mut Criterion) {
    let (_, body) = stream();
    let plan = plan(Prefill);
    let mut group = c.benchmark_group("relay");
    group.throughput(Throughput::Elements(FRAMES as u64));
    for (name, size) in [("a frame a read", frame(0).len() + 6), ("16 KiB a read", READ_BYTES)] {
        let reads = reads(&body, size);
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || (Relay::new(&plan), reads.clone()),
                |(relay, reads)| {
                    relay.read(Bytes::from_static(RESPONSE_HEAD.as_bytes()));
                    reads.drain(..).for_each(|read| relay.read(read));
                    assert!(relay.bytes >= FRAMES * frame(0).len());
                },
                BatchSize::LargeInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = wire::config();
    targets = step, seam, whole
}
criterion_main!(benches);
