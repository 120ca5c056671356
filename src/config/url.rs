//! The base URL of an upstream. RFC 3986, narrowed to what a base URL needs: scheme, host, port and path.

use core::net::{Ipv4Addr, Ipv6Addr};

/// Where an upstream listens and what its paths begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BaseUrl {
    /// `https`.
    pub tls: bool,
    /// A name in lower case, or an IP address; an IPv6 address without its brackets.
    pub host: String,
    pub port: u16,
    /// The `Host` field's value: the port left out when it is the scheme's own, IPv6 in brackets.
    pub host_header: String,
    /// `/v1`: no slash at its end, so empty for the root.
    pub path: String,
}

impl BaseUrl {
    /// Reads `http://HOST[:PORT][/PATH]` or the same with `https`.
    ///
    /// # Errors
    /// What is wrong and the repair; never a part of the URL, which could hold a password.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err("no scheme; begin with https:// or http://");
        };
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "https" => true,
            "http" => false,
            _ => return Err("an unknown scheme; begin with https:// or http://"),
        };
        if rest.contains('#') {
            return Err("a fragment; take out the # and what follows");
        }
        if rest.contains('?') {
            return Err("a query; move it to the upstream's query = { name = \"value\" }");
        }
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') {
            return Err("user information before the host; move the credentials to api_key or headers");
        }
        let (host, port) = split_port(authority)?;
        let host_written = host.to_ascii_lowercase();
        let host = match host_written.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
            Some(inner) if inner.parse::<Ipv6Addr>().is_ok() => inner.to_owned(),
            Some(_) => return Err("no IPv6 address between the brackets"),
            None if is_host(&host_written) => host_written.clone(),
            None => return Err("no host name or IP address; write https://HOST/PATH"),
        };
        let default_port = if tls { 443 } else { 80 };
        let port = port.unwrap_or(default_port);
        let host_header = if port == default_port { host_written } else { format!("{host_written}:{port}") };
        Ok(Self { tls, host, port, host_header, path: base_path(path)? })
    }
}

/// Host and port of an authority without user information.
fn split_port(authority: &str) -> Result<(&str, Option<u16>), &'static str> {
    let host_end = if authority.starts_with('[') {
        authority.find(']').map(|at| at + 1).ok_or("an IPv6 address without its closing bracket")?
    } else {
        authority.find(':').unwrap_or(authority.len())
    };
    let (host, rest) = authority.split_at(host_end);
    if rest.is_empty() {
        return Ok((host, None));
    }
    let digits = rest.strip_prefix(':').filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let port = digits.and_then(|digits| digits.parse().ok()).filter(|port| *port != 0);
    port.map(|port| (host, Some(port))).ok_or("no valid port; write a number from 1 to 65535 after the colon")
}

/// RFC 1123 section 2.1 names, with the underscores that container networks use; all-number names only as IPv4.
pub fn is_host(host: &str) -> bool {
    /// RFC 1035 section 2.3.4.
    const NAME_MAX: usize = 253;
    const LABEL_MAX: usize = 63;
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    let label = |label: &str| {
        !label.is_empty()
            && label.len() <= LABEL_MAX
            && label.bytes().all(allowed)
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if host.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    host.len() <= NAME_MAX && host.split('.').all(label)
}

/// The path without slashes at its end, when every byte may stand in a request target as it is.
fn base_path(path: &str) -> Result<String, &'static str> {
    // RFC 3986 section 3.3: pchar and the slash; percent signs are looked at below.
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=:@/%".contains(&byte);
    if !path.bytes().all(allowed) {
        return Err("a character in the path that must be percent-encoded");
    }
    let escaped =
        |after: &str| after.len() >= 2 && after.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if !path.split('%').skip(1).all(escaped) {
        return Err("a percent sign without two hexadecimal digits after it; write %25 for the sign itself");
    }
    let path = path.trim_end_matches('/');
    if path.split('/').skip(1).any(|segment| matches!(segment, "" | "." | "..")) {
        return Err("an empty, \".\" or \"..\" segment in the path; write the path that is meant");
    }
    if path.ends_with("/chat/completions") {
        return Err("the path of one operation; end it before /chat/completions, like https://HOST/v1");
    }
    Ok(path.to_owned())
}
