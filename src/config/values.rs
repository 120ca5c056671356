//! Single values: text with its environment variables, durations, sizes, numbers, choices.
//!
//! Each function here makes a reader for [`Section::read`](super::reader::Section::read): it answers with the
//! value, or reports why there is none.

use std::ops::RangeInclusive;
use std::time::Duration;

use bytesize::ByteSize;
use toml::de::DeValue;

use super::reader::{Node, Reader, repair};

/// A string, with `${NAME}` replaced by the environment variable and `$$` by a dollar.
pub fn text(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<String> {
    let Some(written) = node.value().as_str() else {
        node.wrong_type(reader, "a string");
        return None;
    };
    match substitute(written, reader.sources.env) {
        Ok(text) => Some(text),
        Err(message) => {
            reader.report(&node.at, message);
            None
        }
    }
}

/// Variables are looked up once and not looked into again. An error names the variable, never a value.
fn substitute(written: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<String, String> {
    let mut text = String::with_capacity(written.len());
    let mut rest = written;
    while let Some(dollar) = rest.find('$') {
        text.push_str(&rest[..dollar]);
        rest = &rest[dollar + 1..];
        if let Some(after) = rest.strip_prefix('$') {
            text.push('$');
            rest = after;
            continue;
        }
        let named = rest.strip_prefix('{').and_then(|inner| inner.split_once('}'));
        let Some((name, after)) = named.filter(|(name, _)| is_variable_name(name)) else {
            return Err(
                "a dollar sign that begins no ${NAME} (letters, digits and _); write $$ for a dollar itself"
                    .to_owned(),
            );
        };
        let Some(value) = env(name) else {
            return Err(format!("environment variable {name} is not set; set it, or write the value itself"));
        };
        text.push_str(&value);
        rest = after;
    }
    text.push_str(rest);
    Ok(text)
}

/// POSIX, "Environment Variable Definition": letters, digits and underscores, no digit first.
fn is_variable_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    name.bytes().all(allowed) && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

/// A boolean.
pub fn boolean(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<bool> {
    let flag = node.value().as_bool();
    if flag.is_none() {
        node.wrong_type(reader, "true or false");
    }
    flag
}

/// A whole number within `range`.
pub fn integer<'d, T>(range: RangeInclusive<T>) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<T>
where
    T: Copy + TryFrom<i128> + PartialOrd + std::fmt::Display,
{
    move |node, reader| {
        let (low, high) = (range.start(), range.end());
        let DeValue::Integer(digits) = node.value() else {
            node.wrong_type(reader, &format!("a whole number from {low} to {high}"));
            return None;
        };
        let number = i128::from_str_radix(digits.as_str(), digits.radix()).ok();
        let within =
            number.and_then(|number| T::try_from(number).ok()).filter(|number| range.contains(number));
        if within.is_none() {
            reader.report(&node.at, out_of_range(&node.seen(), "number", low, high));
        }
        within
    }
}

/// One of the names; a name without a value is one that will be supported one day.
pub fn choice<'d, T: Copy>(
    names: &'static [(&'static str, Option<T>)],
) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<T> {
    move |node, reader| {
        let given = text(node, reader)?;
        let offered = || names.iter().filter(|(_, value)| value.is_some()).map(|(name, _)| *name);
        match names.iter().find(|(name, _)| *name == given) {
            Some((_, Some(value))) => return Some(*value),
            Some((_, None)) => {
                let offered = offered().collect::<Vec<_>>().join(", ");
                let message = format!("{} is not supported yet; expected one of: {offered}", node.seen());
                reader.report(&node.at, message);
            }
            None => {
                let offered: Vec<&str> = offered().collect();
                let known = offered.join(", ");
                let mut message = format!("{} is none of: {known}", node.seen());
                let repair = repair(&given, &offered);
                if repair.starts_with("did you mean") {
                    message = format!("{message}; {repair}");
                }
                reader.report(&node.at, message);
            }
        }
        None
    }
}

/// A duration within `range`.
pub fn duration<'d>(
    range: RangeInclusive<Duration>,
) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<Duration> {
    move |node, reader| duration_within(node, reader, &range, false)
}

/// A duration within `range`, or "0s".
pub fn duration_or_zero<'d>(
    range: RangeInclusive<Duration>,
) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<Duration> {
    move |node, reader| duration_within(node, reader, &range, true)
}

fn duration_within(
    node: &Node<'_>,
    reader: &mut Reader<'_>,
    range: &RangeInclusive<Duration>,
    zero: bool,
) -> Option<Duration> {
    /// What a duration looks like, said wherever one is missing.
    const LIKE: &str = "a number and a unit, like \"250ms\", \"30s\" or \"10m\"";
    if node.value().as_str().is_none() {
        node.wrong_type(reader, &format!("a duration in quotes: {LIKE}"));
        return None;
    }
    let Some(duration) = parse_duration(&text(node, reader)?) else {
        reader.report(&node.at, format!("{} is no duration; write {LIKE}", node.seen()));
        return None;
    };
    if range.contains(&duration) || (zero && duration.is_zero()) {
        return Some(duration);
    }
    let low = humantime::format_duration(*range.start());
    let high = humantime::format_duration(*range.end());
    let mut message = out_of_range(&node.seen(), "duration", low, high);
    if zero {
        message.push_str(", or to \"0s\"");
    }
    reader.report(&node.at, message);
    None
}

