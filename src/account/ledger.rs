//! What each connection, user and profile uses. Pure.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::limits::{Holder, OverLimit, Resource, Sizes};
use super::usage::{Cost, LimitUse, Usage, backlog};
use crate::config::{Profile, Quotas};
use crate::server::User;

/// What is in use, and by whom.
#[derive(Debug)]
pub(crate) struct Ledger {
    sizes: Sizes,
    all: Usage,
    guests: Usage,
    profiles: BTreeMap<Arc<str>, ProfileUsage>,
    /// By number.
    connections: HashMap<u64, Connection>,
}

#[derive(Debug)]
struct ProfileUsage {
    quotas: Quotas,
    whole: Usage,
    users: BTreeMap<u32, Usage>,
}

#[derive(Debug)]
struct Connection {
    user: Arc<User>,
    usage: Usage,
    /// Bytes of unwritten output, and of input that was read and not handled yet.
    held: usize,
    /// When `held` last rose above 0.
    since: Instant,
    /// It is being closed, so what it holds is not counted.
    is_closing: bool,
    /// The message that is being handled has begun a call.
    has_begun_call: bool,
}

/// A connection that holds bytes.
#[derive(Debug)]
pub(crate) struct Held {
    /// The number of the connection.
    pub(crate) number: u64,
    user: Arc<User>,
    pub(crate) bytes: usize,
    /// How long it has held any.
    age: Duration,
}

impl Ledger {
    pub(super) fn new(max_connections: usize, buffer_unit: usize) -> Self {
        let sizes = Sizes { max_connections, buffer_unit };
        let new = |holder| Usage::new(holder, sizes, None, &Quotas::default());
        let (all, guests) = (new(Holder::All), new(Holder::Guests));
        Self { sizes, all, guests, profiles: BTreeMap::new(), connections: HashMap::new() }
    }

