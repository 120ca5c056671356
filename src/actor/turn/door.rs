//! A core's door: how other threads, and the core itself behind its I/O, ask for a turn.

use std::{
    io::Write,
    os::unix::net::UnixStream,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{CORE, Core, knock};

/// A core's door: other threads knock here after they sent something to one of its actors.
#[derive(Clone, Debug)]
pub struct Door(pub(super) Arc<Knocker>);

#[derive(Debug)]
pub(super) struct Knocker {
    /// A byte is on its way. Cleared by the core before it takes the turn.
    pub due: AtomicBool,
    pub socket: UnixStream,
}

impl Door {
    /// The core's actors have something to do. Once the core has ended nothing happens.
    pub fn knock(&self) {
        let is_own =
            |core: &Core| core.door.borrow().as_ref().is_some_and(|door| Arc::ptr_eq(&door.0, &self.0));
        if CORE.try_with(is_own).unwrap_or(false) {
            knock();
        } else {
            self.knock_by_socket();
        }
    }

    pub(super) fn knock_by_socket(&self) {
        if !self.0.due.swap(true, Ordering::AcqRel) {
            // At most one byte is unread, so the socket is never full; it is closed when the core has ended.
            let _core_ended = (&self.0.socket).write(&[1]);
        }
    }
}