/// humantime's grammar without what can be misread: no white space (it reads "1 5s" as 15 s), no capital units
/// (its "M" is a month), and no more digits than any duration here needs.
fn parse_duration(text: &str) -> Option<Duration> {
    /// Arbitrary: "999999999ns" still fits, and no sum of such numbers overflows.
    const DIGITS_MAX: usize = 9;
    const TEXT_MAX: usize = 32;
    let allowed = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_lowercase() || byte == b'.';
    let digits = text.split(|c: char| !c.is_ascii_digit());
    let plain = text.len() <= TEXT_MAX && text.bytes().all(allowed);
    if !plain || digits.into_iter().any(|run| run.len() > DIGITS_MAX) {
        return None;
    }
    humantime::parse_duration(text).ok()
}

/// A size in bytes within `range`: a plain integer, or text like "64KiB".
pub fn size<'d>(range: RangeInclusive<usize>) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<usize> {
    move |node, reader| {
        /// What a size looks like, said wherever one is missing.
        const LIKE: &str = "a number of bytes, or a number and a unit, like \"64KiB\" or \"32MiB\"";
        let bytes = match node.value() {
            DeValue::Integer(digits) => {
                // What no u64 holds, a negative number too, is out of every range.
                u64::from_str_radix(digits.as_str(), digits.radix()).ok()
            }
            DeValue::String(_) => {
                let given = text(node, reader)?;
                let Some(bytes) = parse_size(&given) else {
                    reader.report(&node.at, format!("{} is no size; write {LIKE}", node.seen()));
                    return None;
                };
                Some(bytes)
            }
            _ => {
                node.wrong_type(reader, LIKE);
                return None;
            }
        };
        let within =
            bytes.and_then(|bytes| usize::try_from(bytes).ok()).filter(|bytes| range.contains(bytes));
        if within.is_none() {
            let (low, high) = (format_size(*range.start()), format_size(*range.end()));
            reader.report(&node.at, out_of_range(&node.seen(), "size", low, high));
        }
        within
    }
}

/// bytesize's grammar without what can be misread: no white space, and the unit spelt out ("64k" could mean
/// either thousand).
fn parse_size(text: &str) -> Option<u64> {
    /// Arbitrary; exact in the floating point that bytesize computes fractions in.
    const NUMBER_MAX: usize = 15;
    const UNITS: [&str; 11] = ["", "B", "kB", "KB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"];
    let number_end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(number_end);
    let begins_and_ends_in_digits = !number.is_empty() && !number.starts_with('.') && !number.ends_with('.');
    if !begins_and_ends_in_digits || number.len() > NUMBER_MAX || !UNITS.contains(&unit) {
        return None;
    }
    text.parse::<ByteSize>().ok().map(|size| size.as_u64())
}

/// The size as this config would write it.
fn format_size(bytes: usize) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    let whole = units.into_iter().find(|(unit, _)| bytes >= *unit && bytes.is_multiple_of(*unit));
    whole.map_or_else(|| format!("{bytes}B"), |(unit, name)| format!("{}{name}", bytes / unit))
}

fn out_of_range(seen: &str, what: &str, low: impl std::fmt::Display, high: impl std::fmt::Display) -> String {
    format!("{seen} is out of range; set it to a {what} from {low} to {high}")
}

/// A list of what `item` reads, none twice, at most `max`.
pub fn distinct<'d, T: PartialEq>(
    max: usize,
    expected: &'static str,
    item: impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<T>,
) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<Vec<T>> {
    move |node, reader| {
        let mut values = Vec::new();
        for node in node.items(reader, max, expected)? {
            let Some(value) = item(&node, reader) else { continue };
            if values.contains(&value) {
                reader.report(&node.at, format!("{} is there twice; take one out", node.seen()));
            } else {
                values.push(value);
            }
        }
        Some(values)
    }
}

/// Text of 1 to `max` bytes of printable ASCII, no space at either end: fit for headers, labels and logs.
pub fn printable_ascii<'d>(max: usize) -> impl Fn(&Node<'d>, &mut Reader<'_>) -> Option<String> {
    move |node, reader| {
        let given = text(node, reader)?;
        let printable = given.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ');
        if printable && !given.is_empty() && given.len() <= max && given.trim() == given {
            return Some(given);
        }
        let message = format!(
            "{} cannot be used; write 1 to {max} printable ASCII characters, no space at the ends",
            node.seen()
        );
        reader.report(&node.at, message);
        None
    }
}

/// A path that is not empty and holds no NUL.
pub fn path(node: &Node<'_>, reader: &mut Reader<'_>) -> Option<std::path::PathBuf> {
    let given = text(node, reader)?;
    if given.is_empty() || given.contains('\0') {
        reader.report(&node.at, format!("{} is no path; name a file, or take the key out", node.seen()));
        return None;
    }
    Some(given.into())
}
