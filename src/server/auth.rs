//! Client keys: who may ask, and for which routes.

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::config::ClientKey;
use crate::error::{Code, ProxyError};
use crate::http1::Headers;

/// The key that the request's token belongs to. None: no keys are configured, so nobody needs one.
pub fn authenticate<'a>(
    headers: &Headers,
    keys: &'a [ClientKey],
) -> Result<Option<&'a ClientKey>, ProxyError> {
    if keys.is_empty() {
        return Ok(None);
    }
    let Some(token) = token(headers) else {
        let message = "No API key was given; send it as Authorization: Bearer KEY.";
        return Err(ProxyError::new(Code::MissingKey, message));
    };
    let digest: [u8; 32] = Sha256::digest(token).into();
    let mut found = None;
    // Every digest is compared, whole, so that the time taken tells nothing.
    for key in keys {
        for known in &key.sha256 {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(key);
            }
        }
    }
    match found {
        Some(key) => Ok(Some(key)),
        None => Err(ProxyError::new(Code::WrongKey, "The API key that was given is not known here.")),
    }
}

fn token(headers: &Headers) -> Option<&[u8]> {
    const SCHEME: &[u8] = b"bearer ";
    let bearer = headers.get("authorization").and_then(|value| {
        let (scheme, token) = value.split_at_checked(SCHEME.len())?;
        scheme.eq_ignore_ascii_case(SCHEME).then_some(token.trim_ascii())
    });
    bearer.or_else(|| {
        ["x-api-key", "api-key"].iter().find_map(|name| headers.get(name)).map(|value| &value[..])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str, tokens: &[&str]) -> ClientKey {
        let sha256 = tokens.iter().map(|token| Sha256::digest(token).into()).collect();
        ClientKey { name: name.to_owned(), sha256, routes: vec!["*".to_owned()] }
    }

    #[test]
    fn tells_whose_key_it_is() {
        let keys = [key("a", &["one", "two"]), key("b", &["three"])];
        let cases = [
            ("first", Some(("authorization", "Bearer one")), Ok("a")),
            ("any digest", Some(("Authorization", "bearer two")), Ok("a")),
            ("another key", Some(("x-api-key", "three")), Ok("b")),
            ("Azure's field", Some(("api-key", "three")), Ok("b")),
            ("none", None, Err(Code::MissingKey)),
            ("unknown", Some(("authorization", "Bearer four")), Err(Code::WrongKey)),
            ("another scheme", Some(("authorization", "Basic one")), Err(Code::MissingKey)),
            ("empty", Some(("authorization", "Bearer ")), Err(Code::WrongKey)),
        ];
        for (name, field, want) in cases {
            let mut headers = Headers::default();
            if let Some((field, value)) = field {
                headers.push(field, value);
            }
            let got = authenticate(&headers, &keys).map(|key| key.unwrap().name.as_str()).map_err(|e| e.code);
            assert_eq!(got, want, "{name}");
        }
        assert!(authenticate(&Headers::default(), &[]).unwrap().is_none());
    }
}
