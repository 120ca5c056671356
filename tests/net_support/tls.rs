//! TLS peers for the tests: one certificate, a blocking client of either version, our own ends.

use std::net::TcpStream;
use std::sync::mpsc::Receiver;
use std::sync::{Arc, LazyLock};

use baton::net::{Connection, Gather, tls, tls_config};
use bytes::Bytes;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, StreamOwned, SupportedProtocolVersion};

use super::{Peer, pair};

/// One certificate for `localhost`, with both sides' settings.
pub struct Settings {
    pub cert_pem: String,
    pub server: Arc<ServerConfig>,
    pub client: Arc<ClientConfig>,
}

pub static SETTINGS: LazyLock<Settings> = LazyLock::new(|| {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let (cert_pem, key) = (made.cert.pem(), made.signing_key.serialize_pem());
    let server = tls_config::server(cert_pem.as_bytes(), key.as_bytes()).unwrap();
    let client = tls_config::client("test", Some(cert_pem.as_bytes()), true).unwrap();
    Settings { cert_pem, server, client }
});

pub fn localhost() -> ServerName<'static> {
    tls_config::server_name("localhost").unwrap()
}

pub type ClientPeer = StreamOwned<ClientConnection, TcpStream>;

/// A blocking client, of one version only, that has shaken hands.
pub fn client_peer(far: TcpStream, version: &'static SupportedProtocolVersion) -> ClientPeer {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(SETTINGS.cert_pem.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
    let config = builder.with_root_certificates(roots).with_no_client_auth();
    let session = ClientConnection::new(Arc::new(config), localhost()).unwrap();
    let mut stream = StreamOwned::new(session, far);
    while stream.conn.is_handshaking() {
        stream.conn.complete_io(&mut stream.sock).unwrap();
    }
    stream
}

/// Our server, after the handshake, and a client on a thread that plays `play`.
pub async fn with_client<T: Send + 'static>(
    version: &'static SupportedProtocolVersion,
    play: impl FnOnce(ClientPeer, Receiver<()>) -> T + Send + 'static,
) -> (Connection, Peer<T>) {
    let (near, far) = pair(None);
    let peer = Peer::start(move |wait| play(client_peer(far, version), wait));
    (tls::server(near, SETTINGS.server.clone()).await.unwrap(), peer)
}

/// Both ends in our hands.
pub async fn both_ends() -> (Connection, Connection) {
    let (near, far) = pair(None);
    far.set_nonblocking(monoio::utils::is_legacy()).unwrap();
    let far = monoio::net::TcpStream::from_std(far).unwrap();
    let (client, server) = monoio::join!(
        tls::client(near, SETTINGS.client.clone(), localhost()),
        tls::server(far, SETTINGS.server.clone())
    );
    (client.unwrap(), server.unwrap())
}

pub fn gather(bytes: impl Into<Bytes>) -> Gather {
    let mut gather = Gather::new();
    gather.push(bytes.into());
    gather
}
