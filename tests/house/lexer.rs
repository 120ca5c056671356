//! Splits Rust source into words, punctuation and comments, so that the rules never mistake a string or a
//! comment for code.
//!
//! # Left out
//! Everything a compiler would want besides: numbers are words, operators are single characters, and a literal's
//! text is dropped.

/// What a token is, as far as the rules care.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An identifier, a keyword or a number.
    Word,
    /// One character of punctuation.
    Punct,
    /// A string or character literal of any flavour.
    Literal,
    /// `'a`
    Lifetime,
}

/// A piece of source and the line it begins on (from 1).
#[derive(Clone, Copy, Debug)]
pub struct Token<'s> {
    pub kind: Kind,
    pub text: &'s str,
    pub line: usize,
}

impl Token<'_> {
    /// Is this the keyword, name or punctuation `text`?
    pub fn is(&self, text: &str) -> bool {
        matches!(self.kind, Kind::Word | Kind::Punct) && self.text == text
    }
}

/// A file's code and comments, apart.
#[derive(Debug, Default)]
pub struct Lexed<'s> {
    pub tokens: Vec<Token<'s>>,
    /// Comment text with the line it begins on.
    pub comments: Vec<(usize, &'s str)>,
}

/// Reads a whole file. Source that does not end its literals or comments is read to the end of the file.
pub fn lex(source: &str) -> Lexed<'_> {
    let mut lexed = Lexed::default();
    let (mut at, mut line) = (0, 1);
    while let Some(first) = source[at..].chars().next() {
        let rest = &source[at..];
        let (kind, len) = piece(rest, first);
        let text = &rest[..len];
        match kind {
            Piece::Space => {}
            Piece::Comment => lexed.comments.push((line, text)),
            Piece::Token(kind) => lexed.tokens.push(Token { kind, text, line }),
        }
        line += text.bytes().filter(|byte| *byte == b'\n').count();
        at += len;
    }
    lexed
}

enum Piece {
    Space,
    Comment,
    Token(Kind),
}

/// The piece that begins `rest` and its length in bytes, at least one character.
fn piece(rest: &str, first: char) -> (Piece, usize) {
    if first.is_whitespace() {
        return (Piece::Space, first.len_utf8());
    }
    if rest.starts_with("//") {
        return (Piece::Comment, rest.find('\n').unwrap_or(rest.len()));
    }
    if rest.starts_with("/*") {
        return (Piece::Comment, block_comment_len(rest));
    }
    if let Some(len) = string_len(rest) {
        return (Piece::Token(Kind::Literal), len);
    }
    if first == '\'' {
        return quote(rest);
    }
    if is_word(first) {
        let len = rest.find(|c| !is_word(c)).unwrap_or(rest.len());
        return (Piece::Token(Kind::Word), len);
    }
    (Piece::Token(Kind::Punct), first.len_utf8())
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Block comments nest.
fn block_comment_len(rest: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of the string literal that begins `rest`: `"`, `b"`, `c"`, and the raw forms with any number of `#`.
fn string_len(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "r", "b", "c", ""].into_iter().find(|prefix| {
        rest.strip_prefix(prefix).is_some_and(|after| {
            let quoted = if prefix.ends_with('r') { after.trim_start_matches('#') } else { after };
            quoted.starts_with('"')
        })
    })?;
    let after = &rest[prefix.len()..];
    let hashes = after.len() - after.trim_start_matches('#').len();
    let opening = prefix.len() + hashes + 1;
    if prefix.ends_with('r') {
        let closing = format!("\"{}", "#".repeat(hashes));
        let body = rest[opening..].find(&closing).map(|at| at + closing.len());
        return Some(body.map_or(rest.len(), |body| opening + body));
    }
    Some(escaped_end(rest, opening, '"'))
}

/// Where a literal with backslash escapes ends, its closing `quote` included.
fn escaped_end(rest: &str, opening: usize, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest[opening..].char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return opening + at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// A single quote begins a character literal or a lifetime.
fn quote(rest: &str) -> (Piece, usize) {
    let mut after = rest[1..].chars();
    let next = after.next();
    if next == Some('\\') || after.next() == Some('\'') {
        // Skipping one character lets `'''` and `'"'` end where they should.
        let skip = if next == Some('\\') { 0 } else { next.map_or(0, char::len_utf8) };
        return (Piece::Token(Kind::Literal), escaped_end(rest, 1 + skip, '\''));
    }
    let len = rest[1..].find(|c| !is_word(c)).map_or(rest.len(), |len| len + 1);
    (Piece::Token(Kind::Lifetime), len)
}
