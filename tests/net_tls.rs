//! TLS connections on both of monoio's drivers: every byte at its place, whatever happens meanwhile.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod net_support;

use std::io::{self, Read, Write};
use std::net::Shutdown as How;
use std::pin::pin;

use baton::net::Connection;
use net_support::tls::{both_ends, gather, with_client};
use net_support::*;
use rustls::version::{TLS12, TLS13};

#[test]
fn both_versions_carry_bytes_both_ways() {
    on_both_drivers(|| async {
        for version in [&TLS12, &TLS13] {
            let (mut near, peer) = with_client(version, |mut far, _| {
                let mut got = vec![0; 100_000];
                far.read_exact(&mut got).unwrap();
                assert_prefix(&got);
                far.write_all(&got).unwrap();
                far.conn.send_close_notify();
                far.flush().unwrap();
                assert_eq!(far.read_to_end(&mut got).unwrap(), 0, "the other close_notify");
            })
            .await;
            near.write.write(&mut in_pieces(&pattern(100_000), 900)).await.unwrap();
            let (got, error) = drain(&mut near.read).await;
            assert!(error.is_none(), "{error:?}");
            assert_eq!(got.len(), 100_000);
            assert_prefix(&got);
            near.write.finish().await.unwrap();
            assert_eq!(
                near.write.write(&mut gather("late")).await.unwrap_err().kind(),
                io::ErrorKind::BrokenPipe
            );
            while !peer.is_over() {
                nap(5).await;
            }
            peer.result();
        }
    });
}

#[test]
fn every_byte_reaches_a_client_that_sleeps_first() {
    on_both_drivers(|| async {
        let whole = pattern(16 * MIB);
        let (near, peer) = with_client(&TLS13, |far, wait| {
            wait_go(&wait);
            read_to_end(far)
        })
        .await;
        let Connection { mut write, read: _read, .. } = near;
        let progress = write.progress();
        {
            let mut gather = in_pieces(&whole, 3000);
            let mut writing = pin!(write.write(&mut gather));
            assert!(first(writing.as_mut(), stuck(&progress)).await.is_none());
            peer.go();
            writing.await.unwrap();
        }
        write.finish().await.unwrap();
        let (got, error) = peer.result();
        assert!(error.is_none(), "{error:?}");
        assert_eq!(got.len(), whole.len());
        assert_prefix(&got);
    });
}

