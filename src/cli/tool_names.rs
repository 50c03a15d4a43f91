//! Tools as people name them: by the exposed name (`files__read`), or as `SERVER/TOOL` (`files/read`), as patterns of the policy have it.
//!
//! An exposed name is never taken apart: the daemon looks it up.

use super::tools;
use crate::admin::report::{ToolReport, ToolsTold};
use crate::admin::{AskError, ToolsWanted};
use crate::likeness::hint;
use crate::sockets::RuntimeDir;

/// The two forms, for errors about a name that fits no tool.
pub(super) const FORMS: &str =
    "name a tool as `mcpd tools` prints it, such as `files__read`, or as SERVER/TOOL, such as `files/read`";

/// The tools that `name` stands for in a profile, hidden ones as well, and what there is to say of all servers.
pub(super) async fn find(
    directory: &RuntimeDir,
    profile: Option<&str>,
    name: &str,
) -> Result<(Vec<ToolReport>, ToolsTold), AskError> {
    tools::ask(directory, ToolsWanted { profile: profile.map(str::to_owned), name: Some(name.to_owned()) }).await
}

/// `SERVER/TOOL`.
pub(super) fn own_form(server: &str, tool: &str) -> String {
    format!("{server}/{tool}")
}

/// What to add to an error about `name`: of `known`, which has exposed names and the other form, the tool that may be meant, in the form
/// that was used, and which forms there are.
pub(super) fn suggestion<'k>(name: &str, known: impl Iterator<Item = (&'k str, Option<String>)>) -> String {
    let known: Vec<String> = if name.contains('/') {
        known.filter_map(|(_, own)| own).collect()
    } else {
        known.map(|(exposed, _)| exposed.to_owned()).filter(|exposed| !exposed.is_empty()).collect()
    };
    format!("{}\n{FORMS}", hint(name, known.iter().map(String::as_str)))
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
            assert_eq!(suggestion(name, known()), format!("{expected}\n{FORMS}"), "{name}");
        }
    }
}
