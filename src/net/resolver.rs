//! Names to addresses, without blocking a core: `getaddrinfo(3)` on threads of its own.
//!
//! The threads are shared by all cores and started when the first name is asked for. Answers are kept in the core that
//! asked; failures are not. Requests for the same name on one core share one look-up.

use std::cell::RefCell;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use crate::time::MonoTime;

/// How long an answer is used. `getaddrinfo` does not tell the records' time to live; cloud load balancers use 60 s.
const KEPT: Duration = Duration::from_secs(30);
/// Names that a core remembers. They come from the config, so this is a bound and no working size.
const NAMES_MAX: usize = 1024;
/// A name server that is down keeps a thread for 10 s and more; others may then still be resolved.
const THREADS: usize = 4;
/// Look-ups that may wait for a thread, of all cores.
const QUEUE_MAX: usize = 256;

/// Why a name has no addresses.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error(
        "the name {host} cannot be resolved: {reason}; check the host in base_url and the machine's name servers"
    )]
    Failed { host: String, reason: String },
    #[error("the name {host} has no address")]
    NoAddress { host: String },
    #[error("{QUEUE_MAX} names are being resolved already; the machine's name servers do not answer")]
    Busy,
    #[error("the resolver's threads cannot be started: {reason}")]
    NoThreads { reason: String },
}

type Answer = Result<Vec<SocketAddr>, ResolveError>;

/// The addresses of `host`, in the order in which to try them (RFC 6724, as `getaddrinfo` sorts). An IP address, in
/// brackets or not, is its own answer.
///
/// The future may be dropped at any time.
pub async fn resolve(host: &str, port: u16, now: MonoTime) -> Result<Vec<SocketAddr>, ResolveError> {
    let literal = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    if let Ok(ip) = literal.parse::<IpAddr>() {
        return Ok(vec![SocketAddr::new(ip, port)]);
    }
    let question = ASKED.with_borrow_mut(|asked| find_or_ask(asked, host, port, now))?;
    poll_fn(|cx| question.poll(cx)).await
}

thread_local! {
    static ASKED: RefCell<Vec<Asked>> = const { RefCell::new(Vec::new()) };
}

struct Asked {
    host: Box<str>,
    port: u16,
    at: MonoTime,
    question: Arc<Question>,
}

fn find_or_ask(
    asked: &mut Vec<Asked>,
    host: &str,
    port: u16,
    now: MonoTime,
) -> Result<Arc<Question>, ResolveError> {
    let known = asked.iter().position(|entry| entry.port == port && *entry.host == *host);
    if let Some(entry) = known.and_then(|place| asked.get(place)) {
        let fresh = now.since(entry.at) < KEPT;
        if entry.question.is_open() || (fresh && !entry.question.has_failed()) {
            return Ok(entry.question.clone());
        }
    }
    let question = ask(host, port)?;
    if let Some(place) = known {
        asked.swap_remove(place);
    } else if asked.len() >= NAMES_MAX {
        asked.remove(0);
    }
    asked.push(Asked { host: host.into(), port, at: now, question: question.clone() });
    Ok(question)
}

/// One look-up: filled by a resolver thread, awaited by tasks of one core.
struct Question {
    host: String,
    port: u16,
    state: Mutex<QuestionState>,
}

#[derive(Default)]
struct QuestionState {
    answer: Option<Answer>,
    waiting: Vec<Waker>,
}

impl Question {
    fn state(&self) -> MutexGuard<'_, QuestionState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        self.state().answer.is_none()
    }

    fn has_failed(&self) -> bool {
        matches!(self.state().answer, Some(Err(_)))
    }

    fn poll(&self, cx: &Context<'_>) -> Poll<Answer> {
        let mut state = self.state();
        if let Some(answer) = &state.answer {
            return Poll::Ready(answer.clone());
        }
        if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
            state.waiting.push(cx.waker().clone());
        }
        Poll::Pending
    }

    fn fill(&self, answer: Answer) {
        let waiting = {
            let mut state = self.state();
            state.answer = Some(answer);
            std::mem::take(&mut state.waiting)
        };
        for waker in waiting {
            waker.wake();
        }
    }
}

fn ask(host: &str, port: u16) -> Result<Arc<Question>, ResolveError> {
    static QUEUE: LazyLock<Result<SyncSender<Arc<Question>>, String>> =
        LazyLock::new(|| start_threads().map_err(|error| error.to_string()));
    let queue = QUEUE.as_ref().map_err(|reason| ResolveError::NoThreads { reason: reason.clone() })?;
    let question = Arc::new(Question { host: host.to_owned(), port, state: Mutex::default() });
    match queue.try_send(question.clone()) {
        Ok(()) => Ok(question),
        Err(TrySendError::Full(_)) => Err(ResolveError::Busy),
        Err(TrySendError::Disconnected(_)) => {
            Err(ResolveError::NoThreads { reason: "they have ended".to_owned() })
        }
    }
}

fn start_threads() -> io::Result<SyncSender<Arc<Question>>> {
    let (sender, receiver) = sync_channel(QUEUE_MAX);
    let receiver = Arc::new(Mutex::new(receiver));
    for number in 0..THREADS {
        let receiver = receiver.clone();
        thread::Builder::new()
            .name(format!("baton-resolver-{number}"))
            .stack_size(256 * 1024)
            .spawn(move || answer_all(&receiver))?;
    }
    Ok(sender)
}

fn answer_all(receiver: &Mutex<Receiver<Arc<Question>>>) {
    loop {
        // One of the threads waits inside of the lock, the others for the lock.
        let question = receiver.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(question) = question else { return };
        question.fill(look_up(&question.host, question.port));
    }
}

#[expect(clippy::disallowed_methods, reason = "this is the resolver's own thread: it may block")]
fn look_up(host: &str, port: u16) -> Answer {
    use std::net::ToSocketAddrs;
    let found = (host, port).to_socket_addrs();
    let addresses: Vec<_> = found
        .map_err(|error| ResolveError::Failed { host: host.to_owned(), reason: error.to_string() })?
        .collect();
    if addresses.is_empty() { Err(ResolveError::NoAddress { host: host.to_owned() }) } else { Ok(addresses) }
}
