//! Reads configured headers again after the server has refused them.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::header::HeaderMap;
use tokio::sync::Semaphore;

use crate::config::RotatingHeaders;
use crate::config::interpolate::UnusableValue;
use crate::net::headers;

/// Reads the headers' values again. If that fails, they stay as they were.
pub(crate) type ReadAgain = Arc<dyn Fn() -> BoxFuture<'static, Result<(), UnusableValue>> + Send + Sync>;

/// The headers of one connection that are read again. Clones share the reading.
#[derive(Clone)]
pub(super) struct Rotation {
    headers: RotatingHeaders,
    read_again: ReadAgain,
    /// Its one permit is held while the values are read, so that many refused requests read them once.
    reading: Arc<Semaphore>,
}

impl Rotation {
    pub(super) fn new(headers: &RotatingHeaders, read_again: ReadAgain) -> Self {
        Self { headers: headers.clone(), read_again, reading: Arc::new(Semaphore::new(1)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    /// The headers whose values differ from the `refused` ones, if any. Reads them, unless another request has read other
    /// values by now.
    pub(super) async fn changed(&self, refused: &HeaderMap) -> Option<HeaderMap> {
        let _reading = self.reading.acquire().await;
        let other = || self.other_than(refused);
        if let Some(other) = other() {
            return Some(other);
        }
        if let Err(unusable) = (self.read_again)().await {
            tracing::warn!("headers that the server refuses stay as they were: {unusable}");
        }
        other()
    }

    fn other_than(&self, refused: &HeaderMap) -> Option<HeaderMap> {
        let latest = headers::configured(&self.headers.latest()).ok()?;
        let other: HeaderMap = latest.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
        other.iter().any(|(name, value)| refused.get(name) != Some(value)).then_some(other)
    }
}
