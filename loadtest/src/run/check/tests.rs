use super::*;
use crate::text;

fn event(seq: u32, total: u32) -> String {
    let mut out = vec![0; 40];
    text::write(&mut out, seq, total, 1000 + u64::from(seq));
    String::from_utf8(out).unwrap()
}

fn frame(id: &str, text: &str) -> String {
    format!(
        "data: {{\"id\":\"{id}\",\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}},\"finish_reason\":null}}]}}\n\n"
    )
}

fn events(which: &[u32]) -> String {
    which.iter().map(|&seq| frame("a", &event(seq, 3))).collect()
}

const ROLE: &str =
    "data: {\"id\":\"a\",\"choices\":[{\"delta\":{\"role\":\"assistant\",\"content\":\"\"}}]}\n\n";
const FINISH: &str = "data: {\"id\":\"a\",\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";
const DONE: &str = "data: [DONE]\n\n";

/// What is wrong with a stream, read in pieces of `piece` bytes; empty: nothing.
fn judge(stream: &str, piece: usize) -> String {
    let (mut check, mut recorder) = (StreamCheck::default(), Recorder::new().unwrap());
    let mut times = Times::default();
    let fed =
        stream.as_bytes().chunks(piece).try_for_each(|piece| check.feed(piece, &mut recorder, &mut times));
    fed.and_then(|()| check.end()).err().unwrap_or_default().into_owned()
}

#[test]
fn every_way_to_be_wrong_has_a_name() {
    let whole = events(&[0, 1, 2]);
    let begun = events(&[0]);
    let spaced = whole.replace("\"content\":\"", "\"content\": \"");
    let joined = frame("a", &[event(0, 3), event(1, 3), event(2, 3)].concat());
    let cases = [
        ("right", [ROLE, &whole, FINISH, DONE].concat(), ""),
        ("CRLF, comments, no space", [&whole, ": ping\n", FINISH, DONE].concat().replace('\n', "\r\n"), ""),
        ("white space in the JSON", [&spaced, FINISH, DONE].concat(), ""),
        ("three deltas in one", [&joined, FINISH, DONE].concat(), ""),
        (
            "finish beside null content",
            [&whole, &FINISH.replace("{}", "{\"content\":null}"), DONE].concat(),
            "",
        ),
        ("one lost", [&events(&[0, 2]), FINISH, DONE].concat(), "lost text"),
        ("the last lost", [&events(&[0, 1]), FINISH, DONE].concat(), "lost text"),
        ("one doubled", [&events(&[0, 1, 1, 2]), FINISH, DONE].concat(), "doubled text"),
        ("one byte changed", [&whole.replacen("abc", "abd", 1), FINISH, DONE].concat(), "changed text"),
        ("no text", [ROLE, FINISH, DONE].concat(), "lost text"),
        ("no [DONE]", [&whole, FINISH].concat(), "no [DONE]"),
        ("two [DONE]", [&whole, FINISH, DONE, DONE].concat(), "more than one [DONE]"),
        ("more after [DONE]", [&whole, FINISH, DONE, FINISH].concat(), "something after [DONE]"),
        ("no finish", [&whole, DONE].concat(), "no finish_reason"),
        ("two finishes", [&whole, FINISH, FINISH, DONE].concat(), "more than one finish_reason"),
        ("two ids", begun.clone() + &frame("b", &event(1, 3)), "two ids in one answer"),
        (
            "an error frame",
            [&begun, "event: error\ndata: {\"error\":{\"message\":\"\",\"code\":\"transport_error\"}}\n\n"]
                .concat(),
            "error frame: transport_error",
        ),
        ("an error without a code", [&begun, "data: {\"error\":\"no\"}\n\n"].concat(), "error frame"),
    ];
    for (name, stream, want) in cases {
        for piece in [1, 7, 64, stream.len()] {
            assert_eq!(judge(&stream, piece), want, "{name}, in pieces of {piece}");
        }
    }
}

#[test]
fn times_are_taken_from_the_stamps() {
    let mut recorder = Recorder::new().unwrap();
    (recorder.measuring, recorder.now_ns) = (true, 51_000);
    let (mut check, mut times) = (StreamCheck::default(), Times { start_ns: 1000, before_ns: 0 });
    check.feed(events(&[0, 1]).as_bytes(), &mut recorder, &mut times).unwrap();
    recorder.now_ns = 71_000;
    check.feed(events(&[2]).as_bytes(), &mut recorder, &mut times).unwrap();
    assert_eq!((recorder.events, recorder.first_token.len(), recorder.gap.len()), (3, 1, 2));
    let near = |got: u64, want: u64| got.abs_diff(want) <= want / 500;
    assert!(near(recorder.first_token.max(), 50_000));
    assert!(near(recorder.gap.max(), 20_000) && recorder.gap.min() == 0);
    assert!(near(recorder.added.max(), 69_998) && near(recorder.added.min(), 49_999));
}

#[test]
fn a_plain_answer_is_judged_whole() {
    let answer = |text: &str| format!("{{\"choices\":[{{\"message\":{{\"content\":\"{text}\"}}}}]}}");
    let all: String = (0..3).map(|seq| event(seq, 3)).collect();
    let cases = [
        ("right", answer(&all), ""),
        ("nothing", answer(""), "lost text"),
        ("too short", answer(&all[..80]), "lost text"),
        ("cut within an event", answer(&all[..90]), "lost text"),
        ("changed", answer(&all.replacen('a', "b", 1)), "changed text"),
        ("no end", answer(&all).replace('}', ""), "changed text"),
        ("an error", "{\"error\":{}}".to_owned(), "no content in a plain answer"),
    ];
    for (name, body, want) in cases {
        let mut recorder = Recorder::new().unwrap();
        let got = check_plain(body.as_bytes(), &mut recorder, &mut Times::default());
        assert_eq!(got.err().unwrap_or_default(), want, "{name}");
    }
}
