//! The fuzz targets of event streams, chunks and request bodies over their corpora, as they are, cut short and bent.

#[path = "../fuzz/checks/chat_frame.rs"]
mod chat_frame;
#[path = "../fuzz/checks/request_peek.rs"]
mod request_peek;
#[path = "../fuzz/checks/sse_framer.rs"]
mod sse_framer;

use std::path::Path;
use std::{fs, io};

#[test]
fn sse_framer() -> io::Result<()> {
    run("sse_framer", sse_framer::check)
}

#[test]
fn chat_frame() -> io::Result<()> {
    run("chat_frame", chat_frame::check)
}

#[test]
fn request_peek() -> io::Result<()> {
    run("request_peek", request_peek::check)
}

/// Gives every file of `fuzz/corpus/<target>` to the target's check; then parts of it, and variants with a few
/// bytes changed, drawn from a fixed seed.
fn run(target: &str, check: impl Fn(&[u8])) -> io::Result<()> {
    const BYTES: &[u8] = b"\"\\{}[]:, \r\n0-eut\xff";
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut random = fastrand::Rng::with_seed(7);
    let mut count = 0;
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        // Shown only if the check panics.
        println!("{}", path.display());
        let input = fs::read(&path)?;
        check(&input);
        for end in (0..input.len()).step_by(1 + input.len() / 200) {
            check(&input[..end]);
        }
        for _ in 0..200 {
            let mut bent = input.clone();
            for _ in 0..random.usize(1..4) {
                let at = random.usize(0..bent.len());
                bent[at] = BYTES[random.usize(0..BYTES.len())];
            }
            check(&bent);
        }
        count += 1;
    }
    assert!(count >= 8, "{} holds {count} files", folder.display());
    Ok(())
}
