//! Just enough of Markdown: the rows of its tables, by section.

/// One row of a table, without its header and its ruler.
#[derive(Debug, PartialEq, Eq)]
pub struct Row<'t> {
    /// From 1.
    pub line: usize,
    /// The heading that it stands under, without the `#`s.
    pub section: &'t str,
    /// The cells of the table's header.
    pub header: Vec<&'t str>,
    pub cells: Vec<&'t str>,
}

/// Every row of every table.
pub fn rows(text: &str) -> Vec<Row<'_>> {
    let mut rows = Vec::new();
    let (mut section, mut header) = ("", None::<Vec<&str>>);
    for (at, line) in text.lines().enumerate() {
        if let Some(heading) = line.strip_prefix('#') {
            section = heading.trim_start_matches('#').trim();
        }
        let Some(cells) = cells(line) else {
            header = None;
            continue;
        };
        match &header {
            None => header = Some(cells),
            Some(_) if cells.iter().all(|cell| cell.starts_with("---")) => {}
            Some(header) => rows.push(Row { line: at + 1, section, header: header.clone(), cells }),
        }
    }
    rows
}

/// A `|` within a cell is written `\|`.
fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.strip_prefix('|')?.strip_suffix('|')?;
    let (mut cells, mut start) = (Vec::new(), 0);
    for (at, _) in inner.match_indices('|').filter(|(at, _)| !inner[..*at].ends_with('\\')) {
        cells.push(inner[start..at].trim());
        start = at + 1;
    }
    cells.push(inner[start..].trim());
    Some(cells)
}

/// The text between the backticks of a cell that is nothing else.
pub fn code(cell: &str) -> Option<&str> {
    cell.strip_prefix('`')?.strip_suffix('`').filter(|inner| !inner.contains('`'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_know_their_section_and_header() {
        let text = "# A\n| x | y |\n|---|---|\n| `1` | a \\| b |\n\n## B\n| z |\n|---|\n| `c` d |\n";
        let header = vec!["x", "y"];
        let first = Row { line: 4, section: "A", header, cells: vec!["`1`", "a \\| b"] };
        let second = Row { line: 9, section: "B", header: vec!["z"], cells: vec!["`c` d"] };
        assert_eq!(rows(text), [first, second]);
        assert_eq!([code("`1`"), code("`c` d"), code("c")], [Some("1"), None, None]);
    }
}
