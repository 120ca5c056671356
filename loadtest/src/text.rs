//! The text of an answer under load: every event says its number, how many there are, and when it was written.
//!
//! `#NNNNNN:MMMMMM TTTTTTTTTTTTTTTT xyzab.` is event N of M, written at T nanoseconds of CLOCK_MONOTONIC (hexadecimal,
//! one clock for all processes of a machine), filled up with letters whose beginning depends on N. All events of an
//! answer are of one length. So whoever reads it can tell lost, doubled and changed text, and the time it took, from the
//! text alone, whatever a proxy did to the frames around it.

use std::sync::LazyLock;

use memchr::memchr;

/// An event's text without its letters: `#`, two numbers, a time and the full stop.
pub const BYTES_MIN: usize = HEAD + 1;
/// The longest text of an event.
pub const BYTES_MAX: usize = 64 * 1024;
/// The most events of an answer: six digits.
pub const EVENTS_MAX: u32 = 999_999;

const HEAD: usize = 32;
const LETTERS: usize = 26;

static ALPHABET: LazyLock<Vec<u8>> =
    LazyLock::new(|| (b'a'..=b'z').cycle().take(BYTES_MAX + LETTERS).collect());

/// The letters of event `seq`.
fn letters(seq: u32, len: usize) -> &'static [u8] {
    let start = seq as usize % LETTERS;
    &ALPHABET[start..start + len.min(BYTES_MAX)]
}

/// Nanoseconds on CLOCK_MONOTONIC.
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec.cast_unsigned().wrapping_mul(1_000_000_000).wrapping_add(now.tv_nsec.cast_unsigned())
}

/// Writes an event's text over `out`, which it fills.
pub fn write(out: &mut [u8], seq: u32, total: u32, time_ns: u64) {
    let (head, rest) = out.split_at_mut(HEAD);
    head[0] = b'#';
    decimal(&mut head[1..7], seq);
    head[7] = b':';
    decimal(&mut head[8..14], total);
    head[14] = b' ';
    let mut left = time_ns;
    for digit in head[15..31].iter_mut().rev() {
        *digit = b"0123456789abcdef"[(left & 15) as usize];
        left >>= 4;
    }
    head[31] = b' ';
    if let Some((stop, filling)) = rest.split_last_mut() {
        filling.copy_from_slice(letters(seq, filling.len()));
        *stop = b'.';
    }
}

fn decimal(out: &mut [u8], mut value: u32) {
    for digit in out.iter_mut().rev() {
        *digit = b'0' + (value % 10) as u8;
        value /= 10;
    }
}

/// An event's text, read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub seq: u32,
    pub total: u32,
    pub time_ns: u64,
}

/// Reads one whole event; None if a byte of it is not as [`write`] puts it.
pub fn read(text: &[u8]) -> Option<Event> {
    let (head, rest) = text.split_at_checked(HEAD)?;
    let (stop, filling) = rest.split_last()?;
    if head[0] != b'#' || head[7] != b':' || head[14] != b' ' || head[31] != b' ' || *stop != b'.' {
        return None;
    }
    let event = Event {
        seq: read_decimal(&head[1..7])?,
        total: read_decimal(&head[8..14])?,
        time_ns: read_hex(&head[15..31])?,
    };
    (filling.len() <= BYTES_MAX && filling == letters(event.seq, filling.len())).then_some(event)
}

fn read_decimal(digits: &[u8]) -> Option<u32> {
    digits
        .iter()
        .try_fold(0, |value, &digit| digit.is_ascii_digit().then(|| value * 10 + u32::from(digit - b'0')))
}

fn read_hex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |value, &digit| match digit {
        b'0'..=b'9' => Some(value << 4 | u64::from(digit - b'0')),
        b'a'..=b'f' => Some(value << 4 | u64::from(digit - b'a' + 10)),
        _ => None,
    })
}

/// What is wrong with an answer's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Lost,
    Doubled,
    Changed,
}

impl Wrong {
    /// The name in the report.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost text",
            Self::Doubled => "doubled text",
            Self::Changed => "changed text",
        }
    }
}

/// Follows an answer's text, cut anywhere.
#[derive(Default)]
pub struct TextCheck {
    /// Of the events; both 0 before the first one.
    len: usize,
    total: u32,
    next: u32,
    /// The beginning of an event whose rest has not come yet.
    begun: Vec<u8>,
}

impl TextCheck {
    /// Takes the next piece of text; `on_event` gets the time of each event that it completes.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn feed(&mut self, mut text: &[u8], mut on_event: impl FnMut(u64)) -> Result<(), Wrong> {
        while let Some(stop) = memchr(b'.', text) {
            let (end, rest) = text.split_at(stop + 1);
            let time_ns = if self.begun.is_empty() {
                self.event(end)?
            } else {
                let mut whole = std::mem::take(&mut self.begun);
                whole.extend_from_slice(end);
                self.event(&whole)?
            };
            on_event(time_ns);
            text = rest;
        }
        if self.begun.len() + text.len() > BYTES_MAX {
            return Err(Wrong::Changed);
        }
        self.begun.extend_from_slice(text);
        Ok(())
    }

    fn event(&mut self, text: &[u8]) -> Result<u64, Wrong> {
        let event = read(text).ok_or(Wrong::Changed)?;
        if event.seq < self.next {
            return Err(Wrong::Doubled);
        }
        if event.seq > self.next {
            return Err(Wrong::Lost);
        }
        if self.len == 0 {
            (self.len, self.total) = (text.len(), event.total);
        }
        if event.total != self.total || text.len() != self.len || event.seq >= event.total {
            return Err(Wrong::Changed);
        }
        self.next += 1;
        Ok(event.time_ns)
    }

    /// True once all events were there.
    pub fn is_whole(&self) -> bool {
        self.total > 0 && self.next == self.total && self.begun.is_empty()
    }
}

/// How much of an answer of `total` events of `len` bytes `text` is: the events it has whole, the bytes that it has of
/// the one after them, and the time of the last whole one. None: it is no beginning of it.
pub fn begun(text: &[u8], len: usize, total: u32) -> Option<(u32, usize, u64)> {
    let mut last_ns = 0;
    let mut count = 0;
    let mut events = text.chunks_exact(len);
    for event in events.by_ref() {
        let event = read(event)?;
        if event.seq != count || event.total != total {
            return None;
        }
        last_ns = event.time_ns;
        count += 1;
    }
    // The time cannot be known, so nothing but the bytes around it is compared.
    let part = events.remainder();
    let mut whole = vec![0; len];
    write(&mut whole, count, total, 0);
    let same =
        part.iter().zip(&whole).enumerate().all(|(at, (got, want))| got == want || (15..31).contains(&at));
    (same && count + u32::from(!part.is_empty()) <= total).then_some((count, part.len(), last_ns))
}

#[cfg(test)]
mod tests;
