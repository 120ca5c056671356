//! Request and response heads: read within limits, checked, and split off the read buffer.

use bytes::{Buf, Bytes, BytesMut};
use smallvec::{SmallVec, smallvec};

use super::framing::{check_host, expects_continue, is_kept_alive, request_framing, response_framing};
use super::line::RequestLine;
use super::{Framing, HeadError, HeadLimits, Headers, Version};

/// A request's method; case matters (RFC 9110, section 9.1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    Other(Bytes),
}

impl Method {
    pub fn as_bytes(&self) -> &[u8] {
        match self {
            Self::Get => b"GET",
            Self::Head => b"HEAD",
            Self::Post => b"POST",
            Self::Put => b"PUT",
            Self::Patch => b"PATCH",
            Self::Delete => b"DELETE",
            Self::Options => b"OPTIONS",
            Self::Other(name) => name,
        }
    }
}

impl From<Bytes> for Method {
    fn from(name: Bytes) -> Self {
        match &name[..] {
            b"GET" => Self::Get,
            b"HEAD" => Self::Head,
            b"POST" => Self::Post,
            b"PUT" => Self::Put,
            b"PATCH" => Self::Patch,
            b"DELETE" => Self::Delete,
            b"OPTIONS" => Self::Options,
            _ => Self::Other(name),
        }
    }
}

/// A client's request without its body. Everything in it shares one buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestHead {
    pub method: Method,
    /// Begins with `/`; as sent, percent codes and all. Of an absolute-form target the path alone.
    pub path: Bytes,
    /// What followed the first `?`.
    pub query: Option<Bytes>,
    pub version: Version,
    pub headers: Headers,
    /// Never `UntilClose`.
    pub framing: Framing,
    /// The client wants another request on this connection to be possible.
    pub keep_alive: bool,
    /// A body follows, but only after `100 Continue` or a second or so.
    pub expect_continue: bool,
}

/// An upstream's response without its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResponseHead {
    /// 100 to 999.
    pub status: u16,
    pub version: Version,
    pub headers: Headers,
    pub framing: Framing,
    /// Once the body was read to its end, the connection may take another request.
    pub keep_alive: bool,
}

/// Empty lines that a client may send before its request line: RFC 9112, section 2.2 asks for one at least.
const LEADING_LINES_MAX: usize = 4;

/// Reads one head after the other from a connection's buffer.
///
/// Between two calls the caller may only append to the buffer. What was searched once is not searched again,
/// so that a head that comes byte by byte costs no more than one that comes whole.
#[derive(Debug)]
pub struct HeadReader {
    limits: HeadLimits,
    leading_lines: usize,
    scan: Scan,
    request_line: Option<RequestLine>,
}

impl HeadReader {
    pub fn new(limits: HeadLimits) -> Self {
        Self { limits, leading_lines: 0, scan: Scan::default(), request_line: None }
    }

    /// The next request head, split off `buf` with its empty line; None if there are not enough bytes yet.
    ///
    /// # Errors
    /// What is not a request that has only one reading, or breaks a limit. The connection is of no use then.
    pub fn request(&mut self, buf: &mut BytesMut) -> Result<Option<RequestHead>, HeadError> {
        let result = self.read_request(buf);
        if !matches!(result, Ok(None)) {
            *self = Self::new(self.limits);
        }
        result
    }

    /// The next response head, split off `buf` with its empty line; None if there are not enough bytes yet.
    ///
    /// `to` is the request's method: a response to HEAD has no body. Informational heads (100, 103) are heads
    /// like any other; the one that counts follows them.
    ///
    /// # Errors
    /// What is not HTTP (known after 8 bytes at most), cannot be framed, or breaks a limit.
    pub fn response(&mut self, buf: &mut BytesMut, to: &Method) -> Result<Option<ResponseHead>, HeadError> {
        let result = self.read_response(buf, to);
        if !matches!(result, Ok(None)) {
            *self = Self::new(self.limits);
        }
        result
    }

