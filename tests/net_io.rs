//! Plain connections on both of monoio's drivers: every byte at its place, no operation ever dropped.

mod net_support;

use std::io::{self, Read, Write};
use std::net::{self, Shutdown as How};
use std::pin::pin;
use std::time::Duration;

use baton::net::listener::{Listener, bind, pause_after};
use baton::net::pool::Pool;
use baton::net::resolver::{ResolveError, resolve};
use baton::net::{Connection, Gather, connect};
use baton::time::MonoTime;
use bytes::Bytes;
use net_support::*;

#[test]
fn every_byte_reaches_a_client_that_sleeps_first() {
    on_both_drivers(|| async {
        // Loopback waits for acknowledgements between short writes: less for the small send buffer.
        for (total, piece_max, send_bytes) in [(16 * MIB, 300, None), (MIB, 100_000, Some(4096))] {
            let whole = pattern(total);
            let (near, far) = pair(send_bytes);
            let peer = Peer::start(move |wait| {
                wait_go(&wait);
                read_to_end(far)
            });
            let Connection { mut write, read, .. } = Connection::plain(near);
            let mut gather = in_pieces(&whole, piece_max);
            let progress = write.progress();
            {
                let mut writing = pin!(write.write(&mut gather));
                assert!(
                    first(writing.as_mut(), stuck(&progress)).await.is_none(),
                    "the write must get stuck"
                );
                peer.go();
                writing.await.unwrap();
            }
            assert!(gather.is_empty());
            assert_eq!(progress.bytes(), whole.len() as u64);
            write.finish().await.unwrap();
            let (got, error) = peer.result();
            assert!(error.is_none(), "{error:?}");
            assert_eq!(got.len(), whole.len());
            assert_prefix(&got);
            drop(read);
        }
    });
}

#[test]
fn a_write_ended_by_its_deadline_leaves_an_exact_prefix() {
    on_both_drivers(|| async {
        let whole = pattern(16 * MIB);
        let (near, far) = pair(None);
        let peer = Peer::start(move |wait| {
            wait_go(&wait);
            read_to_end(far)
        });
        let Connection { mut write, read: _read, shutdown } = Connection::plain(near);
        let mut gather = in_pieces(&whole, 5000);
        let progress = write.progress();
        let error = {
            let mut writing = pin!(write.write(&mut gather));
            assert!(first(writing.as_mut(), stuck(&progress)).await.is_none());
            shutdown.shutdown(How::Both);
            writing.await.unwrap_err()
        };
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(progress.bytes() + gather.len_bytes() as u64, whole.len() as u64);
        drop(whole);
        gather.clear();
        // What the kernel would read if it still held the old list.
        let foreign: Vec<Vec<u8>> = (0..2000).map(|_| vec![0xEE; 5000]).collect();
        peer.go();
        let (got, _) = peer.result();
        drop(foreign);
        assert_eq!(got.len() as u64, progress.bytes());
        assert_prefix(&got);
    });
}

#[test]
fn more_slices_than_one_call_takes_are_written_in_order() {
    on_both_drivers(|| async {
        let whole = pattern(35_000);
        let (near, far) = pair(None);
        let peer = Peer::start(move |_| read_to_end(far).0);
        let mut connection = Connection::plain(near);
        let mut gather = Gather::new();
        gather.push_all(whole.chunks(7).map(Bytes::copy_from_slice));
        connection.write.write(&mut gather).await.unwrap();
        // The same Gather serves again.
        assert!(gather.is_empty());
        gather.push(Bytes::from_static(b"again"));
        connection.write.write(&mut gather).await.unwrap();
        connection.write.finish().await.unwrap();
        let got = peer.result();
        assert_eq!(&got[35_000..], b"again");
        assert_prefix(&got[..35_000]);
    });
}

#[test]
fn reads_grow_while_they_are_filled_and_shrink_again() {
    on_both_drivers(|| async {
        let (near, mut far) = pair(None);
        let peer = Peer::start(move |wait| {
            far.write_all(&pattern(MIB)).unwrap();
            wait_go(&wait);
            far.write_all(&pattern(100)).unwrap();
            wait_go(&wait);
        });
        let mut read = Connection::plain(near).read;
        nap(100).await;
        let (mut got, mut largest) = (Vec::new(), 0);
        while got.len() < MIB {
            let bytes = read.read().await.unwrap();
            largest = largest.max(bytes.len());
            got.extend_from_slice(&bytes);
        }
        assert_prefix(&got);
        assert!((16 * 1024..=64 * 1024).contains(&largest), "{largest}");
        peer.go();
        assert_prefix(&read.read().await.unwrap());
        peer.go();
        assert!(read.read().await.unwrap().is_empty());
        peer.result();
    });
}

