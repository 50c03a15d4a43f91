//! Durations as people read and write them: `500ms`, `5s`, `1m 30s`.
//!
//! Pure. Programs get numbers of milliseconds instead.

use std::time::Duration;

/// What to write where no duration can be read.
pub(crate) const EXAMPLES: &str = "write a number with a unit, such as `500ms`, `30s` or `5m`";

/// Units with their length in nanoseconds, the longest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

/// `duration` in full. [`parse`] reads it back.
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

/// Reads the value of an option.
///
/// # Errors
/// If it has no unit, is no duration, or is zero.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    match humantime::parse_duration(text) {
        Ok(Duration::ZERO) => Err(format!("it must be longer than nothing; {EXAMPLES}")),
        Ok(duration) => Ok(duration),
        Err(_) if text.parse::<f64>().is_ok_and(f64::is_finite) => Err(format!("it has no unit; {EXAMPLES}")),
        Err(error) => Err(format!("{error}; {EXAMPLES}")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn each_part_has_its_unit() {
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
    fn a_number_needs_a_unit_and_is_not_zero() {
        for (text, complaint) in
            [("30", "no unit"), ("0.5", "no unit"), ("0s", "longer than nothing"), ("", ""), ("5x", ""), ("-1s", "")]
        {
            let error = parse(text).expect_err(text);
            assert!(error.contains(complaint) && error.ends_with(EXAMPLES), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn what_is_shown_can_be_read(ns in 1..u64::MAX) {
            let duration = Duration::from_nanos(ns);
            prop_assert_eq!(parse(&format(duration)), Ok(duration));
        }
    }
}
