//! How TLS connections begin and end, on both of monoio's drivers.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test fails by panicking")]

mod net_support;

use std::io::{self, Read, Write};
use std::net::Shutdown as How;
use std::pin::pin;
use std::time::Duration;

use baton::net::pool::Pool;
use baton::net::{Connection, tls, tls_config};
use baton::time::MonoTime;
use net_support::tls::{SETTINGS, both_ends, gather, localhost, with_client};
use net_support::*;
use rustls::version::TLS13;
use rustls::{ServerConnection, StreamOwned};

#[test]
fn our_client_talks_to_a_blocking_server() {
    on_both_drivers(|| async {
        let (near, far) = pair(None);
        let peer = Peer::start(move |_| {
            let session = ServerConnection::new(SETTINGS.server.clone()).unwrap();
            let mut far = StreamOwned::new(session, far);
            let mut got = [0; 7];
            far.read_exact(&mut got).unwrap();
            far.write_all(&got).unwrap();
            assert_eq!(far.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
            let _ = far.read(&mut got);
        });
        let mut near = tls::client(near, SETTINGS.client.clone(), localhost()).await.unwrap();
        near.write.write(&mut gather("request")).await.unwrap();
        assert_eq!(near.read.read().await.unwrap(), "request");
        drop(near);
        while !peer.is_over() {
            nap(5).await;
        }
        peer.result();
    });
}

#[test]
fn an_end_without_close_notify_is_a_truncation() {
    on_both_drivers(|| async {
        for (clean, want) in [(true, None), (false, Some(io::ErrorKind::UnexpectedEof))] {
            let (mut near, peer) = with_client(&TLS13, move |mut far, wait| {
                far.write_all(&pattern(1000)).unwrap();
                if clean {
                    far.conn.send_close_notify();
                }
                far.flush().unwrap();
                // Not closed yet: unread session tickets would make that a reset.
                far.sock.shutdown(How::Write).unwrap();
                wait_go(&wait);
            })
            .await;
            let (got, error) = drain(&mut near.read).await;
            assert_eq!(got.len(), 1000);
            assert_prefix(&got);
            assert_eq!(error.map(|error| error.kind()), want);
            peer.go();
            peer.result();
        }
    });
}

#[test]
fn dropping_both_halves_cuts_the_connection() {
    on_both_drivers(|| async {
        let (near, peer) = with_client(&TLS13, |far, _| read_to_end(far)).await;
        let Connection { read, mut write, shutdown } = near;
        write.write(&mut gather("unfinished")).await.unwrap();
        drop(read);
        nap(20).await;
        assert!(shutdown.is_open(), "one half still writes");
        write.write(&mut gather(" answer")).await.unwrap();
        drop(write);
        while !peer.is_over() || shutdown.is_open() {
            nap(5).await;
        }
        let (got, error) = peer.result();
        assert_eq!(got, b"unfinished answer");
        assert_eq!(error.unwrap().kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn finish_ends_one_side_alone() {
    on_both_drivers(|| async {
        let (mut near, peer) = with_client(&TLS13, |mut far, _| {
            let mut got = Vec::new();
            far.read_to_end(&mut got).unwrap();
            far.write_all(b"answer").unwrap();
            far.conn.send_close_notify();
            far.flush().unwrap();
            got
        })
        .await;
        near.write.write(&mut gather("request")).await.unwrap();
        near.write.finish().await.unwrap();
        near.write.finish().await.unwrap();
        let (got, error) = drain(&mut near.read).await;
        assert_eq!((got.as_slice(), error.is_none()), (&b"answer"[..], true));
        assert_eq!(peer.result(), b"request");
    });
}

#[test]
fn certificates_are_checked_unless_told_otherwise() {
    on_both_drivers(|| async {
        let webpki = tls_config::client("test", None, true).unwrap();
        let anyone = tls_config::client("test", None, false).unwrap();
        let other = tls_config::server_name("other.example").unwrap();
        let cases = [
            ("the right name", SETTINGS.client.clone(), localhost(), true),
            ("another name", SETTINGS.client.clone(), other.clone(), false),
            ("an unknown issuer", webpki, localhost(), false),
            ("unchecked", anyone, other, true),
        ];
        for (name, config, server_name, good) in cases {
            let (near, far) = pair(None);
            far.set_nonblocking(monoio::utils::is_legacy()).unwrap();
            let far = monoio::net::TcpStream::from_std(far).unwrap();
            let (client, server) = monoio::join!(
                tls::client(near, config, server_name),
                // TLS 1.3 lets the server finish first: it learns of the refusal when it reads.
                async {
                    let mut server = tls::server(far, SETTINGS.server.clone()).await?;
                    first(pin!(server.read.read()), nap(50)).await.transpose()
                }
            );
            assert_eq!(
                client.as_ref().err().map(io::Error::kind),
                (!good).then_some(io::ErrorKind::InvalidData),
                "{name}"
            );
            assert_eq!(server.is_ok(), good, "{name}: {server:?}");
        }
    });
}

#[test]
fn a_handshake_is_given_up_by_dropping_it() {
    on_both_drivers(|| async {
        for as_client in [true, false] {
            let (near, far) = pair(None);
            let peer = Peer::start(move |_| read_to_end(far).0);
            let shaking = async {
                match as_client {
                    true => tls::client(near, SETTINGS.client.clone(), localhost()).await,
                    false => tls::server(near, SETTINGS.server.clone()).await,
                }
            };
            let limit = Duration::from_millis(50);
            assert!(monoio::time::timeout(limit, shaking).await.is_err());
            while !peer.is_over() {
                nap(5).await;
            }
            assert_eq!(peer.result().is_empty(), !as_client);
        }
    });
}

#[test]
fn a_peer_that_does_not_speak_tls_is_an_error() {
    on_both_drivers(|| async {
        let cases: [(&str, &[u8], io::ErrorKind); 3] = [
            ("plain HTTP", b"HTTP/1.1 400 Bad Request\r\n\r\n", io::ErrorKind::InvalidData),
            ("half a record", &[0x16, 3, 3, 0, 200, 2], io::ErrorKind::UnexpectedEof),
            ("nothing", b"", io::ErrorKind::UnexpectedEof),
        ];
        for (name, sent, want) in cases {
            for as_client in [true, false] {
                let (near, mut far) = pair(None);
                far.write_all(sent).unwrap();
                far.shutdown(How::Write).unwrap();
                let result = match as_client {
                    true => tls::client(near, SETTINGS.client.clone(), localhost()).await,
                    false => tls::server(near, SETTINGS.server.clone()).await,
                };
                assert_eq!(result.err().map(|error| error.kind()), Some(want), "{name}");
            }
        }
    });
}

#[test]
fn the_pool_hands_out_open_tls_connections_alone() {
    on_both_drivers(|| async {
        let now = MonoTime::ORIGIN;
        let mut pool = Pool::new(8, Duration::from_secs(4));
        for say in ["", "more", "bye"] {
            let (mut client, mut server) = both_ends().await;
            // Session tickets arrive with the first answer.
            server.write.write(&mut gather("answer")).await.unwrap();
            assert_eq!(client.read.read().await.unwrap(), "answer");
            pool.put(client, now);
            assert_eq!(pool.len(), 1, "{say:?}");
            match say {
                "more" => server.write.write(&mut gather(say)).await.unwrap(),
                "bye" => server.write.finish().await.unwrap(),
                _ => {}
            }
            nap(20).await;
            assert_eq!(pool.take(now).is_some(), say.is_empty(), "{say:?}");
        }
    });
}
