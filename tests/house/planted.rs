//! Shows that every rule catches what it is for, on planted breaches, and leaves look-alikes alone.

use super::items::functions;
use super::lexer::{Kind, lex};
use super::rules::{FILE_LINES_MAX, FUNCTION_LINES_MAX, File};

/// What is reported for one file, as `line: what`.
fn report(path: &str, text: &str) -> Vec<String> {
    let breaches = File::new(path, text).breaches();
    breaches.iter().map(|breach| format!("{}: {}", breach.line, breach.what)).collect()
}

/// Name, path and text of a planted file; the line and some words of the one breach in it, if any.
type Case<'c> = (&'c str, &'c str, &'c str, Option<(usize, &'c str)>);

fn check(cases: &[Case<'_>]) {
    for (name, path, text, want) in cases {
        let got = report(path, text);
        match want {
            None => assert!(got.is_empty(), "{name}: {got:?}"),
            Some((line, words)) => {
                assert_eq!(got.len(), 1, "{name}: {got:?}");
                let prefix = format!("{line}: ");
                assert!(got[0].starts_with(&prefix) && got[0].contains(words), "{name}: {got:?}");
            }
        }
    }
}

#[test]
fn layers_import_only_to_the_left() {
    check(&[
        ("left", "src/policy/retry.rs", "use crate::time::MonoTime;", None),
        ("own", "src/policy/retry.rs", "use crate::policy::backoff;", None),
        ("effects use pure", "src/net/tls.rs", "use crate::config::Tls;", None),
        (
            "right",
            "src/policy/retry.rs",
            "\nuse crate::exchange::Input;",
            Some((2, "policy imports exchange")),
        ),
        ("pure uses effects", "src/exchange/mod.rs", "use crate::net::io;", Some((1, "to the right of it"))),
        ("effects, right", "src/net/io.rs", "use crate::actor::turn;", Some((1, "net imports actor"))),
        (
            "one rank",
            "src/sse/framer.rs",
            "use crate::http1::body;",
            Some((1, "sse imports http1, which is beside")),
        ),
        ("one rank, back", "src/http1/body.rs", "use crate::sse;", Some((1, "http1 imports sse"))),
        ("single file", "src/time.rs", "use crate::http1::head;", Some((1, "time imports http1"))),
        ("group", "src/sse/mod.rs", "use crate::{error::A,\n net::B};", Some((2, "sse imports net"))),
        ("nested group", "src/sse/mod.rs", "use crate::{error::{A, B}, time};", None),
        ("in an expression", "src/sse/mod.rs", "fn f() { let x = crate::net::y(1); }", Some((1, "net"))),
        ("super to the root", "src/sse/framer.rs", "use super::super::net;", Some((1, "net"))),
        ("super stays inside", "src/sse/framer.rs", "mod t { use super::super::Frame; }", None),
        (
            "super from an inline module",
            "src/sse/mod.rs",
            "mod t { use super::super::net; }",
            Some((1, "net")),
        ),
        ("after an inline module", "src/sse/a/b.rs", "mod t { fn f() {} }\nuse super::super::net;", None),
        ("super in a group", "src/sse/framer.rs", "use super::{Frame, super::net::io};", Some((1, "net"))),
        ("by the crate's name", "src/server/mod.rs", "use baton::demo::Script;", Some((1, "demo"))),
        ("a test too", "src/policy/retry/tests.rs", "use crate::server::x;", Some((1, "server"))),
        ("main sees all", "src/main.rs", "use baton::server::run;", None),
        ("a new module", "src/cache/mod.rs", "", Some((1, "cache has no layer"))),
        ("an unknown module", "src/net/mod.rs", "use crate::cache::Map;", Some((1, "cache has no layer"))),
        ("visibility", "src/sse/mod.rs", "pub(crate) fn f() {}\npub(super) fn g() {}", None),
        (
            "in a comment",
            "src/sse/mod.rs",
            "// crate::net::io\n/* crate::net /* nested */ crate::net */",
            None,
        ),
        ("in a string", "src/sse/mod.rs", r##"const A: &str = r#"crate::net::"io""#;"##, None),
        ("elsewhere", "tests/http.rs", "use baton::net::io;", None),
    ]);
}

#[test]
fn pure_code_names_no_effect() {
    check(&[
        ("socket", "src/http1/head.rs", "use std::net::TcpStream;", Some((1, "a socket"))),
        ("an address is a value", "src/config/mod.rs", "use std::net::{IpAddr, SocketAddr};", None),
        ("resolution", "src/config/mod.rs", "use std::net::ToSocketAddrs;", Some((1, "name resolution"))),
        ("clock", "src/policy/retry.rs", "\n\nuse std::time::Instant;", Some((3, "a clock"))),
        (
            "wall clock",
            "src/policy/backoff.rs",
            "let t = std::time::SystemTime::now();",
            Some((1, "MonoTime")),
        ),
        ("a duration is a value", "src/policy/backoff.rs", "use std::time::Duration;", None),
        ("thread", "src/exchange/mod.rs", "std::thread::yield_now();", Some((1, "a thread"))),
        ("a word like it", "src/exchange/mod.rs", "fn f(thread: u8, rand: u64) -> u64 { rand }", None),
        ("runtime", "src/sse/mod.rs", "use monoio::io::AsyncReadRent;", Some((1, "a runtime"))),
        ("another", "src/sse/mod.rs", "use tokio::task;", Some((1, "a runtime"))),
        ("async", "src/sse/mod.rs", "pub async fn f() {}", Some((1, "plain function"))),
        ("actor", "src/exchange/mod.rs", "use ractor::Actor;", Some((1, "an actor"))),
        ("static mut", "src/error.rs", "static mut COUNT: u32 = 0;", Some((1, "static"))),
        ("a table is no state", "src/error.rs", "static NAMES: [&'static str; 1] = [\"a\"];", None),
        ("thread_local", "src/sse/mod.rs", "thread_local! { static A: u8 = 0; }", Some((1, "a global"))),
        ("once", "src/sse/mod.rs", "type Cache = OnceLock<u8>;", Some((1, "a global"))),
        ("lock", "src/policy/cooldown.rs", "use std::sync::Mutex;", Some((1, "shared state"))),
        ("atomic", "src/policy/cooldown.rs", "fn f(a: &AtomicU64) {}", Some((1, "AtomicU64"))),
        ("atomic module", "src/policy/cooldown.rs", "use std::sync::atomic::fence;", Some((1, "argument"))),
        ("an order is none", "src/policy/balance.rs", "use std::cmp::Ordering;", None),
        ("random", "src/policy/backoff.rs", "fastrand::u64(..)", Some((1, "a random number"))),
        ("random crate", "src/policy/backoff.rs", "use rand::Rng;", Some((1, "its seed"))),
        ("effects may", "src/net/clock.rs", "use std::time::Instant;", None),
        ("tests may", "src/policy/retry.rs", "#[cfg(test)]\nmod tests {\n use fastrand::Rng; }", None),
        ("test functions may", "src/policy/retry.rs", "#[cfg(test)]\nfn f() { fastrand::u8(..); }", None),
        ("tests in a file may", "src/policy/retry/tests.rs", "use fastrand::Rng;", None),
        (
            "after a test",
            "src/sse/mod.rs",
            "#[cfg(test)]\nmod tests;\nuse fastrand::Rng;",
            Some((3, "random")),
        ),
        ("not a test", "src/sse/mod.rs", "#[cfg(not(test))]\nuse fastrand::Rng;", Some((2, "random"))),
        ("in a comment", "src/sse/mod.rs", "/// Reads no Instant of tokio.\nfn f() {}", None),
    ]);
}

#[test]
fn nothing_is_left_over() {
    check(&[
        ("dbg", "tests/a.rs", "fn f() {\n dbg!(1);\n}", Some((2, "dbg! is left over"))),
        ("todo", "loadtest/src/a.rs", "fn f() { todo!() }", Some((1, "todo! is left over"))),
        ("unimplemented", "benches/a.rs", "fn f() { unimplemented!() }", Some((1, "unimplemented!"))),
        ("ignored test", "src/net/io.rs", "#[test]\n#[ignore]\nfn f() {}", Some((2, "hides a test"))),
        ("with a reason", "src/net/io.rs", "#[ignore = \"slow\"]\nfn f() {}", Some((1, "hides a test"))),
        ("a note", "src/net/io.rs", "/* one\n TODO: two */", Some((2, "TODO in a comment"))),
        ("another", "src/net/io.rs", "// FIXME later", Some((1, "FIXME in a comment"))),
        ("a word of the same letters", "src/net/io.rs", "fn todo() { let dbg = 1; ignore(dbg); }", None),
        (
            "in a string",
            "src/net/io.rs",
            "fn f() { g(\"todo!() // TODO\", '\"', b'\\'', \"dbg!(1)\"); }",
            None,
        ),
    ]);
}

#[test]
fn files_and_functions_are_short() {
    let lines = |count: usize| "//\n".repeat(count);
    let function =
        |count: usize| format!("\nfn long(a: [u8; 4]) -> u8 {{\n{}}}\n", "a();\n".repeat(count - 2));
    let over = format!("{} lines", FUNCTION_LINES_MAX + 1);
    check(&[
        ("file at the limit", "src/net/a.rs", &lines(FILE_LINES_MAX), None),
        ("file past it", "tests/a.rs", &lines(FILE_LINES_MAX + 1), Some((FILE_LINES_MAX + 1, "401 lines"))),
        ("function at the limit", "src/net/a.rs", &function(FUNCTION_LINES_MAX), None),
        ("function past it", "benches/a.rs", &function(FUNCTION_LINES_MAX + 1), Some((2, &over))),
        ("its name is said", "loadtest/src/a.rs", &function(FUNCTION_LINES_MAX + 1), Some((2, "fn long"))),
        ("braces in text", "src/net/a.rs", &braces_in_text(), None),
    ]);
}

/// Two short functions whose strings, characters and comments would make one long one to a naive count.
fn braces_in_text() -> String {
    let body = r####"let a = ("{", '{', b'{', r#"{"#, "\"{", '\''); // {{
        /* { */ f::<'static>(a);"####;
    let short = format!("fn f() {{\n{body}\n{}}}\n", "a();\n".repeat(40));
    format!("{short}{short}")
}

#[test]
fn functions_are_found() {
    let source = "trait A { fn none(&self) -> [u8; 2];\n fn one() -> u8 where u8: Copy {\n 1\n }\n}\n\
                  type F = fn(u8);\nfn outer() {\n fn inner<'a>(a: &'a str) {\n }\n}\n";
    let got = functions(&lex(source).tokens);
    assert_eq!(got, [("one", 2, 4), ("outer", 7, 10), ("inner", 8, 9)]);
}

#[test]
fn literals_and_lifetimes_are_told_apart() {
    let cases = [
        ("a lifetime", "&'a str", vec![Kind::Punct, Kind::Lifetime, Kind::Word]),
        ("a label", "'a: loop", vec![Kind::Lifetime, Kind::Punct, Kind::Word]),
        ("characters", r"'a' '\'' '\u{1F}' '''", vec![Kind::Literal; 4]),
        ("strings", r##""\"" b"\\" c"x" r"\" r#""q""# br"{" cr#"a"#"##, vec![Kind::Literal; 7]),
        ("a raw name", "r#type", vec![Kind::Word, Kind::Punct, Kind::Word]),
        ("beyond ASCII", "'é' \"日本\" é", vec![Kind::Literal, Kind::Literal, Kind::Word]),
        ("open to the end", "a \"never closed", vec![Kind::Word, Kind::Literal]),
    ];
    for (name, source, want) in cases {
        let got: Vec<_> = lex(source).tokens.iter().map(|token| token.kind).collect();
        assert_eq!(got, want, "{name}");
    }
}
