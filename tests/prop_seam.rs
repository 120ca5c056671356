//! The seam under any text: whatever its rule can tell apart, the client's text is the answer.
//!
//! What cannot be told apart stands here in a second, plainer wording than the engine's own (`Rule`); such inputs
//! are passed over.

#[path = "exchange_support/mod.rs"]
mod support;

use baton::policy::ContinuationMode::{self, Instruct, Prefill};
use proptest::prelude::*;

use support::words::{DONE, escaped, finish_b, raw_text, role_b};
use support::{Setup, World};

/// Texts of few different pieces, so that their parts are easily mistaken for one another.
fn texts() -> impl Strategy<Value = String> {
    let piece = prop::sample::select(vec![
        "a", "b", " ", "  ", "\n", "the ", "sea ", "ha ", "| 1 |\n", "    }\n", "😀", "é", "\"", "\\", "/",
    ]);
    let odd = prop_oneof![3 => piece.prop_map(str::to_owned), 2 => "[a-z]{1,6} ", 1 => "\\PC{1,3}"];
    prop::collection::vec(odd, 1..60).prop_map(|pieces| pieces.concat())
}

/// What the upstream that carries on says.
#[derive(Clone, Copy, Debug)]
enum Says {
    TheRest,
    AllOfIt,
    /// The last so many characters, and the rest.
    TheEndAgain(usize),
}

#[derive(Clone, Debug)]
struct Case {
    answer: String,
    /// Where it is cut, a share of its characters.
    cut: usize,
    says: Says,
    mode: ContinuationMode,
    /// How long the deltas are, in characters.
    delta: usize,
}

fn cases() -> impl Strategy<Value = Case> {
    let says =
        prop_oneof![Just(Says::TheRest), Just(Says::AllOfIt), (6..60usize).prop_map(Says::TheEndAgain)];
    let mode = prop_oneof![Just(Instruct), Just(Prefill)];
    (texts(), any::<prop::sample::Index>(), says, mode, 1..20usize).prop_map(
        |(answer, cut, says, mode, delta)| {
            let cut = cut.index(answer.chars().count()) + 1;
            Case { answer, cut, says, mode, delta }
        },
    )
}

impl Case {
    /// The partial, and what is said behind it; None: there is no such case.
    fn texts(&self) -> Option<(String, String)> {
        let chars: Vec<char> = self.answer.chars().collect();
        let (partial, rest) = chars.split_at(self.cut);
        let said: String = match self.says {
            Says::TheRest => rest.iter().collect(),
            Says::AllOfIt => self.answer.clone(),
            Says::TheEndAgain(count) if count < partial.len() => {
                partial[partial.len() - count..].iter().chain(rest).collect()
            }
            Says::TheEndAgain(_) => return None,
        };
        Some((partial.iter().collect(), said))
    }
}

fn units(text: &str) -> Vec<u16> {
    text.encode_utf16().collect()
}

fn is_space(unit: u16) -> bool {
    matches!(unit, 0x20 | 0x09..=0x0d | 0xa0)
}

/// Runs of white space as one space.
fn normal(units: &[u16]) -> Vec<u16> {
    let mut out: Vec<u16> = units.iter().map(|unit| if is_space(*unit) { 0x20 } else { *unit }).collect();
    out.dedup_by(|a, b| *a == 0x20 && *b == 0x20);
    out
}

fn is_periodic(text: &[u16]) -> bool {
    (1..=text.len() / 2).any(|shift| text[shift..] == text[..text.len() - shift])
}

/// What the rule of the seam can make of `said` behind `partial`.
struct Rule {
    starts_like: bool,
    /// The lengths, white space normalised, of the partial's ends that `said` begins with.
    ends: Vec<usize>,
    doubles_space: bool,
}

impl Rule {
    fn new(partial: &str, said: &str, mode: ContinuationMode) -> Self {
        let (partial, said) = (units(partial), units(said));
        let needed = if mode == Prefill { 32 } else { partial.len().min(12) };
        let starts_like = partial.len() >= needed
            && !is_periodic(&partial)
            && said.starts_with(&partial[..needed.min(partial.len())]);
        let (tail, head) = (normal(&partial), normal(&said));
        let ends = (1..tail.len()).filter(|len| head.starts_with(&tail[tail.len() - len..])).collect();
        let doubles_space = partial.last().is_some_and(|unit| is_space(*unit))
            && said.first().is_some_and(|unit| is_space(*unit));
        Self { starts_like, ends, doubles_space }
    }

    /// Whether it must find out that `says` is what was said.
    fn tells(&self, says: Says, partial: &str, rest: &str, mode: ContinuationMode) -> bool {
        let could_overlap = mode == Instruct && self.ends.iter().any(|len| *len >= 6);
        match says {
            Says::TheRest => !(self.starts_like || could_overlap || (mode == Instruct && self.doubles_space)),
            Says::AllOfIt => self.starts_like && !could_overlap,
            Says::TheEndAgain(count) => {
                let chars: Vec<char> = partial.chars().collect();
                let again: String = chars[chars.len() - count..].iter().collect();
                let end = normal(&units(&again));
                let is_longest = self.ends.last() == Some(&end.len()) && (6..=200).contains(&end.len());
                let space_is_clear =
                    !Rule::new(partial, rest, mode).doubles_space && !begins_within_space(partial, count);
                mode == Instruct && is_longest && !self.starts_like && !is_periodic(&end) && space_is_clear
            }
        }
    }
}

