//! The kinds of things that servers list. Pure: what MCP calls each of them, and a value for each.
//!
//! Source: MCP 2025-11-25, `server/tools`, `server/prompts`, `server/resources`.

use std::ops::{Index, IndexMut};

/// A kind of thing that is listed, each with a list of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Called by name.
    Tools,
    /// Got by name.
    Prompts,
    /// Read by URI.
    Resources,
    /// Of URIs that can be read beside those listed.
    Templates,
}

impl Kind {
    /// In the order in which a server is asked.
    pub const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists it.
    #[must_use]
    pub fn method(self) -> &'static str {
        match self {
            Self::Tools => "tools/list",
            Self::Prompts => "prompts/list",
            Self::Resources => "resources/list",
            Self::Templates => "resources/templates/list",
        }
    }

    /// The kind that `method` lists.
    #[must_use]
    pub fn listed_by(method: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.method().as_bytes() == method)
    }

    /// The member of a result that holds the list.
    #[must_use]
    pub fn member(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The member that tells one from the others of its kind.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Tools | Self::Prompts => "name",
            Self::Resources => "uri",
            Self::Templates => "uriTemplate",
        }
    }

    /// The notification that says that the list has changed.
    #[must_use]
    pub fn change(self) -> &'static str {
        match self {
            Self::Tools => "notifications/tools/list_changed",
            Self::Prompts => "notifications/prompts/list_changed",
            Self::Resources | Self::Templates => "notifications/resources/list_changed",
        }
    }
}

/// A value for each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PerKind<T>([T; 4]);

impl<T> PerKind<T> {
    /// One of what `make` makes for each.
    pub fn from_fn(make: impl FnMut(Kind) -> T) -> Self {
        Self(Kind::ALL.map(make))
    }

    /// Every kind with its value.
    pub fn iter(&self) -> impl Iterator<Item = (Kind, &T)> {
        Kind::ALL.into_iter().zip(&self.0)
    }
}

impl<T> Index<Kind> for PerKind<T> {
    type Output = T;

    fn index(&self, kind: Kind) -> &T {
        &self.0[kind as usize]
    }
}

impl<T> IndexMut<Kind> for PerKind<T> {
    fn index_mut(&mut self, kind: Kind) -> &mut T {
        &mut self.0[kind as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_place_and_a_method_of_its_own() {
        let methods = PerKind::from_fn(Kind::method);
        for kind in Kind::ALL {
            assert_eq!(Kind::listed_by(methods[kind].as_bytes()), Some(kind));
        }
        assert_eq!(Kind::listed_by(b"tools/call"), None);
    }
}
