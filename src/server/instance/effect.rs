//! What an instance has its server's task do about what it has taken in.

use bytes::Bytes;

use super::health_checks::Callers;
use super::{LogOwner, NewSubscription, Topic};
use crate::catalog::List;
use crate::list_kind::ListKind;
use crate::server::error::ServerError;

/// What the task has to act on.
pub(in crate::server) enum Effect {
    Nothing,
    /// One of its lists was followed to its end.
    Listed {
        kind: ListKind,
        list: List,
        /// All of them are what the server offers, as far as can be known.
        settled: bool,
    },
    /// One of its lists could not be followed to its end; `reason` says why.
    NotListed {
        reason: ServerError,
        /// The pages before the one that failed, if the list was never followed to its end.
        partial: Option<(ListKind, List)>,
        settled: bool,
    },
    /// It has answered a health check that these wait for.
    Checked(Callers),
    /// It has accepted a subscription.
    Subscribed(Box<NewSubscription>),
    /// It has accepted some subscriptions, and not others, or not any more.
    Acknowledged {
        accepted: Vec<NewSubscription>,
        refused: Vec<Topic>,
    },
    /// It says how far a task with this id is, as text.
    TaskStatus {
        line: Bytes,
        id: Bytes,
        ended: bool,
    },
    /// It does not go on with one that the instance before it had.
    SubscriptionEnded(Bytes),
    /// It says that a resource has changed.
    Updated {
        line: Bytes,
        params: Option<Bytes>,
    },
    /// It has a log message.
    Logged {
        line: Bytes,
        params: Option<Bytes>,
        /// The session that it certainly belongs to.
        owner: Option<LogOwner>,
    },
}

impl Effect {
    /// The server refuses these topics, if there are any.
    pub(super) fn refused(refused: Vec<Topic>) -> Self {
        if refused.is_empty() { Self::Nothing } else { Self::Acknowledged { accepted: Vec::new(), refused } }
    }
}
