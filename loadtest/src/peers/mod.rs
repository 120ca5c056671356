//! The proxies that are compared: how each one is found, set up, started on its core and stopped.

mod pinned;
mod priority;
mod templates;

use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use baton::net::clock;
use clap::ValueEnum;

pub use pinned::{Pinned, cores, pinned};
pub use priority::{Session, raise};
use templates::Places;

/// How long a proxy may take until it accepts (arbitrary; the slowest, Envoy, takes under a second).
const START_TIME_MAX: Duration = Duration::from_secs(10);
const START_POLL: Duration = Duration::from_millis(5);
/// Where servers are installed that are on no user's PATH.
const SERVER_PATHS: [&str; 3] = ["/usr/sbin", "/usr/local/sbin", "/sbin"];
/// This program, also when its file was replaced since it started (proc_pid_exe(5)).
pub const SELF: &str = "/proc/self/exe";
/// Of a proxy's own complaint, what is shown when it does not start.
const COMPLAINT_BYTES: usize = 2000;

/// What the load goes through.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Proxy {
    /// No proxy: the client speaks to the upstream.
    Direct,
    Nginx,
    Haproxy,
    Envoy,
    /// `loadtest relay`.
    Relay,
    Baton,
}

impl Proxy {
    pub const ALL: [Self; 6] =
        [Self::Direct, Self::Nginx, Self::Haproxy, Self::Envoy, Self::Relay, Self::Baton];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Nginx => "nginx",
            Self::Haproxy => "haproxy",
            Self::Envoy => "envoy",
            Self::Relay => "relay",
            Self::Baton => "baton",
        }
    }

    /// How to get it where it is missing.
    pub const fn repair(self) -> &'static str {
        match self {
            Self::Direct | Self::Relay => "it is part of this program",
            Self::Nginx | Self::Haproxy => "sudo sh loadtest/peers/install.sh",
            Self::Envoy => "put an `envoy` binary on the PATH (optional)",
            Self::Baton => "cargo build --release -p baton",
        }
    }
}

/// A proxy that can be started.
#[derive(Clone, Debug)]
pub struct Installed {
    pub proxy: Proxy,
    /// Empty for [`Proxy::Direct`].
    pub program: PathBuf,
    /// The first line that it says about its version.
    pub version: String,
}

/// Looks for `proxy`; `baton` is where Baton's binary is. None: it is not installed.
pub fn find(proxy: Proxy, baton: &Path) -> Option<Installed> {
    let program = match proxy {
        Proxy::Direct => {
            return Some(Installed { proxy, program: PathBuf::new(), version: String::new() });
        }
        Proxy::Relay => Some(PathBuf::from(SELF)),
        Proxy::Baton => baton.is_file().then(|| baton.to_owned()),
        Proxy::Nginx | Proxy::Haproxy | Proxy::Envoy => on_path(proxy.name()),
    };
    program.map(|program| Installed { proxy, version: version(proxy, &program), program })
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SERVER_PATHS.iter().map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|program| program.is_file())
}

fn version(proxy: Proxy, program: &Path) -> String {
    let flag = match proxy {
        Proxy::Nginx | Proxy::Haproxy => "-v",
        Proxy::Direct | Proxy::Envoy | Proxy::Relay | Proxy::Baton => "--version",
    };
    let Ok(output) = Command::new(program).arg(flag).output() else { return "unknown".to_owned() };
    // nginx says it on stderr.
    let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
    String::from_utf8_lossy(&said)
        .lines()
        .find(|line| !line.trim().is_empty())
        .unwrap_or("unknown")
        .trim()
        .to_owned()
}

/// Where a proxy runs and what it is in front of.
#[derive(Clone, Copy, Debug)]
pub struct Setting<'a> {
    pub upstream: SocketAddr,
    pub core: usize,
    /// A directory of its own for configs and logs.
    pub directory: &'a Path,
    /// The model name that the load asks for.
    pub model: &'a str,
    /// The line in Baton's `[server]` that has its clients come by TLS; empty: they do not.
    pub tls: &'a str,
}

