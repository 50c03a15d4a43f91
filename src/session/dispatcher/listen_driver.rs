//! Subscribes to the resources of a `subscriptions/listen` at their servers, then acknowledges it.

use std::sync::Arc;

use bytes::Bytes;

use super::{ServerCommand, Session};
use crate::account::Cost;
use crate::clock::Moment;
use crate::config::CallLimit;
use crate::era::subscription::Filter;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::server::messages::call::CallKey;
use crate::server::{ResourceSubscriptionChange, ServerHandle, SubscriptionChange};
use crate::session::received_call::ReceivedCall;
use crate::session::router::Destination;
use crate::session::transport::{Address, Transport};
use crate::session::unanswered::OnResponse;

impl<T: Transport> Session<T> {
    pub(super) fn begin_listen(&mut self, id: &Bytes, mut filter: Filter, face: Option<Arc<str>>) {
        let charge = match self.unanswered.charge(Cost::Request(0)) {
            Ok(charge) => charge,
            Err(over) => return self.output.respond_error(Some(id), &over.to_object(Delivery::NotSent)),
        };
        let view = &self.view.modern(face.as_ref());
        filter.uris.retain(|(uri, _)| self.view.server_of_resource(uri, view).is_some());
        match self.subscriptions.listen((id, face, charge), filter, self.tasks.tokens(), view, &mut self.unanswered) {
            Ok(changes) => {
                for (server, _) in &changes {
                    self.view.attach_for_disconnect(server, self.agent.for_servers());
                }
                self.change_subscriptions(changes);
                self.continue_listen(id);
            }
            Err(over) => self.output.respond_error(Some(id), &over.to_object(Delivery::NotSent)),
        }
    }

    /// Requests the next resources of a `subscriptions/listen` from their servers. Acknowledges it once they have answered all.
    pub(super) fn continue_listen(&mut self, id: &Bytes) {
        loop {
            let topics = self.subscriptions.next_topics(id);
            if topics.is_empty() {
                break;
            }
            for (uri, raw) in topics {
                if self.request_topic(id, uri, raw).is_none() {
                    self.subscriptions.record_topic(id, None);
                }
            }
        }
        if let Some(line) = self.subscriptions.acknowledge(id) {
            self.output.send(Address::DuringCall(id), line);
            self.announce_list_changes();
        }
    }

    /// Requests a resource of a `subscriptions/listen`. `None` if it cannot be requested.
    fn request_topic(&mut self, id: &Bytes, uri: Bytes, raw: Bytes) -> Option<CallKey> {
        let face = self.subscriptions.face(id);
        let request = ReceivedCall::of_topic(id, &raw, face, Moment::now()).ok()?;
        let view = self.view.modern(request.face.as_ref());
        let target = self.routing_state().target(&request, &view)?;
        let member = view.servers.get(target.server())?;
        // A slow server delays the acknowledgement a little only.
        let total = member.config.settings.handshake_timeout;
        let (access, kind) = (request.access_target(target), request.kind());
        let time_limits = CallLimit { progress_timeout: total, total };
        let to = Destination { time_limits, kind, ..Destination::of(member, access) };
        let topic = ResourceSubscriptionChange { uri, raw, begins: true };
        self.send_call(request, to, &view, Some(OnResponse::Topic(Box::new(topic)))).ok()
    }

    pub(super) fn change_subscriptions(&mut self, changes: Vec<(ServerHandle, SubscriptionChange)>) {
        if !changes.is_empty() {
            self.command = Some(ServerCommand::SubscriptionChanges(changes));
        }
    }
}
