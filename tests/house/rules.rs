//! The rules of the house, each as a function from one file to its breaches.

use std::fmt;

use super::items::{functions, heads_path, imports, test_items};
use super::lexer::{Kind, Lexed, Token, lex};

/// The layers from left to right. A module imports only from ranks to the left of its own.
const RANKS: [&[&str]; 12] = [
    &["error", "time"],
    &["http1", "sse"],
    &["protocol"],
    &["policy"],
    &["exchange"],
    &["config"],
    &["telemetry"],
    &["net"],
    &["actor"],
    &["server"],
    &["demo"],
    &["main"],
];
/// How many of them are pure.
const PURE_RANKS: usize = 6;
pub const FILE_LINES_MAX: usize = 400;
pub const FUNCTION_LINES_MAX: usize = 70;

/// What a pure file may not name: the name, what it stands for, and what to do instead. A name that ends in `::`
/// counts only as the head of a path, since the bare word may name an argument.
const EFFECTS: [(&str, &str, &str); 42] = [
    ("TcpStream", "a socket", SOCKET),
    ("TcpListener", "a socket", SOCKET),
    ("UdpSocket", "a socket", SOCKET),
    ("UnixStream", "a socket", SOCKET),
    ("UnixListener", "a socket", SOCKET),
    ("UnixDatagram", "a socket", SOCKET),
    ("ToSocketAddrs", "name resolution", SOCKET),
    ("RawFd", "a descriptor", SOCKET),
    ("OwnedFd", "a descriptor", SOCKET),
    ("AsRawFd", "a descriptor", SOCKET),
    ("AsFd", "a descriptor", SOCKET),
    ("socket2", "a socket", SOCKET),
    ("libc::", "the operating system", SOCKET),
    ("Instant", "a clock", CLOCK),
    ("SystemTime", "a clock", CLOCK),
    ("thread::", "a thread", THREAD),
    ("JoinHandle", "a thread", THREAD),
    ("Condvar", "a thread", THREAD),
    ("mpsc", "a thread", THREAD),
    ("async", "a runtime", RUNTIME),
    ("await", "a runtime", RUNTIME),
    ("monoio", "a runtime", RUNTIME),
    ("tokio", "a runtime", RUNTIME),
    ("io_uring", "a runtime", RUNTIME),
    ("futures::", "a runtime", RUNTIME),
    ("ractor", "an actor", ACTOR),
    ("ActorRef", "an actor", ACTOR),
    ("thread_local", "a global", GLOBAL),
    ("lazy_static", "a global", GLOBAL),
    ("once_cell", "a global", GLOBAL),
    ("OnceLock", "a global", GLOBAL),
    ("OnceCell", "a global", GLOBAL),
    ("LazyLock", "a global", GLOBAL),
    ("LazyCell", "a global", GLOBAL),
    ("Mutex", "shared state", GLOBAL),
    ("RwLock", "shared state", GLOBAL),
    ("atomic::", "shared state", GLOBAL),
    ("fastrand", "a random number", RANDOM),
    ("rand::", "a random number", RANDOM),
    ("getrandom", "a random number", RANDOM),
    ("thread_rng", "a random number", RANDOM),
    ("OsRng", "a random number", RANDOM),
];
const SOCKET: &str = "move the I/O to net/ and pass its result in as a value";
const CLOCK: &str = "take the time as an argument (time::MonoTime)";
const THREAD: &str = "return a value and let actor/ or net/ do the work";
const RUNTIME: &str = "make it a plain function over values; net/ and actor/ await";
const ACTOR: &str = "return an output and let actor/ send the message";
const GLOBAL: &str = "pass the state in as an argument";
const RANDOM: &str = "take the random number, or its seed, as an argument";

/// One broken rule: where, what, and the repair.
#[derive(Debug)]
pub struct Breach {
    pub file: String,
    pub line: usize,
    pub what: String,
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// One Rust file: its path from the project's root, with `/`, and its text.
pub struct File<'s> {
    path: &'s str,
    lines: usize,
    lexed: Lexed<'s>,
}

impl<'s> File<'s> {
    pub fn new(path: &'s str, text: &'s str) -> Self {
        Self { path, lines: text.lines().count(), lexed: lex(text) }
    }

    /// Every breach of every rule that applies to the file.
    pub fn breaches(&self) -> Vec<Breach> {
        [self.size(), self.leftovers(), self.layers(), self.effects()].into_iter().flatten().collect()
    }

    /// No file over 400 lines, no function over 70, its signature and closing brace included.
    pub fn size(&self) -> Vec<Breach> {
        let mut breaches = Vec::new();
        if self.lines > FILE_LINES_MAX {
            let what =
                format!("{} lines, at most {FILE_LINES_MAX}: split it by what its parts offer", self.lines);
            breaches.push(self.breach(FILE_LINES_MAX + 1, what));
        }
        for (name, first, last) in functions(&self.lexed.tokens) {
            let lines = last - first + 1;
            if lines > FUNCTION_LINES_MAX {
                let what = format!(
                    "fn {name} has {lines} lines, at most {FUNCTION_LINES_MAX}: name its steps and move them out"
                );
                breaches.push(self.breach(first, what));
            }
        }
        breaches
    }

