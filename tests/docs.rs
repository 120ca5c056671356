//! The documentation is complete and names nothing that does not exist: error codes, rows of the failover contract.

#[cfg(test)]
#[path = "docs/errors.rs"]
mod errors;
#[path = "docs/markdown.rs"]
mod markdown;

use std::path::Path;
use std::{fs, io};

/// The text of one of the project's files.
fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}
