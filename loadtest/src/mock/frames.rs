//! Frames that need only a number and the time filled in, each as one chunk of a chunked body.

use baton::demo::http::{response, sorry};
use baton::http1::{LAST_CHUNK, chunk_head};
use bytes::{Bytes, BytesMut};

use super::plan::{FRAME_BYTES_AROUND, Plan};
use crate::text::{self, now_ns};

const STREAM_HEAD: &[u8] =
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\n\
    transfer-encoding: chunked\r\n\r\n";
/// What all frames begin with.
const START: &str = "{\"id\":\"chatcmpl-load\",\"object\":\"chat.completion.chunk\",\"created\":1700000000,\
    \"model\":\"load\",\"choices\":[";

/// What the answers of a plan are made from.
pub struct Frames {
    /// A delta's chunk with room for the text.
    delta: Box<[u8]>,
    /// Where in it the text begins, and its length.
    text_at: usize,
    pub text_len: usize,
    total: u32,
    /// Response head and role frame.
    pub opening: Bytes,
    /// The finish frame, and `[DONE]` with the body's end.
    finish: Bytes,
    done: Bytes,
}

impl Frames {
    pub fn new(plan: &Plan) -> Self {
        let text_len = plan.event_bytes.saturating_sub(FRAME_BYTES_AROUND).max(text::BYTES_MIN);
        let room = "?".repeat(text_len);
        let delta = chunk(&choice(&format!("{{\"content\":\"{room}\"}}"), "null"));
        let text_at = memchr::memchr(b'?', &delta).unwrap_or_default();
        let mut opening = STREAM_HEAD.to_vec();
        opening.extend_from_slice(&chunk(&choice("{\"role\":\"assistant\",\"content\":\"\"}", "null")));
        let mut done = chunk("[DONE]");
        done.extend_from_slice(LAST_CHUNK);
        Self {
            delta: delta.into(),
            text_at,
            text_len,
            total: plan.events,
            opening: opening.into(),
            finish: chunk(&choice("{}", "\"stop\"")).into(),
            done: done.into(),
        }
    }

    /// Appends the frame of event `seq`, written now: the time that it gives.
    pub fn put(&self, out: &mut BytesMut, seq: u32) -> u64 {
        let (start, now) = (out.len() + self.text_at, now_ns());
        out.extend_from_slice(&self.delta);
        text::write(&mut out[start..start + self.text_len], seq, self.total, now);
        now
    }

    /// Bytes of a delta's chunk.
    pub fn len(&self) -> usize {
        self.delta.len()
    }

    /// A frame with the rest of event `seq`'s text, of which `begun` bytes are there already.
    pub fn rest(&self, seq: u32, begun: usize) -> Bytes {
        let mut text = vec![0; self.text_len];
        text::write(&mut text, seq, self.total, now_ns());
        let rest = String::from_utf8_lossy(text.get(begun..).unwrap_or_default());
        chunk(&choice(&format!("{{\"content\":\"{rest}\"}}"), "null")).into()
    }

    /// A frame that breaks off inside its text.
    pub fn garbage(&self) -> Bytes {
        let whole = choice("{\"content\":\"lost\"}", "null");
        chunk(whole.split_once("st\"").map_or("", |(start, _)| start)).into()
    }

    /// The proper end, with the usage if that is asked for.
    pub fn ending(&self, usage: Option<Usage>) -> Bytes {
        let mut out = self.finish.to_vec();
        if let Some(usage) = usage {
            out.extend_from_slice(&chunk(&format!("{START}],\"usage\":{}}}", usage.json())));
        }
        out.extend_from_slice(&self.done);
        out.into()
    }

    /// An error in the stream, then the body's end.
    pub fn error(&self) -> Bytes {
        let mut out = chunk(&sorry("server_error"));
        out.extend_from_slice(LAST_CHUNK);
        out.into()
    }

    /// A plain answer with the events from `next` on, the first without its `begun` bytes.
    pub fn plain(&self, next: u32, begun: usize, usage: Usage) -> Bytes {
        let events = self.total.saturating_sub(next) as usize;
        let mut text = vec![0; events * self.text_len];
        let now = now_ns();
        for (seq, event) in (next..).zip(text.chunks_exact_mut(self.text_len)) {
            text::write(event, seq, self.total, now);
        }
        let text = String::from_utf8_lossy(text.get(begun..).unwrap_or_default());
        response(
            200,
            &format!(
                "{{\"id\":\"chatcmpl-load\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"load\",\
                 \"choices\":[{{\"index\":0,\"message\":{{\"role\":\"assistant\",\"content\":\"{text}\"}},\
                 \"finish_reason\":\"stop\"}}],\"usage\":{}}}",
                usage.json()
            ),
        )
    }
}

#[derive(Clone, Copy)]
pub struct Usage {
    pub prompt: usize,
    pub completion: usize,
}

impl Usage {
    fn json(self) -> String {
        let Self { prompt, completion } = self;
        let total = prompt + completion;
        format!("{{\"prompt_tokens\":{prompt},\"completion_tokens\":{completion},\"total_tokens\":{total}}}")
    }
}

fn choice(delta: &str, finish: &str) -> String {
    format!("{START}{{\"index\":0,\"delta\":{delta},\"finish_reason\":{finish}}}]}}")
}

/// A frame with `data`, in a chunk of its own.
fn chunk(data: &str) -> Vec<u8> {
    let frame = format!("data: {data}\n\n");
    let mut out = chunk_head(frame.len()).to_vec();
    out.extend_from_slice(frame.as_bytes());
    out.extend_from_slice(b"\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock::plan::FRAME_BYTES_MIN;

    #[test]
    fn a_frame_has_the_bytes_that_were_asked_for() {
        for event_bytes in [FRAME_BYTES_MIN, 200, 256, 5000] {
            let frames = Frames::new(&Plan { event_bytes, ..Plan::default() });
            let mut out = BytesMut::new();
            frames.put(&mut out, 7);
            assert_eq!(out.len(), frames.len());
            let head = format!("{event_bytes:x}\r\ndata: {{");
            assert!(out.starts_with(head.as_bytes()), "{}", String::from_utf8_lossy(&out));
            let text = &out[frames.text_at..frames.text_at + frames.text_len];
            assert_eq!(text::read(text).map(|event| event.seq), Some(7));
        }
    }
}
