//! What must hold of any bytes that are read as a response head.

use baton::http1::{
    Framing, HeadError, HeadLimits, HeadReader, Method, ResponseHead, Version, encode_response_head,
    forward_response,
};
use bytes::BytesMut;

/// Small, so that short inputs reach the limits.
const LIMITS: HeadLimits = HeadLimits { bytes: 512, fields: 12 };

/// Panics if one of the promises is broken.
pub fn check(bytes: &[u8]) {
    for to in [Method::Post, Method::Head] {
        let whole = read(bytes, bytes.len(), &to);
        for step in [1, 2, 7] {
            assert_eq!(read(bytes, step, &to), whole, "cut every {step} bytes");
        }
        let Ok(Some(head)) = whole.0 else { continue };
        check_accepted(&head, &to);
    }
}

fn check_accepted(head: &ResponseHead, to: &Method) {
    assert!((100..=999).contains(&head.status));
    assert!(head.headers.len() <= LIMITS.fields);
    let has_no_body = *to == Method::Head || matches!(head.status, 100..=199 | 204 | 304);
    assert_eq!(head.framing == Framing::None, has_no_body);
    assert!(!(head.keep_alive && head.framing == Framing::UntilClose), "an end that is none");
    for (name, _) in forward_response(&head.headers) {
        for dropped in ["connection", "transfer-encoding", "content-length", "set-cookie", "server"] {
            assert!(!name.eq_ignore_ascii_case(dropped.as_bytes()), "{dropped} was passed on");
        }
    }
    if head.version == Version::Http11 {
        check_encoded(head, to);
    }
}

/// The outcome and what is left in the buffer, the input coming in pieces of `step` bytes.
fn read(bytes: &[u8], step: usize, to: &Method) -> (Result<Option<ResponseHead>, HeadError>, Vec<u8>) {
    let (mut reader, mut buf) = (HeadReader::new(LIMITS), BytesMut::new());
    let mut outcome = reader.response(&mut buf, to);
    assert_eq!(outcome, Ok(None), "nothing is never a head");
    for piece in bytes.chunks(step.max(1)) {
        buf.extend_from_slice(piece);
        if outcome == Ok(None) {
            outcome = reader.response(&mut buf, to);
        }
    }
    (outcome, buf.to_vec())
}

/// What was read and written again is read as the same.
fn check_encoded(head: &ResponseHead, to: &Method) {
    let fields = head.headers.iter().map(|(name, value)| (&name[..], &value[..]));
    let mut buf = BytesMut::from(&encode_response_head(head.version, head.status, fields)[..]);
    // Line ends, white space and the phrase may have grown.
    let limits = HeadLimits { bytes: 2 * LIMITS.bytes, ..LIMITS };
    assert_eq!(HeadReader::new(limits).response(&mut buf, to).as_ref(), Ok(&Some(head.clone())));
    assert!(buf.is_empty());
}
