//! Admits agents, and knows what the agents of each profile and user use.
//!
//! Two kinds of limits apply. Shares of all connections keep some for every user. Quotas set in the profile's table apply
//! to all its agents together. For each quota that the table does not set, every guest has its own default.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::agent_sockets::may_connect;
use crate::admin::report::QuotaReport;
use crate::config::{Profile, Quotas};
use crate::jsonrpc::mcpd_error::{Delivery, ErrorCode};
use crate::jsonrpc::reply::ErrorObject;
use crate::server::User;
use crate::session::{AgentQuota, Meter, QuotaError, QuotaScope, QuotaUse};

/// One user at one profile may have 1/2 of all connections.
const USER_DIVISOR: usize = 2;
/// One guest at one profile may have 1/16 of all connections.
const GUEST_DIVISOR: usize = 16;
/// All guests together may have 1/2 of all connections, and 1/2 of the budget for unread and incomplete data.
pub(super) const ALL_GUESTS_DIVISOR: usize = 2;

/// What is used at each profile.
#[derive(Debug)]
pub(super) struct QuotaTable {
    /// Connections of all agents.
    max_agents: usize,
    /// Quotas of each guest, unless its profile has its own.
    of_guest: Quotas,
    profiles: HashMap<Arc<str>, ProfileMeters>,
}

#[derive(Debug)]
struct ProfileMeters {
    quotas: Quotas,
    whole: Arc<Meter>,
    users: BTreeMap<u32, UserMeter>,
}

#[derive(Debug)]
struct UserMeter {
    is_guest: bool,
    meter: Arc<Meter>,
}

/// Why an agent is not admitted. The connection gets −31003 and is closed.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    #[error("mcpd serves {0} agents already")]
    Full(usize),
    /// The share of one user, or of one guest.
    #[error("mcpd serves {0} agents of this user at this profile already")]
    UserShare(usize),
    #[error("mcpd serves {0} agents of other users already")]
    AllGuestsShare(usize),
    #[error("{0}")]
    Quota(QuotaError),
}

impl Refusal {
    pub(super) fn to_object(&self) -> ErrorObject {
        match self {
            Self::Quota(reached) => reached.to_object(Delivery::NotSent),
            other => ErrorObject::of_mcpd(ErrorCode::Overloaded, other.to_string(), Delivery::NotSent),
        }
    }
}

impl QuotaTable {
    pub(super) fn new(max_agents: usize, buffer_unit: usize) -> Self {
        Self { max_agents, of_guest: Quotas::of_guest(buffer_unit), profiles: HashMap::new() }
    }

    /// Applies the quotas of these profiles. What their agents use stays, and agents stay connected.
    pub(super) fn apply<'p>(&mut self, profiles: impl Iterator<Item = &'p Arc<Profile>>) {
        let mut former = std::mem::take(&mut self.profiles);
        for profile in profiles {
            let (name, quotas) = (&profile.name, &profile.quotas);
            let mut meters = former.remove(name).unwrap_or_else(|| ProfileMeters::new(name));
            meters.users.retain(|uid, _| may_connect(profile, *uid));
            meters.set_quotas(quotas, &self.of_guest);
            self.profiles.insert(Arc::clone(name), meters);
        }
    }

    /// Admits one more agent of `user`, beside `connected` others.
    ///
    /// # Errors
    /// If a share or a quota is reached.
    pub(super) fn admit(&mut self, user: &Arc<User>, connected: usize) -> Result<Arc<AgentQuota>, Refusal> {
        if connected >= self.max_agents {
            return Err(Refusal::Full(self.max_agents));
        }
        let guest_agents: usize = self.users().filter(|other| other.is_guest).map(|other| other.meter.agents()).sum();
        let profile = self.profiles.entry(Arc::clone(&user.profile));
        let profile = profile.or_insert_with(|| ProfileMeters::new(&user.profile));
        let meter = profile.meter_of(user, &self.of_guest);
        let share = (self.max_agents / if user.is_guest { GUEST_DIVISOR } else { USER_DIVISOR }).max(1);
        if meter.agents() >= share {
            return Err(Refusal::UserShare(share));
        }
        if user.is_guest && guest_agents >= self.max_agents / ALL_GUESTS_DIVISOR {
            return Err(Refusal::AllGuestsShare(guest_agents));
        }
        AgentQuota::connect(&profile.whole, &meter).map_err(Refusal::Quota)
    }

    /// How many agents of a profile may connect at once: as many as its guests may have.
    pub(super) fn burst(&self, profile: &Profile) -> usize {
        let guests = self.of_guest.max_agents.map(|each| each * profile.allow_uids.len()).filter(|all| *all > 0);
        guests.unwrap_or(self.max_agents)
    }

    pub(super) fn meters(&self) -> impl Iterator<Item = &Arc<Meter>> {
        self.profiles.values().map(|profile| &profile.whole).chain(self.users().map(|user| &user.meter))
    }

    /// The quotas at a profile: those of its table, then those of each guest that has connected.
    pub(super) fn report(&self, profile: &str) -> Vec<QuotaReport> {
        let Some(meters) = self.profiles.get(profile) else { return Vec::new() };
        let whole = meters.whole.report().into_iter().map(|quota| quota_report(quota, None));
        let users = meters.users.iter().map(|(uid, user)| (*uid, user.meter.report()));
        whole
            .chain(users.flat_map(|(uid, all)| all.into_iter().map(move |quota| quota_report(quota, Some(uid)))))
            .collect()
    }

    fn users(&self) -> impl Iterator<Item = &UserMeter> {
        self.profiles.values().flat_map(|profile| profile.users.values())
    }
}

impl ProfileMeters {
    fn new(name: &Arc<str>) -> Self {
        let whole = Meter::new(QuotaScope::Profile(Arc::clone(name)), Quotas::default());
        Self { quotas: Quotas::default(), whole, users: BTreeMap::new() }
    }

    fn set_quotas(&mut self, quotas: &Quotas, of_guest: &Quotas) {
        self.quotas = quotas.clone();
        self.whole.set_quotas(quotas.clone());
        for user in self.users.values().filter(|user| user.is_guest) {
            user.meter.set_quotas(of_guest.clone().without(quotas));
        }
    }

    fn meter_of(&mut self, user: &Arc<User>, of_guest: &Quotas) -> Arc<Meter> {
        let quotas = || if user.is_guest { of_guest.clone().without(&self.quotas) } else { Quotas::default() };
        let new =
            || UserMeter { is_guest: user.is_guest, meter: Meter::new(QuotaScope::User(Arc::clone(user)), quotas()) };
        Arc::clone(&self.users.entry(user.uid).or_insert_with(new).meter)
    }
}

fn quota_report(QuotaUse { key, limit, used, refused }: QuotaUse, uid: Option<u32>) -> QuotaReport {
    QuotaReport { key: key.name().to_owned(), uid, limit, used, refused }
}
