//! The processes of a scenario: upstreams of this program, and Baton.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::machine::pin;
use crate::mock::Seen;

/// How long a process may take until it says where it listens, and an upstream until it answers.
const PATIENCE: Duration = Duration::from_secs(10);
const ANSWER_BYTES_MAX: u64 = 64 * 1024;

/// A process that is ended when this is dropped.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    _output: BufReader<ChildStdout>,
}

impl Process {
    /// Starts `command` on `cpu` and waits until it says `http://ADDRESS`.
    ///
    /// # Errors
    /// It does not start, or ends without saying so.
    fn start(mut command: Command, cpu: Option<usize>) -> crate::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        // A process inherits the CPU of the thread that starts it.
        let spawn = move || {
            pin(cpu)?;
            crate::Result::Ok(command.spawn()?)
        };
        let mut child = thread::spawn(spawn).join().map_err(|_| "a process could not be started")??;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        let address = loop {
            line.clear();
            if output.read_line(&mut line)? == 0 {
                let _ended = child.wait();
                return Err("a process ended before it said where it listens".into());
            }
            let address = line.split_once("http://").map(|(_, rest)| rest);
            let address = address.and_then(|rest| rest.split(['/', '\n', ' ']).next()?.parse().ok());
            if let Some(address) = address {
                break address;
            }
        };
        Ok(Self { child, address, _output: output })
    }

    /// An upstream.
    ///
    /// # Errors
    /// It does not start.
    pub fn upstream(cpu: Option<usize>) -> crate::Result<Self> {
        let mut command = Command::new("/proc/self/exe");
        command.args(["upstream", "--events", "100"]);
        Self::start(command, cpu)
    }

    /// Baton. What it logs goes to `log`.
    ///
    /// # Errors
    /// It does not start; the error has the end of its log.
    pub fn baton(program: &Path, config: &Path, log: &Path, cpu: Option<usize>) -> crate::Result<Self> {
        let mut command = Command::new(program);
        command.args(["run".as_ref(), "--config".as_ref(), config.as_os_str()]);
        command.stderr(std::fs::File::create(log)?);
        Self::start(command, cpu).map_err(|error| {
            let log = std::fs::read_to_string(log).unwrap_or_default();
            format!("{} ({error}):\n{log}", program.display()).into()
        })
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Tells the process to stop (SIGTERM).
    ///
    /// # Errors
    /// It has ended.
    pub fn stop(id: u32) -> crate::Result<()> {
        let pid = i32::try_from(id).ok().and_then(Pid::from_raw).ok_or("no process")?;
        Ok(kill_process(pid, Signal::TERM)?)
    }

    /// Waits for the process to end by itself, but not for longer than `limit`: its exit code, or None.
    pub fn wait(&mut self, limit: Duration) -> Option<i32> {
        let step = Duration::from_millis(10);
        let mut waited = Duration::ZERO;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return status.code(),
                Ok(None) if waited < limit => park(step),
                Ok(None) | Err(_) => return None,
            }
            waited += step;
        }
    }

    /// What an upstream has seen.
    ///
    /// # Errors
    /// It does not answer.
    pub fn seen(&self) -> crate::Result<Seen> {
        let mut stream = TcpStream::connect(self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.write_all(b"GET /stats HTTP/1.1\r\nhost: upstream\r\nconnection: close\r\n\r\n")?;
        let mut answer = String::new();
        stream.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
        let body = answer.split_once("\r\n\r\n").map(|(_, body)| body).unwrap_or_default();
        Ok(serde_json::from_str(body)?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Errors mean that it has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Blocks this thread, which is no core's.
pub fn park(time: Duration) {
    thread::park_timeout(time);
}

/// Baton's binary: `given`, the one beside this program, or the one on the PATH.
///
/// # Errors
/// There is none.
pub fn find_baton(given: Option<&Path>) -> crate::Result<PathBuf> {
    if let Some(given) = given {
        return Ok(given.to_owned());
    }
    let beside = std::env::current_exe()?.with_file_name("baton");
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places =
        std::iter::once(beside).chain(std::env::split_paths(&path).map(|place| place.join("baton")));
    places.find(|place| place.is_file()).ok_or_else(|| {
        "no baton binary is beside this program or on the PATH; build it (cargo build --release) or name it (--baton)".into()
    })
}
