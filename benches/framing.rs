//! What each frame and each request costs on its way through the pure layers: no socket, no actor, one thread.
//!
//! The stream is the kind that providers send: frames of about 250 bytes, a token each, read a frame at a time or
//! in reads of 16 KiB. `cargo bench --bench framing`; a run's figures compare with those of the same machine only.

use std::hint::black_box;

use baton::http1::{CHUNK_END, Decoded, Decoder, Framing, HeadLimits, HeadReader, LAST_CHUNK, chunk_head};
use baton::protocol::openai_chat::Reader;
use baton::sse::{Frame, Framer};
use bytes::{Bytes, BytesMut};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

/// Frames of one stream.
const FRAMES: usize = 1000;
/// Baton's default for `limits.frame_bytes`.
const FRAME_BYTES_MAX: usize = 4 << 20;
const READ_BYTES: usize = 16 * 1024;

const REQUEST_HEAD: &str = "POST /v1/chat/completions HTTP/1.1\r\nHost: llm.internal.example.com:8080\r\n\
    Accept: application/json\r\nAccept-Encoding: gzip, deflate\r\nConnection: keep-alive\r\n\
    User-Agent: OpenAI/Python 2.9.0\r\nX-Stainless-Lang: python\r\nX-Stainless-Package-Version: 2.9.0\r\n\
    X-Stainless-OS: Linux\r\nX-Stainless-Arch: x64\r\nX-Stainless-Runtime: CPython\r\n\
    X-Stainless-Runtime-Version: 3.12.7\r\nX-Stainless-Async: async:asyncio\r\nX-Stainless-Retry-Count: 0\r\n\
    X-Stainless-Read-Timeout: 600\r\nAuthorization: Bearer sk-proj-0123456789abcdef0123456789abcdef\r\n\
    Content-Type: application/json\r\nContent-Length: 1843\r\n\r\n";

/// One token's frame, as OpenAI sends it.
fn frame(number: usize) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-Cp7Xr2aQ9vKkM4nT0sYbW1uLzJdEf\",\"object\":\"chat.completion.chunk\",\
         \"created\":1764540000,\"model\":\"gpt-4o-2024-08-06\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_a1b2c3d4e5\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\" tok{number:04}\"}},\
         \"finish_reason\":null}}]}}\n\n"
    )
}

/// A stream's frames, and the same in HTTP chunks.
fn stream() -> (Bytes, Bytes) {
    let (mut plain, mut chunked) = (BytesMut::new(), BytesMut::new());
    for number in 0..FRAMES {
        let frame = frame(number);
        plain.extend_from_slice(frame.as_bytes());
        chunked.extend_from_slice(&chunk_head(frame.len()));
        chunked.extend_from_slice(frame.as_bytes());
        chunked.extend_from_slice(CHUNK_END);
    }
    chunked.extend_from_slice(LAST_CHUNK);
    (plain.freeze(), chunked.freeze())
}

/// The bytes in reads of `size`, each with memory of its own, as reads have.
fn reads(bytes: &Bytes, size: usize) -> Vec<Bytes> {
    bytes.chunks(size).map(Bytes::copy_from_slice).collect()
}

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

fn request_head(c: &mut Criterion) {
    let mut group = c.benchmark_group("request head");
    group.throughput(Throughput::Elements(1));
    group.bench_function("an SDK's, in one read", |b| {
        let mut heads = HeadReader::new(HeadLimits::default());
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
    group.finish();
}

criterion_group!(benches, framer, reader, chunks, request_head);
criterion_main!(benches);
