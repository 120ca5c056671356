//! Which I/O driver a core runs on, and how its ring is set up.
//!
//! io_uring is refused on old kernels and by the default seccomp profiles of container engines, so what a core gets is
//! found out by trying ([`probe`]), once, before the cores start.

use std::{fmt, future::Future, io};

use io_uring::{IoUring, Probe, opcode};
use monoio::{IoUringDriver, LegacyDriver, RuntimeBuilder};

pub use crate::config::Io;

/// Submission queue entries of a core's ring; its completion queue has twice as many. Such a ring takes
/// 400 KiB; a fuller submission queue is handed to the kernel at once, so the number bounds nothing but batching.
pub const RING_ENTRIES: u32 = 4096;

/// What a core runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RingMode {
    /// io_uring with SINGLE_ISSUER and DEFER_TASKRUN (Linux 6.1): the kernel does its part of the work only while
    /// the core waits, without interrupting it.
    SingleIssuerDeferred,
    /// io_uring without flags.
    Plain,
    Epoll,
}

impl RingMode {
    /// The name for the log line and `/status`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::SingleIssuerDeferred => "io_uring (single issuer, deferred)",
            Self::Plain => "io_uring",
            Self::Epoll => "epoll",
        }
    }

    /// How rings are set up in this mode; None: there is no ring.
    fn builder(self) -> Option<io_uring::Builder> {
        let mut builder = IoUring::builder();
        match self {
            Self::SingleIssuerDeferred => {
                builder.setup_single_issuer().setup_defer_taskrun();
            }
            Self::Plain => {}
            Self::Epoll => return None,
        }
        Some(builder)
    }
}

/// The mode that [`probe`] settled on. Displays as the one log line about it.
#[derive(Debug)]
pub struct Found {
    pub mode: RingMode,
    /// Why it is not the best one; None if it is, or if it was asked for.
    pub refusal: Option<Refusal>,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "I/O driver: {}", self.mode.name())?;
        match &self.refusal {
            Some(refusal) => write!(f, ", because {refusal}"),
            None => Ok(()),
        }
    }
}

/// Why the kernel gave no ring of a mode.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    #[error("{} was refused: {source}; {}", mode.name(), repair(source))]
    Setup { mode: RingMode, source: io::Error },
    #[error("this kernel's {} lacks the operation {operation}; Linux 5.11 or later has it", mode.name())]
    Operation { mode: RingMode, operation: &'static str },
    #[error("a no-op on {} did not complete within 1 s; set server.io = \"epoll\"", mode.name())]
    Silent { mode: RingMode },
}

/// `io = "io_uring"` was asked for and cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("server.io is \"io_uring\", but {0}. With server.io = \"auto\" Baton runs on epoll here")]
pub struct DriverError(pub Refusal);

/// What mends a refused set-up (io_uring_setup(2), "ERRORS"; kernel documentation, "io_uring_disabled").
fn repair(error: &io::Error) -> &'static str {
    match error.raw_os_error() {
        Some(1 | 13) => {
            "allow io_uring_setup, io_uring_enter and io_uring_register in the container's seccomp profile, and see \
             that the sysctl kernel.io_uring_disabled is 0"
        }
        Some(38) => "Linux 5.11 or later has it",
        Some(22) => "this set-up needs Linux 6.1 or later",
        Some(12) => "raise the limit of locked memory (ulimit -l)",
        Some(23 | 24) => "raise the limit of open files (ulimit -n)",
        _ => "see io_uring_setup(2) for this error",
    }
}

/// Finds out what the cores of this process can run on. Tries the modes from the best one down, each with a real ring
/// of [`RING_ENTRIES`] that is given back at once.
///
/// # Errors
/// Only when io_uring itself is asked for; otherwise there is always epoll.
pub fn probe(io: Io) -> Result<Found, DriverError> {
    if io == Io::Epoll {
        return Ok(Found { mode: RingMode::Epoll, refusal: None });
    }
    let refusal = match attempt(RingMode::SingleIssuerDeferred) {
        Ok(()) => return Ok(Found { mode: RingMode::SingleIssuerDeferred, refusal: None }),
        Err(refusal) => refusal,
    };
    match (attempt(RingMode::Plain), io) {
        (Ok(()), _) => Ok(Found { mode: RingMode::Plain, refusal: Some(refusal) }),
        (Err(refusal), Io::Auto | Io::Epoll) => Ok(Found { mode: RingMode::Epoll, refusal: Some(refusal) }),
        (Err(refusal), Io::IoUring) => Err(DriverError(refusal)),
    }
}

