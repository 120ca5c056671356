//! Sixteen faults of a provider, streamed, through the real binary: whatever happens, the client gets the exact text.
//!
//! The config is `config/examples/scenarios.toml`; the text is sixty fixed words, and every answer must be exactly
//! those, with its usage. What else each scenario asks for is in its function.
//!
//! All sixteen run at once, each with two providers and a proxy of its own. By default all times, those of the config
//! too, are divided by twenty. `SCENARIOS=full` runs them at full length, about 80 s: `tests/scenarios/full.sh`.
//! `SCENARIO=8,14` runs those alone.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise; blocking is its way to wait"
)]

mod before_content;
mod streams;
#[path = "../support/mod.rs"]
mod support;
mod upstream;
mod world;

use std::any::Any;
use std::thread;
use std::time::Instant;

use world::Pace;

/// Number, what happens, and the function that runs it and says what it saw.
type Scenario = (u8, &'static str, fn(Pace) -> String);

const SCENARIOS: [Scenario; 16] = [
    (1, "429 with Retry-After: 2, once", before_content::rate_limited_once),
    (2, "429 always, no Retry-After", before_content::rate_limited_always),
    (3, "500 once", before_content::server_error_once),
    (4, "503 always", before_content::unavailable_always),
    (5, "reset before any byte, once", before_content::reset_once),
    (6, "accepts and stays silent", before_content::silent_from_the_start),
    (7, "head at once, first token after 20 s", before_content::head_then_late_token),
    (8, "body cut after 40 words", streams::cut),
    (9, "silent after 20 words", streams::silent_in_the_middle),
    (10, "one unparsable frame after 10 words", streams::one_bad_frame),
    (11, "no [DONE]", streams::no_done),
    (12, "400 context_length_exceeded", before_content::too_long_for_the_first),
    (13, "400 content_policy_violation", before_content::refused_for_its_content),
    (14, "as 8, the fallback refuses a prefill", streams::cut_and_prefill_refused),
    (15, "503 for 60 s, a request every 4 s", before_content::outage),
    (16, "503 always: model, usage and bill", before_content::billed_to_the_fallback),
];

#[test]
fn every_scenario_ends_with_the_exact_text() {
    let pace = match std::env::var("SCENARIOS").as_deref() {
        Ok("full") => Pace::Full,
        Ok(other) => panic!("SCENARIOS is {other:?}; set it to full, or not at all"),
        Err(_) => Pace::Fast,
    };
    let wanted = std::env::var("SCENARIO").ok();
    let is_wanted =
        |number: u8| wanted.as_ref().is_none_or(|w| w.split(',').any(|one| one.trim() == number.to_string()));
    let begun: Vec<_> = SCENARIOS
        .iter()
        .filter(|(number, ..)| is_wanted(*number))
        .map(|scenario| (scenario, thread::spawn(move || run(scenario, pace))))
        .collect();
    let ended: Vec<_> = begun.into_iter().map(|(_, thread)| thread.join().unwrap()).collect();
    assert!(!ended.is_empty(), "no scenario is numbered {wanted:?}");
    let lines: Vec<&str> = ended.iter().map(|(_, line)| line.as_str()).collect();
    // Begins a line of its own behind what the test harness has written.
    println!("\n{}", lines.join("\n"));
    let failed: Vec<&str> = ended.iter().filter(|(ok, _)| !ok).map(|(_, line)| line.as_str()).collect();
    assert!(
        failed.is_empty(),
        "{} of {} scenarios failed:\n{}",
        failed.len(),
        ended.len(),
        failed.join("\n")
    );
}

/// Whether the scenario passed, and the line that reports it.
fn run(&(number, title, scenario): &Scenario, pace: Pace) -> (bool, String) {
    let begun = Instant::now();
    let ended = thread::spawn(move || scenario(pace)).join();
    let took = begun.elapsed().as_secs_f64();
    let (word, said) = match &ended {
        Ok(seen) => ("pass", seen.clone()),
        Err(panic) => ("FAIL", message(panic.as_ref())),
    };
    (ended.is_ok(), format!("{number:>2} {word} {took:>6.2} s  {title:<38} {said}"))
}

/// What a panic said, on one line.
fn message(panic: &dyn Any) -> String {
    const LONGEST: usize = 300;
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(LONGEST).collect()
}
