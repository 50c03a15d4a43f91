//! What the agent listens to: requests of the modern era that stay open, each told what it has asked for under its own id.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`.

use bytes::Bytes;

use super::routing::{Deferred, TOO_MANY, TOO_MANY_SUBSCRIPTIONS, overloaded};
use super::subscriptions::{BYTES, MOST};
use super::task_listens::Followed;
use super::{Delayed, Session};
use crate::era::meta;
use crate::era::notification::for_subscription;
use crate::era::stated::Stated;
use crate::era::subscription::{Filter, end};
use crate::era::task::not_declared;
use crate::jsonrpc::reply::{self, INVALID_PARAMS};
use crate::jsonrpc::splice::splice;
use crate::jsonrpc::{Message, parse};
use crate::kind::{Kind, PerKind};
use crate::manager::View;
use crate::server::messages::call::CallKey;
use crate::server::{Interest, ServerHandle, Subscription, is_part};

/// Those of one agent that are open, mostly one: it has at most as many as unanswered requests.
#[derive(Default)]
pub(super) struct Listens(Vec<Listen>);

pub(super) struct Listen {
    /// Of the request, raw: what it is told says so.
    pub(super) id: Bytes,
    /// What is kept for an agent that does not read says whose it is.
    pub(super) key: CallKey,
    /// What was acknowledged.
    filter: Filter,
    /// The tasks of that.
    pub(super) tasks: Vec<Followed>,
    /// Version of each list that it asked for, as it was told last.
    told: PerKind<Option<u64>>,
}

impl Listens {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Listen> {
        self.0.iter()
    }

    /// The tasks of all.
    pub(super) fn followed(&self) -> impl Iterator<Item = &Followed> {
        self.0.iter().flat_map(|listen| &listen.tasks)
    }

    /// Whether the agent may listen to these tasks, too: ids as text, and raw.
    fn have_room_for(&self, tasks: &[(Bytes, Bytes)]) -> bool {
        let sizes = || self.followed().map(|one| &one.raw).chain(tasks.iter().map(|(_, raw)| raw)).map(Bytes::len);
        tasks.is_empty() || (sizes().count() <= MOST && sizes().sum::<usize>() <= BYTES)
    }

    pub(super) fn contain(&self, id: &Bytes) -> bool {
        self.0.iter().any(|listen| listen.id == id)
    }

    pub(super) fn contain_key(&self, key: CallKey) -> bool {
        self.0.iter().any(|listen| listen.key == key)
    }
}

impl Session {
    /// Takes a request to listen, which waits for first lists: what is not known yet could not be listened to.
    pub(super) fn listen(&mut self, id: &Bytes, params: Option<&Bytes>, stated: Stated) {
        match params.map(Filter::read) {
            Some(Ok(filter)) if !filter.tasks.is_empty() && !stated.takes_tasks => self.fail(Some(id), not_declared()),
            // The id outlives the line.
            Some(Ok(filter)) => self.route(Deferred::Listen { id: Bytes::copy_from_slice(id), filter }),
            Some(Err(why)) => self.refuse(Some(id), INVALID_PARAMS, why),
            None => self.refuse(Some(id), INVALID_PARAMS, "the params are missing"),
        }
    }

    /// Acknowledges as much of it as the profile shows, and has servers tell it.
    pub(super) fn begin_listening(&mut self, id: Bytes, mut filter: Filter, view: &View) {
        let servers = keep_readable(&mut filter, view);
        let tasks = self.keep_known(&mut filter, view);
        let lacks_room = if self.is_full() {
            Some(TOO_MANY)
        } else {
            let has_room = self.subscriptions.have_room_for(&filter.uris) && self.listens.have_room_for(&filter.tasks);
            (!has_room).then_some(TOO_MANY_SUBSCRIPTIONS)
        };
        if let Some(what) = lacks_room {
            return self.respond(Some(&id), [reply::error(Some(&id), &overloaded(what))]);
        }
        self.serial += 1;
        let key = CallKey { session: self.setup.number, serial: self.serial };
        self.outbox.push(filter.acknowledgement(&id));
        let mut wanted = self.interests(&tasks, true);
        for ((uri, raw), server) in filter.uris.iter().zip(servers) {
            if self.subscriptions.listen(uri, &server) {
                let subscription = Subscription { uri: uri.clone(), raw: raw.clone(), begins: true };
                wanted.push((server, Interest::Resource(subscription)));
            }
        }
        for (server, _) in &wanted {
            self.attachments.ensure(server, self.agent());
        }
        self.hear(wanted);
        let told = PerKind::from_fn(|kind| wants(&filter, kind).then(|| view.catalog.version(kind)));
        self.listens.0.push(Listen { id, key, filter, tasks, told });
    }

