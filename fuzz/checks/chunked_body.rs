//! What must hold of any bytes that are read as a chunked body.

use baton::http1::{BodyError, CHUNK_END, Decoded, Decoder, Framing, LAST_CHUNK, chunk_head};
use bytes::Bytes;

/// Panics if one of the promises is broken.
pub fn check(bytes: &[u8]) {
    let whole = decode(bytes, bytes.len());
    for step in [1, 2, 7] {
        assert_eq!(decode(bytes, step), whole, "cut every {step} bytes");
    }
    let (data, outcome) = whole;
    if let Ok(Some(_)) = outcome {
        check_encoded(&data);
    }
}

/// The data, and how it went: how many bytes were left once the body had ended, None if it had not.
fn decode(bytes: &[u8], step: usize) -> (Vec<u8>, Result<Option<usize>, BodyError>) {
    let mut decoder = Decoder::new(Framing::Chunked);
    let mut data = Vec::new();
    let mut left = bytes.len();
    for piece in bytes.chunks(step.max(1)) {
        left -= piece.len();
        let mut input = Bytes::copy_from_slice(piece);
        let buffer = input.as_ptr_range();
        loop {
            match decoder.decode(&mut input) {
                Ok(Decoded::Data(part)) => {
                    let range = part.as_ptr_range();
                    assert!(!part.is_empty() && buffer.start <= range.start && range.end <= buffer.end);
                    data.extend_from_slice(&part);
                }
                Ok(Decoded::More) => break,
                Ok(Decoded::End) => {
                    assert!(decoder.is_ended() && decoder.end_of_input().is_ok());
                    assert_eq!(decoder.received(), data.len() as u64);
                    return (data, Ok(Some(left + input.len())));
                }
                Err(error) => {
                    assert_eq!(decoder.end_of_input(), Err(error));
                    return (data, Err(error));
                }
            }
        }
        assert!(input.is_empty(), "More leaves nothing behind");
    }
    let received = data.len() as u64;
    assert_eq!(decoder.end_of_input(), Err(BodyError::Truncated { received, announced: None }));
    (data, Ok(None))
}

/// What was read and written again, in chunks of any size, is read as the same.
fn check_encoded(data: &[u8]) {
    for size in [1, 16, data.len().max(1)] {
        let mut wire = Vec::new();
        for piece in data.chunks(size) {
            wire.extend_from_slice(&chunk_head(piece.len()));
            wire.extend_from_slice(piece);
            wire.extend_from_slice(CHUNK_END);
        }
        wire.extend_from_slice(LAST_CHUNK);
        assert_eq!(decode(&wire, wire.len()), (data.to_vec(), Ok(Some(0))));
    }
}
