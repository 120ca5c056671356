//! Finds the items of a Rust file that the rules judge: functions, tests, and what the paths lead to.

use std::ops::Range;

use super::lexer::{Kind, Token};

/// Every function with a body: its name, the line of its `fn`, the line of its closing brace.
pub fn functions<'s>(tokens: &[Token<'s>]) -> Vec<(&'s str, usize, usize)> {
    let mut functions = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        let Some(name) = tokens.get(at + 1).filter(|next| token.is("fn") && next.kind == Kind::Word) else {
            continue;
        };
        if let Some(body) = body(tokens, at + 2) {
            functions.push((name.text, token.line, tokens[body.end - 1].line));
        }
    }
    functions
}

/// The braces that follow a signature, both included; none when a `;` ends it first.
fn body(tokens: &[Token<'_>], from: usize) -> Option<Range<usize>> {
    let mut nested = 0_usize;
    let mut start = None;
    for (at, token) in tokens.iter().enumerate().skip(from) {
        match token.text {
            _ if token.kind != Kind::Punct => {}
            "(" | "[" | "{" => {
                if nested == 0 && token.is("{") {
                    start = Some(at);
                }
                nested += 1;
            }
            ")" | "]" | "}" => {
                nested = nested.saturating_sub(1);
                if nested == 0 && start.is_some() {
                    return start.map(|start| start..at + 1);
                }
            }
            ";" if nested == 0 => return None,
            _ => {}
        }
    }
    None
}

/// The items behind `#[cfg(test)]`.
pub fn test_items(tokens: &[Token<'_>]) -> Vec<Range<usize>> {
    let mut items = Vec::new();
    for (at, window) in tokens.windows(3).enumerate() {
        if !(window[0].is("#") && window[1].is("[") && window[2].is("cfg")) {
            continue;
        }
        let attribute = tokens[at..].iter().take_while(|token| !token.is("]"));
        let words: Vec<_> = attribute.map(|token| token.text).collect();
        if words.contains(&"test") && !words.contains(&"not") {
            let after = at + words.len() + 1;
            let end = body(tokens, after).map_or(after, |body| body.end);
            items.push(at..end);
        }
    }
    items
}

/// The top-level modules that the file names through `crate::`, `baton::` or `super::`, with the line.
pub fn imports<'s>(tokens: &[Token<'s>], module: &[&'s str]) -> Vec<(&'s str, usize)> {
    let mut found = Vec::new();
    let mut inline = Vec::new();
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate() {
        if token.is("{") {
            depth += 1;
            if at >= 2 && tokens[at - 2].is("mod") {
                inline.push((tokens[at - 1].text, depth));
            }
        } else if token.is("}") {
            inline.retain(|(_, opened)| *opened != depth);
            depth = depth.saturating_sub(1);
        }
        if at > 0 && tokens[at - 1].is(":") && at > 1 && tokens[at - 2].is(":") {
            continue;
        }
        let place: Vec<_> = module.iter().copied().chain(inline.iter().map(|(name, _)| *name)).collect();
        if ["crate", "baton", "super"].iter().any(|head| token.is(head)) {
            path(tokens, at, place, &mut found);
        }
    }
    found
}

/// Follows the path or use tree at `at`, seen from the module `place`, to its first name below the crate's root.
fn path<'s>(tokens: &[Token<'s>], at: usize, mut place: Vec<&'s str>, found: &mut Vec<(&'s str, usize)>) {
    let Some(token) = tokens.get(at) else { return };
    match token.text {
        "crate" | "baton" => place.clear(),
        "super" => drop(place.pop()),
        "{" => {
            let mut nested = 0_usize;
            for (inner, token) in tokens.iter().enumerate().skip(at) {
                nested = nested + usize::from(token.is("{")) - usize::from(token.is("}"));
                if nested == 0 {
                    return;
                }
                let begins = tokens[inner].is("{") || tokens[inner].is(",");
                if nested == 1 && begins && tokens.get(inner + 1).is_some_and(|next| !next.is("}")) {
                    path(tokens, inner + 1, place.clone(), found);
                }
            }
            return;
        }
        name => {
            if place.is_empty() {
                found.push((name, token.line));
            }
            return;
        }
    }
    if heads_path(tokens, at) {
        path(tokens, at + 3, place, found);
    }
}

/// Does `::` follow the word at `at`?
pub fn heads_path(tokens: &[Token<'_>], at: usize) -> bool {
    tokens.get(at + 1..at + 3).is_some_and(|next| next.iter().all(|token| token.is(":")))
}
