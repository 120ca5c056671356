//! Who may watch: a constructor's argument, absent in the server.
//!
//! The demo prints what it is told here; tests look at addresses and make an actor panic.

use bytes::Bytes;

use crate::exchange::{Output, Record};

/// Sees what the actors do, on their threads. Does nothing by default.
pub trait Observer: Send + Sync {
    /// An upstream's read filled these bytes.
    fn read(&self, bytes: &Bytes) {
        let _ = bytes;
    }

    /// A `Stream` is about to carry this out.
    fn output(&self, output: &Output) {
        let _ = output;
    }

    /// Something was recorded of the exchange with this request id.
    fn record(&self, request_id: &str, record: &Record) {
        let _ = (request_id, record);
    }
}
