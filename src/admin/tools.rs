//! The `tools` method: sends every tool that servers list, one per message, since all of them may exceed one message.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use futures_util::SinkExt;
use tokio::task::yield_now;
use tokio::time::timeout;

use super::operator::{Access, OPERATOR_TIMEOUT, Operator, event, refuse, refuse_overload, respond};
use super::report::{HiddenReport, ToolReport, ToolServer, ToolsSummary};
use super::{AdminEvent, Answer, ToolsRequest};
use crate::catalog::tokens_of;
use crate::config::Profile;
use crate::era::Era;
use crate::jsonrpc::members::{members, text};
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::list_kind::ListKind;
use crate::manager::report::defects;
use crate::manager::{OfferedTool, ServedProfile, Unseen, View, tool_groups};
use crate::naming::Naming;

/// Tools examined before other tasks run.
const TOOLS_PER_TURN: usize = 32;
/// Maximum length of a description, in characters.
const MAX_DESCRIPTION_LEN: usize = 500;

/// The tools that a request selects.
enum Selection<'a> {
    All,
    /// Named by `SERVER/TOOL` or by the exposed name of a visible tool.
    One {
        server: &'a str,
        tool: &'a str,
    },
    /// All tools that could be exposed under a name that no visible tool has.
    Hidden {
        name: &'a str,
        namings: Vec<Naming>,
    },
}

impl<'a> Selection<'a> {
    fn new(name: Option<&'a str>, seen: &'a View, namings: Vec<Naming>) -> Self {
        let Some(name) = name else { return Self::All };
        // No exposed name has a slash.
        if let Some((server, tool)) = name.split_once('/') {
            return Self::One { server, tool };
        }
        match seen.catalog.route(ListKind::Tools, name.as_bytes()) {
            Some(route) => Self::One { server: &seen.servers[route.server].config.name, tool: &route.name },
            None => Self::Hidden { name, namings },
        }
    }

    /// `shown` is the name of the tool before server and prefix are added.
    fn matches(&self, server: &str, tool: &str, shown: &str) -> bool {
        match self {
            Self::All => true,
            Self::One { server: selected, tool: name } => *selected == server && *name == tool,
            Self::Hidden { name, namings } => namings.iter().any(|naming| {
                naming.may_be_of(server, name.as_bytes()) && naming.candidates(server, shown).any(|one| one == *name)
            }),
        }
    }
}

/// Answers request `id`.
pub(super) async fn answer(operator: &mut Operator, id: u64, request: ToolsRequest, access: &Access) -> io::Result<()> {
    let profile = request.profile.as_deref().unwrap_or(Profile::DEFAULT);
    let profiles = Arc::clone(&access.manager.profiles().borrow());
    let Some(ServedProfile { view: seen, .. }) = profiles.iter().find(|one| *one.profile.name == *profile) else {
        let names: Vec<_> = profiles.iter().map(|one| &*one.profile.name).collect();
        let message = format!("there is no profile `{profile}`; the daemon has: {}", names.join(", "));
        return refuse(operator, Some(id), ErrorObject::new(INVALID_PARAMS, message)).await;
    };
    let Ok(_permit) = access.long_requests.try_acquire() else { return refuse_overload(operator, id).await };
    let (whole, seen) = (Arc::clone(&access.view.borrow()), Arc::clone(&seen.borrow()));
    let namings = profiles.iter().map(|one| one.profile.naming).collect();
    let selection = Selection::new(request.name.as_deref(), &seen, namings);
    let servers = send_tools(operator, &whole, &seen, &selection).await?;
    let instructions_bytes = seen.instructions(Era::Legacy).map_or(0, |text| text.len());
    let summary = ToolsSummary { profile: profile.to_owned(), servers, instructions_bytes };
    respond(operator, Some(id), Answer::Tools(summary)).await
}

async fn send_tools(
    operator: &mut Operator,
    whole: &View,
    seen: &View,
    selection: &Selection<'_>,
) -> io::Result<Vec<ToolServer>> {
    let mut servers = Vec::new();
    let instructions = seen.exposed().map(|one| (&one.config.name, one.own_instructions(Era::Legacy)));
    let instructions: HashMap<_, _> = instructions.filter_map(|(name, text)| Some((name, text?.len()))).collect();
    for (group, member) in tool_groups(whole, seen).zip(&whole.servers) {
        for (index, offered) in group.tools().enumerate() {
            // Estimating tokens reads the whole definition, and there may be thousands: let agents' tasks run in between.
            if index % TOOLS_PER_TURN == TOOLS_PER_TURN - 1 {
                yield_now().await;
            }
            if !selection.matches(group.server(), offered.tool, offered.shown_name) {
                continue;
            }
            let has_definition = !matches!(selection, Selection::All);
            let definition = has_definition.then(|| String::from_utf8_lossy(offered.definition).into_owned());
            let report = report(group.server(), &offered, definition);
            timeout(OPERATOR_TIMEOUT, operator.feed(event(AdminEvent::Tool(Box::new(report))))).await??;
        }
        let is_enabled = member.is_enabled();
        let (state, has_listed) = {
            let published = member.handle.published();
            (member.state_name(&published), published.lists_known)
        };
        let (name, truncated) = (group.server().to_string(), group.is_truncated());
        let missing = group.is_seen() && is_enabled && !has_listed;
        let instructions_bytes = instructions.get(&member.config.name).copied().unwrap_or_default();
        servers.push(ToolServer { name, state, truncated, missing, instructions_bytes });
    }
    Ok(servers)
}

fn report(server: &str, offered: &OfferedTool<'_>, definition: Option<String>) -> ToolReport {
    let [description] = members(&offered.seen, ["description"]).unwrap_or_default();
    let description = description.and_then(|raw| text(&raw));
    let name = offered.exposed_as.ok();
    ToolReport {
        server: server.to_owned(),
        tool: offered.tool.to_owned(),
        name: name.map(str::to_owned),
        configured_name: (offered.shown_name != offered.tool).then(|| offered.shown_name.to_owned()),
        description_bytes: description.as_ref().map_or(0, |text| text.len()),
        description: description.map(|text| beginning(&text)),
        tokens: tokens_of(name.unwrap_or(offered.tool).len(), offered.passed_on),
        hidden: offered.exposed_as.err().map(hidden),
        hidden_from_modern: offered.is_legacy_only.then(|| "task_only".to_owned()),
        defects: defects(offered.reasons),
        definition,
    }
}

/// The first [`MAX_DESCRIPTION_LEN`] characters. The client escapes them for display.
fn beginning(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(MAX_DESCRIPTION_LEN).collect()
}

fn hidden(why: Unseen<'_>) -> HiddenReport {
    let reason = |why: &str| HiddenReport { why: why.to_owned(), pattern: None, table: None };
    match why {
        Unseen::Disabled => reason("disabled"),
        Unseen::OutOfProfile => reason("profile"),
        Unseen::Again => reason("again"),
        Unseen::Cut => reason("cut"),
        Unseen::NameTaken => reason("name_taken"),
        Unseen::Nameless => reason("nameless"),
        Unseen::Hidden(hidden) => HiddenReport {
            pattern: hidden.pattern().map(str::to_owned),
            table: hidden.table().map(str::to_owned),
            ..reason(hidden.word())
        },
    }
}
