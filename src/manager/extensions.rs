//! What the servers of a view offer beside lists: their instructions, and their extensions with the servers that a method belongs to.
//!
//! Source: MCP 2026-07-28, `basic/versioning`, "Extension Negotiation".

use std::sync::Arc;

use serde_json::{Map, Value, json};

use super::{Member, View};
use crate::era::{Era, TASKS};
use crate::extensions::{self, SKILLS, is_bridged, owns};
use crate::instructions::combine;
use crate::jsonrpc::members::members;
use crate::list_kind::ListKind;
use crate::server::lifecycle::State;
use crate::server::messages::call::Failure;
use crate::server::{Extension, failure_in};

impl View {
    /// The extensions whose methods are routed for agents of this era, with their settings. If several servers declare one, the first
    /// server's settings apply. The tasks extension is included if a modern server declares it.
    #[must_use]
    pub fn extensions(&self, era: Era) -> Map<String, Value> {
        let mut all = Map::new();
        for member in &self.servers {
            let has_tools = member.is_enabled() && member.config.policy.exposes(ListKind::Tools);
            if era == Era::Modern && has_tools && member.makes_modern_tasks() {
                all.entry(TASKS.to_owned()).or_insert_with(|| json!({}));
            }
            for Extension { id, settings } in member.extensions(era) {
                let Ok(settings) = serde_json::from_slice::<Value>(&settings) else { continue };
                let merged = all.entry(&*id).or_insert_with(|| settings.clone());
                if *id == *SKILLS && settings[DIRECTORY_READ] == true {
                    merged[DIRECTORY_READ] = true.into();
                }
            }
        }
        all
    }

    /// Whether `server` may send agents of this era a request or notification with this method.
    pub(crate) fn permits_message(&self, server: &str, method: &str, era: Era) -> bool {
        let member = self.servers.iter().find(|member| *member.config.name == *server);
        member.is_some_and(|member| {
            let is_in_face = self.face_member().is_some() && member.receives_unknown_methods(era);
            is_in_face || member.owner(method, era).is_some()
        })
    }

    /// The servers that expose an extension with this method to agents of this era, in file order: their indices, and the id of the
    /// extension. None if different extensions have the method.
    pub(crate) fn owners(&self, method: &str, era: Era) -> Vec<(usize, Arc<str>)> {
        let owner = |(index, member): (usize, &Member)| Some((index, member.owner(method, era)?));
        let owners: Vec<_> = self.servers.iter().enumerate().filter_map(owner).collect();
        let is_ambiguous = owners.iter().any(|(_, id)| *id != owners[0].1);
        if is_ambiguous { Vec::new() } else { owners }
    }
}

/// The setting of servers that have [`extensions::DIRECTORY_READ`].
const DIRECTORY_READ: &str = "directoryRead";

impl Member {
    /// The extension with this method, if agents of this era may use it. `None` if the server declares several extensions that have the
    /// method, since policy may hide only one of them.
    pub(crate) fn owner(&self, method: &str, era: Era) -> Option<Arc<str>> {
        let has_method = |Extension { id, settings }: &Extension| match method {
            extensions::DIRECTORY_READ if **id == *SKILLS => {
                matches!(members(settings, [DIRECTORY_READ]), Ok([Some(value)]) if value[..] == b"true"[..])
            }
            _ => owns(id, method),
        };
        let mut owners = self.declared_extensions(era).into_iter().filter(has_method).map(|extension| extension.id);
        let owner = owners.next().filter(|id| self.config.policy.permits_extension(id))?;
        owners.all(|other| other == owner).then_some(owner)
    }

    /// Whether the server exchanges messages with agents of this era that no declared extension has. It decides itself whether they
    /// exist.
    pub(crate) fn receives_unknown_methods(&self, era: Era) -> bool {
        self.is_enabled() && self.serves(era) && self.config.policy.permits_unknown_methods()
    }

    /// Whether the server may send notifications of extensions to all legacy agents.
    pub(crate) fn notifies_of_extensions(&self) -> bool {
        self.serves(Era::Legacy) && !self.extensions(Era::Legacy).is_empty()
    }

    /// Why the server is down, if it has run or failed before and is not ready now.
    pub(crate) fn failure(&self) -> Option<Failure> {
        let published = self.handle.published();
        let may_answer = matches!(published.state, State::Ready { .. });
        let may_answer = may_answer || published.not_started_yet || !published.first_start_ended;
        (!may_answer).then(|| failure_in(&published.state))
    }

    /// Whether the server receives requests of agents of this era unchanged.
    pub(crate) fn serves(&self, era: Era) -> bool {
        self.handle.published().identity(era).is_some_and(|identity| identity.era() == era)
    }

    /// The extensions that agents of this era may use.
    fn extensions(&self, era: Era) -> Vec<Extension> {
        let mut all = self.declared_extensions(era);
        all.retain(|one| self.config.policy.permits_extension(&one.id));
        all
    }

    /// The extensions that reach agents of this era if policy permits them. The tasks extension is not among them: mcpd itself serves
    /// it.
    fn declared_extensions(&self, era: Era) -> Vec<Extension> {
        let identity = self.handle.published().identity(era).cloned();
        let Some(identity) = identity.filter(|_| self.is_enabled()) else { return Vec::new() };
        let is_same_era = identity.era() == era;
        let reaches = |id: &str| id != TASKS && (is_same_era || is_bridged(id));
        identity.extensions().iter().filter(|one| reaches(&one.id)).cloned().collect()
    }

    /// The server's instructions for agents of this era.
    pub(crate) fn own_instructions(&self, era: Era) -> Option<Arc<str>> {
        self.instructions(self.handle.published().identity(era).map(|one| &**one))
    }

    /// Whether the server creates tasks for modern agents. Tasks do not cross eras.
    fn makes_modern_tasks(&self) -> bool {
        let identity = self.handle.published().identity(Era::Modern).cloned();
        identity.is_some_and(|identity| identity.era() == Era::Modern && identity.tasks().declared)
    }
}

impl View {
    /// The combined instructions of all servers with exposed items, for agents of this era; `None` if there are none.
    #[must_use]
    pub fn instructions(&self, era: Era) -> Option<String> {
        let texts = self.exposed().filter_map(|one| Some((&**one.handle.name(), one.own_instructions(era)?)));
        let texts: Vec<_> = texts.collect();
        combine(texts.iter().map(|(name, text)| (*name, &**text)))
    }

    /// The servers with exposed items.
    pub(crate) fn exposed(&self) -> impl Iterator<Item = &Member> {
        let exposed = self.servers.iter().zip(self.catalog.exposure());
        let exposed = exposed.filter(|(_, exposure)| ListKind::ALL.iter().any(|kind| exposure[*kind].exposed > 0));
        exposed.map(|(member, _)| member)
    }
}
