//! What a head's fields say about the message: how its body ends, whether the connection lives on.
//!
//! Everything that two readers could take differently is refused (RFC 9112, sections 6.3 and 11.2).

use super::{Framing, HeadError, Headers, Method, Version, is_token_byte};

/// Options in `Connection`: every field is compared with every one. Real messages have 1 to 3.
const CONNECTION_OPTIONS_MAX: usize = 64;

/// How a request's body ends. A request without either field has none.
pub(super) fn request_framing(headers: &Headers, version: Version) -> Result<Framing, HeadError> {
    let length = content_length(headers)?;
    if headers.get("transfer-encoding").is_none() {
        return Ok(length.map_or(Framing::None, Framing::Length));
    }
    if length.is_some() {
        return Err(HeadError::LengthAndCoding);
    }
    check_chunked(headers, version)?;
    Ok(Framing::Chunked)
}

/// How the body of a response to `to` ends, and whether that leaves the connection fit for another request.
pub(super) fn response_framing(
    headers: &Headers,
    version: Version,
    status: u16,
    to: &Method,
) -> Result<(Framing, bool), HeadError> {
    let has_coding = headers.get("transfer-encoding").is_some();
    if *to == Method::Head || status == 304 {
        return Ok((Framing::None, true));
    }
    if matches!(status, 100..=199 | 204) {
        // Whoever announces a body here may send it, and it would be read as the next response.
        let announces_none = !has_coding && matches!(content_length(headers), Ok(None | Some(0)));
        return Ok((Framing::None, announces_none));
    }
    if has_coding {
        check_chunked(headers, version)?;
        // Transfer-Encoding overrides, but a message with both may be an attempt at smuggling.
        return Ok((Framing::Chunked, headers.get("content-length").is_none()));
    }
    Ok(match content_length(headers)? {
        Some(length) => (Framing::Length(length), true),
        None => (Framing::UntilClose, false),
    })
}

/// The one length that all `Content-Length` lines agree on. Equal values fold (RFC 9112, section 6.3).
fn content_length(headers: &Headers) -> Result<Option<u64>, HeadError> {
    let mut length = None;
    for text in headers.list("content-length") {
        let value = parse_decimal(text).ok_or(HeadError::ContentLength)?;
        if length.is_some_and(|length| length != value) {
            return Err(HeadError::LengthsDiffer);
        }
        length = Some(value);
    }
    Ok(length)
}

/// `1*DIGIT` that fits; `str::parse` would take a leading plus.
fn parse_decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    })
}

/// Accepts `Transfer-Encoding: chunked` in an HTTP/1.1 message and nothing else.
fn check_chunked(headers: &Headers, version: Version) -> Result<(), HeadError> {
    if version == Version::Http10 {
        return Err(HeadError::CodingInHttp10);
    }
    let (mut chunked, mut others, mut is_last) = (0, 0, false);
    for coding in headers.list("transfer-encoding") {
        is_last = coding.eq_ignore_ascii_case(b"chunked");
        match coding {
            b"" => return Err(HeadError::TransferCoding),
            _ if is_last => chunked += 1,
            _ => others += 1,
        }
    }
    match (chunked, others) {
        (1, 0) => Ok(()),
        (1, _) if is_last => Err(HeadError::UnsupportedCoding),
        _ => Err(HeadError::TransferCoding),
    }
}

/// Whether the connection outlives the message (RFC 9112, section 9.3). `close` beats `keep-alive`.
pub(super) fn is_kept_alive(headers: &Headers, version: Version) -> Result<bool, HeadError> {
    let (mut close, mut keep_alive) = (false, false);
    for (count, option) in headers.list("connection").enumerate() {
        if count == CONNECTION_OPTIONS_MAX {
            return Err(HeadError::ConnectionOptions { limit: CONNECTION_OPTIONS_MAX });
        }
        close |= option.eq_ignore_ascii_case(b"close");
        keep_alive |= option.eq_ignore_ascii_case(b"keep-alive");
    }
    Ok(!close && (keep_alive || version == Version::Http11))
}

/// Whether the client waits for `100 Continue` before it sends its body (RFC 9110, section 10.1.1).
pub(super) fn expects_continue(
    headers: &Headers,
    version: Version,
    framing: Framing,
) -> Result<bool, HeadError> {
    let mut expects = false;
    for expectation in headers.list("expect").filter(|text| !text.is_empty()) {
        if !expectation.eq_ignore_ascii_case(b"100-continue") {
            return Err(HeadError::Expectation);
        }
        expects = true;
    }
    let has_body = !matches!(framing, Framing::None | Framing::Length(0));
    // An HTTP/1.0 client does not understand a 100 and must not be sent one.
    Ok(expects && has_body && version == Version::Http11)
}

/// One valid `Host` in HTTP/1.1, at most one in HTTP/1.0 (RFC 9112, section 3.2).
pub(super) fn check_host(headers: &Headers, version: Version) -> Result<(), HeadError> {
    let mut hosts = headers.all("host");
    match (hosts.next(), hosts.next()) {
        (None, _) if version == Version::Http10 => Ok(()),
        (None, _) => Err(HeadError::HostMissing),
        (Some(_), Some(_)) => Err(HeadError::HostRepeated),
        (Some(host), None) if is_host(host) => Ok(()),
        (Some(_), None) => Err(HeadError::HostInvalid),
    }
}

/// `uri-host [ ":" port ]` of RFC 9110, section 7.2, by its characters. An empty one is valid in `Host`.
pub(super) fn is_host(text: &[u8]) -> bool {
    let (host_is_valid, port) = match text.strip_prefix(b"[") {
        Some(rest) => {
            let Some(end) = memchr::memchr(b']', rest) else { return false };
            let is_address_byte = |byte: &u8| byte.is_ascii_hexdigit() || matches!(byte, b':' | b'.');
            (end > 0 && rest[..end].iter().all(is_address_byte), &rest[end + 1..])
        }
        None => {
            let end = memchr::memchr(b':', text).unwrap_or(text.len());
            // Tokens and names differ in a few punctuation characters.
            let is_name_byte = |byte: &u8| {
                (is_token_byte(*byte) && !matches!(byte, b'#' | b'^' | b'`' | b'|'))
                    || matches!(byte, b'(' | b')' | b',' | b';' | b'=')
            };
            (text[..end].iter().all(is_name_byte), &text[end..])
        }
    };
    let port_is_valid = match port {
        [] => true,
        [b':', digits @ ..] => digits.len() <= 5 && digits.iter().all(u8::is_ascii_digit),
        _ => false,
    };
    host_is_valid && port_is_valid
}

#[cfg(test)]
mod tests;
