//! Renews what a connection authenticates with: its token in time, and configured headers that the server has refused.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use http::header::HeaderMap;
use tokio::sync::Semaphore;
use tokio::time::{sleep_until, timeout};

use super::endpoint::{Endpoint, EndpointUpdate};
use super::event_queue::EventSender;
use crate::config::RotatingHeaders;
use crate::config::interpolate::UnusableValue;
use crate::net::client;
use crate::oauth::{Login, NoToken};

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
        let latest = client::configured_headers(&self.headers.latest()).ok()?;
        let other: HeaderMap = latest.into_iter().filter_map(|(name, value)| Some((name?, value))).collect();
        other.iter().any(|(name, value)| refused.get(name) != Some(value)).then_some(other)
    }
}

/// How long the first message waits for a token that must be renewed; later messages request it again.
const FIRST_TOKEN_TIMEOUT: Duration = Duration::from_secs(10);
/// Shortest time between renewals.
const MIN_RENEWAL_INTERVAL: Duration = Duration::from_secs(1);
/// Delay after a failed renewal.
const RENEWAL_RETRY: Duration = Duration::from_secs(30);

/// Sets the available token, and returns when it must be renewed, if ever. Without a token the server is tried without:
/// not every server requires one.
pub(super) async fn first(endpoint: &mut Endpoint) -> Option<Instant> {
    let token = timeout(FIRST_TOKEN_TIMEOUT, endpoint.login()?.token(None)).await.ok()?.ok()?;
    let due = token.refresh_at();
    endpoint.set_token(token);
    due
}

/// Renews the token when it is due.
pub(super) async fn renew(sender: EventSender, login: Login, mut due: Instant) {
    loop {
        sleep_until(due.max(Instant::now() + MIN_RENEWAL_INTERVAL).into()).await;
        match login.token(None).await {
            Ok(token) => {
                return sender.send_update(EndpointUpdate { token: Some(token), ..EndpointUpdate::default() }).await;
            }
            Err(NoToken::Unavailable { .. }) => due = Instant::now() + RENEWAL_RETRY,
            // The next refused message reports it.
            Err(NoToken::LoginNeeded { .. }) => return,
        }
    }
}
