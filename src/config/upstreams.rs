//! `[upstreams.NAME]`: where a provider is, what it is sent besides the client's request, how it carries on.

use std::path::PathBuf;
use std::time::Duration;

use super::keys::check_name;
use super::reader::{Node, Reader, Section};
use super::url::is_host;
use super::values::{boolean, choice, duration, integer, path, text};
use super::{BaseUrl, Secret, Upstream, UpstreamTls};
use crate::policy::{ContinuationMode, PrefillFlags};

/// Arbitrary limits.
const UPSTREAMS_MAX: usize = 1024;
const HEADERS_MAX: usize = 64;
const QUERY_MAX: usize = 64;
/// A header's name and value, a key, in bytes; arbitrary, servers take 8 KiB for a whole line.
const HEADER_NAME_MAX: usize = 128;
const HEADER_VALUE_MAX: usize = 8 << 10;

/// All of them, sorted by name. One with an error is there too, so that routes can refer to it.
pub fn upstreams(table: &Section<'_>, reader: &mut Reader<'_>) -> Vec<Upstream> {
    let members = table.members(reader, UPSTREAMS_MAX);
    members.into_iter().map(|(name, node)| upstream(name, &node, reader)).collect()
}

fn upstream(name: String, node: &Node<'_>, reader: &mut Reader<'_>) -> Upstream {
    check_name(&name, node, reader);
    if !name.is_ascii() {
        reader
            .report(&node.at, "an unusable name; it goes into a response header, so write ASCII characters");
    }
    let mut table = node.section(reader);
    let base = table.node("base_url");
    if base.is_none() && table.is_given() {
        reader.report(
            &table.at.below("base_url"),
            "missing; write where the provider is, like \"https://HOST/v1\"",
        );
    }
    let base = base.and_then(|node| base_url(&node, reader));
    table.read(reader, "protocol", &mut (), choice(&PROTOCOLS));

    let api_key = api_key(&mut table, reader);
    let mut auth_header = "authorization".to_owned();
    table.read(reader, "auth_header", &mut auth_header, auth_header_name);
    let mut headers = Vec::new();
    table.read(reader, "headers", &mut headers, |node, reader| {
        let key_in = api_key.is_some().then_some(auth_header.as_str());
        Some(header_list(node, key_in, reader))
    });
    let mut query = String::new();
    table.read(reader, "query", &mut query, |node, reader| Some(encoded_query(node, reader)));

    let mut continuation = ContinuationMode::Instruct;
    table.read(reader, "continuation", &mut continuation, choice(&CONTINUATIONS));
    let mut prefill_flags = PrefillFlags::None;
    table.read(reader, "prefill_flags", &mut prefill_flags, choice(&PREFILL_FLAGS));
    let mut trim_trailing_space = false;
    table.read(reader, "trim_trailing_space", &mut trim_trailing_space, boolean);
    let mut ask_usage = false;
    table.read(reader, "ask_usage", &mut ask_usage, boolean);
    let mut pool_idle = Duration::from_secs(4);
    let hour = Duration::from_secs(3600);
    table.read(reader, "pool_idle", &mut pool_idle, duration(Duration::from_millis(1)..=hour));
    let mut pool_size = 256;
    table.read(reader, "pool_size", &mut pool_size, integer(0..=65_536));
    let mut tls = UpstreamTls { ca_file: None, server_name: None, verify: true };
    let plain = base.as_ref().is_some_and(|base| !base.tls);
    table.read(reader, "tls", &mut tls, |node, reader| Some(upstream_tls(node, plain, reader)));
    table.finish(reader);

    let base = base.unwrap_or_else(|| BaseUrl {
        tls: true,
        host: String::new(),
        port: 443,
        host_header: String::new(),
        path: String::new(),
    });
    Upstream {
        name,
        base,
        api_key,
        auth_header,
        headers,
        query,
        continuation,
        prefill_flags,
        trim_trailing_space,
        ask_usage,
        pool_idle,
        pool_size,
        tls,
    }
}

