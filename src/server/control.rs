//! What a server's owner wants of it.
//!
//! Two watches: the order to end for good, which only rises, and what is wanted until then. The task compares what is
//! wanted with what it runs, so orders may come at any time and any number of them come down to the last.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;

use super::era_cache::EraPreference;
use super::stop_order::{Stop, StopOrder, raise};
use crate::config::ServerConfig;

/// What is wanted of a server that is not to end.
#[derive(Debug, Clone)]
pub(super) struct Wanted {
    pub(super) config: Arc<ServerConfig>,
    pub(super) enabled: bool,
    /// What a person says of how it is.
    pub(super) vouched: HealthOverride,
    /// In which era an instance is opened next.
    pub(super) era: EraPreference,
    /// Rises whenever the running instance has to make way for another one.
    pub(super) revision: u64,
}

/// What a person says of how a server is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HealthOverride {
    /// Nothing: it is asked itself.
    #[default]
    Auto,
    /// It is well, whatever it answers.
    Up,
    /// It is not to be given calls.
    Down,
}

impl HealthOverride {
    /// The word for it in `mcpd status`, if anything is said.
    #[must_use]
    pub fn word(self) -> Option<&'static str> {
        match self {
            Self::Auto => None,
            Self::Up => Some("up"),
            Self::Down => Some("down"),
        }
    }
}

/// The owner's end.
#[derive(Debug)]
pub struct Control {
    stop: watch::Sender<Stop>,
    wanted: watch::Sender<Wanted>,
}

/// The task's end.
#[derive(Debug, Clone)]
pub(super) struct Orders {
    pub(super) stop: StopOrder,
    wanted: watch::Receiver<Wanted>,
}

pub(super) fn channel(config: Arc<ServerConfig>, enabled: bool, era: EraPreference) -> (Control, Orders) {
    let (stop_sender, stop) = StopOrder::channel();
    let (wanted_sender, wanted) =
        watch::channel(Wanted { config, enabled, vouched: HealthOverride::Auto, era, revision: 0 });
    (Control { stop: stop_sender, wanted: wanted_sender }, Orders { stop, wanted })
}

impl Control {
    /// Ends the server for good, as far as `stop` says.
    pub fn stop(&self, stop: Stop) {
        raise(&self.stop, stop);
    }

    /// How far it is to be stopped.
    #[must_use]
    pub fn stopping(&self) -> Stop {
        *self.stop.borrow()
    }

    /// Lets it run, or ends its instance until it is enabled again.
    pub fn enable(&self, enabled: bool) {
        self.wanted.send_if_modified(|wanted| std::mem::replace(&mut wanted.enabled, enabled) != enabled);
    }

    /// Takes over what a person says of how it is.
    pub fn vouch(&self, vouched: HealthOverride) {
        self.wanted.send_if_modified(|wanted| std::mem::replace(&mut wanted.vouched, vouched) != vouched);
    }

    /// Has the next instance opened in another era. The one that runs goes on.
    pub(super) fn prefer(&self, era: EraPreference) {
        self.wanted.send_if_modified(|wanted| std::mem::replace(&mut wanted.era, era) != era);
    }

    /// What a person has said last of how it is.
    #[must_use]
    pub fn vouched(&self) -> HealthOverride {
        self.wanted.borrow().vouched
    }

    /// Ends its instance, after its calls, and starts another one at once. Gives the revision by which it will be known.
    pub fn restart(&self) -> u64 {
        self.wanted.send_modify(|wanted| wanted.revision += 1);
        self.wanted.borrow().revision
    }

    /// The same, as `config` says; its name cannot change.
    pub fn reconfigure(&self, config: Arc<ServerConfig>) -> u64 {
        self.wanted.send_modify(|wanted| wanted.config = config);
        self.restart()
    }
}

impl Orders {
    /// Waits until something else is wanted.
    pub(super) async fn changed(&mut self) -> Wanted {
        if self.wanted.changed().await.is_err() {
            // An owner that is gone stops everything by that.
            std::future::pending::<()>().await;
        }
        self.wanted()
    }

    /// What a person says of how it is.
    pub(super) fn vouched(&self) -> HealthOverride {
        self.wanted.borrow().vouched
    }

    /// Waits until a person says anything else but `vouched`.
    pub(super) async fn vouched_other_than(&mut self, vouched: HealthOverride) -> HealthOverride {
        let said = self.wanted.wait_for(|wanted| wanted.vouched != vouched).await.map(|wanted| wanted.vouched);
        match said {
            Ok(said) => said,
            Err(_) => std::future::pending().await,
        }
    }

    /// What is wanted now.
    pub(super) fn wanted(&self) -> Wanted {
        self.wanted.borrow().clone()
    }

    /// Whether an instance of `revision` is what is wanted.
    pub(super) fn wants(&self, revision: u64) -> bool {
        self.wants_any() && self.wanted.borrow().revision == revision
    }

    /// Whether an instance is wanted at all.
    pub(super) fn wants_any(&self) -> bool {
        self.stop.now() == Stop::Run && self.wanted.borrow().enabled
    }

    /// Waits until an instance of `revision` is not wanted any more.
    pub(super) async fn unwanted(&mut self, revision: u64) {
        let replaced = self.wanted.wait_for(|wanted| !wanted.enabled || wanted.revision != revision);
        tokio::select! {
            // An owner that is gone stops everything by that.
            Ok(_) = replaced => {}
            () = self.stop.at_least(Stop::Finish) => {}
        }
    }

    /// Waits until an instance is wanted and tells which; `None` if none ever will be.
    pub(super) async fn next(&mut self) -> Option<Wanted> {
        let enabled = self.wanted.wait_for(|wanted| wanted.enabled);
        tokio::select! {
            biased;
            () = self.stop.at_least(Stop::Finish) => None,
            wanted = enabled => wanted.ok().map(|wanted| wanted.clone()),
        }
    }
}
