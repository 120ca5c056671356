//! Where the requests go, and their bytes.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use bytes::Bytes;

use super::Work;

/// The address in `http://IP:PORT`, with or without `/v1`.
///
/// # Errors
/// It is not of that form. Names other than `localhost` are not looked up: a load test should know whom it loads.
pub fn address(url: &str) -> crate::Result<SocketAddr> {
    let rest =
        url.strip_prefix("http://").ok_or_else(|| format!("{url:?}: the URL must begin with http://"))?;
    let rest = rest.trim_end_matches('/');
    let authority = rest.strip_suffix("/v1").unwrap_or(rest);
    let local = authority.strip_prefix("localhost:").and_then(|port| port.parse().ok());
    let local = local.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let address = local.or_else(|| authority.parse().ok());
    address.ok_or_else(|| {
        format!("{url:?}: the URL must be http://IP:PORT, for example http://127.0.0.1:8080").into()
    })
}

/// The request that is sent again and again.
///
/// # Errors
/// The key or a header cannot be sent.
pub fn request(work: &Work) -> crate::Result<Bytes> {
    let body = serde_json::json!({
        "model": work.model,
        "stream": work.streamed,
        "messages": [{ "role": "user", "content": "Count, please." }],
    })
    .to_string();
    let mut head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n",
        address(&work.url)?,
        body.len()
    );
    if let Some(key) = &work.key {
        if key.bytes().any(|byte| byte.is_ascii_control()) {
            return Err("the key has characters that no header can have".into());
        }
        head.push_str(&format!("authorization: Bearer {key}\r\n"));
    }
    head.push_str("\r\n");
    head.push_str(&body);
    Ok(head.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_an_address() {
        let cases = [
            ("http://127.0.0.1:8080", Some("127.0.0.1:8080")),
            ("http://127.0.0.1:8080/", Some("127.0.0.1:8080")),
            ("http://127.0.0.1:8080/v1", Some("127.0.0.1:8080")),
            ("http://localhost:1/v1/", Some("127.0.0.1:1")),
            ("http://[::1]:1", Some("[::1]:1")),
            ("https://127.0.0.1:8080", None),
            ("http://127.0.0.1", None),
            ("http://example.com:80", None),
            ("", None),
        ];
        for (url, want) in cases {
            let got = address(url).ok().map(|address| address.to_string());
            assert_eq!(got.as_deref(), want, "{url}");
        }
    }
}
