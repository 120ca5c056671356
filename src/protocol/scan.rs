//! A walk over JSON text that finds members as byte ranges and unescapes nothing.
//!
//! It reads what RFC 8259 allows, and besides what real servers send and strict readers refuse: lone
//! surrogate halves, `NaN` and `Infinity`, numbers of any size or spelling, raw control bytes in strings.
//! Everything else is refused. One pass, no allocation, no recursion; nesting is limited.
//!
//! # Invariants
//! * Where a strict reader accepts a text, this walk accepts it too and finds the same members:
//!   `tests/prop_protocol.rs`.

mod text;

use std::borrow::Cow;

use memchr::memchr2;

pub use text::unescape;

use super::Span;

/// Objects and arrays inside each other. simd-json's own default is 1,024; no API of this kind nests past 20.
pub(crate) const DEPTH_MAX: u32 = 128;

/// The text is not what the walk reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Broken {
    /// The offset at which reading stopped.
    pub at: usize,
    pub too_deep: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Object,
    Array,
    String,
    /// `NaN` and `Infinity` too.
    Number,
    True,
    False,
    Null,
}

/// A value: its span includes quotes and brackets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Value {
    pub kind: Kind,
    pub span: Span,
}

/// The key of a member, between its quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    pub span: Span,
    pub escaped: bool,
    /// Where the comma before this member stands.
    pub comma: Option<usize>,
}

/// A cursor over one text.
#[derive(Clone, Debug)]
pub(crate) struct Scan<'a> {
    bytes: &'a [u8],
    at: usize,
    depth: u32,
}

/// The members of an object, or the items of an array, that the cursor is in.
#[derive(Debug)]
pub(crate) struct Inside {
    is_first: bool,
}

