//! Whose a thing is that a server says without saying to whom. Pure.
//!
//! It is certainly an agent's only if everything that the server may be at is that agent's: the calls it has not answered,
//! those that were given up here and that it may go on with, cancelled or out of time, until it has answered them as well, and
//! what it has asked an agent itself.

use std::collections::VecDeque;

use crate::jsonrpc::pending::minted;

/// Given-up calls that are remembered one by one. Of older ones, which a server that heeds its cancellations never answers,
/// it is remembered whose they were.
const MOST: usize = 1024;

/// To whom it all belongs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::server) enum Whose {
    /// The server has nothing to do.
    #[default]
    Nobody,
    /// This session, alone.
    One(u64),
    /// More than one session.
    Several,
}

impl Whose {
    /// And to this session.
    fn and(self, session: u64) -> Self {
        match self {
            Self::Nobody => Self::One(session),
            Self::One(other) if other == session => self,
            Self::One(_) | Self::Several => Self::Several,
        }
    }
}

/// The calls that were given up here after they had reached the server.
#[derive(Debug, Default)]
pub(in crate::server) struct GivenUp {
    /// Ids with their sessions, in the order of the ids.
    known: VecDeque<(u64, u64)>,
    forgotten: Whose,
}

impl GivenUp {
    /// One was given up.
    pub(in crate::server) fn add(&mut self, id: u64, session: u64) {
        if self.known.len() == MOST
            && let Some((_, session)) = self.known.pop_front()
        {
            self.forgotten = self.forgotten.and(session);
        }
        let at = self.known.partition_point(|(other, _)| *other < id);
        self.known.insert(at, (id, session));
    }

    /// The server has answered one that nobody waits for.
    pub(in crate::server) fn answered(&mut self, id: &[u8]) {
        let found = minted(id).and_then(|id| self.known.binary_search_by_key(&id, |(own, _)| *own).ok());
        if let Some(index) = found {
            self.known.remove(index);
        }
    }

    /// Whether the server may be at any that was this session's.
    pub(in crate::server) fn has_any_of(&self, session: u64) -> bool {
        !matches!(self.forgotten, Whose::Nobody) || self.known.iter().any(|(_, owner)| *owner == session)
    }

    /// To whom all belongs that the server may be at, `unanswered` being the sessions of the calls that it owes an answer, and
    /// the sessions that owe it one.
    pub(in crate::server) fn whose(&self, unanswered: impl Iterator<Item = u64>) -> Whose {
        let mut whose = self.forgotten;
        for session in unanswered.chain(self.known.iter().map(|(_, session)| *session)) {
            whose = whose.and(session);
            if whose == Whose::Several {
                break;
            }
        }
        whose
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn whose(given_up: &GivenUp, unanswered: &[u64]) -> Whose {
        given_up.whose(unanswered.iter().copied())
    }

    #[test]
    fn what_is_said_is_an_agents_if_all_that_the_server_may_be_at_is() {
        let mut given_up = GivenUp::default();
        assert_eq!(whose(&given_up, &[]), Whose::Nobody);
        assert_eq!(whose(&given_up, &[7, 7]), Whose::One(7));
        assert_eq!(whose(&given_up, &[7, 8]), Whose::Several);
        given_up.add(3, 9);
        given_up.add(1, 7);
        assert_eq!(whose(&given_up, &[7]), Whose::Several);
        for stray in ["2", "03", "\"3\"", "3.0", ""] {
            given_up.answered(stray.as_bytes());
        }
        given_up.answered(b"1");
        assert_eq!((whose(&given_up, &[9]), whose(&given_up, &[7])), (Whose::One(9), Whose::Several));
        given_up.answered(b"3");
        assert_eq!(whose(&given_up, &[7]), Whose::One(7));
    }

    #[test]
    fn of_calls_that_are_never_answered_no_more_is_kept_than_whose_they_were() {
        let mut given_up = GivenUp::default();
        for id in 0..3 * MOST as u64 {
            given_up.add(id, 7);
        }
        assert_eq!(given_up.known.len(), MOST);
        assert_eq!((whose(&given_up, &[7]), whose(&given_up, &[8])), (Whose::One(7), Whose::Several));
    }
}
