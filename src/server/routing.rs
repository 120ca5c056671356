//! What a request asks for, by its head: its method, its path, and how far it lets fallbacks go.

use bytes::Bytes;

use crate::error::{Code, ProxyError};
use crate::exchange::FallbackLimit;
use crate::http1::{Method, RequestHead};

#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// `POST /v1/chat/completions`
    Chat,
    /// `POST` to any other path below `/v1/`: relayed by the `model` in its body.
    Relay,
    /// `GET /v1/models`
    ListModels,
    /// `GET /v1/models/{model}`
    ShowModel(Bytes),
}

/// Why there is no action, and which methods the path does allow.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub error: ProxyError,
    pub allow: Option<&'static str>,
}

/// The path below which everything stands.
const ROOT: &[u8] = b"/v1/";

pub fn action(head: &RequestHead) -> Result<Action, Refusal> {
    let path = &head.path;
    if !path.starts_with(ROOT) || is_odd(path) {
        let message = "There is nothing at this path; the API stands under /v1/, as OpenAI's does.";
        return Err(Refusal { error: ProxyError::new(Code::UnknownPath, message), allow: None });
    }
    let below = path.slice(ROOT.len()..);
    let model = below.strip_prefix(b"models/").filter(|model| !model.is_empty());
    match (&below[..], &head.method) {
        (b"models", Method::Get | Method::Head) => Ok(Action::ListModels),
        (b"models", _) => Err(wrong_method("GET, HEAD")),
        (_, Method::Get | Method::Head) if model.is_some() => {
            Ok(Action::ShowModel(below.slice(b"models/".len()..)))
        }
        (b"chat/completions", Method::Post) => Ok(Action::Chat),
        (b"", _) => {
            Err(Refusal { error: ProxyError::new(Code::UnknownPath, "Nothing follows /v1/."), allow: None })
        }
        (_, Method::Post) => Ok(Action::Relay),
        _ => Err(wrong_method("POST")),
    }
}

/// How far the client lets fallbacks go.
pub fn fallback_limit(head: &RequestHead) -> Result<FallbackLimit, ProxyError> {
    const FIELD: &str = "x-baton-fallback";
    let Some(value) = head.headers.get(FIELD) else { return Ok(FallbackLimit::default()) };
    FallbackLimit::parse(value).ok_or_else(|| {
        let message =
            "x-baton-fallback must be off, before-commit or continue; leave it out for the route's policy.";
        ProxyError::new(Code::InvalidValue, message).with_param(FIELD)
    })
}

fn wrong_method(allow: &'static str) -> Refusal {
    let message = format!("This path takes {allow} only.");
    Refusal { error: ProxyError::new(Code::WrongMethod, message), allow: Some(allow) }
}

/// Paths that two readers could resolve to different places.
fn is_odd(path: &[u8]) -> bool {
    let is_dots = |segment: &[u8]| matches!(segment, b"." | b"..");
    path.split(|byte| *byte == b'/').skip(1).any(|segment| segment.is_empty() || is_dots(segment))
        || path.contains(&b'\\')
        || path.windows(3).any(|window| {
            window.eq_ignore_ascii_case(b"%2e")
                || window.eq_ignore_ascii_case(b"%2f")
                || window.eq_ignore_ascii_case(b"%5c")
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http1::{HeadLimits, HeadReader};

    fn head(method: &str, path: &str) -> RequestHead {
        let text = format!("{method} {path} HTTP/1.1\r\nHost: a\r\n\r\n");
        HeadReader::new(HeadLimits::default()).request(&mut text.as_bytes().into()).unwrap().unwrap()
    }

    #[test]
    fn knows_every_path() {
        let cases = [
            ("POST", "/v1/chat/completions", Ok(Action::Chat)),
            ("POST", "/v1/chat/completions?x=1", Ok(Action::Chat)),
            ("POST", "/v1/embeddings", Ok(Action::Relay)),
            ("POST", "/v1/audio/speech", Ok(Action::Relay)),
            ("GET", "/v1/models", Ok(Action::ListModels)),
            ("HEAD", "/v1/models", Ok(Action::ListModels)),
            ("GET", "/v1/models/a", Ok(Action::ShowModel(Bytes::from_static(b"a")))),
            ("GET", "/v1/chat/completions", Err(Code::WrongMethod)),
            ("DELETE", "/v1/models", Err(Code::WrongMethod)),
            ("POST", "/v1/", Err(Code::UnknownPath)),
            ("POST", "/nope", Err(Code::UnknownPath)),
            ("POST", "/v1", Err(Code::UnknownPath)),
            ("POST", "/v1/../admin", Err(Code::UnknownPath)),
            ("POST", "/v1/a/%2E%2e/b", Err(Code::UnknownPath)),
            ("POST", "/v1//embeddings", Err(Code::UnknownPath)),
        ];
        for (method, path, want) in cases {
            let got = action(&head(method, path)).map_err(|refusal| refusal.error.code);
            assert_eq!(got, want, "{method} {path}");
        }
    }
}
