//! What the configuration changes of single tools: the name and the description that agents see, and arguments that agents do not send.
//!
//! A fixed argument has the same value in each call, and a hidden one is in no call. Agents see neither in the schema. A call that has one
//! is refused before a server sees it. Policy, logs and servers use the server's own name of a tool.
//!
//! - [`definition`]: the edits of a tool's definition
//! - [`arguments`]: the edit of a call
//!
//! Pure: no I/O and no clock. All other bytes of definitions and calls stay unchanged.

mod arguments;
mod definition;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

pub use self::arguments::RefusedArguments;

/// Maximum length of the name that agents see.
const MAX_NAME_LEN: usize = 128;

/// What is changed of one tool. `Debug` prints no value, which may be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct ToolOverride {
    name: Option<Arc<str>>,
    /// Raw JSON.
    description: Option<Box<str>>,
    /// The names of fixed arguments.
    fixed: Vec<Box<str>>,
    /// The fixed arguments as members of an object, such as `"a":1,"b":2`.
    members: Box<str>,
    hidden: Vec<Box<str>>,
}

impl ToolOverride {
    /// Agents see this name instead of the server's own.
    pub(crate) fn with_name(self, name: Arc<str>) -> Self {
        Self { name: Some(name), ..self }
    }

    /// Agents see this description instead of the server's.
    pub(crate) fn with_description(self, description: &str) -> Self {
        Self { description: Some(quoted(description).into()), ..self }
    }

    /// Each call has this argument with this value, which is raw JSON.
    pub(crate) fn with_fixed(mut self, argument: &str, value: &str) -> Self {
        let comma = if self.members.is_empty() { "" } else { "," };
        self.members = format!("{}{comma}{}:{value}", self.members, quoted(argument)).into();
        self.fixed.push(argument.into());
        self
    }

    /// No call has this argument.
    pub(crate) fn with_hidden(mut self, argument: &str) -> Self {
        self.hidden.push(argument.into());
        self
    }

    /// The arguments that agents do not see.
    fn unseen(&self) -> Vec<&str> {
        self.fixed.iter().chain(&self.hidden).map(|name| &**name).collect()
    }
}

impl fmt::Debug for ToolOverride {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, fixed, hidden, .. } = self;
        let mut shown = f.debug_struct("ToolOverride");
        shown.field("name", name).field("fixed", fixed).field("hidden", hidden).finish_non_exhaustive()
    }
}

/// A text as JSON.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The overrides of a server's tools, by the server's own names. Cheap to clone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ToolOverrides(Arc<BTreeMap<Arc<str>, Arc<ToolOverride>>>);

impl ToolOverrides {
    /// Whether no tool is changed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The override of a tool.
    pub(crate) fn get(&self, tool: &str) -> Option<&Arc<ToolOverride>> {
        self.0.get(tool)
    }

    /// The name of a tool before server and prefix are added.
    pub(crate) fn shown_name<'a>(&'a self, tool: &'a str) -> &'a str {
        self.get(tool).and_then(|of_tool| of_tool.name.as_deref()).unwrap_or(tool)
    }

    /// The tools that get the name `shown`.
    pub(crate) fn tools_shown_as<'a>(&'a self, shown: &'a str) -> impl Iterator<Item = &'a Arc<str>> {
        self.0.iter().filter(move |(_, of_tool)| of_tool.name.as_deref() == Some(shown)).map(|(tool, _)| tool)
    }

    /// The tools with their overrides, by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &ToolOverride)> {
        self.0.iter().map(|(tool, of_tool)| (tool, &**of_tool))
    }
}

impl FromIterator<(Arc<str>, ToolOverride)> for ToolOverrides {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, ToolOverride)>>(overrides: I) -> Self {
        Self(Arc::new(overrides.into_iter().map(|(tool, of_tool)| (tool, Arc::new(of_tool))).collect()))
    }
}

/// Whether agents may see a tool under this name.
///
/// Source: MCP 2025-11-25, `server/tools`, "Tool Names".
#[must_use]
pub(crate) fn is_tool_name(name: &str) -> bool {
    let is_permitted = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    !name.is_empty() && name.len() <= MAX_NAME_LEN && name.bytes().all(is_permitted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_found_by_both_names() {
        let renamed = ToolOverride::default().with_name("find".into());
        let overrides: ToolOverrides =
            [("search".into(), renamed), ("other".into(), ToolOverride::default().with_hidden("x"))]
                .into_iter()
                .collect();
        assert_eq!(["search", "other", "third"].map(|tool| overrides.shown_name(tool)), ["find", "other", "third"]);
        let own = |shown| overrides.tools_shown_as(shown).map(|tool| &**tool).collect::<Vec<_>>();
        assert_eq!((own("find"), own("search"), own("other")), (vec!["search"], vec![], vec![]));
    }

    #[test]
    fn names_follow_the_specification() {
        for good in ["a", "get_user.v2-x", &"x".repeat(128)] {
            assert!(is_tool_name(good), "{good}");
        }
        for bad in ["", "a b", "a/b", "é", "a\n", &"x".repeat(129)] {
            assert!(!is_tool_name(bad), "{bad}");
        }
    }

    #[test]
    fn values_of_arguments_are_not_printed() {
        let of_tool = ToolOverride::default().with_fixed("token", "\"hunter2\"");
        assert!(!format!("{of_tool:?}").contains("hunter2"));
    }
}
