//! One measurement of workload c: streams that are open together.

use std::cell::Cell;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;

use baton::net::clock;
use baton::net::driver::{self, RING_ENTRIES, RingMode};
use baton::net::task;
use monoio::io::{AsyncReadRent, AsyncWriteRentExt};
use monoio::net::TcpStream;

use super::figures::Figures;
use super::workload::{Times, Workload};
use crate::peers::Running;

pub const MODEL: &str = "healthy";
pub const STREAMS: u32 = 1000;
const BODY: &str =
    "{\"model\":\"healthy\",\"stream\":true,\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}";

#[derive(Default)]
struct Counts {
    open: Cell<u32>,
    events: Cell<u64>,
    errors: Cell<u64>,
}

#[derive(Clone, Copy, Default)]
struct Process {
    ns: u64,
    kb: u64,
    switches: u64,
}

impl Process {
    fn of(id: Option<u32>) -> io::Result<Self> {
        let Some(id) = id else { return Ok(Self::default()) };
        let mut process = Self::default();
        for task in fs::read_dir(format!("/proc/{id}/task"))? {
            let task = task?.path();
            let stat = fs::read_to_string(task.join("schedstat"))?;
            process.ns += stat.split(' ').next().and_then(|ns| ns.parse::<u64>().ok()).unwrap_or(0);
            let status = fs::read_to_string(task.join("status"))?;
            let value = |key: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(key));
                line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
            };
            process.kb = value("VmRSS:");
            process.switches += value("voluntary_ctxt_switches:") + value("nonvoluntary_ctxt_switches:");
        }
        Ok(process)
    }
}

#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
pub fn measure(workload: Workload, times: Times, running: &Running) -> io::Result<Figures> {
    if workload != Workload::C {
        return Err(io::Error::other("only workload c is measured so far"));
    }
    let idle = Process::of(running.id())?;
    let address = running.address;
    let (id, counts) = (running.id(), Rc::new(Counts::default()));
    driver::block_on(RingMode::SingleIssuerDeferred, RING_ENTRIES, || async move {
        for _ in 0..STREAMS {
            let counts = Rc::clone(&counts);
            let stream = async move {
                if stream(address, &counts).await.is_err() {
                    counts.errors.set(counts.errors.get() + 1);
                }
            };
            task::spawn(stream, |panic| eprintln!("{panic}"));
            monoio::time::sleep(std::time::Duration::from_micros(500)).await;
        }
        monoio::time::sleep(times.warm_up).await;
        let (before, events, start) = (Process::of(id)?, counts.events.get(), clock::now());
        monoio::time::sleep(times.window).await;
        let (after, events, took) =
            (Process::of(id)?, counts.events.get() - events, clock::now().since(start));
        let each = |value: u64| id.map(|_| value as f64 / events.max(1) as f64);
        Ok(Figures {
            cpu_us: each(after.ns - before.ns).map(|ns| ns / 1000.0),
            kb_per_stream: id.map(|_| after.kb.saturating_sub(idle.kb) as f64 / f64::from(STREAMS)),
            switches: each(after.switches - before.switches),
            rate: Some(events as f64 / took.as_secs_f64()),
            errors: counts.errors.get() + u64::from(STREAMS - counts.open.get()),
            ..Figures::default()
        })
    })?
}

async fn stream(address: SocketAddr, counts: &Counts) -> io::Result<()> {
    let mut socket = TcpStream::connect_addr(address).await?;
    socket.write_all(request().into_bytes()).await.0?;
    let mut buffer = Vec::with_capacity(4096);
    loop {
        let read;
        (read, buffer) = socket.read(buffer).await;
        let first = counts.events.get();
        if read? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if buffer.starts_with(b"HTTP/1.1 200") {
            counts.open.set(counts.open.get() + 1);
        }
        counts.events.set(first + memchr::memmem::find_iter(&buffer, b"data: ").count() as u64);
        buffer.clear();
    }
}

pub fn request() -> String {
    format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: mock\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{BODY}",
        BODY.len()
    )
}
