//! What the server's task has to carry out after a message or deadline.

use bytes::Bytes;

use super::health_checks::Callers;
use super::{MessageOwner, NewSubscription, Topic};
use crate::catalog::List;
use crate::list_kind::ListKind;
use crate::server::error::ServerError;
use crate::server::messages::server_notification::ServerNotification;

/// Effects in their order. It allocates nothing without effects: most messages have none.
#[derive(Default)]
#[must_use = "the server's task carries them out"]
pub(in crate::server) struct Effects(Vec<Effect>);

/// An effect for the server's task.
pub(in crate::server) enum Effect {
    /// A list was fetched completely.
    Listed {
        kind: ListKind,
        list: List,
        /// Every list is complete and up to date, as far as is known.
        settled: bool,
    },
    /// One of its lists could not be followed to its end; `reason` says why.
    ListFailed {
        kind: ListKind,
        reason: ServerError,
        /// The pages before the one that failed, if the list was never fetched before.
        partial: Option<List>,
        settled: bool,
    },
    /// The server has answered the health check of these callers.
    Checked(Callers),
    /// The server has accepted a subscription.
    Subscribed(Box<NewSubscription>),
    /// The server has accepted and refused these subscriptions.
    TopicsAnswered { accepted: Vec<NewSubscription>, refused: Vec<Topic> },
    /// The server has sent a notification for agents.
    Notify { notification: ServerNotification, recipients: Recipients },
    /// The server has refused to renew the subscription to this resource.
    SubscribeRefused(Bytes),
}

/// The agents that receive a notification.
pub(in crate::server) enum Recipients {
    /// Every attached agent.
    All,
    /// Every attached agent, if all are of one user.
    OneUser,
    /// One agent.
    Owner(MessageOwner),
    /// The subscribers of the resource with this URI.
    ResourceSubscribers(Bytes),
    /// The subscribers of the task with this id.
    TaskSubscribers {
        id: Bytes,
        /// No further notification follows.
        ended: bool,
    },
}

impl Effects {
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// The server refuses these topics, if there are any.
    pub(super) fn of_refused(refused: Vec<Topic>) -> Self {
        if refused.is_empty() { Self::none() } else { Effect::TopicsAnswered { accepted: Vec::new(), refused }.into() }
    }

    /// Adds later effects.
    pub(super) fn append(&mut self, Self(mut later): Self) {
        self.0.append(&mut later);
    }
}

impl From<Effect> for Effects {
    fn from(effect: Effect) -> Self {
        Self(vec![effect])
    }
}

impl IntoIterator for Effects {
    type Item = Effect;
    type IntoIter = std::vec::IntoIter<Effect>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}
