//! Texts and what becomes of them. A case gives only the tables it is about; [`whole`] adds the rest.

mod errors;
mod errors_of_routes;
mod errors_of_upstreams;
mod merging;
mod ranges;
mod values;

use std::io;
use std::path::Path;

use super::{Config, ConfigError, Sources, parse};

/// The variables and files of the tests.
fn env(name: &str) -> Option<String> {
    let value = match name {
        "KEY" => "sk-from-env",
        "PORT" => "9000",
        "EMPTY" => "",
        "BROKEN" => "sk-from-env\r\nx: y",
        "DOLLAR" => "a${KEY}$",
        _ => return None,
    };
    Some(value.to_owned())
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    match path.to_str() {
        Some("/run/key") => Ok(b"sk-from-file\n".to_vec()),
        Some("/run/two-lines") => Ok(b"sk-from-file\nsk-from-file\n".to_vec()),
        Some("/run/binary") => Ok(vec![b's', 0xFF, 0xFE]),
        Some("/run/long") => Ok(vec![b'k'; 8193]),
        Some("/run/blank") => Ok(b" \n".to_vec()),
        _ => Err(io::ErrorKind::NotFound.into()),
    }
}

fn load(text: &str) -> Result<Config, Vec<ConfigError>> {
    parse(text, &Sources { env: &env, read_file: &read_file })
}

/// `text`, then those of the upstreams `a` and `b` and of the route `m` that it does not define.
fn whole(text: &str) -> String {
    let tables = [
        ("[upstreams.a]", "base_url = \"http://127.0.0.1:1\""),
        ("[upstreams.b]", "base_url = \"http://127.0.0.1:2\""),
        ("[routes.m]", "targets = [{ upstream = \"a\", model = \"x\" }]"),
    ];
    let mut whole = text.to_owned();
    for (header, body) in tables.into_iter().filter(|(header, _)| !text.contains(header)) {
        whole.push_str(&format!("\n{header}\n{body}\n"));
    }
    whole
}

fn good(text: &str) -> Config {
    load(&whole(text)).unwrap_or_else(|errors| panic!("{text}\n{}", shown(&errors)))
}

fn bad(text: &str) -> Vec<ConfigError> {
    load(&whole(text)).err().unwrap_or_else(|| panic!("loads, though it should not:\n{text}"))
}

fn shown(errors: &[ConfigError]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

/// (text, line, key, parts of the message); the text makes this one mistake, and is made whole otherwise.
type Case = (&'static str, usize, &'static str, &'static [&'static str]);

fn check(cases: &[Case]) {
    for (text, line, key, parts) in cases {
        let errors = bad(text);
        let place = format!("in\n{text}\n{}", shown(&errors));
        assert_eq!(errors.len(), 1, "{place}");
        assert_eq!(errors[0].line, Some(*line), "{place}");
        assert_eq!(errors[0].key, *key, "{place}");
        for part in *parts {
            assert!(errors[0].message.contains(part), "lacks {part:?} {place}");
        }
    }
}
