//! A message's fields, and which of them may be passed on.
//!
//! Fields that speak of one connection end at this hop (RFC 9110, section 7.6.1); credentials are the proxy's
//! own on the upstream's side; framing fields are written anew by whoever sends.

use std::fmt;

use bytes::Bytes;
use smallvec::SmallVec;

/// Fields in the order sent: names as sent, values without the white space around them.
///
/// Names are compared without regard to case. `Debug` shows no values, since they may be secrets.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Headers(Vec<(Bytes, Bytes)>);

impl Headers {
    /// None yet, with room for `count`.
    pub fn with_capacity(count: usize) -> Self {
        Self(Vec::with_capacity(count))
    }

    /// The first value under that name.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Option<&Bytes> {
        let name = name.as_ref();
        self.0.iter().find(|field| field.0.eq_ignore_ascii_case(name)).map(|field| &field.1)
    }

    /// Every value under that name, in order.
    pub fn all<'a>(&'a self, name: &'a (impl AsRef<[u8]> + ?Sized)) -> impl Iterator<Item = &'a Bytes> {
        let name = name.as_ref();
        self.0.iter().filter(move |field| field.0.eq_ignore_ascii_case(name)).map(|field| &field.1)
    }

    /// Every name and value, in order.
    pub fn iter(&self) -> std::slice::Iter<'_, (Bytes, Bytes)> {
        self.0.iter()
    }

    /// Adds a field behind the others.
    pub fn push(&mut self, name: impl Into<Bytes>, value: impl Into<Bytes>) {
        self.0.push((name.into(), value.into()));
    }

    /// How many field lines there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The elements of a comma-separated list over all lines of that name, white space trimmed, empty ones
    /// included (RFC 9110, section 5.6.1). Not for lists whose elements may be quoted strings.
    pub(super) fn list<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a [u8]> {
        self.all(name).flat_map(|value| value.split(|&byte| byte == b',')).map(<[u8]>::trim_ascii)
    }
}

impl<'a> IntoIterator for &'a Headers {
    type Item = &'a (Bytes, Bytes);
    type IntoIter = std::slice::Iter<'a, (Bytes, Bytes)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl fmt::Debug for Headers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fields = self.iter().map(|(name, value)| (name, format!("{} bytes", value.len())));
        f.debug_map().entries(fields).finish()
    }
}

/// Speak of one connection only, named by `Connection` or not (RFC 9110, section 7.6.1).
const HOP_BY_HOP: &[&str] = &[
    "connection",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Written anew for the upstream, or the client's secrets and accounts, which are no upstream's business.
const NOT_TO_UPSTREAM: &[&str] = &[
    "accept-encoding",
    "api-key",
    "authorization",
    "content-length",
    "cookie",
    "expect",
    "host",
    "openai-organization",
    "openai-project",
    "x-api-key",
];

/// Written anew for the client, or about the upstream's host, which is not the one that the client talks to.
const NOT_TO_CLIENT: &[&str] = &[
    "alt-svc",
    "content-length",
    "server",
    "set-cookie",
    "strict-transport-security",
    "via",
    "x-request-id",
];

/// Names that belong to this proxy: neither side may set them on the other.
const OWN_PREFIX: &[u8] = b"x-baton-";

/// The fields of a client's request that may go to an upstream, in order.
pub fn forward_request(headers: &Headers) -> impl Iterator<Item = &(Bytes, Bytes)> {
    forward(headers, NOT_TO_UPSTREAM)
}

/// The fields of an upstream's response that may go to the client, in order.
pub fn forward_response(headers: &Headers) -> impl Iterator<Item = &(Bytes, Bytes)> {
    forward(headers, NOT_TO_CLIENT)
}

fn forward<'a>(headers: &'a Headers, dropped: &'static [&str]) -> impl Iterator<Item = &'a (Bytes, Bytes)> {
    let named: SmallVec<[&[u8]; 8]> = headers.list("connection").collect();
    headers.iter().filter(move |(name, _)| {
        let is_own = name.get(..OWN_PREFIX.len()).is_some_and(|start| start.eq_ignore_ascii_case(OWN_PREFIX));
        !(is_own
            || HOP_BY_HOP.iter().chain(dropped).any(|other| name.eq_ignore_ascii_case(other.as_bytes()))
            || named.iter().any(|other| name.eq_ignore_ascii_case(other)))
    })
}

#[cfg(test)]
mod tests;
