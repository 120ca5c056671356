//! What can be wrong with a head: what was seen, what was expected, and where.
//!
//! No message repeats what the peer sent, since that may be a secret: fields are named by their line.

use std::borrow::Cow;

use crate::error::{Code, ProxyError};

/// A head that is not accepted. Lines are counted from 1, which is the start line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadError {
    #[error("the first byte is that of a TLS handshake, but plain HTTP is spoken here; use http://")]
    Tls,
    #[error("more than {limit} empty lines before the request line")]
    LeadingLines { limit: usize },
    #[error("the request must begin with a method of 1 to {limit} token characters and one space")]
    Method { limit: usize },
    #[error("line 1 must be a method, a target and HTTP/1.1 with one space between each")]
    RequestLine,
    #[error("line 1 names a version of HTTP that is not spoken here; use HTTP/1.1")]
    Version,
    #[error("the request target must be a path or an http(s) URL of visible ASCII without a fragment")]
    Target,
    #[error("the request target is longer than {limit} bytes")]
    TargetTooLong { limit: usize },
    #[error("the request target names no path: neither CONNECT nor OPTIONS * is served here")]
    NoPath,
    #[error("the head is longer than {limit} bytes")]
    HeadTooLarge { limit: usize },
    #[error("the head has more than {limit} fields")]
    TooManyFields { limit: usize },
    #[error("line {line} does not end in CR LF")]
    LineEnd { line: usize },
    #[error("line {line} must be a field name of token characters and directly after it a colon; no folding")]
    FieldName { line: usize },
    #[error("line {line} has a control character in its value")]
    FieldValue { line: usize },
    #[error("an HTTP/1.1 request needs a Host field")]
    HostMissing,
    #[error("a request must have only one Host field")]
    HostRepeated,
    #[error("the Host field must be a host name or address and perhaps a port")]
    HostInvalid,
    #[error("Content-Length must be one decimal number below 2^64")]
    ContentLength,
    #[error("Content-Length is given with different values")]
    LengthsDiffer,
    #[error("a request must not have both Transfer-Encoding and Content-Length")]
    LengthAndCoding,
    #[error("Transfer-Encoding must be chunked, once, and chunked must be its last coding")]
    TransferCoding,
    #[error("chunked is the only transfer coding that is spoken here")]
    UnsupportedCoding,
    #[error("an HTTP/1.0 message must not have Transfer-Encoding")]
    CodingInHttp10,
    #[error("the Connection field lists more than {limit} options")]
    ConnectionOptions { limit: usize },
    #[error("100-continue is the only expectation that is met here")]
    Expectation,
    #[error("the response does not begin with HTTP/1.0 or HTTP/1.1")]
    NotHttp,
    #[error("the status line must be HTTP/1.1, one space, and a status from 100 to 999")]
    Status,
}

impl HeadError {
    /// What to answer with. What only a response can get wrong is the upstream's fault.
    pub const fn code(self) -> Code {
        match self {
            Self::TargetTooLong { .. } => Code::TargetTooLong,
            Self::HeadTooLarge { .. } | Self::TooManyFields { .. } => Code::HeadTooLarge,
            Self::NoPath => Code::WrongMethod,
            Self::UnsupportedCoding => Code::UnsupportedMethod,
            Self::Expectation => Code::UnknownExpectation,
            Self::NotHttp | Self::Status => Code::UpstreamProtocol,
            Self::Tls
            | Self::LeadingLines { .. }
            | Self::Method { .. }
            | Self::RequestLine
            | Self::Version
            | Self::Target
            | Self::LineEnd { .. }
            | Self::FieldName { .. }
            | Self::FieldValue { .. }
            | Self::HostMissing
            | Self::HostRepeated
            | Self::HostInvalid
            | Self::ContentLength
            | Self::LengthsDiffer
            | Self::LengthAndCoding
            | Self::TransferCoding
            | Self::CodingInHttp10
            | Self::ConnectionOptions { .. } => Code::MalformedHttp,
        }
    }
}

/// For a *request's* head. A faulty response head is the end of an attempt, which `policy::retry` judges.
impl From<HeadError> for ProxyError {
    fn from(error: HeadError) -> Self {
        Self::new(error.code(), Cow::Owned(error.to_string()))
    }
}

/// A body whose framing is not accepted. `received` counts the body's bytes before the fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BodyError {
    #[error("after {received} body bytes: a chunk size must be 1 to 16 hexadecimal digits")]
    ChunkSize { received: u64 },
    #[error(
        "after {received} body bytes: a chunk's size line must end in CR LF and hold no control character"
    )]
    ChunkLine { received: u64 },
    #[error("after {received} body bytes: a chunk is longer than its size said, CR LF was expected")]
    ChunkEnd { received: u64 },
    #[error("after {received} body bytes: more than {limit} bytes of chunk extensions")]
    ExtensionsTooLong { received: u64, limit: usize },
    #[error("after {received} body bytes: a trailer line must be a field and end in CR LF")]
    Trailer { received: u64 },
    #[error("after {received} body bytes: more than {limit} bytes of trailers")]
    TrailersTooLong { received: u64, limit: usize },
    /// The connection ended before the body did (RFC 9112, section 8).
    #[error("the body was cut after {received} bytes{}", of(*announced))]
    Truncated { received: u64, announced: Option<u64> },
}

/// For a *request's* body. A faulty response body is a trigger, which `policy::trigger` judges.
impl From<BodyError> for ProxyError {
    fn from(error: BodyError) -> Self {
        Self::new(Code::MalformedHttp, Cow::Owned(error.to_string()))
    }
}

fn of(announced: Option<u64>) -> String {
    announced.map(|bytes| format!(" of {bytes}")).unwrap_or_default()
}
