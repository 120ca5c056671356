//! TLS peers of a whole node: certificates as files, a blocking client, a TLS upstream, a wire that can be cut.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use socket2::{Domain, SockRef, Socket, Type};

use super::Node;
use crate::support::client::{CHAT, request_bytes};
use crate::support::{Config, End, Gate, PATIENCE, Response, ScriptedUpstream};

/// A certificate for `localhost` and its key, as files.
pub struct Pair {
    pub dir: tempfile::TempDir,
    pub cert_pem: String,
}

impl Pair {
    pub fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cert_pem = made.cert.pem();
        std::fs::write(dir.path().join("cert.pem"), &cert_pem).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { dir, cert_pem }
    }

    pub fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The value of `server.tls`.
    pub fn server(&self) -> String {
        format!("{{ cert_file = \"{}\", key_file = \"{}\" }}", self.file("cert.pem"), self.file("key.pem"))
    }

    /// The value of an upstream's `tls`, besides other members.
    pub fn trusted(&self, more: &str) -> String {
        format!("{{ ca_file = \"{}\"{more} }}", self.file("cert.pem"))
    }
}

/// A TLS listener that relays what is asked for below `/v1/x/` with the model `model-1`.
pub fn front(pair: &Pair, upstream: &ScriptedUpstream) -> Node {
    let config = Config::new().set("server", "tls", pair.server()).upstream("behind", upstream.addr);
    Node::start(&config.route("model-1", &[("behind", "model-1")]))
}

/// A blocking client that speaks one version only.
pub struct TlsClient {
    pub stream: StreamOwned<ClientConnection, TcpStream>,
    unread: Vec<u8>,
}

impl TlsClient {
    pub fn connect(addr: SocketAddr, pair: &Pair, version: &'static SupportedProtocolVersion) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pair.cert_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        // Small, so that a client that stops reading is felt at once.
        socket.set_recv_buffer_size(64 * 1024).unwrap();
        socket.connect(&addr.into()).unwrap();
        let socket = TcpStream::from(socket);
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: StreamOwned::new(session, socket), unread: Vec::new() }
    }

    pub fn post(&mut self, headers: &[(&str, &str)], body: &serde_json::Value) {
        self.stream.write_all(&request_bytes("POST", CHAT, headers, body.to_string().as_bytes())).unwrap();
    }

    /// Reads a response until `enough`, or its end.
    pub fn response(&mut self, enough: impl Fn(&Response) -> bool) -> Response {
        self.read_on(None, enough)
    }

    /// Reads the rest of a response.
    pub fn rest(&mut self, begun: Response) -> Response {
        self.read_on(Some(begun), |_| false)
    }

    fn read_on(&mut self, mut response: Option<Response>, enough: impl Fn(&Response) -> bool) -> Response {
        loop {
            response = response.or_else(|| Response::take_head(&mut self.unread, Instant::now()));
            if let Some(response) = &mut response {
                response.take_body(&mut self.unread, Instant::now());
                if response.end != End::Open || enough(response) {
                    return response.clone();
                }
            }
            match self.read() {
                Ok(1..) => {}
                ended => {
                    let mut response = response.expect("a response's head");
                    response.connection_ended(ended.is_err(), Instant::now());
                    return response;
                }
            }
        }
    }

    pub fn read(&mut self) -> std::io::Result<usize> {
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Ok(read) => {
                    self.unread.extend_from_slice(&buffer[..read]);
                    return Ok(read);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// A wire between two TCP peers, below whatever they speak, that can be cut.
pub struct Wire {
    pub addr: SocketAddr,
}

impl Wire {
    /// Carries one connection to `far` until `cut` opens; then the near end gets a FIN, or a reset.
    pub fn to(far: SocketAddr, cut: Gate, by_reset: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        thread::spawn(move || {
            let near = listener.accept().unwrap().0;
            let far = TcpStream::connect(far).unwrap();
            let ends =
                [(&near, &far), (&far, &near)].map(|(a, b)| (a.try_clone().unwrap(), b.try_clone().unwrap()));
            let carriers = ends.map(|(from, to)| thread::spawn(move || carry(from, to)));
            if cut.wait(PATIENCE) && by_reset {
                SockRef::from(&near).set_linger(Some(Duration::ZERO)).unwrap();
                // Ends the carriers' reads, which hold the descriptor too, without a FIN.
                near.shutdown(Shutdown::Read).unwrap();
                far.shutdown(Shutdown::Both).unwrap();
            } else {
                near.shutdown(Shutdown::Both).unwrap();
                far.shutdown(Shutdown::Both).unwrap();
            }
            drop(near);
            carriers.into_iter().for_each(|carrier| carrier.join().unwrap());
        });
        Self { addr }
    }
}

/// Copies until either end is shut down.
fn carry(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            return;
        }
    }
}
