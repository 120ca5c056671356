//! Answering one request of a connection: by Baton itself, or through a `Stream`.

use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;

use super::account::{Asking, count_limit};
use super::auth;
use super::connection::{Client, Next};
use super::request::{self, BodyWait, NoBody};
use super::respond::{self, Response};
use super::routing::{self, Action};
use crate::actor::call::Call;
use crate::actor::client::{ClientQueue, channel};
use crate::actor::core::CoreMsg;
use crate::actor::credit::Credit;
use crate::actor::reply::Reply;
use crate::actor::stream::Serve;
use crate::actor::turn;
use crate::config::{ClientKey, Config};
use crate::error::{Code, ProxyError};
use crate::exchange::{FallbackLimit, Request, Shape};
use crate::http1::{Framing, Method, RequestHead, Version};
use crate::net::clock;
use crate::protocol::request::peek;
use crate::telemetry::Limit;

/// What became of a request once it was read.
pub enum Begun {
    /// It was answered.
    Answered(Next),
    Exchange(Relayed),
}

/// A request that a `Stream` answers.
pub struct Relayed {
    pub queue: ClientQueue,
    pub version: Version,
    pub call: Arc<Call>,
}

impl Client {
    /// Reads what is left of a request and answers it, or has a `Stream` begin to.
    pub async fn begin(&mut self, head: RequestHead) -> Begun {
        let mut asking = Asking::new(&head);
        let shared = Arc::clone(&self.core.context.shared);
        let with_body = head.method != Method::Head;
        let admitted = self.admit(&head, &shared.config);
        let (action, key) = match admitted {
            Ok(admitted) => admitted,
            Err(response) => {
                let is_read = !has_body(&head);
                return Begun::Answered(self.respond(&head, &asking, response, is_read, with_body).await);
            }
        };
        asking.keyed(key);
        if head.expect_continue && has_body(&head) && self.unread.is_empty() {
            self.writer.borrow_mut().out.push(Bytes::from_static(respond::CONTINUE));
            if self.flush().await.is_err() {
                return Begun::Answered(Next::Close);
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
            Err(NoBody::Closed) => return Begun::Answered(Next::Close),
            Err(NoBody::Bad(error)) => {
                count_limit(&shared, &error, Limit::BodyTimeout);
                return Begun::Answered(self.refuse(head.version, &asking, error, with_body).await);
            }
        };
        let response = match action {
            Action::ListModels => respond::models(&shared.config, key),
            Action::ShowModel(name) => respond::model(&shared.config, key, &name),
            Action::Chat | Action::Relay => {
                let is_chat = matches!(action, Action::Chat);
                match routing::fallback_limit(&head)
                    .and_then(|limit| Ok((limit, self.plan(body, key, is_chat)?)))
                {
                    Ok((limit, (route, request))) => {
                        // The `Stream` accounts for the body from here on.
                        drop(lease);
                        return Begun::Exchange(self.exchange(head, asking, route, limit, request));
                    }
                    Err(error) => error.into(),
                }
            }
        };
        Begun::Answered(self.respond(&head, &asking, response, true, with_body).await)
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
    fn exchange(
        &mut self,
        head: RequestHead,
        asking: Asking,
        route: usize,
        limit: FallbackLimit,
        request: Request,
    ) -> Relayed {
        let (version, read) = (head.version, clock::now());
        let keep_alive = head.keep_alive && !self.core.registry.is_draining();
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
        if turn::cast(&self.core.actor, CoreMsg::Serve(Box::new(serve))).is_err() {
            tracing::error!(request_id = &*call.request_id, "the Core takes no requests any more");
        }
        Relayed { queue, version, call }
    }

    /// The route that a body asks for, and the request as the machine takes it.
    fn plan(
        &self,
        body: Bytes,
        key: Option<&ClientKey>,
        is_chat: bool,
    ) -> Result<(usize, Request), ProxyError> {
        let peek = peek(&body)?;
        let config = &self.core.context.shared.config;
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

    /// Writes an error and has the connection closed.
    pub async fn refuse(
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

    pub async fn write(
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
    pub async fn flush(&mut self) -> std::io::Result<()> {
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
}

fn has_body(head: &RequestHead) -> bool {
    !matches!(head.framing, Framing::None | Framing::Length(0))
}