/// A child process, killed and waited for when this is dropped; the kernel kills it if this program dies first.
pub struct Process(Child);

impl Process {
    /// Starts `program` on `core`. What it says goes to `log`.
    ///
    /// # Errors
    /// It cannot be started, or the log cannot be written.
    pub fn start(program: &Path, arguments: &[String], core: usize, log: &Path) -> io::Result<Self> {
        let out = fs::File::create(log)?;
        let mut command = Command::new(SELF);
        command.arg("pinned").arg("--core").arg(core.to_string()).arg("--").arg(program).args(arguments);
        command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
        Ok(Self(command.spawn()?))
    }

    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until something accepts at `address`.
    ///
    /// # Errors
    /// The process ended, or took too long; with what it wrote to `log`.
    pub fn wait_for(&mut self, address: SocketAddr, log: &Path) -> io::Result<()> {
        let deadline = clock::now().after(START_TIME_MAX);
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Err(io::Error::other(format!("it ended at once ({status}): {}", complaint(log))));
            }
            if TcpStream::connect(address).is_ok() {
                return Ok(());
            }
            if clock::now() >= deadline {
                let limit = START_TIME_MAX.as_secs();
                return Err(io::Error::other(format!(
                    "it accepts nothing after {limit} s: {}",
                    complaint(log)
                )));
            }
            pause(START_POLL);
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // An error means that it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn complaint(log: &Path) -> String {
    let said = fs::read_to_string(log).unwrap_or_default();
    let mut from = said.len().saturating_sub(COMPLAINT_BYTES);
    while !said.is_char_boundary(from) {
        from += 1;
    }
    said.get(from..).unwrap_or_default().trim().to_owned()
}

/// A started proxy.
pub struct Running {
    /// Where the load goes.
    pub address: SocketAddr,
    /// None: [`Proxy::Direct`].
    process: Option<Process>,
}

impl Running {
    /// The process whose figures are taken; None: there is no proxy.
    pub fn id(&self) -> Option<u32> {
        self.process.as_ref().map(Process::id)
    }
}

impl Installed {
    /// Starts it. It accepts when this returns.
    ///
    /// # Errors
    /// The config cannot be written, or the proxy does not start; it says itself why.
    pub fn start(&self, setting: &Setting<'_>) -> io::Result<Running> {
        if self.proxy == Proxy::Direct {
            return Ok(Running { address: setting.upstream, process: None });
        }
        let named =
            |error: io::Error| io::Error::other(format!("{} did not start: {error}", self.proxy.name()));
        let listen = free_address().map_err(named)?;
        let places = Places { listen, setting };
        let arguments = self.arguments(&places).map_err(named)?;
        let log = setting.directory.join(format!("{}.log", self.proxy.name()));
        let mut process = Process::start(&self.program, &arguments, setting.core, &log).map_err(named)?;
        process.wait_for(listen, &log).map_err(named)?;
        Ok(Running { address: listen, process: Some(process) })
    }

    /// Writes the config and says how the program is called with it.
    fn arguments(&self, places: &Places<'_>) -> io::Result<Vec<String>> {
        let config = match templates::of(self.proxy) {
            Some(template) => places.write(template)?,
            None => String::new(),
        };
        let words: &[&str] = match self.proxy {
            Proxy::Direct => &[],
            Proxy::Nginx => &["-c", &config, "-p", "/"],
            Proxy::Haproxy => &["-db", "-f", &config],
            Proxy::Envoy => &["--concurrency", "1", "--use-dynamic-base-id", "-l", "error", "-c", &config],
            Proxy::Relay => &[
                "relay",
                "--listen",
                &places.listen.to_string(),
                "--upstream",
                &places.setting.upstream.to_string(),
            ],
            Proxy::Baton => &["run", "--config", &config],
        };
        Ok(words.iter().map(|word| (*word).to_owned()).collect())
    }
}

/// An address on the loopback that was free a moment ago.
///
/// # Errors
/// No port is free.
pub fn free_address() -> io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}

/// Lets this thread wait; it serves nobody.
#[expect(clippy::disallowed_methods, reason = "no core of a proxy: nobody else waits for this thread")]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}
