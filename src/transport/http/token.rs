//! Keeps a connection's token valid.

use std::time::{Duration, Instant};

use tokio::time::{sleep_until, timeout};

use super::endpoint::{Endpoint, EndpointUpdate};
use super::event_queue::EventSender;
use crate::oauth::{Login, NoToken};

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
