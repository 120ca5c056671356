//! The faults that show before the first content: the client gets one answer and never learns of them.

use std::time::{Duration, Instant};

use crate::support::upstream::{Script, Step};
use crate::support::{PROMPT, ScriptedUpstream};
use crate::upstream::{beginning, failing_for, healthy, healthy_after, refusal, rest, silence};
use crate::world::{Answer, Pace, World, assert_about, assert_within};

const PRIMARY: &str = "model-of-primary";
const FALLBACK: &str = "model-of-fallback";

fn unavailable() -> Script {
    refusal("503 Service Unavailable", &[], "overloaded")
}

/// A primary whose first request gets `script`, and a healthy fallback.
fn once(pace: Pace, script: Script) -> World {
    World::new(pace, healthy_after(vec![script]), healthy())
}

/// A primary that always does `script`, and a healthy fallback.
fn always(pace: Pace, script: Script) -> World {
    World::new(pace, ScriptedUpstream::always(script), healthy())
}

pub fn rate_limited_once(pace: Pace) -> String {
    let wait = pace.secs(2.0);
    let retry_after = wait.as_secs_f64().to_string();
    let limited = refusal("429 Too Many Requests", &[("Retry-After", &retry_after)], "rate_limit_exceeded");
    let world = once(pace, limited);
    let answer = world.exact();
    assert_eq!(world.asked(), (2, 0), "asked");
    let waited = answer.until(&world.primary, 1);
    assert!(waited >= pace.secs(1.8), "asked again after {waited:.2?}");
    assert_within("asked again", waited, wait + PROMPT);
    format!("same target again after {waited:.2?}")
}

pub fn rate_limited_always(pace: Pace) -> String {
    let world = always(pace, refusal("429 Too Many Requests", &[], "rate_limit_exceeded"));
    let answer = world.exact();
    let (tries, fallback) = world.asked();
    assert!(tries <= 4 && fallback == 1, "tries {tries}, fallback {fallback}");
    let switched = answer.until(&world.fallback, 0);
    assert_within("fallback", switched, pace.secs(3.0) + PROMPT);
    format!("tries {tries}, fallback after {switched:.2?}")
}

pub fn server_error_once(pace: Pace) -> String {
    let world = once(pace, refusal("500 Internal Server Error", &[], "server_error"));
    let answer = world.exact();
    assert_eq!(world.asked(), (2, 0), "asked");
    assert_eq!(answer.models(), [PRIMARY]);
    "same target again".to_owned()
}

pub fn unavailable_always(pace: Pace) -> String {
    let world = always(pace, unavailable());
    let answer = world.exact();
    let (tries, fallback) = world.asked();
    assert!(tries <= 6 && fallback == 1, "tries {tries}, fallback {fallback}");
    format!("tries {tries}, fallback after {:.2?}", answer.until(&world.fallback, 0))
}

pub fn reset_once(pace: Pace) -> String {
    let world = once(pace, vec![Step::Rst]);
    world.exact();
    let (tries, fallback) = world.asked();
    assert!(tries + fallback == 2, "tries {tries}, fallback {fallback}");
    format!("tries {tries}, fallback {fallback}")
}

pub fn silent_from_the_start(pace: Pace) -> String {
    let world = always(pace, vec![silence()]);
    let answer = world.exact();
    first_token_limit_held(&world, &answer)
}

pub fn head_then_late_token(pace: Pace) -> String {
    let late = Step::Pause(pace.secs(20.0));
    let slow = vec![Step::Send(beginning(PRIMARY, 0)), late, Step::Send(rest(PRIMARY, 0))];
    let world = always(pace, slow);
    let answer = world.exact();
    first_token_limit_held(&world, &answer)
}

fn first_token_limit_held(world: &World, answer: &Answer) -> String {
    assert_eq!(world.asked(), (1, 1), "asked");
    let switched = answer.until(&world.fallback, 0);
    assert_about("fallback", switched, world.pace.secs(10.0));
    format!("asked once, fallback after {switched:.2?}")
}

pub fn too_long_for_the_first(pace: Pace) -> String {
    let world = always(pace, refusal("400 Bad Request", &[], "context_length_exceeded"));
    world.exact();
    assert_eq!(world.asked(), (1, 1), "asked");
    "asked once, the next target answered".to_owned()
}

pub fn refused_for_its_content(pace: Pace) -> String {
    let world = always(pace, refusal("400 Bad Request", &[], "content_policy_violation"));
    let error = world.ask().response.assert_error(400);
    assert_eq!(error["code"], "content_policy_violation", "{error}");
    assert_eq!(error["message"], "said by the provider: content_policy_violation", "{error}");
    assert_eq!(world.asked(), (1, 0), "asked");
    "one attempt, the provider's own error".to_owned()
}

/// Twenty requests through an outage that the first of them begins.
pub fn outage(pace: Pace) -> String {
    const REQUESTS: u32 = 20;
    let (down, every) = (pace.secs(60.0), pace.secs(4.0));
    let world = World::new(pace, failing_for(down, unavailable()), healthy());
    let begun = Instant::now();
    let mut back = None;
    let mut longest = Duration::ZERO;
    for number in 0..REQUESTS {
        let due = begun + every * number;
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        let asked = Instant::now();
        let answer = world.exact();
        longest = longest.max(answer.took);
        if answer.models() == [PRIMARY] {
            back.get_or_insert(asked);
        } else {
            assert!(
                back.is_none(),
                "the fallback answered request {number}, after the primary had come back"
            );
        }
    }
    let recovered = world.primary.requests()[0].at + down;
    let back = back.expect("the primary was never asked again").saturating_duration_since(recovered);
    // At the fast pace a machine that is late by one request must not look like a primary that stays away.
    let late = if pace == Pace::Fast { every * 2 } else { Duration::ZERO };
    assert_within("primary back", back, pace.secs(16.0) + late);
    let (tries, fallback) = world.asked();
    format!(
        "{REQUESTS} of {REQUESTS} served, primary back {back:.2?} after recovering (tries {tries}, fallback \
         {fallback}, slowest answer {longest:.2?})"
    )
}

pub fn billed_to_the_fallback(pace: Pace) -> String {
    let world = always(pace, unavailable());
    let answer = world.exact();
    assert_eq!(answer.models(), [FALLBACK]);
    let (tries, _) = world.asked();
    let events = world.usage_events(tries + 1);
    let (last, failed) = events.split_last().expect("usage events");
    assert_eq!(failed.len(), tries, "{events:?}");
    for event in failed {
        assert_eq!(event["event"], "attempt_failed", "{event}");
        assert_eq!((&event["prompt_tokens"], &event["completion_tokens"]), (&0.into(), &0.into()), "{event}");
    }
    assert_eq!(
        (&last["event"], &last["target"]),
        (&"exchange_ended".into(), &format!("fallback/{FALLBACK}").into())
    );
    let usage = answer.response.usage().expect("usage");
    for tokens in ["prompt_tokens", "completion_tokens"] {
        assert_eq!(last[tokens], usage[tokens], "{tokens} of {last}");
    }
    format!("model {FALLBACK}, {tries} failed attempts billed nothing, usage {usage}")
}
