//! The fuzz target `exchange` over its corpus, and over all of it with steps left out, doubled, swapped and bent.

#[path = "../fuzz/checks/exchange.rs"]
mod checks;
mod corpus;

use checks::check;

fn corpus() -> Vec<(String, Vec<u8>)> {
    corpus::inputs(&["fuzz/corpus/exchange"], 20)
}

#[test]
fn keeps_its_promises_over_the_corpus() {
    for (name, input) in corpus() {
        println!("{name}");
        check(&input);
    }
}

#[test]
fn keeps_its_promises_when_cut_short() {
    for (_, input) in corpus() {
        (0..input.len()).for_each(|end| check(&input[..end]));
    }
}

/// Steps of all inputs in any order, by a fixed sequence; `FUZZ_ROUNDS=N` takes more of them.
#[test]
fn keeps_its_promises_when_mixed() {
    let rounds = std::env::var("FUZZ_ROUNDS").ok().and_then(|value| value.parse().ok()).unwrap_or(1_500);
    let corpus = corpus();
    let lines: Vec<&[u8]> = corpus.iter().flat_map(|(_, input)| input.split(|byte| *byte == b'\n')).collect();
    let mut random = fastrand::Rng::with_seed(11);
    for _ in 0..rounds {
        let (_, begin) = &corpus[random.usize(..corpus.len())];
        let mut steps: Vec<Vec<u8>> = begin.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(1..=steps.len());
            match random.u8(..4) {
                0 => drop(steps.get(at).is_some().then(|| steps.remove(at))),
                1 => steps[at - 1] = bent(&steps[at - 1], &mut random),
                _ => steps.insert(at, lines[random.usize(..lines.len())].to_vec()),
            }
        }
        let input = steps.join(&b'\n');
        println!("{}", input.escape_ascii());
        check(&input);
    }
}

/// With one byte replaced by one that means something.
fn bent(line: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    const BYTES: &[u8] = b"\"{}[]:,\\~^<>0123456789abcdefnrutx\xff ";
    let mut line = line.to_vec();
    if !line.is_empty() {
        let at = random.usize(..line.len());
        line[at] = BYTES[random.usize(..BYTES.len())];
    }
    line
}
