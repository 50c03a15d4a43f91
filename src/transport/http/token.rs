//! A token that is always good.

use std::time::{Duration, Instant};

use tokio::time::sleep_until;

use super::place::Learnt;
use super::report::Reporter;
use crate::oauth::{Login, NoToken};

/// Between two tokens, however short they live.
const RENEW_SOONEST: Duration = Duration::from_secs(1);
/// Before a token is asked for again where that failed.
const RENEW_AGAIN: Duration = Duration::from_secs(30);

/// Has another token made in time, for as long as one can be.
pub(super) async fn keep(report: Reporter, login: Login, mut due: Option<Instant>) {
    while let Some(at) = due {
        sleep_until(at.max(Instant::now() + RENEW_SOONEST).into()).await;
        due = match login.token(None).await {
            Ok(token) => {
                let due = token.refresh_at();
                report.learnt(Learnt { token: Some(token), url: None }).await;
                due
            }
            Err(NoToken::Unavailable { .. }) => Some(Instant::now() + RENEW_AGAIN),
            // The next message that is refused for it says so.
            Err(NoToken::LoginNeeded { .. }) => None,
        };
    }
}
