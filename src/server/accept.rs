//! Taking connections in: one task per listener of a core.

use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use monoio::net::TcpStream;
use rustls::ServerConfig;

use super::connection::{self, Core};
use crate::net::listener::{Listener, pause_after};
use crate::net::task::within;
use crate::net::{Connection, task, tls};
use crate::telemetry::Limit;

/// How long accepting rests when there are too many connections.
const REST: Duration = Duration::from_millis(50);

/// Accepts until the listener is shut down.
pub async fn run(
    mut listener: Listener,
    core: Rc<Core>,
    tls: Option<Arc<ServerConfig>>,
    connections_max: usize,
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
        let (core, tls) = (Rc::clone(&core), tls.clone());
        let serving = async move {
            let _admission = admission;
            if let Some(connection) = secured(stream, peer, &core, tls).await {
                connection::serve(connection, core).await;
            }
        };
        task::spawn(serving, |text| tracing::error!("a connection's task panicked: {text}"));
    }
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
