//! In which era each instance is opened: that of its agents, and the legacy one where agents of both share it.
//!
//! A server at a URL that has both eras has an instance for each. That for modern calls is started by the first of them, and
//! ended when it has been idle; the lists of the server are those of the legacy one, which declares what agents can be asked.

use super::Group;
use super::slots::{Purpose, Slot};
use crate::catalog::is_same;
use crate::config::EraChoice;
use crate::era::{Era, Eras};
use crate::server::era_cache::{EraPreference, Support, has_instance_for_each_era};
use crate::server::instance;
use crate::server::lifecycle::State;
use crate::server::publish::ServerSnapshot;

/// The era of an instance that these agents share. Without agents it is modern, since that opening finds out most.
fn shared_by(eras: Eras) -> Era {
    if eras.contains(Era::Legacy) { Era::Legacy } else { Era::Modern }
}

impl Group {
    /// The era that an instance is opened in, if the server has it.
    pub(super) fn preferred(&self, purpose: &Purpose) -> Era {
        match purpose {
            Purpose::Listing => Era::Modern,
            Purpose::Pool => shared_by(self.eras),
            Purpose::Era(era) => *era,
            Purpose::Session { agent, .. } => agent.era,
            Purpose::Workspace { eras, .. } => shared_by(*eras),
        }
    }

    /// An agent of this era is there, or has called.
    pub(super) fn note_era(&mut self, era: Era) {
        if !self.eras.contains(era) {
            self.eras.insert(era);
            self.follow_eras();
        }
    }

    /// Has instances opened anew that were opened in the modern era and are shared with legacy agents by now: once each, when they
    /// have no call and no task. Until then their calls are bridged.
    pub(super) fn follow_eras(&mut self) {
        if self.config().settings.era != EraChoice::Auto {
            return;
        }
        for index in 0..self.slots.len() {
            let era = self.preferred(&self.slots[index].purpose);
            let slot = &self.slots[index];
            slot.running.control.prefer(EraPreference::Of(era));
            if self.is_to_switch(slot) && slot.load() == 0 {
                let slot = &mut self.slots[index];
                slot.due = slot.running.control.restart();
                slot.has_switched = true;
            }
        }
    }

    /// Whether an instance waits for its calls to end, to be opened in another era then.
    pub(super) fn has_switches(&self) -> bool {
        let is_auto = self.config().settings.era == EraChoice::Auto;
        is_auto && self.slots.iter().any(|slot| self.is_to_switch(slot))
    }

    fn is_to_switch(&self, slot: &Slot) -> bool {
        let config = slot.purpose.config(self.config());
        let has_legacy = self.publisher.eras.of(&config).legacy != Support::Absent;
        has_legacy && slot.is_to_switch_to(self.preferred(&slot.purpose))
    }

    /// The instance for calls of this era, where each era may have its own. A legacy one that is down is no reason to refuse
    /// what the modern one can do, nor the other way round.
    pub(super) fn of_era(&mut self, era: Era) -> Option<usize> {
        let second = self.second();
        match era {
            Era::Legacy => {
                let is_up = |index: usize| matches!(self.slots[index].state(), State::Ready { .. });
                let stands_in = second.filter(|index| is_up(*index) && self.is_first_down());
                stands_in.or_else(|| self.first())
            }
            Era::Modern => match second {
                Some(index) if !self.slots[index].speaks(Era::Legacy) => Some(index),
                None if self.has_second_era() => {
                    self.start(Purpose::Era(Era::Modern), false);
                    Some(self.slots.len() - 1)
                }
                _ => self.first(),
            },
        }
    }

    /// The instance that has made a task, by the mark in the id of the task. What the modern one of a server with both eras has made
    /// outlives the instance.
    pub(super) fn instance_of_task(&mut self, tag: u64) -> Option<usize> {
        let label = Purpose::Era(Era::Modern).label(0);
        let is_of_modern = || [None, Some(&*label)].into_iter().any(|label| instance::tag(label) == tag);
        match self.with_tag(tag) {
            None if has_instance_for_each_era(self.config()) && is_of_modern() => self.of_era(Era::Modern),
            found => found,
        }
    }

    /// Starts the modern instance while the first one is down, so that modern agents are served.
    pub(super) fn stand_in(&mut self) {
        if self.desired.enabled && self.is_first_down() && self.second().is_none() && self.has_second_era() {
            self.start(Purpose::Era(Era::Modern), false);
        }
    }

    /// A server that tells only modern clients of a change has its lists read anew by the instance whose lists are shown.
    pub(super) fn note_second_lists(&mut self, published: &[ServerSnapshot]) {
        let Some(now) = self.second().map(|index| &published[index]).filter(|one| one.has_listed) else { return };
        let before = self.second_lists.replace(now.lists.clone());
        if before.is_some_and(|before| !is_same(&before, &now.lists))
            && let Some(first) = self.first()
        {
            self.slots[first].running.handle.relist();
        }
    }

    /// The instance for modern calls, where each era has its own.
    pub(super) fn second(&self) -> Option<usize> {
        self.slots.iter().position(|slot| slot.purpose.is_second_era())
    }

    fn has_second_era(&self) -> bool {
        let has_modern = || self.publisher.eras.of(self.config()).modern == Support::Confirmed;
        let is_first_modern = || self.first().is_some_and(|index| self.slots[index].speaks(Era::Modern));
        has_instance_for_each_era(self.config()) && has_modern() && !is_first_modern()
    }

    fn is_first_down(&self) -> bool {
        let state = self.first().map(|index| self.slots[index].state());
        state.is_some_and(|state| matches!(state, State::Backoff { .. } | State::Failed { .. }))
    }

    /// The eras that the server is spoken to in now, or will be with the next call.
    pub(super) fn spoken(&self) -> Eras {
        let eras = |slot: &Slot| slot.running.handle.published().eras;
        let mut all: Eras = self.slots.iter().flat_map(|slot| eras(slot).iter()).collect();
        if all.contains(Era::Legacy) && self.has_second_era() {
            all.insert(Era::Modern);
        }
        all
    }

    /// The extensions that modern agents find: those of the instance for them, where each era has its own.
    pub(super) fn modern_extensions(&self) -> Option<bytes::Bytes> {
        if !has_instance_for_each_era(self.config()) {
            return None;
        }
        self.publisher.eras.of(self.config()).extensions
    }
}

impl Slot {
    fn state(&self) -> State {
        self.running.handle.published().state.clone()
    }

    fn speaks(&self, era: Era) -> bool {
        self.running.handle.published().eras.contains(era)
    }

    pub(super) fn is_to_switch_to(&self, era: Era) -> bool {
        era == Era::Legacy && self.speaks(Era::Modern) && !self.has_switched && self.has_settled()
    }

    /// Whether it was started for an era that the server turned out not to have.
    pub(super) fn is_redundant(&self) -> bool {
        self.purpose.is_second_era() && self.speaks(Era::Legacy)
    }
}
