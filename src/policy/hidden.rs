//! Why something is not exposed.

/// The reason; a `table` is that of a configuration, without its brackets, and empty where a program has made the policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hidden<'a> {
    /// `expose` leaves its whole kind out.
    ListKind {
        /// Where.
        table: &'a str,
    },
    /// Its name has characters that a person cannot see, or is too long.
    Unfit,
    /// There is an `allow` of which it matches nothing.
    NotAllowed {
        /// Where.
        table: &'a str,
    },
    /// It matches a pattern of `deny`.
    Denied {
        /// The first of them that it matches.
        pattern: &'a str,
        /// Where.
        table: &'a str,
    },
    /// It is a URI that readers understand in too many ways, or that has characters on which they do not agree.
    Ambiguous,
    /// It is switched off.
    Off,
    /// It is not annotated as reading only, and `read_only` is set.
    Writes {
        /// Where.
        table: &'a str,
    },
}

impl<'a> Hidden<'a> {
    /// In a word: the key of the configuration that hides it, `unfit`, `ambiguous` or `off`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ListKind { .. } => "expose",
            Self::Unfit => "unfit",
            Self::NotAllowed { .. } => "allow",
            Self::Denied { .. } => "deny",
            Self::Ambiguous => "ambiguous",
            Self::Off => "off",
            Self::Writes { .. } => "read_only",
        }
    }

    /// The table of the configuration that says so, if one does.
    #[must_use]
    pub fn table(self) -> Option<&'a str> {
        match self {
            Self::ListKind { table }
            | Self::NotAllowed { table }
            | Self::Denied { table, .. }
            | Self::Writes { table } => Some(table).filter(|table| !table.is_empty()),
            Self::Unfit | Self::Ambiguous | Self::Off => None,
        }
    }

    /// The pattern that it matches.
    #[must_use]
    pub fn pattern(self) -> Option<&'a str> {
        match self {
            Self::Denied { pattern, .. } => Some(pattern),
            _ => None,
        }
    }
}
