//! The instances of a group with their roles, and those that are being stopped. Chooses the instance of a call, and
//! stops instances that are not needed any more.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::{Group, IDLE_CHECK_INTERVAL};
use crate::config::{AgentDirectory, ServerConfig};
use crate::era::{self, Era, Eras};
use crate::server::agent_scope::AgentScope;
use crate::server::control::StopLevel;
use crate::server::instance;
use crate::server::lifecycle::State;
use crate::server::messages::agents::{Agent, User};
use crate::server::messages::call::{Call, LoadToken};
use crate::server::messages::handle::ServerHandle;
use crate::server::wiring::Running;

/// The role of an instance.
#[derive(Debug)]
pub(super) enum InstanceRole {
    /// Listing only.
    Listing,
    /// Calls of any agent.
    Pool,
    /// Calls of this era, for a server at a URL.
    Era(Era),
    /// One agent.
    Session {
        agent: Agent,
        /// Where it works.
        directory: AgentDirectory,
        /// The agent has gone, and may come back with another connection.
        has_left: bool,
    },
    /// Agents that work in one directory.
    Workspace {
        directory: AgentDirectory,
        sessions: HashSet<u64>,
        /// The eras of its sessions so far.
        eras: Eras,
        /// The user of the agent that it was started for.
        user: Option<Arc<User>>,
    },
}

impl InstanceRole {
    /// The label of the instance in reports.
    pub(super) fn label(&self, number: u64) -> Arc<str> {
        match self {
            Self::Listing => "listing".into(),
            Self::Pool => format!("pool {number}").into(),
            Self::Era(era) => era.word().into(),
            Self::Session { agent, .. } => format!("session {}", agent.session).into(),
            Self::Workspace { directory, .. } => {
                directory.path().cloned().unwrap_or_else(|| "unknown directory".into())
            }
        }
    }

    /// The configuration of the instance.
    pub(super) fn config(&self, config: &ServerConfig) -> ServerConfig {
        match self {
            Self::Listing | Self::Pool | Self::Era(_) => config.clone(),
            Self::Session { directory, .. } | Self::Workspace { directory, .. } => config.at(directory),
        }
    }

    /// The scope of an instance that belongs to one agent.
    pub(super) fn scope(&self) -> Option<AgentScope> {
        match self {
            Self::Session { agent, .. } => Some(AgentScope::Of(agent.clone())),
            Self::Listing | Self::Pool | Self::Era(_) | Self::Workspace { .. } => None,
        }
    }

    /// Whether the instance takes the modern calls of a server with an instance for each era.
    pub(super) fn is_modern_of_both(&self) -> bool {
        matches!(self, Self::Era(Era::Modern))
    }

    /// Whether all calls of this session go to this instance.
    pub(super) fn belongs_to(&self, session: u64) -> bool {
        match self {
            Self::Listing | Self::Pool | Self::Era(_) => false,
            Self::Session { agent: own, has_left, .. } => own.session == session && !has_left,
            Self::Workspace { sessions, .. } => sessions.contains(&session),
        }
    }

    /// The sessions whose calls all go to this instance.
    pub(super) fn sessions(&self) -> impl Iterator<Item = u64> {
        let (one, some) = match self {
            Self::Listing | Self::Pool | Self::Era(_) | Self::Session { has_left: true, .. } => (None, None),
            Self::Session { agent, .. } => (Some(agent.session), None),
            Self::Workspace { sessions, .. } => (None, Some(sessions)),
        };
        one.into_iter().chain(some.into_iter().flatten().copied())
    }

    /// Whether this instance may have calls of this session.
    pub(super) fn is_for(&self, session: u64) -> bool {
        match self {
            Self::Pool | Self::Era(_) => true,
            Self::Session { agent: own, .. } => own.session == session,
            Self::Listing | Self::Workspace { .. } => self.belongs_to(session),
        }
    }
}

/// An instance with its role.
pub(super) struct Slot {
    pub(super) instance_role: InstanceRole,
    pub(super) running: Running,
    /// The time of its last call, of the last check that found it busy, or of the end of its last session.
    pub(super) used: Instant,
    /// It is never stopped for being idle.
    pub(super) is_permanent: bool,
    /// The revision that it is being restarted to.
    pub(super) target_revision: u64,
    /// It was reopened in another era.
    pub(super) has_switched: bool,
    /// Other sessions that have continued a call here.
    pub(super) other_sessions: HashSet<u64>,
    /// One for each session. Each unanswered call and each unfinished task has a clone.
    load_tokens: BTreeMap<u64, LoadToken>,
}

