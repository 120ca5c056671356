//! What `baton check` says of files that are odd or wrong.

use crate::trial::check;

const GOOD: &str = "[upstreams.a]\nbase_url = \"http://127.0.0.1:1/v1\"\napi_key = \"k\"\n\n[routes.r]\ntargets = [{ upstream = \"a\", model = \"m\" }]\n";

#[test]
fn odd_files_that_are_good() {
    let cases = [
        ("as it is", GOOD.to_owned()),
        ("CRLF", GOOD.replace('\n', "\r\n")),
        ("a byte order mark", format!("\u{feff}{GOOD}")),
        ("no line end at its end", GOOD.trim_end().to_owned()),
        ("an IPv6 upstream", GOOD.replace("127.0.0.1:1", "[::1]:1")),
        ("a slash behind the base", GOOD.replace("/v1\"", "/v1/\"")),
        ("a model of odd characters", GOOD.replace("\"m\"", "\"org/\\\"m\\\":free@1\"")),
        ("dotted keys", format!("{GOOD}timeouts.idle = \"5s\"\n")),
        ("a route of odd name", GOOD.replace("routes.r", "routes.\"a/b:c\"")),
    ];
    for (name, text) in cases {
        let (good, words) = check(&text);
        assert!(good, "{name}: {words}");
    }
}

#[test]
fn wrong_files_are_told_all_that_is_wrong_with_its_line() {
    let add = |text: &str| format!("{GOOD}{text}");
    let cases: Vec<(&str, String, &[&str])> = vec![
        ("nothing", String::new(), &["route"]),
        ("no TOML", "[upstreams.a\n".to_owned(), &["line 1"]),
        ("a key twice", add("targets = []\n"), &["line 7"]),
        ("an unknown table", add("[sever]\nlisten = \"127.0.0.1:1\"\n"), &["sever"]),
        (
            "two unknown keys",
            add("retries = 2\n[server]\nworker = 1\n"),
            &["line 7", "retries", "line 9", "worker"],
        ),
        ("an unknown upstream", GOOD.replace("upstream = \"a\"", "upstream = \"b\""), &["line 6", "\"b\""]),
        ("no targets", GOOD.replace("[{ upstream = \"a\", model = \"m\" }]", "[]"), &["line 6", "targets"]),
        ("a duration without a unit", add("timeouts = { idle = 30 }\n"), &["line 7", "idle"]),
        ("a negative duration", add("timeouts = { idle = \"-1s\" }\n"), &["line 7", "idle"]),
        (
            "a size past its range",
            add("[limits]\nframe_bytes = \"65MiB\"\n"),
            &["line 8", "frame_bytes", "64"],
        ),
        ("a size below its range", add("[limits]\nwindow = \"63KiB\"\n"), &["line 8", "window", "64"]),
        ("a status that is none", add("fallback_on_statuses = [200]\n"), &["line 7", "fallback_on_statuses"]),
        (
            "a trigger that is none",
            add("stream_failure = { mode = \"continue\", on = [\"timeout\"] }\n"),
            &["line 7", "timeout"],
        ),
        (
            "an unset variable",
            GOOD.replace("\"k\"", "\"${BATON_NO_SUCH_VARIABLE}\""),
            &["line 3", "BATON_NO_SUCH_VARIABLE"],
        ),
        ("open to all without keys", add("[server]\nlisten = \"0.0.0.0:8080\"\n"), &["line 8", "open"]),
        ("a base of another scheme", GOOD.replace("http://", "ftp://"), &["line 2", "base_url"]),
        ("a base with credentials", GOOD.replace("127.0.0.1", "u:p@127.0.0.1"), &["line 2", "base_url"]),
        (
            "a timeout that never fires",
            add("timeouts = { idle = \"30s\", total = \"10s\" }\n"),
            &["line 7", "total"],
        ),
        ("a line end in a key", GOOD.replace("\"k\"", "\"k\\r\\nX: y\""), &["line 3", "api_key"]),
        (
            "a header of ours",
            add("[upstreams.a2]\nbase_url = \"http://x/v1\"\nheaders = { Host = \"x\", \"a b\" = \"c\" }\n"),
            &["headers"],
        ),
        ("a list where a text belongs", GOOD.replace("\"m\"", "[\"m\"]"), &["line 6", "model"]),
    ];
    let mut failures = Vec::new();
    for (name, text, wanted) in cases {
        let (good, words) = check(&text);
        let missing: Vec<_> = wanted.iter().filter(|word| !words.contains(**word)).collect();
        if good || !missing.is_empty() || words.contains("panicked") {
            failures.push(format!("{name}: no {missing:?} in {words}"));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
