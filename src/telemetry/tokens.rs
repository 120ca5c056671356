//! How many tokens a text would be: an estimate, for attempts whose upstream gave no figures.
//!
//! The vocabulary is `o200k_base`, that of OpenAI's models since GPT-4o. It is a part of the binary, unpacked at the
//! first use (100 ms and 46 MiB, once a process), and counting takes its time: never on a core's thread
//! (`docs/adr/0008-tokens-are-estimated-with-tiktoken-rs.md`).

use tiktoken_rs::o200k_base_singleton;

use crate::protocol::texts::{message_texts, unescape};

/// Of one attempt's prompt, and of its answer, so many bytes of escaped text are counted; what is longer is taken to go
/// on alike. Arbitrary: about 60,000 tokens of English in 6 ms, and 80 ms for the
/// worst text found.
pub const TEXT_BYTES_MAX: usize = 256 * 1024;
/// What a message costs besides its texts: its role and the marks around it (OpenAI Cookbook, "How to count tokens").
pub const MESSAGE_TOKENS: u64 = 4;
/// What the beginning of the answer costs the prompt (the same source).
pub const REPLY_TOKENS: u64 = 3;

/// The tokens of a prompt: of `messages`, an array as JSON, and of `behind`, escaped text that was added as one more
/// message; empty: none was. None if it is no array.
pub fn of_prompt(messages: &[u8], behind: &[u8]) -> Option<u64> {
    let mut count = Count::default();
    let mut messages_count = message_texts(messages, |text| count.add(text))? as u64;
    if !behind.is_empty() {
        messages_count += 1;
        count.add(behind);
    }
    let around = messages_count.saturating_mul(MESSAGE_TOKENS).saturating_add(REPLY_TOKENS);
    Some(count.tokens().saturating_add(around))
}

/// The tokens of escaped text.
pub fn of_text(escaped: &[u8]) -> u64 {
    let mut count = Count::default();
    count.add(escaped);
    count.tokens()
}

#[derive(Default)]
struct Count {
    tokens: u64,
    /// Bytes of escaped text that were counted, and those that there are.
    counted: usize,
    bytes: usize,
}

impl Count {
    fn add(&mut self, escaped: &[u8]) {
        self.bytes += escaped.len();
        let some = &escaped[..escaped.len().min(TEXT_BYTES_MAX - self.counted)];
        if !some.is_empty() {
            self.counted += some.len();
            // An escape that was cut in two is a token more or less.
            let text = unescape(some);
            self.tokens += o200k_base_singleton().count_ordinary(&String::from_utf8_lossy(&text)) as u64;
        }
    }

    fn tokens(&self) -> u64 {
        if self.counted == self.bytes {
            return self.tokens;
        }
        let all = u128::from(self.tokens) * self.bytes as u128 / (self.counted as u128).max(1);
        u64::try_from(all).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> u64 {
        o200k_base_singleton().count_ordinary(text) as u64
    }

    #[test]
    fn texts_are_counted_unescaped() {
        let cases = [
            ("", 0),
            ("hello world", 2),
            (r#"a \"b\"\n\u00fc"#, tokens("a \"b\"\nü")),
            (r"\ud83d\ude00", tokens("\u{1f600}")),
            // Halves of characters and broken escapes are counted as something.
            (r"\ud83d", tokens("\u{fffd}\u{fffd}\u{fffd}")),
            (r"x\u12", tokens("x12")),
        ];
        for (escaped, want) in cases {
            assert_eq!(of_text(escaped.as_bytes()), want, "{escaped}");
        }
    }

    #[test]
    fn a_prompt_costs_its_texts_and_its_messages() {
        let one = r#"[{"role":"user","content":"hello world"}]"#;
        let two = r#"[{"role":"system","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"hello world"}]}]"#;
        assert_eq!(of_prompt(one.as_bytes(), b""), Some(2 + MESSAGE_TOKENS + REPLY_TOKENS));
        let want = tokens("Be brief.") + 2 + 2 * MESSAGE_TOKENS + REPLY_TOKENS;
        assert_eq!(of_prompt(two.as_bytes(), b""), Some(want));
        assert_eq!(of_prompt(two.as_bytes(), b"hello world"), Some(want + 2 + MESSAGE_TOKENS));
        assert_eq!((of_prompt(b"[]", b""), of_prompt(b"{}", b"")), (Some(REPLY_TOKENS), None));
    }

    #[test]
    fn what_is_past_the_limit_is_taken_to_go_on_alike() {
        let word = " sailor";
        let fits = word.repeat(TEXT_BYTES_MAX / word.len());
        let at_limit = format!("{fits}{}", &" sailor"[..TEXT_BYTES_MAX - fits.len()]);
        assert_eq!(of_text(at_limit.as_bytes()), tokens(&at_limit));
        // One byte past it is not counted, only reckoned with.
        let past = format!("{at_limit}x");
        assert_eq!(of_text(past.as_bytes()), tokens(&at_limit));
        let (twice, once) = (of_text(at_limit.repeat(2).as_bytes()), tokens(&at_limit));
        assert_eq!(twice, 2 * once);
        // Nor does a further message find room.
        let messages = format!(r#"[{{"content":"{at_limit}"}},{{"content":"{at_limit}"}}]"#);
        assert_eq!(of_prompt(messages.as_bytes(), b""), Some(twice + 2 * MESSAGE_TOKENS + REPLY_TOKENS));
    }
}
