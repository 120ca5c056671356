//! What an idle connection costs, measured as the process's resident memory over some hundreds of them.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod net_support;

use std::future::{Future, poll_fn};
use std::io::Write;
use std::pin::Pin;
use std::task::Poll;

use baton::net::{Connection, tls};
use net_support::tls::{SETTINGS, client_peer};
use net_support::*;
use rustls::version::TLS13;

const CONNECTIONS: usize = 600;

/// Resident bytes of this process, proc(5).
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    pages.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

/// Bytes a connection costs that waits in a read.
async fn cost<F: Future<Output = Connection>>(mut open: impl FnMut() -> F) -> usize {
    let mut waiting: Vec<Pin<Box<dyn Future<Output = ()>>>> = Vec::new();
    let mut before = 0;
    for number in 0..CONNECTIONS + 100 {
        if number == 100 {
            // The first hundred have warmed the allocator and the driver up.
            before = resident();
        }
        let Connection { mut read, write, .. } = open().await;
        let mut reading: Pin<Box<dyn Future<Output = ()>>> = Box::pin(async move {
            let _write = write;
            panic!("read {:?}", read.read().await);
        });
        let pending = poll_fn(|cx| Poll::Ready(reading.as_mut().poll(cx).is_pending())).await;
        assert!(pending);
        waiting.push(reading);
    }
    nap(50).await;
    resident().saturating_sub(before) / CONNECTIONS
}

#[test]
fn idle_connections_are_small() {
    on_both_drivers(|| async {
        let mut fars = Vec::new();
        let plain = cost(|| {
            let (near, far) = pair(None);
            fars.push(far);
            async { Connection::plain(near) }
        })
        .await;
        let tls = cost(|| {
            let (near, far) = pair(None);
            // Some large records have come before the silence.
            let peer = Peer::start(move |_| {
                let mut far = client_peer(far, &TLS13);
                far.write_all(&pattern(50_000)).unwrap();
                far.into_parts().1
            });
            async {
                let mut connection = tls::server(near, SETTINGS.server.clone()).await.unwrap();
                let mut got = 0;
                while got < 50_000 {
                    got += connection.read.read().await.unwrap().len();
                }
                std::mem::forget(peer.result());
                connection
            }
        })
        .await;
        eprintln!("legacy {}: plain {plain} bytes, TLS {tls} bytes", monoio::utils::is_legacy());
        assert!(plain < 7 * 1024, "{plain}");
        assert!(tls < 16 * 1024, "{tls}");
    });
}
