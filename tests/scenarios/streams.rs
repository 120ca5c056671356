//! The faults that show after the first content: the client gets one text, nothing missing and nothing twice.

use crate::support::openai::{LAST_CHUNK, ch, ev};
use crate::support::upstream::{Script, Step, send};
use crate::support::{PROMPT, ScriptedUpstream};
use crate::upstream::{answer_without_done, beginning, healthy, refusing_prefill, rest, silence};
use crate::world::{Pace, World, assert_about, assert_within};

const PRIMARY: &str = "model-of-primary";

/// Begins the answer, gives so many words, and goes on with `then`.
fn breaks_off(words: usize, then: Step) -> ScriptedUpstream {
    ScriptedUpstream::always(vec![Step::Send(beginning(PRIMARY, words)), then])
}

pub fn cut(pace: Pace) -> String {
    let world = World::new(pace, breaks_off(40, Step::Fin), healthy());
    let answer = world.exact();
    assert_eq!(world.asked(), (1, 1), "asked");
    format!("carried on after {:.2?}", answer.until(&world.fallback, 0))
}

pub fn silent_in_the_middle(pace: Pace) -> String {
    let world = World::new(pace, breaks_off(20, silence()), healthy());
    let answer = world.exact();
    assert_eq!(world.asked(), (1, 1), "asked");
    let switched = answer.until(&world.fallback, 0);
    assert_about("another target", switched, pace.secs(10.0));
    format!("carried on after {switched:.2?}, whole after {:.2?}", answer.took)
}

pub fn one_bad_frame(pace: Pace) -> String {
    let bad = ev("{\"id\":\"chatcmpl-a\",\"object\":\"chat.comp");
    let answer = [beginning(PRIMARY, 10), ch(bad), rest(PRIMARY, 10)].concat();
    let world = World::new(pace, ScriptedUpstream::always(send(answer)), healthy());
    world.exact();
    assert_eq!(world.asked(), (1, 0), "asked");
    "no switch".to_owned()
}

/// Once with a body that ends, and once with one that stays open.
pub fn no_done(pace: Pace) -> String {
    let endings: [(&str, Script); 2] = [("ended", send(LAST_CHUNK)), ("left open", vec![silence()])];
    let times = endings.map(|(name, ending)| {
        let primary = ScriptedUpstream::answering(Vec::new(), move |request| {
            [vec![Step::Send(answer_without_done(request))], ending.clone()].concat()
        });
        let world = World::new(pace, primary, healthy());
        let answer = world.exact();
        assert_eq!(world.asked(), (1, 0), "asked");
        // The wait for a body that stays open is a fixed second (`settle`), at either pace.
        assert_within(&format!("body {name}: finished"), answer.took, PROMPT * 2);
        format!("body {name}: finished after {:.2?}", answer.took)
    });
    times.join(", ")
}

pub fn cut_and_prefill_refused(pace: Pace) -> String {
    let world = World::new(pace, breaks_off(40, Step::Fin), refusing_prefill());
    world.exact();
    let first = world.fallback.request_count();
    world.exact();
    let second = world.fallback.request_count() - first;
    assert_eq!((first, second), (2, 1), "the fallback was asked, for the first and for a second answer");
    "refused once, asked in another way, and so from then on".to_owned()
}
