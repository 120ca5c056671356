use clap::ValueEnum;

use super::*;

fn shown(fault: Fault, io: Io, is_coloured: bool) -> (Vec<String>, String) {
    let mut out = Vec::new();
    let options = DemoOptions { once: true, fault, io };
    let mut screen = Screen { out: &mut out, is_coloured };
    let wrong = show(&options, Duration::from_millis(1), &mut screen).unwrap();
    (wrong, String::from_utf8(out).unwrap())
}

#[test]
fn every_fault_is_survived_and_the_mark_stands_where_it_struck() {
    for (at, &fault) in Fault::value_variants().iter().enumerate() {
        let io = if at % 2 == 0 { Io::Auto } else { Io::Epoll };
        let (wrong, out) = shown(fault, io, false);
        assert_eq!(wrong, [""; 0], "{fault:?}\n{out}");
        let mark = format!("⟦ upstream one {}, upstream two goes on ⟧ ", fault.told());
        let (before, after) = out.split_once(&mark).expect("a mark");
        let answer = before.split_once("\n\n").unwrap().1;
        assert_eq!(answer.split_inclusive(' ').count(), 24, "{fault:?}\n{out}");
        let whole = format!("{answer}{}", after.split_once("\n\n").unwrap().0);
        let nonce = before.split_once("mark is ").unwrap().1.split_once('.').unwrap().0;
        assert_eq!(whole, pleasant_text(nonce, WORDS));
        assert!(!out.contains('\u{1b}'), "colours only on a terminal");
    }
}

#[test]
fn what_is_told_and_coloured() {
    let (_, out) = shown(Fault::Cut, Io::Auto, true);
    assert!(out.contains("\u{1b}[1;33m⟦ upstream one was cut here, upstream two goes on ⟧\u{1b}[0m "));
    for line in [
        "  targets  one/cut-fin-after-24, then two/healthy\n",
        "  trigger  transport_error\n",
        " ms, 1 ms of which is the pace of upstream two\n",
        "  outcome  partial_recovered\n",
        "  answer   exactly the whole text, with one [DONE]\n",
    ] {
        assert!(out.contains(line), "{line}{out}");
    }
}

#[test]
fn everything_wrong_is_named() {
    let story = |outcome| Story { seen: channel().1, fault: Fault::Cut, trigger: None, seam: None, outcome };
    let good =
        Delivered { status: 200, text: "a b".to_owned(), dones: 1, strange: Vec::new(), is_whole: true };
    let recovered = Some(StreamOutcome::PartialRecovered);
    assert_eq!(faults_of(&good, "a b", &story(recovered)), [""; 0]);
    let cases = [
        (Delivered { status: 502, ..good.clone() }, recovered, "the status is 502"),
        (
            Delivered { text: "a a b".to_owned(), ..good.clone() },
            recovered,
            "the first 2 bytes of 3 are right, 5 came",
        ),
        (Delivered { dones: 0, ..good.clone() }, recovered, "[DONE] came 0 times"),
        (Delivered { dones: 2, ..good.clone() }, recovered, "[DONE] came 2 times"),
        (Delivered { is_whole: false, ..good.clone() }, recovered, "proper end"),
        (Delivered { strange: vec!["{}".to_owned()], ..good.clone() }, recovered, "came: {}"),
        (good.clone(), Some(StreamOutcome::Success), "the outcome is success"),
        (good.clone(), None, "the outcome is not told"),
    ];
    for (delivered, outcome, want) in cases {
        let wrong = faults_of(&delivered, "a b", &story(outcome));
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(wrong[0].contains(want), "{wrong:?}");
        assert!(summary(&story(outcome), GAP, &wrong).contains(want));
    }
}
