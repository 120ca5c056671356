//! Heads as bytes, ready to be sent.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Method, Version, is_token_byte};

/// A request head in HTTP/1.1, with its empty line. The caller gives every field, `Host` and framing too.
///
/// CR, LF and NUL in a value are written as spaces (RFC 9110, section 5.5): no value can begin a field.
pub fn encode_request_head<'a>(
    method: &Method,
    path_and_query: &[u8],
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Bytes {
    debug_assert!(!path_and_query.is_empty() && path_and_query.iter().all(u8::is_ascii_graphic));
    let mut out = BytesMut::with_capacity(HEAD_ROOM + path_and_query.len());
    for part in [method.as_bytes(), b" ", path_and_query, b" HTTP/1.1\r\n"] {
        out.put_slice(part);
    }
    put_fields(&mut out, fields);
    out.freeze()
}

/// A response head, with its empty line. The caller gives every field, framing included.
///
/// The status line names the sender's version, so it is HTTP/1.1 whatever the client speaks (RFC 9110, 6.2).
/// `version` is the client's: to an HTTP/1.0 client no `Transfer-Encoding` may be sent (RFC 9112, 6.1).
pub fn encode_response_head<'a>(
    version: Version,
    status: u16,
    fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
) -> Bytes {
    debug_assert!((100..=999).contains(&status));
    let mut out = BytesMut::with_capacity(HEAD_ROOM);
    out.put_slice(b"HTTP/1.1 ");
    out.put_slice(itoa::Buffer::new().format(status).as_bytes());
    out.put_slice(b" ");
    out.put_slice(reason(status).as_bytes());
    out.put_slice(b"\r\n");
    let is_allowed =
        |name: &[u8]| version == Version::Http11 || !name.eq_ignore_ascii_case(b"transfer-encoding");
    put_fields(&mut out, fields.inspect(|(name, _)| debug_assert!(is_allowed(name))));
    out.freeze()
}

/// Room for the start line and a dozen fields: one allocation for most heads.
const HEAD_ROOM: usize = 512;

fn put_fields<'a>(out: &mut BytesMut, fields: impl Iterator<Item = (&'a [u8], &'a [u8])>) {
    for (name, value) in fields {
        debug_assert!(!name.is_empty() && name.iter().all(|&byte| is_token_byte(byte)));
        out.put_slice(name);
        out.put_slice(b": ");
        let start = out.len();
        out.put_slice(value);
        for byte in &mut out[start..] {
            if matches!(*byte, b'\r' | b'\n' | 0) {
                *byte = b' ';
            }
        }
        out.put_slice(b"\r\n");
    }
    out.put_slice(b"\r\n");
}

/// The reason phrase of the IANA registry, or none; a client ignores it (RFC 9112, section 4).
const fn reason(status: u16) -> &'static str {
    match status {
        100 => "Continue",
        101 => "Switching Protocols",
        103 => "Early Hints",
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        203 => "Non-Authoritative Information",
        204 => "No Content",
        205 => "Reset Content",
        206 => "Partial Content",
        300 => "Multiple Choices",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        402 => "Payment Required",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        407 => "Proxy Authentication Required",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        411 => "Length Required",
        412 => "Precondition Failed",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        416 => "Range Not Satisfiable",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        423 => "Locked",
        424 => "Failed Dependency",
        425 => "Too Early",
        426 => "Upgrade Required",
        428 => "Precondition Required",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        451 => "Unavailable For Legal Reasons",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        507 => "Insufficient Storage",
        508 => "Loop Detected",
        511 => "Network Authentication Required",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
