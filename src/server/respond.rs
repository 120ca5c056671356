//! Responses that Baton writes itself: errors, the list of models, `100 Continue`.

use bytes::Bytes;

use super::routing::Refusal;
use crate::config::{ClientKey, Config};
use crate::error::{Code, Fault, ProxyError, push_json_string};
use crate::http1::{Version, encode_response_head};
use crate::net::Gather;

/// Answers `Expect: 100-continue` (RFC 9110, section 10.1.1).
pub const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A whole response of Baton's own.
pub struct Response {
    pub status: u16,
    pub body: Bytes,
    pub allow: Option<&'static str>,
    /// The error that it tells.
    pub error: Option<ProxyError>,
}

impl From<ProxyError> for Response {
    fn from(error: ProxyError) -> Self {
        Self { status: error.status(), body: error.body(), allow: None, error: Some(error) }
    }
}

impl From<Refusal> for Response {
    fn from(refusal: Refusal) -> Self {
        Self { allow: refusal.allow, ..Self::from(refusal.error) }
    }
}

impl Response {
    /// One line about an error that Baton answers with itself: nobody else will tell the operator.
    pub fn log(&self, request_id: &str) {
        let Some(error) = &self.error else { return };
        let (status, code, reason) = (error.status(), error.code.row().code, &*error.message);
        match error.code.row().fault {
            Fault::Client => tracing::info!(request_id, status, code, reason, "request refused"),
            Fault::Upstream | Fault::Baton => {
                tracing::warn!(request_id, status, code, reason, "request failed")
            }
        }
    }

    /// Appends the response to `out`. `with_body`: false in answer to HEAD.
    pub fn encode(
        self,
        version: Version,
        request_id: &str,
        keep_alive: bool,
        with_body: bool,
        out: &mut Gather,
    ) {
        let length = self.body.len().to_string();
        let connection = if keep_alive { "keep-alive" } else { "close" };
        let fields = [
            ("content-type", "application/json"),
            ("content-length", &length),
            ("connection", connection),
            ("x-request-id", request_id),
        ];
        let allow = self.allow.map(|allow| ("allow", allow));
        let retry = (self.status == 503).then_some(("retry-after", "1"));
        let fields = fields.into_iter().chain(allow).chain(retry);
        let fields = fields.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
        out.push(encode_response_head(version, self.status, fields));
        if with_body {
            out.push(self.body);
        }
    }
}

/// `GET /v1/models`: the routes that the key may use, as OpenAI lists models.
pub fn models(config: &Config, key: Option<&ClientKey>) -> Response {
    let mut body = String::from("{\"object\":\"list\",\"data\":[");
    let allowed = config.routes.iter().filter(|route| key.is_none_or(|key| key.allows(&route.name)));
    for (at, route) in allowed.enumerate() {
        if at > 0 {
            body.push(',');
        }
        push_model(&mut body, &route.name);
    }
    body.push_str("]}");
    Response { status: 200, body: Bytes::from(body), allow: None, error: None }
}

/// `GET /v1/models/{model}`.
pub fn model(config: &Config, key: Option<&ClientKey>, name: &[u8]) -> Response {
    let name = String::from_utf8_lossy(name);
    match config.route(&name) {
        Some((_, route)) if key.is_none_or(|key| key.allows(&route.name)) => {
            let mut body = String::new();
            push_model(&mut body, &route.name);
            Response { status: 200, body: Bytes::from(body), allow: None, error: None }
        }
        _ => unknown_model(&name).into(),
    }
}

pub fn unknown_model(name: &str) -> ProxyError {
    let shown: String = name.chars().take(100).collect();
    let message = format!("There is no model {shown:?} here; GET /v1/models lists those there are.");
    ProxyError::new(Code::UnknownModel, message).with_param("model")
}

fn push_model(body: &mut String, name: &str) {
    body.push_str("{\"id\":");
    push_json_string(body, name);
    body.push_str(",\"object\":\"model\",\"created\":0,\"owned_by\":\"baton\"}");
}