impl Slot {
    pub(super) fn new(instance_role: InstanceRole, running: Running, is_permanent: bool) -> Self {
        Self {
            instance_role,
            running,
            used: Instant::now(),
            is_permanent,
            target_revision: 0,
            has_switched: false,
            other_sessions: HashSet::new(),
            load_tokens: BTreeMap::new(),
        }
    }

    /// Records a call of this session.
    pub(super) fn record_use(&mut self, session: u64) {
        self.used = Instant::now();
        if !self.instance_role.is_for(session) {
            self.other_sessions.insert(session);
        }
    }

    /// Whether it may have calls of this session.
    pub(super) fn may_have_calls_of(&self, session: u64) -> bool {
        self.instance_role.is_for(session) || self.other_sessions.contains(&session)
    }

    /// The tag in its request states and task ids.
    pub(super) fn tag(&self) -> u64 {
        instance::tag(self.running.handle.label().map(|label| &**label))
    }

    /// The load token for a call of this session.
    pub(super) fn load_token(&mut self, session: u64) -> LoadToken {
        self.load_tokens.retain(|_, token| is_in_use(token));
        let token = self.load_tokens.entry(session).or_insert_with(|| LoadToken::new(self.running.handle.clone()));
        LoadToken::clone(token)
    }

    /// The number of unanswered calls and unfinished tasks.
    pub(super) fn load(&self) -> usize {
        self.load_tokens.values().map(|token| Arc::strong_count(token) - 1).sum()
    }

    /// Whether the server works for another session, too, so that the recipient of its requests would be ambiguous.
    pub(super) fn is_used_beside(&self, session: u64) -> bool {
        self.load_tokens.iter().any(|(of, token)| *of != session && is_in_use(token))
    }

    /// Whether the first start of the desired revision has ended, or the instance sleeps.
    pub(super) fn has_settled(&self) -> bool {
        let published = self.running.handle.published();
        published.revision >= self.target_revision && (published.first_start_ended || published.not_started_yet)
    }

    /// Whether it may be stopped when it is idle.
    pub(super) fn is_spare(&self) -> bool {
        match &self.instance_role {
            InstanceRole::Listing => false,
            InstanceRole::Session { has_left, .. } => *has_left,
            InstanceRole::Pool | InstanceRole::Era(_) => !self.is_permanent,
            InstanceRole::Workspace { sessions, .. } => sessions.is_empty(),
        }
    }

    /// When it is stopped if it stays idle. An instance of one agent cannot be reused.
    pub(super) fn spare_until(&self, idle: Duration) -> Instant {
        let is_of_no_use = matches!(self.instance_role, InstanceRole::Session { .. }) || self.is_redundant();
        if is_of_no_use { self.used } else { self.used + idle }
    }

    pub(super) fn is_done(&self, now: Instant, idle: Duration) -> bool {
        self.is_spare() && self.load() == 0 && self.spare_until(idle) <= now
    }
}

/// Whether a call or task holds this token: strongly, or weakly after its cancellation.
fn is_in_use(token: &LoadToken) -> bool {
    Arc::strong_count(token) > 1 || Arc::weak_count(token) > 0
}

/// The instances of a group, and those that are being stopped.
pub(super) struct Slots {
    used: Vec<Slot>,
    /// Instances that are being stopped.
    leaving: Vec<Running>,
    /// The handles of all.
    handles: watch::Sender<Arc<[ServerHandle]>>,
    /// Instances started so far.
    started: u64,
}

impl Slots {
    /// Without instances. Their handles will be sent to `handles`.
    pub(super) fn new(handles: watch::Sender<Arc<[ServerHandle]>>) -> Self {
        Self { used: Vec::new(), leaving: Vec::new(), handles, started: 0 }
    }

    /// The instances that are not being stopped.
    pub(super) fn all(&self) -> &[Slot] {
        &self.used
    }

