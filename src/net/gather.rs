//! Slices to be written in one call: the bytes and the iovecs that point at them, owned together.
//!
//! # Invariants
//! * The iovecs from `first` on cover exactly the bytes not yet written, in order.
//! * Every byte an iovec covers belongs to a slice of `slices`. A merged iovec covers several slices, which happen to
//!   lie end to end; the kernel does not care whose they are as long as all are alive.

use std::io::IoSlice;

use bytes::Bytes;
use libc::iovec;
use smallvec::SmallVec;

/// Most iovecs of one call: UIO_MAXIOV of Linux, writev(2); more is EINVAL.
pub const IOVECS_MAX: usize = 1024;

/// An emptied list that grew beyond this many slices gives its memory back (12 KiB with as many iovecs; arbitrary).
const SLICES_KEPT: usize = 256;

/// Bytes to be written, in order, without copying them. Reusable: it is empty after a write that went well.
#[derive(Default)]
pub struct Gather {
    slices: SmallVec<[Bytes; 4]>,
    /// Slices before this one have been written and let go.
    first_slice: usize,
    /// How much of the first slice has been written.
    front_written: usize,
    iovecs: SmallVec<[iovec; 4]>,
    /// Iovecs before this one have been written.
    first: usize,
    len: usize,
}

impl Gather {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends `bytes`. A slice that begins where the last one ends, in memory, shares its iovec.
    pub fn push(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let (start, len) = (bytes.as_ptr().cast_mut(), bytes.len());
        match self.iovecs.last_mut() {
            Some(last) if last.iov_base.cast::<u8>().wrapping_add(last.iov_len) == start => {
                last.iov_len += len;
            }
            _ => self.iovecs.push(iovec { iov_base: start.cast(), iov_len: len }),
        }
        self.len += len;
        self.slices.push(bytes);
    }

    pub fn push_all(&mut self, all: impl IntoIterator<Item = Bytes>) {
        for bytes in all {
            self.push(bytes);
        }
    }

    /// Bytes not yet written.
    pub fn len_bytes(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Lets go of everything that is not written.
    pub fn clear(&mut self) {
        self.slices.clear();
        self.first_slice = 0;
        self.front_written = 0;
        self.iovecs.clear();
        if self.slices.capacity() > SLICES_KEPT {
            self.iovecs = SmallVec::new();
            self.slices = SmallVec::new();
        }
        self.first = 0;
        self.len = 0;
    }

    /// Takes the first `written` bytes off, after a write that may have been short. Slices that are wholly written
    /// are let go at once.
    pub(super) fn advance(&mut self, written: usize) {
        debug_assert!(written <= self.len, "the kernel wrote more than it was given");
        let written = written.min(self.len);
        self.len -= written;
        if self.len == 0 {
            self.clear();
            return;
        }
        let mut left = written;
        while let Some(next) = self.iovecs.get_mut(self.first) {
            if left < next.iov_len {
                next.iov_base = next.iov_base.cast::<u8>().wrapping_add(left).cast();
                next.iov_len -= left;
                break;
            }
            left -= next.iov_len;
            self.first += 1;
        }
        self.front_written += written;
        while let Some(front) = self.slices.get_mut(self.first_slice) {
            if self.front_written < front.len() {
                break;
            }
            self.front_written -= front.len();
            *front = Bytes::new();
            self.first_slice += 1;
        }
    }

    /// What one call takes of it. The list is good until this is changed or dropped.
    pub(super) fn iovecs(&self) -> &[iovec] {
        let rest = self.iovecs.get(self.first..).unwrap_or_default();
        rest.get(..IOVECS_MAX).unwrap_or(rest)
    }

    /// The first slices, for a writer that copies or encrypts them: as many as hold `bytes_max` bytes, at most 64.
    pub(super) fn peek(&self, bytes_max: usize) -> SmallVec<[IoSlice<'_>; 16]> {
        const SLICES_MAX: usize = 64;
        let mut peeked = SmallVec::new();
        let mut left = bytes_max;
        let mut skip = self.front_written;
        for slice in self.slices.iter().skip(self.first_slice).take(SLICES_MAX) {
            let rest = slice.get(skip..).unwrap_or_default();
            skip = 0;
            let part = rest.get(..left).unwrap_or(rest);
            peeked.push(IoSlice::new(part));
            left -= part.len();
            if left == 0 {
                break;
            }
        }
        peeked
    }
}

#[cfg(test)]
mod tests;
