//! The binary under test: started with a configuration, stopped for certain.

use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::client::Client;
use super::config::Config;
use super::{PATIENCE, ms};

pub struct Proxy {
    /// The first listener.
    pub addr: SocketAddr,
    /// The admin API, where the configuration has one: [`Config::new`] has none.
    pub admin: Option<SocketAddr>,
    child: Child,
    stderr: Arc<Mutex<Vec<u8>>>,
    /// Holds the configuration file.
    _dir: tempfile::TempDir,
}

impl Proxy {
    pub fn start(config: &Config) -> Self {
        Self::start_with(&config.text(), &[])
    }

    /// Starts with a configuration's text and environment variables.
    pub fn start_with(config: &str, env: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("baton.toml");
        std::fs::write(&file, config).unwrap();
        let mut child = Command::new(binary())
            .args(["run", "--config"])
            .arg(&file)
            .envs(env.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = collect(child.stderr.take().unwrap());
        let lines = lines_of(child.stdout.take().unwrap());
        let Some(addr) = listener(&lines, "listening on http") else {
            let _ = child.kill();
            let status = child.wait();
            let said = String::from_utf8_lossy(&stderr.lock().unwrap()).into_owned();
            panic!("baton named no listener ({status:?}); it said:\n{said}\nwith\n{config}");
        };
        let has_admin = config.contains("[admin]\n") && !config.contains("[admin]\nlisten = \"\"\n");
        let admin = has_admin.then(|| listener(&lines, "admin on http").expect("the admin API's address"));
        Self { addr, admin, child, stderr, _dir: dir }
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.addr)
    }

    /// One client that has asked for a chat completion.
    pub fn ask(&self, body: &Value) -> Client {
        let mut client = self.connect();
        client.ask(body);
        client
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Everything written to stderr so far.
    pub fn logs(&self) -> String {
        String::from_utf8_lossy(&self.stderr.lock().unwrap()).into_owned()
    }

    /// Sends SIGTERM.
    pub fn signal_term(&self) {
        let status = Command::new("kill").args(["-TERM", &self.pid().to_string()]).status().unwrap();
        assert!(status.success(), "kill: {status}");
    }

    /// Sends SIGTERM and waits for the end. Returns the exit code, or nothing when a signal killed it.
    pub fn terminate(&mut self, within: Duration) -> Option<i32> {
        self.signal_term();
        self.wait_exit(within).code()
    }

    /// Waits for the end of the process; panics when it does not come.
    pub fn wait_exit(&mut self, within: Duration) -> ExitStatus {
        let until = Instant::now() + within;
        while Instant::now() < until {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status;
            }
            thread::sleep(ms(5));
        }
        panic!("baton still runs after {within:?}; it said:\n{}", self.logs());
    }

    /// Panics when the process has ended: what a crash of the proxy looks like.
    pub fn assert_alive(&mut self) {
        if let Some(status) = self.child.try_wait().unwrap() {
            panic!("baton ended: {status} (signal {:?}):\n{}", status.signal(), self.logs());
        }
    }

    /// Whether the process has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// Resident memory (`VmRSS`).
    pub fn rss_bytes(&self) -> u64 {
        self.status_bytes("VmRSS:")
    }

    /// The largest resident memory so far (`VmHWM`).
    pub fn rss_peak_bytes(&self) -> u64 {
        self.status_bytes("VmHWM:")
    }

    pub fn thread_count(&self) -> usize {
        self.status_field("Threads:").parse().unwrap()
    }

    pub fn fd_count(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap().count()
    }

    /// Waits until at most `limit` descriptors are open; returns how many are.
    pub fn wait_fd_count(&self, limit: usize, within: Duration) -> usize {
        let until = Instant::now() + within;
        while self.fd_count() > limit && Instant::now() < until {
            thread::sleep(ms(10));
        }
        self.fd_count()
    }

    pub fn has_io_uring_fd(&self) -> bool {
        let fds = std::fs::read_dir(format!("/proc/{}/fd", self.pid())).unwrap();
        let links = fds.filter_map(|fd| std::fs::read_link(fd.unwrap().path()).ok());
        links.into_iter().any(|link| link.to_string_lossy().contains("io_uring"))
    }

    fn status_bytes(&self, name: &str) -> u64 {
        self.status_field(name).trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
    }

    fn status_field(&self, name: &str) -> String {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).unwrap();
        let line = status.lines().find(|l| l.starts_with(name)).unwrap_or_else(|| panic!("no {name}"));
        line[name.len()..].trim().to_owned()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!("--- baton {} said:\n{}---", self.pid(), self.logs());
        }
    }
}

/// The binary under test; `BATON_TEST_BIN` names another build of it.
pub fn binary() -> String {
    std::env::var("BATON_TEST_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_baton").to_owned())
}

/// Reads the address of the first line that begins so and goes on with `://ADDRESS`.
fn listener(lines: &mpsc::Receiver<String>, beginning: &str) -> Option<SocketAddr> {
    let until = Instant::now() + PATIENCE;
    while let Ok(line) = lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
        let url = line.strip_prefix(beginning);
        if let Some(addr) = url.and_then(|u| u.trim_start_matches('s').strip_prefix("://")) {
            return addr.trim().trim_end_matches('/').parse().ok();
        }
    }
    None
}

/// Hands on the lines of a pipe; goes on reading when nobody listens, so that the writer never blocks.
fn lines_of(pipe: impl Read + Send + 'static) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(pipe).lines().map_while(Result::ok) {
            let _ = sender.send(line);
        }
    });
    receiver
}

fn collect(mut pipe: impl Read + Send + 'static) -> Arc<Mutex<Vec<u8>>> {
    let collected = Arc::new(Mutex::new(Vec::new()));
    let into = Arc::clone(&collected);
    thread::spawn(move || {
        let mut buf = [0; 8192];
        while let Ok(n @ 1..) = pipe.read(&mut buf) {
            into.lock().unwrap().extend_from_slice(&buf[..n]);
        }
    });
    collected
}
