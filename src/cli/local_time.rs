//! Local times for people, in the zone of `TZ` or of the machine. `--json` has RFC 3339 in UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;

#[derive(Debug, Clone, Copy)]
pub(super) enum TimeFormat {
    /// `2026-01-01`.
    Date,
    /// `11:20:30`.
    Clock,
    /// `Jan 01 11:20:30`, for a narrow terminal.
    Short,
    /// `2026-01-01 11:20:30.456`, for a wide terminal.
    Full,
    /// `2026-01-01T11:20:30.456+01:00`, for text that is saved or sent elsewhere.
    Zoned,
    /// `2026-01-01 11:20:30 +01:00`, for sentences.
    Sentence,
}

/// Converts an RFC 3339 time to the local zone. Other text is returned unchanged.
pub(super) fn format(time: &str, format: TimeFormat) -> String {
    format_in(time, format, TimeZone::system())
}

fn format_in(time: &str, format: TimeFormat, zone: TimeZone) -> String {
    let Ok(timestamp) = time.parse::<Timestamp>() else { return time.to_owned() };
    let pattern = match format {
        TimeFormat::Date => "%Y-%m-%d",
        TimeFormat::Clock => "%H:%M:%S",
        TimeFormat::Short => "%b %d %H:%M:%S",
        TimeFormat::Full => "%Y-%m-%d %H:%M:%S%.3f",
        TimeFormat::Zoned => "%Y-%m-%dT%H:%M:%S%.3f%:z",
        TimeFormat::Sentence => "%Y-%m-%d %H:%M:%S %:z",
    };
    timestamp.to_zoned(zone).strftime(pattern).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_in_the_zone_of_its_day() {
        let berlin = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        for (time, format, expected) in [
            ("2025-12-31T23:30:00.000Z", TimeFormat::Date, "2026-01-01"),
            ("2026-01-01T10:20:30.456Z", TimeFormat::Clock, "11:20:30"),
            ("2025-12-31T23:30:00.000Z", TimeFormat::Short, "Jan 01 00:30:00"),
            ("2026-01-01T10:20:30.456Z", TimeFormat::Full, "2026-01-01 11:20:30.456"),
            ("2026-07-01T10:20:30.456Z", TimeFormat::Zoned, "2026-07-01T12:20:30.456+02:00"),
            ("2025-12-31T23:30:00.000Z", TimeFormat::Sentence, "2026-01-01 00:30:00 +01:00"),
            ("some time", TimeFormat::Zoned, "some time"),
        ] {
            assert_eq!(format_in(time, format, berlin()), expected);
        }
    }
}
