//! The demo's client: a blocking one of the standard library, which reads events as any SDK does. Of Baton it uses
//! the HTTP layer only, so that what it finds is not what Baton's own reading of streams makes of it.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use bytes::BytesMut;
use simd_json::prelude::*;

use crate::http1::{Decoded, Decoder, HeadLimits, HeadReader, Method};

/// How long nothing may come. The demo's own time limits are a third of it at most.
const PATIENCE: Duration = Duration::from_secs(10);
/// The demo's answer has about 15 KiB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// What came over TCP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delivered {
    pub status: u16,
    /// The deltas' text, joined.
    pub text: String,
    /// How often `[DONE]` came.
    pub dones: usize,
    /// Frames that are neither a chunk nor `[DONE]`.
    pub strange: Vec<String>,
    /// The body came to its proper end.
    pub is_whole: bool,
}

/// Sends one streamed chat request. `on_text` is told each delta's text and before how many bytes of the body its
/// frame began.
///
/// # Errors
/// The connection fails before there is a response head, or the response is not HTTP. What comes later is no error
/// but an answer that is not whole.
pub fn ask(
    address: SocketAddr,
    request_id: &str,
    body: &str,
    on_text: &mut dyn FnMut(usize, &str) -> io::Result<()>,
) -> io::Result<Delivered> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    let head = format!(
        "POST /v1/chat/completions HTTP/1.1\r\nhost: {address}\r\nx-request-id: {request_id}\r\n\
         content-type: application/json\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n"
    );
    stream.write_all(format!("{head}{body}").as_bytes())?;

    let invalid = |error: &dyn ToString| io::Error::new(ErrorKind::InvalidData, error.to_string());
    let (mut heads, mut buffer) = (HeadReader::new(HeadLimits::default()), BytesMut::new());
    let head = loop {
        match heads.response(&mut buffer, &Method::Post) {
            Ok(Some(head)) => break head,
            Ok(None) if receive(&mut stream, &mut buffer)? == 0 => {
                return Err(ErrorKind::UnexpectedEof.into());
            }
            Ok(None) => {}
            Err(error) => return Err(invalid(&error)),
        }
    };
    let mut events = Events::default();
    let mut decoder = Decoder::new(head.framing);
    events.delivered.status = head.status;
    loop {
        let mut input = buffer.split().freeze();
        while let Decoded::Data(data) = decoder.decode(&mut input).map_err(|error| invalid(&error))? {
            events.feed(&data, on_text)?;
        }
        let is_over = decoder.is_ended() || decoder.received() > BODY_BYTES_MAX as u64;
        if is_over || !matches!(receive(&mut stream, &mut buffer), Ok(1..)) {
            break;
        }
    }
    events.delivered.is_whole = decoder.is_ended();
    Ok(events.delivered)
}

/// Appends what comes next; 0: nothing more does.
fn receive(stream: &mut TcpStream, buffer: &mut BytesMut) -> io::Result<usize> {
    let mut piece = [0; 4096];
    loop {
        match stream.read(&mut piece) {
            Ok(len) => {
                buffer.extend_from_slice(&piece[..len]);
                return Ok(len);
            }
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Events as an SDK finds them: lines up to a blank one.
#[derive(Default)]
struct Events {
    delivered: Delivered,
    /// The body from the last whole event on.
    rest: Vec<u8>,
    /// Bytes of the body before `rest`.
    before: usize,
}

impl Events {
    fn feed(
        &mut self,
        bytes: &[u8],
        on_text: &mut dyn FnMut(usize, &str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.rest.extend_from_slice(bytes);
        while let Some(end) = memchr::memmem::find(&self.rest, b"\n\n") {
            let event: Vec<u8> = self.rest.drain(..end + 2).collect();
            let began = self.before;
            self.before += event.len();
            for line in event.split(|&byte| byte == b'\n') {
                if let Some(data) = line.strip_prefix(b"data: ")
                    && let Some(text) = self.delivered.take(data)
                {
                    on_text(began, &text)?;
                }
            }
        }
        Ok(())
    }
}

impl Delivered {
    /// Takes one event's data; its text, if it has some.
    fn take(&mut self, data: &[u8]) -> Option<String> {
        if data == b"[DONE]" {
            self.dones += 1;
            return None;
        }
        let mut json = data.to_vec();
        let chunk = simd_json::to_borrowed_value(&mut json).ok();
        let choices = chunk.as_ref().and_then(|chunk| chunk.get_array("choices"));
        let Some(choices) = choices else {
            self.strange.push(String::from_utf8_lossy(data).into_owned());
            return None;
        };
        let text = choices.first()?.get("delta")?.get_str("content").filter(|text| !text.is_empty())?;
        self.text.push_str(text);
        Some(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_with_the_place_where_each_began() {
        let chunk =
            |text: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n");
        let body = [
            "data: {\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n",
            &chunk("a "),
            ": keep-alive\n\n",
            "data: {\"choices\":[],\"usage\":{}}\n\n",
            &chunk("b"),
            "event: error\ndata: {\"error\":{}}\n\n",
            "data: [DONE]\n\n",
            "data: [DO",
        ]
        .concat();
        let places = |text: &str| body.find(&chunk(text)).unwrap();
        for size in [1, 7, body.len()] {
            let (mut events, mut told) = (Events::default(), Vec::new());
            for piece in body.as_bytes().chunks(size) {
                let mut on_text = |at: usize, text: &str| {
                    told.push((at, text.to_owned()));
                    Ok(())
                };
                events.feed(piece, &mut on_text).unwrap();
            }
            assert_eq!(told, [(places("a "), "a ".to_owned()), (places("b"), "b".to_owned())]);
            let delivered = events.delivered;
            assert_eq!((&*delivered.text, delivered.dones), ("a b", 1));
            assert_eq!(delivered.strange, ["{\"error\":{}}"]);
        }
    }
}
