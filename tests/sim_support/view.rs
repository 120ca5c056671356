//! What can be seen of an exchange from outside: the client's text, and what an upstream really said.

use baton::exchange::Shape;

use crate::model::scenario::{Scenario, is_gate};
use crate::support::{Attempt, World};

/// The text that the client has of choice 0, halves of characters joined.
pub fn delivered(world: &World) -> String {
    if world.client.status() != Some(200) || world.client.shape != Shape::ChatStream {
        return String::new();
    }
    let mut escaped = String::new();
    for event in world.client.events().iter().filter(|event| !is_gate(event)) {
        if let Some((_, rest)) = event.split_once("\"delta\":{\"content\":\"") {
            let end = rest.find("\"},\"finish_reason\"").expect("the text's end");
            escaped.push_str(&rest[..end]);
        } else if let Some((_, rest)) = event.split_once("\"content\":\"") {
            let end = rest.find("\"}").expect("the text's end");
            escaped.push_str(&rest[..end]);
        }
    }
    units(&escaped)
}

/// Text without what is left of a character that came in two deltas.
pub fn whole(text: &str) -> &str {
    text.strip_suffix(char::REPLACEMENT_CHARACTER).unwrap_or(text)
}

/// Escaped text as a client of UTF-16 strings reads it.
fn units(escaped: &str) -> String {
    match serde_json::from_str(&format!("\"{escaped}\"")) {
        Ok(text) => text,
        // Half a character at the end.
        Err(_) => {
            serde_json::from_str::<String>(&format!("\"{}\"", &escaped[..escaped.len() - 6])).expect("text")
                + "\u{fffd}"
        }
    }
}

/// The attempt that began the stream, or was the last to try.
pub fn first_writer(world: &World) -> &Attempt {
    let mut before = world.attempts.values().filter(|attempt| attempt.kind != "mid_stream_fallback");
    before.next_back().expect("an attempt")
}

/// What a client must get of an attempt's stream if nobody else writes in it: the events that arrived, up to the first
/// error or `[DONE]`, without those that are no JSON and without usage that it did not ask for. None: it was no stream.
pub fn forwardable(attempt: &Attempt, scenario: &Scenario) -> Option<Vec<String>> {
    let heard = String::from_utf8_lossy(&attempt.heard);
    let mut rest = heard.split_once("text/event-stream")?.1;
    let mut events = Vec::new();
    while let Some((_, behind)) = rest.split_once("data: ") {
        let Some((event, behind)) = behind.split_once("\n\n") else { break };
        rest = behind;
        if event == "[DONE]" || event.contains("\"error\"") || event.ends_with("lost") {
            break;
        }
        let is_hidden = scenario.hides_usage && is_usage(event);
        if event.ends_with('}') && !is_hidden {
            let shown =
                if scenario.hides_usage { event.replace(",\"usage\":null", "") } else { event.to_owned() };
            events.push(shown);
        }
    }
    Some(events)
}

/// A frame of its own for the usage.
pub fn is_usage(event: &str) -> bool {
    event.contains("\"choices\":[],\"usage\":{")
}
