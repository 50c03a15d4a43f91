//! Tool names on the command line: the exposed name (`files__read`) or the qualified name `SERVER/TOOL` (`files/read`).
//!
//! An exposed name is never parsed: the daemon looks it up.

use super::text::{defects_text, one_line};
use crate::admin::report::{HiddenReport, ToolReport, ToolServer, ToolsSummary};
use crate::admin::{self, AdminError, AdminEvent, FeedItem, ToolsRequest};
use crate::config::Profile;
use crate::printable::lines;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::suggest::nearest;

const SYNTAX: &str =
    "write a tool as `mcpd tools` prints it, such as `files__read`, or as SERVER/TOOL, such as `files/read`";

/// The tools with this name in a profile, including hidden ones, and all servers.
pub(super) async fn find(
    directory: &RuntimeDir,
    profile: Option<&str>,
    name: &str,
) -> Result<(Vec<ToolReport>, ToolsSummary), AdminError> {
    request(directory, ToolsRequest { profile: profile.map(str::to_owned), name: Some(name.to_owned()) }).await
}

/// The error for a tool that agents of `profile` do not see, with what hides it; `None` for every other name.
pub(super) async fn hidden(directory: &RuntimeDir, profile: &str, name: &str) -> Option<String> {
    let (found, _) = find(directory, Some(profile), name).await.ok()?;
    if found.iter().any(|tool| tool.hidden.is_none()) {
        return None;
    }
    let tool = found.first()?;
    let hidden = tool.hidden.as_ref()?;
    let shown = lines(&qualified(&tool.server, &tool.tool));
    let disabled = match &*hidden.why {
        "off" => Some(&*shown),
        "disabled" => Some(&*tool.server),
        _ => None,
    };
    if let Some(target) = disabled {
        return Some(format!("`{target}` is disabled: `mcpd enable {target}` enables it"));
    }
    let agents = match profile {
        Profile::DEFAULT => "agents".to_owned(),
        profile => format!("agents of profile `{profile}`"),
    };
    Some(format!("{agents} do not see `{shown}`: {}", hidden_reason(tool, Some(hidden))))
}

/// The name `SERVER/TOOL`.
pub(super) fn qualified(server: &str, tool: &str) -> String {
    format!("{server}/{tool}")
}

/// The end of an error about an unknown tool: the most similar name in `known`, and the syntax of names.
///
/// `known` has exposed and qualified names; the suggestion has the form of `name`. If `name` begins with one of the configured
/// `servers`, only tools of that server are suggested.
pub(super) fn suggestion<'k>(
    name: &str,
    known: impl Iterator<Item = (&'k str, Option<String>)>,
    servers: impl IntoIterator<Item = &'k str>,
) -> String {
    let known: Vec<String> = if name.contains('/') {
        known.filter_map(|(_, qualified)| qualified).collect()
    } else {
        known.map(|(exposed, _)| exposed.to_owned()).filter(|exposed| !exposed.is_empty()).collect()
    };
    let (prefix, tool) = name.split_at(prefix_len(name, servers));
    // The common prefix would make all tools of a server similar.
    let tools = known.iter().filter_map(|known| known.strip_prefix(prefix));
    let similar = nearest(tool, tools).map(|tool| format!(": did you mean `{prefix}{tool}`?"));
    format!("{}\n{SYNTAX}", similar.unwrap_or_default())
}

/// Length of the prefix of `name` that names one of `servers`, including the separator; 0 without such a prefix.
fn prefix_len<'k>(name: &str, servers: impl IntoIterator<Item = &'k str>) -> usize {
    servers.into_iter().filter_map(|server| server_prefix_len(name, server)).max().unwrap_or_default()
}

fn server_prefix_len(name: &str, server: &str) -> Option<usize> {
    ["mcp__", ""].iter().find_map(|scheme| {
        let rest = name.strip_prefix(scheme)?.strip_prefix(server)?;
        let tool = rest.strip_prefix("__").or_else(|| rest.strip_prefix('/').filter(|_| scheme.is_empty()))?;
        Some(name.len() - tool.len())
    })
}

