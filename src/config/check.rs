//! From the text to the whole: the TOML document, its tables in turn, and what only holds between them.

use sha2::{Digest, Sha256};
use toml::de::DeTable;

use super::reader::{Reader, Section, Spot};
use super::{Config, ConfigError, Sources, TEXT_BYTES_MAX, keys, routes, server, upstreams};

/// See [`super::parse`].
pub fn parse(text: &str, sources: &Sources<'_>) -> Result<Config, Vec<ConfigError>> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the file has {} bytes; at most {TEXT_BYTES_MAX} are read", text.len());
        return Err(vec![ConfigError { line: None, key: String::new(), message }]);
    }
    let document = DeTable::parse(text).map_err(|error| vec![syntax_error(text, &error)])?;
    let mut reader = Reader::new(text, sources);
    let mut config = config(document.get_ref(), &mut reader);
    config.revision = revision(text);
    let errors = reader.into_errors();
    if errors.is_empty() { Ok(config) } else { Err(errors) }
}

/// The parser's own words, without its excerpt of the line: that could hold a secret.
fn syntax_error(text: &str, error: &toml::de::Error) -> ConfigError {
    let offset = error.span().map_or(text.len(), |span| span.start).min(text.len());
    let before = &text.as_bytes()[..offset];
    let line_start = before.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
    // Characters, not bytes: continuation bytes of UTF-8 begin with the bits 10.
    let column = 1 + before[line_start..].iter().filter(|byte| **byte & 0xC0 != 0x80).count();
    let words = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
    ConfigError {
        line: Some(line),
        key: String::new(),
        message: format!("column {column}: not TOML: {words}"),
    }
}

fn config(document: &DeTable<'_>, reader: &mut Reader<'_>) -> Config {
    let mut root = Section::root(document);
    let server_table = root.section(reader, "server");
    let (server, listen_at) = server::server(server_table, reader);
    let limits = server::limits(root.section(reader, "limits"), reader);
    let admin = server::admin(root.section(reader, "admin"), reader);
    let log = server::log(root.section(reader, "log"), reader);
    let upstreams = upstreams::upstreams(&root.section(reader, "upstreams"), reader);

    let upstream_names: Vec<&str> = upstreams.iter().map(|upstream| upstream.name.as_str()).collect();
    let defaults = root.section(reader, "defaults");
    let routes_table = root.section(reader, "routes");
    let routes = routes::routes(defaults, &routes_table, &upstream_names, reader);
    let route_names: Vec<&str> = routes.iter().map(|route| route.name.as_str()).collect();
    let keys = keys::keys(&root.section(reader, "keys"), &route_names, reader);
    root.finish(reader);

    if upstreams.is_empty() {
        reader.report(&Spot::missing("upstreams"), "there is none; add [upstreams.NAME] with a base_url");
    }
    if routes.is_empty() {
        reader.report(&Spot::missing("routes"), "there is none; add [routes.MODEL] with its targets");
    }
    let beyond = server.listen.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let Some(address) = beyond.filter(|_| keys.is_empty() && !server.open) {
        let message = format!(
            "{address} is not loopback, so whoever reaches it could spend the upstreams' keys; \
             add [keys.NAME], or set open = true in [server], or listen on 127.0.0.1"
        );
        reader.report(&listen_at, message);
    }
    Config { revision: String::new(), server, limits, admin, log, keys, upstreams, routes }
}

/// Tells one text from another, for whoever asks a running process what it was started with.
fn revision(text: &str) -> String {
    Sha256::digest(text).iter().take(6).map(|byte| format!("{byte:02x}")).collect()
}
