//! Bytes <-> HTTP/1.1 values: heads, body framing, and which fields may pass. No socket, no clock.
//!
//! A read buffer goes in, values that share it come out: names, values and body data are slices of what was
//! read, never copies. "Not enough bytes yet" is a result, and where the input was cut changes nothing.
//!
//! Strict towards clients, since whoever reads a request differently than the next hop can smuggle a second
//! one through (RFC 9112, section 11.2); towards upstreams tolerant where only one reading is possible.
//!
//! # Left out
//! Routing, limits of body sizes, time limits.

mod body;
pub mod coding;
mod encode;
mod error;
mod framing;
mod head;
mod headers;
mod line;

pub use body::*;
pub use encode::*;
pub use error::*;
pub use head::*;
pub use headers::*;

/// What bounds a head that is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadLimits {
    /// The whole head, its empty line included. A request target may take half of it.
    pub bytes: usize,
    /// Field lines.
    pub fields: usize,
}

impl Default for HeadLimits {
    /// 64 KiB and 200 fields: the heads of content delivery networks pass 32 KiB and 150 fields.
    fn default() -> Self {
        Self { bytes: 64 * 1024, fields: 200 }
    }
}

/// Any later minor version of HTTP/1 in a request is read as 1.1 (RFC 9110, section 2.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    Http10,
    Http11,
}

/// How the end of a message's body is known (RFC 9112, section 6.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Framing {
    /// There is no body.
    None,
    /// That many bytes.
    Length(u64),
    Chunked,
    /// Responses only: what comes until the connection's end.
    UntilClose,
}

/// `tchar` of RFC 9110, section 5.6.2: what methods and field names are made of.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}
