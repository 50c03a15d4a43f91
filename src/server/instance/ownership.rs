//! Which session a message of the server belongs to if the message itself does not say. Pure.

/// Whose calls, tasks and open requests the server may be working on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) enum Ownership {
    /// The server has nothing to do.
    #[default]
    Nobody,
    /// Only this session's.
    One(u64),
    /// More than one session's.
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
