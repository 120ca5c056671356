//! The bugs that `tests/planted/run.sh` plants still fit the code: each text to be replaced is there exactly once.
//!
//! That the simulator catches them is shown by the script alone, since every bug takes a build.

use std::path::Path;
use std::{fs, io};

/// The fewest bugs that say anything of the simulator.
const BUGS_MIN: usize = 10;

struct Bug {
    title: String,
    source: String,
    /// What is replaced and by what, whole lines.
    blocks: Vec<(String, String)>,
}

/// Reads a title, a source file, and blocks `--- find` and `--- put`.
fn read_bug(text: &str) -> Bug {
    let mut lines = text.lines();
    let mut line = || lines.next().unwrap_or_default().to_owned();
    let (title, source) = (line(), line());
    let mut blocks: Vec<(String, String)> = Vec::new();
    let mut is_put = false;
    for line in lines {
        match line {
            "--- find" => {
                blocks.push(Default::default());
                is_put = false;
            }
            "--- put" => is_put = true,
            _ => {
                if let Some((find, put)) = blocks.last_mut() {
                    let part = if is_put { put } else { find };
                    part.push_str(line);
                    part.push('\n');
                }
            }
        }
    }
    Bug { title, source, blocks }
}

#[test]
fn every_planted_bug_fits_the_code() -> io::Result<()> {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut count = 0;
    for entry in fs::read_dir(project.join("tests/planted/bugs"))? {
        let path = entry?.path();
        let shown = path.display();
        let bug = read_bug(&fs::read_to_string(&path)?);
        assert!(!bug.title.is_empty() && !bug.blocks.is_empty(), "{shown}: a title, a file, blocks");
        assert!(bug.source.starts_with("src/exchange/"), "{shown}: bugs are planted in src/exchange");
        let source = fs::read_to_string(project.join(&bug.source))?;
        for (find, put) in &bug.blocks {
            assert_ne!(find, put, "{shown}: nothing is changed");
            let found = source.matches(find.as_str()).count();
            assert_eq!(found, 1, "{shown}: how often this stands in {}:\n{find}", bug.source);
        }
        count += 1;
    }
    assert!(count >= BUGS_MIN, "{count} bugs are too few");
    Ok(())
}
