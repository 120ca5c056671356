//! Bytes <-> HTTP/1.1 values. No socket, no clock.