    /// Applies the quotas of these profiles. What is in use stays. Users who may not connect any more are forgotten once they have left.
    pub(crate) fn apply<'p>(
        &mut self,
        served: impl Iterator<Item = &'p Arc<Profile>>,
        may_connect: fn(&Profile, u32) -> bool,
    ) {
        let served: HashMap<_, _> = served.map(|profile| (&profile.name, profile)).collect();
        for name in served.keys() {
            self.profile(name);
        }
        self.profiles.retain(|name, ProfileUsage { quotas, whole, users }| {
            let profile = served.get(name);
            users.retain(|uid, usage| !usage.is_unused() || profile.is_some_and(|profile| may_connect(profile, *uid)));
            *quotas = profile.map_or_else(Quotas::default, |profile| profile.quotas.clone());
            users.values_mut().chain([whole]).for_each(|usage| usage.set_limits(self.sizes, quotas));
            profile.is_some() || !users.is_empty()
        });
    }

    /// Admits the connection `number`, of `user`.
    pub(super) fn connect(&mut self, number: u64, user: &Arc<User>, now: Instant) -> Result<(), OverLimit> {
        let (sizes, name, user) = (self.sizes, &user.profile, Arc::clone(user));
        let ProfileUsage { quotas, users, .. } = self.profile(name);
        let new = |holder| Usage::new(holder, sizes, Some(name), quotas);
        let holder = if user.is_guest { Holder::Guest } else { Holder::Owner };
        users.entry(user.uid).or_insert_with(|| new(holder));
        let usage = new(Holder::Connection);
        let connection = Connection { user, usage, held: 0, since: now, is_closing: false, has_begun_call: false };
        self.connections.insert(number, connection);
        let admitted = self.charge(number, Cost::Connection, now);
        if admitted.is_err() {
            self.connections.remove(&number);
        }
        admitted
    }

    pub(super) fn disconnect(&mut self, number: u64) {
        let held = self.connections.get(&number).map_or(0, |connection| connection.held);
        [Cost::Held(held), Cost::Connection].into_iter().for_each(|cost| self.give_back(number, cost));
        let connection = self.connections.remove(&number);
        debug_assert!(connection.is_some_and(|connection| connection.usage.is_unused()), "everything is given back");
    }

    /// How many agents of a profile may connect at once: as many as its guests may have.
    pub(crate) fn burst(&self, profile: &Profile) -> usize {
        let of_guest = Quotas::of_guest(self.sizes.buffer_unit).max_agents;
        let guests = of_guest.map(|each| each * profile.allow_uids.len()).filter(|all| *all > 0);
        guests.unwrap_or(self.sizes.max_connections)
    }

    /// A connection to the socket of a profile was admitted or refused. Returns how long the next one has to wait. A refused connection
    /// costs several times less.
    pub(crate) fn pause_after_connection(&mut self, profile: &Profile, is_admitted: bool, now: Instant) -> Duration {
        const ADMITTED: usize = 4;
        let (amount, burst) = (if is_admitted { ADMITTED } else { 1 }, ADMITTED * self.burst(profile));
        self.profile(&profile.name).whole.delay(Resource::ConnectionRate, amount, Some(burst), now)
    }

    /// The limits at a profile that are reported: of all its agents, then of each guest that has connected, with its user id.
    pub(crate) fn report(&self, profile: &str) -> Vec<(Option<u32>, LimitUse)> {
        let Some(ProfileUsage { whole, users, .. }) = self.profiles.get(profile) else { return Vec::new() };
        let users = users.iter().map(|(uid, usage)| (Some(*uid), usage));
        let all = [(None, whole)].into_iter().chain(users);
        all.flat_map(|(uid, usage)| usage.report().map(move |limit| (uid, limit))).collect()
    }

    /// Charges `cost` to all that the connection is a part of, or to nothing.
    pub(super) fn charge(&mut self, number: u64, cost: Cost, now: Instant) -> Result<(), OverLimit> {
        self.path(number).try_for_each(|usage| usage.check(cost, now))?;
        self.path(number).for_each(|usage| usage.add(cost, now));
        if cost.begins_call()
            && let Some(connection) = self.connections.get_mut(&number)
        {
            connection.has_begun_call = true;
        }
        Ok(())
    }

    pub(super) fn give_back(&mut self, number: u64, cost: Cost) {
        self.path(number).for_each(|usage| usage.give_back(cost));
    }

    /// Counts an amount of a rate. Returns how long the next one has to wait.
    pub(super) fn delay(&mut self, number: u64, rate: Resource, amount: usize, now: Instant) -> Duration {
        self.path(number).map(|usage| usage.delay(rate, amount, None, now)).max().unwrap_or_default()
    }

    /// A message of the agent was handled. Returns how long the next one has to wait.
    pub(super) fn end_message(&mut self, number: u64, now: Instant) -> Duration {
        let connection = self.connections.get_mut(&number);
        if connection.is_some_and(|connection| std::mem::take(&mut connection.has_begun_call)) {
            return Duration::ZERO;
        }
        self.delay(number, Resource::MessageRate, 1, now)
    }

    /// Counts what a connection holds now. Returns whether it is more than before and exceeds a limit.
    pub(super) fn hold(&mut self, number: u64, held: usize, now: Instant) -> bool {
        let Some(connection) = self.connections.get_mut(&number).filter(|connection| !connection.is_closing) else {
            return false;
        };
        if connection.held == 0 {
            connection.since = now;
        }
        let before = std::mem::replace(&mut connection.held, held);
        let mut is_exceeded = false;
        for usage in self.path(number) {
            usage.give_back(Cost::Held(before));
            usage.add(Cost::Held(held), now);
            is_exceeded |= usage.excess(Resource::Bytes).or(usage.excess(Resource::Backlog)).is_some();
        }
        is_exceeded && held > before
    }

    /// The connections to close so that the others are within the limits, each with the reason. What they hold is no longer counted.
    ///
    /// They are first of each user over the limit of bytes. If the backlog of all is over its limit, then of guests, and at last of
    /// everybody.
    pub(crate) fn take_surplus(&mut self, now: Instant) -> Vec<(Held, OverLimit)> {
        let mut surplus = Vec::new();
        let users = self.profiles.iter().flat_map(|(name, profile)| {
            let over = profile.users.iter().filter_map(|(uid, usage)| Some((*uid, usage.excess(Resource::Bytes)?)));
            over.map(|(uid, excess)| (Arc::clone(name), uid, excess))
        });
        for (profile, uid, excess) in users.collect::<Vec<_>>() {
            surplus.extend(self.take(|user| user.profile == profile && user.uid == uid, |held| held, excess, now));
        }
        if let Some((_, reason)) = self.all.excess(Resource::Backlog)
            && let Some((excess, _)) = self.guests.excess(Resource::Backlog)
        {
            surplus.extend(self.take(|user| user.is_guest, backlog, (excess, reason), now));
        }
        if let Some(excess) = self.all.excess(Resource::Backlog) {
            surplus.extend(self.take(|_| true, backlog, excess, now));
        }
        surplus
    }

    /// Takes connections of users of whom `is_one` is true, until the others together have `excess` less of `bytes`, which depends on what
    /// each holds.
    fn take(
        &mut self,
        is_one: impl Fn(&User) -> bool,
        bytes: fn(usize) -> usize,
        (excess, reason): (usize, OverLimit),
        now: Instant,
    ) -> Vec<(Held, OverLimit)> {
        let ones = self.connections.iter().filter(|(_, one)| !one.is_closing && is_one(&one.user));
        let held = ones.map(|(number, one)| {
            let age = now.saturating_duration_since(one.since);
            Held { number: *number, user: Arc::clone(&one.user), bytes: bytes(one.held), age }
        });
        let taken = surplus(held.filter(|one| one.bytes > 0).collect(), excess);
        for Held { number, .. } in &taken {
            self.hold(*number, 0, now);
            self.path(*number).for_each(|usage| usage.count_refusal(reason.limit.resource));
            self.connections.entry(*number).and_modify(|connection| connection.is_closing = true);
        }
        taken.into_iter().map(|held| (held, reason.clone())).collect()
    }

    /// What the connection is charged to.
    fn path(&mut self, number: u64) -> impl Iterator<Item = &mut Usage> {
        let path = self.connections.get_mut(&number).map(|Connection { user, usage, .. }| {
            let profile = self.profiles.get_mut(&user.profile);
            let (whole, of_user) = profile.map(|one| (&mut one.whole, one.users.get_mut(&user.uid))).unzip();
            let guests = user.is_guest.then_some(&mut self.guests);
            [Some(&mut self.all), whole, of_user.flatten(), guests, Some(usage)]
        });
        path.into_iter().flatten().flatten()
    }

    fn profile(&mut self, name: &Arc<str>) -> &mut ProfileUsage {
        self.profiles.entry(Arc::clone(name)).or_insert_with(|| {
            let quotas = Quotas::default();
            let whole = Usage::new(Holder::Profile, self.sizes, Some(name), &quotas);
            ProfileUsage { quotas, whole, users: BTreeMap::new() }
        })
    }
}

