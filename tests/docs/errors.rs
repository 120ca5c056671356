//! `docs/errors.md` has every code that a client, or whoever starts the process, can get, and no other.

use std::collections::BTreeSet;
use std::io;

use baton::policy::Trigger;

use super::markdown::{Row, code, rows};
use super::read;

/// Where `src/error.rs` has its table: a row is `Self::X => (status, KIND, "code", fault),`.
fn table(source: &str) -> Vec<(String, String, String)> {
    let kind = |kind: &str| match kind {
        "REQUEST" => "invalid_request_error".to_owned(),
        "UPSTREAM" => "upstream_error".to_owned(),
        literal => literal.trim_matches('"').to_owned(),
    };
    let row = |line: &str| {
        let (_, tuple) = line.trim().strip_prefix("Self::")?.split_once(" => (")?;
        let cells: Vec<&str> = tuple.strip_suffix("),")?.split(", ").collect();
        let [status, given, code, _fault] = cells[..] else { return None };
        Some((code.trim_matches('"').to_owned(), status.to_owned(), kind(given)))
    };
    source.lines().filter_map(row).collect()
}

fn section<'t>(rows: &'t [Row<'t>], name: &str) -> Vec<&'t Row<'t>> {
    let found: Vec<_> = rows.iter().filter(|row| row.section == name).collect();
    assert!(!found.is_empty(), "docs/errors.md has no table under {name:?}");
    found
}

#[test]
fn every_error_of_the_one_table_has_a_row() -> io::Result<()> {
    let (source, page) = (read("src/error.rs")?, read("docs/errors.md")?);
    let table = table(&source);
    let variants = source.lines().filter(|line| line.trim().starts_with("Self::") && line.contains("=> ("));
    assert_eq!(table.len(), variants.count(), "a row of src/error.rs was not understood");
    assert!(table.len() >= 26, "the table of src/error.rs was not found: {}", table.len());
    let rows = rows(&page);
    let documented = section(&rows, "Baton's own errors");
    for (wanted, status, kind) in &table {
        let row = documented.iter().find(|row| code(row.cells[0]) == Some(wanted));
        let row = row.unwrap_or_else(|| panic!("docs/errors.md: {wanted:?} is missing; add its row"));
        let says_status = row.cells[1] == status || row.cells[1].contains("the upstream's");
        assert!(says_status, "docs/errors.md:{}: the status of {wanted} is {status}", row.line);
        assert_eq!(code(row.cells[2]), Some(&kind[..]), "docs/errors.md:{}: {wanted}'s type", row.line);
        let says_what_to_do = row.cells[4..].iter().any(|cell| !cell.is_empty());
        assert!(says_what_to_do, "docs/errors.md:{}: say what to do about {wanted}", row.line);
    }
    for row in documented {
        let known = table.iter().any(|(known, ..)| code(row.cells[0]) == Some(known));
        assert!(known, "docs/errors.md:{}: {} is no error of src/error.rs", row.line, row.cells[0]);
    }
    Ok(())
}

#[test]
fn refusals_of_http_are_errors_of_the_one_table() -> io::Result<()> {
    let (table, page) = (table(&read("src/error.rs")?), read("docs/errors.md")?);
    let rows = rows(&page);
    for row in section(&rows, "Refusals of HTTP/1.1") {
        let stands = table
            .iter()
            .any(|(known, status, _)| code(row.cells[2]) == Some(known) && row.cells[1] == status);
        assert!(stands, "docs/errors.md:{}: src/error.rs has no such status and code", row.line);
    }
    Ok(())
}

#[test]
fn every_code_of_a_terminal_frame_has_a_row() -> io::Result<()> {
    let page = read("docs/errors.md")?;
    let rows = rows(&page);
    let documented: BTreeSet<&str> = section(&rows, "The frame that ends a broken stream")
        .iter()
        .filter_map(|row| code(row.cells[0]))
        .collect();
    let mut known: BTreeSet<&str> = Trigger::ALL.iter().map(|trigger| trigger.name()).collect();
    // What `exchange::switch` and `server::reply` say besides: tests/exchange/timers.rs, tests/actors.rs.
    known.extend(["deadline_passed", "internal_error"]);
    assert_eq!(documented, known);
    Ok(())
}

#[test]
fn every_exit_code_has_a_row() -> io::Result<()> {
    let (main, page) = (read("src/main.rs")?, read("docs/errors.md")?);
    // 0 is ExitCode::SUCCESS, 2 is what clap ends with.
    let mut known = BTreeSet::from(["0", "2"]);
    known.extend(main.lines().filter_map(|line| {
        let (_, value) = line.strip_prefix("const ")?.split_once(": u8 = ")?;
        value.strip_suffix(';')
    }));
    let rows = rows(&page);
    let documented: BTreeSet<&str> = section(&rows, "Exit codes").iter().map(|row| row.cells[0]).collect();
    assert_eq!(documented, known);
    Ok(())
}