    /// Nothing that was meant to be taken out again.
    pub fn leftovers(&self) -> Vec<Breach> {
        let mut breaches = Vec::new();
        for window in self.lexed.tokens.windows(3) {
            let [first, second, third] = window else { continue };
            let is_macro = ["dbg", "todo", "unimplemented"].iter().any(|name| first.is(name));
            if is_macro && second.is("!") {
                breaches
                    .push(self.breach(first.line, format!("{}! is left over: write the code", first.text)));
            }
            if first.is("#") && second.is("[") && third.is("ignore") {
                let what = "#[ignore] hides a test: repair it or delete it".to_owned();
                breaches.push(self.breach(first.line, what));
            }
        }
        for (line, comment) in &self.lexed.comments {
            for (offset, text) in comment.lines().enumerate() {
                let mut words = text.split(|c: char| !c.is_alphanumeric());
                if let Some(word) = words.find(|word| matches!(*word, "TODO" | "FIXME")) {
                    let what = format!("{word} in a comment: do it, or say what is left out and why");
                    breaches.push(self.breach(line + offset, what));
                }
            }
        }
        breaches
    }

    /// Left never imports right, and modules of one rank do not know each other.
    pub fn layers(&self) -> Vec<Breach> {
        let Some(module) = self.module() else { return Vec::new() };
        let Some(own) = rank(module[0]) else {
            return vec![self.breach(1, no_layer(module[0]))];
        };
        let mut breaches = Vec::new();
        for (name, line) in imports(&self.lexed.tokens, &module) {
            if name == module[0] {
                continue;
            }
            let what = match rank(name) {
                None => no_layer(name),
                Some(other) if other < own => continue,
                Some(other) => {
                    let relation = if other == own { "beside" } else { "to the right of" };
                    let from = module[0];
                    format!(
                        "{from} imports {name}, which is {relation} it: move what both need to the left, or pass it in"
                    )
                }
            };
            breaches.push(self.breach(line, what));
        }
        breaches
    }

    /// A pure file names no socket, clock, thread, runtime, actor, global or random number. Its tests may.
    pub fn effects(&self) -> Vec<Breach> {
        let pure = self.module().is_some_and(|module| rank(module[0]).is_some_and(|rank| rank < PURE_RANKS));
        if !pure || self.path.ends_with("/tests.rs") || self.path.contains("/tests/") {
            return Vec::new();
        }
        let tokens = &self.lexed.tokens;
        let tests = test_items(tokens);
        let mut breaches = Vec::new();
        for (at, token) in tokens.iter().enumerate() {
            if token.kind != Kind::Word || tests.iter().any(|range| range.contains(&at)) {
                continue;
            }
            if let Some((stands_for, repair)) = effect(tokens, at) {
                let what = format!("pure code names {}, {stands_for}: {repair}", token.text);
                breaches.push(self.breach(token.line, what));
            }
        }
        breaches
    }

    /// The file's module path, for files of the library and the binary below `src/`. `lib.rs` is the map and has
    /// no layer.
    fn module(&self) -> Option<Vec<&'s str>> {
        let path = self.path.strip_prefix("src/")?.strip_suffix(".rs")?;
        let path = path.strip_suffix("/mod").unwrap_or(path);
        (path != "lib").then(|| path.split('/').collect())
    }

    fn breach(&self, line: usize, what: String) -> Breach {
        Breach { file: self.path.to_owned(), line, what }
    }
}

fn rank(module: &str) -> Option<usize> {
    RANKS.iter().position(|names| names.contains(&module))
}

fn no_layer(module: &str) -> String {
    format!(
        "{module} has no layer: give it a place in RANKS (tests/house/rules.rs) and on the map (src/lib.rs)"
    )
}

/// What effect the word at `at` names, if any, and the repair.
fn effect(tokens: &[Token<'_>], at: usize) -> Option<(&'static str, &'static str)> {
    let word = tokens[at].text;
    let atomic = word.strip_prefix("Atomic").is_some_and(|rest| rest.starts_with(char::is_uppercase));
    let static_mut = word == "static" && tokens.get(at + 1).is_some_and(|next| next.is("mut"));
    if atomic || static_mut {
        return Some(("shared state", GLOBAL));
    }
    let named = EFFECTS.iter().find(|(name, ..)| match name.strip_suffix("::") {
        Some(head) => word == head && heads_path(tokens, at),
        None => word == *name,
    });
    named.map(|(_, stands_for, repair)| (*stands_for, *repair))
}
