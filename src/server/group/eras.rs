//! Chooses the era of each instance: the era of its agents, or legacy if agents of both eras share the instance.
//!
//! A server at a URL with both eras has an instance for each. The first modern call starts the modern instance, which is stopped
//! when idle. The lists come from the legacy instance, as that one declares the capabilities of agents.

use std::sync::Arc;

use super::Group;
use super::slots::{InstanceRole, Slot};
use crate::catalog::{List, Lists};
use crate::config::EraChoice;
use crate::era::{Era, Eras};
use crate::list_kind::ListKind;
use crate::server::era_cache::{EraPreference, Support, may_split_by_era};
use crate::server::instance;
use crate::server::lifecycle::State;
use crate::server::publish::ServerSnapshot;

/// The era of an instance that is shared by agents of `eras`. Without agents it is modern, as that opening reveals most.
fn shared_by(eras: Eras) -> Era {
    if eras.contains(Era::Legacy) { Era::Legacy } else { Era::Modern }
}

impl Group {
    /// The era of an instance, if the server has it.
    pub(super) fn preferred(&self, instance_role: &InstanceRole) -> Era {
        match instance_role {
            InstanceRole::Listing => Era::Modern,
            InstanceRole::Pool => shared_by(self.agents.eras()),
            InstanceRole::Era(era) => *era,
            InstanceRole::Session { agent, .. } => agent.era,
            InstanceRole::Workspace { eras, .. } => shared_by(*eras),
        }
    }

    /// Records that an agent of this era has connected or called.
    pub(super) fn note_era(&mut self, era: Era) {
        if self.agents.note_era(era) {
            self.apply_eras();
        }
    }

    /// Reopens modern instances that are now shared with legacy agents. Each is reopened once, when it has no calls and no tasks. Until
    /// then, legacy calls are bridged.
    pub(super) fn apply_eras(&mut self) {
        if self.config().settings.era != EraChoice::Auto {
            return;
        }
        for index in 0..self.slots.all().len() {
            let era = self.preferred(&self.slots.all()[index].instance_role);
            let slot = &self.slots.all()[index];
            slot.running.control.prefer(EraPreference::Of(era));
            if self.is_to_switch(slot) && slot.load() == 0 {
                let slot = &mut self.slots.all_mut()[index];
                slot.target_revision = slot.running.control.restart();
                slot.has_switched = true;
            }
        }
    }

    /// Whether an instance waits for its calls to end before it is reopened in another era.
    pub(super) fn has_switches(&self) -> bool {
        let is_auto = self.config().settings.era == EraChoice::Auto;
        is_auto && self.slots.all().iter().any(|slot| self.is_to_switch(slot))
    }

    fn is_to_switch(&self, slot: &Slot) -> bool {
        let config = slot.instance_role.config(self.config());
        let has_legacy = self.publisher.eras.of(&config).legacy != Support::Absent;
        has_legacy && slot.is_to_switch_to(self.preferred(&slot.instance_role))
    }

    /// The instance for calls of this era, if each era may have its own. If one instance is down, the other takes its calls. The same if the
    /// modern one cannot list its tools.
    pub(super) fn instance_for_era_or_start(&mut self, era: Era) -> Option<usize> {
        let modern = self.modern_instance();
        match era {
            Era::Legacy => {
                let is_up = |index: usize| matches!(self.slots.all()[index].state(), State::Ready { .. });
                let fallback = modern.filter(|index| is_up(*index) && self.is_permanent_down());
                fallback.or_else(|| self.slots.permanent())
            }
            Era::Modern => match modern {
                Some(index)
                    if !self.slots.all()[index].speaks(Era::Legacy) && !self.slots.all()[index].cannot_list() =>
                {
                    Some(index)
                }
                None if self.may_have_modern_instance() => {
                    self.start(InstanceRole::Era(Era::Modern), false);
                    Some(self.slots.all().len() - 1)
                }
                _ => self.slots.permanent(),
            },
        }
    }

