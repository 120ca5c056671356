//! Taking connections in: one task per listener of a core, and one for those that other cores hand over.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use monoio::net::TcpStream;
use rustls::ServerConfig;

use super::connection::{self, Core};
use super::outlets::{Handed, Outlets};
use super::registry::Admission;
use crate::net::handover::Inlet;
use crate::net::listener::{Listener, attach, detach, pause_after};
use crate::net::task::within;
use crate::net::{Connection, task, tls};
use crate::telemetry::Limit;

/// How long accepting rests when there are too many connections.
const REST: Duration = Duration::from_millis(50);

/// Accepts until the listener is shut down; hands on what is too much for this core.
pub async fn run(
    mut listener: Listener,
    core: Rc<Core>,
    tls: Option<Arc<ServerConfig>>,
    connections_max: usize,
    mut outlets: Outlets,
) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => match pause_after(&error) {
                None => return,
                Some(pause) => {
                    if !pause.is_zero() {
                        tracing::warn!(%error, "no connection can be accepted at the moment");
                        monoio::time::sleep(pause).await;
                    }
                    continue;
                }
            },
        };
        let Some(admission) = core.registry.admit(connections_max) else {
            tracing::warn!(connections_max, "limits.connections is reached: a connection was closed");
            core.context.shared.telemetry.metrics.reached(Limit::Connections);
            drop(stream);
            monoio::time::sleep(REST).await;
            continue;
        };
        let shared = &core.context.shared;
        let Some(outlet) = outlets.choose(&shared.status) else {
            serve(stream, peer, admission, &core, tls.clone());
            continue;
        };
        match outlet.send(Handed { socket: detach(stream), peer, place: admission.leave() }) {
            Ok(()) => shared.telemetry.metrics.handed_over.increment(1),
            // Too many are on their way there, or that core has lost the task that takes them.
            Err(handed) => take_in(handed, &core, tls.clone()),
        }
    }
}

/// Takes in what other cores hand over, until none of them accepts any more.
pub async fn run_inlet(mut inlet: Inlet<Handed>, core: Rc<Core>, tls: Option<Arc<ServerConfig>>) {
    loop {
        match inlet.next().await {
            Ok(Some(handed)) => take_in(handed, &core, tls.clone()),
            Ok(None) => return,
            Err(error) => {
                tracing::error!(%error, "no more connections are taken over from other cores");
                return;
            }
        }
    }
}

/// Serves a connection that is on no core's driver.
fn take_in(handed: Handed, core: &Rc<Core>, tls: Option<Arc<ServerConfig>>) {
    let Handed { socket, peer, place } = handed;
    let admission = core.registry.enter(place);
    match attach(socket) {
        Ok(stream) => serve(stream, peer, admission, core, tls),
        Err(error) => tracing::warn!(%peer, %error, "a connection that was handed over had to be closed"),
    }
}

/// Starts the task of a connection.
fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    admission: Admission,
    core: &Rc<Core>,
    tls: Option<Arc<ServerConfig>>,
) {
    let core = Rc::clone(core);
    let serving = async move {
        let _admission = admission;
        if let Some(connection) = secured(stream, peer, &core, tls).await {
            connection::serve(connection, core).await;
        }
    };
    task::spawn(serving, |text| tracing::error!("a connection's task panicked: {text}"));
}

/// The connection, under TLS if the listener wants that; None if the client does not get that far.
async fn secured(
    stream: TcpStream,
    peer: SocketAddr,
    core: &Core,
    tls: Option<Arc<ServerConfig>>,
) -> Option<Connection> {
    let Some(config) = tls else { return Some(Connection::plain(stream)) };
    let limit = core.context.shared.config.server.header_timeout;
    // Boxed: the connection's task should not go on carrying what the handshake needs.
    match Box::pin(within(limit, tls::server(stream, config))).await {
        Some(Ok(connection)) => Some(connection),
        Some(Err(error)) => {
            tracing::debug!(%peer, %error, "no TLS handshake with a client");
            None
        }
        None => {
            core.context.shared.telemetry.metrics.reached(Limit::HeaderTimeout);
            tracing::debug!(%peer, "a client took too long for its TLS handshake");
            None
        }
    }
}
