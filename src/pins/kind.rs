//! What is pinned.

use serde::{Deserialize, Serialize};

use crate::list_kind::ListKind;

/// A kind of definition that is pinned. Resources and skills are content, not definitions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PinnedKind {
    /// The instructions of a server. Their key is empty.
    Instructions,
    /// A tool, by its name on the server.
    Tool,
    /// A prompt, by its name on the server.
    Prompt,
    /// A resource template, by its URI template.
    Template,
}

impl PinnedKind {
    /// In the order of a pin file.
    pub const ALL: [Self; 4] = [Self::Instructions, Self::Tool, Self::Prompt, Self::Template];

    /// The kind of the items of a list. `None` if these are not pinned.
    pub fn of(list: ListKind) -> Option<Self> {
        match list {
            ListKind::Tools => Some(Self::Tool),
            ListKind::Prompts => Some(Self::Prompt),
            ListKind::Templates => Some(Self::Template),
            ListKind::Resources | ListKind::Skills => None,
        }
    }

    /// The word for it in files, commands and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
            Self::Template => "template",
        }
    }
}
