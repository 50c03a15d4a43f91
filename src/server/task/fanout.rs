//! Delivers notifications of a server to agents, and tracks which agents are attached and subscribed.

use bytes::Bytes;

use super::ServerTask;
use crate::config::{Settings, Sharing};
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::splice::splice;
use crate::printable::one_line;
use crate::server::instance::{Instance, LogOwner, NewSubscription, Topic, level_of};
use crate::server::messages::agents::Agent;
use crate::server::messages::call::ToAgent;
use crate::server::messages::resource_subscribers::ResourceSubscriptionChange;
use crate::server::messages::server_notification::{ModernTaskStatus, ResourceUpdate, ServerNotification};
use crate::server::messages::task_subscribers::{SubscriptionChange, TaskSubscriptionChange};

impl ServerTask {
    /// Renews the subscriptions of the former instance.
    pub(super) fn renew_subscriptions(&mut self, instance: &mut Instance) {
        self.agents.task_subscribers.clear();
        instance.logging.set_level(&mut instance.wire, self.agents.level());
        for (uri, raw) in self.agents.resource_subscribers.iter() {
            instance.subscriptions.subscribe_quietly(&mut instance.wire, uri, raw);
        }
    }

    /// Begins or ends a subscription. No response is sent.
    pub(super) fn subscribe(&mut self, agent: Agent, change: SubscriptionChange, instance: &mut Instance) {
        match change {
            SubscriptionChange::Resource(subscription) => match self.agents.subscribe(agent, subscription) {
                Some(ResourceSubscriptionChange { uri, raw, begins: true }) => {
                    instance.subscriptions.subscribe_quietly(&mut instance.wire, &uri, &raw);
                }
                Some(ResourceSubscriptionChange { raw, begins: false, .. }) => {
                    instance.subscriptions.unsubscribe(&mut instance.wire, &raw);
                }
                None => {}
            },
            SubscriptionChange::Task(following) => {
                if let Some(following) = self.agents.subscribe_task(agent, following) {
                    instance.subscriptions.subscribe_task(&instance.wire, following);
                }
            }
        }
    }

    /// Attaches an agent, or replaces its data.
    pub(super) fn attach_agent(&mut self, agent: Agent, instance: &mut Instance) {
        self.agents.attach(agent);
        instance.logging.set_level(&mut instance.wire, self.agents.level());
    }

    /// Detaches an agent: ends subscriptions that only it had, and cancels its tasks.
    pub(super) fn detach_agent(&mut self, session: u64, instance: &mut Instance) {
        for raw in self.agents.detach(session) {
            instance.subscriptions.unsubscribe(&mut instance.wire, &raw);
        }
        for id in self.agents.task_subscribers.remove_from_all(session) {
            instance.subscriptions.subscribe_task(&instance.wire, TaskSubscriptionChange { id, begins: false });
        }
        instance.drop_tasks(session);
        instance.logging.set_level(&mut instance.wire, self.agents.level());
    }

    pub(super) fn record_subscription(&mut self, subscription: NewSubscription) {
        let NewSubscription { uri, raw, sessions } = subscription;
        self.agents.resource_subscribers.insert(uri, raw, sessions.iter().map(|(session, _)| *session));
        for (session, to) in sessions {
            self.agents.add_if_absent(session, &to);
        }
    }

    /// Reports that the server refuses or has ended a subscription.
    pub(super) fn remove_topic(&mut self, topic: &Topic) {
        match topic {
            Topic::Resource(uri) => self.remove_subscription(uri),
            Topic::Task(id) => self.agents.task_subscribers.forget(id),
        }
    }

    pub(super) fn remove_subscription(&mut self, uri: &Bytes) {
        tracing::warn!(
            server = %self.config.name,
            "does not tell of changes of {}", one_line(&String::from_utf8_lossy(uri))
        );
        self.agents.resource_subscribers.forget(uri);
    }

    /// Delivers a log message to its owner, to every agent if `broadcast_logs` is set, or else drops it.
    pub(super) fn deliver_log_message(&self, line: &Bytes, params: Option<&Bytes>, owner: Option<LogOwner>) {
        let make = || ServerNotification::Logged { level: level_of(params), line: splice(line, &mut []) };
        let Settings { sharing, broadcast_logs, .. } = self.config.settings;
        if broadcast_logs || sharing == Sharing::Session {
            let mut notification = None;
            for to in self.agents.all() {
                to.send_notification(ToAgent::ServerNotification(notification.get_or_insert_with(make).clone()));
            }
        } else if let Some(LogOwner { session, to }) = owner
            && let Some(to) = to.as_ref().or_else(|| self.agents.find(session))
        {
            to.send_notification(ToAgent::ServerNotification(make()));
        }
    }

    /// Sends the status of a task to its subscribers.
    pub(super) fn deliver_task_status(&mut self, line: Bytes, id: Bytes, ended: bool) {
        let to: Vec<_> =
            self.agents.task_subscribers.of_task(&id).filter_map(|session| self.agents.find(session)).collect();
        let update = ModernTaskStatus { server: self.config.name.clone(), id, line };
        for to in to {
            to.send_notification(ToAgent::ServerNotification(ServerNotification::ModernTaskStatus(Box::new(
                update.clone(),
            ))));
        }
        if ended {
            self.agents.task_subscribers.forget(&update.id);
        }
    }

    /// Reports a changed resource to its subscribers.
    pub(super) fn deliver_resource_update(&self, line: &Bytes, params: Option<&Bytes>) {
        let Some(Ok([Some(uri)])) = params.map(|params| members(params, ["uri"])) else { return };
        let Some(uri) = text(&uri) else { return };
        let agents = self.agents.resource_subscribers.concerned(&uri);
        if agents.is_empty() {
            return;
        }
        let (server, line) = (self.config.name.clone(), splice(line, &mut []));
        let update = ResourceUpdate { server, uri, line };
        for to in agents.into_iter().filter_map(|session| self.agents.find(session)) {
            to.send_notification(ToAgent::ServerNotification(ServerNotification::Updated(Box::new(update.clone()))));
        }
    }
}
