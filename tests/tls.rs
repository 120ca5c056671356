//! TLS through the whole proxy: clients of a TLS listener, upstreams behind https, and what their faults lead to.
//!
//! A TLS upstream is a second node: a TLS listener that relays, under a path it does not know, to a scripted upstream.
//! Such a relay passes a cut on as a cut.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod node;
mod support;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::time::Instant;

use baton::exchange::StreamOutcome;
use node::{Node, Watch};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use support::client::{CHAT, request_bytes};
use support::openai::{
    self, LAST_CHUNK, ask, ask_plain, beginning, ch, chunk, completion, done, finish, stream,
};
use support::upstream::send;
use support::*;

/// A certificate for `localhost` and its key, as files.
struct Pair {
    dir: tempfile::TempDir,
    cert_pem: String,
}

impl Pair {
    fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let dir = tempfile::tempdir().unwrap();
        let cert_pem = made.cert.pem();
        std::fs::write(dir.path().join("cert.pem"), &cert_pem).unwrap();
        std::fs::write(dir.path().join("key.pem"), made.signing_key.serialize_pem()).unwrap();
        Self { dir, cert_pem }
    }

    fn file(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    /// The value of `server.tls`.
    fn server(&self) -> String {
        format!("{{ cert_file = \"{}\", key_file = \"{}\" }}", self.file("cert.pem"), self.file("key.pem"))
    }

    /// The value of an upstream's `tls`, besides other members.
    fn trusted(&self, more: &str) -> String {
        format!("{{ ca_file = \"{}\"{more} }}", self.file("cert.pem"))
    }
}

/// A TLS listener that relays what is asked for below `/v1/x/` with the model `model-1`.
fn front(pair: &Pair, upstream: &ScriptedUpstream) -> Node {
    let config = Config::new().set("server", "tls", pair.server()).upstream("behind", upstream.addr);
    Node::start(&config.route("model-1", &[("behind", "model-1")]))
}

/// A chat route: `url` first, under the given TLS settings, then a plain upstream.
fn behind_tls(url: &str, tls: &str, second: &ScriptedUpstream) -> Config {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    let config = Config::chat([&nowhere, &second.addr])
        .set("upstreams.up1", "base_url", format!("\"{url}\""))
        .set("routes.chat", "timeouts", "{ connect = \"2s\" }");
    if tls.is_empty() { config } else { config.set("upstreams.up1", "tls", tls) }
}

fn ending(delta: &str) -> Vec<u8> {
    [ch(chunk(delta)), ch(finish("stop")), ch(done()), LAST_CHUNK.to_vec()].concat()
}

/// A blocking client that speaks one version only.
struct TlsClient {
    stream: StreamOwned<ClientConnection, TcpStream>,
    unread: Vec<u8>,
}