/// The last characters begin in the middle of white space, or the partial ends in some that the rest may go on with.
fn begins_within_space(partial: &str, count: usize) -> bool {
    let chars: Vec<char> = partial.chars().collect();
    let at = chars.len() - count;
    let is_space = |c: char| c.encode_utf16(&mut [0; 2]).iter().all(|unit| is_space(*unit));
    is_space(chars[at]) && at > 0 && is_space(chars[at - 1])
}

/// Cuts behind the partial and lets the second target say it; gives the text that the client has, and the seam.
fn join(partial: &str, said: &[String], mode: ContinuationMode) -> (Option<String>, Vec<&'static str>) {
    let mut world = World::new(&Setup::stream(&[mode; 2]));
    world.ok(0).send(0, raw_text("a", &escaped(partial))).fin(0).ok(1).send(1, role_b());
    for delta in said {
        world.send(1, raw_text("bb", delta));
    }
    world.send(1, finish_b() + DONE);
    let text = world.client.is_complete().then(|| world.client.answer());
    assert!(text.is_some() || world.client.is_visibly_broken());
    (text, world.seams())
}

fn in_deltas(text: &str, len: usize) -> Vec<String> {
    let chars: Vec<char> = text.chars().collect();
    chars.chunks(len).map(|delta| delta.iter().collect()).collect()
}

fn raw(deltas: &[String]) -> Vec<String> {
    deltas.iter().map(|delta| escaped(delta)).collect()
}

/// Every character as an escape.
fn spelt(deltas: &[String]) -> Vec<String> {
    let spell = |delta: &String| delta.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect();
    deltas.iter().map(spell).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { max_global_rejects: 1_000_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_can_be_told_apart_makes_the_answer(case in cases()) {
        let Some((partial, said)) = case.texts() else { return Err(TestCaseError::reject("no such case")) };
        let rest = &case.answer[partial.len()..];
        prop_assume!(Rule::new(&partial, &said, case.mode).tells(case.says, &partial, rest, case.mode));
        let (text, seams) = join(&partial, &raw(&in_deltas(&said, case.delta)), case.mode);
        prop_assert_eq!(text.as_deref(), Some(&*case.answer));
        let want = match (case.says, case.mode) {
            (Says::AllOfIt, _) => "restart",
            (Says::TheEndAgain(_), _) => "overlap",
            (Says::TheRest, Prefill) => "exact",
            (Says::TheRest, _) => "none",
        };
        prop_assert_eq!(seams, [want]);
    }

    #[test]
    fn how_a_text_is_spelt_and_cut_makes_no_difference(case in cases(), other in 1..20usize) {
        let Some((partial, said)) = case.texts() else { return Err(TestCaseError::reject("no such case")) };
        let want = join(&partial, &raw(&in_deltas(&said, case.delta)), case.mode);
        prop_assert_eq!(join(&partial, &spelt(&in_deltas(&said, case.delta)), case.mode), want.clone(), "spelt");
        prop_assert_eq!(join(&partial, &raw(&in_deltas(&said, other)), case.mode), want, "cut");
    }

    /// "ha ha ha", tables, code: what repeats itself may well go on doing so.
    #[test]
    fn natively_nothing_is_taken_from_a_text_that_repeats_itself(
        line in prop_oneof![Just("ha ".to_owned()), Just("| 1 | 2 |\n".to_owned()), Just("    }\n".to_owned()), texts()],
        times in 2..30usize,
        more in 0..30usize,
        end in texts(),
        delta in 1..20usize,
    ) {
        let (partial, said) = (line.repeat(times), line.repeat(more) + &end);
        let (text, seams) = join(&partial, &raw(&in_deltas(&said, delta)), Prefill);
        prop_assert_eq!(text, Some(partial + &said));
        prop_assert_eq!(seams, ["exact"]);
    }

    /// Whatever is said, only a literal repeat is ever taken out of it, and never the client's own text.
    #[test]
    fn nothing_but_a_repeat_is_removed(case in cases(), said in texts()) {
        let partial: String = case.answer.chars().take(case.cut).collect();
        let (text, _) = join(&partial, &raw(&in_deltas(&said, case.delta)), case.mode);
        if let Some(text) = text {
            let new = text.strip_prefix(&partial);
            prop_assert!(new.is_some_and(|new| said.ends_with(new)), "{:?}", text);
            let removed = &said[..said.len() - new.map_or(0, str::len)];
            let (removed, kept) = (normal(&units(removed)), normal(&units(&partial)));
            let trimmed = removed.strip_suffix(&[0x20]).unwrap_or(&removed);
            prop_assert!(kept.ends_with(&removed) || kept.ends_with(trimmed) || removed == kept, "{:?}", removed);
        }
    }
}
