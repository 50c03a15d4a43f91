//! What the agent sees: the view of its profile, or one of its own once servers have instances for it; and what is done
//! whenever that is another.

use std::sync::Arc;

use futures_util::future::FutureExt;
use tokio::sync::watch;

use super::Session;
use super::events::changed;
use crate::era::Era;
use crate::manager::{View, ViewListener};
use crate::server::Agent;
use crate::server::messages::call::Listener;

impl Session {
    /// What decides about requests of this era.
    pub(super) fn listener(&self, era: Era) -> Arc<dyn Listener> {
        match era {
            Era::Legacy => Arc::clone(&self.listener) as _,
            Era::Modern => Arc::clone(&self.profile_listener) as _,
        }
    }

    /// Says to the servers for which that matters that the agent is there.
    pub(super) fn attach(&mut self) {
        if self.is_met || self.setup.facts.introduction.get().is_some() {
            let agent = self.agent();
            self.waits.extend(self.attachments.update(&self.setup, &agent));
            self.renew_subscriptions(&agent);
        }
    }

    /// Has those servers go on with the agent's subscriptions that stand in the place of others.
    pub(super) fn renew_subscriptions(&mut self, agent: &Agent) {
        let view = self.setup.view.borrow().clone();
        for (server, subscription) in self.subscriptions.moved(&view) {
            self.attachments.ensure(&server, agent.clone());
            server.hear_soon(agent.clone(), subscription);
        }
    }

    /// There is another view where the agent was shown one, which may be shown its own by now, or of its profile.
    pub(super) async fn changed(&mut self, view: watch::Receiver<Arc<View>>) {
        if view.same_channel(&self.setup.view) || view.same_channel(&self.profile_view) {
            self.waits.push(changed(view).boxed());
            self.look_again().await;
        }
    }

    /// Shows the agent these from now on.
    pub(super) async fn follow(&mut self, view: watch::Receiver<Arc<View>>) {
        if !view.same_channel(&self.setup.view) {
            self.setup.view = view.clone();
            self.listener = ViewListener::new(&view);
            // That of the profile is looked at all along.
            if !view.same_channel(&self.profile_view) {
                self.waits.push(changed(view).boxed());
            }
            self.look_again().await;
        }
    }

    /// One of the instances that the agent's lists wait for has listed, or is waited for no more.
    pub(super) async fn listed(&mut self, view: Option<watch::Receiver<Arc<View>>>, is_known: bool) {
        self.attachments.listed(is_known);
        if let Some(view) = view {
            self.follow(view).await;
        }
        self.retry_deferred().await;
    }

    async fn look_again(&mut self) {
        self.attach();
        self.retry_deferred().await;
        self.tell_of_changes();
    }
}
