//! The first upstream dies at every byte, and between every two frames; the second continues natively, starts over or
//! repeats the last words. The text must be exact each time.

use serde_json::{Value, json};

use crate::support::openai::{
    LAST_CHUNK, STREAM_HEAD, WORDS, ask, ch, chunk_as, done, ev, stream_as, word_deltas,
};
use crate::support::upstream::send;
use crate::support::*;
use crate::trial::without_cooldown;

/// Deltas as one server writes them: escapes, halves of pairs, white space at the ends.
const ODD: [&str; 14] = [
    r#""One \"quoted\" wor""#,
    r#""d,\n\nthen""#,
    r#"" \u00e9tude""#,
    r#""\ud83d""#,
    r#""\ude00 and ""#,
    r#"""#,
    r#""\t\ttabs  ""#,
    r#""  spaces""#,
    r#"" C:\\new\\""#,
    r#""\u4f60""#,
    r#""\u597d ""#,
    r#""```rust\nfn x() {""#,
    r#""\n}\n```\n""#,
    r#""end.""#,
];

/// The texts of JSON strings, halves joined.
fn joined(escaped: &[String]) -> String {
    let whole: String = escaped.iter().map(|e| &e[1..e.len() - 1]).collect();
    serde_json::from_str(&format!("\"{whole}\"")).unwrap()
}

fn frame(id: &str, escaped: &str, finish: &str) -> Vec<u8> {
    ev(format!(
        "{{\"id\":\"{id}\",\"choices\":[{{\"index\":0,\"delta\":{{\"content\":{escaped}}},\"finish_reason\":{finish}}}]}}"
    ))
}

/// A whole answer of those deltas as frames: role, texts, finish, `[DONE]`.
fn frames(id: &str, escaped: &[String]) -> Vec<Vec<u8>> {
    let role = chunk_as(id, "m", &json!({ "role": "assistant", "content": "" }), &Value::Null);
    let mut out = vec![role];
    out.extend(escaped.iter().map(|e| frame(id, e, "null")));
    out.push(chunk_as(id, "m", &json!({}), &json!("stop")));
    out.push(done());
    out
}

fn answer(id: &str, escaped: &[String]) -> Script {
    let body: Vec<u8> = frames(id, escaped).iter().flat_map(ch).collect();
    send([STREAM_HEAD, &body, LAST_CHUNK].concat())
}

fn odd() -> Vec<String> {
    ODD.iter().filter(|d| d.len() > 1).map(|d| (*d).to_owned()).collect()
}

/// What the second upstream is asked for after `delivered` deltas: the rest.
type Rest = fn(&[String], usize) -> Vec<String>;

/// One trial a cut: the wire up to there, then a FIN. `delivered`: how many deltas of text arrive whole.
#[derive(Clone)]
struct Cut {
    name: String,
    wire: Vec<u8>,
    delivered: usize,
    is_whole: bool,
}

fn run(deltas: &[String], cuts: Vec<Cut>, mode: &str, rest: Rest) {
    let (mut firsts, mut seconds) = (Vec::new(), Vec::new());
    for cut in &cuts {
        firsts.push(vec![Step::Send(cut.wire.clone()), Step::Fin]);
        if !cut.is_whole {
            seconds.push(answer("chatcmpl-b", &rest(deltas, cut.delivered)));
        }
    }
    let asked = seconds.len();
    let (first, second) = (ScriptedUpstream::new(firsts), ScriptedUpstream::new(seconds));
    let config =
        Config::chat([&first.addr, &second.addr]).set("upstreams.up2", "continuation", format!("\"{mode}\""));
    let proxy = Proxy::start(&without_cooldown(config));
    let text = joined(deltas);
    let mut failures = Vec::new();
    for cut in &cuts {
        let response = proxy.ask(&ask("chat")).response();
        let checked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| response.assert_success(&text)));
        if checked.is_err() {
            failures.push(format!("{}: {:?} {:?}", cut.name, response.end, response.text()));
        }
    }
    assert!(failures.is_empty(), "{} of {} cuts\n{}", failures.len(), cuts.len(), failures.join("\n"));
    assert_eq!((first.request_count(), second.request_count()), (cuts.len(), asked));
}

/// A cut behind every frame of the answer.
fn between_frames(deltas: &[String]) -> Vec<Cut> {
    let all = frames("chatcmpl-a", deltas);
    let cuts = (0..=all.len()).map(|n| {
        let body: Vec<u8> = all[..n].iter().flat_map(ch).collect();
        let wire = [STREAM_HEAD, &body].concat();
        let delivered = n.saturating_sub(1).min(deltas.len());
        Cut { name: format!("behind frame {n}"), wire, delivered, is_whole: n > deltas.len() + 1 }
    });
    cuts.collect()
}

