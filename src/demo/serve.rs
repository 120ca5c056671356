//! One client's connection to a scripted upstream: requests are read, replies are carried out.

use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use monoio::net::TcpStream;

use super::answer::{Answer, End, Reply, Step};
use super::ask::Ask;
use super::http::{BODY_BYTES_MAX, NoRequest, Requests, error_response, model_list, response, too_large};
use super::script::{EXAMPLES, Script};
use crate::error::{Code, ProxyError};
use crate::http1::{Framing, Method, RequestHead, Version, encode_response_head};
use crate::net::{Connection, Gather, Shutdown};

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
    let requests = Requests::new(read);
    let mut connection = Served { shared, requests, write, shutdown, gather: Gather::new() };
    while connection.answer_next().await.is_ok() {}
}

struct Served {
    shared: Rc<Shared>,
    requests: Requests,
    write: crate::net::WriteHalf,
    shutdown: Shutdown,
    gather: Gather,
}

impl Served {
    async fn answer_next(&mut self) -> Result<(), Over> {
        let head = match self.requests.head().await {
            Ok(head) => head,
            Err(none) => return Err(self.no_request(none).await),
        };
        if head.version == Version::Http10 {
            // Its answers could not be chunked.
            let error = ProxyError::new(Code::MalformedHttp, "only HTTP/1.1 is spoken here").with_status(505);
            return Err(self.refuse(&error).await);
        }
        let body = self.read_body(&head).await?;
        let reply = self.reply(&head, &body);
        drop(body);
        self.carry_out(reply).await?;
        if head.keep_alive { Ok(()) } else { Err(self.finish().await) }
    }

    async fn read_body(&mut self, head: &RequestHead) -> Result<Bytes, Over> {
        if matches!(head.framing, Framing::Length(len) if len > BODY_BYTES_MAX) {
            return Err(self.refuse(&too_large()).await);
        }
        if head.expect_continue {
            self.gather.push(encode_response_head(Version::Http11, 100, std::iter::empty()));
            self.flush().await?;
        }
        match self.requests.body(head.framing).await {
            Ok(body) => Ok(body),
            Err(none) => Err(self.no_request(none).await),
        }
    }

    fn reply(&self, head: &RequestHead, body: &[u8]) -> Reply {
        let whole = |bytes| Reply { steps: smallvec::smallvec![Step::Send(bytes)], end: End::KeepAlive };
        let error = match (&head.path[..], &head.method) {
            (b"/v1/chat/completions", Method::Post) => match Ask::read(body) {
                Ok(ask) => return self.shared.answer.reply(Script::parse(&ask.model), &ask),
                Err(error) => ProxyError::from(error),
            },
            (b"/v1/models", Method::Get) => {
                let list = model_list(EXAMPLES, self.shared.created);
                return whole(response(200, &format!("{{\"object\":\"list\",\"data\":{list}}}")));
            }
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
            End::Hang => {
                self.requests.hang().await;
                Err(Over)
            }
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

    async fn no_request(&mut self, none: NoRequest) -> Over {
        match none {
            NoRequest::Over => Over,
            NoRequest::Bad(error) => self.refuse(&error).await,
        }
    }

    /// Answers with an error, after which the connection is of no use.
    async fn refuse(&mut self, error: &ProxyError) -> Over {
        self.gather.push(error_response(error));
        match self.flush().await {
            Ok(()) => self.finish().await,
            Err(over) => over,
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
