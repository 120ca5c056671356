//! `loadtest pinned`: becomes another program, on one core, that dies with whoever started it.
//!
//! A child cannot be given a core or a parent-death signal from outside before it runs; so it starts as this program,
//! does both to itself and replaces itself. Both outlive the exec (prctl(2), sched_setaffinity(2)).

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use rustix::process::{Signal, set_parent_process_death_signal, setsid};
use rustix::thread::{CpuSet, sched_getaffinity};

use super::priority;
use crate::machine;

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
    machine::raise_descriptor_limit();
    machine::pin(Some(pinned.core))?;
    // A session of its own, so that it can be raised alone. Whoever leads a process group cannot have one.
    let _kept = setsid();
    let _raised = priority::raise();
    let Some((program, arguments)) = pinned.command.split_first() else {
        return Err("no program was named".into());
    };
    let error = Command::new(program).args(arguments).exec();
    Err(format!("{}: {error}", program.display()).into())
}

/// The cores that this thread may use, in rising order.
///
/// # Errors
/// The kernel knows more cores than a set has room for.
pub fn cores() -> io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}