/// A cut at every byte of the answer's body, one frame a chunk.
fn at_every_byte(deltas: &[String], step: usize) -> Vec<Cut> {
    let all = frames("chatcmpl-a", deltas);
    let mut wire = STREAM_HEAD.to_vec();
    let mut ends = Vec::new();
    for frame in &all {
        let chunk = ch(frame);
        ends.push(wire.len() + chunk.len() - 2);
        wire.extend(chunk);
    }
    let cuts = (0..wire.len()).step_by(step).map(|at| {
        let whole = ends.iter().filter(|end| **end <= at).count();
        let delivered = whole.saturating_sub(1).min(deltas.len());
        Cut {
            name: format!("at byte {at}"),
            wire: wire[..at].to_vec(),
            delivered,
            is_whole: whole > deltas.len() + 1,
        }
    });
    cuts.collect()
}

fn goes_on(deltas: &[String], delivered: usize) -> Vec<String> {
    deltas[delivered..].to_vec()
}

/// The whole answer again, escaped otherwise and cut into other deltas.
fn starts_over(deltas: &[String], _: usize) -> Vec<String> {
    let units: Vec<char> = joined(deltas).chars().collect();
    units.chunks(7).map(|c| Value::from(c.iter().collect::<String>()).to_string()).collect()
}

fn words() -> Vec<String> {
    word_deltas().into_iter().take(24).map(|w| Value::from(w).to_string()).collect()
}

#[test]
fn a_native_continuation_is_exact_at_every_frame() {
    run(&words(), between_frames(&words()), "prefill", goes_on);
    run(&odd(), between_frames(&odd()), "prefill", goes_on);
}

#[test]
fn half_a_character_is_completed_by_one_that_writes_it_whole() {
    let deltas: Vec<String> =
        [r#""ab \ud83d""#, r#""\ude00 and""#, r#"" so on""#].map(str::to_owned).to_vec();
    let whole: Rest = |_, delivered| match delivered {
        0 => vec![r#""ab 😀 and so on""#.to_owned()],
        1 => vec![r#""😀 and""#.to_owned(), r#"" so on""#.to_owned()],
        _ => vec![r#"" so on""#.to_owned()],
    };
    run(&deltas, between_frames(&deltas)[..3].to_vec(), "prefill", whole);
    run(&deltas, between_frames(&deltas)[..3].to_vec(), "instruct", whole);
}

#[test]
fn a_native_continuation_is_exact_at_every_byte() {
    let deltas = odd()[2..5].to_vec();
    run(&deltas, at_every_byte(&deltas, 1), "prefill", goes_on);
}

#[test]
fn an_instructed_continuation_is_exact_at_every_frame() {
    run(&words(), between_frames(&words()), "instruct", goes_on);
}

#[test]
fn a_restart_is_removed_at_every_frame() {
    run(&words(), between_frames(&words()), "instruct", starts_over);
    run(&odd(), between_frames(&odd()), "instruct", starts_over);
    run(&words(), between_frames(&words()), "user_turn", starts_over);
}

#[test]
fn an_echo_of_the_last_words_is_removed_at_every_frame() {
    let last_words: Rest = |deltas, delivered| {
        // At least six characters: three words.
        let from = if delivered < 4 { 0 } else { delivered - 3 };
        deltas[from..].to_vec()
    };
    run(&words(), between_frames(&words()), "user_turn", last_words);
    run(&words(), between_frames(&words()), "instruct", last_words);
}

#[test]
fn the_second_cut_is_as_good_as_the_first() {
    let deltas = word_deltas();
    let part = |id: &str, range: std::ops::Range<usize>| {
        let texts: Vec<&str> = deltas[range].iter().map(String::as_str).collect();
        let body: Vec<u8> = texts
            .iter()
            .flat_map(|t| ch(chunk_as(id, "m", &json!({ "content": t }), &Value::Null)))
            .collect();
        vec![Step::Send([STREAM_HEAD, &body].concat()), Step::Fin]
    };
    let last: Vec<&str> = deltas[40..].iter().map(String::as_str).collect();
    let ups = [
        ScriptedUpstream::new(vec![part("chatcmpl-a", 0..20)]),
        ScriptedUpstream::new(vec![part("chatcmpl-b", 20..40)]),
        ScriptedUpstream::new(vec![send(stream_as("chatcmpl-c", "m3", &last))]),
    ];
    let config = Config::chat(ups.iter().map(|u| &u.addr)).set(
        "routes.chat",
        "stream_failure",
        "{ mode = \"continue\", max_fallbacks = 2 }",
    );
    let proxy = Proxy::start(&config);
    proxy.ask(&ask("chat")).response().assert_success(WORDS);
    let sent = ups[2].requests()[0].json();
    assert_eq!(sent["messages"][1]["content"], deltas[..40].concat());
}
