//! Server-sent events as Baton must write them, and nothing else.
//!
//! The canonical form: `data: <one line>\n\n`, an error frame `event: error\ndata: <one line>\n\n`, and heartbeats, a
//! single comment line `: keep-alive\n` between frames. Anything else is reported as a breach.

/// One frame with data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The event's name; only error frames have one.
    pub event: Option<String>,
    pub data: Vec<u8>,
    /// Where the frame starts in the body.
    pub at: usize,
}

/// A body read as frames.
#[derive(Clone, Debug, Default)]
pub struct Frames {
    pub frames: Vec<Frame>,
    pub heartbeats: usize,
    /// What departs from the canonical form.
    pub breaches: Vec<String>,
    /// Bytes behind the last whole frame.
    pub rest: Vec<u8>,
}

pub const HEARTBEAT: &[u8] = b": keep-alive\n";

pub fn parse(body: &[u8]) -> Frames {
    let mut out = Frames::default();
    let mut at = 0;
    while at < body.len() {
        if body[at..].starts_with(HEARTBEAT) {
            out.heartbeats += 1;
            at += HEARTBEAT.len();
            continue;
        }
        let Some(length) = super::find(&body[at..], b"\n\n") else {
            out.rest = body[at..].to_vec();
            break;
        };
        let (frame, breach) = read_frame(&body[at..at + length], at);
        out.frames.extend(frame);
        out.breaches.extend(breach.map(|b| format!("at {at}: {b}: {}", super::show(&body[at..at + length]))));
        at += length + 2;
    }
    out
}

/// Reads one frame, leniently, and says what was not canonical about it.
fn read_frame(bytes: &[u8], at: usize) -> (Option<Frame>, Option<String>) {
    let mut breach = None;
    let (mut event, mut data) = (None, None::<Vec<u8>>);
    for (number, line) in bytes.split(|b| *b == b'\n').enumerate() {
        if line.contains(&b'\r') {
            breach = Some("a CR".to_owned());
        }
        if let Some(value) = line.strip_prefix(b"data: ") {
            if data.is_some() || value.is_empty() {
                breach = Some("more than one data line, or an empty one".to_owned());
            }
            let joined = data.take().map_or_else(|| value.to_vec(), |d| [&d[..], b"\n", value].concat());
            data = Some(joined);
        } else if let Some(value) = line.strip_prefix(b"event: ") {
            let name = String::from_utf8_lossy(value).into_owned();
            if number != 0 || name != "error" {
                breach = Some(format!("event {name:?}"));
            }
            event = Some(name);
        } else {
            breach = Some("a line that is neither data nor event".to_owned());
        }
    }
    let missing = data.is_none().then(|| "no data".to_owned());
    (data.map(|data| Frame { event, data, at }), breach.or(missing))
}
