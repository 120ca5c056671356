//! What the scripted upstream does wrong, told by the name of the model that it is asked for.

/// How one request is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// As it should be.
    Healthy,
    /// The answer goes wrong once `words` of it were sent; at its end if it has fewer.
    After { words: usize, fault: MidStream },
    /// The connection is closed (FIN) before any byte of a response.
    Refuse,
    /// An HTTP error, 400 to 599, with an error object as its body.
    Status(u16),
    /// No byte ever comes.
    Silent,
}

/// What goes wrong within an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MidStream {
    /// FIN, without the body's last chunk.
    CutFin,
    /// RST. What the peer's kernel has not yet taken is lost.
    CutRst,
    /// Nothing more comes, and the connection stays open.
    Stall,
    /// One word comes as a frame that breaks off inside its text value; then the answer goes on.
    Garbage,
    /// A frame with an error object, then the body's proper end without `[DONE]`.
    Error,
}

/// One name of each kind, as `GET /v1/models` lists them.
pub const EXAMPLES: [&str; 11] = [
    "healthy",
    "cut-fin-after-20",
    "cut-rst-after-20",
    "stall-after-20",
    "garbage-after-20",
    "error-after-20",
    "refuse",
    "status-429",
    "status-500",
    "status-503",
    "silent",
];

impl Script {
    /// The script of that name; `healthy` if there is none.
    pub fn parse(model: &str) -> Self {
        match model {
            "refuse" => return Self::Refuse,
            "silent" => return Self::Silent,
            _ => {}
        }
        if let Some(status) = model.strip_prefix("status-") {
            return match decimal(status) {
                Some(status @ 400..=599) => Self::Status(status),
                _ => Self::Healthy,
            };
        }
        let Some((fault, words)) = model.rsplit_once("-after-") else { return Self::Healthy };
        let fault = match fault {
            "cut-fin" => MidStream::CutFin,
            "cut-rst" => MidStream::CutRst,
            "stall" => MidStream::Stall,
            "garbage" => MidStream::Garbage,
            "error" => MidStream::Error,
            _ => return Self::Healthy,
        };
        match decimal(words) {
            Some(words) => Self::After { words: usize::from(words), fault },
            None => Self::Healthy,
        }
    }
}

/// Digits alone: no sign, no white space.
fn decimal(text: &str) -> Option<u16> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_models_name_tells_the_script() {
        let after = |words, fault| Script::After { words, fault };
        let cases = [
            ("healthy", Script::Healthy),
            ("cut-fin-after-0", after(0, MidStream::CutFin)),
            ("cut-fin-after-20", after(20, MidStream::CutFin)),
            ("cut-rst-after-7", after(7, MidStream::CutRst)),
            ("stall-after-65535", after(65535, MidStream::Stall)),
            ("garbage-after-1", after(1, MidStream::Garbage)),
            ("error-after-01", after(1, MidStream::Error)),
            ("refuse", Script::Refuse),
            ("status-429", Script::Status(429)),
            ("status-400", Script::Status(400)),
            ("status-599", Script::Status(599)),
            ("silent", Script::Silent),
        ];
        for (name, want) in cases {
            assert_eq!(Script::parse(name), want, "{name}");
        }
    }

    #[test]
    fn any_other_name_is_healthy() {
        let names = [
            "",
            "gpt-4o",
            "Refuse",
            "refuse-after-3",
            "status-200",
            "status-399",
            "status-600",
            "status-",
            "status-+429",
            "cut-fin",
            "cut-fin-after-",
            "cut-fin-after--1",
            "cut-fin-after-65536",
            "cut-fin-after-3 ",
            "cut-after-3",
            "stall-after-3-after-3",
        ];
        for name in names {
            assert_eq!(Script::parse(name), Script::Healthy, "{name:?}");
        }
    }

    #[test]
    fn all_examples_but_the_first_do_something_wrong() {
        let healthy = EXAMPLES.into_iter().filter(|name| Script::parse(name) == Script::Healthy);
        assert_eq!(healthy.collect::<Vec<_>>(), ["healthy"]);
    }
}
