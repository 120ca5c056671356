//! HTTP/1.1 on its way in: heads, and bodies in chunks. `cargo bench --bench http1`; a run's figures compare with
//! those of the same machine only.

mod wire;

use std::hint::black_box;

use baton::http1::{Decoded, Decoder, Framing, HeadLimits, HeadReader, Method};
use bytes::BytesMut;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

use wire::{FRAMES, READ_BYTES, REQUEST_HEAD, RESPONSE_HEAD, frame, reads, stream};

fn heads(c: &mut Criterion) {
    let mut group = c.benchmark_group("head");
    group.throughput(Throughput::Elements(1));
    let mut heads = HeadReader::new(HeadLimits::default());
    group.bench_function("a request's, from an SDK", |b| {
        b.iter_batched_ref(
            || BytesMut::from(REQUEST_HEAD),
            |buffer| {
                let head = heads.request(buffer);
                assert!(matches!(&head, Ok(Some(head)) if head.headers.len() == 17));
                head
            },
            BatchSize::SmallInput,
        );
    });
    group.bench_function("a response's, from a provider", |b| {
        b.iter_batched_ref(
            || BytesMut::from(RESPONSE_HEAD),
            |buffer| {
                let head = heads.response(buffer, &Method::Post);
                assert!(matches!(&head, Ok(Some(head)) if head.headers.len() == 21));
                head
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

fn chunks(c: &mut Criterion) {
    let (plain, chunked) = stream();
    let mut group = c.benchmark_group("chunk decoding");
    group.throughput(Throughput::Elements(FRAMES as u64));
    for (name, size) in [("a chunk a read", frame(0).len() + 6), ("16 KiB a read", READ_BYTES)] {
        let reads = reads(&chunked, size);
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut decoder = Decoder::new(Framing::Chunked);
                let mut decoded = 0;
                for read in black_box(&reads) {
                    let mut input = read.clone();
                    while let Ok(Decoded::Data(data)) = decoder.decode(&mut input) {
                        decoded += data.len();
                    }
                }
                assert_eq!((decoded, decoder.is_ended()), (plain.len(), true));
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = benches;
    config = wire::config();
    targets = heads, chunks
}
criterion_main!(benches);
