//! `loadtest pinned`: becomes another program, on one core, that dies with whoever started it.
//!
//! A child cannot be given a core or a parent-death signal from outside before it runs; so it starts as this program,
//! does both to itself and replaces itself. Both outlive the exec (prctl(2), sched_setaffinity(2)).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Become another program on one core; `compare` starts the proxies with it.
#[derive(clap::Args)]
pub struct Pinned {
    /// The core to run on.
    #[arg(long)]
    core: usize,
    /// The program and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<OsString>,
}

/// Never returns, except with an error.
///
/// # Errors
/// There is no such core, or no such program.
pub fn pinned(pinned: &Pinned) -> crate::Result<ExitCode> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    raise_descriptor_limit()?;
    pin(pinned.core)?;
    let Some((program, arguments)) = pinned.command.split_first() else {
        return Err("no program was named".into());
    };
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}

/// Keeps the calling thread, and the threads it will start, on `core`.
///
/// # Errors
/// There is no such core, or this process may not use it.
pub fn pin(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no core {core}")));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(|error| io::Error::other(format!("core {core}: {error}")))
}

/// The cores that this thread may use, in rising order.
///
/// # Errors
/// The kernel knows more cores than a set has room for.
pub fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Lets this process, and what it starts, open as many descriptors as the system allows.
///
/// # Errors
/// None that the kernel documents for raising a soft limit to its hard one.
pub fn raise_descriptor_limit() -> io::Result<()> {
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum })?;
    Ok(())
}
