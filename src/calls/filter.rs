//! Which calls an operator requests.
//!
//! Pure.

use serde::{Deserialize, Serialize};

use super::CompletedCall;

/// Conditions on a call. An absent condition holds for every call.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// The call was routed to this server.
    pub server: Option<String>,
    /// The call was of this tool.
    pub tool: Option<ToolFilter>,
}

/// A tool, by the name in the command line and by its routes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToolFilter {
    /// The name as given. It also selects calls of an unknown tool with this name.
    pub name: String,
    /// Server and the server's own name for the tool.
    pub routes: Vec<(String, String)>,
}

impl Filter {
    /// Whether `record` meets all conditions.
    pub(super) fn admits(&self, record: &CompletedCall) -> bool {
        let server = record.server.as_deref();
        (self.server.is_none() || self.server.as_deref() == server)
            && self.tool.as_ref().is_none_or(|tool| tool.admits(server, &record.tool))
    }
}

impl ToolFilter {
    fn admits(&self, server: Option<&str>, tool: &str) -> bool {
        match server {
            Some(server) => {
                self.routes.iter().any(|(route_server, route_tool)| route_server == server && route_tool == tool)
            }
            None => self.name == tool,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_is_selected_by_its_route_and_an_unknown_tool_by_its_name() {
        let routes = vec![("files".to_owned(), "read".to_owned())];
        let filter = ToolFilter { name: "files__read".to_owned(), routes };
        for (server, tool, expected) in [
            (Some("files"), "read", true),
            (Some("git"), "read", false),
            (Some("files"), "files__read", false),
            (None, "files__read", true),
            (None, "read", false),
        ] {
            assert_eq!(filter.admits(server, tool), expected, "{server:?} {tool}");
        }
    }
}
