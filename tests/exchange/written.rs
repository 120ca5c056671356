//! What each attempt wrote, for whoever estimates what it cost.

use baton::exchange::Record;

use crate::support::words::*;
use crate::support::{Setup, World};

fn telling(setup: Setup) -> Setup {
    setup.with(|setup| setup.tells_text = true)
}

/// Of each attempt: the text that it carried on from, its own, and how many frames there are besides.
fn written(world: &World) -> Vec<Option<(String, String, u64)>> {
    let of = |record: &Record| match record {
        Record::AttemptEnded { written, .. } => Some(written.as_ref().map(|written| {
            let (before, own) = written.text.split_at(written.from);
            let text = |part: &[u8]| String::from_utf8(part.to_vec()).expect("JSON text");
            (text(before), text(own), written.other_frames)
        })),
        _ => None,
    };
    world.records.iter().filter_map(of).collect()
}

fn wrote(before: &str, own: &str, other_frames: u64) -> Option<(String, String, u64)> {
    Some((before.to_owned(), own.to_owned(), other_frames))
}

#[test]
fn a_stream_that_broke_off_has_written_what_the_client_has() {
    for setup in [Setup::stream(&[baton::policy::ContinuationMode::None]), Setup::pair().terminate()] {
        let mut world = World::new(&telling(setup));
        world.ok(0).send(0, role() + &text("The \"old\" ")).send(0, text("sailor ")).fin(0);
        assert_eq!(written(&world), [wrote("", r#"The \"old\" sailor "#, 0)]);
    }
}

#[test]
fn the_next_one_has_carried_on() {
    let mut world = World::new(&telling(Setup::pair()));
    world.ok(0).send(0, text("The old ")).send(0, text("sailor ")).fin(0);
    world.ok(1).send(1, role_b() + &text_b("slept.") + &finish_b() + DONE);
    assert_eq!(written(&world), [wrote("", "The old sailor ", 0), wrote("The old sailor ", "slept.", 0)]);
}

#[test]
fn what_was_dropped_or_held_counts_by_its_frames() {
    let begun = "The old sailor went down to the harbour ";
    let mut world = World::new(&telling(Setup::instructed().with(|setup| {
        setup.targets.push(setup.targets[0]);
        setup.policy.stream_failure.max_fallbacks = 2;
    })));
    world.ok(0).send(0, text(begun)).fin(0);
    // Breaks off with a text that could still be a restart.
    world.ok(1).send(1, text_b("The old")).fin(1);
    // Starts over.
    world
        .ok(2)
        .send(2, text_b("The old sailor went ") + &text_b("down to the harbour ") + &text_b("and slept."));
    world.send(2, finish_b() + DONE);
    assert_eq!(world.client.answer(), format!("{begun}and slept."));
    let want = [wrote("", begun, 0), wrote(begun, "", 1), wrote(begun, "and slept.", 2)];
    assert_eq!(written(&world), want);
}

#[test]
fn a_plain_answer_is_told_if_it_is_nothing_but_text() {
    let body = |message: &str| {
        format!(
            r#"{{"object":"chat.completion","choices":[{{"index":0,"message":{{{message}}},"finish_reason":"stop"}}]}}"#
        )
    };
    let cases = [
        (body(r#""role":"assistant","content":"a \"b\"""#), wrote("", r#"a \"b\""#, 0)),
        ("\u{feff}".to_owned() + &body(r#""content":"ab""#), wrote("", "ab", 0)),
        (body(r#""content":"ab","reasoning_content":"hm""#), None),
        (body(r#""content":"ab","tool_calls":[{"id":"c","function":{"name":"f"}}]"#), None),
        (completion("has usage"), None),
    ];
    for (body, want) in cases {
        let mut world = World::new(&telling(Setup::plain()));
        world.answer(0, 200, "content-type: application/json\r\n", &body);
        assert_eq!(written(&world), [want], "{body}");
    }
}

#[test]
fn nothing_is_told_where_it_would_not_be_all_or_is_not_wanted() {
    let call = chunk_of(
        "a",
        r#""tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]"#,
        "null",
    );
    let cases = [
        ("nobody counts", Setup::pair().terminate(), text("Hi")),
        ("there are figures", telling(Setup::pair().terminate()), text("Hi") + &usage("a", 3, 1)),
        ("nothing came", telling(Setup::pair().terminate()), role()),
        ("a call", telling(Setup::pair().terminate()), text("Hi") + &call),
        ("too long", telling(Setup::pair().terminate().with(|setup| setup.limits.partial = 1)), text("Hi")),
        ("another path", telling(Setup::opaque()), text("Hi")),
    ];
    for (name, setup, body) in cases {
        let mut world = World::new(&setup);
        world.ok(0).send(0, &body).reset(0);
        assert_eq!(written(&world).first(), Some(&None), "{name}");
    }
}
