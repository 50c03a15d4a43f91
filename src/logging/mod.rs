//! The daemon's own log: what is let through, in which form, to where.
//!
//! Lives here: checking filters ([`filter`], pure), choosing the output ([`output`], [`journal`], [`file`]), and changing the filter while the
//! daemon runs ([`Control`]). Must not touch: what is logged.

mod file;
mod filter;
mod journal;
mod output;

use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry, reload};

pub use self::file::LogFile;
pub use self::filter::{BadFilter, Filter};
pub use self::output::{Flush, Format};

/// What may be changed of the log while the daemon runs. The default changes nothing.
#[derive(Debug, Default)]
pub struct Control {
    current: Filter,
    /// `None` if the log is another program's, which embeds this one.
    handle: Option<reload::Handle<EnvFilter, Registry>>,
}

/// Begins to log, to standard error or to the file that it is. What [`Flush`] holds back is written when it is dropped.
#[must_use]
pub fn start(filter: Filter, format: Option<Format>, file: Option<LogFile>) -> (Control, Flush) {
    let (reloadable, handle) = reload::Layer::new(filter.to_env_filter());
    let (output, flush) = output::open(format, file);
    // A subscriber set before, by a program that embeds the library, stays.
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
    /// If it is none, or the log is not this program's; then nothing has changed.
    pub fn set(&mut self, text: &str) -> Result<(), BadFilter> {
        let filter = Filter::parse(text)?;
        let handle = self.handle.as_ref().ok_or(BadFilter::NotOurs)?;
        handle.reload(filter.to_env_filter()).map_err(|_| BadFilter::NotOurs)?;
        tracing::info!("the log's filter is now `{}`", filter.text());
        self.current = filter;
        Ok(())
    }
}
