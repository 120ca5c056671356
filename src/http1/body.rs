//! Body framing both ways: by length, in chunks, until the connection's end (RFC 9112, sections 6.3 and 7).
//!
//! # Invariants
//! * Data are slices of the input; nothing is copied.
//! * Where the input was cut changes neither the data nor the fault: `tests/prop_http1.rs`.
//! * Trailers and chunk extensions are read, bounded and dropped, never merged into anything.

use bytes::{Buf, Bytes};

use super::{BodyError, Framing, is_token_byte};

/// Bytes of chunk extensions in one body; nobody reads them, and they cost time.
const EXTENSION_BYTES_MAX: usize = 16 * 1024;

/// Bytes of one body's trailer lines, their line ends included.
const TRAILER_BYTES_MAX: usize = 16 * 1024;

/// As many as a 64-bit size has, leading zeros included.
const SIZE_DIGITS_MAX: u8 = 16;

/// Chunks below 64 KiB have no more.
const USUAL_DIGITS_MAX: usize = 4;

/// What [`Decoder::decode`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// The next bytes of the body; never empty.
    Data(Bytes),
    /// The input is used up and the body goes on.
    More,
    /// The body is over; what is left of the input belongs to the next message.
    End,
}

/// Takes a body out of its framing.
#[derive(Debug)]
pub struct Decoder {
    state: State,
    received: u64,
    announced: Option<u64>,
    extension_bytes: usize,
    trailer_bytes: usize,
}

/// Named for what comes next.
#[derive(Clone, Copy, Debug)]
enum State {
    /// Body bytes, by length.
    Length {
        left: u64,
    },
    /// Body bytes, until the connection ends.
    UntilClose,
    /// The size of a chunk.
    Size {
        size: u64,
        digits: u8,
    },
    /// White space between the size and a semicolon or the line's end.
    Space {
        size: u64,
    },
    Extension {
        size: u64,
    },
    SizeLf {
        size: u64,
    },
    ChunkData {
        left: u64,
    },
    DataCr,
    DataLf,
    /// A trailer line, or the empty one.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    LastLf,
    Ended,
    Failed(BodyError),
}

impl Decoder {
    pub fn new(framing: Framing) -> Self {
        let (state, announced) = match framing {
            Framing::None => (State::Ended, None),
            Framing::Length(0) => (State::Ended, Some(0)),
            Framing::Length(left) => (State::Length { left }, Some(left)),
            Framing::Chunked => (State::Size { size: 0, digits: 0 }, None),
            Framing::UntilClose => (State::UntilClose, None),
        };
        Self { state, received: 0, announced, extension_bytes: 0, trailer_bytes: 0 }
    }

    /// Takes the next data off the front of `input`. To be called until it says `More` or `End`.
    ///
    /// # Errors
    /// Faulty chunks, more than 16 KiB of chunk extensions or of trailers; from then on the same one again.
    pub fn decode(&mut self, input: &mut Bytes) -> Result<Decoded, BodyError> {
        loop {
            match self.state {
                State::Ended => return Ok(Decoded::End),
                State::Failed(error) => return Err(error),
                _ if input.is_empty() => return Ok(Decoded::More),
                State::UntilClose => return Ok(Decoded::Data(self.take(u64::MAX, input).0)),
                State::Length { left } => {
                    let (data, left) = self.take(left, input);
                    self.state = if left == 0 { State::Ended } else { State::Length { left } };
                    return Ok(Decoded::Data(data));
                }
                State::ChunkData { left } => {
                    let (data, left) = self.take(left, input);
                    self.state = if left == 0 { State::DataCr } else { State::ChunkData { left } };
                    return Ok(Decoded::Data(data));
                }
                _ => self.read_framing(input),
            }
        }
    }

    /// What it means that the peer sends nothing more.
    ///
    /// # Errors
    /// `Truncated` unless the body is over or ends with the connection; after a fault that fault.
    pub fn end_of_input(&self) -> Result<(), BodyError> {
        match self.state {
            State::Ended | State::UntilClose => Ok(()),
            State::Failed(error) => Err(error),
            _ => Err(BodyError::Truncated { received: self.received, announced: self.announced }),
        }
    }

    /// The body is over, as far as its framing says so.
    pub fn is_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    /// Bytes of the body so far, without their framing.
    pub fn received(&self) -> u64 {
        self.received
    }

    /// Splits at most `left` bytes off the input; what is left after them.
    fn take(&mut self, left: u64, input: &mut Bytes) -> (Bytes, u64) {
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(input.len());
        self.received = self.received.saturating_add(len as u64);
        (input.split_to(len), left - len as u64)
    }

    /// Reads what stands between data, up to the next data, the end, a fault, or the input's end.
    fn read_framing(&mut self, input: &mut Bytes) {
        if let Some((len, next)) = self.usual_framing(input) {
            self.state = next;
            return input.advance(len);
        }
        let mut len = 0;
        for &byte in input.iter() {
            len += 1;
            self.state = self.step(byte).unwrap_or_else(State::Failed);
            if matches!(self.state, State::ChunkData { .. } | State::Ended | State::Failed(_)) {
                break;
            }
        }
        input.advance(len);
    }

