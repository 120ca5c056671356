//! HTTP/1.1 as scripted upstreams speak it: requests are read whole, short answers are written in one piece.

use bytes::{Bytes, BytesMut};

use crate::error::{Code, ProxyError, error_object};
use crate::http1::{
    Decoded, Decoder, Framing, HeadLimits, HeadReader, RequestHead, Version, encode_response_head,
};
use crate::net::ReadHalf;

/// The largest request body, in bytes; Baton's own default.
pub const BODY_BYTES_MAX: u64 = 32 << 20;

/// Reads the requests of one connection.
pub struct Requests {
    read: ReadHalf,
    heads: HeadReader,
    buffer: BytesMut,
}

/// Why there is no request.
pub enum NoRequest {
    /// The peer has left.
    Over,
    /// It is to be answered with this, and the connection of no use afterwards.
    Bad(ProxyError),
}

impl Requests {
    pub fn new(read: ReadHalf) -> Self {
        Self { read, heads: HeadReader::new(HeadLimits::default()), buffer: BytesMut::new() }
    }

    /// Waits for the next head.
    ///
    /// # Errors
    /// See [`NoRequest`].
    pub async fn head(&mut self) -> Result<RequestHead, NoRequest> {
        loop {
            match self.heads.request(&mut self.buffer) {
                Ok(Some(head)) => return Ok(head),
                Ok(None) => {
                    let more = self.more().await?;
                    self.buffer.extend_from_slice(&more);
                }
                Err(error) => return Err(malformed(&error)),
            }
        }
    }

    /// Reads the body that belongs to a head; what follows it is kept.
    ///
    /// # Errors
    /// See [`NoRequest`]: it is malformed, or too large.
    pub async fn body(&mut self, framing: Framing) -> Result<Bytes, NoRequest> {
        let mut decoder = Decoder::new(framing);
        let mut input = self.buffer.split().freeze();
        let mut body = BytesMut::new();
        loop {
            match decoder.decode(&mut input) {
                Ok(Decoded::Data(data)) => body.extend_from_slice(&data),
                Ok(Decoded::More) => input = self.more().await?,
                Ok(Decoded::End) => break,
                Err(error) => return Err(malformed(&error)),
            }
            if decoder.received() > BODY_BYTES_MAX {
                return Err(NoRequest::Bad(too_large()));
            }
        }
        self.buffer.extend_from_slice(&input);
        Ok(body.freeze())
    }

    /// Reads until the peer leaves.
    pub async fn hang(&mut self) {
        while self.more().await.is_ok() {}
    }

    async fn more(&mut self) -> Result<Bytes, NoRequest> {
        match self.read.read().await {
            Ok(bytes) if !bytes.is_empty() => Ok(bytes),
            Ok(_) | Err(_) => Err(NoRequest::Over),
        }
    }
}

fn malformed(error: &impl ToString) -> NoRequest {
    NoRequest::Bad(ProxyError::new(Code::MalformedHttp, error.to_string()))
}

pub fn too_large() -> ProxyError {
    ProxyError::new(Code::BodyTooLarge, "a request body may have 32 MiB")
}

/// A whole response with a JSON body.
pub fn response(status: u16, json: &str) -> Bytes {
    let length = json.len().to_string();
    let fields: [(&[u8], &[u8]); 2] =
        [(b"content-type", b"application/json"), (b"content-length", length.as_bytes())];
    let mut bytes = encode_response_head(Version::Http11, status, fields.into_iter()).to_vec();
    bytes.extend_from_slice(json.as_bytes());
    bytes.into()
}

/// A whole response with an error of Baton's own table.
pub fn error_response(error: &ProxyError) -> Bytes {
    response(error.status(), &String::from_utf8_lossy(&error.body()))
}

/// An error object that says that it was asked for.
pub fn sorry(kind: &str) -> String {
    error_object("The scripted upstream was asked to fail.", kind, None, "scripted")
}

/// A whole response that fails as it was asked to.
pub fn failure(status: u16) -> Bytes {
    let kind = match status {
        429 => "rate_limit_error",
        500..=599 => "server_error",
        _ => "invalid_request_error",
    };
    response(status, &sorry(kind))
}

/// A list of models, as `data` of the answer to `GET /v1/models`.
pub fn model_list<'n>(names: impl IntoIterator<Item = &'n str>, created: u64) -> String {
    let mut list = String::from("[");
    for (at, name) in names.into_iter().enumerate() {
        let comma = if at == 0 { "" } else { "," };
        list.push_str(&format!(
            "{comma}{{\"id\":\"{name}\",\"object\":\"model\",\"created\":{created},\"owned_by\":\"baton\"}}"
        ));
    }
    list.push(']');
    list
}
