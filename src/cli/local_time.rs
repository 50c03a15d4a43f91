//! Times for people, in the local zone: `TZ`, else the zone of this machine. Programs get RFC 3339 in UTC.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// How much of a time is shown.
#[derive(Debug, Clone, Copy)]
pub(super) enum TimeFormat {
    /// `11:20:30`, where there is little room.
    Clock,
    /// `2026-01-01 11:20:30.456`, where the reader is at the terminal.
    Full,
    /// `2026-01-01T11:20:30.456+01:00`, for text that is read elsewhere, or later.
    Zoned,
    /// `2026-01-01 11:20:30 +01:00`, in a sentence.
    Sentence,
}

/// `time`, which is RFC 3339, in the local zone; as it is if it cannot be read.
pub(super) fn format(time: &str, format: TimeFormat) -> String {
    format_in(time, format, TimeZone::system())
}

fn format_in(time: &str, format: TimeFormat, zone: TimeZone) -> String {
    let Ok(moment) = time.parse::<Timestamp>() else { return time.to_owned() };
    let pattern = match format {
        TimeFormat::Clock => "%H:%M:%S",
        TimeFormat::Full => "%Y-%m-%d %H:%M:%S%.3f",
        TimeFormat::Zoned => "%Y-%m-%dT%H:%M:%S%.3f%:z",
        TimeFormat::Sentence => "%Y-%m-%d %H:%M:%S %:z",
    };
    moment.to_zoned(zone).strftime(pattern).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_shown_in_the_zone_that_holds_on_that_day() {
        let berlin = || TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").expect("a zone");
        for (time, format, expected) in [
            ("2026-01-01T10:20:30.456Z", TimeFormat::Clock, "11:20:30"),
            ("2026-01-01T10:20:30.456Z", TimeFormat::Full, "2026-01-01 11:20:30.456"),
            ("2026-07-01T10:20:30.456Z", TimeFormat::Zoned, "2026-07-01T12:20:30.456+02:00"),
            ("2025-12-31T23:30:00.000Z", TimeFormat::Sentence, "2026-01-01 00:30:00 +01:00"),
            ("some time", TimeFormat::Zoned, "some time"),
        ] {
            assert_eq!(format_in(time, format, berlin()), expected);
        }
    }
}