/// Every operation that monoio submits for sockets, and what it is called in the manual.
const OPERATIONS: [(u8, &str); 15] = [
    (opcode::Accept::CODE, "accept"),
    (opcode::AsyncCancel::CODE, "async_cancel"),
    (opcode::Close::CODE, "close"),
    (opcode::Connect::CODE, "connect"),
    (opcode::PollAdd::CODE, "poll_add"),
    (opcode::Read::CODE, "read"),
    (opcode::Readv::CODE, "readv"),
    (opcode::Recv::CODE, "recv"),
    (opcode::RecvMsg::CODE, "recvmsg"),
    (opcode::Send::CODE, "send"),
    (opcode::SendMsg::CODE, "sendmsg"),
    (opcode::Shutdown::CODE, "shutdown"),
    (opcode::Timeout::CODE, "timeout"),
    (opcode::Write::CODE, "write"),
    (opcode::Writev::CODE, "writev"),
];

/// Sets up a ring in `mode`, asks which operations it has, and sends a no-op through it: some sandboxes let the set-up
/// pass and refuse the rest.
///
/// # Errors
/// Why the kernel does not offer the mode. Epoll is always there.
pub fn attempt(mode: RingMode) -> Result<(), Refusal> {
    let refused = |source| Refusal::Setup { mode, source };
    let Some(builder) = mode.builder() else { return Ok(()) };
    let mut ring = builder.build(RING_ENTRIES).map_err(refused)?;
    let mut probe = Probe::new();
    ring.submitter().register_probe(&mut probe).map_err(refused)?;
    if let Some((_, operation)) = OPERATIONS.into_iter().find(|(code, _)| !probe.is_supported(*code)) {
        return Err(Refusal::Operation { mode, operation });
    }
    let no_op = opcode::Nop::new().build();
    #[expect(unsafe_code, reason = "io-uring's push is unsafe for operations that point at memory")]
    // SAFETY: a no-op points at no memory.
    let pushed = unsafe { ring.submission().push(&no_op) };
    let a_second = io_uring::types::Timespec::new().sec(1);
    let wait = io_uring::types::SubmitArgs::new().timespec(&a_second);
    let mut submitted = ring.submitter().submit_with_args(1, &wait);
    while submitted.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::Interrupted) {
        // By a signal: what was submitted is on its way.
        submitted = ring.submitter().submit_with_args(1, &wait);
    }
    match submitted {
        Ok(_) if pushed.is_ok() && ring.completion().next().is_some() => Ok(()),
        Ok(_) => Err(Refusal::Silent { mode }),
        Err(error) if error.raw_os_error() == Some(62) => Err(Refusal::Silent { mode }), // ETIME
        Err(source) => Err(refused(source)),
    }
}

/// Runs a future on this thread in a monoio runtime with timers, set up as `mode` says. `main` is called inside the
/// runtime. Tasks that are still pending when its future is ready are not run any more.
///
/// # Errors
/// The ring or the epoll instance could not be set up.
pub fn block_on<F: Future>(mode: RingMode, entries: u32, main: impl FnOnce() -> F) -> io::Result<F::Output> {
    match mode.builder() {
        Some(ring) => {
            let builder = RuntimeBuilder::<IoUringDriver>::new().uring_builder(ring).with_entries(entries);
            Ok(builder.enable_timer().build()?.block_on(async { main().await }))
        }
        None => {
            let builder = RuntimeBuilder::<LegacyDriver>::new().with_entries(entries);
            Ok(builder.enable_timer().build()?.block_on(async { main().await }))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_says_what_was_refused_why_and_how_to_mend_it() {
        let cases = [
            ("seccomp or sysctl", 1, "seccomp profile"),
            ("an old kernel", 38, "5.11"),
            ("flags it does not know", 22, "6.1"),
            ("locked memory", 12, "ulimit -l"),
            ("open files", 24, "ulimit -n"),
            ("anything else", 5, "io_uring_setup(2)"),
        ];
        for (name, errno, repair) in cases {
            let refusal =
                Refusal::Setup { mode: RingMode::Plain, source: io::Error::from_raw_os_error(errno) };
            let line = Found { mode: RingMode::Epoll, refusal: Some(refusal) }.to_string();
            assert!(line.starts_with("I/O driver: epoll, because io_uring was refused: "), "{name}: {line}");
            assert!(line.contains(repair), "{name}: {line}");
        }
    }

    #[test]
    fn a_refused_io_uring_names_the_key_and_the_way_out() {
        let text = DriverError(Refusal::Silent { mode: RingMode::Plain }).to_string();
        assert!(text.contains("server.io") && text.contains("\"auto\""), "{text}");
    }

    #[test]
    fn epoll_is_taken_as_asked_without_looking_further() {
        let found = probe(Io::Epoll).unwrap();
        assert_eq!((found.mode, found.to_string()), (RingMode::Epoll, "I/O driver: epoll".to_owned()));
    }

    #[test]
    fn the_runtime_gives_what_its_future_gives() {
        assert_eq!(block_on(RingMode::Epoll, 256, || async { 7 }).unwrap(), 7);
    }
}
