use super::*;

fn headers(fields: &[(&'static str, &'static str)]) -> Headers {
    let mut headers = Headers::default();
    for &(name, value) in fields {
        headers.push(name, value);
    }
    headers
}

fn names<'a>(fields: impl Iterator<Item = &'a (Bytes, Bytes)>) -> Vec<&'a str> {
    fields.map(|(name, _)| std::str::from_utf8(name).unwrap()).collect()
}

#[test]
fn fields_are_found_without_regard_to_case() {
    let headers = headers(&[("Accept", "a"), ("X-Two", "1"), ("x-two", "2")]);
    assert_eq!(headers.get("ACCEPT").unwrap(), "a");
    assert_eq!(headers.get(b"x-TWO").unwrap(), "1");
    assert_eq!(headers.get("x-tw"), None);
    assert_eq!(headers.all("X-TWO").collect::<Vec<_>>(), ["1", "2"]);
    assert_eq!((headers.len(), headers.is_empty(), headers.iter().count()), (3, false, 3));
}

#[test]
fn lists_run_over_all_lines() {
    let headers = headers(&[("A", " x ,,\ty"), ("b", "no"), ("a", "z")]);
    assert_eq!(headers.list("a").collect::<Vec<_>>(), [&b"x"[..], b"", b"y", b"z"]);
}

#[test]
fn debug_shows_no_values() {
    let text = format!("{:?}", headers(&[("Authorization", "Bearer sk-secret")]));
    assert!(
        text.contains("Authorization") && text.contains("16 bytes") && !text.contains("secret"),
        "{text}"
    );
}

#[test]
fn hop_by_hop_fields_end_here_in_both_directions() {
    let dropped = [
        "Connection",
        "Keep-Alive",
        "Proxy-Connection",
        "TE",
        "Trailer",
        "Transfer-Encoding",
        "Upgrade",
        "Proxy-Authorization",
        "proxy-authenticate",
        "HTTP2-Settings",
        "Content-Length",
        "X-Baton-Anything",
        "x-baton-",
    ];
    for name in dropped {
        let headers = headers(&[("A", "1"), (name, "x"), ("Content-Encoding", "gzip")]);
        assert_eq!(names(forward_request(&headers)), ["A", "Content-Encoding"], "{name}");
        assert_eq!(names(forward_response(&headers)), ["A", "Content-Encoding"], "{name}");
    }
}

#[test]
fn what_connection_names_ends_here() {
    let headers = headers(&[
        ("X-Hop", "1"),
        ("Connection", "close, X-HOP"),
        ("X-Stays", "2"),
        ("connection", ",x-other"),
        ("X-Other", "3"),
    ]);
    assert_eq!(names(forward_request(&headers)), ["X-Stays"]);
    assert_eq!(names(forward_response(&headers)), ["X-Stays"]);
}

// [H1]
#[test]
fn a_clients_secrets_and_framing_do_not_reach_the_upstream() {
    let dropped = [
        "Host",
        "Expect",
        "Accept-Encoding",
        "Authorization",
        "Cookie",
        "X-Api-Key",
        "api-key",
        "OpenAI-Organization",
        "OpenAI-Project",
    ];
    for name in dropped {
        assert_eq!(names(forward_request(&headers(&[(name, "x")]))), [""; 0], "{name}");
    }
    for name in
        ["Accept", "Content-Type", "User-Agent", "OpenAI-Beta", "X-Request-Id", "X-Baton", "Via", "Date"]
    {
        assert_eq!(names(forward_request(&headers(&[(name, "x")]))), [name], "{name}");
    }
}

// [H5]
#[test]
fn what_is_about_the_upstreams_host_does_not_reach_the_client() {
    let dropped = ["Set-Cookie", "Server", "Via", "Alt-Svc", "Strict-Transport-Security", "X-Request-Id"];
    for name in dropped {
        assert_eq!(names(forward_response(&headers(&[(name, "x")]))), [""; 0], "{name}");
    }
    for name in
        ["Content-Type", "Content-Encoding", "Date", "Retry-After", "x-ratelimit-remaining-tokens", "ETag"]
    {
        assert_eq!(names(forward_response(&headers(&[(name, "x")]))), [name], "{name}");
    }
}