const PROTOCOLS: [(&str, Option<()>); 2] = [("openai", Some(())), ("anthropic", None)];

/// `auto` is what suits the protocol, and there is one protocol.
const CONTINUATIONS: [(&str, Option<ContinuationMode>); 5] = [
    ("auto", Some(ContinuationMode::Instruct)),
    ("instruct", Some(ContinuationMode::Instruct)),
    ("prefill", Some(ContinuationMode::Prefill)),
    ("user_turn", Some(ContinuationMode::UserTurn)),
    ("none", Some(ContinuationMode::None)),
];

const PREFILL_FLAGS: [(&str, Option<PrefillFlags>); 3] = [
    ("none", Some(PrefillFlags::None)),
    ("vllm", Some(PrefillFlags::Vllm)),
    ("prefix", Some(PrefillFlags::Prefix)),
];

fn base_url(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<BaseUrl> {
    let given = text(node, reader)?;
    match BaseUrl::parse(&given) {
        Ok(base) => Some(base),
        Err(wrong) => {
            // User information and queries carry credentials.
            let secret = given.contains(['@', '?', '#']);
            let node = if secret { node.clone().secret() } else { node.clone() };
            reader.report(&node.at, format!("{} has {wrong}", node.seen()));
            None
        }
    }
}

/// The key from `api_key`, or from the file that `api_key_file` names; white space at a file's end is no part of it.
fn api_key(table: &mut Section<'_>, reader: &mut Reader<'_>) -> Option<Secret> {
    let written = table.node("api_key").map(Node::secret);
    let file = table.node("api_key_file");
    let (key, node) = match (written, file) {
        (Some(_), Some(file)) => {
            reader.report(&file.at, "api_key is given too; keep one of the two");
            return None;
        }
        (Some(node), None) => (text(&node, reader)?, node),
        (None, Some(node)) => (key_from_file(&node, reader)?, node),
        (None, None) => return None,
    };
    let wrong = if key.is_empty() {
        "an empty key; set it, or leave it out for an upstream that asks for none"
    } else if key.len() > HEADER_VALUE_MAX {
        "a key longer than 8 KiB; is it the right one?"
    } else if !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        "a key with white space, control or non-ASCII characters, which no header can carry; \
         look for a line break at its end"
    } else {
        return Some(Secret::new(key));
    };
    reader.report(&node.at, wrong);
    None
}

fn key_from_file(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let file = path(node, reader)?;
    match (reader.sources.read_file)(&file) {
        // What is not UTF-8 is no key either: the check that follows says so.
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).trim_end().to_owned()),
        Err(error) => {
            reader.report(&node.at, format!("{} cannot be read: {error}", node.seen()));
            None
        }
    }
}

/// Never shown: the whole header, value included, may have been put here by mistake.
fn auth_header_name(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let node = node.clone().secret();
    let name = text(&node, reader)?.to_ascii_lowercase();
    match unusable_header(&name) {
        None => Some(name),
        Some(wrong) => {
            reader.report(
                &node.at,
                format!("{wrong}; write a header's name, like \"authorization\" or \"api-key\""),
            );
            None
        }
    }
}

/// What keeps a config from setting this header, named in lower case.
fn unusable_header(name: &str) -> Option<&'static str> {
    // RFC 9110 section 5.6.2, token.
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || name.len() > HEADER_NAME_MAX || !name.bytes().all(token) {
        return Some("not the name of a header");
    }
    match name {
        // RFC 9110 section 7.6.1 and the proxies' own.
        "connection"
        | "keep-alive"
        | "proxy-authenticate"
        | "proxy-authorization"
        | "proxy-connection"
        | "te"
        | "trailer"
        | "transfer-encoding"
        | "upgrade" => Some("a header of the connection, not of the request"),
        "host" | "content-length" | "accept-encoding" | "expect" => Some("a header that Baton sets itself"),
        _ => None,
    }
}

