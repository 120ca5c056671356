//! What the tests of `net` share: a runtime of each driver, threads that play the peer, bytes that betray their place.
#![allow(dead_code, reason = "each test binary uses its own part")]

pub mod tls;

use std::future::{Future, poll_fn};
use std::io::{self, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::LazyLock;
use std::sync::mpsc::{self, Receiver};
use std::task::Poll;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use baton::net::{Gather, Progress};
use bytes::Bytes;

/// No test takes nearly as long; one that hangs fails by then.
const HANG: Duration = Duration::from_secs(60);

/// Runs `test` on io_uring as the cores set it up, then on epoll, each on a thread of its own.
pub fn on_both_drivers<F: Future<Output = ()> + 'static>(test: fn() -> F) {
    bounded("io_uring", move || {
        let mut ring = io_uring::IoUring::builder();
        ring.setup_single_issuer().setup_defer_taskrun();
        let runtime = monoio::RuntimeBuilder::<monoio::IoUringDriver>::new()
            .uring_builder(ring)
            .with_entries(4096)
            .enable_timer()
            .build();
        match runtime {
            Ok(mut runtime) => runtime.block_on(test()),
            Err(error) => eprintln!("io_uring is refused here ({error}): only epoll is tested"),
        }
    });
    bounded("epoll", move || {
        let builder = monoio::RuntimeBuilder::<monoio::LegacyDriver>::new();
        builder.enable_timer().build().unwrap().block_on(test());
    });
}

fn bounded(driver: &str, run: impl FnOnce() + Send + 'static) {
    let (done, ended) = mpsc::channel();
    let runner = thread::spawn(move || {
        run();
        drop(done);
    });
    match ended.recv_timeout(HANG) {
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            runner.join().unwrap_or_else(|_| panic!("failed on {driver}"));
        }
        Ok(()) | Err(mpsc::RecvTimeoutError::Timeout) => panic!("hangs on {driver}"),
    }
}

pub const MIB: usize = 1024 * 1024;

/// Bytes that betray their place: neighbours differ, and so do those a power of two apart.
static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    let at = |place: u64| (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8;
    (0..32 * MIB as u64).map(at).collect::<Vec<_>>().into()
});

pub fn pattern(len: usize) -> Bytes {
    PATTERN.slice(..len)
}

/// Panics at the first byte that is not the pattern's; `got` may end early.
pub fn assert_prefix(got: &[u8]) {
    if got != &PATTERN[..got.len()] {
        let wrong = got.iter().zip(PATTERN.iter()).position(|(got, want)| got != want);
        panic!("a foreign byte at {wrong:?} of {}", got.len());
    }
}

/// `whole` in pieces of odd sizes up to `piece_max`, every third with memory of its own.
pub fn in_pieces(whole: &Bytes, piece_max: usize) -> Gather {
    let mut gather = Gather::new();
    let (mut at, mut number) = (0, 0);
    while at < whole.len() {
        let len = (number * 7919 % piece_max + 1).min(whole.len() - at);
        let piece = whole.slice(at..at + len);
        gather.push(if number % 3 == 0 { Bytes::copy_from_slice(&piece) } else { piece });
        at += len;
        number += 1;
    }
    gather
}

/// A peer on its own thread, which is told to go on through `go`.
pub struct Peer<T> {
    thread: JoinHandle<T>,
    go: mpsc::Sender<()>,
}

impl<T: Send + 'static> Peer<T> {
    pub fn start(play: impl FnOnce(Receiver<()>) -> T + Send + 'static) -> Self {
        let (go, wait) = mpsc::channel();
        Self { thread: thread::spawn(move || play(wait)), go }
    }

    /// Lets a `wait_go` of the peer return.
    pub fn go(&self) {
        self.go.send(()).unwrap();
    }

    pub fn is_over(&self) -> bool {
        self.thread.is_finished()
    }

    pub fn result(self) -> T {
        drop(self.go);
        self.thread.join().unwrap()
    }
}

pub fn wait_go(wait: &Receiver<()>) {
    wait.recv_timeout(HANG).unwrap();
}

/// All until the end of the stream, and the error if it ended in one.
pub fn read_to_end(mut stream: impl Read) -> (Vec<u8>, Option<io::Error>) {
    let mut got = Vec::new();
    let error = stream.read_to_end(&mut got).err();
    (got, error)
}

/// A listener on the loopback, of the standard library.
pub fn std_listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// A connected pair: the near end in monoio's hands, the far end blocking, with a send buffer of `send_bytes` near.
pub fn pair(send_bytes: Option<usize>) -> (monoio::net::TcpStream, TcpStream) {
    let (listener, address) = std_listener();
    let near = TcpStream::connect(address).unwrap();
    near.set_nodelay(true).unwrap();
    if let Some(bytes) = send_bytes {
        socket2::SockRef::from(&near).set_send_buffer_size(bytes).unwrap();
    }
    near.set_nonblocking(monoio::utils::is_legacy()).unwrap();
    let far = listener.accept().unwrap().0;
    far.set_nodelay(true).unwrap();
    (monoio::net::TcpStream::from_std(near).unwrap(), far)
}

pub async fn nap(millis: u64) {
    monoio::time::sleep(Duration::from_millis(millis)).await;
}

/// Ready when a write has begun and then has not moved for a while.
pub async fn stuck(progress: &Progress) {
    let mut seen = 0;
    loop {
        nap(150).await;
        let now = progress.bytes();
        if now > 0 && now == seen {
            return;
        }
        seen = now;
    }
}

/// Polls `main`, kept whatever happens, until it is ready or `other` is: None then.
pub async fn first<T>(
    mut main: Pin<&mut impl Future<Output = T>>,
    other: impl Future<Output = ()>,
) -> Option<T> {
    let mut other = pin!(other);
    poll_fn(|cx| {
        if let Poll::Ready(output) = main.as_mut().poll(cx) {
            return Poll::Ready(Some(output));
        }
        other.as_mut().poll(cx).map(|()| None)
    })
    .await
}

/// Reads until the end or an error.
pub async fn drain(read: &mut baton::net::ReadHalf) -> (Vec<u8>, Option<io::Error>) {
    let mut got = Vec::new();
    loop {
        match read.read().await {
            Ok(bytes) if bytes.is_empty() => return (got, None),
            Ok(bytes) => got.extend_from_slice(&bytes),
            Err(error) => return (got, Some(error)),
        }
    }
}
