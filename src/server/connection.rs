//! One client connection: requests in, responses out, in order, for as long as both sides want.

use std::cell::{Cell, RefCell};
use std::future::Future;
use std::net;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::account::{Asking, count_limit};
use super::auth;
use super::inbox::Inbox;
use super::registry::{Registered, Registry};
use super::request::{self, Arrival, BodyWait, HeadWait, NoBody};
use super::respond::{self, Response};
use super::routing::{self, Action};
use crate::actor::budget::Lease;
use crate::actor::call::Call;
use crate::actor::client::{ClientQueue, Writer, channel};
use crate::actor::context::Context;
use crate::actor::core::CoreMsg;
use crate::actor::credit::Credit;
use crate::actor::reply::{DIED, Progress, Reply};
use crate::actor::stream::Serve;
use crate::actor::turn;
use crate::config::{ClientKey, Config};
use crate::error::{Code, ProxyError};
use crate::exchange::{Request, Shape};
use crate::http1::{Framing, HeadLimits, Method, RequestHead, Version};
use crate::net::task::within;
use crate::net::{Connection, clock, task};
use crate::protocol::request::peek;
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
enum Next {
    KeepAlive,
    /// Close once the client has had time to read.
    Linger,
    Close,
    /// Close so that the client does not take the end of the connection for the end of the body.
    Reset,
}

