//! The request line: method, target, version (RFC 9112, section 3).
//!
//! It is judged as soon as it is there, so that an HTTP/0.9 or HTTP/2 client, or one that speaks TLS, is not
//! kept waiting for the rest of a head that never comes.

use std::ops::Range;

use super::framing::is_host;
use super::{HeadError, Version, is_token_byte};

/// The longest method of the IANA registry, UPDATEREDIRECTREF, has 17 characters.
const METHOD_MAX: usize = 32;

/// ` HTTP/1.1`: what follows the target.
const VERSION_ROOM: usize = 9;

/// Where the parts of a request line are, in bytes from its start.
#[derive(Debug)]
pub(super) struct RequestLine {
    pub method: Range<usize>,
    /// Empty if an absolute target has none, which means `/`.
    pub path: Range<usize>,
    pub query: Option<Range<usize>>,
    pub version: Version,
}

impl RequestLine {
    /// Parses the whole line, without its line end.
    pub fn parse(line: &[u8], target_max: usize) -> Result<Self, HeadError> {
        let method = Self::check_start(line, target_max)?.ok_or(HeadError::RequestLine)?;
        let start = method.end + 1;
        let rest = &line[start..];
        let end = memchr::memchr(b' ', rest).ok_or(HeadError::RequestLine)?;
        let (target, version) = (&rest[..end], parse_version(&rest[end + 1..])?);
        if target.is_empty() {
            return Err(HeadError::RequestLine);
        }
        let (path, query) = split_target(target, &line[method.clone()])?;
        let shift = |range: Range<usize>| range.start + start..range.end + start;
        Ok(Self { method, path: shift(path), query: query.map(shift), version })
    }

    /// Judges what is there of a line that may go on: where its method is, None while that is not known.
    /// A CR that may be the beginning of the line end is not to be among it.
    pub fn check_start(line: &[u8], target_max: usize) -> Result<Option<Range<usize>>, HeadError> {
        /// Content type `handshake` of a TLS record (RFC 8446, section 5.1).
        const TLS_HANDSHAKE: u8 = 0x16;
        let malformed = HeadError::Method { limit: METHOD_MAX };
        if line.first() == Some(&TLS_HANDSHAKE) {
            return Err(HeadError::Tls);
        }
        let Some(len) = line.iter().take(METHOD_MAX + 1).position(|&byte| !is_token_byte(byte)) else {
            return if line.len() > METHOD_MAX { Err(malformed) } else { Ok(None) };
        };
        if len == 0 || line[len] != b' ' {
            return Err(malformed);
        }
        // Every version has the same length, so this is exact for a whole line.
        if line.len() - (len + 1) > target_max + VERSION_ROOM {
            return Err(HeadError::TargetTooLong { limit: target_max });
        }
        Ok(Some(0..len))
    }
}

fn parse_version(text: &[u8]) -> Result<Version, HeadError> {
    match text {
        b"HTTP/1.0" => Ok(Version::Http10),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Ok(Version::Http11),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => Err(HeadError::Version),
        _ => Err(HeadError::RequestLine),
    }
}

/// Path and query of an origin-form or absolute-form target (RFC 9112, section 3.2).
fn split_target(target: &[u8], method: &[u8]) -> Result<(Range<usize>, Option<Range<usize>>), HeadError> {
    if method == b"CONNECT" || (method == b"OPTIONS" && target == b"*") {
        return Err(HeadError::NoPath);
    }
    if !target.iter().all(|&byte| byte.is_ascii_graphic() && byte != b'#') {
        return Err(HeadError::Target);
    }
    let start = if target[0] == b'/' { 0 } else { path_start(target).ok_or(HeadError::Target)? };
    let Some(mark) = memchr::memchr(b'?', &target[start..]) else {
        return Ok((start..target.len(), None));
    };
    let mark = start + mark;
    Ok((start..mark, Some(mark + 1..target.len())))
}

/// Where the path of an absolute-form target begins; None if it is none, or its authority is not valid.
fn path_start(target: &[u8]) -> Option<usize> {
    let is_scheme =
        |scheme: &[u8]| target.get(..scheme.len()).is_some_and(|s| s.eq_ignore_ascii_case(scheme));
    let scheme: &[u8] = [&b"http://"[..], b"https://"].into_iter().find(|scheme| is_scheme(scheme))?;
    let rest = &target[scheme.len()..];
    let len = memchr::memchr2(b'/', b'?', rest).unwrap_or(rest.len());
    let authority = &rest[..len];
    // An http URL has a host (RFC 9110, section 4.2.1), and no credentials are taken from one (4.2.4).
    let has_host = !authority.is_empty() && authority[0] != b':';
    (has_host && is_host(authority)).then_some(scheme.len() + len)
}

#[cfg(test)]
mod tests;
