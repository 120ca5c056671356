//! The client proper: one thread, one monoio runtime, a task for each connection.

use std::cell::{Cell, RefCell};
use std::io;
use std::net::{self, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use baton::net::{Connection, Gather, Shutdown, task};
use bytes::Bytes;
use monoio::net::TcpStream;

use super::Work;
use super::answer::{Fed, Response};
use super::check::{Kind, Times};
use super::recorder::Recorder;
use crate::text::now_ns;

/// After an error, so that a proxy that is gone is not asked as fast as can be.
const PAUSE_AFTER_ERROR: Duration = Duration::from_millis(5);
/// A slow reader waits so long between two reads of 2 to 4 KiB.
const SLOW_PAUSE: Duration = Duration::from_millis(20);

/// Nobody listens.
pub const REFUSED: &str = "connect: refused";

/// What the connections of a thread share.
pub struct Client {
    pub work: Work,
    pub recorder: RefCell<Recorder>,
    /// No further request.
    pub stopped: Cell<bool>,
    /// What is open now is to be ended.
    pub ending: Cell<bool>,
    /// Connections' tasks that have not ended.
    pub live: Cell<usize>,
    /// Answers that have begun and not ended.
    pub streams: Cell<u64>,
    pub unfinished: Cell<u64>,
    started: Cell<u64>,
    begin_ns: u64,
    address: SocketAddr,
    request: Bytes,
    open: RefCell<Vec<Open>>,
}

struct Open {
    shutdown: Shutdown,
    /// When something came last, while an answer is awaited; 0: none is.
    awaited_since: Rc<Cell<u64>>,
}

struct Link {
    connection: Connection,
    awaited_since: Rc<Cell<u64>>,
}

/// How asking failed.
enum Failure {
    Wrong(Kind),
    /// The run is over.
    Ended,
}

impl From<Kind> for Failure {
    fn from(kind: Kind) -> Self {
        Self::Wrong(kind)
    }
}

impl Client {
    /// `work` is this thread's part.
    ///
    /// # Errors
    /// The URL is none.
    pub fn new(work: Work, begin_ns: u64) -> crate::Result<Rc<Self>> {
        let (address, request) = (super::target::address(&work.url)?, super::target::request(&work)?);
        Ok(Rc::new(Self {
            recorder: RefCell::new(Recorder::new()?),
            stopped: Cell::default(),
            ending: Cell::default(),
            live: Cell::default(),
            streams: Cell::default(),
            unfinished: Cell::default(),
            started: Cell::default(),
            begin_ns,
            address,
            request,
            open: RefCell::default(),
            work,
        }))
    }

    /// Starts the connections' tasks.
    pub fn start(self: &Rc<Self>) {
        for index in 0..self.work.connections {
            self.live.set(self.live.get() + 1);
            let client = Rc::clone(self);
            let run = async move {
                client.connection(index).await;
                client.live.set(client.live.get() - 1);
            };
            task::spawn(run, |panic| eprintln!("loadtest: a client connection panicked: {panic}"));
        }
    }

    /// Ends answers that have not moved for the work's timeout.
    pub fn sweep(&self) {
        let now = now_ns();
        let limit = u64::try_from(self.work.timeout.as_nanos()).unwrap_or(u64::MAX);
        let mut open = self.open.borrow_mut();
        open.retain(|open| open.shutdown.is_open());
        for open in open.iter() {
            let since = open.awaited_since.get();
            if since != 0 && now.saturating_sub(since) > limit {
                open.awaited_since.set(u64::MAX);
                open.shutdown.shutdown(net::Shutdown::Both);
            }
        }
    }

    /// Ends whatever is open.
    pub fn end(&self) {
        self.ending.set(true);
        for open in self.open.borrow().iter() {
            open.shutdown.shutdown(net::Shutdown::Both);
        }
    }

    async fn connection(&self, index: usize) {
        let share = index as f64 / self.work.connections.max(1) as f64;
        monoio::time::sleep(self.work.ramp_up.mul_f64(share)).await;
        let slow = index < self.work.slow_readers;
        let mut link = None;
        while let Some(start_ns) = self.next_start().await {
            let mut times = Times { start_ns, before_ns: 0 };
            match self.ask(&mut link, &mut times, slow).await {
                Ok(()) => self.recorder.borrow_mut().answer(&times),
                Err(Failure::Ended) => {
                    self.unfinished.set(self.unfinished.get() + 1);
                    return;
                }
                Err(Failure::Wrong(kind)) => {
                    link = None;
                    let refused = kind == REFUSED;
                    self.recorder.borrow_mut().error(kind);
                    if refused && self.work.leave_when_refused {
                        return;
                    }
                    monoio::time::sleep(PAUSE_AFTER_ERROR).await;
                }
            }
        }
    }

    /// Waits for the next request's start and gives the intended time of it; None: there is no further one.
    async fn next_start(&self) -> Option<u64> {
        let number = self.started.get();
        if self.stopped.get() || self.work.requests.is_some_and(|requests| number >= requests) {
            return None;
        }
        self.started.set(number + 1);
        let now = now_ns();
        let Some(rate) = self.work.rate else { return Some(now) };
        let intended = self.begin_ns + (number as f64 * 1e9 / rate) as u64;
        if intended > now {
            monoio::time::sleep(Duration::from_nanos(intended - now)).await;
        }
        self.recorder.borrow_mut().lag(now_ns().saturating_sub(intended));
        (!self.stopped.get()).then_some(intended)
    }

    async fn ask(&self, link: &mut Option<Link>, times: &mut Times, slow: bool) -> Result<(), Failure> {
        loop {
            let reused = link.is_some();
            let mut used = match link.take() {
                Some(link) => link,
                None => self.connect().await?,
            };
            used.awaited_since.set(now_ns());
            let mut response = Response::new(self.work.streamed);
            let answered = self.exchange(&mut used, &mut response, times, slow).await;
            if self.ending.get() {
                return Err(Failure::Ended);
            }
            let timed_out = used.awaited_since.replace(0) == u64::MAX;
            match answered {
                Ok(keep_alive) => {
                    *link = keep_alive.then_some(used);
                    return Ok(());
                }
                Err(_) if timed_out => return Err(Kind::from("timeout").into()),
                // The server has closed the idle connection meanwhile.
                Err((_, false)) if reused => {}
                Err((kind, _)) => return Err(kind.into()),
            }
        }
    }

    async fn connect(&self) -> Result<Link, Kind> {
        let stream = TcpStream::connect_addr(self.address).await.map_err(|error| match error.kind() {
            io::ErrorKind::ConnectionRefused => Kind::from(REFUSED),
            _ => Kind::from(format!("connect: {error}")),
        })?;
        // Nagle's algorithm would only matter to a second small write, which there is none of.
        let connection = Connection::plain(stream);
        let awaited_since = Rc::new(Cell::new(0));
        let open = Open { shutdown: connection.shutdown.clone(), awaited_since: Rc::clone(&awaited_since) };
        self.open.borrow_mut().push(open);
        Ok(Link { connection, awaited_since })
    }

    /// Sends the request and reads the answer: whether the connection is of further use. An error tells, beside what
    /// is wrong, whether anything of an answer came.
    async fn exchange(
        &self,
        link: &mut Link,
        response: &mut Response,
        times: &mut Times,
        slow: bool,
    ) -> Result<bool, (Kind, bool)> {
        let mut gather = Gather::new();
        gather.push(self.request.clone());
        link.connection.write.write(&mut gather).await.map_err(|error| (broken(&error), false))?;
        let mut under_way = UnderWay { streams: &self.streams, counted: false };
        loop {
            let read = link.connection.read.read().await;
            let came = under_way.counted;
            let bytes = read.map_err(|error| (broken(&error), came))?;
            if let Some(keep_alive) = self.take(&bytes, link, response, times, &mut under_way)? {
                return Ok(keep_alive);
            }
            drop(bytes);
            if slow {
                monoio::time::sleep(SLOW_PAUSE).await;
            }
        }
    }

    /// Looks at what was read: whether the connection is of further use, once the answer has ended.
    fn take(
        &self,
        bytes: &Bytes,
        link: &Link,
        response: &mut Response,
        times: &mut Times,
        under_way: &mut UnderWay<'_>,
    ) -> Result<Option<bool>, (Kind, bool)> {
        let mut recorder = self.recorder.borrow_mut();
        recorder.now_ns = now_ns();
        if bytes.is_empty() {
            let closed = response.close(&mut recorder, times);
            return closed.map(|()| Some(false)).map_err(|kind| (kind, under_way.counted));
        }
        if link.awaited_since.get() != u64::MAX {
            link.awaited_since.set(recorder.now_ns);
        }
        under_way.begin();
        match response.feed(bytes, &mut recorder, times).map_err(|kind| (kind, true))? {
            Fed::More => Ok(None),
            Fed::End { keep_alive } => Ok(Some(keep_alive)),
        }
    }
}

fn broken(error: &io::Error) -> Kind {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset".into(),
        _ => format!("connection: {error}").into(),
    }
}

/// Counts an answer from its first bytes to its end.
struct UnderWay<'a> {
    streams: &'a Cell<u64>,
    counted: bool,
}

impl UnderWay<'_> {
    fn begin(&mut self) {
        if !self.counted {
            self.counted = true;
            self.streams.set(self.streams.get() + 1);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        if self.counted {
            self.streams.set(self.streams.get().saturating_sub(1));
        }
    }
}
