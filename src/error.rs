//! What can go wrong for a client, in one table: status, type, code, and whose fault it is.
//!
//! A client reads these errors in OpenAI's format. No message names an upstream's host, key or URL.
//! Source of the shape: OpenAI API reference, "Error codes"; the official SDKs read `error.message`,
//! `error.type`, `error.param` and `error.code`.

use std::borrow::Cow;

use bytes::Bytes;

/// Whose fault an error is: how loudly the log speaks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Client,
    Upstream,
    Baton,
}

/// Every error that Baton itself answers with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Code {
    MalformedHttp,
    InvalidJson,
    DuplicateKey,
    MissingModel,
    InvalidValue,
    MissingKey,
    WrongKey,
    RouteNotAllowed,
    UnknownPath,
    UnknownModel,
    WrongMethod,
    RequestTimeout,
    BodyTooLarge,
    TargetTooLong,
    UnknownExpectation,
    HeadTooLarge,
    UnsupportedMethod,
    Internal,
    Overloaded,
    UpstreamAuth,
    UpstreamFailed,
    UpstreamProtocol,
    UpstreamUnavailable,
    UpstreamTimeout,
    UpstreamRateLimited,
    EmptyAnswer,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub status: u16,
    /// The `type` member.
    pub kind: &'static str,
    /// The `code` member.
    pub code: &'static str,
    pub fault: Fault,
}

impl Code {
    /// The one table.
    pub const fn row(self) -> Row {
        use Fault::{Baton, Client, Upstream};
        const REQUEST: &str = "invalid_request_error";
        const UPSTREAM: &str = "upstream_error";
        let (status, kind, code, fault) = match self {
            Self::MalformedHttp => (400, REQUEST, "malformed_http", Client),
            Self::InvalidJson => (400, REQUEST, "invalid_json", Client),
            Self::DuplicateKey => (400, REQUEST, "duplicate_key", Client),
            Self::MissingModel => (400, REQUEST, "missing_model", Client),
            Self::InvalidValue => (400, REQUEST, "invalid_value", Client),
            Self::MissingKey => (401, REQUEST, "missing_api_key", Client),
            Self::WrongKey => (401, REQUEST, "invalid_api_key", Client),
            Self::RouteNotAllowed => (403, REQUEST, "model_not_allowed", Client),
            Self::UnknownPath => (404, REQUEST, "unknown_path", Client),
            Self::UnknownModel => (404, REQUEST, "model_not_found", Client),
            Self::WrongMethod => (405, REQUEST, "method_not_allowed", Client),
            Self::RequestTimeout => (408, REQUEST, "request_timeout", Client),
            Self::BodyTooLarge => (413, REQUEST, "request_too_large", Client),
            Self::TargetTooLong => (414, REQUEST, "uri_too_long", Client),
            Self::UnknownExpectation => (417, REQUEST, "unknown_expectation", Client),
            Self::HeadTooLarge => (431, REQUEST, "request_head_too_large", Client),
            Self::UnsupportedMethod => (501, REQUEST, "unsupported_transfer_coding", Client),
            Self::Internal => (500, "server_error", "internal_error", Baton),
            Self::Overloaded => (503, "server_error", "overloaded", Baton),
            Self::UpstreamAuth => (502, UPSTREAM, "upstream_auth_error", Baton),
            Self::UpstreamFailed => (502, UPSTREAM, "upstream_failed", Upstream),
            Self::UpstreamProtocol => (502, UPSTREAM, "protocol_error", Upstream),
            Self::UpstreamUnavailable => (503, UPSTREAM, "upstream_unavailable", Upstream),
            Self::UpstreamTimeout => (504, UPSTREAM, "upstream_timeout", Upstream),
            Self::UpstreamRateLimited => (429, UPSTREAM, "rate_limited", Upstream),
            Self::EmptyAnswer => (502, UPSTREAM, "empty_answer", Upstream),
        };
        Row { status, kind, code, fault }
    }
}

/// An error as the client will read it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct ProxyError {
    pub code: Code,
    /// What was wrong, what was expected, how to mend it. Read by the client.
    pub message: Cow<'static, str>,
    /// The request's member that is at fault.
    pub param: Option<Cow<'static, str>>,
    /// Another status than the row's: 401, 402 and 403 of an upstream keep theirs.
    pub status: Option<u16>,
}

impl ProxyError {
    pub fn new(code: Code, message: impl Into<Cow<'static, str>>) -> Self {
        Self { code, message: message.into(), param: None, status: None }
    }

    pub fn with_param(mut self, param: impl Into<Cow<'static, str>>) -> Self {
        self.param = Some(param.into());
        self
    }

    pub fn with_status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    pub fn status(&self) -> u16 {
        self.status.unwrap_or(self.code.row().status)
    }

    /// The body in OpenAI's format: `{"error":{"message":..,"type":..,"param":..,"code":..}}`.
    pub fn body(&self) -> Bytes {
        let row = self.code.row();
        Bytes::from(error_object(&self.message, row.kind, self.param.as_deref(), row.code))
    }
}

/// OpenAI's error object around the given texts, on one line.
pub fn error_object(message: &str, kind: &str, param: Option<&str>, code: &str) -> String {
    let mut body = String::with_capacity(96 + message.len());
    body.push_str("{\"error\":{\"message\":");
    push_json_string(&mut body, message);
    body.push_str(",\"type\":");
    push_json_string(&mut body, kind);
    body.push_str(",\"param\":");
    match param {
        Some(param) => push_json_string(&mut body, param),
        None => body.push_str("null"),
    }
    body.push_str(",\"code\":");
    push_json_string(&mut body, code);
    body.push_str("}}");
    body
}

/// Appends `text` as a JSON string with its quotes (RFC 8259, section 7).
pub fn push_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(char::from(HEX[(c as usize) >> 4]));
                out.push(char::from(HEX[(c as usize) & 15]));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_body_is_openais_error_object_whatever_the_message_holds() {
        let error = ProxyError::new(Code::UnknownModel, "no \"route\"\n\u{1}\\").with_param("model");
        let body: serde_json::Value = serde_json::from_slice(&error.body()).unwrap();
        assert_eq!(body["error"]["message"], "no \"route\"\n\u{1}\\");
        assert_eq!(body["error"]["type"], "invalid_request_error");
        assert_eq!(body["error"]["param"], "model");
        assert_eq!(body["error"]["code"], "model_not_found");
        assert_eq!(error.status(), 404);
    }

    #[test]
    fn an_upstreams_status_can_stand_in_for_the_rows() {
        let error =
            ProxyError::new(Code::UpstreamAuth, "the upstream refused the proxy's own key").with_status(401);
        assert_eq!(error.status(), 401);
    }
}
