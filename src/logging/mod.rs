//! The daemon's log: its filter, format and output.
//!
//! [`filter`] (pure) checks filters; [`output`] and [`file`] write the log; [`Control`] changes the filter while the
//! daemon runs; [`Limiter`] limits repeated warnings; [`ServerOutput`] keeps what servers write to stderr. Log entries themselves are not changed here.

mod file;
mod filter;
mod limiter;
mod output;
mod server_output;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

pub use self::file::LogFile;
pub(crate) use self::file::older;
pub use self::filter::{BadFilter, Filter};
pub use self::limiter::Limiter;
pub use self::output::{Flush, Format};
pub use self::server_output::ServerOutput;
pub(crate) use self::server_output::{ServerLine, kept_lines};

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
