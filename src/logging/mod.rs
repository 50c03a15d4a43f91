//! The daemon's log: its filter, format and output.
//!
//! [`output`] writes the log; [`Control`] changes the filter while the daemon runs; [`Limiter`] limits repeated warnings;
//! [`ServerOutput`] keeps what servers write to stderr. Log entries themselves are not changed here.

mod limiter;
mod output;
mod server_output;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

pub use self::limiter::Limiter;
pub use self::output::{Flush, Format};
pub use self::server_output::{LogFile, ServerOutput};
pub(crate) use self::server_output::{ServerLine, kept_lines, older};

/// Changes the log's filter while the daemon runs. The default cannot change it.
#[derive(Debug, Default)]
pub struct Control {
    current: Filter,
    /// `None` if a program that embeds mcpd controls the log.
    handle: Option<reload::Handle<EnvFilter, Registry>>,
}

/// Starts the log on standard error, or in `file` if standard error is redirected to it. Dropping [`Flush`] writes pending lines.
#[must_use]
pub fn start(filter: Filter, format: Option<Format>, file: Option<LogFile>) -> (Control, Flush) {
    let (reloadable, handle) = reload::Layer::new(filter.to_env_filter());
    let (output, flush) = output::open(format, file);
    // A subscriber of a program that embeds the library stays.
    let ours = tracing_subscriber::registry().with(reloadable).with(output.boxed()).try_init().is_ok();
    (Control { current: filter, handle: ours.then_some(handle) }, flush)
}

impl Control {
    /// The filter in force.
    #[must_use]
    pub fn filter(&self) -> &str {
        self.current.text()
    }

    /// Replaces the filter.
    ///
    /// # Errors
    /// If the filter is invalid, or another program controls the log. The former filter stays.
    pub fn set(&mut self, text: &str) -> Result<(), BadFilter> {
        let filter = Filter::parse(text)?;
        let handle = self.handle.as_ref().ok_or(BadFilter::NotOurs)?;
        handle.reload(filter.to_env_filter()).map_err(|_| BadFilter::NotOurs)?;
        tracing::info!("the log's filter is now `{}`", filter.text());
        self.current = filter;
        Ok(())
    }
}

const MAX_LEN: usize = 1024;
const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// A valid filter: a level, or directives such as `info,mcpd::session=debug`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter(String);

/// Why a filter is not accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadFilter {
    /// It is empty or too long.
    #[error("a filter has 1 to {MAX_LEN} bytes: write a level, one of {levels}", levels = LEVELS.join(", "))]
    Length,
    /// It would be read as a module name, but is most likely a mistyped level.
    #[error("`{0}` is no level: write one of {levels}, or a module of mcpd with its level, such as `mcpd::session=debug`", levels = LEVELS.join(", "))]
    NoLevel(String),
    #[error("`{0}` is no filter: write a level, one of {levels}, or several parts such as `info,mcpd::session=debug`", levels = LEVELS.join(", "))]
    Malformed(String),
    /// mcpd did not set up the log.
    #[error("the program that embeds mcpd controls the log: change the filter there")]
    NotOurs,
}

impl Filter {
    /// Checks `text`.
    ///
    /// # Errors
    /// See [`BadFilter`].
    pub fn parse(text: &str) -> Result<Self, BadFilter> {
        let text = text.trim();
        if text.is_empty() || text.len() > MAX_LEN {
            return Err(BadFilter::Length);
        }
        let printable = |part: &str| part.escape_debug().to_string();
        for part in text.split(',').map(str::trim) {
            let is_level = LEVELS.iter().any(|level| part.eq_ignore_ascii_case(level));
            if !is_level && !part.contains(['=', '[', ']', '{', '}']) && !part.starts_with("mcpd") {
                return Err(BadFilter::NoLevel(printable(part)));
            }
        }
        match build(text) {
            Ok(_) => Ok(Self(text.to_owned())),
            Err(_) => Err(BadFilter::Malformed(printable(text))),
        }
    }

    /// The text of the filter.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }

    fn to_env_filter(&self) -> EnvFilter {
        // It was checked by `parse`.
        build(&self.0).unwrap_or_default()
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

fn build(text: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    // Regular expressions would run on every logged value.
    EnvFilter::builder().with_regex(false).parse(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_and_directives_are_filters() {
        for text in
            ["info", "OFF", " debug ", "warn,mcpd::session=trace", "mcpd=debug", "mcpd::calls", "[mcp.call]=debug"]
        {
            assert_eq!(Filter::parse(text).map(|filter| filter.text().to_owned()), Ok(text.trim().to_owned()));
        }
    }

    #[test]
    fn invalid_filters_are_refused_with_a_sentence() {
        let check = |text: &str, expected: &str| {
            let error = Filter::parse(text).expect_err(text).to_string();
            assert!(error.contains(expected), "{text:?}: {error}");
        };
        check("", "1 to 1024 bytes");
        check(&"x".repeat(2000), "1 to 1024 bytes");
        check("dbug", "`dbug` is no level: write one of off, error");
        check("info,", "`` is no level");
        check("info;debug", "is no level");
        check("mcpd=loud", "`mcpd=loud` is no filter");
        check("mcpd=debug=trace", "is no filter");
        check("a\u{1b}[2J", "`a\\u{1b}[2J` is no filter");
    }
}
