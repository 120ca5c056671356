//! The fuzz target `config` over its corpus, over the files of `config/`, and over all of these cut short and bent.

#[path = "../fuzz/checks/config.rs"]
mod checks;
mod corpus;

use checks::check;

fn corpus() -> Vec<(String, Vec<u8>)> {
    corpus::inputs(&["fuzz/corpus/config", "config", "config/examples"], 10)
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
        // Every length of the short inputs, some of the long ones.
        for end in (0..input.len()).step_by(1 + input.len() / 300) {
            check(&input[..end]);
        }
    }
}

/// Replaces one byte, by a fixed sequence, with one that means something to TOML or to a value.
#[test]
fn keeps_its_promises_when_bent() {
    const BYTES: &[u8] = b"\"'[]{}=.,#$0-9zZ\n\r\0/:@ ";
    let mut random = fastrand::Rng::with_seed(7);
    for (_, input) in corpus() {
        for _ in 0..200 {
            let mut bent = input.clone();
            for _ in 0..random.usize(1..4) {
                if bent.is_empty() {
                    continue;
                }
                let at = random.usize(0..bent.len());
                bent[at] = BYTES[random.usize(0..BYTES.len())];
            }
            check(&bent);
        }
    }
}
