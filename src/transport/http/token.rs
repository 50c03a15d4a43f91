//! A token that is always good.

use std::time::{Duration, Instant};

use tokio::time::{sleep_until, timeout};

use super::place::{Learnt, Place};
use super::report::Reporter;
use crate::oauth::{Login, NoToken};

/// How long the first message waits for a token that has to be renewed; a later one asks for it again.
const RENEWED: Duration = Duration::from_secs(10);
/// Between two tokens, however short they live.
const RENEW_SOONEST: Duration = Duration::from_secs(1);
/// Before a token is asked for again where that failed.
const RENEW_AGAIN: Duration = Duration::from_secs(30);

/// Gives the place the token that there is, and tells when the next one is due, if it ever is. Without one it is tried without: not
/// every server asks for one.
pub(super) async fn first(place: &mut Place) -> Option<Instant> {
    let token = timeout(RENEWED, place.login()?.token(None)).await.ok()?.ok()?;
    let due = token.refresh_at();
    place.set_token(token);
    due
}

/// Has the next token made when this one is due.
pub(super) async fn keep(report: Reporter, login: Login, mut due: Instant) {
    loop {
        sleep_until(due.max(Instant::now() + RENEW_SOONEST).into()).await;
        match login.token(None).await {
            Ok(token) => return report.learnt(Learnt { token: Some(token), url: None }).await,
            Err(NoToken::Unavailable { .. }) => due = Instant::now() + RENEW_AGAIN,
            // The next message that is refused for it says so.
            Err(NoToken::LoginNeeded { .. }) => return,
        }
    }
}
