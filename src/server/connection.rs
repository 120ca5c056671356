//! One client connection: requests in, responses out, in order, for as long as both sides want.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net;
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

use bytes::BytesMut;

use super::account::{Asking, count_limit};
use super::answer::{Begun, Relayed};
use super::inbox::Inbox;
use super::registry::{Registered, Registry};
use super::request::{self, Arrival, HeadWait};
use super::respond::Response;
use crate::actor::client::Writer;
use crate::actor::context::Context;
use crate::actor::core::CoreMsg;
use crate::actor::reply::{DIED, Progress};
use crate::error::{Code, ProxyError};
use crate::http1::{HeadLimits, Version};
use crate::net::task::within;
use crate::net::{Connection, clock, task};
use crate::telemetry::Limit;

/// How long an error is left for the client to read before the connection is closed, while what the client still
/// sends is thrown away: closing with unread input would reset the connection and eat the error (RFC 9112, section 9.6).
const LINGER: Duration = Duration::from_secs(2);

/// What the connections of a core share.
pub struct Core {
    pub context: Rc<Context>,
    pub registry: Rc<Registry>,
    pub actor: ractor::ActorRef<CoreMsg>,
}

/// What follows a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Next {
    KeepAlive,
    /// Close once the client has had time to read.
    Linger,
    Close,
    /// Close so that the client does not take the end of the connection for the end of the body.
    Reset,
}

pub struct Client {
    pub core: Rc<Core>,
    pub inbox: Rc<Inbox>,
    pub writer: Rc<RefCell<Writer>>,
    pub unread: BytesMut,
    pub registered: Registered,
    shutdown: crate::net::Shutdown,
}

/// Serves a connection to its end.
pub async fn serve(connection: Connection, core: Rc<Core>) {
    let Connection { read, write, shutdown } = connection;
    let inbox = Inbox::new(core.context.shared.config.server.half_close, shutdown.clone());
    let mut closing =
        Closing { inbox: Rc::clone(&inbox), shutdown: shutdown.clone(), how: net::Shutdown::Both };
    let (filled, broken) = (Rc::clone(&inbox), Rc::clone(&inbox));
    task::spawn(filled.fill(read), move |_| broken.broke());
    let registered = core.registry.register(shutdown.clone(), write.progress());
    let mut client =
        Client { core, inbox, writer: Writer::new(write), unread: BytesMut::new(), registered, shutdown };
    closing.how = client.serve().await;
}

/// Closes the socket when the connection's task ends, by a panic too; its reading task ends with it.
struct Closing {
    inbox: Rc<Inbox>,
    shutdown: crate::net::Shutdown,
    how: net::Shutdown,
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.inbox.close();
        self.shutdown.shutdown(self.how);
    }
}

impl Client {
    /// Answers requests until there is no more to do than to shut the socket down, in the way that comes back.
    async fn serve(&mut self) -> net::Shutdown {
        let mut is_first = true;
        loop {
            // Boxed: a connection that streams should carry no more than that takes.
            let next = match Box::pin(self.next_request(is_first)).await {
                Arrival::Head(head) => match Box::pin(self.begin(*head)).await {
                    Begun::Answered(next) => next,
                    Begun::Exchange(relayed) => self.relay(relayed).await,
                },
                Arrival::Closed => return net::Shutdown::Both,
                Arrival::Bad(error) => {
                    let asking = Asking::unread();
                    count_limit(&self.core.context.shared, &error, Limit::HeaderTimeout);
                    Box::pin(self.refuse(Version::Http11, &asking, error, true)).await
                }
            };
            match next {
                Next::KeepAlive if !self.core.registry.is_draining() => is_first = false,
                Next::KeepAlive | Next::Linger => {
                    Box::pin(self.linger()).await;
                    return net::Shutdown::Both;
                }
                Next::Close => return net::Shutdown::Both,
                Next::Reset => {
                    // The reset is sent when the descriptor is closed; shutting both sides down would send a FIN first.
                    self.shutdown.set_linger_zero();
                    return net::Shutdown::Read;
                }
            }
        }
    }

    /// Sees that what the `Stream` sends is written, until the response ends or the client is gone.
    async fn relay(&mut self, relayed: Relayed) -> Next {
        let next = self.relay_to_end(&relayed).await;
        self.inbox.end_exchange();
        relayed.queue.client_gone_unless_ended();
        next
    }

    async fn relay_to_end(&mut self, relayed: &Relayed) -> Next {
        let queue = &relayed.queue;
        loop {
            let is_client_gone = {
                let mut next = pin!(queue.next());
                let mut gone = pin!(self.inbox.client_gone());
                std::future::poll_fn(|cx| {
                    if next.as_mut().poll(cx).is_ready() {
                        return Poll::Ready(false);
                    }
                    gone.as_mut().poll(cx).map(|()| true)
                })
                .await
            };
            if is_client_gone || queue.is_broken() || self.flush().await.is_err() {
                return Next::Close;
            }
            queue.written();
            let (keep_alive, ends_with_connection) = queue.ends();
            match queue.progress() {
                Progress::More => {}
                Progress::Done if keep_alive => return Next::KeepAlive,
                Progress::Done => return Next::Linger,
                Progress::Cut if ends_with_connection => return Next::Reset,
                Progress::Cut => return Next::Linger,
                Progress::Unanswered => {
                    let response = Response::from(ProxyError::new(Code::Internal, DIED));
                    return Box::pin(self.write(
                        relayed.version,
                        &relayed.call.request_id,
                        response,
                        keep_alive,
                        true,
                    ))
                    .await;
                }
            }
        }
    }

    async fn next_request(&mut self, is_first: bool) -> Arrival {
        let config = &self.core.context.shared.config;
        let server = &config.server;
        let wait = HeadWait {
            limits: HeadLimits { bytes: config.limits.head, fields: config.limits.head_fields },
            idle: if is_first { server.header_timeout } else { server.idle_timeout },
            whole: server.header_timeout,
        };
        let has_begun = Cell::new(!self.unread.is_empty());
        let mut reading = pin!(request::read_head(&self.inbox, &mut self.unread, &wait, &has_begun));
        let (registry, entry) = (&self.core.registry, &self.registered.entry);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(arrival) = reading.as_mut().poll(cx) {
                return Poll::Ready(arrival);
            }
            if !has_begun.get() && !is_first && registry.is_draining() {
                return Poll::Ready(Arrival::Closed);
            }
            entry.keep_idle(cx.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Ends the connection so that the client can read all that was written.
    async fn linger(&mut self) {
        self.registered.entry.write_begins(clock::now());
        let finished = std::future::poll_fn(|cx| self.writer.borrow_mut().half.poll_finish(cx)).await;
        self.registered.entry.write_ended();
        if finished.is_ok() {
            let _still_sending = within(LINGER, self.inbox.discard()).await;
        }
    }
}
