//! What is logged and counted of a request that Baton answers by itself: refusals, errors, the list of models.

use std::sync::Arc;

use bytes::Bytes;

use crate::actor::context::Shared;
use crate::config::ClientKey;
use crate::error::{Code, ProxyError};
use crate::http1::RequestHead;
use crate::net::clock;
use crate::telemetry::{Limit, OwnAnswer};
use crate::time::MonoTime;

/// A request id that a client may give.
const REQUEST_ID_MAX: usize = 128;

/// The request that is being answered on a connection.
pub struct Asking {
    pub request_id: Arc<str>,
    /// Without its query; empty if the head was not usable.
    pub path: Bytes,
    /// When its head was read.
    pub began: MonoTime,
    /// The client key's name, once it is known.
    pub key: Option<String>,
}

impl Asking {
    /// A request whose head was just read.
    pub fn new(head: &RequestHead) -> Self {
        Self { request_id: request_id(head), path: head.path.clone(), began: clock::now(), key: None }
    }

    /// One without a usable head.
    pub fn unread() -> Self {
        Self { request_id: new_request_id(), path: Bytes::new(), began: clock::now(), key: None }
    }

    pub fn keyed(&mut self, key: Option<&ClientKey>) {
        self.key = key.map(|key| key.name.clone());
    }

    /// Counts and logs an answer that is about to be written.
    pub fn answered(&self, shared: &Shared, status: u16, bytes: usize) {
        let answer = OwnAnswer {
            request_id: &self.request_id,
            key: self.key.as_deref(),
            path: &self.path,
            status,
            bytes,
            took: clock::now().since(self.began),
        };
        shared.telemetry.own_answer(&answer, clock::unix_now());
    }
}

/// Counts the limit that an error tells of, if it tells of one. `timeout`: which of them a time-out is.
pub fn count_limit(shared: &Shared, error: &ProxyError, timeout: Limit) {
    let limit = match error.code {
        Code::Overloaded => Limit::BufferedBytes,
        Code::BodyTooLarge => Limit::RequestBody,
        Code::HeadTooLarge | Code::TargetTooLong => Limit::Head,
        Code::RequestTimeout => timeout,
        _ => return,
    };
    shared.telemetry.metrics.reached(limit);
}

/// The client's own request id if it is one, else a new one.
fn request_id(head: &RequestHead) -> Arc<str> {
    let given = head.headers.get("x-request-id").and_then(|value| std::str::from_utf8(value).ok());
    let is_usable = |id: &&str| {
        !id.is_empty() && id.len() <= REQUEST_ID_MAX && id.bytes().all(|byte| byte.is_ascii_graphic())
    };
    given.filter(is_usable).map_or_else(new_request_id, Arc::from)
}

fn new_request_id() -> Arc<str> {
    Arc::from(format!("req-{:032x}", fastrand::u128(..)))
}
