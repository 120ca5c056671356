//! Generated JSON: chunks, requests and near misses, written in every way that is allowed.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

/// Writes JSON with white space, member order and escapes drawn from a seed.
pub struct Style(u64);

impl Style {
    pub fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    fn draw(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    pub fn write(&mut self, value: &Value) -> String {
        let mut out = String::new();
        self.value(value, &mut out);
        out
    }

    fn space(&mut self, out: &mut String) {
        if self.draw(4) == 0 {
            out.push_str([" ", "\t", "  "][self.draw(3) as usize]);
        }
    }

    fn value(&mut self, value: &Value, out: &mut String) {
        self.space(out);
        match value {
            Value::Object(members) => {
                let mut members: Vec<_> = members.iter().collect();
                for at in (1..members.len()).rev() {
                    members.swap(at, self.draw(at as u64 + 1) as usize);
                }
                out.push('{');
                for (at, (key, value)) in members.into_iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.space(out);
                    self.string(key, 40, out);
                    self.space(out);
                    out.push(':');
                    self.value(value, out);
                }
                out.push('}');
            }
            Value::Array(items) => {
                out.push('[');
                for (at, item) in items.iter().enumerate() {
                    out.push_str(if at > 0 { "," } else { "" });
                    self.value(item, out);
                }
                self.space(out);
                out.push(']');
            }
            // Words that the reading compares are left as any server writes them.
            Value::String(text) => {
                self.string(text, if WORDS.contains(&&**text) { u64::MAX } else { 5 }, out)
            }
            scalar => out.push_str(&scalar.to_string()),
        }
        self.space(out);
    }

    /// Escapes one character in `rarity` that need not be.
    fn string(&mut self, text: &str, rarity: u64, out: &mut String) {
        out.push('"');
        for c in text.chars() {
            if rarity < u64::MAX && self.draw(rarity) == 0 {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    out.push_str(&format!("\\u{unit:04x}"));
                }
            } else {
                let quoted = Value::String(c.into()).to_string();
                out.push_str(&quoted[1..quoted.len() - 1]);
            }
        }
        out.push('"');
    }
}

const WORDS: &[&str] = &[
    "stop",
    "length",
    "tool_calls",
    "content_filter",
    "eos",
    "error",
    "abort",
    "insufficient_system_resource",
    "ping",
    "text",
    "thinking",
    "reference",
    "chat.completion.chunk",
    "chat.completion",
];

fn pick(words: &'static [&'static str]) -> BoxedStrategy<Value> {
    prop::sample::select(words).prop_map(|word| json!(word)).boxed()
}

fn scalars() -> BoxedStrategy<Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (0_u64..5).prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        // Quarters: serde_json does not read every fraction back as it wrote it.
        any::<i32>().prop_map(|quarters| Value::from(f64::from(quarters) / 4.0)),
        "\\PC{0,6}".prop_map(Value::from),
        "[a-z\"\\\\\n\t\u{0}]{0,6}".prop_map(Value::from),
        pick(WORDS),
    ]
    .boxed()
}

