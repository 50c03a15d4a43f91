//! The resources of which the agent receives updates, each with its server.
//!
//! The agent subscribes by `resources/subscribe` (legacy) or `subscriptions/listen` (modern). The tokio task of each server counts
//! subscribers. This table limits the subscriptions of one agent. It stores the server of each, so that the agent can unsubscribe even
//! from a resource that no server lists any more.

use std::collections::HashMap;

use bytes::Bytes;
use serde_json::Value;

use super::unanswered::UnansweredRequests;
use crate::account::MAX_SUBSCRIPTIONS;
use crate::list_kind::ListKind;
use crate::manager::{Member, View};
use crate::server::{ResourceSubscriptionChange, ServerHandle, is_part};

/// Bytes of the URIs of all subscriptions, or of the task ids.
pub(super) const MAX_BYTES: usize = 256 << 10;

#[derive(Default)]
pub(super) struct ResourceSubscriptions {
    all: HashMap<Bytes, Resource>,
    /// Number of subscriptions: one for each `resources/subscribe`, and one for each resource of each `subscriptions/listen`.
    count: usize,
    /// Bytes of their URIs.
    bytes: usize,
}

struct Resource {
    server: ServerHandle,
    /// By `resources/subscribe`.
    is_subscribed: bool,
    /// The number of `subscriptions/listen` requests with this resource.
    listen_requests: usize,
    /// The server may have stopped sending updates, because it got an unsubscription, or because policy denies the resource.
    needs_subscription: bool,
}

impl ResourceSubscriptions {
    /// Whether the limits allow this `resources/subscribe`.
    pub(super) fn has_room_for(
        &self,
        subscription: &ResourceSubscriptionChange,
        unanswered: &UnansweredRequests,
    ) -> bool {
        let is_subscribed = || self.all.get(&subscription.uri).is_some_and(|resource| resource.is_subscribed);
        !subscription.begins
            || is_subscribed()
            || self.has_room_for_all(&[(subscription.uri.clone(), Bytes::new())], unanswered)
    }

    /// Whether the limits allow these resources as well. Each is a URI as text and raw.
    pub(super) fn has_room_for_all(&self, resources: &[(Bytes, Bytes)], unanswered: &UnansweredRequests) -> bool {
        let uris = unanswered
            .subscriptions()
            .map(|(subscription, _)| &subscription.uri)
            .chain(resources.iter().map(|(uri, _)| uri));
        let (count, bytes) = uris.fold((self.count, self.bytes), |(count, bytes), uri| (count + 1, bytes + uri.len()));
        count <= MAX_SUBSCRIPTIONS && bytes <= MAX_BYTES
    }

    /// `server` has accepted a subscription of the agent, or its end. Returns whether [`Self::changes`] has to be called.
    pub(super) fn accepted(
        &mut self,
        ResourceSubscriptionChange { uri, begins, .. }: ResourceSubscriptionChange,
        server: &ServerHandle,
    ) -> bool {
        if begins {
            let resource = self.all.entry(uri.clone()).or_insert_with(|| Resource::of(server));
            if !std::mem::replace(&mut resource.is_subscribed, true) {
                self.add(&uri);
            }
            return true;
        }
        let Some(resource) = self.all.get_mut(&uri) else { return false };
        resource.needs_subscription = resource.listen_requests > 0;
        let needs_subscription = resource.needs_subscription;
        if std::mem::take(&mut resource.is_subscribed) {
            self.remove(&uri);
        }
        needs_subscription
    }

    /// A `subscriptions/listen` includes the resource, and `server` has accepted the subscription.
    pub(super) fn listen(&mut self, uri: &Bytes, server: &ServerHandle) {
        self.all.entry(uri.clone()).or_insert_with(|| Resource::of(server)).listen_requests += 1;
        self.add(uri);
    }

    /// Whether the agent receives updates of this resource.
    pub(super) fn contains(&self, uri: &Bytes) -> bool {
        self.all.contains_key(uri)
    }

    /// A `subscriptions/listen` with the resource has ended. Returns the request to its server, if nobody needs updates.
    pub(super) fn unlisten(
        &mut self,
        uri: &Bytes,
        raw: &Bytes,
        unanswered: &UnansweredRequests,
    ) -> Option<(ServerHandle, ResourceSubscriptionChange)> {
        let resource = self.all.get_mut(uri)?;
        resource.listen_requests = resource.listen_requests.saturating_sub(1);
        let server = resource.server.clone();
        self.remove(uri);
        // An unanswered `resources/subscribe` may need it.
        let is_needed = self.all.contains_key(uri) || self.server_of(uri, unanswered).is_some();
        (!is_needed).then(|| (server, ResourceSubscriptionChange { uri: uri.clone(), raw: raw.clone(), begins: false }))
    }

    fn add(&mut self, uri: &Bytes) {
        (self.count, self.bytes) = (self.count + 1, self.bytes + uri.len());
    }

    fn remove(&mut self, uri: &Bytes) {
        (self.count, self.bytes) = (self.count - 1, self.bytes - uri.len());
        if self.all.get(uri).is_some_and(|resource| !resource.is_subscribed && resource.listen_requests == 0) {
            self.all.remove(uri);
        }
    }

    /// Returns the subscriptions to begin or end at servers, and records them as done. One begins where the server was replaced, where
    /// it may have stopped sending updates, or where policy permits the resource again. One ends where policy denies the resource.
    pub(super) fn changes_for(&mut self, view: &View) -> Vec<(ServerHandle, ResourceSubscriptionChange)> {
        let mut changes = Vec::new();
        for (uri, resource) in &mut self.all {
            let has_that_name = |member: &&Member| member.handle.name() == resource.server.name();
            let Some(member) = view.servers.iter().find(has_that_name) else { continue };
            let Ok(text) = str::from_utf8(uri) else { continue };
            let begins = member.config.policy.permits(ListKind::Resources, text, None);
            let is_with_server = !resource.needs_subscription && member.handle.is_same(&resource.server);
            (resource.server, resource.needs_subscription) = (member.handle.clone(), !begins);
            if begins != is_with_server {
                let raw = Bytes::from(Value::from(text).to_string());
                changes.push((resource.server.clone(), ResourceSubscriptionChange { uri: uri.clone(), raw, begins }));
            }
        }
        changes
    }

    /// The server of a resource that the agent has subscribed to, or is about to.
    pub(super) fn server_of<'a>(&'a self, uri: &[u8], unanswered: &'a UnansweredRequests) -> Option<&'a ServerHandle> {
        let subscribed = self.all.get(uri).filter(|resource| resource.is_subscribed);
        let beginning = || unanswered.subscriptions().find(|(subscription, _)| subscription.uri == uri);
        subscribed.map(|resource| &resource.server).or_else(|| beginning().map(|(_, server)| server))
    }

    /// Whether the agent has subscribed to a resource, or to one that contains it, or is about to.
    pub(super) fn include(&self, uri: &[u8], unanswered: &UnansweredRequests) -> bool {
        let subscribed = self.all.iter().filter(|(_, resource)| resource.is_subscribed).map(|(uri, _)| uri);
        let beginning = unanswered.subscriptions().map(|(subscription, _)| &subscription.uri);
        subscribed.chain(beginning).any(|subscribed| is_part(uri, subscribed))
    }
}

impl Resource {
    fn of(server: &ServerHandle) -> Self {
        Self { server: server.clone(), is_subscribed: false, listen_requests: 0, needs_subscription: false }
    }
}
