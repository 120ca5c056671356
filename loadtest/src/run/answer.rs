//! Reads a response off its connection: head, body framing, and what is in it. Independent of the proxy's own parser,
//! which it is to check.

use bytes::Bytes;
use memchr::memmem;

use super::check::{Kind, StreamCheck, Times, check_plain};
use super::recorder::Recorder;

const HEAD_BYTES_MAX: usize = 64 * 1024;
const HEADERS_MAX: usize = 100;
const PLAIN_BYTES_MAX: usize = 64 << 20;

/// A response under way.
pub struct Response {
    state: State,
    /// Bytes of a head or of a chunk's size line that is not whole yet.
    held: Vec<u8>,
    content: Content,
    status: u16,
    keep_alive: bool,
}

#[derive(Clone, Copy)]
enum State {
    Head,
    /// So many bytes of the body are left.
    Length(u64),
    UntilClose,
    ChunkSize,
    Chunk(u64),
    ChunkEnd,
    Trailers,
    End,
}

enum Content {
    Stream(Box<StreamCheck>),
    Plain(Vec<u8>),
}

/// What [`Response::feed`] came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Fed {
    More,
    /// The answer was right; the connection may or may not be used again.
    End {
        keep_alive: bool,
    },
}

impl Response {
    /// The response to a request that asked for a stream, or not.
    pub fn new(streamed: bool) -> Self {
        let content = if streamed { Content::Stream(Box::default()) } else { Content::Plain(Vec::new()) };
        Self { state: State::Head, held: Vec::new(), content, status: 0, keep_alive: false }
    }

    /// Takes what was read.
    ///
    /// # Errors
    /// What is wrong with the answer.
    pub fn feed(&mut self, bytes: &Bytes, recorder: &mut Recorder, times: &mut Times) -> Result<Fed, Kind> {
        let mut input = &bytes[..];
        loop {
            match self.state {
                State::Head if input.is_empty() => return Ok(Fed::More),
                State::Head => self.head(&mut input)?,
                State::Length(0) | State::End => {
                    if !input.is_empty() {
                        return Err("bytes after the answer".into());
                    }
                    self.end(recorder, times)?;
                    return Ok(Fed::End { keep_alive: self.keep_alive });
                }
                _ if input.is_empty() => return Ok(Fed::More),
                State::Length(left) => {
                    let taken = self.data(&mut input, left, recorder, times)?;
                    self.state = State::Length(left - taken);
                }
                State::UntilClose => {
                    self.data(&mut input, u64::MAX, recorder, times)?;
                }
                State::ChunkSize => self.chunk_size(&mut input)?,
                State::Chunk(left) => {
                    let taken = self.data(&mut input, left, recorder, times)?;
                    self.state = if taken == left { State::ChunkEnd } else { State::Chunk(left - taken) };
                }
                State::ChunkEnd => {
                    if let Some(line) = self.line(&mut input)? {
                        if !line.is_empty() {
                            return Err("a broken chunk".into());
                        }
                        self.state = State::ChunkSize;
                    }
                }
                State::Trailers => {
                    if self.line(&mut input)?.is_some_and(|line| line.is_empty()) {
                        self.state = State::End;
                    }
                }
            }
        }
    }

    /// The peer has ended the connection.
    ///
    /// # Errors
    /// The answer is not whole.
    pub fn close(&mut self, recorder: &mut Recorder, times: &mut Times) -> Result<(), Kind> {
        match self.state {
            State::Head => Err("closed without an answer".into()),
            State::UntilClose => self.end(recorder, times),
            _ => Err("cut".into()),
        }
    }

    fn end(&mut self, recorder: &mut Recorder, times: &mut Times) -> Result<(), Kind> {
        match &self.content {
            _ if self.status != 200 => Err(format!("status {}", self.status).into()),
            Content::Stream(check) => check.end(),
            Content::Plain(body) => check_plain(body, recorder, times),
        }
    }

    fn data(
        &mut self,
        input: &mut &[u8],
        most: u64,
        recorder: &mut Recorder,
        times: &mut Times,
    ) -> Result<u64, Kind> {
        let len = usize::try_from(most).map_or(input.len(), |most| most.min(input.len()));
        let (data, rest) = input.split_at(len);
        *input = rest;
        recorder.bytes(len);
        match &mut self.content {
            _ if self.status != 200 => {}
            Content::Stream(check) => check.feed(data, recorder, times)?,
            Content::Plain(body) if body.len() + len > PLAIN_BYTES_MAX => {
                return Err("a plain answer of more than 64 MiB".into());
            }
            Content::Plain(body) => body.extend_from_slice(data),
        }
        Ok(len as u64)
    }

    /// The next line without its end; None: it is not whole yet.
    fn line(&mut self, input: &mut &[u8]) -> Result<Option<Vec<u8>>, Kind> {
        let end = memchr::memchr(b'\n', input);
        let (line, rest) = input.split_at(end.map_or(input.len(), |end| end + 1));
        *input = rest;
        self.held.extend_from_slice(line);
        if self.held.len() > HEAD_BYTES_MAX {
            return Err("a broken chunk".into());
        }
        if end.is_none() {
            return Ok(None);
        }
        let line = self.held.trim_ascii_end().to_vec();
        self.held.clear();
        Ok(Some(line))
    }

    fn chunk_size(&mut self, input: &mut &[u8]) -> Result<(), Kind> {
        let Some(line) = self.line(input)? else { return Ok(()) };
        let digits = line.split(|&byte| byte == b';').next().unwrap_or_default();
        let size = std::str::from_utf8(digits).ok().and_then(|digits| u64::from_str_radix(digits, 16).ok());
        self.state = match size.ok_or("a broken chunk")? {
            0 => State::Trailers,
            size => State::Chunk(size),
        };
        Ok(())
    }

    fn head(&mut self, input: &mut &[u8]) -> Result<(), Kind> {
        let before = self.held.len();
        self.held.extend_from_slice(input);
        let Some(end) = memmem::find(&self.held, b"\r\n\r\n").map(|at| at + 4) else {
            *input = &[];
            return if self.held.len() > HEAD_BYTES_MAX { Err("no HTTP".into()) } else { Ok(()) };
        };
        *input = input.get(end - before..).unwrap_or_default();
        let head = std::mem::take(&mut self.held);
        self.read_head(head.get(..end).unwrap_or_default())
    }

    fn read_head(&mut self, head: &[u8]) -> Result<(), Kind> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut response = httparse::Response::new(&mut headers);
        if !response.parse(head).is_ok_and(|parsed| parsed.is_complete()) {
            return Err("no HTTP".into());
        }
        let status = response.code.unwrap_or_default();
        if (100..200).contains(&status) {
            return Ok(());
        }
        self.status = status;
        self.keep_alive = response.version == Some(1);
        let (mut length, mut chunked) = (None, false);
        for header in response.headers.iter() {
            let is = |name: &str| header.name.eq_ignore_ascii_case(name);
            if is("content-length") {
                let value = std::str::from_utf8(header.value).ok().and_then(|value| value.parse().ok());
                length = Some(value.ok_or("no HTTP")?);
            } else if is("transfer-encoding") {
                chunked = header.value.eq_ignore_ascii_case(b"chunked");
            } else if is("connection") {
                self.keep_alive &= !header.value.eq_ignore_ascii_case(b"close");
            }
        }
        self.state = match (chunked, length) {
            (true, _) => State::ChunkSize,
            (false, Some(length)) => State::Length(length),
            (false, None) => State::UntilClose,
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
