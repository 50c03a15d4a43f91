//! Tasks that the agent listens to: each is known by the id that was sealed for its profile, and told by the server's own.
//!
//! Source: extension `io.modelcontextprotocol/tasks`, 2026-07-28, "Task Status Notifications". An id that is unknown, for whatever
//! reason, is left out of the acknowledgement.

use std::str::from_utf8;

use bytes::Bytes;

use super::Session;
use super::listens::Listen;
use super::seal::Sealed;
use crate::config::Sharing;
use crate::era::Era;
use crate::era::notification::for_subscription;
use crate::era::subscription::Filter;
use crate::jsonrpc::members::members;
use crate::jsonrpc::splice::{Change, splice};
use crate::jsonrpc::{Message, parse};
use crate::kind::Kind;
use crate::manager::View;
use crate::server::messages::server_notification::FollowedTask;
use crate::server::{Following, Interest, ServerHandle};

/// One of them.
pub(super) struct Followed {
    server: ServerHandle,
    /// The exposed name of the tool whose call has made it.
    tool: Bytes,
    /// The server's own id, as text.
    id: Bytes,
    /// The agent's, raw as it has spelled it.
    pub(super) raw: Bytes,
}

impl Followed {
    fn is_same(&self, other: &Self) -> bool {
        self.id == other.id && self.server.is_same(&other.server)
    }

    /// That the agent wants to hear of it, or no more.
    fn interest(&self, begins: bool) -> (ServerHandle, Interest) {
        (self.server.clone(), Interest::Task(Following { id: self.id.clone(), begins }))
    }

    /// Whether it is what a server tells of, and the tool that has made it can be called.
    fn is_told(&self, told: &FollowedTask, view: &View) -> bool {
        let is_it = self.id == told.id && *self.server.name() == told.server;
        is_it && view.catalog.route(Kind::Tools, &self.tool).is_some()
    }
}

impl Session {
    /// Leaves those tasks in the filter that the agent may know.
    pub(super) fn keep_known(&self, filter: &mut Filter, view: &View) -> Vec<Followed> {
        let known = |(sealed, raw): &(Bytes, Bytes)| {
            let Sealed { tool, id, .. } = self.setup.seal.open(&self.caller.profile, from_utf8(sealed).ok()?)?;
            let route = view.catalog.route(Kind::Tools, tool.as_bytes())?;
            let member = view.servers.get(route.server)?;
            // Several instances may call theirs alike, and a legacy one tells of ends without results.
            let is_shared = member.config.settings.sharing == Sharing::Shared;
            let is_modern = member.handle.published().eras.contains(Era::Modern);
            let server = Some(&member.handle).filter(|_| is_shared && is_modern)?.clone();
            let [tool, id] = [tool, id].map(|part| Bytes::copy_from_slice(part.as_bytes()));
            Some(Followed { server, tool, id, raw: raw.clone() })
        };
        let all = std::mem::take(&mut filter.tasks).into_iter();
        let (tasks, followed) =
            all.filter_map(|task| Some((known(&task)?, task))).map(|(one, task)| (task, one)).unzip();
        filter.tasks = tasks;
        followed
    }

    /// What servers have to be told when the agent listens to these as well, or no more.
    pub(super) fn interests(&self, followed: &[Followed], begins: bool) -> Vec<(ServerHandle, Interest)> {
        let is_followed = |one: &&Followed| !self.listens.followed().any(|other| other.is_same(one));
        followed.iter().filter(is_followed).map(|one| one.interest(begins)).collect()
    }

    /// Tells each that listens to it how far a task is.
    pub(super) fn tell_followers(&mut self, told: &FollowedTask) {
        let line = &told.line;
        let Ok(Message::Notification { params: Some(params), .. }) = parse(line) else { return };
        let Ok([Some(id)]) = members(&params, ["taskId"]) else { return };
        let view = self.profile_view.borrow().clone();
        let line_for = |listen: &Listen, one: &Followed| {
            let subscription = for_subscription(line, Some(&params), &listen.id)?;
            let known_as = Change { part: id.clone(), replacement: one.raw.clone() };
            Some((listen.key, splice(line, &mut [subscription.edit(), known_as.edit()])))
        };
        let of_listen = |listen: &Listen| {
            let concerned = listen.tasks.iter().filter(|one| one.is_told(told, &view));
            concerned.filter_map(|one| line_for(listen, one)).collect::<Vec<_>>()
        };
        let all: Vec<_> = self.listens.iter().flat_map(of_listen).collect();
        for (key, line) in all {
            self.tell_or_keep(Some(key), line);
        }
    }
}