struct Client {
    core: Rc<Core>,
    inbox: Rc<Inbox>,
    writer: Rc<RefCell<Writer>>,
    unread: BytesMut,
    registered: Registered,
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
            let next = match self.next_request(is_first).await {
                Arrival::Head(head) => self.answer(*head).await,
                Arrival::Closed => return net::Shutdown::Both,
                Arrival::Bad(error) => {
                    let asking = Asking::unread();
                    count_limit(&self.core.context.shared, &error, Limit::HeaderTimeout);
                    self.refuse(Version::Http11, &asking, error, true).await
                }
            };
            match next {
                Next::KeepAlive if !self.core.registry.is_draining() => is_first = false,
                Next::KeepAlive | Next::Linger => {
                    self.linger().await;
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

    fn config(&self) -> &Config {
        &self.core.context.shared.config
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

    /// Answers one request.
    async fn answer(&mut self, head: RequestHead) -> Next {
        let mut asking = Asking::new(&head);
        let shared = Arc::clone(&self.core.context.shared);
        let with_body = head.method != Method::Head;
        let admitted = self.admit(&head, &shared.config);
        let (action, key) = match admitted {
            Ok(admitted) => admitted,
            Err(response) => {
                return self.respond(&head, &asking, response, !has_body(&head), with_body).await;
            }
        };
        asking.keyed(key);
        if head.expect_continue && has_body(&head) && self.unread.is_empty() {
            self.writer.borrow_mut().out.push(Bytes::from_static(respond::CONTINUE));
            if self.flush().await.is_err() {
                return Next::Close;
            }
        }
        let lease = self.core.context.shared.budget.lease(self.core.context.core);
        let wait = BodyWait {
            bytes_max: shared.config.limits.request_body,
            pause: shared.config.server.body_timeout,
        };
        let body = request::read_body(&self.inbox, &mut self.unread, head.framing, &wait, &lease).await;
        let body = match body {
            Ok(body) => body,
            Err(NoBody::Closed) => return Next::Close,
            Err(NoBody::Bad(error)) => {
                count_limit(&shared, &error, Limit::BodyTimeout);
                return self.refuse(head.version, &asking, error, with_body).await;
            }
        };
        match action {
            Action::ListModels => {
                let response = respond::models(&shared.config, key);
                self.respond(&head, &asking, response, true, with_body).await
            }
            Action::ShowModel(name) => {
                let response = respond::model(&shared.config, key, &name);
                self.respond(&head, &asking, response, true, with_body).await
            }
            Action::Chat => self.exchange(head, asking, body, key, true, lease).await,
            Action::Relay => self.exchange(head, asking, body, key, false, lease).await,
        }
    }

    /// What is decided before the body is read.
    fn admit<'c>(
        &self,
        head: &RequestHead,
        config: &'c Config,
    ) -> Result<(Action, Option<&'c ClientKey>), Response> {
        let action = routing::action(head).map_err(Response::from)?;
        let key = auth::authenticate(&head.headers, &config.keys).map_err(Response::from)?;
        let announced = request::announced(head.framing, config.limits.request_body);
        let is_asking = matches!(action, Action::Chat | Action::Relay);
        let shared = &self.core.context.shared;
        let room = announced.and_then(|_| {
            let message = "Too much is buffered here at the moment; try again in a second.";
            let is_spent = is_asking && shared.budget.is_spent();
            if is_spent { Err(ProxyError::new(Code::Overloaded, message)) } else { Ok(()) }
        });
        room.inspect_err(|error| count_limit(shared, error, Limit::BodyTimeout)).map_err(Response::from)?;
        Ok((action, key))
    }

    /// Has the request answered by a `Stream`.
    async fn exchange(
        &mut self,
        head: RequestHead,
        asking: Asking,
        body: Bytes,
        key: Option<&ClientKey>,
        is_chat: bool,
        lease: Lease,
    ) -> Next {
        let (version, read) = (head.version, clock::now());
        let keep_alive = head.keep_alive && !self.core.registry.is_draining();
        let planned =
            routing::fallback_limit(&head).and_then(|limit| Ok((limit, self.plan(body, key, is_chat)?)));
        let (limit, (route, request)) = match planned {
            Ok(planned) => planned,
            Err(error) => return self.respond(&head, &asking, error.into(), true, true).await,
        };
        let below_root = head.path.slice("/v1".len()..);
        let Asking { request_id, path, began, key } = asking;
        let call = Call { path: below_root, query: head.query, headers: head.headers, request_id };
        let call = Arc::new(call);
        let context = Rc::clone(&self.core.context);
        let window = context.shared.config.limits.window;
        let credit = Credit::new(window, context.shared.budget.lease(context.core));
        let plan = context.plan(route, limit);
        let is_chat_stream = request.shape == Shape::ChatStream;
        let reply = Reply::new(version, Arc::clone(&call), keep_alive, Arc::clone(&plan), is_chat_stream);
        let (port, queue) = channel(credit, reply, Rc::clone(&self.writer));
        self.inbox.begin_exchange(&queue);
        let serve = Serve { route, plan, request, call: Arc::clone(&call), port, key, path, began, read };
        // The `Stream` accounts for the body from here on.
        drop(lease);
        if turn::cast(&self.core.actor, CoreMsg::Serve(Box::new(serve))).is_err() {
            tracing::error!(request_id = &*call.request_id, "the Core takes no requests any more");
        }
        let next = self.relay(&queue, version, &call).await;
        self.inbox.end_exchange();
        queue.client_gone_unless_ended();
        next
    }

    /// The route that a body asks for, and the request as the machine takes it.
    fn plan(
        &self,
        body: Bytes,
        key: Option<&ClientKey>,
        is_chat: bool,
    ) -> Result<(usize, Request), ProxyError> {
        let peek = peek(&body)?;
        let config = self.config();
        let (route, _) = config.route(&peek.model).ok_or_else(|| respond::unknown_model(&peek.model))?;
        if key.is_some_and(|key| !key.allows(&config.routes[route].name)) {
            let message = "This API key may not use this model; GET /v1/models lists those it may.";
            return Err(ProxyError::new(Code::RouteNotAllowed, message).with_param("model"));
        }
        if is_chat && peek.messages.is_none() {
            let message = "The member \"messages\" is missing; it must be an array of messages.";
            return Err(ProxyError::new(Code::InvalidValue, message).with_param("messages"));
        }
        let shape = match (is_chat, peek.stream) {
            (true, true) => Shape::ChatStream,
            (true, false) => Shape::ChatPlain,
            (false, _) => Shape::Opaque,
        };
        Ok((route, Request { shape, body, peek }))
    }

    /// Sees that what the `Stream` sends is written, until the response ends or the client is gone.
    async fn relay(&mut self, queue: &ClientQueue, version: Version, call: &Call) -> Next {
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
                    return self.write(version, &call.request_id, response, keep_alive, true).await;
                }
            }
        }
    }

    /// Writes an error and has the connection closed.
    async fn refuse(
        &mut self,
        version: Version,
        asking: &Asking,
        error: ProxyError,
        with_body: bool,
    ) -> Next {
        let response = Response::from(error);
        response.log(&asking.request_id);
        asking.answered(&self.core.context.shared, response.status, response.body.len());
        self.write(version, &asking.request_id, response, false, with_body).await
    }

    /// Writes a response of Baton's own. `is_read`: nothing of the request is unread.
    async fn respond(
        &mut self,
        head: &RequestHead,
        asking: &Asking,
        response: Response,
        is_read: bool,
        with_body: bool,
    ) -> Next {
        let keep_alive = head.keep_alive && is_read && !self.core.registry.is_draining();
        response.log(&asking.request_id);
        asking.answered(&self.core.context.shared, response.status, response.body.len());
        self.write(head.version, &asking.request_id, response, keep_alive, with_body).await
    }

    async fn write(
        &mut self,
        version: Version,
        request_id: &str,
        response: Response,
        keep_alive: bool,
        with_body: bool,
    ) -> Next {
        response.encode(version, request_id, keep_alive, with_body, &mut self.writer.borrow_mut().out);
        match self.flush().await {
            Ok(()) if keep_alive => Next::KeepAlive,
            Ok(()) => Next::Linger,
            Err(_) => Next::Close,
        }
    }

    /// Writes all that was pushed; a write that makes no progress is ended by the registry.
    async fn flush(&mut self) -> std::io::Result<()> {
        if self.writer.borrow().out.is_empty() {
            return Ok(());
        }
        let entry = &self.registered.entry;
        entry.write_begins(clock::now());
        let written = std::future::poll_fn(|cx| self.writer.borrow_mut().poll_flush(cx)).await;
        entry.write_ended();
        if written.is_err() {
            self.writer.borrow_mut().out.clear();
        }
        written
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

fn has_body(head: &RequestHead) -> bool {
    !matches!(head.framing, Framing::None | Framing::Length(0))
}
