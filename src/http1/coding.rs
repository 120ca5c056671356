//! Content codings (RFC 9110, section 8.4.1) of bodies that came coded although `identity` was asked for.

use std::io::{self, Write};

use brotli_decompressor::DecompressorWriter;
use bytes::Bytes;
use flate2::write::{DeflateDecoder, MultiGzDecoder, ZlibDecoder};

/// The most that one read may expand to. A read has at most 64 KiB, text shrinks to a tenth at best.
pub const EXPANDED_MAX: usize = 4 * 1024 * 1024;
/// Input is fed in pieces of this size, so that what a bomb expands to between two looks is bounded.
const PIECE: usize = 1024;
const BROTLI_BUFFER: usize = 4096;

#[derive(Debug, thiserror::Error)]
pub enum CodingError {
    #[error("the body is coded as {0:?}, which was not asked for and is not known")]
    Unknown(String),
    #[error("the coded body is broken: {0}")]
    Broken(io::Error),
    #[error("the coded body ends in the middle of its coding")]
    Truncated,
    #[error("the coded body expands to more than {EXPANDED_MAX} bytes in one read")]
    Bomb,
}

/// Undoes one coding.
pub struct CodingDecoder {
    kind: Kind,
    has_begun: bool,
}

enum Kind {
    Gzip(Box<MultiGzDecoder<Vec<u8>>>),
    /// Told apart by the first byte: with or without zlib's wrapper, since servers disagree.
    Deflate(Vec<u8>),
    Zlib(Box<ZlibDecoder<Vec<u8>>>),
    RawDeflate(Box<DeflateDecoder<Vec<u8>>>),
    Brotli(Box<DecompressorWriter<Vec<u8>>>),
}

impl CodingDecoder {
    /// A decoder for the value of a Content-Encoding field; None for `identity`.
    pub fn new(coding: &[u8]) -> Result<Option<Self>, CodingError> {
        let name = String::from_utf8_lossy(coding).trim().to_ascii_lowercase();
        let kind = match name.as_str() {
            "" | "identity" => return Ok(None),
            "gzip" | "x-gzip" => Kind::Gzip(Box::new(MultiGzDecoder::new(Vec::new()))),
            "deflate" => Kind::Deflate(Vec::new()),
            "br" => Kind::Brotli(Box::new(DecompressorWriter::new(Vec::new(), BROTLI_BUFFER))),
            _ => return Err(CodingError::Unknown(name.chars().take(40).collect())),
        };
        Ok(Some(Self { kind, has_begun: false }))
    }

    /// What `input` decodes to so far; may be empty.
    pub fn decode(&mut self, input: &[u8]) -> Result<Bytes, CodingError> {
        let mut out = Vec::new();
        self.has_begun |= !input.is_empty();
        for piece in input.chunks(PIECE) {
            self.write(piece).map_err(CodingError::Broken)?;
            out.append(self.decoded());
            if out.len() > EXPANDED_MAX {
                return Err(CodingError::Bomb);
            }
        }
        Ok(Bytes::from(out))
    }

    /// The body ended: was that the coding's end too? A body without any byte was never coded.
    pub fn finish(&mut self) -> Result<(), CodingError> {
        let is_whole = match &mut self.kind {
            Kind::Deflate(_) => true,
            _ if !self.has_begun => true,
            Kind::Gzip(decoder) => decoder.try_finish().is_ok(),
            Kind::Zlib(decoder) => decoder.try_finish().is_ok(),
            Kind::RawDeflate(decoder) => decoder.try_finish().is_ok(),
            Kind::Brotli(decoder) => decoder.close().is_ok(),
        };
        if is_whole { Ok(()) } else { Err(CodingError::Truncated) }
    }

