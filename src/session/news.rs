//! What servers say that answers nobody: what of it the agent is told, and what it says that it wants of that.

use std::sync::Arc;

use bytes::Bytes;

use super::{Delayed, Session};
use crate::era::speaker::Speaker;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::INVALID_PARAMS;
use crate::kind::Kind;
use crate::level::Level;
use crate::manager::{Member, Presence};
use crate::server::messages::server_notification::{ServerNotification, Updated};

impl Session {
    /// The agent says from which level on it wants log messages.
    pub(super) fn set_level(&mut self, id: &Bytes, params: Option<&Bytes>) {
        let level = params.and_then(|params| members(params, ["level"]).ok()).and_then(|[level]| text(&level?));
        let Some(level) = level.and_then(|word| Level::named(&word)) else {
            let known = Level::ALL.map(|(word, _)| word).join(", ");
            return self.refuse(Some(id), INVALID_PARAMS, format!("`level` is missing or none of {known}"));
        };
        self.level = Some(level);
        self.speaker = Arc::new(Speaker { level: Some(level), ..Speaker::clone(&self.speaker) });
        self.delayed = Some(Delayed::LevelChanged);
        self.answer(id, b"{}");
    }

    /// Tells the agent, unless it is not to know.
    pub(super) fn tell_unasked(&mut self, unasked: ServerNotification) {
        match unasked {
            ServerNotification::Updated(updated) => {
                if self.may_know(&updated) {
                    self.tell_updated(*updated);
                }
            }
            // One of no known level is as severe as its server thought it had to be.
            ServerNotification::Logged { level: Some(level), .. } if self.level.is_some_and(|least| level < least) => {}
            ServerNotification::Logged { line, .. } => self.tell_or_keep(None, line),
            ServerNotification::Completed(line) if self.has("notifications/elicitation/complete") => {
                self.tell_or_keep(None, line)
            }
            ServerNotification::Completed(_) => {}
            ServerNotification::Task(status) => self.tell_status(*status),
            ServerNotification::Followed(told) => self.tell_followers(&told),
        }
    }

    fn tell_updated(&mut self, Updated { uri, line, .. }: Updated) {
        if !self.listens.is_empty() {
            self.tell_listeners(&uri, &line);
        }
        if self.subscriptions.concern(&uri) {
            self.tell_or_keep(None, line);
        }
    }

    /// Whether what has changed is not denied, which it may be by now.
    fn may_know(&self, Updated { server, uri, .. }: &Updated) -> bool {
        let Ok(uri) = str::from_utf8(uri) else { return false };
        let view = self.setup.view.borrow();
        let is_it = |member: &&Member| member.handle.name() == server && member.presence == Presence::Shown;
        view.servers.iter().find(is_it).is_some_and(|member| member.config.policy.permits(Kind::Resources, uri, None))
    }
}
