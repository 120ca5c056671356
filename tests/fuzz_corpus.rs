//! Runs the committed corpus of every fuzz target with the target's own checks, without libFuzzer.

use std::{fs, io, path::Path};

#[path = "../fuzz/checks/chunked_body.rs"]
mod chunked_body;
#[path = "../fuzz/checks/request_head.rs"]
mod request_head;
#[path = "../fuzz/checks/response_head.rs"]
mod response_head;

#[test]
fn request_head() -> io::Result<()> {
    run("request_head", request_head::check)
}

#[test]
fn response_head() -> io::Result<()> {
    run("response_head", response_head::check)
}

#[test]
fn chunked_body() -> io::Result<()> {
    run("chunked_body", chunked_body::check)
}

/// Gives every file of `fuzz/corpus/<target>` to the target's check.
fn run(target: &str, check: impl Fn(&[u8])) -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(target);
    let mut count = 0;
    for entry in fs::read_dir(&folder)? {
        let path = entry?.path();
        // Shown only if the check panics.
        println!("{}", path.display());
        check(&fs::read(&path)?);
        count += 1;
    }
    assert!(count > 0, "{} is empty", folder.display());
    Ok(())
}
