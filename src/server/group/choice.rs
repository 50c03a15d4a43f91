//! Chooses the instance of a call, and stops instances that are not needed any more.

use std::sync::Arc;
use std::time::Instant;

use super::slots::{InstanceRole, Slot};
use super::{Group, IDLE_CHECK_INTERVAL};
use crate::era::{self, Era};
use crate::server::instance;
use crate::server::lifecycle::State;
use crate::server::messages::agents::User;
use crate::server::messages::call::Call;

/// Directories for which a user of a profile may have instances of one server at once. For one more, an instance without
/// agents is stopped; if there is none, calls are refused with −31004.
const MAX_DIRECTORIES: usize = 256;
/// The same for a guest.
const MAX_GUEST_DIRECTORIES: usize = 16;

impl Group {
    /// The instance that has suspended the call which `call` retries. Modern instances are excluded: they would take the retry for a new
    /// call.
    pub(super) fn instance_that_suspended(&self, call: &Call) -> Option<usize> {
        let tag = instance::tag_of_retry(call)?;
        let holds = |protocol: Option<&str>| protocol.is_some_and(|version| era::of(version) == Era::Legacy);
        self.slots.iter().position(|slot| slot.tag() == tag && holds(slot.running.handle.published().protocol))
    }

    /// The instance with this tag.
    pub(super) fn with_tag(&self, tag: u64) -> Option<usize> {
        self.slots.iter().position(|slot| slot.tag() == tag)
    }

    /// The instance of a pool for the next call.
    ///
    /// - The instance with the fewest unanswered calls, or a new one if all have some and the limit permits it. While an instance
    ///   is down, no new one is started.
    /// - A legacy call goes to an instance in the modern era only if there is no other.
    /// - A session that can receive requests of the server gets an instance without other sessions, if there is one.
    pub(super) fn pool_instance_or_start(&mut self, era: Era, session: u64) -> Option<usize> {
        let is_up = |slot: &Slot| {
            let published = slot.running.handle.published();
            published.not_started_yet || matches!(published.state, State::Starting | State::Ready { .. })
        };
        let all_up = self.slots.iter().all(is_up);
        let candidates = self.slots.iter().enumerate().filter(|(_, slot)| is_up(slot));
        let is_other = |slot: &Slot| slot.is_to_switch_to(era);
        // A modern agent declares its capabilities with each call.
        let may_get_requests =
            self.agents.get(session).is_none_or(|agent| era == Era::Modern || agent.capabilities.include_any_request());
        let best = candidates
            .min_by_key(|(_, slot)| (is_other(slot), may_get_requests && slot.is_used_beside(session), slot.load()));
        let best = best.map(|(index, slot)| (index, slot.load()));
        match best {
            Some((_, load)) if load > 0 && all_up && self.slots.len() < self.config().settings.max_instances => {
                self.start(InstanceRole::Pool, false);
                Some(self.slots.len() - 1)
            }
            Some((index, _)) => Some(index),
            None => (!self.slots.is_empty()).then_some(0),
        }
    }

    /// Whether an instance for one more directory may be started for this user. Stops an idle one of the user if needed.
    pub(super) fn make_room_for_directory(&mut self, user: Option<&Arc<User>>) -> bool {
        let Some(user) = user else { return true };
        let max = if user.is_guest { MAX_GUEST_DIRECTORIES } else { MAX_DIRECTORIES };
        let is_theirs = |slot: &&Slot| matches!(&slot.instance_role, InstanceRole::Workspace { user: Some(one), .. } if one == user);
        if self.slots.iter().filter(is_theirs).count() < max {
            return true;
        }
        let idle = self.slots.iter().filter(is_theirs).filter(|slot| slot.is_spare() && slot.load() == 0);
        let Some(longest) = idle.min_by_key(|slot| slot.used).map(Slot::tag) else { return false };
        self.slots.retire(|slot| slot.tag() == longest);
        true
    }

    /// When to look for idle instances.
    pub(super) fn next_check(&self) -> Option<Instant> {
        let idle = self.config().settings.idle_timeout;
        let look_again = Instant::now() + IDLE_CHECK_INTERVAL.min(idle);
        let due = |slot: &Slot| if slot.load() == 0 { slot.spare_until(idle) } else { look_again };
        let switch = self.has_switches().then_some(look_again);
        self.slots.iter().filter(|slot| slot.is_spare()).map(due).chain(switch).min()
    }

    pub(super) fn retire_idle(&mut self, now: Instant) {
        let idle = self.config().settings.idle_timeout;
        // A task may end long after the last call, and its result is to be had for a while.
        for slot in self.slots.iter_mut().filter(|slot| slot.load() > 0) {
            slot.used = now;
        }
        self.slots.retire(|slot| slot.is_done(now, idle));
    }
}