/// Any JSON, with the names that matter in any place.
pub fn trees() -> BoxedStrategy<Value> {
    scalars()
        .prop_recursive(6, 40, 6, |inner| {
            let key = prop_oneof![
                prop::sample::select(
                    &[
                        "choices", "delta", "content", "error", "usage", "type", "object", "index", "x_groq",
                        "text", "role"
                    ][..]
                )
                .prop_map(str::to_owned),
                "\\PC{0,4}",
            ];
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::Array),
                prop::collection::btree_map(key, inner, 0..6)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
        .boxed()
}

/// An object that has each member or not; now and then with a value that it should not have.
fn object(members: Vec<(&'static str, BoxedStrategy<Value>)>) -> BoxedStrategy<Value> {
    let members: Vec<_> = members
        .into_iter()
        .map(|(key, value)| {
            let value = prop_oneof![12 => value, 1 => trees()];
            prop::option::of(value).prop_map(move |value| value.map(|value| (key.to_owned(), value)))
        })
        .collect();
    members.prop_map(|members| Value::Object(members.into_iter().flatten().collect::<Map<_, _>>())).boxed()
}

fn list(item: BoxedStrategy<Value>, max: usize) -> BoxedStrategy<Value> {
    prop::collection::vec(item, 0..=max).prop_map(Value::Array).boxed()
}

fn null_or(value: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    prop_oneof![Just(Value::Null), value].boxed()
}

fn texts() -> BoxedStrategy<Value> {
    prop_oneof!["\\PC{0,12}".prop_map(Value::from), Just(json!("")), Just(json!("😀\"\\\n"))].boxed()
}

/// Chunks as servers send them, and near misses.
pub fn chunks() -> BoxedStrategy<Value> {
    let kinds = pick(&["text", "thinking", "reference"]);
    let part = object(vec![("type", kinds), ("text", texts()), ("thinking", list(scalars(), 2))]);
    let content = prop_oneof![4 => texts(), 1 => Just(Value::Null), 1 => list(part, 3)].boxed();
    let delta = object(vec![
        ("content", content),
        ("role", null_or(Just(json!("assistant")).boxed())),
        ("tool_calls", null_or(list(trees(), 2))),
        ("function_call", null_or(object(vec![("name", texts())]))),
        ("refusal", null_or(texts())),
        ("reasoning", null_or(texts())),
        ("reasoning_content", null_or(texts())),
        ("reasoning_details", list(trees(), 1)),
        ("audio", null_or(object(vec![("id", texts())]))),
    ]);
    let finish = pick(&["stop", "length", "tool_calls", "content_filter", "eos", "", "error", "abort"]);
    let choice = object(vec![
        ("index", (0..3).prop_map(Value::from).boxed()),
        ("delta", delta),
        ("finish_reason", prop_oneof![3 => Just(Value::Null), 2 => finish].boxed()),
        ("logprobs", null_or(object(vec![("content", list(trees(), 1))]))),
        ("text", texts()),
    ]);
    let counts = || {
        let count = || prop_oneof![any::<u32>().prop_map(Value::from), scalars()].boxed();
        object(vec![("prompt_tokens", count()), ("completion_tokens", count()), ("total_tokens", count())])
    };
    let error = object(vec![("code", scalars()), ("message", texts()), ("type", pick(WORDS))]);
    let empty = || prop::sample::select(vec![Value::Null, json!(false), json!(""), json!({}), json!([])]);
    object(vec![
        ("choices", prop_oneof![8 => list(choice, 3), 1 => Just(Value::Null)].boxed()),
        ("id", texts()),
        ("created", any::<u32>().prop_map(Value::from).boxed()),
        ("object", pick(&["chat.completion.chunk", "chat.completion.chunk", "chat.completion.chunk", "error", "x"])),
        ("usage", null_or(counts())),
        ("error", prop_oneof![9 => empty(), 1 => error].boxed()),
        ("x_groq", prop_oneof![3 => object(vec![("usage", counts())]), 1 => object(vec![("error", null_or(texts()))])].boxed()),
        ("extra", trees()),
    ])
}

/// Requests as clients send them, and near misses.
pub fn requests() -> BoxedStrategy<Value> {
    let roles = pick(&["system", "user", "assistant", "tool"]);
    let message = object(vec![("role", roles), ("content", texts()), ("name", texts())]);
    object(vec![
        ("model", texts()),
        ("messages", list(message, 3)),
        ("stream", any::<bool>().prop_map(Value::from).boxed()),
        ("n", (1..3).prop_map(Value::from).boxed()),
        ("max_tokens", any::<i16>().prop_map(Value::from).boxed()),
        (
            "stream_options",
            null_or(object(vec![
                ("include_usage", null_or(any::<bool>().prop_map(Value::from).boxed())),
                ("continuous_usage_stats", any::<bool>().prop_map(Value::from).boxed()),
            ])),
        ),
        ("extra", trees()),
    ])
}
