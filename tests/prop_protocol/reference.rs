//! What a chunk says, worked out from serde_json's value.

use baton::protocol::{Finish, Reading, Span, Usage};
use serde_json::{Value, json};

/// A reading, with texts instead of spans.
#[derive(Debug, PartialEq)]
pub enum Says {
    Delta(Said),
    Error,
    KeepAlive,
    Foreign,
    Other,
}

#[derive(Debug, Default, PartialEq)]
pub struct Said {
    pub text: Vec<String>,
    role: bool,
    tool_call: bool,
    reasoning: bool,
    refusal: bool,
    audio: bool,
    logprobs: bool,
    other_choice: bool,
    choices: Vec<(i64, Option<Finish>)>,
    usage: Option<Usage>,
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(flag) => !flag,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(members) => members.is_empty(),
    }
}

impl Says {
    pub fn read(payload: &str, reading: &Reading) -> Self {
        match reading {
            Reading::Delta(delta) => Self::Delta(Said {
                text: delta.text.iter().map(|span| unescaped(payload, *span)).collect(),
                role: delta.role,
                tool_call: delta.tool_call,
                reasoning: delta.reasoning,
                refusal: delta.refusal,
                audio: delta.audio,
                logprobs: delta.logprobs,
                other_choice: delta.other_choice,
                choices: delta.choices.iter().map(|choice| (choice.index, choice.finish)).collect(),
                usage: delta.usage,
            }),
            Reading::Error(_) => Self::Error,
            Reading::KeepAlive => Self::KeepAlive,
            Reading::Foreign => Self::Foreign,
            Reading::Done | Reading::Undecodable { .. } => Self::Other,
        }
    }

    pub fn of(value: &Value) -> Self {
        if let Some(first) = value.as_array().and_then(|items| items.first()) {
            return if first.get("error").is_some_and(|error| !is_empty(error)) {
                Self::Error
            } else {
                Self::Foreign
            };
        }
        let Some(object) = value.as_object() else {
            return if value.is_null() { Self::KeepAlive } else { Self::Foreign };
        };
        let is = |key: &str, word: &str| object.get(key).is_some_and(|value| value == word);
        let error = object.get("error");
        let choices = object.get("choices");
        let said = Said::of(value);
        let is_chunk = match choices {
            Some(Value::Array(_)) => true,
            None | Some(Value::Null) => {
                said.usage.is_some()
                    || is("object", "chat.completion.chunk")
                    || is("object", "chat.completion")
            }
            Some(_) => false,
        };
        let bad_end = |choice: &Value| {
            matches!(
                choice["finish_reason"].as_str(),
                Some("error" | "abort" | "insufficient_system_resource")
            )
        };
        let failed = error.is_some_and(|error| !is_empty(error))
            || is("object", "error")
            || is("type", "error")
            || !is_empty(&value["x_groq"]["error"])
            || choices.and_then(Value::as_array).is_some_and(|choices| choices.iter().any(bad_end));
        let hollow = error.is_some_and(|error| is_empty(error) && (error.is_array() || error.is_object()));
        if failed || (hollow && !is_chunk) {
            Self::Error
        } else if is_chunk {
            Self::Delta(said)
        } else if object.is_empty() || is("type", "ping") {
            Self::KeepAlive
        } else {
            Self::Foreign
        }
    }
}

