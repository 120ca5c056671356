//! The rules of the house, kept as a test: layers, pure code without effects, short files and functions, no
//! leftovers.
//!
//! A breach is reported as `file:line: what, and the repair`. The rules and their tables are in
//! `tests/house/rules.rs`; that each of them catches what it is for is shown in `tests/house/planted.rs`.

#[path = "house/items.rs"]
mod items;
#[path = "house/lexer.rs"]
mod lexer;
#[cfg(test)]
#[path = "house/planted.rs"]
mod planted;
#[path = "house/rules.rs"]
mod rules;

use std::path::{Path, PathBuf};
use std::{fs, io};

use rules::File;

/// Where the project's Rust files are.
const ROOTS: [&str; 5] = ["src", "loadtest/src", "benches", "tests", "fuzz/fuzz_targets"];

#[test]
fn the_house_is_in_order() -> io::Result<()> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut paths = Vec::new();
    for root in ROOTS {
        rust_files(&project.join(root), &mut paths)?;
    }
    assert!(
        paths.iter().any(|path| path.ends_with("src/lib.rs")),
        "found no src/lib.rs: the search is broken"
    );
    let mut breaches = Vec::new();
    for path in paths {
        let text = fs::read_to_string(&path)?;
        let shown = path.strip_prefix(project).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        breaches.extend(File::new(&shown, &text).breaches());
    }
    let report: Vec<_> = breaches.iter().map(|breach| format!("\n  {breach}")).collect();
    assert!(report.is_empty(), "{} breaches of the house rules:{}", report.len(), report.concat());
    Ok(())
}

/// The Rust files below `directory`, in order; none if it does not exist. Hidden directories are not ours.
fn rust_files(directory: &Path, paths: &mut Vec<PathBuf>) -> io::Result<()> {
    if !directory.is_dir() {
        return Ok(());
    }
    let mut entries = fs::read_dir(directory)?.collect::<io::Result<Vec<_>>>()?;
    entries.sort_by_key(fs::DirEntry::path);
    for entry in entries {
        let path = entry.path();
        let hidden = entry.file_name().to_string_lossy().starts_with('.');
        if entry.file_type()?.is_dir() && !hidden {
            rust_files(&path, paths)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            paths.push(path);
        }
    }
    Ok(())
}
