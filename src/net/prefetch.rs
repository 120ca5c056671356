//! Asking for memory before it is used.
//!
//! A core serves thousands of streams by turns, so what belongs to one has left the cache when its next bytes come.
//! Who knows that a stream's turn is near asks for its memory then: the core works on meanwhile.

/// The processor's unit of memory.
const LINE_BYTES: usize = 64;

/// Asks for `bytes` from `start` on. A hint: nothing is read, so nothing needs to be there any more.
pub fn prefetch(start: *const u8, bytes: usize) {
    for offset in (0..bytes).step_by(LINE_BYTES) {
        line(start.wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[expect(unsafe_code, reason = "the intrinsic takes a raw pointer")]
    // SAFETY: a prefetch reads nothing and never faults, whatever the address (Intel SDM, PREFETCHh).
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(at.cast());
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn line(_at: *const u8) {}
