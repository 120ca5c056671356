//! What a scenario must come to: `LEFT <= RIGHT`, over numbers and the figures of its reports.
//!
//! A side is a sum of products: `1.5 * calm.others.gap_us.p99 + 2000`. A name is a path into the reports: phase, load,
//! figure.

use serde_json::Value;

/// A condition with the values that it was judged by.
#[derive(Debug, PartialEq)]
pub struct Judged {
    pub holds: bool,
    pub left: f64,
    pub right: f64,
}

const OPERATORS: [(&str, fn(f64, f64) -> bool); 6] = [
    ("<=", |left, right| left <= right),
    (">=", |left, right| left >= right),
    ("==", |left, right| left == right),
    ("!=", |left, right| left != right),
    ("<", |left, right| left < right),
    (">", |left, right| left > right),
];

/// Judges `condition` by `figures`.
///
/// # Errors
/// It is no condition, or names a figure that there is none of.
pub fn judge(condition: &str, figures: &Value) -> Result<Judged, String> {
    for (operator, holds) in OPERATORS {
        if let Some((left, right)) = condition.split_once(operator) {
            let (left, right) = (sum(left, figures)?, sum(right, figures)?);
            return Ok(Judged { holds: holds(left, right), left, right });
        }
    }
    Err(format!("{condition:?} compares nothing"))
}

fn sum(text: &str, figures: &Value) -> Result<f64, String> {
    text.split('+').map(|term| product(term, figures)).sum()
}

fn product(text: &str, figures: &Value) -> Result<f64, String> {
    text.split('*').map(|factor| factor_of(factor.trim(), figures)).product()
}

fn factor_of(text: &str, figures: &Value) -> Result<f64, String> {
    if let Ok(number) = text.parse::<f64>() {
        return Ok(number);
    }
    let found = text.split('.').try_fold(figures, |figures, name| match figures {
        Value::Array(list) => list.get(name.parse::<usize>().ok()?),
        figures => figures.get(name),
    });
    found.and_then(Value::as_f64).ok_or_else(|| format!("there is no figure {text:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_compare_sums_of_products() {
        let figures =
            serde_json::json!({"calm": {"load": {"gap_us": {"p99": 200.0}, "streams_open": [3, 4]}}});
        let cases = [
            ("1 <= 2", Ok((true, 1.0, 2.0))),
            ("2 < 2", Ok((false, 2.0, 2.0))),
            ("calm.load.gap_us.p99 == 200", Ok((true, 200.0, 200.0))),
            ("500 >= 1.5 * calm.load.gap_us.p99 + 100", Ok((true, 500.0, 400.0))),
            ("calm.load.streams_open.1 != 4", Ok((false, 4.0, 4.0))),
            ("calm.load.gap_us > 1", Err("there is no figure \"calm.load.gap_us\"")),
            ("storm.load.events > 1", Err("there is no figure \"storm.load.events\"")),
            ("1 + 1", Err("\"1 + 1\" compares nothing")),
        ];
        for (condition, want) in cases {
            let got = judge(condition, &figures).map(|judged| (judged.holds, judged.left, judged.right));
            assert_eq!(got, want.map_err(str::to_owned), "{condition}");
        }
    }
}
