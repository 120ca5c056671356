//! Where connections come from, on both of monoio's drivers: listener, connect, resolver, pool.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod net_support;

use std::io::{self, Read, Write};
use std::net::{self, Shutdown as How};
use std::pin::pin;
use std::process::Command;
use std::time::Duration;

use baton::net::listener::{Listener, bind, pause_after};
use baton::net::pool::Pool;
use baton::net::resolver::{ResolveError, resolve};
use baton::net::{Connection, Gather, connect};
use baton::time::MonoTime;
use bytes::Bytes;
use net_support::*;

#[test]
fn a_listener_accepts_without_delay_until_it_is_stopped() {
    on_both_drivers(|| async {
        let listener = bind("127.0.0.1:0".parse().unwrap(), true).unwrap();
        let address = listener.local_addr().unwrap();
        let again = bind(address, true).expect("another core may listen on it too");
        drop(again);
        assert_eq!(bind(address, false).unwrap_err().kind(), io::ErrorKind::AddrInUse);
        let mut listener = Listener::from_std(listener).unwrap();
        assert_eq!(listener.local_addr().unwrap(), address);
        let addresses = [address];
        let (near, accepted) = monoio::join!(connect::connect(&addresses), listener.accept());
        let (near, (far, from)) = (near.unwrap(), accepted.unwrap());
        assert_eq!(near.local_addr().unwrap(), from);
        assert!(near.nodelay().unwrap() && far.nodelay().unwrap());
        let (mut near, mut far) = (Connection::plain(near), Connection::plain(far));
        let mut gather = Gather::new();
        gather.push(pattern(100));
        near.write.write(&mut gather).await.unwrap();
        assert_prefix(&far.read.read().await.unwrap());
        let stopper = listener.stopper();
        let mut accepting = pin!(listener.accept());
        assert!(first(accepting.as_mut(), nap(50)).await.is_none());
        stopper.shutdown(How::Both);
        assert_eq!(pause_after(&accepting.await.err().unwrap()), None);
    });
}

/// Set in the child process that has few descriptors.
const FEW_DESCRIPTORS: &str = "BATON_TEST_FEW_DESCRIPTORS";

#[test]
fn running_out_of_descriptors_is_told_and_passes() {
    if std::env::var_os(FEW_DESCRIPTORS).is_none() {
        // The limit is the whole process's, so it is a process of its own.
        let script = "ulimit -n 64 && exec \"$0\" --exact running_out_of_descriptors_is_told_and_passes";
        let mut child = Command::new("sh");
        child.args(["-c", script]).arg(std::env::current_exe().unwrap()).env(FEW_DESCRIPTORS, "1");
        let output = child.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        return;
    }
    on_both_drivers(|| async {
        let mut listener = Listener::from_std(bind("127.0.0.1:0".parse().unwrap(), true).unwrap()).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting: Vec<_> = (0..20).map(|_| net::TcpStream::connect(address).unwrap()).collect();
        let mut others = Vec::new();
        while let Ok(file) = std::fs::File::open("/dev/null") {
            others.push(file);
        }
        for _ in 0..3 {
            let error = listener.accept().await.err().unwrap();
            assert_eq!(pause_after(&error), Some(Duration::from_millis(100)), "{error}");
        }
        others.clear();
        for _ in 0..20 {
            listener.accept().await.unwrap();
        }
        waiting.clear();
    });
}

#[test]
fn every_address_is_tried() {
    on_both_drivers(|| async {
        let (gone, refused) = std_listener();
        drop(gone);
        let (_listener, good) = std_listener();
        let (_full, silent) = silent_address();
        let none = connect::connect(&[]).await.err().unwrap();
        assert_eq!(none.kind(), io::ErrorKind::AddrNotAvailable);
        let error = connect::connect(&[refused]).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionRefused);
        assert!(error.to_string().starts_with(&refused.to_string()), "{error}");
        let second = Duration::from_secs(1);
        for addresses in [vec![good], vec![refused, good], vec![silent, refused, good]] {
            let stream = connect::connect_by(&addresses, second).await.unwrap();
            assert_eq!(stream.peer_addr().unwrap(), good);
        }
        assert_eq!(connect::connect(&[refused, good]).await.unwrap().peer_addr().unwrap(), good);
    });
}

#[test]
fn a_connect_that_is_not_answered_leaves_nothing_behind() {
    on_both_drivers(|| async {
        let (_full, silent) = silent_address();
        let error = connect::connect_by(&[silent], Duration::from_millis(100)).await.err().unwrap();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        nap(20).await;
        assert_eq!(connecting_to(silent), 0);
    });
}