#[test]
fn a_read_outlives_a_time_out_and_loses_nothing() {
    on_both_drivers(|| async {
        let (near, mut far) = pair(None);
        let mut connection = Connection::plain(near);
        let mut reading = pin!(connection.read.read());
        assert!(first(reading.as_mut(), nap(50)).await.is_none());
        far.write_all(b"late").unwrap();
        assert_eq!(reading.await.unwrap(), "late");
    });
}

#[test]
fn what_was_read_too_far_is_read_again() {
    on_both_drivers(|| async {
        let (near, mut far) = pair(None);
        let mut connection = Connection::plain(near);
        far.write_all(b"head body").unwrap();
        let got = connection.read.read().await.unwrap();
        connection.read.unread(got.slice(5..));
        connection.read.unread(got.slice(..5));
        assert!(!connection.is_quiet());
        assert_eq!(connection.read.read().await.unwrap(), "head body");
        assert!(connection.is_quiet());
    });
}

#[test]
fn finish_ends_one_side_alone() {
    on_both_drivers(|| async {
        let (near, mut far) = pair(None);
        let mut connection = Connection::plain(near);
        connection.write.finish().await.unwrap();
        assert_eq!(far.read(&mut [0]).unwrap(), 0);
        far.write_all(b"answer").unwrap();
        far.shutdown(How::Write).unwrap();
        let (got, error) = drain(&mut connection.read).await;
        assert_eq!((got.as_slice(), error.is_none()), (&b"answer"[..], true));
    });
}

#[test]
fn dropping_the_write_half_tells_the_peer_nothing() {
    on_both_drivers(|| async {
        let (near, mut far) = pair(None);
        let Connection { mut read, write, .. } = Connection::plain(near);
        drop(write);
        far.set_nonblocking(true).unwrap();
        assert_eq!(far.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        far.write_all(b"still read").unwrap();
        assert_eq!(read.read().await.unwrap(), "still read");
    });
}

#[test]
fn shutdown_ends_a_pending_read() {
    on_both_drivers(|| async {
        let (near, _far) = pair(None);
        let Connection { mut read, shutdown, write: _write } = Connection::plain(near);
        let mut reading = pin!(read.read());
        assert!(first(reading.as_mut(), nap(50)).await.is_none());
        shutdown.shutdown(How::Both);
        assert!(reading.await.unwrap().is_empty());
    });
}

#[test]
fn a_late_shutdown_is_harmless() {
    on_both_drivers(|| async {
        let (near, far) = pair(None);
        let connection = Connection::plain(near);
        let late = connection.shutdown.clone();
        drop(connection);
        assert_eq!(read_to_end_when_closed(far).await, 0);
        assert!(!late.is_open());
        // One of these has the old number.
        let mut next: Vec<_> = (0..8).map(|_| pair(None)).collect();
        late.shutdown(How::Both);
        late.set_linger_zero();
        for (_, far) in &mut next {
            far.set_nonblocking(true).unwrap();
            assert_eq!(far.read(&mut [0]).unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
    });
}

/// The core must run on for its close to happen, so the end is awaited on another thread.
async fn read_to_end_when_closed(far: net::TcpStream) -> usize {
    let (done, mut ended) = (Peer::start(move |_| read_to_end(far).0.len()), 0);
    while !done.is_over() && ended < 200 {
        nap(10).await;
        ended += 1;
    }
    done.result()
}

#[test]
fn linger_zero_resets_the_connection() {
    on_both_drivers(|| async {
        let (near, far) = pair(None);
        let connection = Connection::plain(near);
        connection.shutdown.set_linger_zero();
        drop(connection);
        let peer = Peer::start(move |_| read_to_end(far).1.map(|error| error.kind()));
        while !peer.is_over() {
            nap(10).await;
        }
        assert_eq!(peer.result(), Some(io::ErrorKind::ConnectionReset));
    });
}

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
