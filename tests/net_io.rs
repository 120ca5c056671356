//! Plain connections on both of monoio's drivers: every byte at its place, no operation ever dropped.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod net_support;

use std::io::{self, Read, Write};
use std::net::{self, Shutdown as How};
use std::pin::pin;

use baton::net::{Connection, Gather};
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
fn small_reads_of_two_connections_share_memory_and_use_it_again() {
    on_both_drivers(|| async {
        let ((a, mut to_a), (b, mut to_b)) = (pair(None), pair(None));
        let (mut a, mut b) = (Connection::plain(a), Connection::plain(b));
        let mut seen = std::collections::BTreeSet::new();
        for round in 0..100 {
            to_a.write_all(&[1; 300]).unwrap();
            to_b.write_all(&[2; 300]).unwrap();
            let (first, second) = (a.read.read().await.unwrap(), b.read.read().await.unwrap());
            assert_eq!((&first[..], &second[..]), (&[1; 300][..], &[2; 300][..]));
            let apart = (second.as_ptr() as usize).wrapping_sub(first.as_ptr() as usize);
            assert!(apart == 300 || round > 0, "side by side, unless a new piece was begun");
            seen.insert(first.as_ptr() as usize / 4096);
        }
        assert!(seen.len() <= 4, "the memory is used again: {} pages", seen.len());
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
        assert_eq!(far.read_to_end(&mut Vec::new()).unwrap(), 0);
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