impl TlsClient {
    fn connect(addr: SocketAddr, pair: &Pair, version: &'static SupportedProtocolVersion) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(pair.cert_pem.as_bytes()).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_protocol_versions(&[version]).unwrap();
        let mut config = builder.with_root_certificates(roots).with_no_client_auth();
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let name = ServerName::try_from("localhost").unwrap();
        let session = ClientConnection::new(Arc::new(config), name).unwrap();
        let socket = TcpStream::connect(addr).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream: StreamOwned::new(session, socket), unread: Vec::new() }
    }

    fn post(&mut self, headers: &[(&str, &str)], body: &serde_json::Value) {
        self.stream.write_all(&request_bytes("POST", CHAT, headers, body.to_string().as_bytes())).unwrap();
    }

    /// Reads a response until `enough`, or its end.
    fn response(&mut self, enough: impl Fn(&Response) -> bool) -> Response {
        let mut response = None;
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

    fn read(&mut self) -> std::io::Result<usize> {
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

#[test]
fn clients_of_both_versions_are_served() {
    let pair = Pair::new();
    for version in [&TLS12, &TLS13] {
        let answer = completion("Hello").to_string();
        let long = vec!["word"; 3000];
        let upstream = ScriptedUpstream::new(vec![
            send(stream(&["Hel", "lo"])),
            send(openai::response("200 OK", "application/json", &answer)),
            send(stream(&long)),
        ]);
        let node = Node::start(&Config::chat([&upstream.addr]).set("server", "tls", pair.server()));
        let mut client = TlsClient::connect(node.addr, &pair, version);
        client.post(&[], &ask("chat"));
        client.response(|_| false).assert_success("Hello");
        assert_eq!(client.stream.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(client.stream.conn.protocol_version(), Some(version.version));
        client.post(&[], &ask_plain("chat"));
        assert_eq!(client.response(|_| false).body, answer.as_bytes());
        client.post(&[("Connection", "close")], &ask("chat"));
        client.response(|_| false).assert_success(&long.concat());
        // A proper end: close_notify, not a bare FIN, which would be an error here.
        assert_eq!(client.read().unwrap(), 0);
        assert_eq!(upstream.connection_count(), 1);
    }
}

#[test]
fn a_tls_client_is_given_the_rest_by_another_upstream_and_sees_a_failure_as_one() {
    let pair = Pair::new();
    let begun = || ScriptedUpstream::always(vec![Step::Send(beginning(&["Hel"])), Step::Fin]);
    let (first, second) = (begun(), ScriptedUpstream::always(send(stream(&["lo"]))));
    let node = Node::start(&Config::chat([&first.addr, &second.addr]).set("server", "tls", pair.server()));
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    client.response(|_| false).assert_success("Hello");
    let node = Node::start(&Config::chat([&first.addr]).set("server", "tls", pair.server()));
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    client.response(|_| false).assert_failed_after("Hel");
}

#[test]
fn a_tls_client_that_leaves_frees_its_upstream() {
    let pair = Pair::new();
    let upstream = ScriptedUpstream::new(vec![vec![
        Step::Send(beginning(&["Hel"])),
        Step::PauseUntilPeerCloses(PATIENCE),
    ]]);
    let node = Node::start(&Config::chat([&upstream.addr]).set("server", "tls", pair.server()));
    let mut client = TlsClient::connect(node.addr, &pair, &TLS13);
    client.post(&[], &ask("chat"));
    client.response(|response| response.text() == "Hel");
    let left = Instant::now();
    drop(client);
    assert!(upstream.wait_closed(0, PROMPT).saturating_duration_since(left) < PROMPT);
    node.wait_counts("at rest", |counts| counts.streams == 0 && counts.buffered == 0);
}

#[test]
fn an_https_upstream_streams_and_its_cut_answer_is_carried_on() {
    let pair = Pair::new();
    let gate = Gate::new();
    let whole = vec![Step::Send(beginning(&["Hel"])), Step::Hold(gate.clone()), Step::Send(ending("lo"))];
    let cut = |how| vec![Step::Send(beginning(&["Hel"])), how];
    let behind = ScriptedUpstream::new(vec![whole, send(stream(&["Hello"])), cut(Step::Fin), cut(Step::Rst)]);
    let front = front(&pair, &behind);
    let second = ScriptedUpstream::always(send(stream(&["lo"])));
    let watch = Watch::new();
    let url = format!("https://localhost:{}/v1/x", front.addr.port());
    let node = Node::watched(&behind_tls(&url, &pair.trusted(""), &second), &watch);
    let mut client = node.ask(&ask("chat"));
    let mut response = client.head();
    client.read_text(&mut response, "Hel");
    gate.open();
    client.rest(response).assert_success("Hello");
    // On the same connections again, as far as the front; then the cuts.
    client.ask(&ask("chat")).response().assert_success("Hello");
    assert_eq!(front.counts().pooled, 1);
    for _ in 0..2 {
        client.ask(&ask("chat")).response().assert_success("Hello");
    }
    let request = &behind.requests()[0];
    assert_eq!(request.target, "/v1/x/chat/completions");
    assert_eq!((behind.request_count(), second.request_count()), (4, 2));
    let outcomes = [
        StreamOutcome::Success,
        StreamOutcome::Success,
        StreamOutcome::PartialRecovered,
        StreamOutcome::PartialRecovered,
    ];
    assert_eq!(watch.wait_outcomes(4), outcomes);
}

#[test]
fn a_tls_fault_falls_back_unless_told_otherwise() {
    let (pair, stranger) = (Pair::new(), Pair::new());
    let behind = ScriptedUpstream::always(send(stream(&["behind"])));
    let front = front(&pair, &behind);
    let second = ScriptedUpstream::always(send(stream(&["second"])));
    let port = front.addr.port();
    let localhost = format!("https://localhost:{port}/v1/x");
    let address = format!("https://127.0.0.1:{port}/v1/x");
    let cases = [
        ("trusted", &localhost, pair.trusted(""), None),
        ("another name's certificate", &address, pair.trusted(""), Some("tls_failed")),
        ("the name is told", &address, pair.trusted(", server_name = \"localhost\""), None),
        (
            "another name is told",
            &localhost,
            pair.trusted(", server_name = \"example.com\""),
            Some("tls_failed"),
        ),
        ("another CA", &localhost, stranger.trusted(""), Some("tls_failed")),
        ("only the web's CAs", &localhost, String::new(), Some("tls_failed")),
        ("nothing is verified", &address, "{ verify = false }".to_owned(), None),
    ];
    for (name, url, tls, fault) in cases {
        let watch = Watch::new();
        let node = Node::watched(&behind_tls(url, &tls, &second), &watch);
        let text = if fault.is_some() { "second" } else { "behind" };
        node.ask(&ask("chat")).response().assert_success(text);
        watch.wait_outcomes(1);
        assert_eq!(watch.causes.lock().unwrap()[0], fault.unwrap_or("answered"), "{name}");
    }
    let asked = second.request_count();
    let strict = behind_tls(&localhost, &stranger.trusted(""), &second).set(
        "routes.chat",
        "fallback_on_config_faults",
        "false",
    );
    let response = Node::start(&strict).ask(&ask("chat")).response();
    assert!(matches!(response.status, 502 | 503), "{}", response.status);
    let error = response.assert_error(response.status);
    let message = error["message"].as_str().unwrap();
    assert!(!message.contains("localhost") && !message.contains(&port.to_string()), "{message}");
    assert_eq!(second.request_count(), asked);
}

#[test]
fn names_are_resolved_and_one_that_cannot_be_falls_back() {
    let named = ScriptedUpstream::always(send(stream(&["named"])));
    let second = ScriptedUpstream::always(send(stream(&["second"])));
    let watch = Watch::new();
    let config = behind_tls(&format!("http://localhost:{}/v1", named.addr.port()), "", &second);
    let node = Node::watched(&config, &watch);
    for _ in 0..2 {
        node.ask(&ask("chat")).response().assert_success("named");
    }
    // RFC 6761, section 6.4: such a name never resolves.
    let config = behind_tls("http://no-such-host.invalid:80/v1", "", &second);
    let node = Node::watched(&config, &watch);
    node.ask(&ask("chat")).response().assert_success("second");
    watch.wait_outcomes(3);
    assert_eq!(*watch.causes.lock().unwrap(), ["answered", "answered", "dns_failed", "answered"]);
    let strict = config.set("routes.chat", "fallback_on_config_faults", "false");
    let response = Node::start(&strict).ask(&ask("chat")).response();
    assert!(matches!(response.status, 502 | 503), "{}", response.status);
    response.assert_error(response.status);
}

#[test]
fn files_that_do_not_go_together_refuse_the_start_and_say_why() {
    let (pair, other) = (Pair::new(), Pair::new());
    std::fs::write(pair.dir.path().join("empty.pem"), "").unwrap();
    let tls = |cert: String, key: String| format!("{{ cert_file = \"{cert}\", key_file = \"{key}\" }}");
    let (cert, key) = (pair.file("cert.pem"), pair.file("key.pem"));
    let cases = [
        (
            "another pair's key",
            tls(cert.clone(), other.file("key.pem")),
            "does not belong to the first certificate",
        ),
        ("two certificates", tls(cert.clone(), cert.clone()), "key_file holds no private key"),
        ("two keys", tls(key.clone(), key.clone()), "cert_file holds no certificate"),
        ("an empty file", tls(pair.file("empty.pem"), key.clone()), "cert_file holds no certificate"),
        ("no file", tls(pair.file("none.pem"), key), "none.pem cannot be read"),
    ];
    let upstream = support::upstream::closed_port();
    for (name, value, wanted) in cases {
        let config = Config::chat([&upstream]).set("server", "tls", value);
        assert_refused(name, &config, wanted);
    }
    let config =
        behind_tls("https://localhost/v1", "{ ca_file = \"none.pem\" }", &ScriptedUpstream::new(vec![]));
    assert_refused("a ca_file that is not there", &config, "none.pem cannot be read");
}

/// Panics unless both commands refuse the config, each with its exit code, and say `wanted`.
fn assert_refused(name: &str, config: &Config, wanted: &str) {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("baton.toml");
    std::fs::write(&file, config.text()).unwrap();
    for (command, code) in [(&["run", "--config"][..], 69), (&["check"][..], 1)] {
        let ran = Command::new(support::proxy::binary()).args(command).arg(&file).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stderr);
        assert_eq!(ran.status.code(), Some(code), "{name}: {command:?}: {said}");
        assert!(said.contains(wanted), "{name}: {command:?}: {said}");
        assert!(ran.stdout.is_empty(), "{name}: {command:?}");
    }
}
