//! Reads configured headers again after the server has refused them.

use std::sync::Arc;

use http::header::HeaderMap;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::config::RotatingHeaders;
use crate::net::headers;

/// The headers of one connection that are read again. Clones share the reading.
#[derive(Clone)]
pub(super) struct Rotation {
    headers: RotatingHeaders,
    /// Its one permit is held while the files are read, so that many refused requests read them once.
    reading: Arc<Semaphore>,
}

impl Rotation {
    pub(super) fn of(headers: &RotatingHeaders) -> Self {
        Self { headers: headers.clone(), reading: Arc::new(Semaphore::new(1)) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.headers.is_empty()
    }

    pub(super) fn masked(&self, text: &str) -> String {
        self.headers.masked(text)
    }

    /// The headers whose values differ from the `refused` ones, if any. Reads the files, unless another request has read
    /// other values by now.
    pub(super) async fn changed(&self, refused: &HeaderMap) -> Option<HeaderMap> {
        let _reading = self.reading.acquire().await;
        let other = || self.other_than(refused);
        if let Some(other) = other() {
            return Some(other);
        }
        let headers = self.headers.clone();
        if let Ok(Err(unusable)) = spawn_blocking(move || headers.read_again()).await {
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
