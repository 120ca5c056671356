//! Walks the spanned TOML document: which keys are there, which are unknown, and where each value stands.
//!
//! Reading never stops at an error: a value that cannot be used is reported and the default stays in its place.

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{ConfigError, Sources};

/// A place in the file, as an error names it.
#[derive(Clone, Debug)]
pub struct Spot {
    /// Offset in the text; none for what is not in the file.
    offset: Option<usize>,
    pub key: String,
}

impl Spot {
    /// A key that the file lacks.
    pub fn missing(key: &str) -> Self {
        Self { offset: None, key: key.to_owned() }
    }

    /// The place of a key below this one, at this one's line.
    pub fn below(&self, key: &str) -> Self {
        let segment = key_segment(key);
        let key = if self.key.is_empty() { segment } else { format!("{}.{segment}", self.key) };
        Self { offset: self.offset, key }
    }
}

/// The errors so far, and what is needed to find more.
pub struct Reader<'s> {
    pub sources: &'s Sources<'s>,
    /// Offsets at which the lines begin.
    line_starts: Vec<usize>,
    errors: Vec<ConfigError>,
}

impl<'s> Reader<'s> {
    pub fn new(text: &str, sources: &'s Sources<'s>) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, byte)| *byte == b'\n').map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(after_breaks).collect();
        Self { sources, line_starts, errors: Vec::new() }
    }

    /// Adds an error. Names and file texts may be part of `message`: what cannot be printed is escaped here.
    pub fn report(&mut self, at: &Spot, message: impl AsRef<str>) {
        let line = at.offset.map(|offset| self.line(offset));
        let mut shown = String::with_capacity(message.as_ref().len());
        for c in message.as_ref().chars() {
            if is_printable(c) { shown.push(c) } else { shown.extend(c.escape_debug()) }
        }
        self.errors.push(ConfigError { line, key: at.key.clone(), message: shown });
    }

    /// The line, counted from 1, in which `offset` stands.
    fn line(&self, offset: usize) -> usize {
        self.line_starts.partition_point(|start| *start <= offset)
    }

    /// All errors by line, each once: what is wrong in `[defaults]` shows again in every route.
    pub fn into_errors(mut self) -> Vec<ConfigError> {
        self.errors.sort();
        self.errors.dedup();
        self.errors
    }
}

/// A value and its place.
#[derive(Clone)]
pub struct Node<'d> {
    pub at: Spot,
    value: &'d DeValue<'d>,
    /// Whether an error must not repeat the value.
    secret: bool,
}

impl<'d> Node<'d> {
    fn new(at: Spot, value: &'d Spanned<DeValue<'d>>, secret: bool) -> Self {
        Self { at: Spot { offset: Some(value.span().start), ..at }, value: value.get_ref(), secret }
    }

    pub fn value(&self) -> &'d DeValue<'d> {
        self.value
    }

    /// The same value, never shown.
    pub fn secret(mut self) -> Self {
        self.secret = true;
        self
    }

    /// The value for an error text: as written in the file, escaped, cut short; its type where it is a secret.
    pub fn seen(&self) -> String {
        /// Arbitrary: enough to recognise it, short enough for a log line.
        const SHOWN_MAX: usize = 60;
        let shown = match self.value {
            DeValue::Array(_) | DeValue::Table(_) => return kind(self.value).to_owned(),
            _ if self.secret => return format!("{} (not shown)", kind(self.value)),
            DeValue::String(text) => text.as_ref().to_owned(),
            DeValue::Integer(number) => return shorten(&number.to_string(), SHOWN_MAX),
            DeValue::Float(number) => return shorten(number.as_str(), SHOWN_MAX),
            DeValue::Boolean(flag) => return flag.to_string(),
            DeValue::Datetime(time) => return time.to_string(),
        };
        format!("\"{}\"", shorten(&shown, SHOWN_MAX).escape_debug())
    }

    /// Reports that the value is of another type.
    pub fn wrong_type(&self, reader: &mut Reader<'_>, expected: &str) {
        let seen = match self.value {
            DeValue::Array(_) | DeValue::Table(_) => kind(self.value).to_owned(),
            _ if self.secret => kind(self.value).to_owned(),
            _ => format!("{} is {}", self.seen(), kind(self.value)),
        };
        reader.report(&self.at, format!("{seen}; expected {expected}"));
    }

    /// The members of an array, at most `max`.
    pub fn items(&self, reader: &mut Reader<'_>, max: usize, expected: &str) -> Option<Vec<Self>> {
        let Some(array) = self.value.as_array() else {
            self.wrong_type(reader, expected);
            return None;
        };
        if array.len() > max {
            reader.report(&self.at, format!("{} entries; at most {max} are allowed", array.len()));
        }
        let item = |(index, value)| {
            let at = Spot { offset: None, key: format!("{}[{index}]", self.at.key) };
            Self::new(at, value, self.secret)
        };
        Some(array.iter().take(max).enumerate().map(item).collect())
    }

    /// The value as a table; an empty one, with the error reported, if it is none.
    pub fn section(&self, reader: &mut Reader<'_>) -> Section<'d> {
        let table = self.value.as_table();
        if table.is_none() {
            self.wrong_type(reader, "a table");
        }
        Section { at: self.at.clone(), table, secret: self.secret, known: Vec::new(), later: &[] }
    }
}

/// A table whose keys are ticked off as they are read.
pub struct Section<'d> {
    pub at: Spot,
    table: Option<&'d DeTable<'d>>,
    secret: bool,
    known: Vec<&'static str>,
    later: &'static [&'static str],
}

