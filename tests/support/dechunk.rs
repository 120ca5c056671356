//! A strict reader of chunked bodies: what a careful client would accept, nothing more.
//!
//! RFC 9112 section 7.1. Extensions and trailers are refused: Baton sends none.

#[derive(Clone, Debug, Default)]
pub struct Dechunker {
    state: State,
    line: Vec<u8>,
    /// Sizes of the chunks read so far, the last one (0) left out.
    pub sizes: Vec<usize>,
}

#[derive(Clone, Debug, Default, PartialEq)]
enum State {
    #[default]
    Size,
    Data(usize),
    DataEnd(usize),
    Trailer,
    Ended,
}

impl Dechunker {
    pub fn ended(&self) -> bool {
        self.state == State::Ended
    }

    /// Takes bytes from the front of `input`, appends what they carry to `body`, says how many were taken.
    pub fn feed(&mut self, input: &[u8], body: &mut Vec<u8>) -> Result<usize, String> {
        let mut at = 0;
        while at < input.len() && self.state != State::Ended {
            match self.state {
                State::Data(left) => {
                    let n = left.min(input.len() - at);
                    body.extend_from_slice(&input[at..at + n]);
                    at += n;
                    self.state = if n == left { State::DataEnd(2) } else { State::Data(left - n) };
                }
                State::DataEnd(left) => {
                    let want = if left == 2 { b'\r' } else { b'\n' };
                    if input[at] != want {
                        return Err(format!("chunk data not followed by CRLF but {:#x}", input[at]));
                    }
                    at += 1;
                    self.state = if left == 2 { State::DataEnd(1) } else { State::Size };
                }
                State::Size | State::Trailer | State::Ended => {
                    self.line.push(input[at]);
                    at += 1;
                    if self.line.ends_with(b"\r\n") {
                        self.end_line()?;
                    }
                }
            }
        }
        Ok(at)
    }

    fn end_line(&mut self) -> Result<(), String> {
        let line = String::from_utf8_lossy(&self.line[..self.line.len() - 2]).into_owned();
        self.line.clear();
        if self.state == State::Trailer {
            if !line.is_empty() {
                return Err(format!("trailer {line:?}"));
            }
            self.state = State::Ended;
            return Ok(());
        }
        let hex = !line.is_empty() && line.bytes().all(|b| b.is_ascii_hexdigit());
        let size = usize::from_str_radix(&line, 16).ok().filter(|_| hex);
        match size.ok_or_else(|| format!("chunk size {line:?}"))? {
            0 => self.state = State::Trailer,
            size => {
                self.sizes.push(size);
                self.state = State::Data(size);
            }
        }
        Ok(())
    }
}
