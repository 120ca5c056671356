//! The head of the request that goes to an upstream: the client's own less what is not the upstream's to see,
//! with the upstream's credentials and settings.

use std::sync::Arc;

use bytes::Bytes;

use crate::config::Upstream;
use crate::http1::{Headers, Method, encode_request_head, forward_request};

/// What is kept of a client's request head for as long as its exchange lasts.
#[derive(Debug)]
pub struct Call {
    /// What follows `/v1` in the client's path, with its leading slash.
    pub path: Bytes,
    pub query: Option<Bytes>,
    pub headers: Headers,
    pub request_id: Arc<str>,
}

/// The head of the request to `upstream`, with a body of `length` bytes.
pub fn request_head(call: &Call, upstream: &Upstream, length: usize) -> Bytes {
    let mut target = Vec::with_capacity(64 + call.path.len());
    target.extend_from_slice(upstream.base.path.as_bytes());
    target.extend_from_slice(&call.path);
    let queries = [call.query.as_deref().unwrap_or_default(), upstream.query.as_bytes()];
    for (at, query) in queries.into_iter().filter(|query| !query.is_empty()).enumerate() {
        target.push(if at == 0 { b'?' } else { b'&' });
        target.extend_from_slice(query);
    }
    let length = length.to_string();
    let auth = upstream.auth_value();
    let own = [
        (&b"host"[..], upstream.base.host_header.as_bytes()),
        (b"accept-encoding", b"identity"),
        (b"content-length", length.as_bytes()),
        (b"x-request-id", call.request_id.as_bytes()),
    ];
    let is_replaced = |name: &[u8]| {
        let is_configured = upstream.headers.iter().any(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes()));
        is_configured
            || name.eq_ignore_ascii_case(b"x-request-id")
            || name.eq_ignore_ascii_case(upstream.auth_header.as_bytes())
    };
    let passed = forward_request(&call.headers)
        .filter(|(name, _)| !is_replaced(name))
        .map(|(name, value)| (&name[..], &value[..]));
    let configured = upstream.headers.iter().map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let credentials = auth.as_ref().map(|value| (upstream.auth_header.as_bytes(), value.as_bytes()));
    let fields = own.into_iter().chain(passed).chain(configured).chain(credentials);
    encode_request_head(&Method::Post, &target, fields)
}
