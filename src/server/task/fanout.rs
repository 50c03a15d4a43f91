//! Delivers notifications of a server to agents, and tracks which agents are attached and subscribed.

use bytes::Bytes;

use super::ServerTask;
use crate::printable::one_line;
use crate::server::instance::{Instance, MessageOwner, NewSubscription, Recipients, Topic};
use crate::server::messages::agents::Agent;
use crate::server::messages::call::{SessionSender, ToAgent};
use crate::server::messages::server_notification::ServerNotification;
use crate::server::messages::subscribers::ResourceSubscriptionChange;
use crate::server::messages::subscribers::{SubscriptionChange, TaskSubscriptionChange};

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
            SubscriptionChange::Task(TaskSubscriptionChange { id, begins: true, .. }) => {
                if instance.subscribe_task(&id) {
                    self.agents.task_subscribers.add(&id, agent);
                }
            }
            SubscriptionChange::Task(TaskSubscriptionChange { id, begins: false, .. }) => {
                if self.agents.task_subscribers.remove(&id, agent.session) {
                    instance.unsubscribe_task(&id);
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
            instance.unsubscribe_task(&id);
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

    /// Sends a notification of the server to its recipients.
    pub(super) fn deliver(&mut self, notification: &ServerNotification, recipients: &Recipients) {
        let send = |to: &SessionSender| to.send_notification(ToAgent::ServerNotification(notification.clone()));
        let agents = &mut self.agents;
        let sessions: Vec<u64> = match recipients {
            Recipients::All => return agents.all().for_each(send),
            Recipients::OneUser if agents.are_of_one_user() => return agents.all().for_each(send),
            Recipients::OneUser => return,
            Recipients::Owner(MessageOwner { to: Some(to), .. }) => return send(to),
            Recipients::Owner(MessageOwner { session, to: None }) => vec![*session],
            Recipients::ResourceSubscribers(uri) => agents.resource_subscribers.concerned(uri).into_iter().collect(),
            Recipients::TaskSubscribers { id, ended } => {
                agents.task_subscribers.of_task(id).for_each(|agent| send(&agent.to));
                if *ended {
                    agents.task_subscribers.forget(id);
                }
                return;
            }
        };
        sessions.into_iter().filter_map(|session| agents.find(session)).for_each(send);
    }
}
