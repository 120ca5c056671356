//! Reading one request of a connection: its head, then its body, each under its limits.

use std::cell::Cell;
use std::time::Duration;

use bytes::{Bytes, BytesMut};

use super::inbox::Inbox;
use crate::actor::budget::Lease;
use crate::error::{Code, ProxyError};
use crate::http1::{Decoded, Decoder, Framing, HeadLimits, HeadReader, RequestHead};
use crate::net::task::within;

/// What came of waiting for a request.
pub enum Arrival {
    Head(Box<RequestHead>),
    /// The client has ended the connection, or stayed silent too long: nothing to answer.
    Closed,
    /// It must be answered with this error, and the connection closed.
    Bad(ProxyError),
}

/// Limits of a request head.
pub struct HeadWait {
    pub limits: HeadLimits,
    /// Until the first byte.
    pub idle: Duration,
    /// From the first byte on: the whole head.
    pub whole: Duration,
}

/// Reads a head. `unread` holds what came before and what comes behind the head; `has_begun` becomes true with the
/// head's first byte.
pub async fn read_head(
    inbox: &Inbox,
    unread: &mut BytesMut,
    wait: &HeadWait,
    has_begun: &Cell<bool>,
) -> Arrival {
    let mut reader = HeadReader::new(wait.limits);
    if unread.is_empty() {
        match within(wait.idle, inbox.take()).await {
            Some(Some(chunk)) => take_over(unread, chunk),
            Some(None) | None => return Arrival::Closed,
        }
    }
    has_begun.set(true);
    let whole = async {
        loop {
            match reader.request(unread) {
                Ok(Some(head)) => return Arrival::Head(Box::new(head)),
                Ok(None) => {}
                Err(error) => return Arrival::Bad(error.into()),
            }
            match inbox.take().await {
                Some(chunk) => take_over(unread, chunk),
                None => return Arrival::Closed,
            }
        }
    };
    match within(wait.whole, whole).await {
        Some(arrival) => arrival,
        None => {
            let message = format!("The request head did not arrive within {:?}.", wait.whole);
            Arrival::Bad(ProxyError::new(Code::RequestTimeout, message))
        }
    }
}

/// Adds a chunk to what is there, without a copy if that is nothing.
fn take_over(unread: &mut BytesMut, chunk: Bytes) {
    if unread.is_empty() {
        *unread = BytesMut::from(chunk);
    } else {
        unread.extend_from_slice(&chunk);
    }
}

/// Why there is no body.
pub enum NoBody {
    /// The client left.
    Closed,
    Bad(ProxyError),
}

/// Limits of a request body.
pub struct BodyWait {
    /// The whole body, bytes.
    pub bytes_max: usize,
    /// Between two reads.
    pub pause: Duration,
}

/// Reads a body whole. What comes behind it is left in `unread`.
pub async fn read_body(
    inbox: &Inbox,
    unread: &mut BytesMut,
    framing: Framing,
    wait: &BodyWait,
    lease: &Lease,
) -> Result<Bytes, NoBody> {
    let announced = announced(framing, wait.bytes_max).map_err(NoBody::Bad)?;
    // A length that is only claimed reserves little.
    let mut body = BytesMut::with_capacity(announced.min(RESERVED_MAX));
    let mut decoder = Decoder::new(framing);
    let mut chunk = unread.split().freeze();
    loop {
        match decoder.decode(&mut chunk) {
            Ok(Decoded::Data(data)) => {
                if body.len() + data.len() > wait.bytes_max {
                    return Err(NoBody::Bad(too_large(wait.bytes_max)));
                }
                body.extend_from_slice(&data);
                lease.set(body.capacity());
            }
            Ok(Decoded::End) => {
                *unread = BytesMut::from(chunk);
                return Ok(body.freeze());
            }
            Ok(Decoded::More) => {
                chunk = match within(wait.pause, inbox.take()).await {
                    Some(Some(chunk)) => chunk,
                    Some(None) => return Err(NoBody::Closed),
                    None => {
                        let message = format!("Nothing of the request body came for {:?}.", wait.pause);
                        return Err(NoBody::Bad(ProxyError::new(Code::RequestTimeout, message)));
                    }
                }
            }
            Err(error) => {
                let message = format!("The request body is malformed: {error}.");
                return Err(NoBody::Bad(ProxyError::new(Code::MalformedHttp, message)));
            }
        }
    }
}

/// What is reserved for a body at once; it grows with what really comes.
const RESERVED_MAX: usize = 1024 * 1024;

/// The announced length; an error if that is too much, before anything of it is read.
pub fn announced(framing: Framing, bytes_max: usize) -> Result<usize, ProxyError> {
    match framing {
        Framing::Length(length) => match usize::try_from(length) {
            Ok(length) if length <= bytes_max => Ok(length),
            _ => Err(too_large(bytes_max)),
        },
        Framing::None | Framing::Chunked | Framing::UntilClose => Ok(0),
    }
}

fn too_large(bytes_max: usize) -> ProxyError {
    let message = format!("The request body is larger than {bytes_max} bytes, the limit here.");
    ProxyError::new(Code::BodyTooLarge, message)
}