impl<'d> Section<'d> {
    /// The whole file.
    pub fn root(table: &'d DeTable<'d>) -> Self {
        Self { at: Spot::missing(""), table: Some(table), secret: false, known: Vec::new(), later: &[] }
    }

    /// Whether the file has this table: only then can a member be missing from it.
    pub fn is_given(&self) -> bool {
        self.table.is_some()
    }

    /// Names keys that will mean something one day.
    pub fn later(mut self, keys: &'static [&'static str]) -> Self {
        self.later = keys;
        self
    }

    /// The value of `key`, which is known from now on.
    pub fn node(&mut self, key: &'static str) -> Option<Node<'d>> {
        if !self.known.contains(&key) {
            self.known.push(key);
        }
        let value = self.table?.get(key)?;
        Some(Node::new(self.at.below(key), value, self.secret))
    }

    /// The table under `key`; an empty one if it is not given.
    pub fn section(&mut self, reader: &mut Reader<'_>, key: &'static str) -> Section<'d> {
        match self.node(key) {
            Some(node) => node.section(reader),
            None => Section {
                at: self.at.below(key),
                table: None,
                secret: self.secret,
                known: vec![],
                later: &[],
            },
        }
    }

    /// Puts what `how` makes of the value of `key` into `into`; leaves it as it is when there is none to be had.
    pub fn read<T>(
        &mut self,
        reader: &mut Reader<'_>,
        key: &'static str,
        into: &mut T,
        how: impl FnOnce(&Node<'d>, &mut Reader<'_>) -> Option<T>,
    ) {
        if let Some(value) = self.node(key).and_then(|node| how(&node, reader)) {
            *into = value;
        }
    }

    /// Every member of a table whose keys are names, by name; at most `max`.
    pub fn members(&self, reader: &mut Reader<'_>, max: usize) -> Vec<(String, Node<'d>)> {
        let Some(table) = self.table else { return Vec::new() };
        if table.len() > max {
            reader.report(&self.at, format!("{} entries; at most {max} are allowed", table.len()));
        }
        let member = |(key, value): (&'d Spanned<_>, _)| {
            let name: &str = AsRef::<std::borrow::Cow<'d, str>>::as_ref(key);
            let mut node = Node::new(self.at.below(name), value, self.secret);
            node.at.offset = Some(key.span().start);
            (name.to_owned(), node)
        };
        let mut members: Vec<_> = table.iter().take(max).map(member).collect();
        members.sort_by(|a, b| a.0.cmp(&b.0));
        members
    }

    /// Reports the keys that nobody asked for.
    pub fn finish(self, reader: &mut Reader<'_>) {
        for (key, value) in self.table.into_iter().flatten() {
            let name: &str = AsRef::<std::borrow::Cow<'d, str>>::as_ref(key);
            if self.known.contains(&name) {
                continue;
            }
            let mut at = Node::new(self.at.below(name), value, true).at;
            at.offset = Some(key.span().start);
            if self.later.contains(&name) {
                reader.report(&at, "not supported yet; take it out");
            } else {
                reader.report(&at, format!("unknown key; {}", repair(name, &self.known)));
            }
        }
    }
}

/// The type of a TOML value, with its article.
fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a string",
        DeValue::Integer(_) => "an integer",
        DeValue::Float(_) => "a float",
        DeValue::Boolean(_) => "a boolean",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "an array",
        DeValue::Table(_) => "a table",
    }
}

/// The first `max` characters.
fn shorten(text: &str, max: usize) -> String {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

/// A key as TOML writes it, nothing unprintable in it.
fn key_segment(key: &str) -> String {
    let bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !key.is_empty() && key.bytes().all(bare) {
        key.to_owned()
    } else {
        format!("\"{}\"", key.escape_debug())
    }
}

/// Whether it can be shown as it is: no control, format, private or combining character.
pub fn is_printable(c: char) -> bool {
    matches!(c, '"' | '\'' | '\\') || c.escape_debug().len() == 1
}

/// "did you mean ...", or the list of what there is, cut short.
pub fn repair(given: &str, known: &[&str]) -> String {
    /// Arbitrary: every table's own keys fit, a thousand names do not.
    const LISTED_MAX: usize = 20;
    if let Some(name) = nearest(given, known) {
        return format!("did you mean \"{name}\"?");
    }
    let more = if known.len() > LISTED_MAX { ", ..." } else { "" };
    match known {
        [] => "there is none to choose from".to_owned(),
        _ => format!("expected one of: {}{more}", known[..known.len().min(LISTED_MAX)].join(", ")),
    }
}

/// The known name that takes the fewest edits, when they are at most a third of the longer one.
fn nearest<'k>(given: &str, known: &[&'k str]) -> Option<&'k str> {
    /// Longer names are not compared: the cost grows with the square.
    const COMPARED_MAX: usize = 64;
    if given.len() > COMPARED_MAX {
        return None;
    }
    let given = given.to_ascii_lowercase().replace('-', "_");
    let distances = known.iter().map(|name| (edits(&given, &name.replace('-', "_")), *name));
    let (distance, name) = distances.min()?;
    (distance <= given.len().max(name.len()).div_ceil(3).min(4) && distance < name.len()).then_some(name)
}

/// Levenshtein's distance, in bytes.
fn edits(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, left) in a.bytes().enumerate() {
        let mut diagonal = i;
        row[0] = i + 1;
        for (j, right) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(left != right);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row.last().copied().unwrap_or_default()
}