    /// The agent wants to hear no more for the request with this id, if it listens.
    pub(super) fn end_listening(&mut self, id: &Bytes) {
        let Some(index) = self.listens.0.iter().position(|listen| listen.id == id) else { return };
        let Listen { filter, tasks, .. } = self.listens.0.swap_remove(index);
        let mut left = self.interests(&tasks, false);
        let resources = filter.uris.iter().filter_map(|uri| self.subscriptions.unlisten(uri));
        left.extend(resources.map(|(server, subscription)| (server, Interest::Resource(subscription))));
        self.hear(left);
    }

    /// Answers every request that listens: the agent hears no more.
    pub(super) fn end_listens(&mut self) {
        for Listen { id, .. } in std::mem::take(&mut self.listens.0) {
            self.respond(Some(&id), [reply::result(&id, end(&id).as_bytes())]);
        }
    }

    fn hear(&mut self, wanted: Vec<(ServerHandle, Interest)>) {
        if !wanted.is_empty() {
            self.delayed = Some(Delayed::Hear(wanted));
        }
    }

    /// Tells each that listens to it that a resource has changed.
    pub(super) fn tell_listeners(&mut self, uri: &[u8], line: &Bytes) {
        let line = line.strip_suffix(b"\n").map_or_else(|| line.clone(), |whole| line.slice_ref(whole));
        let Ok(Message::Notification { params, .. }) = parse(&line) else { return };
        let is_concerned = |listen: &&Listen| listen.filter.uris.iter().any(|(own, _)| is_part(uri, own));
        let told = |listen: &Listen| {
            let change = for_subscription(&line, params.as_ref(), &listen.id)?;
            Some((listen.key, splice(&line, &mut [change.edit()])))
        };
        let all: Vec<_> = self.listens.0.iter().filter(is_concerned).filter_map(told).collect();
        for (key, line) in all {
            self.tell_or_keep(Some(key), line);
        }
    }

    /// Tells each which of the lists it asked for have changed: once, however often they did.
    pub(super) fn tell_listeners_of_changes(&mut self) {
        if self.listens.is_empty() {
            return;
        }
        let view = self.profile_view.borrow().clone();
        for Listen { id, told, .. } in &mut self.listens.0 {
            let mut said = None;
            for kind in Kind::ALL {
                let version = view.catalog.version(kind);
                if told[kind].is_some_and(|told| told != version) {
                    told[kind] = Some(version);
                    // One says it of resources and of their templates.
                    if said != Some(kind.change()) {
                        said = Some(kind.change());
                        self.outbox.push(changed(kind, id));
                    }
                }
            }
        }
    }
}

/// Leaves those resources in the filter that are listed, or match what is, and are not denied. Gives the server of each.
fn keep_readable(filter: &mut Filter, view: &View) -> Vec<ServerHandle> {
    let server = |uri: &Bytes| {
        let index = view.catalog.server_of(str::from_utf8(uri).ok()?)?;
        Some(view.servers.get(index)?.handle.clone())
    };
    let all = std::mem::take(&mut filter.uris).into_iter();
    let (uris, servers) = all.filter_map(|uri| Some((server(&uri.0)?, uri))).map(|(server, uri)| (uri, server)).unzip();
    filter.uris = uris;
    servers
}

fn wants(filter: &Filter, kind: Kind) -> bool {
    match kind {
        Kind::Tools => filter.tools,
        Kind::Prompts => filter.prompts,
        Kind::Resources | Kind::Templates => filter.resources,
    }
}

/// That a list has changed, for the subscription with this raw id.
fn changed(kind: Kind, id: &[u8]) -> Bytes {
    let (method, id) = (kind.change(), String::from_utf8_lossy(id));
    let params = format!(r#"{{"_meta":{{"{}":{id}}}}}"#, meta::SUBSCRIPTION);
    format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n").into()
}
