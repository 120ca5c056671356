use super::*;
use crate::text;

/// A plain answer of one event, as a body.
fn body() -> String {
    let mut event = vec![0; 40];
    text::write(&mut event, 0, 1, 1000);
    format!("{{\"choices\":[{{\"message\":{{\"content\":\"{}\"}}}}]}}", String::from_utf8(event).unwrap())
}

/// What comes of a response that is read in pieces of `piece` bytes before the connection ends: whether the connection
/// may be used again, or what is wrong.
fn judge(response: &str, piece: usize) -> Result<bool, String> {
    let (mut reading, mut recorder) = (Response::new(false), Recorder::new().unwrap());
    let mut times = Times::default();
    for piece in response.as_bytes().chunks(piece) {
        let fed = reading.feed(&Bytes::copy_from_slice(piece), &mut recorder, &mut times);
        if let Fed::End { keep_alive } = fed.map_err(String::from)? {
            return Ok(keep_alive);
        }
    }
    reading.close(&mut recorder, &mut times).map(|()| false).map_err(String::from)
}

#[test]
fn every_framing_is_read_wherever_it_is_cut() {
    let body = body();
    let len = body.len();
    let (first, second) = body.split_at(20);
    let chunked = format!(
        "transfer-encoding: chunked\r\n\r\n14\r\n{first}\r\n{:X};a=b\r\n{second}\r\n0\r\n",
        second.len()
    );
    let head = "HTTP/1.1 200 OK\r\n";
    let cases = [
        ("a length", format!("{head}content-length: {len}\r\n\r\n{body}"), Ok(true)),
        (
            "to be closed",
            format!("{head}connection: close\r\ncontent-length: {len}\r\n\r\n{body}"),
            Ok(false),
        ),
        ("HTTP/1.0", format!("HTTP/1.0 200 OK\r\ncontent-length: {len}\r\n\r\n{body}"), Ok(false)),
        ("chunks", format!("{head}{chunked}\r\n"), Ok(true)),
        ("chunks and a trailer", format!("{head}{chunked}a: b\r\n\r\n"), Ok(true)),
        ("until it is closed", format!("{head}\r\n{body}"), Ok(false)),
        (
            "after a 103",
            format!("HTTP/1.1 103 Early Hints\r\n\r\n{head}content-length: {len}\r\n\r\n{body}"),
            Ok(true),
        ),
        ("no chunk's end", format!("{head}{chunked}"), Err("cut")),
        ("a length too long", format!("{head}content-length: {}\r\n\r\n{body}", len + 1), Err("cut")),
        ("a broken size", format!("{head}transfer-encoding: chunked\r\n\r\nxyz\r\n"), Err("a broken chunk")),
        (
            "a chunk too long",
            format!("{head}transfer-encoding: chunked\r\n\r\n1\r\n{{}}\r\n"),
            Err("a broken chunk"),
        ),
        ("a status", "HTTP/1.1 503 No\r\ncontent-length: 2\r\n\r\n{}".to_owned(), Err("status 503")),
        ("no HTTP", "SSH-2.0-x\r\n\r\n".to_owned(), Err("no HTTP")),
        ("nothing", String::new(), Err("closed without an answer")),
    ];
    for (name, response, want) in cases {
        for piece in [1, 3, 50, response.len().max(1)] {
            assert_eq!(judge(&response, piece), want.map_err(str::to_owned), "{name}, in pieces of {piece}");
        }
    }
}

#[test]
fn what_follows_the_answer_is_an_error() {
    let body = body();
    let response = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}HTTP", body.len());
    assert_eq!(judge(&response, response.len()), Err("bytes after the answer".to_owned()));
}