/// An address whose queue of connections is full: it drops what comes.
fn silent_address() -> (Vec<socket2::Socket>, net::SocketAddr) {
    use socket2::{Domain, Socket, Type};
    let any: net::SocketAddr = "127.0.0.1:0".parse().unwrap();
    let listener = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    listener.bind(&any.into()).unwrap();
    listener.listen(0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut held = vec![listener];
    for _ in 0..4 {
        let filler = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        filler.set_nonblocking(true).unwrap();
        let _ = filler.connect(&address);
        held.push(filler);
    }
    let address = address.as_socket().unwrap();
    // Fillers that are in the queue count as connected, the others hang like the test's own.
    held.retain(|socket| {
        socket.peer_addr().is_ok() || socket.local_addr().unwrap().as_socket() == Some(address)
    });
    (held, address)
}

/// Sockets in SYN-SENT towards `address`.
fn connecting_to(address: net::SocketAddr) -> usize {
    let remote = format!("0100007F:{:04X}", address.port());
    let table = std::fs::read_to_string("/proc/net/tcp").unwrap();
    let rows = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    rows.filter(|row| row.get(2) == Some(&remote.as_str()) && row.get(3) == Some(&"02")).count()
}

#[test]
fn names_are_resolved_beside_the_core() {
    on_both_drivers(|| async {
        let now = MonoTime::ORIGIN;
        for (host, want) in [("192.0.2.1", "192.0.2.1:80"), ("[2001:db8::1]", "[2001:db8::1]:80")] {
            assert_eq!(resolve(host, 80, now).await.unwrap(), [want.parse().unwrap()]);
        }
        // The same question from several tasks, while the core does nothing else.
        let (one, two, other) = monoio::join!(
            resolve("localhost", 80, now),
            resolve("localhost", 80, now),
            resolve("localhost", 81, now)
        );
        assert!(
            one.as_ref().unwrap().iter().all(|address| address.ip().is_loopback() && address.port() == 80)
        );
        assert_eq!(one, two);
        assert_eq!(other.unwrap()[0].port(), 81);
        let later = now.after(Duration::from_secs(31));
        assert_eq!(resolve("localhost", 80, later).await, one);
        let failed = resolve("no such host", 80, now).await.unwrap_err();
        assert!(matches!(&failed, ResolveError::Failed { host, .. } if host == "no such host"), "{failed}");
    });
}

#[test]
fn many_names_at_once_are_all_answered() {
    on_both_drivers(|| async {
        for round in 0..200 {
            // Another second each time, so that nothing comes from the cache.
            let now = MonoTime::ORIGIN.after(Duration::from_secs(31 * round));
            resolve("localhost", 80, now).await.unwrap();
        }
    });
}

#[test]
fn the_pool_hands_out_the_newest_connection_that_is_still_open() {
    on_both_drivers(|| async {
        let at = |seconds| MonoTime::ORIGIN.after(Duration::from_secs(seconds));
        let mut pool = Pool::new(3, Duration::from_secs(4));
        assert!(pool.take(at(0)).is_none());
        let mut fars = Vec::new();
        for second in 0..4 {
            let (near, mut far) = pair(None);
            let mut connection = Connection::plain(near);
            far.write_all(&[second]).unwrap();
            assert_eq!(connection.read.read().await.unwrap()[0], second);
            pool.put(connection, at(second.into()));
            fars.push(far);
        }
        assert_eq!(pool.len(), 3, "the oldest had to go");
        // The newest is closed by its server, the next one got bytes that nobody asked for.
        drop(fars.pop());
        fars.last_mut().unwrap().write_all(b"408").unwrap();
        nap(20).await;
        let mut taken = pool.take(at(4)).unwrap();
        assert!(pool.is_empty());
        let mut gather = Gather::new();
        gather.push(Bytes::from_static(b"second"));
        taken.write.write(&mut gather).await.unwrap();
        let mut got = [0; 6];
        fars[1].read_exact(&mut got).unwrap();
        assert_eq!(&got, b"second");
    });
}

#[test]
fn the_pool_keeps_nothing_too_long_and_nothing_ended() {
    on_both_drivers(|| async {
        let at = |seconds| MonoTime::ORIGIN.after(Duration::from_secs(seconds));
        let mut pool = Pool::new(8, Duration::from_secs(4));
        let (nears, mut fars): (Vec<_>, Vec<_>) = (0..4).map(|_| pair(None)).unzip();
        for (second, near) in (0..).zip(nears) {
            pool.put(Connection::plain(near), at(second));
        }
        drop(fars.pop());
        nap(20).await;
        assert_eq!(pool.sweep(at(4)), 2, "the first is too old, the last was closed");
        assert_eq!(pool.len(), 2);
        assert!(pool.take(at(9)).is_none());
        assert!(pool.is_empty());
        let (near, mut far) = pair(None);
        far.write_all(b"unasked").unwrap();
        nap(20).await;
        pool.put(Connection::plain(near), at(0));
        let (near, _far) = pair(None);
        Pool::new(0, Duration::from_secs(4)).put(Connection::plain(near), at(0));
        assert!(pool.is_empty());
    });
}
