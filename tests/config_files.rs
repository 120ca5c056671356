//! Every config a reader of this project may copy is one that Baton accepts: the files of `config/` and each
//! `toml` block of the README and of `docs/`.
//!
//! A block that is only a part of a config is marked ` ```toml part `: it is then read over the smallest whole
//! config, in place of the tables it has itself. One that shows a mistake is marked ` ```toml wrong `.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use baton::config::{Config, ConfigError, Sources, parse};

/// What a part needs to be whole; of the two tables those are left out that the part has itself.
const UPSTREAM: &str = "\n[upstreams.primary]\nbase_url = \"https://api.example.com/v1\"\n";
const ROUTE: &str = "\n[routes.chat]\ntargets = [{ upstream = \"primary\", model = \"m\" }]\n";

fn load(text: &str) -> Result<Config, Vec<ConfigError>> {
    let env = |name: &str| {
        let digest = name.ends_with("SHA256");
        Some(if digest { "0".repeat(64) } else { format!("value-of-{name}") })
    };
    let read_file = |_: &Path| -> io::Result<Vec<u8>> { Ok(b"key-from-a-file\n".to_vec()) };
    parse(text, &Sources { env: &env, read_file: &read_file })
}

fn files_below(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_below(&path, extension));
        } else if path.extension().is_some_and(|given| given == extension) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn listed(errors: &[ConfigError]) -> String {
    errors.iter().map(|error| format!("\n  {error}")).collect()
}

/// The blocks of a Markdown text: the line of the fence, what follows `toml` on it, and the text.
fn toml_blocks(markdown: &str) -> Vec<(usize, String, String)> {
    let mut blocks = Vec::new();
    let mut lines = markdown.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let Some(info) = line.trim_start().strip_prefix("```") else { continue };
        let body: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| line.trim_start() != "```").collect();
        if let Some(mark) = info.trim().strip_prefix("toml") {
            blocks.push((index + 1, mark.trim().to_owned(), body.join("\n")));
        }
    }
    blocks
}

#[test]
fn every_file_of_config_loads() {
    let files = files_below(&root().join("config"), "toml");
    assert!(files.len() >= 4, "config/ has its files: {files:?}");
    for file in files {
        let text = fs::read_to_string(&file).unwrap();
        if let Err(errors) = load(&text) {
            panic!("{}:{}", file.display(), listed(&errors));
        }
    }
}

#[test]
fn every_block_of_the_docs_loads_or_is_marked() {
    let mut documents = files_below(&root().join("docs"), "md");
    documents.extend(Some(root().join("README.md")).filter(|readme| readme.exists()));
    for document in documents {
        let text = fs::read_to_string(&document).unwrap();
        for (line, mark, block) in toml_blocks(&text) {
            let place = format!("{}:{line}", document.display());
            match mark.as_str() {
                "" => {
                    if let Err(errors) = load(&block) {
                        panic!("{place}:{}", listed(&errors));
                    }
                }
                "part" => {
                    let mut whole = block.clone();
                    whole.extend((!block.contains("[upstreams")).then_some(UPSTREAM));
                    whole.extend((!block.contains("[routes")).then_some(ROUTE));
                    if let Err(errors) = load(&whole) {
                        panic!("{place}, over the smallest config:{}", listed(&errors));
                    }
                }
                "wrong" => assert!(load(&block).is_err(), "{place}: is marked as wrong but loads"),
                other => panic!("{place}: unknown mark {other:?}; use none, part or wrong"),
            }
        }
    }
}

#[test]
fn blocks_are_found_with_their_lines_and_marks() {
    let markdown = "a\n```toml\nx = 1\n```\n```sh\n```toml\n```\n  ```toml part\ny\n  ```\n";
    let want = [(2, "", "x = 1"), (8, "part", "y")];
    let found = toml_blocks(markdown);
    let found: Vec<_> = found.iter().map(|(at, mark, body)| (*at, mark.as_str(), body.as_str())).collect();
    assert_eq!(found, want);
}

/// The documented defaults are the built-in ones: taking any single line out of the reference changes nothing.
#[test]
fn the_reference_says_the_defaults() {
    let text = fs::read_to_string(root().join("config/baton.toml")).unwrap();
    let whole = load(&text).unwrap_or_else(|errors| panic!("{}", listed(&errors)));
    let examples_begin = text.find("[keys.team-a]").unwrap();
    let mut left_out = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        let here = offset;
        offset += line.len();
        let is_default = line.contains(" = ") && !line.starts_with(['#', ' ']);
        let key = line.split(" = ").next().unwrap_or_default();
        let example = here > examples_begin
            && ["sha256", "base_url", "api_key", "api_key_file", "targets", "stream_failure"].contains(&key);
        if !is_default || example {
            continue;
        }
        let without = format!("{}{}", &text[..here], &text[offset..]);
        let mut loaded = load(&without).unwrap_or_else(|errors| panic!("without {key}:{}", listed(&errors)));
        loaded.revision.clone_from(&whole.revision);
        assert_eq!(loaded, whole, "without {key}");
        left_out += 1;
    }
    assert!(left_out > 50, "the reference has its defaults: {left_out}");
}