/// `key_in`: the header that carries the key, if there is one.
fn header_list(node: &Node<'_>, key_in: Option<&str>, reader: &mut Reader<'_>) -> Vec<(String, String)> {
    let mut headers: Vec<(String, String)> = Vec::new();
    let node = node.clone().secret();
    for (name, value) in node.section(reader).members(reader, HEADERS_MAX) {
        let name = name.to_ascii_lowercase();
        if let Some(wrong) = unusable_header(&name) {
            // At the table: a whole header line may have been put in place of the name.
            let at = if wrong.starts_with("not") { &node.at } else { &value.at };
            reader.report(at, format!("{wrong}; take it out"));
            continue;
        }
        if headers.iter().any(|(other, _)| *other == name) {
            reader.report(&value.at, "is there twice (case makes no difference); take one out");
        }
        if key_in == Some(name.as_str()) {
            reader.report(&value.at, "the key of api_key goes into this header; take one of the two out");
        }
        let Some(given) = text(&value, reader) else { continue };
        // RFC 9110 section 5.5, without obs-text.
        let carried = given.bytes().all(|byte| byte.is_ascii_graphic() || matches!(byte, b' ' | b'\t'));
        if !carried || given.len() > HEADER_VALUE_MAX {
            let message =
                "a value that no header can carry; write at most 8 KiB of printable ASCII, no line break";
            reader.report(&value.at, message);
        }
        headers.push((name, given));
    }
    headers
}

/// `a=b&c=d`, sorted by name.
fn encoded_query(node: &Node<'_>, reader: &mut Reader<'_>) -> String {
    let mut query = String::new();
    for (name, value) in node.clone().secret().section(reader).members(reader, QUERY_MAX) {
        if name.is_empty() {
            reader.report(&value.at, "an empty name; write name = \"value\"");
        }
        let Some(given) = text(&value, reader) else { continue };
        if !query.is_empty() {
            query.push('&');
        }
        percent_encode(&mut query, &name);
        query.push('=');
        percent_encode(&mut query, &given);
    }
    query
}

/// Leaves the unreserved characters of RFC 3986 section 2.3 as they are.
fn percent_encode(into: &mut String, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            into.push(char::from(byte));
        } else {
            into.push('%');
            into.push(char::from(HEX[usize::from(byte >> 4)]));
            into.push(char::from(HEX[usize::from(byte & 15)]));
        }
    }
}

/// An empty string stands for a key that is left out. `plain`: the base URL asks for no TLS.
fn upstream_tls(node: &Node<'_>, plain: bool, reader: &mut Reader<'_>) -> UpstreamTls {
    let mut table = node.section(reader);
    let mut tls = UpstreamTls { ca_file: None, server_name: None, verify: true };
    table.read(reader, "ca_file", &mut tls.ca_file, |node, reader| {
        let given = text(node, reader)?;
        if given.is_empty() { Some(None) } else { path(node, reader).map(Some::<PathBuf>) }
    });
    table.read(reader, "server_name", &mut tls.server_name, |node, reader| {
        let given = text(node, reader)?;
        if given.is_empty() {
            return Some(None);
        }
        if !is_host(&given) && given.parse::<core::net::IpAddr>().is_err() {
            let message = format!("{} is no host name; write the name in the certificate", node.seen());
            reader.report(&node.at, message);
        }
        Some(Some(given.to_ascii_lowercase()))
    });
    table.read(reader, "verify", &mut tls.verify, boolean);
    let set = tls.ca_file.is_some() || tls.server_name.is_some() || !tls.verify;
    if plain && set {
        reader.report(
            &table.at,
            "base_url begins with http://, so this has no effect; write https://, or take it out",
        );
    }
    table.finish(reader);
    tls
}
