//! One client's connection to a scripted upstream: requests are read, replies are carried out.

use std::rc::Rc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use monoio::net::TcpStream;

use super::answer::{Answer, End, Reply, Step, models, response};
use super::ask::Ask;
use crate::error::{Code, ProxyError};
use crate::http1::{
    Decoded, Decoder, Framing, HeadLimits, HeadReader, Method, RequestHead, Version, encode_response_head,
};
use crate::net::{Connection, Gather, Shutdown};

/// The largest request body, in bytes; Baton's own default.
pub const BODY_BYTES_MAX: usize = 32 << 20;

/// What the connections of an upstream share.
pub struct Shared {
    pub answer: Answer,
    pub created: u64,
    /// Before each delta.
    pub gap: Duration,
}

/// A connection that is over: nothing more can or shall be sent on it.
struct Over;

/// Serves a connection until it is over. `opened` is told how to end it from outside.
pub async fn serve(shared: Rc<Shared>, stream: TcpStream, opened: impl FnOnce(Shutdown)) {
    let Connection { read, write, shutdown } = Connection::plain(stream);
    opened(shutdown.clone());
    let mut connection = Served { shared, read, write, shutdown, gather: Gather::new() };
    let mut heads = HeadReader::new(HeadLimits::default());
    let mut buffer = BytesMut::new();
    while connection.answer_next(&mut heads, &mut buffer).await.is_ok() {}
}

struct Served {
    shared: Rc<Shared>,
    read: crate::net::ReadHalf,
    write: crate::net::WriteHalf,
    shutdown: Shutdown,
    gather: Gather,
}

impl Served {
    async fn answer_next(&mut self, heads: &mut HeadReader, buffer: &mut BytesMut) -> Result<(), Over> {
        let head = loop {
            match heads.request(buffer) {
                Ok(Some(head)) => break head,
                Ok(None) => buffer.extend_from_slice(&self.more().await?),
                Err(error) => {
                    let error = ProxyError::new(Code::MalformedHttp, error.to_string());
                    return Err(self.refuse(&error).await);
                }
            }
        };
        if head.version == Version::Http10 {
            // Its answers could not be chunked.
            let error = ProxyError::new(Code::MalformedHttp, "only HTTP/1.1 is spoken here").with_status(505);
            return Err(self.refuse(&error).await);
        }
        let body = self.read_body(&head, buffer).await?;
        let reply = self.reply(&head, &body);
        drop(body);
        self.carry_out(reply).await?;
        if head.keep_alive { Ok(()) } else { Err(self.finish().await) }
    }

    /// Reads the request's body; what follows it stays in `buffer`.
    async fn read_body(&mut self, head: &RequestHead, buffer: &mut BytesMut) -> Result<Bytes, Over> {
        let is_too_large = |len: u64| len > BODY_BYTES_MAX as u64;
        if matches!(head.framing, Framing::Length(len) if is_too_large(len)) {
            return Err(self.too_large().await);
        }
        if head.expect_continue {
            self.gather.push(encode_response_head(Version::Http11, 100, std::iter::empty()));
            self.flush().await?;
        }
        let mut decoder = Decoder::new(head.framing);
        let mut input = buffer.split().freeze();
        let mut body = BytesMut::new();
        loop {
            match decoder.decode(&mut input) {
                Ok(Decoded::Data(data)) => body.extend_from_slice(&data),
                Ok(Decoded::More) => input = self.more().await?,
                Ok(Decoded::End) => break,
                Err(error) => {
                    let error = ProxyError::new(Code::MalformedHttp, error.to_string());
                    return Err(self.refuse(&error).await);
                }
            }
            if is_too_large(decoder.received()) {
                return Err(self.too_large().await);
            }
        }
        buffer.extend_from_slice(&input);
        Ok(body.freeze())
    }

    fn reply(&self, head: &RequestHead, body: &[u8]) -> Reply {
        let whole = |bytes| Reply { steps: smallvec::smallvec![Step::Send(bytes)], end: End::KeepAlive };
        let error = match (&head.path[..], &head.method) {
            (b"/v1/chat/completions", Method::Post) => match Ask::read(body) {
                Ok(ask) => return self.shared.answer.reply(&ask),
                Err(error) => ProxyError::from(error),
            },
            (b"/v1/models", Method::Get) => return whole(models(self.shared.created)),
            (b"/v1/chat/completions" | b"/v1/models", _) => {
                ProxyError::new(Code::WrongMethod, "POST /v1/chat/completions or GET /v1/models")
            }
            _ => ProxyError::new(Code::UnknownPath, "there are /v1/chat/completions and /v1/models"),
        };
        whole(error_response(&error))
    }

    async fn carry_out(&mut self, reply: Reply) -> Result<(), Over> {
        for step in reply.steps {
            match step {
                Step::Send(bytes) => self.gather.push(bytes),
                Step::Delta(bytes) => self.delta(bytes).await?,
                Step::Deltas(words) if self.shared.gap.is_zero() => {
                    self.gather.push(self.shared.answer.frames(words));
                }
                Step::Deltas(words) => {
                    for word in words {
                        self.delta(self.shared.answer.frames(word..word + 1)).await?;
                    }
                }
            }
        }
        self.flush().await?;
        match reply.end {
            End::KeepAlive => Ok(()),
            End::Fin => Err(self.finish().await),
            End::Rst => {
                self.shutdown.set_linger_zero();
                Err(Over)
            }
            End::Hang => loop {
                self.more().await?;
            },
        }
    }

    /// Sends what there is, then, a gap later, a delta.
    async fn delta(&mut self, bytes: Bytes) -> Result<(), Over> {
        if !self.shared.gap.is_zero() {
            self.flush().await?;
            monoio::time::sleep(self.shared.gap).await;
        }
        self.gather.push(bytes);
        if self.shared.gap.is_zero() { Ok(()) } else { self.flush().await }
    }

    async fn too_large(&mut self) -> Over {
        self.refuse(&ProxyError::new(Code::BodyTooLarge, "a request body may have 32 MiB")).await
    }

    /// Answers with an error, after which the connection is of no use.
    async fn refuse(&mut self, error: &ProxyError) -> Over {
        self.gather.push(error_response(error));
        match self.flush().await {
            Ok(()) => self.finish().await,
            Err(over) => over,
        }
    }

    async fn more(&mut self) -> Result<Bytes, Over> {
        match self.read.read().await {
            Ok(bytes) if !bytes.is_empty() => Ok(bytes),
            Ok(_) | Err(_) => Err(Over),
        }
    }

    async fn flush(&mut self) -> Result<(), Over> {
        self.write.write(&mut self.gather).await.map_err(|_| Over)
    }

    /// Sends FIN.
    async fn finish(&mut self) -> Over {
        // Whether it goes well or not, the connection is over.
        let _ = self.write.finish().await;
        Over
    }
}

fn error_response(error: &ProxyError) -> Bytes {
    response(error.status(), &String::from_utf8_lossy(&error.body()))
}
