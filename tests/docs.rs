//! The documentation is complete and names nothing that does not exist: error codes, rows of the failover contract.

#[cfg(test)]
#[path = "docs/contract.rs"]
mod contract;
#[cfg(test)]
#[path = "docs/errors.rs"]
mod errors;
#[path = "docs/markdown.rs"]
mod markdown;

use std::path::{Path, PathBuf};
use std::{fs, io};

fn project() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The text of one of the project's files.
fn read(path: &str) -> io::Result<String> {
    fs::read_to_string(project().join(path))
}

/// The Rust files below the project's folders, by their paths in it, in order.
fn rust_files(folders: &[&str]) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut left: Vec<PathBuf> = folders.iter().map(PathBuf::from).collect();
    while let Some(folder) = left.pop() {
        for entry in fs::read_dir(project().join(&folder))? {
            let entry = entry?;
            let path = folder.join(entry.file_name());
            let hidden = entry.file_name().to_string_lossy().starts_with('.');
            if entry.file_type()?.is_dir() && !hidden {
                left.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