    fn read_request(&mut self, buf: &mut BytesMut) -> Result<Option<RequestHead>, HeadError> {
        if self.scan.lines == 0 {
            self.skip_leading_lines(buf)?;
        }
        let window = &buf[..buf.len().min(self.limits.bytes)];
        let target_max = self.limits.bytes / 2;
        while let Some(line) = self.scan.next_line(window) {
            if self.scan.lines == 1 {
                // First, since a line that comes in pieces is judged by its start before its end is known.
                RequestLine::check_start(line.text, target_max)?;
            }
            if !line.ends_with_crlf {
                return Err(HeadError::LineEnd { line: self.scan.lines });
            }
            if self.scan.lines == 1 {
                self.request_line = Some(RequestLine::parse(line.text, target_max)?);
            } else if line.text.is_empty() {
                let request_line = self.request_line.take().ok_or(HeadError::RequestLine)?;
                let head = buf.split_to(self.scan.line_start).freeze();
                return parse_request(&head, request_line, self.scan.fields()).map(Some);
            }
            self.check_fields()?;
        }
        if self.scan.lines == 0 {
            RequestLine::check_start(window.strip_suffix(b"\r").unwrap_or(window), target_max)?;
        }
        self.check_room(buf)
    }

    fn read_response(&mut self, buf: &mut BytesMut, to: &Method) -> Result<Option<ResponseHead>, HeadError> {
        let window = &buf[..buf.len().min(self.limits.bytes)];
        if self.scan.searched < RESPONSE_START.len() && !is_response_start(window) {
            return Err(HeadError::NotHttp);
        }
        while let Some(line) = self.scan.next_line(window) {
            if line.text.is_empty() {
                let head = buf.split_to(self.scan.line_start).freeze();
                return parse_response(&head, self.scan.fields(), to).map(Some);
            }
            self.check_fields()?;
        }
        self.check_room(buf)
    }

    fn skip_leading_lines(&mut self, buf: &mut BytesMut) -> Result<(), HeadError> {
        while buf.starts_with(b"\r\n") {
            if self.leading_lines == LEADING_LINES_MAX {
                return Err(HeadError::LeadingLines { limit: LEADING_LINES_MAX });
            }
            self.leading_lines += 1;
            buf.advance(2);
            self.scan = Scan::default();
        }
        Ok(())
    }

    fn check_fields(&self) -> Result<(), HeadError> {
        let limit = self.limits.fields;
        if self.scan.lines > limit + 1 { Err(HeadError::TooManyFields { limit }) } else { Ok(()) }
    }

    /// The head's end is not among the bytes so far: may there be more?
    fn check_room<T>(&self, buf: &[u8]) -> Result<Option<T>, HeadError> {
        let limit = self.limits.bytes;
        if buf.len() >= limit { Err(HeadError::HeadTooLarge { limit }) } else { Ok(None) }
    }
}

/// How far a head was searched for its lines.
#[derive(Debug, Default)]
struct Scan {
    /// Bytes in which no further line end is.
    searched: usize,
    /// Where the line after the last whole one begins.
    line_start: usize,
    /// Whole lines so far.
    lines: usize,
}

struct Line<'a> {
    text: &'a [u8],
    ends_with_crlf: bool,
}

impl Scan {
    fn next_line<'a>(&mut self, window: &'a [u8]) -> Option<Line<'a>> {
        let Some(found) = memchr::memchr(b'\n', window.get(self.searched..)?) else {
            self.searched = window.len();
            return None;
        };
        let end = self.searched + found;
        let line = &window[self.line_start..end];
        self.searched = end + 1;
        self.line_start = end + 1;
        self.lines += 1;
        Some(match line.strip_suffix(b"\r") {
            Some(text) => Line { text, ends_with_crlf: true },
            None => Line { text: line, ends_with_crlf: false },
        })
    }

    /// Once the empty line was read: how many fields there are between it and the start line.
    fn fields(&self) -> usize {
        self.lines.saturating_sub(2)
    }
}

const RESPONSE_START: &[u8; 8] = b"HTTP/1.x";

