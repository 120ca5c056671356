//! One thing that is wrong with a config.

use std::fmt;

/// What is wrong, where, and the repair.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ConfigError {
    /// Counted from 1; none for what is missing from the whole file.
    pub line: Option<usize>,
    /// The full dotted path, `routes.chat.targets[0].model`; empty for a TOML syntax error.
    pub key: String,
    /// The value seen, unless it may be secret, what was expected, and the repair. One line, nothing unprintable.
    pub message: String,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for ConfigError {}
