//! Model upstreams: what one attempt will meet, as bytes at times.

use baton::exchange::{Fault, Shape};
use baton::policy::ContinuationMode;
use fastrand::Rng;

use crate::model::scenario::{Scenario, deltas, pick, written};
use crate::model::wire::{Close, Pace, frame, last_time, segments};
use crate::support::words::{self, DONE, chunk_of, ev};

/// The shortest restart that is told from a continuation natively, in UTF-16 units.
const NATIVE_RESTART: usize = 32;
/// The shortest and the longest overlap that is told from new text.
const OVERLAP: (usize, usize) = (6, 256);

#[derive(Clone, Debug)]
pub enum Act {
    Wire(Vec<u8>),
    Fin,
    Reset,
    Fault(Fault),
}

/// What happens when, in milliseconds from the dispatch.
pub type Script = Vec<(u64, Act)>;

/// The text of an upstream that talks on behind its end.
pub const LATE: &str = "late";

/// What an attempt is asked.
pub struct Asked<'a> {
    pub shape: Shape,
    pub mode: ContinuationMode,
    pub is_fresh: bool,
    /// Two choices are wanted.
    pub is_for_two: bool,
    /// What it is to carry on from.
    pub partial: Option<&'a str>,
    /// All that the client has: more than the partial if white space at the end is not sent.
    pub delivered: &'a str,
}

/// Makes up what the attempt will meet.
pub fn script(asked: &Asked<'_>, scenario: &Scenario, rng: &mut Rng) -> Script {
    if asked.partial.is_some()
        && scenario.takes_no_prefill
        && (asked.mode != ContinuationMode::UserTurn || rng.bool())
    {
        let body = r#"{"error":{"message":"no","type":"t","code":"prefill"}}"#;
        return by_length(400, "", body.as_bytes(), rng);
    }
    if !asked.is_fresh && scenario.has_stale_pool && rng.u8(..4) > 0 {
        return vec![(0, Act::Fault(Fault::StaleConnection))];
    }
    let refuses = if scenario.is_breaking { 8 } else { 4 };
    if rng.u8(..100) < faults_of(asked, scenario) / refuses {
        return refusal(asked, scenario, rng);
    }
    match asked.shape {
        Shape::ChatStream if rng.u8(..12) == 0 => {
            let rest = text_of(asked, scenario, rng);
            by_length(200, "", words::completion(&rest).as_bytes(), rng)
        }
        Shape::ChatStream => stream(asked, scenario, rng),
        Shape::ChatPlain => whole(words::completion(&scenario.answer).as_bytes(), scenario, rng),
        Shape::Opaque => whole(scenario.answer.as_bytes(), scenario, rng),
    }
}

/// Those who carry on do better, or few answers would ever be recovered.
fn faults_of(asked: &Asked<'_>, scenario: &Scenario) -> u8 {
    if asked.partial.is_some() { scenario.faults / 3 } else { scenario.faults }
}

