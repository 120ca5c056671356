//! One client's connection to the upstream: requests are read, answers are made as their plans say.

use std::net::{self, TcpStream};
use std::rc::Rc;
use std::time::Duration;

use baton::demo::http::{NoRequest, Requests, error_response, failure, model_list, response};
use baton::demo::{Ask, EXAMPLES, MidStream, Script};
use baton::error::{Code, ProxyError};
use baton::http1::Method;
use baton::net::{Connection, Gather, WriteHalf};
use bytes::{Bytes, BytesMut};
use socket2::SockRef;

use super::Shared;
use super::frames::{Frames, Usage};
use super::pacer::{Handed, Paced};
use super::plan::{NAMES, Plan};
use crate::text::now_ns;

/// Bytes of one write where there is no gap.
const WRITE_BYTES: usize = 64 * 1024;

/// A connection that is over: nothing more can or shall be sent on it.
pub struct Over;

/// One connection.
pub struct Served {
    shared: Rc<Shared>,
    socket: Rc<TcpStream>,
    requests: Requests,
    write: WriteHalf,
    gather: Gather,
}

/// One answer under way.
struct Answer {
    plan: Plan,
    frames: Rc<Frames>,
    /// The next event.
    next: u32,
    /// The stamp of the last event that was sent.
    last_ns: u64,
}

impl Served {
    /// `connection` is that of `socket`.
    pub fn new(shared: Rc<Shared>, socket: Rc<TcpStream>, connection: Connection) -> Self {
        let Connection { read, write, .. } = connection;
        Self { shared, socket, requests: Requests::new(read), write, gather: Gather::new() }
    }

    /// Serves the connection until it is over.
    pub async fn serve(mut self) {
        while self.answer_next().await.is_ok() {}
    }

    async fn answer_next(&mut self) -> Result<(), Over> {
        let head = match self.requests.head().await {
            Ok(head) => head,
            Err(NoRequest::Bad(error)) => return self.refuse(&error).await,
            Err(NoRequest::Over) => return Err(Over),
        };
        if head.expect_continue {
            self.send(Bytes::from_static(b"HTTP/1.1 100 Continue\r\n\r\n")).await?;
        }
        let body = self.requests.body(head.framing).await.map_err(|_| Over)?;
        let arrived = now_ns();
        match (&head.path[..], &head.method) {
            (b"/v1/chat/completions", Method::Post) => self.chat(&body, arrived).await?,
            (b"/v1/models", Method::Get) => self.send(models()).await?,
            (b"/health" | b"/healthz", Method::Get) => {
                self.send(response(200, "{\"status\":\"ok\"}")).await?
            }
            (b"/stats", Method::Get) => {
                let seen = serde_json::to_string(&self.shared.stats.seen()).unwrap_or_default();
                self.send(response(200, &seen)).await?;
            }
            _ => {
                let what = "there are POST /v1/chat/completions, GET /v1/models, /health and /stats";
                let error = ProxyError::new(Code::UnknownPath, what);
                self.send(error_response(&error)).await?;
            }
        }
        if head.keep_alive { Ok(()) } else { self.finish() }
    }

    async fn chat(&mut self, body: &[u8], arrived: u64) -> Result<(), Over> {
        let stats = &self.shared.stats;
        stats.requests.set(stats.requests.get() + 1);
        let ask = match Ask::read(body) {
            Ok(ask) => ask,
            Err(error) => {
                return self.send(error_response(&ProxyError::from(error))).await;
            }
        };
        let (plan, frames) = match self.shared.prepared(&ask.model) {
            Ok(prepared) => prepared,
            Err(error) => {
                let error = ProxyError::new(Code::UnknownModel, error);
                return self.send(error_response(&error)).await;
            }
        };
        let (next, begun) = self.shared.place(&ask, &plan, &frames, arrived);
        let script = match plan.every {
            1 => plan.script,
            // Its turn came when it began.
            _ if next > 0 || begun > 0 => Script::Healthy,
            _ => self.shared.turn(&ask.model, &plan),
        };
        match script {
            Script::Refuse => return self.finish(),
            Script::Silent => return self.hang().await,
            Script::Status(status) => return self.send(failure(status)).await,
            Script::Healthy | Script::After { .. } => {}
        }
        let usage =
            Usage { prompt: ask.prompt_tokens, completion: plan.events.saturating_sub(next) as usize };
        let mut answer = Answer { plan: Plan { script, ..plan }, frames, next, last_ns: 0 };
        if !ask.stream {
            return self.plain(&answer, begun, usage).await;
        }
        let usage = ask.include_usage.then_some(usage);
        let stats = Rc::clone(&self.shared);
        let _open = super::Open::new(&stats.stats.streams_open);
        self.streamed(&mut answer, begun, usage).await
    }