    /// The instance that created a task, by the tag in the task's id. Tasks of the modern instance of a server with both eras outlive
    /// the instance.
    pub(super) fn instance_of_task(&mut self, tag: u64) -> Option<usize> {
        match self.with_tag(tag) {
            None if may_split_by_era(self.config()) && tag == instance::tag(None) => {
                self.instance_for_era_or_start(Era::Modern)
            }
            found => found,
        }
    }

    /// Starts the modern instance while the permanent one is down, to serve modern agents.
    pub(super) fn start_modern_fallback(&mut self) {
        if self.desired.enabled
            && self.is_permanent_down()
            && self.modern_instance().is_none()
            && self.may_have_modern_instance()
        {
            self.start(InstanceRole::Era(Era::Modern), false);
        }
    }

    /// Rereads the lists of the permanent instance if those of the modern one have changed: a server may report changes only to modern
    /// clients.
    pub(super) fn note_modern_lists(&mut self, published: &[ServerSnapshot]) {
        let Some(now) = self.modern_instance().map(|index| &published[index]).filter(|one| one.lists_known) else {
            return;
        };
        if self.lists.note_modern(&now.lists)
            && let Some(permanent) = self.slots.permanent()
        {
            self.slots.all()[permanent].running.handle.relist();
        }
    }

    /// The lists of an instance as they are published. Modern agents have an instance of their own if the server has both eras. Then they
    /// need no tasks of a legacy instance.
    pub(super) fn published_lists(&self, lists: &Lists) -> Lists {
        let mut lists = lists.clone();
        if lists[ListKind::Tools].makes_tasks && self.may_have_modern_instance() {
            let tools = List { makes_tasks: false, ..List::clone(&lists[ListKind::Tools]) };
            lists[ListKind::Tools] = self.publisher.interner.intern(ListKind::Tools, Arc::new(tools));
        }
        lists
    }

    /// The instance for modern calls, if each era has its own.
    pub(super) fn modern_instance(&self) -> Option<usize> {
        self.slots.all().iter().position(|slot| slot.instance_role.is_modern_of_both())
    }

    fn may_have_modern_instance(&self) -> bool {
        let has_modern = || self.publisher.eras.of(self.config()).modern == Support::Confirmed;
        let is_permanent_modern =
            || self.slots.permanent().is_some_and(|index| self.slots.all()[index].speaks(Era::Modern));
        may_split_by_era(self.config()) && has_modern() && !is_permanent_modern()
    }

    fn is_permanent_down(&self) -> bool {
        let state = self.slots.permanent().map(|index| self.slots.all()[index].state());
        state.is_some_and(|state| matches!(state, State::Backoff { .. } | State::Failed { .. }))
    }

    /// The eras in use now or with the next call.
    pub(super) fn spoken(&self) -> Eras {
        let eras = |slot: &Slot| slot.running.handle.published().eras;
        let mut all: Eras = self.slots.all().iter().flat_map(|slot| eras(slot).iter()).collect();
        if all.contains(Era::Legacy) && self.may_have_modern_instance() {
            all.insert(Era::Modern);
        }
        all
    }
}

impl Slot {
    fn state(&self) -> State {
        self.running.handle.published().state.clone()
    }

    pub(super) fn speaks(&self, era: Era) -> bool {
        self.running.handle.published().eras.contains(era)
    }

    /// Its tools could never be listed.
    fn cannot_list(&self) -> bool {
        let published = self.running.handle.published();
        published.list_errors[ListKind::Tools].is_some() && published.lists[ListKind::Tools].items.is_empty()
    }

    pub(super) fn is_to_switch_to(&self, era: Era) -> bool {
        era == Era::Legacy && self.speaks(Era::Modern) && !self.has_switched && self.has_settled()
    }

    /// Whether it was started for an era that the server does not have.
    pub(super) fn is_redundant(&self) -> bool {
        self.instance_role.is_modern_of_both() && self.speaks(Era::Legacy)
    }
}
