//! The demo's routes: a model name for each thing that can go wrong with the first upstream.

use std::net::SocketAddr;

use clap::ValueEnum;

use crate::net::driver::Io;

/// What happens to the first upstream half-way through its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Fault {
    /// It closes the connection.
    Cut,
    /// It resets the connection.
    Reset,
    /// It falls silent.
    Stall,
    /// It sends a broken frame.
    Garbage,
    /// It reports an error inside the stream.
    Error,
}

impl Fault {
    /// The model name that a client asks for.
    pub const fn route(self) -> &'static str {
        match self {
            Self::Cut => "demo-cut",
            Self::Reset => "demo-reset",
            Self::Stall => "demo-stall",
            Self::Garbage => "demo-garbage",
            Self::Error => "demo-error",
        }
    }

    /// What became of upstream one, for the mark in the text.
    pub const fn told(self) -> &'static str {
        match self {
            Self::Cut => "was cut here",
            Self::Reset => "was reset here",
            Self::Stall => "fell silent here",
            Self::Garbage => "sent garbage here",
            Self::Error => "reported an error here",
        }
    }
}

/// Every route and the script of its first target; the second one is always healthy.
pub const ROUTES: [(&str, &str); 11] = [
    ("demo-healthy", "healthy"),
    ("demo-cut", "cut-fin-after-24"),
    ("demo-reset", "cut-rst-after-24"),
    ("demo-stall", "stall-after-24"),
    ("demo-garbage", "garbage-after-24"),
    ("demo-error", "error-after-24"),
    ("demo-refused", "refuse"),
    ("demo-silent", "silent"),
    ("demo-429", "status-429"),
    ("demo-500", "status-500"),
    ("demo-503", "status-503"),
];

/// The proxy's config: TOML, as an operator would write it.
pub fn config(one: SocketAddr, two: SocketAddr, io: Io) -> String {
    let io = io_name(io);
    let mut text = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nworkers = 1\nio = \"{io}\"\ndrain = \"1s\"\n\
         [admin]\nlisten = \"\"\n[log]\naccess = \"off\"\n\n\
         [upstreams.one]\nbase_url = \"http://{one}/v1\"\ncontinuation = \"prefill\"\n\n\
         [upstreams.two]\nbase_url = \"http://{two}/v1\"\ncontinuation = \"prefill\"\n\n\
         [defaults]\ntimeouts = {{ first_token = \"3s\", idle = \"1s\" }}\n\
         stream_failure = {{ mode = \"continue\" }}\n"
    );
    for (route, script) in ROUTES {
        text.push_str(&format!(
            "\n[routes.{route}]\ntargets = [\n  {{ upstream = \"one\", model = \"{script}\" }},\n  \
             {{ upstream = \"two\", model = \"healthy\" }},\n]\n"
        ));
    }
    text
}

const fn io_name(io: Io) -> &'static str {
    match io {
        Io::Auto => "auto",
        Io::IoUring => "io_uring",
        Io::Epoll => "epoll",
    }
}

/// Reads the command line's name of an I/O driver.
pub fn parse_io(name: &str) -> Result<Io, String> {
    [Io::Auto, Io::IoUring, Io::Epoll]
        .into_iter()
        .find(|&io| io_name(io) == name)
        .ok_or_else(|| "one of auto, io_uring, epoll".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Sources};
    use crate::demo::script::{MidStream, Script};

    #[test]
    fn the_config_is_one_and_its_routes_go_wrong_as_their_faults_say() {
        let address = "127.0.0.1:8081".parse().unwrap();
        let sources = Sources { env: &|_| None, read_file: &|_| Err(std::io::ErrorKind::NotFound.into()) };
        let config = config::parse(&config(address, address, Io::Epoll), &sources).unwrap();
        assert_eq!(config.server.io, Io::Epoll);
        assert_eq!(config.routes.len(), ROUTES.len());
        let faults = [
            (Fault::Cut, MidStream::CutFin),
            (Fault::Reset, MidStream::CutRst),
            (Fault::Stall, MidStream::Stall),
            (Fault::Garbage, MidStream::Garbage),
            (Fault::Error, MidStream::Error),
        ];
        assert_eq!(faults.len(), Fault::value_variants().len());
        for (fault, want) in faults {
            let (_, route) = config.route(fault.route()).unwrap();
            let script = Script::parse(&route.targets[0].model);
            assert!(matches!(script, Script::After { fault, .. } if fault == want), "{fault:?}");
        }
    }

    #[test]
    fn drivers_are_named_as_in_the_config() {
        let cases = [
            ("auto", Some(Io::Auto)),
            ("io_uring", Some(Io::IoUring)),
            ("epoll", Some(Io::Epoll)),
            ("", None),
        ];
        for (name, want) in cases {
            assert_eq!(parse_io(name).ok(), want, "{name}");
        }
    }
}