    async fn plain(&mut self, answer: &Answer, begun: usize, usage: Usage) -> Result<(), Over> {
        let pause = answer.plan.first + answer.plan.gap;
        if !pause.is_zero() {
            monoio::time::sleep(pause).await;
        }
        let whole = answer.frames.plain(answer.next, begun, usage);
        let Script::After { fault, .. } = answer.plan.script else { return self.send(whole).await };
        match fault {
            MidStream::Error | MidStream::Garbage => return self.send(failure(500)).await,
            MidStream::CutFin | MidStream::CutRst | MidStream::Stall => {
                self.send(whole.slice(..whole.len() / 2)).await?;
            }
        }
        self.fault(fault, answer).await
    }

    async fn streamed(
        &mut self,
        answer: &mut Answer,
        begun: usize,
        usage: Option<Usage>,
    ) -> Result<(), Over> {
        self.send(answer.frames.opening.clone()).await?;
        if !answer.plan.first.is_zero() {
            monoio::time::sleep(answer.plan.first).await;
        }
        if begun > 0 {
            self.send(answer.frames.rest(answer.next, begun)).await?;
            answer.next += 1;
        }
        let total = answer.plan.events;
        if let Script::After { words, fault } = answer.plan.script {
            let words = u32::try_from(words).unwrap_or(u32::MAX);
            self.events(answer, answer.next.saturating_add(words).min(total)).await?;
            if fault == MidStream::Garbage {
                self.send(answer.frames.garbage()).await?;
                answer.next += 1;
            } else {
                return self.fault(fault, answer).await;
            }
        }
        self.events(answer, total).await?;
        self.send(answer.frames.ending(usage)).await
    }

    /// Sends the events up to `end`, as the gap says.
    async fn events(&mut self, answer: &mut Answer, end: u32) -> Result<(), Over> {
        if answer.plan.gap.is_zero() {
            while answer.next < end {
                self.send_batch(answer, end).await?;
            }
            return Ok(());
        }
        let gap = u64::try_from(answer.plan.gap.as_millis()).unwrap_or(u64::MAX).max(1);
        let mut delay = self.shared.pacer.phase(gap);
        while answer.next < end {
            let (socket, frames) = (Rc::clone(&self.socket), Rc::clone(&answer.frames));
            let paced = Paced { socket, frames, next: answer.next, end, gap, last_ns: answer.last_ns };
            let (handed, paced) = self.shared.pacer.run(paced, delay).await;
            (answer.next, answer.last_ns) = (paced.next, paced.last_ns);
            match handed {
                Handed::Done => {}
                Handed::Full(rest) => self.send(rest).await?,
                Handed::Gone => return Err(Over),
            }
            delay = gap;
        }
        Ok(())
    }

    async fn send_batch(&mut self, answer: &mut Answer, end: u32) -> Result<(), Over> {
        let fitting = (WRITE_BYTES / answer.frames.len()).max(1) as u32;
        let count = fitting.min(answer.plan.events_per_write).min(end - answer.next);
        let mut batch = BytesMut::with_capacity(answer.frames.len() * count as usize);
        for seq in answer.next..answer.next + count {
            answer.last_ns = answer.frames.put(&mut batch, seq);
        }
        answer.next += count;
        self.send(batch.freeze()).await
    }

    async fn fault(&mut self, fault: MidStream, answer: &Answer) -> Result<(), Over> {
        match fault {
            MidStream::CutFin => {
                self.shared.stats.cut(answer.last_ns);
                self.finish()
            }
            MidStream::CutRst => {
                self.shared.stats.cut(answer.last_ns);
                let _gone = SockRef::from(&*self.socket).set_linger(Some(Duration::ZERO));
                Err(Over)
            }
            MidStream::Stall => {
                self.shared.stats.cut(answer.last_ns);
                self.hang().await
            }
            MidStream::Error => self.send(answer.frames.error()).await,
            MidStream::Garbage => self.send(answer.frames.garbage()).await,
        }
    }

    /// Sends nothing more, until the peer leaves.
    async fn hang(&mut self) -> Result<(), Over> {
        self.requests.hang().await;
        Err(Over)
    }

    async fn refuse(&mut self, error: &ProxyError) -> Result<(), Over> {
        self.send(error_response(error)).await?;
        self.finish()
    }

    async fn send(&mut self, bytes: Bytes) -> Result<(), Over> {
        self.gather.push(bytes);
        self.write.write(&mut self.gather).await.map_err(|_| Over)
    }

    /// Sends FIN.
    fn finish(&self) -> Result<(), Over> {
        // Whether it goes well or not, the connection is over.
        let _ = self.socket.shutdown(net::Shutdown::Write);
        Err(Over)
    }
}

fn models() -> Bytes {
    let faults = ["cut-after-20", "reset-after-20", "every-10th-cut"];
    let list = model_list(EXAMPLES.into_iter().chain(faults), 1_700_000_000);
    response(200, &format!("{{\"object\":\"list\",\"data\":{list},\"names\":\"{NAMES}\"}}"))
}
