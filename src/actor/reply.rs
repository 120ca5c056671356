//! What a `Stream` sends to its client, as HTTP/1.1: one vectored write for all there is at a time.

use std::sync::Arc;

use bytes::Bytes;

use super::call::Call;
use super::client::ToClient;
use crate::error::{Code, error_object};
use crate::exchange::{ClientHead, Plan};
use crate::http1::{CHUNK_END, LAST_CHUNK, Version, chunk_head, encode_response_head};
use crate::net::Gather;

/// How the response goes on after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    More,
    /// It is whole.
    Done,
    /// It is not, and nothing more will come: the connection must be closed for the client to see that.
    Cut,
    /// The `Stream` died before anything was written: there is still an answer to be given.
    Unanswered,
}

/// What the client is told when a `Stream` dies.
pub const DIED: &str = "Baton failed while answering this request; asking again may help.";

/// Encodes one response.
pub struct Reply {
    pub version: Version,
    pub call: Arc<Call>,
    pub keep_alive: bool,
    pub plan: Arc<Plan>,
    /// Its frames are the client's own protocol: an error can be said in one.
    pub is_chat_stream: bool,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Framing {
    /// No head was written yet.
    None,
    Length,
    Chunked,
    /// HTTP/1.0: the end of the connection is the end of the body.
    UntilClose,
}

impl Reply {
    pub fn new(
        version: Version,
        call: Arc<Call>,
        keep_alive: bool,
        plan: Arc<Plan>,
        is_chat_stream: bool,
    ) -> Self {
        Self { version, call, keep_alive, plan, is_chat_stream, framing: Framing::None }
    }

    /// Whether the end of the connection would look like the end of the body.
    pub fn ends_with_connection(&self) -> bool {
        self.framing == Framing::UntilClose
    }

    /// Appends all items to `out`; the count is of body bytes.
    pub fn encode(&mut self, items: impl Iterator<Item = ToClient>, out: &mut Gather) -> (Progress, usize) {
        let (mut progress, mut bytes) = (Progress::More, 0);
        for item in items {
            match item {
                ToClient::Head(head) => self.encode_head(&head, out),
                ToClient::Body(slices) => bytes += self.encode_body(slices, out),
                ToClient::Finish => {
                    if self.framing == Framing::Chunked {
                        out.push(Bytes::from_static(LAST_CHUNK));
                    }
                    progress = Progress::Done;
                }
                ToClient::Abort => progress = Progress::Cut,
                ToClient::Orphaned => progress = self.encode_orphaned(out),
            }
        }
        (progress, bytes)
    }

    fn encode_head(&mut self, head: &ClientHead, out: &mut Gather) {
        self.framing = match (head.length, self.version) {
            (Some(_), _) => Framing::Length,
            (None, Version::Http11) => Framing::Chunked,
            (None, Version::Http10) => Framing::UntilClose,
        };
        self.keep_alive &= self.framing != Framing::UntilClose;
        let length = head.length.map(|length| length.to_string());
        let framing = match &length {
            // RFC 9110, section 8.6: a 204 has no length.
            Some(_) if head.status == 204 => None,
            Some(length) => Some(("content-length", length.as_str())),
            None if self.framing == Framing::Chunked => Some(("transfer-encoding", "chunked")),
            None => None,
        };
        let served_by = head.served_by.and_then(|target| self.plan.targets.get(target));
        let served_by = served_by.map(|target| ("x-baton-served-by", &*target.label));
        let connection = if self.keep_alive { "keep-alive" } else { "close" };
        let own = [("connection", connection), ("x-request-id", &*self.call.request_id)];
        let own = framing.into_iter().chain(own).chain(served_by);
        let theirs = head.upstream_request_id.as_ref();
        let theirs = theirs.map(|id| (&b"x-baton-upstream-request-id"[..], &id[..]));
        let fields = head.headers.iter().map(|(name, value)| (&name[..], &value[..]));
        let fields = fields.chain(own.map(|(name, value)| (name.as_bytes(), value.as_bytes()))).chain(theirs);
        out.push(encode_response_head(self.version, head.status, fields));
    }

    fn encode_body(
        &self,
        slices: impl IntoIterator<Item = Bytes, IntoIter: Clone>,
        out: &mut Gather,
    ) -> usize {
        let slices = slices.into_iter();
        let bytes = slices.clone().map(|slice| slice.len()).sum();
        if bytes == 0 {
            return 0;
        }
        if self.framing == Framing::Chunked {
            out.push(chunk_head(bytes));
            out.push_all(slices);
            out.push(Bytes::from_static(CHUNK_END));
        } else {
            out.push_all(slices);
        }
        bytes
    }

    /// The `Stream` died: the client is told as far as that is still possible.
    fn encode_orphaned(&mut self, out: &mut Gather) -> Progress {
        match self.framing {
            Framing::None => Progress::Unanswered,
            Framing::Length => Progress::Cut,
            Framing::Chunked | Framing::UntilClose if !self.is_chat_stream => Progress::Cut,
            Framing::Chunked | Framing::UntilClose => {
                let row = Code::Internal.row();
                let data = error_object(DIED, row.kind, None, row.code);
                self.encode_body([Bytes::from(format!("event: error\ndata: {data}\n\n"))], out);
                Progress::Cut
            }
        }
    }
}
