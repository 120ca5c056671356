//! Errors that upstreams report: in-band shapes and error bodies -> status, code, type.

/// An error that arrived inside a stream, or in the body of an error response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InBandError {
    /// The HTTP status it stands for: a numeric code, else from known types and codes, else 502.
    pub status: u16,
    /// What the upstream called it: its `code`, else its `type`. Bounded, ASCII graphic characters only.
    pub code: Option<String>,
    /// The upstream's own words. Bounded. Shown to a client only with `expose_upstream_errors`.
    pub message: Option<String>,
}