    /// What stands between nearly all chunks, taken at once and not byte by byte: the line end of the last one's data,
    /// and a line with a short size, or the input's end. Gives its length, and what comes next.
    fn usual_framing(&self, input: &[u8]) -> Option<(usize, State)> {
        let (line, before) = match self.state {
            State::DataCr => (input.strip_prefix(CHUNK_END)?, CHUNK_END.len()),
            State::Size { digits: 0, .. } => (input, 0),
            _ => return None,
        };
        let mut size = 0;
        for (digits, &byte) in line.iter().take(USUAL_DIGITS_MAX + 1).enumerate() {
            let Some(digit) = hex_digit(byte) else {
                let is_line = size > 0 && line[digits..].starts_with(CHUNK_END);
                let len = before + digits + CHUNK_END.len();
                return is_line.then_some((len, State::ChunkData { left: size }));
            };
            size = size << 4 | u64::from(digit);
        }
        line.is_empty().then_some((before, State::Size { size: 0, digits: 0 }))
    }

    /// One byte of chunk lines and trailers (RFC 9112, section 7.1).
    fn step(&mut self, byte: u8) -> Result<State, BodyError> {
        let received = self.received;
        match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() => push_digit(size, digits, byte)
                .map(|size| State::Size { size, digits: digits + 1 })
                .ok_or(BodyError::ChunkSize { received }),
            (State::Size { digits: 0, .. }, _) => Err(BodyError::ChunkSize { received }),
            (State::Size { size, .. } | State::Space { size } | State::Extension { size }, b'\r') => {
                Ok(State::SizeLf { size })
            }
            (State::Size { size, .. } | State::Space { size }, b' ' | b'\t') => {
                self.count_extension(State::Space { size })
            }
            (State::Size { size, .. } | State::Space { size }, b';') => {
                self.count_extension(State::Extension { size })
            }
            (State::Size { .. } | State::Space { .. }, b'\n') => Err(BodyError::ChunkLine { received }),
            (State::Size { .. } | State::Space { .. }, _) => Err(BodyError::ChunkSize { received }),
            // A quoted string has no control characters either, so CR LF ends the line in any case.
            (State::Extension { size }, _) if !is_control(byte) => {
                self.count_extension(State::Extension { size })
            }
            (State::SizeLf { size: 0 }, b'\n') => Ok(State::TrailerStart),
            (State::SizeLf { size }, b'\n') => Ok(State::ChunkData { left: size }),
            (State::Extension { .. } | State::SizeLf { .. }, _) => Err(BodyError::ChunkLine { received }),
            (State::DataCr, b'\r') => Ok(State::DataLf),
            (State::DataLf, b'\n') => Ok(State::Size { size: 0, digits: 0 }),
            (State::DataCr | State::DataLf, _) => Err(BodyError::ChunkEnd { received }),
            (state, _) => self.step_trailer(state, byte),
        }
    }

    fn step_trailer(&mut self, state: State, byte: u8) -> Result<State, BodyError> {
        let next = match (state, byte) {
            (State::TrailerStart, b'\r') => return Ok(State::LastLf),
            (State::LastLf, b'\n') => return Ok(State::Ended),
            (State::TrailerStart | State::TrailerName, _) if is_token_byte(byte) => State::TrailerName,
            (State::TrailerName, b':') => State::TrailerValue,
            (State::TrailerValue, b'\r') => State::TrailerLf,
            (State::TrailerValue, _) if !is_control(byte) => State::TrailerValue,
            (State::TrailerLf, b'\n') => State::TrailerStart,
            _ => return Err(BodyError::Trailer { received: self.received }),
        };
        self.trailer_bytes += 1;
        if self.trailer_bytes > TRAILER_BYTES_MAX {
            return Err(BodyError::TrailersTooLong { received: self.received, limit: TRAILER_BYTES_MAX });
        }
        Ok(next)
    }

    fn count_extension(&mut self, next: State) -> Result<State, BodyError> {
        self.extension_bytes += 1;
        if self.extension_bytes > EXTENSION_BYTES_MAX {
            return Err(BodyError::ExtensionsTooLong { received: self.received, limit: EXTENSION_BYTES_MAX });
        }
        Ok(next)
    }
}

/// `size` with one more hexadecimal digit, None if there are too many.
fn push_digit(size: u64, digits: u8, byte: u8) -> Option<u64> {
    let digit = hex_digit(byte)?;
    (digits < SIZE_DIGITS_MAX).then_some(size << 4 | u64::from(digit))
}

fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

fn is_control(byte: u8) -> bool {
    byte != b'\t' && byte.is_ascii_control()
}

/// What follows a chunk's data.
pub const CHUNK_END: &[u8] = b"\r\n";

/// The chunk that ends a body, without trailers.
pub const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// The line before a chunk of `len` bytes: `1f\r\n`. Not for 0, which would end the body: [`LAST_CHUNK`].
pub fn chunk_head(len: usize) -> Bytes {
    debug_assert!(len > 0, "a chunk of 0 bytes ends the body");
    match CHUNK_HEADS.get(len) {
        Some(head) => Bytes::from_static(&head[..digits(len) + CHUNK_END.len()]),
        None => Bytes::from(format!("{len:x}\r\n")),
    }
}

/// Heads of chunks as one or a few tokens make them: nothing is allocated for those.
static CHUNK_HEADS: [[u8; 5]; 4096] = {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut heads = [*b"0\r\n\0\0"; 4096];
    let mut len = 1;
    while len < heads.len() {
        let count = digits(len);
        let mut place = 0;
        while place < count {
            heads[len][place] = DIGITS[len >> (4 * (count - 1 - place)) & 15];
            place += 1;
        }
        heads[len][count] = CHUNK_END[0];
        heads[len][count + 1] = CHUNK_END[1];
        len += 1;
    }
    heads
};

/// Hexadecimal digits of `len`.
const fn digits(len: usize) -> usize {
    let bits = usize::BITS - len.leading_zeros();
    bits.div_ceil(4) as usize
}

#[cfg(test)]
mod tests;
