//! Baton: one client stream that outlives its upstream.

pub mod error;
pub mod time;
