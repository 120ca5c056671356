use super::*;

fn event(seq: u32, total: u32, len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    write(&mut out, seq, total, 0xfeed_0000 + u64::from(seq));
    out
}

fn answer(events: &[u32]) -> Vec<u8> {
    events.iter().flat_map(|&seq| event(seq, 4, 50)).collect()
}

fn judge(text: &[u8]) -> Result<bool, Wrong> {
    let mut check = TextCheck::default();
    check.feed(text, |_| ())?;
    Ok(check.is_whole())
}

#[test]
fn an_event_is_read_as_it_was_written() {
    for len in [BYTES_MIN, BYTES_MIN + 1, 100, 5000] {
        for seq in [0, 1, 25, 26, EVENTS_MAX - 1] {
            let mut text = vec![0; len];
            write(&mut text, seq, EVENTS_MAX, u64::MAX - u64::from(seq));
            let want = Event { seq, total: EVENTS_MAX, time_ns: u64::MAX - u64::from(seq) };
            assert_eq!(read(&text), Some(want), "{}", String::from_utf8_lossy(&text));
        }
    }
    assert_eq!(event(12, 345, 40), b"#000012:000345 00000000feed000c mnopqrs.");
}

#[test]
fn what_is_lost_doubled_or_changed_is_told() {
    let mut twice_as_long = answer(&[0]);
    twice_as_long.extend(event(1, 4, 100));
    let mut of_another = answer(&[0]);
    of_another.extend(event(1, 5, 50));
    let cases = [
        ("whole", answer(&[0, 1, 2, 3]), Ok(true)),
        ("too short", answer(&[0, 1, 2]), Ok(false)),
        ("nothing", Vec::new(), Ok(false)),
        ("one left out", answer(&[0, 1, 3]), Err(Wrong::Lost)),
        ("the first left out", answer(&[1, 2, 3]), Err(Wrong::Lost)),
        ("one twice", answer(&[0, 1, 1, 2, 3]), Err(Wrong::Doubled)),
        ("from the start again", answer(&[0, 1, 0, 1, 2, 3]), Err(Wrong::Doubled)),
        ("one too many", answer(&[0, 1, 2, 3, 4]), Err(Wrong::Changed)),
        ("another length", twice_as_long, Err(Wrong::Changed)),
        ("another total", of_another, Err(Wrong::Changed)),
        ("something else", b"Hello.".to_vec(), Err(Wrong::Changed)),
    ];
    for (name, text, want) in cases {
        assert_eq!(judge(&text), want, "{name}");
    }
}

#[test]
fn no_byte_can_be_changed_lost_or_doubled_unseen() {
    let text = answer(&[0, 1, 2, 3]);
    for at in 0..text.len() {
        let in_time = (15..31).contains(&(at % 50));
        let mut changed = text.clone();
        changed[at] ^= 1;
        assert!(in_time || judge(&changed) != Ok(true), "changed at {at}");
        let mut shorter = text.clone();
        shorter.remove(at);
        assert_ne!(judge(&shorter), Ok(true), "lost at {at}");
        let mut longer = text.clone();
        longer.insert(at, text[at]);
        assert_ne!(judge(&longer), Ok(true), "doubled at {at}");
    }
}

#[test]
fn where_the_text_is_cut_does_not_matter() {
    let text = answer(&[0, 1, 2, 3]);
    for piece in 1..=text.len() {
        let (mut check, mut times) = (TextCheck::default(), Vec::new());
        for piece in text.chunks(piece) {
            check.feed(piece, |time| times.push(time)).unwrap();
        }
        assert!(check.is_whole());
        assert_eq!(times, [0xfeed_0000, 0xfeed_0001, 0xfeed_0002, 0xfeed_0003]);
    }
}

#[test]
fn an_answer_may_be_begun_anywhere() {
    let text = answer(&[0, 1, 2, 3]);
    for len in 0..=text.len() {
        let (count, part, last) = begun(&text[..len], 50, 4).unwrap();
        assert_eq!((count as usize, part), (len / 50, len % 50));
        assert_eq!(last, if count == 0 { 0 } else { 0xfeed_0000 + u64::from(count) - 1 });
    }
    let cases = [
        ("another text", b"Before the sun is up".to_vec()),
        ("one left out", answer(&[0, 2])),
        ("more than there is", [answer(&[0, 1, 2, 3]), b"#".to_vec()].concat()),
        ("a changed end", [answer(&[0]), b"#00000 ".to_vec()].concat()),
    ];
    for (name, text) in cases {
        assert_eq!(begun(&text, 50, 4), None, "{name}");
    }
}
