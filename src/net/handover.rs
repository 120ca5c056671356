//! A way for values from other cores to one core, and into a task of it.
//!
//! The values go through a bounded channel. That something is in it comes in as I/O, by a byte through a socket: where
//! monoio's own wakers come from another thread it does not wait, and so does not reap (0.2.4, `inner_park`).
//!
//! # Invariants
//! * At most one byte is unread: the flag `is_rung` is set before it is written, and cleared before the channel is looked at. So
//!   the socket is never full, and a value that finds the flag set is seen.
//! * The socket is closed after the channel, and both when the last [`Sender`] is dropped: at the end of the stream
//!   the channel says whether there is more, and then that there never will be.

use std::io;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, SyncSender, TryRecvError, TrySendError};

use super::socket::receive_now;

/// What the two ends both know.
#[derive(Debug, Default)]
struct Common {
    is_rung: AtomicBool,
    /// Values that were sent and not taken.
    waiting: AtomicUsize,
}

/// The end that other cores have. Clones share it.
#[derive(Debug)]
pub struct Sender<T>(Arc<Outer<T>>);

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Fields are dropped in this order: see above.
#[derive(Debug)]
struct Outer<T> {
    values: SyncSender<T>,
    bell: UnixStream,
    common: Arc<Common>,
}

/// The taking end, before it is on its core.
#[derive(Debug)]
pub struct Receiver<T> {
    values: mpsc::Receiver<T>,
    bell: UnixStream,
    common: Arc<Common>,
}

/// The taking end on its core.
pub struct Inlet<T> {
    values: mpsc::Receiver<T>,
    bell: monoio::net::UnixStream,
    common: Arc<Common>,
}

/// A way that holds `capacity` values.
///
/// # Errors
/// No sockets are to be had.
pub fn channel<T>(capacity: usize) -> io::Result<(Sender<T>, Receiver<T>)> {
    let (outside, inside) = UnixStream::pair()?;
    outside.set_nonblocking(true)?;
    inside.set_nonblocking(true)?;
    let (sender, values) = mpsc::sync_channel(capacity);
    let common = Arc::<Common>::default();
    let outer = Outer { values: sender, bell: outside, common: Arc::clone(&common) };
    Ok((Sender(Arc::new(outer)), Receiver { values, bell: inside, common }))
}

impl<T> Sender<T> {
    /// How many values wait to be taken. Never fewer than there are.
    pub fn waiting(&self) -> usize {
        self.0.common.waiting.load(Ordering::Relaxed)
    }

    /// Sends a value, without waiting.
    ///
    /// # Errors
    /// The value comes back: too many wait, or nobody takes them any more.
    pub fn send(&self, value: T) -> Result<(), T> {
        let Outer { values, bell, common } = &*self.0;
        common.waiting.fetch_add(1, Ordering::Relaxed);
        if let Err(TrySendError::Full(value) | TrySendError::Disconnected(value)) = values.try_send(value) {
            common.waiting.fetch_sub(1, Ordering::Relaxed);
            return Err(value);
        }
        if !common.is_rung.swap(true, Ordering::AcqRel) {
            // Fails when the core has ended, and what it had not taken is dropped then.
            let mut bell = bell;
            let _core_ended = bell.write(&[1]);
        }
        Ok(())
    }
}

impl<T> Receiver<T> {
    /// Puts this end to use. Runs on the core.
    ///
    /// # Errors
    /// The driver does not take the socket.
    pub fn open(self) -> io::Result<Inlet<T>> {
        let Self { values, bell, common } = self;
        Ok(Inlet { values, bell: monoio::net::UnixStream::from_std(bell)?, common })
    }
}

impl<T> Inlet<T> {
    /// The next value; None: there will never be one again. May be dropped at any time.
    ///
    /// # Errors
    /// The socket's: none that is known of.
    pub async fn next(&mut self) -> io::Result<Option<T>> {
        loop {
            match self.values.try_recv() {
                Ok(value) => {
                    self.common.waiting.fetch_sub(1, Ordering::Relaxed);
                    return Ok(Some(value));
                }
                Err(TryRecvError::Disconnected) => return Ok(None),
                Err(TryRecvError::Empty) => self.rung().await?,
            }
        }
    }

    async fn rung(&self) -> io::Result<()> {
        loop {
            self.bell.readable(false).await?;
            match receive_now(&self.bell, &mut [0]) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                received => {
                    received?;
                    self.common.is_rung.swap(false, Ordering::AcqRel);
                    return Ok(());
                }
            }
        }
    }
}