#[test]
fn a_write_ended_by_its_deadline_leaves_an_exact_prefix() {
    on_both_drivers(|| async {
        let whole = pattern(16 * MIB);
        let (near, peer) = with_client(&TLS13, |far, wait| {
            wait_go(&wait);
            read_to_end(far)
        })
        .await;
        let Connection { mut write, mut read, shutdown } = near;
        let progress = write.progress();
        let mut gather = in_pieces(&whole, 3000);
        {
            let mut writing = pin!(write.write(&mut gather));
            assert!(first(writing.as_mut(), stuck(&progress)).await.is_none());
            shutdown.shutdown(How::Both);
            assert_eq!(writing.await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        }
        assert!(!gather.is_empty());
        assert_eq!(read.read().await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        // The task has ended by itself, the halves are still here.
        assert!(!shutdown.is_open());
        peer.go();
        let (got, error) = peer.result();
        assert_eq!(error.unwrap().kind(), io::ErrorKind::UnexpectedEof);
        assert!(got.len() + gather.len_bytes() <= whole.len());
        assert_prefix(&got);
    });
}

#[test]
fn eight_mib_both_ways_at_once() {
    on_both_drivers(|| async {
        let whole = pattern(8 * MIB);
        let (client, server) = both_ends().await;
        let exchange = |end: Connection| {
            let whole = whole.clone();
            async move {
                let Connection { mut read, mut write, .. } = end;
                let mut gather = in_pieces(&whole, 20_000);
                let sending = async {
                    write.write(&mut gather).await.unwrap();
                    write.finish().await.unwrap();
                };
                let ((), (got, error)) = monoio::join!(sending, drain(&mut read));
                assert!(error.is_none(), "{error:?}");
                assert_eq!(got.len(), whole.len());
                assert_prefix(&got);
            }
        };
        monoio::join!(exchange(client), exchange(server));
    });
}

#[test]
fn a_read_after_a_time_out_loses_nothing() {
    on_both_drivers(|| async {
        for keep in [true, false] {
            let (mut near, peer) = with_client(&TLS13, |mut far, wait| {
                wait_go(&wait);
                far.write_all(&pattern(50_000)).unwrap();
                wait_go(&wait);
            })
            .await;
            let mut got = Vec::new();
            {
                let mut reading = pin!(near.read.read());
                assert!(first(reading.as_mut(), nap(30)).await.is_none());
                peer.go();
                if keep {
                    got.extend_from_slice(&reading.await.unwrap());
                }
            }
            while got.len() < 50_000 {
                got.extend_from_slice(&near.read.read().await.unwrap());
            }
            assert_prefix(&got);
            peer.go();
            peer.result();
        }
    });
}

#[test]
fn garbage_during_a_stuck_write_is_an_error_for_both_halves() {
    on_both_drivers(|| async {
        let (near, peer) = with_client(&TLS13, |mut far, wait| {
            wait_go(&wait);
            far.sock.write_all(&[0x17, 3, 3, 0, 32, 1, 2, 3]).unwrap();
            far.sock.write_all(&[0xAA; 64]).unwrap();
            wait_go(&wait);
            far
        })
        .await;
        let Connection { mut write, mut read, shutdown } = near;
        let progress = write.progress();
        let mut gather = in_pieces(&pattern(16 * MIB), 3000);
        let error = {
            let mut writing = pin!(write.write(&mut gather));
            assert!(first(writing.as_mut(), stuck(&progress)).await.is_none());
            peer.go();
            writing.await.unwrap_err()
        };
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(read.read().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert_eq!(write.finish().await.unwrap_err().kind(), io::ErrorKind::InvalidData);
        nap(10).await;
        assert!(!shutdown.is_open(), "the task goes on");
        peer.go();
        peer.result();
    });
}

#[test]
fn a_client_that_leaves_ends_a_stuck_write_and_the_task() {
    on_both_drivers(|| async {
        let (near, peer) = with_client(&TLS12, |far, wait| {
            wait_go(&wait);
            drop(far);
        })
        .await;
        let Connection { mut write, mut read, shutdown } = near;
        let progress = write.progress();
        let mut gather = in_pieces(&pattern(16 * MIB), 3000);
        {
            let mut writing = pin!(write.write(&mut gather));
            assert!(first(writing.as_mut(), stuck(&progress)).await.is_none());
            peer.go();
            let kind = writing.await.unwrap_err().kind();
            assert!(matches!(kind, io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe), "{kind}");
        }
        assert!(read.read().await.is_err());
        nap(10).await;
        assert!(!shutdown.is_open(), "the task goes on");
        peer.result();
    });
}

#[test]
fn a_reader_that_does_not_read_stops_its_peer() {
    on_both_drivers(|| async {
        let (mut client, mut server) = both_ends().await;
        let progress = client.write.progress();
        let whole = pattern(32 * MIB);
        let mut gather = in_pieces(&whole, 20_000);
        let mut writing = pin!(client.write.write(&mut gather));
        assert!(first(writing.as_mut(), stuck(&progress)).await.is_none(), "nothing stops the writer");
        // The kernel's buffers on loopback hold some 6 MB; of the plaintext 64 KiB and one read are held.
        assert!(progress.bytes() < 16 * MIB as u64, "{}", progress.bytes());
        let reading = async {
            let mut got = Vec::new();
            while got.len() < whole.len() {
                got.extend_from_slice(&server.read.read().await.unwrap());
            }
            got
        };
        let (written, got) = monoio::join!(writing, reading);
        written.unwrap();
        assert_prefix(&got);
    });
}
