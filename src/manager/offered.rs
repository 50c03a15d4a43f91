//! All tools that servers list, each with its exposed name in a profile or the reason why agents do not see it. Only operators
//! receive this list.
//!
//! Exposed names come from the catalog; reasons come from the policy that the catalog was built with.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use bytes::Bytes;

use super::{Member, View};
use crate::catalog::List;
use crate::list_kind::ListKind;
use crate::policy::Hidden;
use crate::validity::Reason;

/// One tool that a server lists.
#[derive(Debug)]
pub(crate) struct OfferedTool<'a> {
    /// The server's own name for it.
    pub(crate) tool: &'a str,
    /// The server's name, or the one that the configuration gives it, before server and prefix are added.
    pub(crate) shown_name: &'a str,
    /// The raw tool object.
    pub(crate) definition: &'a Bytes,
    /// The same as agents see it, but for its name and what is mended.
    pub(crate) seen: Bytes,
    /// Its defects.
    pub(crate) reasons: &'a [Reason],
    /// Number of its bytes that clients send to a model, besides the name.
    pub(crate) passed_on: usize,
    /// The exposed name, or why there is none.
    pub(crate) exposed_as: Result<&'a str, Unseen<'a>>,
    /// Only legacy agents see it, because it can only be called as a task.
    pub(crate) is_legacy_only: bool,
}

/// Why agents do not see a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unseen<'a> {
    /// Its server is disabled.
    Disabled,
    /// Its server is not in the profile.
    OutOfProfile,
    /// Policy hides it.
    Hidden(Hidden<'a>),
    /// Its server lists an earlier tool with the same name.
    Again,
    /// The list would be larger than a message may be.
    Cut,
    /// Another tool of its server has the name that the configuration gives it.
    NameTaken,
    /// Every name for it is taken, or names are not assigned yet.
    Nameless,
}

/// The last known tools of one server, visible to agents or not.
#[derive(Debug)]
pub(crate) struct ToolGroup<'a> {
    member: &'a Member,
    list: Arc<List>,
    /// Exposed names by the server's own names.
    names: HashMap<&'a str, &'a str>,
    /// The server's own names of tools that did not fit into the list.
    cut: HashSet<&'a str>,
    /// The server's own names of tools whose configured name another tool has.
    name_taken: HashSet<&'a str>,
    /// The server in the profile's view, if the profile includes it.
    seen: Option<&'a Member>,
}

/// The tools of all servers, in configuration order. `seen` is the view of the profile.
pub(crate) fn tool_groups<'a>(whole: &'a View, seen: &'a View) -> impl Iterator<Item = ToolGroup<'a>> {
    let mut names: HashMap<usize, HashMap<&str, &str>> = HashMap::new();
    for (name, route) in seen.catalog.routes(ListKind::Tools) {
        names.entry(route.server).or_default().insert(&route.name, name);
    }
    whole.servers.iter().map(move |member| {
        let index = seen.servers.iter().position(|other| other.config.name == member.config.name);
        let names = index.and_then(|index| names.remove(&index)).unwrap_or_default();
        let list = Arc::clone(&member.handle.published().lists[ListKind::Tools]);
        let cut = seen.catalog.cut(ListKind::Tools).iter().filter(|(server, _)| Some(*server) == index);
        let cut = cut.map(|(_, tool)| &**tool).collect();
        let name_taken = seen.catalog.name_taken().iter().filter(|(server, _)| Some(*server) == index);
        let name_taken = name_taken.map(|(_, tool)| &**tool).collect();
        ToolGroup { member, list, names, cut, name_taken, seen: index.and_then(|index| seen.servers.get(index)) }
    })
}

impl ToolGroup<'_> {
    /// The name of the server.
    pub(crate) fn server(&self) -> &Arc<str> {
        &self.member.config.name
    }

    /// Whether agents see this server, whatever it lists.
    pub(crate) fn is_seen(&self) -> bool {
        self.seen.is_some_and(|seen| seen.is_enabled())
    }

    /// Whether the list was cut.
    pub(crate) fn is_truncated(&self) -> bool {
        self.list.truncated
    }

    /// Each tool, in the server's order.
    pub(crate) fn tools(&self) -> impl Iterator<Item = OfferedTool<'_>> {
        let hidden = self.seen.map(|seen| self.list.hidden(ListKind::Tools, &seen.config.policy)).unwrap_or_default();
        let (mut before, legacy_only) = (HashSet::new(), self.list.legacy_only());
        self.list.items.iter().map(move |item| {
            let is_first = before.insert(&item.key);
            let exposed_as = self.exposed_as(&item.key, hidden.get(&*item.key).copied(), is_first);
            let is_legacy_only = exposed_as.is_ok() && legacy_only.contains(&*item.key);
            let overridden = self.member.config.tool_overrides.get(&item.key).map(|of_tool| item.overridden(of_tool));
            OfferedTool {
                tool: &item.key,
                shown_name: self.member.shown_name(ListKind::Tools, &item.key),
                definition: &item.json,
                seen: overridden.as_ref().unwrap_or(item).json.clone(),
                reasons: item.validity.reasons(),
                passed_on: overridden.as_ref().unwrap_or(item).model_bytes,
                exposed_as,
                is_legacy_only,
            }
        })
    }

    fn exposed_as<'s>(&'s self, tool: &str, hidden: Option<Hidden<'s>>, is_first: bool) -> Result<&'s str, Unseen<'s>> {
        let seen = self.seen.ok_or(Unseen::OutOfProfile)?;
        if !seen.is_enabled() {
            return Err(Unseen::Disabled);
        }
        if let Some(hidden) = hidden {
            return Err(Unseen::Hidden(hidden));
        }
        if !is_first {
            return Err(Unseen::Again);
        }
        let unseen = match () {
            () if self.cut.contains(tool) => Unseen::Cut,
            () if self.name_taken.contains(tool) => Unseen::NameTaken,
            () => Unseen::Nameless,
        };
        self.names.get(tool).copied().ok_or(unseen)
    }
}
