//! `[server]`, `[limits]`, `[admin]` and `[log]`.

use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use toml::de::DeValue;

use super::reader::{Node, Reader, Section, Spot};
use super::values::{boolean, choice, distinct, duration, duration_or_zero, integer, path, size, text};
use super::{Admin, HalfClose, Io, Level, Limits, Log, LogFormat, LogTo, Server, ServerTls};

const MS: Duration = Duration::from_millis(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;
const GIB: usize = 1 << 30;

/// Listeners a core; arbitrary.
const LISTEN_MAX: usize = 16;

/// Besides the settings, where the addresses were given.
pub fn server(mut table: Section<'_>, reader: &mut Reader<'_>) -> (Server, Spot) {
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 8080);
    let mut server = Server {
        listen: vec![loopback],
        tls: None,
        open: false,
        workers: 0,
        io: Io::Auto,
        header_timeout: Duration::from_secs(10),
        body_timeout: Duration::from_secs(30),
        idle_timeout: Duration::from_secs(75),
        write_timeout: Duration::from_secs(60),
        heartbeat: Duration::from_secs(15),
        drain: Duration::from_secs(300),
        half_close: HalfClose::Cancel,
    };
    let listen = table.node("listen");
    let listen_at = listen.as_ref().map_or_else(|| table.at.below("listen"), |node| node.at.clone());
    if let Some(addresses) = listen.and_then(|node| addresses(&node, reader)) {
        server.listen = addresses;
    }
    if let Some(node) = table.node("tls") {
        server.tls = server_tls(&node, reader);
    }
    table.read(reader, "open", &mut server.open, boolean);
    table.read(reader, "workers", &mut server.workers, integer(0..=1024));
    table.read(reader, "io", &mut server.io, choice(&IO));
    table.read(reader, "header_timeout", &mut server.header_timeout, duration(100 * MS..=5 * MINUTE));
    table.read(reader, "body_timeout", &mut server.body_timeout, duration(100 * MS..=HOUR));
    table.read(reader, "idle_timeout", &mut server.idle_timeout, duration(100 * MS..=HOUR));
    table.read(reader, "write_timeout", &mut server.write_timeout, duration(100 * MS..=HOUR));
    table.read(reader, "heartbeat", &mut server.heartbeat, duration_or_zero(10 * MS..=5 * MINUTE));
    table.read(reader, "drain", &mut server.drain, duration(Duration::ZERO..=24 * HOUR));
    table.read(reader, "client_half_close", &mut server.half_close, choice(&HALF_CLOSE));
    table.finish(reader);
    (server, listen_at)
}

const IO: [(&str, Option<Io>); 3] =
    [("auto", Some(Io::Auto)), ("io_uring", Some(Io::IoUring)), ("epoll", Some(Io::Epoll))];

const HALF_CLOSE: [(&str, Option<HalfClose>); 2] =
    [("cancel", Some(HalfClose::Cancel)), ("serve", Some(HalfClose::Serve))];

/// One address, or a list of them.
fn addresses(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<Vec<SocketAddr>> {
    if matches!(node.value(), DeValue::String(_)) {
        return address(node, reader).map(|address| vec![address]);
    }
    let listed = distinct(LISTEN_MAX, "an address like \"127.0.0.1:8080\", or a list of them", address);
    let listed = listed(node, reader)?;
    if node.value().as_array().is_some_and(|array| array.is_empty()) {
        reader.report(&node.at, "an empty list; name at least one address, like \"127.0.0.1:8080\"");
    }
    Some(listed)
}

fn address(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<SocketAddr> {
    let given = text(node, reader)?;
    let address = given.parse().ok();
    if address.is_none() {
        let message = format!(
            "{} is no address; write an IP address and a port, like \"127.0.0.1:8080\" or \"[::1]:8080\"",
            node.seen()
        );
        reader.report(&node.at, message);
    }
    address
}

fn server_tls(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<ServerTls> {
    let mut table = node.section(reader);
    let mut file = |key: &'static str, holds: &str| -> Option<PathBuf> {
        let node = table.node(key);
        if node.is_none() && table.is_given() {
            let message = format!("missing; name the PEM file with {holds}, or take server.tls out");
            reader.report(&table.at.below(key), message);
        }
        path(&node?, reader)
    };
    let cert_file = file("cert_file", "the certificate chain");
    let key_file = file("key_file", "its private key");
    table.finish(reader);
    Some(ServerTls { cert_file: cert_file?, key_file: key_file? })
}

pub fn limits(mut table: Section<'_>, reader: &mut Reader<'_>) -> Limits {
    let mut limits = Limits {
        request_body: 32 * MIB,
        response_body: 16 * MIB,
        head: 64 * KIB,
        head_fields: 200,
        frame_bytes: 4 * MIB,
        partial: MIB,
        window: 256 * KIB,
        buffered_bytes: None,
        connections: 0,
    };
    table.read(reader, "request_body", &mut limits.request_body, size(KIB..=GIB));
    table.read(reader, "response_body", &mut limits.response_body, size(KIB..=GIB));
    table.read(reader, "head", &mut limits.head, size(KIB..=MIB));
    table.read(reader, "frame_bytes", &mut limits.frame_bytes, size(64 * KIB..=64 * MIB));
    table.read(reader, "partial", &mut limits.partial, size(KIB..=64 * MIB));
    table.read(reader, "window", &mut limits.window, size(64 * KIB..=16 * MIB));
    table.read(reader, "buffered_bytes", &mut limits.buffered_bytes, |node, reader| {
        let auto = node.value().is_str() && text(node, reader)? == "auto";
        if auto { Some(None) } else { size(MIB..=1024 * GIB)(node, reader).map(Some) }
    });
    table.read(reader, "connections", &mut limits.connections, integer(0..=1_000_000));
    table.finish(reader);
    limits
}

pub fn admin(mut table: Section<'_>, reader: &mut Reader<'_>) -> Admin {
    let loopback = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9901);
    let mut admin = Admin { listen: Some(loopback) };
    table.read(reader, "listen", &mut admin.listen, |node, reader| {
        let off = node.value().is_str() && text(node, reader)?.is_empty();
        if off { Some(None) } else { address(node, reader).map(Some) }
    });
    table.finish(reader);
    admin
}

pub fn log(mut table: Section<'_>, reader: &mut Reader<'_>) -> Log {
    let mut log =
        Log { format: LogFormat::Text, level: Level::Info, access: LogTo::Stderr, usage: LogTo::Off };
    table.read(reader, "format", &mut log.format, choice(&FORMATS));
    table.read(reader, "level", &mut log.level, choice(&LEVELS));
    table.read(reader, "access", &mut log.access, log_to);
    table.read(reader, "usage", &mut log.usage, log_to);
    table.finish(reader);
    log
}

/// `off`, `stderr`, or a file's path.
fn log_to(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<LogTo> {
    match text(node, reader)?.as_str() {
        "off" => Some(LogTo::Off),
        "stderr" => Some(LogTo::Stderr),
        _ => path(node, reader).map(LogTo::File),
    }
}

const FORMATS: [(&str, Option<LogFormat>); 2] =
    [("text", Some(LogFormat::Text)), ("json", Some(LogFormat::Json))];

const LEVELS: [(&str, Option<Level>); 6] = [
    ("off", Some(Level::Off)),
    ("error", Some(Level::Error)),
    ("warn", Some(Level::Warn)),
    ("info", Some(Level::Info)),
    ("debug", Some(Level::Debug)),
    ("trace", Some(Level::Trace)),
];