    pub(super) fn all_mut(&mut self) -> &mut [Slot] {
        &mut self.used
    }

    /// The number of the next instance, in the order of starts.
    pub(super) fn count_start(&mut self) -> u64 {
        self.started += 1;
        self.started
    }

    pub(super) fn push(&mut self, slot: Slot) {
        self.used.push(slot);
        self.publish();
    }

    /// Stops the instances for which `is_done` is true.
    pub(super) fn retire(&mut self, is_done: impl Fn(&Slot) -> bool) {
        for slot in self.used.extract_if(.., |slot| is_done(slot)) {
            slot.running.control.stop(StopLevel::FinishRunning);
            self.leaving.push(slot.running);
        }
        self.publish();
    }

    /// Removes those that have been stopped. Returns them.
    pub(super) fn remove_ended(&mut self) -> Vec<Running> {
        let ended = self.leaving.extract_if(.., |running| running.handle.has_ended()).collect();
        self.publish();
        ended
    }

    /// Removes all, in use or not.
    pub(super) fn take_all(&mut self) -> Vec<Running> {
        self.used.drain(..).map(|slot| slot.running).chain(self.leaving.drain(..)).collect()
    }

    /// The one that lives as long as the group.
    pub(super) fn permanent(&self) -> Option<usize> {
        self.used.iter().position(|slot| slot.is_permanent)
    }

    /// The one that all calls of this session go to.
    pub(super) fn of_session(&self, session: u64) -> Option<usize> {
        self.used.iter().position(|slot| slot.instance_role.belongs_to(session))
    }

    fn publish(&self) {
        let all = self.used.iter().map(|slot| &slot.running).chain(&self.leaving);
        self.handles.send_replace(all.map(|running| running.handle.clone()).collect());
    }
}

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
        self.slots.all().iter().position(|slot| slot.tag() == tag && holds(slot.running.handle.published().protocol))
    }

    /// The instance with this tag.
    pub(super) fn with_tag(&self, tag: u64) -> Option<usize> {
        self.slots.all().iter().position(|slot| slot.tag() == tag)
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
        let all_up = self.slots.all().iter().all(is_up);
        let candidates = self.slots.all().iter().enumerate().filter(|(_, slot)| is_up(slot));
        let is_other = |slot: &Slot| slot.is_to_switch_to(era);
        // A modern agent declares its capabilities with each call.
        let may_get_requests =
            self.agents.get(session).is_none_or(|agent| era == Era::Modern || agent.capabilities.include_any_request());
        let best = candidates
            .min_by_key(|(_, slot)| (is_other(slot), may_get_requests && slot.is_used_beside(session), slot.load()));
        let best = best.map(|(index, slot)| (index, slot.load()));
        match best {
            Some((_, load)) if load > 0 && all_up && self.slots.all().len() < self.config().settings.max_instances => {
                self.start(InstanceRole::Pool, false);
                Some(self.slots.all().len() - 1)
            }
            Some((index, _)) => Some(index),
            None => (!self.slots.all().is_empty()).then_some(0),
        }
    }

    /// Whether an instance for one more directory may be started for this user. Stops an idle one of the user if needed.
    pub(super) fn make_room_for_directory(&mut self, user: Option<&Arc<User>>) -> bool {
        let Some(user) = user else { return true };
        let max = if user.is_guest { MAX_GUEST_DIRECTORIES } else { MAX_DIRECTORIES };
        let is_theirs = |slot: &&Slot| matches!(&slot.instance_role, InstanceRole::Workspace { user: Some(one), .. } if one == user);
        if self.slots.all().iter().filter(is_theirs).count() < max {
            return true;
        }
        let idle = self.slots.all().iter().filter(is_theirs).filter(|slot| slot.is_spare() && slot.load() == 0);
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
        self.slots.all().iter().filter(|slot| slot.is_spare()).map(due).chain(switch).min()
    }

    pub(super) fn retire_idle(&mut self, now: Instant) {
        let idle = self.config().settings.idle_timeout;
        // A task may end long after the last call, and its result is to be had for a while.
        for slot in self.slots.all_mut().iter_mut().filter(|slot| slot.load() > 0) {
            slot.used = now;
        }
        self.slots.retire(|slot| slot.is_done(now, idle));
    }
}
