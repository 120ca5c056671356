//! Base64, standard alphabet with padding (RFC 4648 section 4): exact bytes inside the cases' JSON.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub fn decode(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0_u32, 0_u32);
    for b in text.bytes().filter(|b| *b != b'=') {
        let digit = ALPHABET.iter().position(|a| *a == b).expect("base64 digit") as u32;
        bits = bits << 6 | digit;
        held += 6;
        if held >= 8 {
            held -= 8;
            out.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    out
}