impl<'a> Scan<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, depth: 0 }
    }

    /// A cursor over the value at `span`. Offsets stay those of `bytes`.
    pub fn within(bytes: &'a [u8], span: Span) -> Self {
        Self { bytes: &bytes[..span.end], at: span.start, depth: 0 }
    }

    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Where the cursor stands.
    pub fn at(&self) -> usize {
        self.at
    }

    fn broken(&self) -> Broken {
        Broken { at: self.at, too_deep: false }
    }

    /// The kind of the value that comes next.
    pub fn kind(&mut self) -> Result<Kind, Broken> {
        match self.next_byte()? {
            b'{' => Ok(Kind::Object),
            b'[' => Ok(Kind::Array),
            b'"' => Ok(Kind::String),
            b't' => Ok(Kind::True),
            b'f' => Ok(Kind::False),
            b'n' => Ok(Kind::Null),
            _ => Ok(Kind::Number),
        }
    }

    /// Enters the object that comes next.
    pub fn object(&mut self) -> Result<Inside, Broken> {
        self.enter(b'{')
    }

    /// Enters the array that comes next.
    pub fn array(&mut self) -> Result<Inside, Broken> {
        self.enter(b'[')
    }

    /// The next member's key, with the cursor before its value; or leaves the object.
    pub fn member(&mut self, inside: &mut Inside) -> Result<Option<Key>, Broken> {
        let Some(comma) = self.next_inside(inside, b'}')? else { return Ok(None) };
        self.key(comma).map(Some)
    }

    /// Whether there is a next item, with the cursor before it; otherwise leaves the array.
    pub fn item(&mut self, inside: &mut Inside) -> Result<bool, Broken> {
        Ok(self.next_inside(inside, b']')?.is_some())
    }

    /// Passes over the value that comes next.
    pub fn value(&mut self) -> Result<Value, Broken> {
        let kind = self.kind()?;
        let start = self.at;
        match kind {
            Kind::String => {
                self.string()?;
            }
            Kind::Object | Kind::Array => self.container()?,
            Kind::Number | Kind::True | Kind::False | Kind::Null => self.scalar(kind)?,
        }
        Ok(Value { kind, span: Span { start, end: self.at } })
    }

    /// Only white space is left.
    pub fn end(&mut self) -> Result<(), Broken> {
        self.space();
        if self.at < self.bytes.len() { Err(self.broken()) } else { Ok(()) }
    }

    /// Whether a comma comes next, and where. The cursor does not move.
    pub fn comma_ahead(&self) -> Option<usize> {
        let space = self.bytes[self.at..].iter().take_while(|b| is_space(**b)).count();
        let at = self.at + space;
        (self.bytes.get(at) == Some(&b',')).then_some(at)
    }

    /// The key's text, unescaped.
    pub fn key_text(&self, key: Key) -> Cow<'a, [u8]> {
        let raw = &self.bytes[key.span.start..key.span.end];
        if key.escaped { Cow::Owned(unescape(raw)) } else { Cow::Borrowed(raw) }
    }

    fn space(&mut self) {
        while let Some(&byte) = self.bytes.get(self.at)
            && is_space(byte)
        {
            self.at += 1;
        }
    }

    /// The next byte that is no white space. The cursor stays on it.
    fn next_byte(&mut self) -> Result<u8, Broken> {
        self.space();
        self.bytes.get(self.at).copied().ok_or_else(|| self.broken())
    }

    fn expect(&mut self, byte: u8) -> Result<(), Broken> {
        if self.next_byte()? != byte {
            return Err(self.broken());
        }
        self.at += 1;
        Ok(())
    }

    fn enter(&mut self, bracket: u8) -> Result<Inside, Broken> {
        self.expect(bracket)?;
        self.deeper()?;
        Ok(Inside { is_first: true })
    }

    fn deeper(&mut self) -> Result<(), Broken> {
        self.depth += 1;
        if self.depth > DEPTH_MAX { Err(Broken { at: self.at, too_deep: true }) } else { Ok(()) }
    }

    /// Steps over the comma before the next member or item (`Some(None)`: it is the first), or over `close`.
    fn next_inside(&mut self, inside: &mut Inside, close: u8) -> Result<Option<Option<usize>>, Broken> {
        let byte = self.next_byte()?;
        if byte == close {
            self.at += 1;
            self.depth -= 1;
            return Ok(None);
        }
        if std::mem::take(&mut inside.is_first) {
            return Ok(Some(None));
        }
        if byte != b',' {
            return Err(self.broken());
        }
        self.at += 1;
        Ok(Some(Some(self.at - 1)))
    }

    fn key(&mut self, comma: Option<usize>) -> Result<Key, Broken> {
        if self.next_byte()? != b'"' {
            return Err(self.broken());
        }
        let start = self.at + 1;
        let escaped = self.string()?;
        let span = Span { start, end: self.at - 1 };
        self.expect(b':')?;
        Ok(Key { span, escaped, comma })
    }

    /// Passes over a string, the cursor being on its first quote. Says whether it holds an escape.
    fn string(&mut self) -> Result<bool, Broken> {
        self.at += 1;
        let mut escaped = false;
        loop {
            let rest = &self.bytes[self.at..];
            let found = quote_or_backslash(rest);
            self.at += found.unwrap_or(rest.len());
            match found.map(|found| rest[found]) {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(escaped);
                }
                Some(_) => self.escape()?,
                None => return Err(self.broken()),
            }
            escaped = true;
        }
    }

    /// Passes over an escape (RFC 8259, section 7). Halves of surrogate pairs are let be.
    fn escape(&mut self) -> Result<(), Broken> {
        let rest = &self.bytes[self.at..];
        let bytes = match rest.get(1) {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
            Some(b'u') if rest.len() >= 6 && rest[2..6].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return Err(self.broken()),
        };
        self.at += bytes;
        Ok(())
    }

    fn scalar(&mut self, kind: Kind) -> Result<(), Broken> {
        let rest = &self.bytes[self.at..];
        let end =
            rest.iter().position(|b| is_space(*b) || matches!(b, b',' | b']' | b'}')).unwrap_or(rest.len());
        let word = &rest[..end];
        let is_good = match kind {
            Kind::True => word == b"true",
            Kind::False => word == b"false",
            Kind::Null => word == b"null",
            _ => {
                matches!(word, b"NaN" | b"Infinity" | b"-Infinity")
                    || (word.iter().any(u8::is_ascii_digit)
                        && word.iter().all(|b| matches!(b, b'0'..=b'9' | b'+' | b'-' | b'.' | b'e' | b'E')))
            }
        };
        if !is_good {
            return Err(self.broken());
        }
        self.at += end;
        Ok(())
    }

    /// Passes over an object or array with all that is in it, without recursion.
    fn container(&mut self) -> Result<(), Broken> {
        // One bit a level, set for an object: `DEPTH_MAX` levels fit.
        let mut levels: u128 = 0;
        let outside = self.depth;
        loop {
            let kind = self.kind()?;
            match kind {
                Kind::Object | Kind::Array => {
                    self.at += 1;
                    self.deeper()?;
                    let is_object = kind == Kind::Object;
                    levels = (levels << 1) | u128::from(is_object);
                    if self.next_byte()? != close_of(levels) {
                        if is_object {
                            self.key(None)?;
                        }
                        continue;
                    }
                }
                Kind::String => {
                    self.string()?;
                }
                _ => self.scalar(kind)?,
            }
            // Behind a value: close what ends here, and step to the next one.
            while self.depth > outside {
                let byte = self.next_byte()?;
                self.at += 1;
                if byte == close_of(levels) {
                    levels >>= 1;
                    self.depth -= 1;
                } else if byte == b',' {
                    if levels & 1 == 1 {
                        self.key(None)?;
                    }
                    break;
                } else {
                    self.at -= 1;
                    return Err(self.broken());
                }
            }
            if self.depth == outside {
                return Ok(());
            }
        }
    }
}

/// Most strings are short: a few words of eight bytes by hand are faster than starting a search.
fn quote_or_backslash(text: &[u8]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    let mut words = text.chunks_exact(8).take(4);
    let mut at = 0;
    for word in &mut words {
        let word = u64::from_le_bytes(word.try_into().unwrap_or_default());
        // The lowest bit set is the high bit of the first byte that is zero: "Bit Twiddling Hacks", haszero.
        let zeros = |word: u64| word.wrapping_sub(ONES) & !word & (ONES << 7);
        let found = zeros(word ^ (ONES * u64::from(b'"'))) | zeros(word ^ (ONES * u64::from(b'\\')));
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize / 8);
        }
        at += 8;
    }
    memchr2(b'"', b'\\', &text[at..]).map(|found| at + found)
}

fn close_of(levels: u128) -> u8 {
    if levels & 1 == 1 { b'}' } else { b']' }
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

#[cfg(test)]
mod tests;
