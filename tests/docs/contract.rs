//! Every row of `docs/failover.md` has a number, and a test that quotes it: `[B1]`, `[A6, B13]`.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::markdown::rows;
use super::{read, rust_files};

/// The tables, by the letter of their numbers: before the commit, after it, cooldown, gates, completion,
/// continuation, seam, what the client sees, headers, errors, decisions.
const LETTERS: [char; 11] = ['B', 'A', 'K', 'G', 'C', 'R', 'S', 'W', 'H', 'E', 'D'];

/// `B12`: one of the letters and a number from 1.
fn is_number(text: &str) -> bool {
    let Some((letter, digits)) = text.split_at_checked(1) else { return false };
    letter.starts_with(LETTERS)
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && digits.parse::<u32>().is_ok_and(|number| (1..100).contains(&number))
        && !digits.starts_with('0')
}

/// What a text quotes between brackets.
fn quotes(text: &str) -> impl Iterator<Item = &str> {
    text.split('[').skip(1).filter_map(|rest| rest.split_once(']')).flat_map(|(inner, _)| {
        let all = inner.split(", ").all(is_number);
        inner.split(", ").filter(move |_| all)
    })
}

/// The part of a source file that is tests: all of it, or what follows the first `#[cfg(test)]`.
fn tests_of<'t>(path: &Path, text: &'t str) -> &'t str {
    let is_source = path.starts_with("src");
    let is_all_tests = !is_source || path.ends_with("tests.rs") || path.iter().any(|part| part == "tests");
    if is_all_tests { text } else { text.split_once("#[cfg(test)]").map_or("", |(_, tests)| tests) }
}

#[test]
fn every_row_has_a_number_of_its_own_in_order() -> io::Result<()> {
    let page = read("docs/failover.md")?;
    let mut last: BTreeMap<char, u32> = BTreeMap::new();
    for row in rows(&page) {
        // The glossary on top lists words, not rules.
        if row.header[0] == "Word" {
            continue;
        }
        let place = format!("docs/failover.md:{}", row.line);
        let number = row.cells[0];
        assert!(is_number(number), "{place}: a row begins with its number, not {number:?}");
        let (letter, digits) = number.split_at(1);
        let last = last.entry(letter.chars().next().unwrap_or_default()).or_default();
        *last += 1;
        assert_eq!(digits, last.to_string(), "{place}: the numbers of {letter} rise by one");
    }
    assert_eq!(last.len(), LETTERS.len(), "a table is missing: {last:?}");
    Ok(())
}

#[test]
fn every_row_is_quoted_by_a_test_and_nothing_else_is() -> io::Result<()> {
    let page = read("docs/failover.md")?;
    let documented: BTreeSet<&str> =
        rows(&page).iter().map(|row| row.cells[0]).filter(|number| is_number(number)).collect();
    let mut quoted: BTreeMap<String, String> = BTreeMap::new();
    for path in rust_files(&["src", "tests"])? {
        // This file's own examples show nothing.
        if path.starts_with("tests/docs") {
            continue;
        }
        let shown = path.to_string_lossy().into_owned();
        for number in quotes(tests_of(&path, &read(&shown)?)) {
            quoted.entry(number.to_owned()).or_insert_with(|| shown.clone());
        }
    }
    let unknown: Vec<_> = quoted.iter().filter(|(number, _)| !documented.contains(number.as_str())).collect();
    assert!(unknown.is_empty(), "tests quote rows that docs/failover.md does not have: {unknown:?}");
    let unshown: Vec<_> = documented.iter().filter(|number| !quoted.contains_key(**number)).collect();
    assert!(
        unshown.is_empty(),
        "no test quotes these rows of docs/failover.md; write one, with the number in brackets: {unshown:?}"
    );
    Ok(())
}

#[test]
fn quotes_are_numbers_in_brackets() {
    let text = "// [B1]\n(\"cut [B4, A20]\", [1]) #[test] [B0] [B1, x] [F3] [B100] [A1]";
    assert_eq!(quotes(text).collect::<Vec<_>>(), ["B1", "B4", "A20", "A1"]);
}
