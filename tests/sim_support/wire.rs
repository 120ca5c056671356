//! Streams and bodies as bytes at times.

use fastrand::Rng;

use crate::model::scenario::pick;
use crate::model::upstream::{Act, Script};

/// How a stream's body ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    Properly,
    Fin,
    Reset,
    Never,
}

/// When the bytes of a stream come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// What repeats the partial must: after 300 ms what is there decides.
    AtOnce,
    /// Cut anywhere.
    Anyhow,
    ByEvent,
    /// With pauses between the events in which the seam may have to be decided.
    Hesitant,
}

/// The events in a body, the body in segments.
pub fn frame(events: &[String], end: Close, pace: Pace, rng: &mut Rng) -> Script {
    let kind = rng.u8(..3);
    let body = events.concat();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
    let mut wire = match kind {
        0 => {
            format!("{head}Content-Length: {}\r\n\r\n", body.len() + usize::from(end != Close::Properly) * 10)
        }
        1 if end != Close::Fin => format!("{head}\r\n"),
        _ => format!("{head}Transfer-Encoding: chunked\r\n\r\n"),
    };
    let is_chunked = wire.contains("chunked");
    let mut ends = vec![wire.len()];
    for event in events {
        if is_chunked {
            wire.push_str(&format!("{:x}\r\n{event}\r\n", event.len()));
        } else {
            wire.push_str(event);
        }
        ends.push(wire.len());
    }
    if is_chunked && end == Close::Properly {
        wire.push_str("0\r\n\r\n");
    }
    let mut script = match pace {
        Pace::AtOnce => segments(wire.as_bytes(), wire.len(), rng),
        Pace::Anyhow => segments(wire.as_bytes(), 0, rng),
        Pace::ByEvent => {
            let pace = pick(rng, &[(1, 3), (1, 300), (2, 700), (10, 1_000)]);
            flushes(wire.as_bytes(), &ends, pace, rng)
        }
        Pace::Hesitant => flushes(wire.as_bytes(), &ends, (1, 700), rng),
    };
    let pause = pick(rng, &[0, 0, 10, 2_000]);
    let at = last_time(&script) + if pace == Pace::AtOnce { 0 } else { pause };
    match end {
        Close::Properly if kind == 1 => script.push((at, Act::Fin)),
        Close::Properly | Close::Never => {}
        Close::Fin => script.push((at, Act::Fin)),
        Close::Reset => script.push((at, Act::Reset)),
    }
    script
}

/// Bytes in reads, the first of at least `together` bytes, with pauses between.
pub fn segments(wire: &[u8], together: usize, rng: &mut Rng) -> Script {
    let mut script = Script::new();
    let mut at = rng.u64(..20);
    let (mean, pause) =
        pick(rng, &[(20, 0), (60, 3), (200, 20), (500, 50), (2_000, 600), (5_000, 2_000), (150, 700)]);
    let mut rest = wire;
    while !rest.is_empty() {
        let least = if script.is_empty() { together } else { 0 };
        let len = rng.usize(1..=mean).max(least).min(rest.len());
        let (now, later) = rest.split_at(len);
        script.push((at, Act::Wire(now.to_vec())));
        rest = later;
        at += rng.u64(..=pause);
    }
    script
}

/// Bytes as servers write them that flush behind about every `mean`th event, with pauses of up to `pause` milliseconds;
/// `ends`: where the events end.
fn flushes(wire: &[u8], ends: &[usize], (mean, pause): (usize, u64), rng: &mut Rng) -> Script {
    let mut script = Script::new();
    let (mut at, mut from) = (rng.u64(..20), 0);
    for end in ends.iter().copied().chain([wire.len()]) {
        if end > from && (end == wire.len() || rng.usize(..mean) == 0) {
            script.push((at, Act::Wire(wire[from..end].to_vec())));
            at += rng.u64(..=pause);
            from = end;
        }
    }
    script
}

/// When the last of a script happens.
pub fn last_time(script: &Script) -> u64 {
    script.last().map_or(0, |(at, _)| *at)
}
