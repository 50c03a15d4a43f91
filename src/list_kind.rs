//! The kinds of lists that servers offer, with the names that MCP gives to each. Pure.
//!
//! Source: MCP 2025-11-25, `server/tools`, `server/prompts`, `server/resources`; the skills extension (SEP-2640), "Listing Skills".

use std::ops::{Index, IndexMut};

/// What a list contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListKind {
    /// `tools/list`.
    Tools,
    /// `prompts/list`.
    Prompts,
    /// `resources/list`.
    Resources,
    /// `resources/templates/list`.
    Templates,
    /// `skills/list`, of an extension.
    Skills,
}

impl ListKind {
    /// In the order in which a server is queried, and a catalog is built.
    pub const ALL: [Self; 5] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates, Self::Skills];

    /// The method that requests the list.
    #[must_use]
    pub const fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
            Self::Skills => "skills/list",
        }
    }

    /// The list that `method` requests.
    #[must_use]
    pub fn from_method(method: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method().as_bytes() == method)
    }

    /// The member of a result that contains the list.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
            Self::Skills => "skills",
        }
    }

    /// The member that identifies an entry of the list.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources | Self::Skills => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The notification that the list has changed. The skills extension has none of its own, but the files of skills are resources.
    #[must_use]
    pub fn change_notification(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources | Self::Templates | Self::Skills => "notifications/resources/list_changed",
        }
    }
}

/// A value for each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PerKind<T>([T; 5]);

impl<T> PerKind<T> {
    /// Calls `make` for each kind.
    pub fn from_fn(make: impl FnMut(ListKind) -> T) -> Self {
        Self(ListKind::ALL.map(make))
    }

    /// Each kind with its value.
    pub fn iter(&self) -> impl Iterator<Item = (ListKind, &T)> {
        ListKind::ALL.into_iter().zip(&self.0)
    }
}

impl<T> Index<ListKind> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: ListKind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<ListKind> for PerKind<T> {
    fn index_mut(&mut self, kind: ListKind) -> &mut T {
        &mut self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_index_and_method() {
        let methods = PerKind::from_fn(ListKind::method);
        for kind in ListKind::ALL {
            assert_eq!(ListKind::from_method(methods[kind].as_bytes()), Some(kind));
        }
        assert_eq!(ListKind::from_method(b"tools/call"), None);
    }
}
