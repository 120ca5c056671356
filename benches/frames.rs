//! An event stream's frames: where each ends, and what it means. `cargo bench --bench frames`; a run's figures compare
//! with those of the same machine only.
//!
//! The stream is the kind that providers send: frames of about 250 bytes, a token each, read a frame at a time or in
//! reads of 16 KiB.

mod wire;

use std::hint::black_box;

use baton::protocol::openai_chat::Reader;
use baton::sse::{Frame, Framer};
use bytes::Bytes;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

use wire::{FRAME_BYTES_MAX, FRAMES, READ_BYTES, frame, reads, stream};

fn frames_of(reads: &[Bytes]) -> Vec<Frame> {
    let mut framer = Framer::new(FRAME_BYTES_MAX);
    let mut frames = Vec::with_capacity(FRAMES);
    for read in reads {
        assert!(framer.feed(read.clone(), &mut frames).is_ok());
    }
    frames
}

fn framer(c: &mut Criterion) {
    let (plain, _) = stream();
    let mut group = c.benchmark_group("sse framer");
    group.throughput(Throughput::Elements(FRAMES as u64));
    // The last: every read ends within a frame.
    for (name, size) in
        [("a frame a read", frame(0).len()), ("16 KiB a read", READ_BYTES), ("100 B a read", 100)]
    {
        let reads = reads(&plain, size);
        assert_eq!(frames_of(&reads).len(), FRAMES);
        group.bench_function(name, |b| b.iter(|| frames_of(black_box(&reads))));
    }
    group.finish();
}

fn reader(c: &mut Criterion) {
    let (plain, _) = stream();
    let mut group = c.benchmark_group("openai_chat reader");
    group.throughput(Throughput::Elements(FRAMES as u64));
    for (name, size) in [("whole frames", READ_BYTES), ("frames in three slices", 100)] {
        let frames = frames_of(&reads(&plain, size));
        let mut reader = Reader::default();
        let mut out = Vec::with_capacity(FRAMES);
        group.bench_function(name, |b| {
            b.iter_batched_ref(
                || frames.clone(),
                |frames| {
                    out.clear();
                    for frame in frames.drain(..) {
                        reader.read(frame, &mut out);
                    }
                    assert_eq!(out.len(), FRAMES);
                },
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = wire::config();
    targets = framer, reader
}
criterion_main!(benches);
