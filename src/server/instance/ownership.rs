//! The owner of the work of a server, as far as it is certain. Pure.

/// The sessions that the server may be working for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Ownership {
    /// The server has no work.
    #[default]
    Nobody,
    /// One session.
    One(u64),
    /// More than one session.
    Several,
}

impl Ownership {
    /// Adds a session.
    pub(super) fn and(self, session: u64) -> Self {
        match self {
            Self::Nobody => Self::One(session),
            Self::One(other) if other == session => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}
