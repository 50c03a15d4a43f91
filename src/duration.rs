//! Formats and parses durations for people: `500ms`, `5s`, `1m 30s`. Pure.

use std::time::Duration;

/// The end of errors about invalid durations.
pub(crate) const EXAMPLES: &str = "write a number with a unit, such as `500ms`, `30s` or `5m`";

/// Units with their lengths in nanoseconds.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// The exact duration; [`parse`] reads it back.
pub(crate) fn format(duration: Duration) -> String {
    let mut left = duration.as_nanos();
    let mut parts = Vec::new();
    for (unit, length) in UNITS {
        if left >= length {
            parts.push(format!("{}{unit}", left / length));
            left %= length;
        }
    }
    if parts.is_empty() { "0s".to_owned() } else { parts.join(" ") }
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub(crate) enum InvalidDuration {
    #[error("it must be longer than 0; {EXAMPLES}")]
    Zero,
    #[error("it has no unit; {EXAMPLES}")]
    NoUnit,
    #[error("{0}; {EXAMPLES}")]
    Malformed(humantime::DurationError),
}

/// # Errors
/// If `text` has no unit, is no duration, or is zero.
pub(crate) fn parse(text: &str) -> Result<Duration, InvalidDuration> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err(InvalidDuration::Zero),
        Ok(duration) => Ok(duration),
        Err(_) if text.parse::<f64>().is_ok_and(f64::is_finite) => Err(InvalidDuration::NoUnit),
        Err(error) => Err(InvalidDuration::Malformed(error)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn format_uses_every_unit() {
        for (ms, expected) in [
            (0, "0s"),
            (500, "500ms"),
            (5_000, "5s"),
            (90_000, "1m 30s"),
            (1_500, "1s 500ms"),
            (7_200_000, "2h"),
            (266_400_000, "3d 2h"),
            (3_456_000_000, "40d"),
        ] {
            assert_eq!(format(Duration::from_millis(ms)), expected);
        }
    }

    #[test]
    fn parse_rejects_zero_and_numbers_without_a_unit() {
        for (text, complaint) in
            [("30", "no unit"), ("0.5", "no unit"), ("0s", "longer than 0"), ("", ""), ("5x", ""), ("-1s", "")]
        {
            let error = parse(text).expect_err(text).to_string();
            assert!(error.contains(complaint) && error.ends_with(EXAMPLES), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn parse_reads_what_format_writes(ns in 1..u64::MAX) {
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
