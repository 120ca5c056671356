//! The inputs that the fuzz targets' checks are run over without libFuzzer.

use std::fs;
use std::path::Path;

/// Every file of the folders (from the project's root) with its path, sorted; `least`: so many there must be.
pub fn inputs(folders: &[&str], least: usize) -> Vec<(String, Vec<u8>)> {
    let mut inputs = Vec::new();
    for folder in folders {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if let Ok(input) = fs::read(entry.path()) {
                inputs.push((entry.path().display().to_string(), input));
            }
        }
    }
    inputs.sort();
    assert!(inputs.len() >= least, "the corpus is there: {}", inputs.len());
    inputs
}