/// Whether the bytes so far may become `HTTP/1.0` or `HTTP/1.1`.
fn is_response_start(bytes: &[u8]) -> bool {
    bytes.iter().zip(RESPONSE_START).all(|(byte, want)| match want {
        b'x' => matches!(byte, b'0' | b'1'),
        _ => byte == want,
    })
}

/// Most heads have fewer fields than that; a larger one takes memory of its own.
type Fields<'a> = SmallVec<[httparse::Header<'a>; 64]>;

fn parse_request(head: &Bytes, line: RequestLine, count: usize) -> Result<RequestHead, HeadError> {
    // The request line was parsed by itself; the fields begin after its line end.
    let start = memchr::memchr(b'\n', head).map_or(head.len(), |end| end + 1);
    let mut fields: Fields<'_> = smallvec![httparse::EMPTY_HEADER; count];
    match httparse::parse_headers(&head[start..], &mut fields) {
        Ok(httparse::Status::Complete((len, _))) if start + len == head.len() => {}
        Ok(_) => return Err(HeadError::LineEnd { line: count + 2 }),
        Err(error) => return Err(field_error(error, &fields)),
    }
    let (headers, version) = (share(head, &fields), line.version);
    check_host(&headers, version)?;
    let framing = request_framing(&headers, version)?;
    let keep_alive = is_kept_alive(&headers, version)?;
    let expect_continue = expects_continue(&headers, version, framing)?;
    let method = Method::from(head.slice(line.method));
    let path = if line.path.is_empty() { Bytes::from_static(b"/") } else { head.slice(line.path) };
    let query = line.query.map(|range| head.slice(range));
    Ok(RequestHead { method, path, query, version, headers, framing, keep_alive, expect_continue })
}

fn parse_response(head: &Bytes, count: usize, to: &Method) -> Result<ResponseHead, HeadError> {
    let mut fields: Fields<'_> = smallvec![httparse::EMPTY_HEADER; count];
    let mut parsed = httparse::Response::new(&mut fields);
    let mut parser = httparse::ParserConfig::default();
    // A proxy removes it rather than refusing the response (RFC 9112, section 5.1).
    parser.allow_spaces_after_header_name_in_responses(true);
    let result = parser.parse_response(&mut parsed, head);
    let (code, version) = (parsed.code.unwrap_or_default(), parsed.version);
    match result {
        Ok(httparse::Status::Complete(len)) if len == head.len() => {}
        Ok(_) => return Err(HeadError::LineEnd { line: count + 2 }),
        Err(error) => return Err(field_error(error, parsed.headers)),
    }
    if code < 100 {
        return Err(HeadError::Status);
    }
    let version = if version == Some(0) { Version::Http10 } else { Version::Http11 };
    let headers = share(head, parsed.headers);
    let (framing, is_reusable) = response_framing(&headers, version, code, to)?;
    let keep_alive = is_kept_alive(&headers, version)? && is_reusable;
    Ok(ResponseHead { status: code, version, headers, framing, keep_alive })
}

/// The fields as slices of `head`.
fn share(head: &Bytes, fields: &[httparse::Header<'_>]) -> Headers {
    let mut headers = Headers::with_capacity(fields.len());
    for field in fields {
        headers.push(head.slice_ref(field.name.as_bytes()), head.slice_ref(field.value));
    }
    headers
}

/// The parser does not say where it stopped, but the fields before that are filled in.
fn field_error(error: httparse::Error, fields: &[httparse::Header<'_>]) -> HeadError {
    let line = 2 + fields.iter().take_while(|field| !field.name.is_empty()).count();
    match error {
        httparse::Error::HeaderName => HeadError::FieldName { line },
        httparse::Error::HeaderValue => HeadError::FieldValue { line },
        httparse::Error::NewLine => HeadError::LineEnd { line },
        httparse::Error::TooManyHeaders => HeadError::TooManyFields { limit: fields.len() },
        httparse::Error::Status | httparse::Error::Token => HeadError::Status,
        httparse::Error::Version => HeadError::NotHttp,
    }
}

#[cfg(test)]
mod tests;