/// The server in `servers` whose name begins the name of a tool.
pub(super) fn server_of<'s>(name: &str, servers: &'s [ToolServer]) -> Option<&'s ToolServer> {
    let len = |server: &&ToolServer| server_prefix_len(name, &server.name);
    servers.iter().filter(|server| len(server).is_some()).max_by_key(len)
}

/// Tools and servers from the operator socket.
pub(super) async fn request(
    directory: &RuntimeDir,
    request: ToolsRequest,
) -> Result<(Vec<ToolReport>, ToolsSummary), AdminError> {
    let mut feed = admin::tools(&directory.socket(ADMIN_SOCKET), request).await?;
    let mut tools = Vec::new();
    loop {
        match feed.next().await? {
            Some(FeedItem::Event(AdminEvent::Tool(tool))) => tools.push(*tool),
            Some(FeedItem::Event(_)) => {}
            Some(FeedItem::Summary(list)) => return Ok((tools, list)),
            None => {
                return Err(AdminError::NoAnswer {
                    path: directory.socket(ADMIN_SOCKET),
                    reason: "the connection ended".to_owned(),
                });
            }
        }
    }
}

/// What hides a tool, and the command that shows it if there is one.
pub(super) fn hidden_reason(
    ToolReport { server, tool, defects, .. }: &ToolReport,
    hidden: Option<&HiddenReport>,
) -> String {
    let Some(HiddenReport { why, pattern, table }) = hidden else { return "not visible".to_owned() };
    let place = table.as_ref().map(|table| format!(" of [{}]", one_line(table))).unwrap_or_default();
    match (&**why, pattern) {
        ("deny", Some(pattern)) => format!("denied by `{}`{place}", one_line(pattern)),
        ("allow", _) => format!("not matched by `allow`{place}"),
        ("read_only", _) => format!("not declared read-only, as `tools.read_only`{place} requires"),
        ("expose", _) => format!("`expose`{place} does not include tools"),
        ("off", _) => format!("disabled: `mcpd enable {server}/{}`", one_line(tool)),
        ("disabled", _) => format!("its server is disabled: `mcpd enable {server}`"),
        ("profile", _) => "its server is not in the profile".to_owned(),
        ("unfit", _) => "its name is too long or has invisible characters".to_owned(),
        ("malformed", _) => defects_text(defects),
        ("withheld", _) => format!("withheld until you approve it: `mcpd diff {server}`"),
        ("again", _) => "its server lists it twice".to_owned(),
        ("cut", _) => "the list would be larger than `max_message`".to_owned(),
        ("name_taken", _) => "another tool of its server has the name that the configuration gives it".to_owned(),
        ("nameless", _) => "every name for it is taken".to_owned(),
        (other, _) => one_line(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_suggested_in_the_form_that_was_used() {
        let known = || [("files__read", Some("files/read".to_owned())), ("git__log", None)].into_iter();
        for (name, expected) in [
            ("files__raed", ": did you mean `files__read`?"),
            ("files/raed", ": did you mean `files/read`?"),
            ("git/lgo", ""),
            ("zzz", ""),
        ] {
            assert_eq!(suggestion(name, known(), ["files", "git"]), format!("{expected}\n{SYNTAX}"), "{name}");
        }
    }

    #[test]
    fn tool_of_another_server_is_suggested_only_for_a_name_without_a_configured_server() {
        let names = ["github__push", "mcp__github__push", "files__read", "read_file"];
        let known = || names.iter().map(|name| (*name, Some(name.replace("__", "/"))));
        for (name, expected) in [
            ("git__push", ""),
            ("git/push", ""),
            ("mcp__git__push", ""),
            ("files__push", ""),
            ("github__psuh", ": did you mean `github__push`?"),
            ("mcp__github__psuh", ": did you mean `mcp__github__push`?"),
            ("gihtub__push", ": did you mean `github__push`?"),
            ("push", ": did you mean `mcp__github__push`?"),
            ("reed_file", ": did you mean `read_file`?"),
        ] {
            let text = suggestion(name, known(), ["git", "github", "files", "mcp"]);
            assert_eq!(text, format!("{expected}\n{SYNTAX}"), "{name}");
        }
    }
}
