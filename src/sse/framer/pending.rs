//! The data of an event that is not complete yet: slices of the chunks it came in, and what they cost.

use std::ops::Range;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::sse::{EventName, Frame, PREFIX, SUFFIX, Wire};

/// What each further `data:` line of an event counts for, besides its bytes: its offset, and its slices.
const LINE_COST: usize = 64;
/// So many slices of an event are kept whatever their length...
pub(super) const SLICES_FREE: usize = 8;
/// ...then shorter ones are copied together: each slice costs 32 bytes and may keep a whole read buffer
/// alive...
const SLIVER_BYTES: usize = 4096;
/// ...and from here on all of them, since one vectored write takes at most 1,024 slices.
pub(super) const SLICES_MAX: usize = 512;

/// The data of the unfinished event, as slices.
#[derive(Debug, Default)]
pub(super) struct Pending {
    /// A data line has begun.
    pub has_data: bool,
    pub is_error_field: bool,
    /// The canonical form so far: `data: `, then the payload.
    pub wire: Wire,
    /// Slivers copied together; they stand after `wire`.
    gathered: Vec<u8>,
    pub payload_bytes: usize,
    /// `payload_bytes`, and what the lines cost.
    pub bytes: usize,
    line_starts: SmallVec<[usize; 0]>,
}

impl Pending {
    pub fn begin_line(&mut self) {
        if self.has_data {
            self.push(Bytes::from_static(b" "));
            self.line_starts.push(self.payload_bytes);
            self.bytes += LINE_COST;
        }
        self.has_data = true;
    }

    /// Appends a part of a value, `chunk[value]`; `before` is what stands in front of it on its line.
    pub fn push_value(
        &mut self,
        chunk: &Bytes,
        before: Range<usize>,
        value: Range<usize>,
        with_prefix: bool,
    ) {
        if value.is_empty() {
            return;
        }
        let bytes = value.len();
        if !self.wire.is_empty() {
            self.push(chunk.slice(value));
        } else if with_prefix {
            self.wire.push(chunk.slice(before.start..value.end));
            self.count(bytes);
        } else {
            self.wire.push(Bytes::from_static(PREFIX));
            self.wire.push(chunk.slice(value));
            self.count(bytes);
        }
    }

    /// Appends `piece` to the payload.
    fn push(&mut self, piece: Bytes) {
        self.count(piece.len());
        if self.wire.is_empty() {
            self.wire.push(Bytes::from_static(PREFIX));
        }
        let slices = self.wire.len();
        if slices >= SLICES_MAX || (slices >= SLICES_FREE && piece.len() < SLIVER_BYTES) {
            self.gathered.extend_from_slice(&piece);
        } else {
            self.end_gathered();
            self.wire.push(piece);
        }
    }

    fn count(&mut self, bytes: usize) {
        self.payload_bytes += bytes;
        self.bytes += bytes;
    }

    fn end_gathered(&mut self) {
        if !self.gathered.is_empty() {
            self.wire.push(Bytes::from(std::mem::take(&mut self.gathered)));
        }
    }

    pub fn into_frame(mut self, name: EventName) -> Frame {
        self.end_gathered();
        self.wire.push(Bytes::from_static(SUFFIX));
        let mut frame = Frame::from_canonical(self.wire);
        frame.name = name;
        frame.is_error_field = self.is_error_field;
        frame.line_starts = self.line_starts;
        frame
    }
}
