//! The reasons why policy hides an item.

/// The reason. `table` is the configuration table without brackets. It is empty if the policy was built in code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden<'a> {
    /// `expose` excludes its kind.
    ListKind {
        /// Where.
        table: &'a str,
    },
    /// Its name is too long or has invisible characters.
    Unfit,
    /// It matches no pattern of an `allow`.
    NotAllowed {
        /// Where.
        table: &'a str,
    },
    /// It matches a pattern of `deny`.
    Denied {
        /// The first matching pattern.
        pattern: &'a str,
        /// Where.
        table: &'a str,
    },
    /// Its URI has too many readings, or characters that parsers interpret differently.
    Ambiguous,
    /// It is disabled.
    Off,
    /// No agent accepts its definition, and nothing can mend it.
    Malformed,
    /// `read_only` is set, and the tool is not annotated as read-only.
    Writes {
        /// Where.
        table: &'a str,
    },
}

impl<'a> Hidden<'a> {
    /// One word: the configuration key that hides it, `unfit`, `ambiguous`, `malformed` or `off`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ListKind { .. } => "expose",
            Self::Unfit => "unfit",
            Self::NotAllowed { .. } => "allow",
            Self::Denied { .. } => "deny",
            Self::Ambiguous => "ambiguous",
            Self::Off => "off",
            Self::Malformed => "malformed",
            Self::Writes { .. } => "read_only",
        }
    }

    /// The configuration table with the rule, if there is one.
    #[must_use]
    pub fn table(self) -> Option<&'a str> {
        match self {
            Self::ListKind { table }
            | Self::NotAllowed { table }
            | Self::Denied { table, .. }
            | Self::Writes { table } => Some(table).filter(|table| !table.is_empty()),
            Self::Unfit | Self::Ambiguous | Self::Off | Self::Malformed => None,
        }
    }

    /// The matching `deny` pattern.
    #[must_use]
    pub fn pattern(self) -> Option<&'a str> {
        match self {
            Self::Denied { pattern, .. } => Some(pattern),
            _ => None,
        }
    }
}