/// No answer at all.
fn refusal(asked: &Asked<'_>, scenario: &Scenario, rng: &mut Rng) -> Script {
    let at = rng.u64(..50);
    let body = |code: &str| format!(r#"{{"error":{{"message":"no","type":"t","code":{code}}}}}"#);
    match rng.u8(..20) {
        0 => vec![(at, Act::Fault(Fault::ConnectFailed))],
        1 => vec![(at, Act::Fault(pick_fault(rng)))],
        2 => vec![(at, Act::Fin)],
        3 => vec![(at, Act::Reset)],
        4 if !asked.is_fresh => vec![(at, Act::Fault(Fault::StaleConnection))],
        5 => vec![],
        6 | 16..=17 => {
            by_length(429, &format!("Retry-After: {}\r\n", rng.u8(..4)), body("429").as_bytes(), rng)
        }
        7 => by_length(429, "Retry-After-Ms: 700\r\n", body("\"insufficient_quota\"").as_bytes(), rng),
        8 => by_length(pick(rng, &[500, 502, 503, 529]), "", body("\"busy\"").as_bytes(), rng),
        9 => {
            let status = if scenario.is_tellable { 400 } else { 422 };
            by_length(pick(rng, &[status, 401, 404, 422]), "", body("\"prefill\"").as_bytes(), rng)
        }
        10 => by_length(503, "Content-Type: text/html\r\n", b"<html>", rng),
        11 => by_length(307, "Location: /x\r\n", b"", rng),
        12 => vec![
            (at, Act::Wire(b"HTTP/1.1 500 X\r\nContent-Length: 99\r\n\r\n{".to_vec())),
            (at + 9, Act::Reset),
        ],
        14 if asked.shape == Shape::ChatStream => {
            let role = chunk_of("a", r#""role":"assistant","content":"""#, "null");
            frame(
                &pick(rng, &[vec![], vec![role.clone()], vec![role, DONE.to_owned()]]),
                Close::Properly,
                Pace::Anyhow,
                rng,
            )
        }
        13 if asked.shape != Shape::Opaque => by_length(200, "Content-Type: text/html\r\n", b"<html>", rng),
        _ => vec![(at, Act::Wire(pick(rng, &["SSH-2.0\r\n", "HTTP/1.1 101 X\r\n\r\n"]).into()))],
    }
}

fn pick_fault(rng: &mut Rng) -> Fault {
    match rng.u8(..4) {
        0 => Fault::DnsFailed,
        1 => Fault::TlsFailed,
        2 => Fault::Died,
        _ => Fault::TooLarge,
    }
}

/// A whole response, in segments.
fn by_length(status: u16, fields: &str, body: &[u8], rng: &mut Rng) -> Script {
    let mut wire =
        format!("HTTP/1.1 {status} X\r\n{fields}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    wire.extend_from_slice(body);
    segments(&wire, 0, rng)
}

/// A body that is no stream, by a length that may be a lie, cut or not.
fn whole(body: &[u8], scenario: &Scenario, rng: &mut Rng) -> Script {
    if rng.u8(..100) >= scenario.faults {
        return by_length(200, "", body, rng);
    }
    let lie = body.len() + rng.usize(1..50);
    let mut wire = format!("HTTP/1.1 200 X\r\nContent-Length: {lie}\r\n\r\n").into_bytes();
    wire.extend_from_slice(&body[..rng.usize(..=body.len())]);
    let mut script = segments(&wire, 0, rng);
    let at = last_time(&script) + rng.u64(..3_000);
    script.push((at, pick_end(rng)));
    script
}

fn pick_end(rng: &mut Rng) -> Act {
    match rng.u8(..3) {
        0 => Act::Fin,
        1 => Act::Reset,
        _ => Act::Fault(Fault::Died),
    }
}

/// The text that this upstream answers: the rest, all of it again, or a part of the end and the rest; whatever of
/// these can be told apart by the rules of the seam.
fn text_of(asked: &Asked<'_>, scenario: &Scenario, rng: &mut Rng) -> String {
    let Some(partial) = asked.partial else { return scenario.answer.clone() };
    let rest = scenario.answer.strip_prefix(partial).expect("the partial is a part of the answer");
    let units = partial.encode_utf16().count();
    let is_native = asked.mode == ContinuationMode::Prefill;
    match rng.u8(..6) {
        0..=1 if !is_native && units > 0 => scenario.answer.clone(),
        0..=1 if is_native && units >= NATIVE_RESTART && !is_periodic(asked.delivered) => {
            scenario.answer.clone()
        }
        2..=3 if !is_native && units > OVERLAP.0 => {
            let most = (units - 1).min(OVERLAP.1 - 1);
            let from = suffix_of(partial, rng.usize(OVERLAP.0..=most));
            format!("{from}{rest}")
        }
        _ => rest.to_owned(),
    }
}

/// The last `units` of a text, or one more where that would cut a character in two.
fn suffix_of(text: &str, units: usize) -> &str {
    let mut left = units;
    for (at, c) in text.char_indices().rev() {
        left = left.saturating_sub(c.len_utf16());
        if left == 0 {
            return &text[at..];
        }
    }
    text
}

/// A shift of at most half its length maps the text onto itself.
fn is_periodic(text: &str) -> bool {
    let units: Vec<u16> = text.encode_utf16().collect();
    (1..=units.len() / 2).any(|shift| units[shift..] == units[..units.len() - shift])
}

/// A stream of events, with or without faults.
fn stream(asked: &Asked<'_>, scenario: &Scenario, rng: &mut Rng) -> Script {
    let text = text_of(asked, scenario, rng);
    let is_repeat = asked.partial.is_some_and(|partial| !scenario.answer[partial.len()..].starts_with(&text));
    let id = pick(rng, &["a", "bb", "ccc"]);
    let texts = written(&deltas(&text, rng), rng);
    let mut events: Vec<String> = Vec::new();
    if rng.bool() {
        events.push(chunk_of(id, r#""role":"assistant","content":"""#, "null"));
    }
    if rng.u8(..4) == 0 {
        events.push(ev(r#"{"id":"","created":0,"choices":[],"prompt_filter_results":[]}"#));
    }
    let tail = if rng.u8(..4) == 0 { ",\"usage\":null}\n\n" } else { "}\n\n" };
    let first_text = events.len();
    let role = role_of(asked, rng);
    events.extend(
        texts
            .iter()
            .map(|text| words::raw_text(id, text).replace("}\n\n", tail).replace("\"delta\":{", role)),
    );
    if let Some(other) = scenario.other {
        // What comes before the text of a continuation would decide the seam too early.
        let at = if asked.partial.is_none() && rng.bool() { first_text } else { events.len() };
        events.insert(at, chunk_of(id, other, "null"));
    }
    let says_finish = rng.u8(..8) > 0;
    if says_finish && rng.u8(..3) == 0 && !texts.is_empty() {
        // Along with the last of the text.
        let last = events.pop().unwrap_or_default();
        events.push(last.replace("\"finish_reason\":null", "\"finish_reason\":\"stop\""));
    } else if says_finish {
        events.push(chunk_of(id, "", r#""stop""#));
    }
    if asked.is_for_two {
        events.push(words::text_of_choice(1, "Two."));
        if says_finish {
            events.push(words::finish_of_choice(1));
        }
    }
    if rng.bool() {
        events.push(words::usage(id, 9, texts.len() as u64));
    }
    if !says_finish || rng.u8(..4) > 0 {
        events.push(DONE.to_owned());
        if rng.u8(..4) == 0 {
            events.extend([words::raw_text(id, LATE), chunk_of(id, "", r#""stop""#), DONE.to_owned()]);
        }
    }
    let breaks = scenario.is_breaking && asked.partial.is_none();
    let mut end = if breaks || rng.u8(..100) < faults_of(asked, scenario) {
        spoil(&mut events, id, scenario, rng)
    } else {
        Close::Properly
    };
    if is_repeat && end == Close::Never {
        // A repeat that falls silent within it is taken for new text after 300 ms, and cannot be told from it.
        end = Close::Fin;
    }
    let pace = match () {
        () if is_repeat => Pace::AtOnce,
        () if asked.partial.is_some() && rng.bool() => Pace::Hesitant,
        () if rng.bool() => Pace::ByEvent,
        () => Pace::Anyhow,
    };
    frame(&events, end, pace, rng)
}

/// How each delta begins: some say in each who speaks.
fn role_of(asked: &Asked<'_>, rng: &mut Rng) -> &'static str {
    if asked.partial.is_some() && rng.u8(..4) == 0 {
        "\"delta\":{\"role\":\"assistant\","
    } else {
        "\"delta\":{"
    }
}

/// Cuts the events short, or puts something among them that should not be there.
fn spoil(events: &mut Vec<String>, id: &str, scenario: &Scenario, rng: &mut Rng) -> Close {
    // Early as often as anywhere.
    let early = rng.usize(..=events.len().min(3));
    let at = if rng.bool() && !scenario.is_breaking { early } else { rng.usize(..=events.len()) };
    let lost = "data: {\"choices\":[{\"delta\":{\"content\":\"lost\n\n";
    let bad = "data: {\"choices\":\n\n";
    let refused = if scenario.is_tellable { "400" } else { "422" };
    let intruder = match rng.u8(..8) {
        0 => words::error("500", "busy"),
        1 => words::error(pick(rng, &["429", refused, "\"overloaded\""]), "no"),
        2 => chunk_of(id, "", r#""error""#),
        3 => lost.to_owned(),
        4 => format!("{bad}{bad}"),
        5 => bad.to_owned(),
        6 => DONE.to_owned(),
        _ => String::new(),
    };
    // Behind a [DONE] that comes too early the body must not end properly: that would be an answer.
    let is_early_done = intruder == DONE;
    // Some write on behind what went wrong.
    let writes_on = !intruder.is_empty() && !is_early_done && rng.u8(..3) == 0;
    if !(writes_on || intruder == bad && rng.bool()) {
        events.truncate(at);
    }
    if !intruder.is_empty() {
        events.insert(at, intruder);
    }
    match rng.u8(..4) {
        0 if !is_early_done => Close::Properly,
        1 => Close::Never,
        2 => Close::Reset,
        _ => Close::Fin,
    }
}