impl Said {
    fn of(value: &Value) -> Self {
        let mut said =
            Self { usage: usage(&value["usage"]).or(usage(&value["x_groq"]["usage"])), ..Self::default() };
        for choice in value["choices"].as_array().into_iter().flatten().filter(|choice| choice.is_object()) {
            let index = index(choice);
            let finish = choice["finish_reason"].as_str().filter(|reason| !reason.is_empty());
            said.choices.push((index, finish.map(finish_of)));
            said.logprobs |= !is_empty(&choice["logprobs"]);
            let delta = &choice["delta"];
            let calls = delta["tool_calls"].as_array().is_some_and(|calls| !calls.is_empty())
                || delta["function_call"].is_object();
            let parts = match &delta["content"] {
                Value::Array(parts) => parts.clone(),
                Value::Null => Vec::new(),
                one => vec![one.clone()],
            };
            let mut text: Vec<String> = parts.iter().filter_map(text_of).collect();
            if let (false, Some(legacy)) = (delta.is_object(), choice["text"].as_str()) {
                text.push(legacy.to_owned());
            }
            text.retain(|text| !text.is_empty());
            said.other_choice |= index != 0 && (calls || !text.is_empty());
            said.role |= delta.get("role").is_some_and(|role| !role.is_null());
            said.tool_call |= calls;
            said.refusal |= !is_empty(&delta["refusal"]);
            said.audio |= !is_empty(&delta["audio"]);
            let thinks = |part: &Value| {
                part["type"] == "thinking" && (!is_empty(&part["thinking"]) || !is_empty_text(part))
            };
            said.reasoning |= parts.iter().any(thinks)
                || ["reasoning", "reasoning_content", "reasoning_details"]
                    .iter()
                    .any(|key| !is_empty(&delta[key]));
            if index == 0 {
                said.text.append(&mut text);
            }
        }
        said
    }

    /// The texts of the messages alone.
    pub fn without_legacy(self, body: &Value) -> Vec<Value> {
        let choices = body["choices"].as_array().into_iter().flatten().filter(|choice| choice.is_object());
        let mut list: Vec<Value> = Vec::new();
        // A choice without an index is given its position; without a message it says nothing.
        for (position, choice) in choices.enumerate() {
            let mut own = json!({"choices": [{"index": 0, "delta": choice["message"]}]});
            let index = choice.get("index").filter(|index| index.is_number());
            if index.map_or(position == 0, |_| self::index(choice) == 0) {
                list.extend(Self::of(&own.take()).text.into_iter().map(Value::String));
            }
        }
        list
    }
}

/// A choice's index: 0 if it has none.
pub fn index(choice: &Value) -> i64 {
    let index = &choice["index"];
    index.as_i64().or(index.as_f64().map(|index| index as i64)).unwrap_or(0)
}

fn is_empty_text(part: &Value) -> bool {
    part["text"].as_str().is_none_or(str::is_empty)
}

fn text_of(part: &Value) -> Option<String> {
    match part {
        Value::String(text) => Some(text.clone()),
        Value::Object(members) => match members.get("type").and_then(Value::as_str) {
            None | Some("text") => members.get("text")?.as_str().map(str::to_owned),
            Some(_) => None,
        },
        _ => None,
    }
}

fn finish_of(reason: &str) -> Finish {
    match reason {
        "stop" => Finish::Stop,
        "length" => Finish::Length,
        "tool_calls" => Finish::ToolCalls,
        "content_filter" => Finish::ContentFilter,
        _ => Finish::Other,
    }
}

pub fn usage(value: &Value) -> Option<Usage> {
    let count = |key: &str| {
        let number = value.get(key).filter(|number| number.is_number())?;
        Some(number.as_u64().unwrap_or_else(|| number.as_f64().unwrap() as u64))
    };
    let (prompt, completion, total) =
        (count("prompt_tokens"), count("completion_tokens"), count("total_tokens"));
    prompt.or(completion).or(total)?;
    let rest = |part: Option<u64>| total.unwrap_or(0).saturating_sub(part.unwrap_or(0));
    let prompt_tokens = prompt.unwrap_or(rest(completion));
    let completion_tokens = completion.unwrap_or(rest(prompt));
    let total_tokens = total.unwrap_or(prompt_tokens.saturating_add(completion_tokens));
    Some(Usage { prompt_tokens, completion_tokens, total_tokens })
}

fn unescaped(payload: &str, Span { start, end }: Span) -> String {
    serde_json::from_str(&payload[start - 1..end + 1]).unwrap()
}
