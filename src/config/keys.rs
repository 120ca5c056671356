//! `[keys.NAME]`: client keys by the SHA-256 of their tokens, and the routes they open.

use std::collections::BTreeMap;

use super::ClientKey;
use super::reader::{Node, Reader, Section, is_printable, repair};
use super::values::{distinct, text};

/// Arbitrary limits.
const KEYS_MAX: usize = 1024;
const DIGESTS_MAX: usize = 64;
const GLOBS_MAX: usize = 256;
/// Names of keys, upstreams and routes, in bytes.
const NAME_MAX: usize = 256;

pub fn keys(table: &Section<'_>, routes: &[&str], reader: &mut Reader<'_>) -> Vec<ClientKey> {
    let mut owners = BTreeMap::new();
    let mut keys = Vec::new();
    for (name, node) in table.members(reader, KEYS_MAX) {
        check_name(&name, &node, reader);
        let mut table = node.section(reader);
        let digests = table.node("sha256");
        if digests.is_none() && table.is_given() {
            let message = "missing; list the SHA-256 of each token: printf %s TOKEN | sha256sum";
            reader.report(&table.at.below("sha256"), message);
        }
        let sha256 = digests.map_or_else(Vec::new, |node| digest_list(&node, &name, &mut owners, reader));
        let mut globs = vec!["*".to_owned()];
        table.read(reader, "routes", &mut globs, |node, reader| glob_list(node, routes, reader));
        table.finish(reader);
        keys.push(ClientKey { name, sha256, routes: globs });
    }
    keys
}

/// Names go to logs, labels and headers.
pub fn check_name(name: &str, node: &Node<'_>, reader: &mut Reader<'_>) {
    if name.is_empty() || name.len() > NAME_MAX || name.trim() != name || !name.chars().all(is_printable) {
        let message =
            format!("an unusable name; write 1 to {NAME_MAX} printable characters, no space at the ends");
        reader.report(&node.at, message);
    }
}

/// The digests, each of them in one key only. Never shown: a token may have been put here by mistake.
fn digest_list(
    node: &Node<'_>,
    name: &str,
    owners: &mut BTreeMap<[u8; 32], String>,
    reader: &mut Reader<'_>,
) -> Vec<[u8; 32]> {
    let expected = "a list of SHA-256 digests";
    let nodes = node.clone().secret().items(reader, DIGESTS_MAX, expected).unwrap_or_default();
    if nodes.is_empty() && node.value().is_array() {
        reader.report(
            &node.at,
            "an empty list, so nobody could use this key; add a digest, or take the key out",
        );
    }
    let mut digests = Vec::new();
    for node in nodes {
        let Some(given) = text(&node, reader) else { continue };
        let Some(digest) = hex_digest(&given) else {
            let message = format!(
                "{} characters that are no SHA-256; write its 64 hexadecimal digits: printf %s TOKEN | sha256sum",
                given.chars().count()
            );
            reader.report(&node.at, message);
            continue;
        };
        if let Some(owner) = owners.insert(digest, name.to_owned()) {
            let message = format!("a digest that keys.{} has already; take one out", owner);
            reader.report(&node.at, message);
        }
        digests.push(digest);
    }
    digests
}

/// 64 hexadecimal digits, either case.
fn hex_digest(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut digest = [0; 32];
    for (byte, pair) in digest.iter_mut().zip(digits.chunks_exact(2)) {
        let high = char::from(pair[0]).to_digit(16)?;
        let low = char::from(pair[1]).to_digit(16)?;
        *byte = u8::try_from(high * 16 + low).ok()?;
    }
    Some(digest)
}

fn glob_list(node: &Node<'_>, routes: &[&str], reader: &mut Reader<'_>) -> Option<Vec<String>> {
    let glob = |node: &Node<'_>, reader: &mut Reader<'_>| {
        let glob = text(node, reader)?;
        if !routes.iter().any(|route| glob_matches(&glob, route)) {
            let message = format!("{} matches no route; {}", node.seen(), repair(&glob, routes));
            reader.report(&node.at, message);
        }
        Some(glob)
    };
    let globs = distinct(GLOBS_MAX, "a list of globs of route names", glob)(node, reader)?;
    if node.value().as_array().is_some_and(|array| array.is_empty()) {
        reader
            .report(&node.at, "an empty list, so this key would open nothing; write [\"*\"] for every route");
    }
    Some(globs)
}

/// Whether `glob`, in which `*` stands for any run of characters, is the whole of `name`.
pub fn glob_matches(glob: &str, name: &str) -> bool {
    let mut pieces = glob.split('*');
    let Some(rest) = pieces.next().and_then(|first| name.strip_prefix(first)) else {
        return false;
    };
    let Some(last) = pieces.next_back() else {
        return rest.is_empty();
    };
    // The leftmost place of each piece leaves the most room for those that follow.
    let mut rest = rest;
    for piece in pieces {
        match rest.find(piece) {
            Some(at) => rest = &rest[at + piece.len()..],
            None => return false,
        }
    }
    rest.ends_with(last)
}
