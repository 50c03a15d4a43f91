//! The `[servers.NAME.tool.TOOL]` tables of one layer, and of merged layers.

use std::collections::HashMap;
use std::sync::Arc;

use super::super::diagnostic::{Diagnostic, Spanned};
use crate::tool_overrides::{ToolOverride, ToolOverrides};

/// The overrides of a server's tools, in file order.
#[derive(Debug, Default)]
pub(in crate::config) struct ToolOverridesLayer(pub(in crate::config) Vec<ToolOverrideLayer>);

/// One table. Unset keys are `None`.
#[derive(Debug)]
pub(in crate::config) struct ToolOverrideLayer {
    /// The server's own name of the tool.
    pub(in crate::config) tool: Spanned<Arc<str>>,
    pub(in crate::config) name: Option<Spanned<Arc<str>>>,
    pub(in crate::config) description: Option<Spanned<String>>,
    pub(in crate::config) arguments: Option<Spanned<Vec<FixedArgument>>>,
    pub(in crate::config) hide_arguments: Option<Spanned<Vec<Spanned<String>>>>,
}

/// A fixed argument with its value.
pub(in crate::config) struct FixedArgument {
    pub(in crate::config) name: String,
    pub(in crate::config) json: String,
    /// As it is printed: without likely secrets.
    pub(in crate::config) shown: String,
}

impl std::fmt::Debug for FixedArgument {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FixedArgument").field(&self.name).finish()
    }
}

impl ToolOverridesLayer {
    /// Merges over `lower`: keys replace.
    pub(super) fn merge(self, mut lower: Self) -> Self {
        for upper in self.0 {
            match lower.0.iter_mut().find(|below| below.tool.value == upper.tool.value) {
                Some(below) => below.replace(upper),
                None => lower.0.push(upper),
            }
        }
        lower
    }

    pub(super) fn resolve(&self) -> ToolOverrides {
        self.0.iter().map(|table| (Arc::clone(&table.tool.value), table.resolve())).collect()
    }

    /// Errors that only the merged layers show: one name for two tools, and arguments that are fixed and hidden.
    pub(super) fn check(&self) -> Vec<Diagnostic> {
        let mut wrong: Vec<_> = self.0.iter().flat_map(ToolOverrideLayer::check).collect();
        let mut renamed = HashMap::new();
        for ToolOverrideLayer { tool, name, .. } in &self.0 {
            let Some(name) = name.as_ref().filter(|name| name.value != tool.value) else { continue };
            let refuse = |message: String| {
                let problem = name.location.problem(message).help("give each tool of a server a name of its own");
                name.location.error(problem)
            };
            let is_kept = |other: &&ToolOverrideLayer| {
                other.tool.value == name.value && other.name.as_ref().is_none_or(|own| own.value == other.tool.value)
            };
            if let Some(first) = renamed.insert(&name.value, &tool.value) {
                wrong.push(refuse(format!("tools `{first}` and `{}` have the same name", tool.value.escape_debug())));
            } else if self.0.iter().any(|other| is_kept(&other)) {
                wrong.push(refuse(format!("`{}` is the name of another tool", name.value)));
            }
        }
        wrong
    }
}

impl ToolOverrideLayer {
    fn replace(&mut self, upper: Self) {
        let Self { tool: _, name, description, arguments, hide_arguments } = upper;
        self.name = name.or(self.name.take());
        self.description = description.or(self.description.take());
        self.arguments = arguments.or(self.arguments.take());
        self.hide_arguments = hide_arguments.or(self.hide_arguments.take());
    }

    fn fixed(&self) -> impl Iterator<Item = &FixedArgument> {
        self.arguments.iter().flat_map(|arguments| &arguments.value)
    }

    fn hidden(&self) -> impl Iterator<Item = &Spanned<String>> {
        self.hide_arguments.iter().flat_map(|hidden| &hidden.value)
    }

    fn check(&self) -> impl Iterator<Item = Diagnostic> {
        self.hidden().filter(|hidden| self.fixed().any(|fixed| fixed.name == hidden.value)).map(|hidden| {
            let message = format!("`{}` has a value in `arguments`", hidden.value.escape_debug());
            let help = "remove one of the two: an argument with a value is hidden, too";
            hidden.location.error(hidden.location.problem(message).help(help))
        })
    }

    fn resolve(&self) -> ToolOverride {
        let mut of_tool = ToolOverride::default();
        if let Some(name) = self.name.as_ref().filter(|name| name.value != self.tool.value) {
            of_tool = of_tool.with_name(Arc::clone(&name.value));
        }
        if let Some(description) = &self.description {
            of_tool = of_tool.with_description(&description.value);
        }
        of_tool = self.fixed().fold(of_tool, |of_tool, fixed| of_tool.with_fixed(&fixed.name, &fixed.json));
        self.hidden().fold(of_tool, |of_tool, hidden| of_tool.with_hidden(&hidden.value))
    }
}
