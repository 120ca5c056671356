//! What is logged and counted of a request that Baton answers by itself: refusals, errors, the list of models.

use std::sync::Arc;

use bytes::Bytes;

use crate::actor::context::Shared;
use crate::config::ClientKey;
use crate::error::{Code, ProxyError};
use crate::net::clock;
use crate::telemetry::{Limit, OwnAnswer};
use crate::time::MonoTime;

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
    pub fn new(request_id: Arc<str>, path: Bytes) -> Self {
        Self { request_id, path, began: clock::now(), key: None }
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