/// Which connections have to be closed so that the others hold `excess` bytes less together.
///
/// They are connections of the user who holds most, beginning with the one that has held most bytes for the longest time: who
/// reads slowly is not closed for others who do not read.
fn surplus(mut held: Vec<Held>, excess: usize) -> Vec<Held> {
    let mut users: HashMap<(Arc<str>, u32), usize> = HashMap::new();
    let key = |one: &Held| (Arc::clone(&one.user.profile), one.user.uid);
    for one in &held {
        *users.entry(key(one)).or_default() += one.bytes;
    }
    let mut surplus: Vec<Held> = Vec::new();
    while surplus.iter().map(|one| one.bytes).sum::<usize>() < excess {
        let cost = |one: &Held| one.bytes as u128 * one.age.as_millis().max(1);
        let most = (0..held.len()).max_by_key(|&at| (users[&key(&held[at])], cost(&held[at])));
        let Some(most) = most else { break };
        let one = held.swap_remove(most);
        users.entry(key(&one)).and_modify(|bytes| *bytes -= one.bytes);
        surplus.push(one);
    }
    surplus
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: u32 = 1000;
    const GUEST: u32 = 7;

    /// Numbers of the connections that are closed, in order, of those with a user, bytes and an age in seconds each.
    fn closed(excess: usize, all: &[(u32, usize, u64)]) -> Vec<u64> {
        let user = |uid| Arc::new(User { profile: "p".into(), uid, is_guest: uid == GUEST });
        let held = |(number, &(uid, bytes, age)): (u64, &_)| Held {
            number,
            user: user(uid),
            bytes,
            age: Duration::from_secs(age),
        };
        surplus((0..).zip(all).map(held).collect(), excess).into_iter().map(|one| one.number).collect()
    }

    #[test]
    fn connections_of_the_user_who_holds_most_are_closed_first() {
        assert_eq!(closed(0, &[(OWN, 5, 1), (GUEST, 5, 100)]), [0; 0]);
        assert_eq!(closed(1, &[(OWN, 5, 100), (GUEST, 3, 1), (GUEST, 3, 2)]), [2]);
        assert_eq!(closed(6, &[(OWN, 4, 100), (GUEST, 3, 1), (GUEST, 3, 2)]), [2, 0]);
    }

    #[test]
    fn connection_with_the_most_bytes_for_the_longest_time_is_closed_first() {
        assert_eq!(closed(2, &[(OWN, 9, 1), (OWN, 3, 60)]), [1]);
        assert_eq!(closed(2, &[(OWN, 9, 60), (OWN, 3, 60)]), [0]);
    }
}