    fn write(&mut self, piece: &[u8]) -> io::Result<()> {
        if let Kind::Deflate(_) = self.kind {
            // zlib's first byte: method 8, window at most 7 (RFC 1950, section 2.2).
            let is_zlib = piece.first().is_some_and(|byte| byte & 0x0f == 8 && byte >> 4 <= 7);
            self.kind = if is_zlib {
                Kind::Zlib(Box::new(ZlibDecoder::new(Vec::new())))
            } else {
                Kind::RawDeflate(Box::new(DeflateDecoder::new(Vec::new())))
            };
        }
        let writer: &mut dyn Write = match &mut self.kind {
            Kind::Gzip(decoder) => decoder,
            Kind::Deflate(none) => none,
            Kind::Zlib(decoder) => decoder,
            Kind::RawDeflate(decoder) => decoder,
            Kind::Brotli(decoder) => decoder,
        };
        writer.write_all(piece)?;
        writer.flush()
    }

    fn decoded(&mut self) -> &mut Vec<u8> {
        match &mut self.kind {
            Kind::Gzip(decoder) => decoder.get_mut(),
            Kind::Deflate(none) => none,
            Kind::Zlib(decoder) => decoder.get_mut(),
            Kind::RawDeflate(decoder) => decoder.get_mut(),
            Kind::Brotli(decoder) => decoder.get_mut(),
        }
    }
}

impl std::fmt::Debug for CodingDecoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("CodingDecoder")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

    const TEXT: &[u8] = b"data: {\"choices\":[]}\n\ndata: {\"choices\":[]}\n\n";

    fn coded(coding: &str, text: &[u8]) -> Vec<u8> {
        match coding {
            "gzip" => {
                let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            "zlib" => {
                let mut encoder = ZlibEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
            _ => {
                let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
                encoder.write_all(text).unwrap();
                encoder.finish().unwrap()
            }
        }
    }

    #[test]
    fn decodes_bytewise_what_any_server_calls_gzip_or_deflate() {
        for (name, coding) in [("gzip", "gzip"), ("deflate", "zlib"), ("deflate", "raw")] {
            let mut decoder = CodingDecoder::new(name.as_bytes()).unwrap().unwrap();
            let mut out = Vec::new();
            for byte in coded(coding, TEXT) {
                out.extend_from_slice(&decoder.decode(&[byte]).unwrap());
            }
            assert_eq!(out, TEXT, "{coding}");
        }
    }

    #[test]
    fn a_body_cut_within_its_coding_is_told_from_a_whole_one() {
        for (name, coding) in [("gzip", "gzip"), ("deflate", "zlib"), ("deflate", "raw")] {
            let whole = coded(coding, TEXT);
            for len in 0..=whole.len() {
                let mut decoder = CodingDecoder::new(name.as_bytes()).unwrap().unwrap();
                decoder.decode(&whole[..len]).unwrap();
                let is_whole = len == 0 || len == whole.len();
                assert_eq!(decoder.finish().is_ok(), is_whole, "{coding}: {len} of {}", whole.len());
            }
        }
    }

    #[test]
    fn an_event_shows_as_soon_as_its_flush_arrived() {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        let mut decoder = CodingDecoder::new(b"GZIP").unwrap().unwrap();
        for _ in 0..3 {
            encoder.write_all(TEXT).unwrap();
            encoder.flush().unwrap();
            let sent = std::mem::take(encoder.get_mut());
            assert_eq!(decoder.decode(&sent).unwrap(), TEXT);
        }
    }

    #[test]
    fn bombs_garbage_and_unknown_codings_are_errors() {
        let bomb = coded("gzip", &vec![0; EXPANDED_MAX + 1]);
        let mut decoder = CodingDecoder::new(b"gzip").unwrap().unwrap();
        assert!(matches!(decoder.decode(&bomb), Err(CodingError::Bomb)));
        let mut decoder = CodingDecoder::new(b"gzip").unwrap().unwrap();
        assert!(matches!(decoder.decode(b"data: {}\n\n no gzip at all"), Err(CodingError::Broken(_))));
        assert!(matches!(CodingDecoder::new(b"zstd"), Err(CodingError::Unknown(_))));
        assert!(CodingDecoder::new(b"identity").unwrap().is_none());
    }
}
