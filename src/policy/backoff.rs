//! How long to wait before the same target is asked again, and what Retry-After says.

use std::time::Duration;

use super::RetryLimits;

/// The wait before retry number `retry` (0 is the first): exponential from `initial_backoff`, capped by
/// `max_backoff`, with full jitter: `draw`, a random number, picks evenly between zero and that.
pub fn backoff(retry: u32, limits: &RetryLimits, draw: u64) -> Duration {
    let doubled = limits.initial_backoff.saturating_mul(1u32.checked_shl(retry).unwrap_or(u32::MAX));
    let ceiling = u64::try_from(doubled.min(limits.max_backoff).as_nanos()).unwrap_or(u64::MAX);
    // The high half of a 128-bit product maps a 64-bit draw onto 0..=ceiling without a division.
    let share = (u128::from(draw) * (u128::from(ceiling) + 1)) >> 64;
    Duration::from_nanos(u64::try_from(share).unwrap_or(ceiling))
}

/// The longest wait that is believed; what is longer is cut to it (a day; arbitrary).
const RETRY_AFTER_MAX: Duration = Duration::from_secs(86_400);

/// What an upstream asked to be left alone for: `retry-after-ms`, else `retry-after` in seconds (a fraction
/// too, as some servers send) or as an HTTP date (RFC 9110, section 10.2.3). `unix_now` is in seconds.
pub fn retry_after(seconds_or_date: Option<&[u8]>, millis: Option<&[u8]>, unix_now: u64) -> Option<Duration> {
    let number = |value: &[u8]| {
        let value: f64 = std::str::from_utf8(value).ok()?.trim().parse().ok()?;
        (value.is_finite() && value >= 0.0).then_some(value)
    };
    let wait = if let Some(millis) = millis.and_then(number) {
        millis / 1_000.0
    } else {
        let value = seconds_or_date?;
        match number(value) {
            Some(seconds) => seconds,
            None => {
                let date = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
                let at = date.duration_since(std::time::UNIX_EPOCH).ok()?.as_secs();
                return Some(Duration::from_secs(at.saturating_sub(unix_now)).min(RETRY_AFTER_MAX));
            }
        }
    };
    Some(Duration::from_secs_f64(wait.min(RETRY_AFTER_MAX.as_secs_f64())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::tests::policy;

    const MS: fn(u64) -> Duration = Duration::from_millis;

    #[test]
    fn doubles_up_to_the_cap_and_jitters_down_to_nothing() {
        let limits = policy().retry;
        let cases = [
            ("no luck, first", 0, u64::MAX, MS(250)),
            ("no luck, second", 1, u64::MAX, MS(500)),
            ("no luck, third", 2, u64::MAX, MS(1_000)),
            ("capped", 3, u64::MAX, MS(2_000)),
            ("capped for ever", 4, u64::MAX, MS(2_000)),
            ("a shift too far", 40, u64::MAX, MS(2_000)),
            ("all luck", 3, 0, MS(0)),
            ("half", 0, u64::MAX / 2, MS(125)),
        ];
        for (name, retry, draw, want) in cases {
            assert_eq!(backoff(retry, &limits, draw), want, "{name}");
        }
    }

    #[test]
    fn reads_every_form_of_retry_after() {
        let cases: [(&str, Option<&str>, Option<&str>, Option<Duration>); 10] = [
            ("seconds", Some("2"), None, Some(MS(2_000))),
            ("a fraction", Some("0.5"), None, Some(MS(500))),
            ("milliseconds win", Some("9"), Some("1500"), Some(MS(1_500))),
            ("bad milliseconds do not", Some("9"), Some("x"), Some(MS(9_000))),
            ("a date to come", Some("Thu, 01 Jan 1970 00:01:40 GMT"), None, Some(MS(60_000))),
            ("a date gone by", Some("Thu, 01 Jan 1970 00:00:01 GMT"), None, Some(MS(0))),
            ("negative", Some("-1"), None, None),
            ("no number", Some("soon"), None, None),
            ("infinite", Some("inf"), None, None),
            ("absurd", Some("1e30"), None, Some(RETRY_AFTER_MAX)),
        ];
        for (name, seconds, millis, want) in cases {
            let got = retry_after(seconds.map(str::as_bytes), millis.map(str::as_bytes), 40);
            assert_eq!(got, want, "{name}");
        }
        assert_eq!(retry_after(None, None, 0), None);
    }
}
