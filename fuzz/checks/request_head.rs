//! What must hold of any bytes that are read as a request head.

use std::ops::Range;

use baton::http1::{
    Framing, HeadError, HeadLimits, HeadReader, RequestHead, Version, encode_request_head, forward_request,
};
use bytes::{Bytes, BytesMut};

/// Small, so that short inputs reach the limits.
const LIMITS: HeadLimits = HeadLimits { bytes: 512, fields: 12 };

/// Panics if one of the promises is broken.
pub fn check(bytes: &[u8]) {
    let whole = read(bytes, bytes.len());
    for step in [1, 2, 7] {
        assert_eq!(read(bytes, step), whole, "cut every {step} bytes");
    }
    let (Ok(Some(head)), _) = whole else { return };
    assert!(head.path.starts_with(b"/"));
    assert_ne!(head.framing, Framing::UntilClose);
    assert!(head.headers.len() <= LIMITS.fields);
    assert!(head.headers.all("host").count() <= 1);
    let lengths = head.headers.all("content-length").count();
    assert!(lengths == 0 || head.headers.get("transfer-encoding").is_none(), "two ways to read the body");
    for (name, _) in forward_request(&head.headers) {
        for dropped in ["connection", "transfer-encoding", "content-length", "authorization", "host"] {
            assert!(!name.eq_ignore_ascii_case(dropped.as_bytes()), "{dropped} was passed on");
        }
    }
    check_shared(bytes);
    if head.version == Version::Http11 {
        check_encoded(&head);
    }
}

/// The outcome and what is left in the buffer, the input coming in pieces of `step` bytes.
fn read(bytes: &[u8], step: usize) -> (Result<Option<RequestHead>, HeadError>, Vec<u8>) {
    let (mut reader, mut buf) = (HeadReader::new(LIMITS), BytesMut::new());
    let mut outcome = reader.request(&mut buf);
    assert_eq!(outcome, Ok(None), "nothing is never a head");
    for piece in bytes.chunks(step.max(1)) {
        buf.extend_from_slice(piece);
        if outcome == Ok(None) {
            outcome = reader.request(&mut buf);
        }
    }
    (outcome, buf.to_vec())
}

/// Names and values are parts of the buffer that was read, in order.
fn check_shared(bytes: &[u8]) {
    let mut buf = BytesMut::from(bytes);
    let mut behind = buf.as_ptr_range();
    let Ok(Some(head)) = HeadReader::new(LIMITS).request(&mut buf) else { return };
    for part in head.headers.iter().flat_map(|(name, value)| [name, value]).filter(|part| !part.is_empty()) {
        let Range { start, end } = part.as_ptr_range();
        assert!(behind.start <= start && end <= behind.end, "a copy, or out of order");
        behind.start = end;
    }
}

/// What was read and written again is read as the same.
fn check_encoded(head: &RequestHead) {
    let mut target = head.path.to_vec();
    if let Some(query) = &head.query {
        target.push(b'?');
        target.extend_from_slice(query);
    }
    let fields = head.headers.iter().map(|(name, value): &(Bytes, Bytes)| (&name[..], &value[..]));
    let mut buf = BytesMut::from(&encode_request_head(&head.method, &target, fields)[..]);
    // White space may have grown by one space a field.
    let limits = HeadLimits { bytes: 2 * LIMITS.bytes, ..LIMITS };
    assert_eq!(HeadReader::new(limits).request(&mut buf).as_ref(), Ok(&Some(head.clone())));
    assert!(buf.is_empty());
}
