use super::*;

fn answer(text: &str) -> Answer {
    Answer::new("m", 7, text.to_owned()).unwrap()
}

fn ask(begun: Option<&str>) -> Ask {
    Ask {
        model: "healthy".to_owned(),
        stream: true,
        include_usage: false,
        begun: begun.map(str::to_owned),
        prompt_tokens: 3,
    }
}

/// The text of all deltas of a reply, with `|` before each.
fn said(answer: &Answer, reply: &Reply) -> String {
    let mut wire = Vec::new();
    for step in &reply.steps {
        match step {
            Step::Send(bytes) | Step::Delta(bytes) => wire.extend_from_slice(bytes),
            Step::Deltas(words) => wire.extend_from_slice(&answer.frames(words.clone())),
        }
    }
    let wire = String::from_utf8(wire).unwrap();
    let deltas = wire.split("\"delta\":{\"content\":\"").skip(1);
    deltas.map(|rest| format!("|{}", rest.split('"').next().unwrap())).collect()
}

#[test]
fn the_pleasant_text_has_the_words_asked_for_and_the_nonce() {
    let text = pleasant_text("7f3a", 60);
    assert_eq!(text.split(' ').count(), 60);
    assert!(text.ends_with("their early breakfast."), "the paragraph once, whole");
    assert_eq!(text.matches("7f3a").count(), 1);
    let long = pleasant_text("7f3a", 500);
    assert_eq!(long.split(' ').count(), 500);
    assert!(long.starts_with(&text));
    assert_eq!(long.matches("7f3a-3").count(), 1);
    assert_eq!(pleasant_text("7f3a", 0), "");
}

#[test]
fn an_answer_goes_on_behind_any_prefix_of_it() {
    let answer = answer("één two \"three\" 😀");
    let cases = [
        (None, "|één |two |\\"),
        (Some(""), "|één |two |\\"),
        (Some("é"), "|én |two |\\"),
        (Some("één"), "| |two |\\"),
        (Some("één "), "|two |\\"),
        (Some("één two \"three\" "), "|😀"),
        (Some("één two \"three\" 😀"), ""),
        (Some("één two \"three\" 😀!"), "|één |two |\\"),
        (Some("Een"), "|één |two |\\"),
        (Some(" één"), "|één |two |\\"),
    ];
    for (begun, want) in cases {
        let reply = answer.reply(Script::Healthy, &ask(begun));
        // The third word begins with a quote: what is looked at ends there.
        let mut got = said(&answer, &reply);
        if let Some(quote) = got.find('\\') {
            got.truncate(quote + 1);
        }
        assert_eq!(got, want, "{begun:?}");
        assert_eq!(reply.end, End::KeepAlive);
    }
}

#[test]
fn every_split_of_the_text_joins_to_the_whole() {
    let text = pleasant_text("é1", 60);
    let answer = answer(&text);
    for at in (0..=text.len()).filter(|&at| text.is_char_boundary(at)) {
        let reply = answer.reply(Script::Healthy, &ask(Some(&text[..at])));
        assert_eq!(said(&answer, &reply).replace('|', ""), text[at..], "from {at}");
    }
}

#[test]
fn a_fault_comes_after_so_many_words_of_this_reply() {
    let answer = answer("a b c d");
    let cases = [
        (None, 0, ""),
        (None, 2, "|a |b "),
        (None, 4, "|a |b |c |d"),
        (None, 9, "|a |b |c |d"),
        (Some("a"), 0, ""),
        (Some("a"), 1, "| "),
        (Some("a"), 2, "| |b "),
        (Some("a b c d"), 2, ""),
    ];
    for (begun, words, want) in cases {
        for (fault, end) in
            [(MidStream::CutFin, End::Fin), (MidStream::CutRst, End::Rst), (MidStream::Stall, End::Hang)]
        {
            let reply = answer.reply(Script::After { words, fault }, &ask(begun));
            assert_eq!(said(&answer, &reply), want, "{begun:?} {words}");
            assert_eq!(reply.end, end);
        }
    }
}

#[test]
fn garbage_takes_the_place_of_one_word() {
    let answer = answer("a b c d");
    let cases = [
        (None, 0, "|lo|b |c |d"),
        (None, 2, "|a |b |lo|d"),
        (None, 4, "|a |b |c |d|lo"),
        (Some("a"), 0, "|lo|b |c |d"),
        (Some("a"), 1, "| |lo|c |d"),
    ];
    for (begun, words, want) in cases {
        let reply = answer.reply(Script::After { words, fault: MidStream::Garbage }, &ask(begun));
        // What follows the broken text up to the next quote: the frame's and the chunk's end.
        let said = said(&answer, &reply);
        let mut got = String::new();
        for word in said.split('|').skip(1) {
            let word = if word.starts_with("lo\n\n\r\n") { "lo" } else { word };
            got.push('|');
            got.push_str(word);
        }
        assert_eq!(got, want, "{begun:?} {words}");
    }
}

#[test]
fn plain_answers_hold_the_rest_and_break_at_the_word() {
    let answer = answer("a \"b\" c");
    let plain = |script, begun| {
        let reply = answer.reply(script, &Ask { stream: false, ..ask(begun) });
        let [Step::Send(bytes)] = &reply.steps[..] else { panic!("one step") };
        let text = String::from_utf8(bytes.to_vec()).unwrap();
        (text.split_once("\r\n\r\n").unwrap().1.to_owned(), reply.end)
    };
    let (body, _) = plain(Script::Healthy, Some("a "));
    let value: serde_json::Value = serde_json::from_str(&body).unwrap();
    assert_eq!(value["choices"][0]["message"]["content"], "\"b\" c");
    assert_eq!(value["usage"]["completion_tokens"], 2);
    assert_eq!(value["object"], "chat.completion");
    let cases = [
        (None, 0, "\"content\":\""),
        (None, 1, "\"content\":\"a "),
        (None, 2, r#""content":"a \"b\" "#),
        (None, 9, r#""content":"a \"b\" c"#),
        (Some("a"), 0, "\"content\":\""),
        (Some("a"), 1, "\"content\":\" "),
    ];
    for (begun, words, want) in cases {
        let (body, end) = plain(Script::After { words, fault: MidStream::CutFin }, begun);
        assert!(body.ends_with(want), "{begun:?} {words}: {body}");
        assert_eq!(end, End::Fin);
    }
}

#[test]
fn a_text_beyond_its_limits_is_refused() {
    assert!(Answer::new("m", 0, String::new()).is_err());
    assert!(Answer::new("m", 0, "a".repeat(TEXT_BYTES_MAX)).is_ok());
    assert!(Answer::new("m", 0, "a".repeat(TEXT_BYTES_MAX + 1)).is_err());
    assert!(Answer::new("m", 0, "a ".repeat(WORDS_MAX)).is_ok());
    assert!(Answer::new("m", 0, "a ".repeat(WORDS_MAX + 1)).is_err());
}
