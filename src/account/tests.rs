//! What is charged, to whom, and what is refused.

use futures_util::FutureExt;

use super::*;
use crate::config::{Profile, Quotas};
use crate::jsonrpc::mcpd_error::Delivery;
use crate::naming::Naming;

const UNIT: usize = 1 << 20;
const CONNECTIONS: usize = 4096;
const MS: Duration = Duration::from_millis(1);
const OWN: u32 = 1000;
const GUEST: u32 = 7;

fn user(uid: u32) -> Arc<User> {
    Arc::new(User { profile: "p".into(), uid, is_guest: uid != OWN })
}

/// The account of a connection that reaches no limit.
pub(crate) fn unlimited() -> Arc<Account> {
    Accounts::new(CONNECTIONS, UNIT << 20).connect(0, &user(OWN), Instant::now()).expect("it is the first")
}

pub(crate) fn a_charge() -> Charge {
    unlimited().charge(Cost::Request(0), Instant::now()).expect("it is the first")
}

fn apply(accounts: &Accounts, quotas: Quotas) {
    let allow_uids = [GUEST, GUEST + 1].into();
    let profile = Profile { name: "p".into(), quotas, allow_uids, ..Profile::whole(Naming::default()) };
    accounts
        .ledger()
        .apply([&Arc::new(profile)].into_iter(), |profile, uid| uid == OWN || profile.allow_uids.contains(&uid));
}

/// For so many connections, at a profile with these quotas.
fn accounts(connections: usize, quotas: Quotas) -> Arc<Accounts> {
    let accounts = Accounts::new(connections, UNIT);
    apply(&accounts, quotas);
    accounts
}

/// A connection of a user.
fn connect(accounts: &Arc<Accounts>, number: u64, uid: u32) -> Result<Arc<Account>, String> {
    accounts.connect(number, &user(uid), Instant::now()).map_err(|over| over.to_string())
}

fn text<T: std::fmt::Debug>(refused: Result<T, OverLimit>) -> String {
    refused.expect_err("a limit is reached").to_string()
}

/// What is in use by a name in reports, and how often the limit was reached.
fn reported(accounts: &Accounts, uid: Option<u32>, name: &str) -> (Option<usize>, u64) {
    let all = accounts.ledger().report("p");
    let found = all.iter().find(|(of, limit)| *of == uid && limit.name == name).expect("it is reported");
    (found.1.used, found.1.refused)
}

#[test]
fn each_limit_of_connections_has_its_error_and_a_closed_connection_frees_its_place() {
    let of_user = |limit| format!("mcpd serves {limit} agents of this user at this profile already");
    let connected = |accounts: &Arc<Accounts>, numbers: std::ops::Range<u64>, uid| -> Vec<Arc<Account>> {
        numbers.map(|number| connect(accounts, number, uid).expect("within the limits")).collect()
    };
    let few = accounts(32, Quotas::default());
    let own = connected(&few, 0..16, OWN);
    assert_eq!(connect(&few, 100, OWN).expect_err("half of all"), of_user(16));
    let guests: Vec<_> = (0..8).flat_map(|n| connected(&few, 2 * n + 16..2 * n + 18, GUEST + n as u32)).collect();
    assert_eq!(connect(&few, 100, GUEST).expect_err("all"), "mcpd serves 32 agents already");
    drop(own);
    assert_eq!(connect(&few, 100, GUEST).expect_err("a sixteenth"), of_user(2));
    assert_eq!(connect(&few, 100, 99).expect_err("half of all"), "mcpd serves 16 agents of other users already");
    drop(guests);
    connected(&few, 0..2, GUEST);
    let many = accounts(CONNECTIONS, Quotas::default());
    let _guests = connected(&many, 0..64, GUEST);
    let expected = "64 connections, the limit of each guest at [profiles.p], are reached";
    assert_eq!(connect(&many, 100, GUEST).expect_err("its quota"), expected);
    assert_eq!(reported(&many, Some(GUEST), "connections"), (Some(64), 1));
}

#[test]
fn charge_counts_for_profile_and_connection_until_it_is_dropped() {
    let (all, now) = (accounts(CONNECTIONS, Quotas { max_calls: Some(2), ..Quotas::default() }), Instant::now());
    let [one, other] = [1, 2].map(|number| connect(&all, number, OWN).expect("within the limits"));
    let calls = [one.charge(Cost::Call(10), now), other.charge(Cost::Message(10), now)].map(Result::unwrap);
    assert_eq!(text(one.charge(Cost::Call(10), now)), "`max_calls = 2` of [profiles.p] is reached");
    let part = one.charge(Cost::Part(4 * UNIT - 10), now).expect("parts are no calls of the profile");
    let too_large = "the unanswered requests of this connection are too large together";
    assert_eq!(text(one.charge(Cost::Request(1), now)), too_large);
    assert!(other.charge(Cost::Request(1), now).is_ok());
    assert_eq!(reported(&all, None, "max_calls"), (Some(2), 1));
    drop((calls, part));
    assert_eq!(reported(&all, None, "max_calls").0, Some(0));
    let requests: Vec<_> = (0..1280).map(|_| one.charge(Cost::Request(0), now).expect("within the limit")).collect();
    assert_eq!(text(one.charge(Cost::Part(0), now)), "this connection has too many unanswered requests");
    drop(requests);
    assert!(one.charge(Cost::Call(1), now).is_ok());
}

#[test]
fn refused_charge_counts_for_nobody() {
    let (all, now) = (accounts(CONNECTIONS, Quotas { max_calls: Some(64), ..Quotas::default() }), Instant::now());
    let guest = connect(&all, 1, GUEST).expect("within the limits");
    let held = guest.charge(Cost::Request(4 * UNIT), now).expect("within the limits");
    text(guest.charge(Cost::Call(1), now));
    assert_eq!(reported(&all, None, "max_calls"), (Some(0), 0));
    assert_eq!(reported(&all, Some(GUEST), "bytes"), (Some(4 * UNIT), 1));
    drop(held);
    assert_eq!(reported(&all, Some(GUEST), "bytes").0, Some(0));
}

#[test]
fn a_second_of_calls_may_come_at_once_and_then_one_in_each_interval() {
    let all = accounts(CONNECTIONS, Quotas { rate: Some(10), ..Quotas::default() });
    let (agent, start) = (connect(&all, 1, OWN).expect("within the limits"), Instant::now());
    let admitted = |at: u32| agent.charge(Cost::Call(0), start + at * MS).map(drop);
    assert!((0..10).all(|_| admitted(0).is_ok()));
    let refused = admitted(30).expect_err("the rate is reached");
    assert_eq!(refused.to_string(), "`rate = 10` of [profiles.p] is reached");
    assert_eq!(serde_json::json!(refused.to_object(Delivery::NotSent))["data"]["retryAfterMs"], 70);
    assert!(admitted(100).is_ok() && admitted(100).is_err() && admitted(200).is_ok());
    assert!((0..10).all(|_| admitted(60_000).is_ok()) && admitted(60_000).is_err());
    apply(&all, Quotas { rate: Some(1000), ..Quotas::default() });
    assert!(admitted(60_001).is_ok());
}

#[test]
fn guest_has_the_default_of_each_quota_that_its_profile_does_not_set() {
    let (all, now) = (accounts(CONNECTIONS, Quotas { rate: Some(1000), ..Quotas::default() }), Instant::now());
    let guest = connect(&all, 1, GUEST).expect("within the limits");
    let _calls: Vec<_> = (0..64).map(|_| guest.charge(Cost::Call(0), now).expect("within the limit")).collect();
    let expected = "`max_calls = 64` is reached, the default of each guest at [profiles.p]; a `max_calls` set there replaces it, for \
                    all agents of the profile together";
    assert_eq!(text(guest.charge(Cost::Call(0), now)), expected);
    let expected = "4MiB of unfinished messages, the limit of each guest at [profiles.p], are reached";
    assert_eq!(text(guest.charge(Cost::Request((4 << 20) + 1), now)), expected);
    let names: Vec<_> = all.ledger().report("p").iter().map(|(uid, limit)| (*uid, limit.name)).collect();
    let guest = Some(GUEST);
    assert_eq!(names, [(None, "rate"), (guest, "connections"), (guest, "bytes"), (guest, "max_calls")]);
}

#[test]
fn messages_of_a_guest_that_begin_no_call_are_delayed_beyond_a_burst() {
    let (all, start) = (accounts(CONNECTIONS, Quotas::default()), Instant::now());
    let [guest, other] = [1, 2].map(|number| connect(&all, number, GUEST).expect("within the limits"));
    assert!((0..256).all(|_| guest.pause_after_message(start).is_zero()));
    assert_eq!(guest.pause_after_message(start), MS);
    assert_eq!(other.pause_after_message(start), 2 * MS, "another connection of the guest");
    let call = other.charge(Cost::Call(1), start).expect("within the limits");
    assert_eq!(other.pause_after_message(start), Duration::ZERO, "it has begun a call");
    assert_eq!(other.pause_after_message(start), 3 * MS);
    drop(call);
    assert_eq!(guest.pause_after_message(start + 1000 * MS), Duration::ZERO);
    let [own, another] = [(3, OWN), (4, GUEST + 1)].map(|(number, uid)| connect(&all, number, uid).expect("one more"));
    assert!((0..10_000).all(|_| own.pause_after_message(start).is_zero()));
    assert!(another.pause_after_message(start).is_zero());
}

#[test]
fn large_lines_of_a_guest_are_read_at_a_rate() {
    let (all, start) = (accounts(CONNECTIONS, Quotas::default()), Instant::now());
    let [guest, own] = [(1, GUEST), (2, OWN)].map(|(number, uid)| connect(&all, number, uid).expect("one more"));
    assert_eq!(guest.pause_in_line(4 << 20, start), Duration::ZERO);
    assert_eq!(guest.pause_in_line(16 << 20, start), 1000 * MS);
    assert_eq!(own.pause_in_line(1 << 30, start), Duration::ZERO);
}

#[test]
fn surplus_of_a_guest_is_closed_and_not_counted_any_more() {
    let all = accounts(CONNECTIONS, Quotas::default());
    let [one, other] = [1, 2].map(|number| connect(&all, number, GUEST).expect("within the limits"));
    let request = one.charge(Cost::Request(UNIT), Instant::now()).expect("within the limits");
    other.hold(UNIT);
    one.hold(2 * UNIT);
    assert!(all.exceeded().now_or_never().is_none() && all.ledger().take_surplus(Instant::now()).is_empty());
    one.hold(2 * UNIT + 1);
    assert!(all.exceeded().now_or_never().is_some());
    let surplus: Vec<_> =
        all.ledger().take_surplus(Instant::now()).iter().map(|(one, _)| (one.number, one.bytes)).collect();
    assert_eq!(surplus, [(1, 2 * UNIT + 1)]);
    assert_eq!(reported(&all, Some(GUEST), "bytes"), (Some(2 * UNIT), 1));
    one.hold(3 * UNIT);
    assert!(all.ledger().take_surplus(Instant::now()).is_empty());
    drop((one, request));
    assert_eq!(reported(&all, Some(GUEST), "bytes").0, Some(UNIT));
}

#[test]
fn backlog_of_all_is_what_exceeds_allowances_and_guests_are_closed_first() {
    const LIMIT: usize = 64 << 20;
    let all = accounts(CONNECTIONS, Quotas::default());
    let own = connect(&all, 0, OWN).expect("it is the first");
    own.hold(LIMIT + ALLOWANCE);
    assert!(all.exceeded().now_or_never().is_none(), "it is full and not exceeded");
    let guests: Vec<_> =
        (0..20).map(|n| connect(&all, u64::from(n) + 1, GUEST + n).expect("within the limits")).collect();
    guests.iter().for_each(|guest| guest.hold(ALLOWANCE));
    assert!(all.exceeded().now_or_never().is_none());
    own.hold(LIMIT / 2);
    guests.iter().for_each(|guest| guest.hold(2 << 20));
    assert!(all.exceeded().now_or_never().is_some());
    let surplus = all.ledger().take_surplus(Instant::now());
    assert!(!surplus.is_empty() && surplus.iter().all(|(one, _)| one.number > 0), "{surplus:?}");
    let expected = "unread responses and incomplete lines of all agents are over 64MiB together";
    assert_eq!(surplus[0].1.to_string(), expected);
}

#[test]
fn connections_at_a_socket_beyond_a_burst_are_delayed() {
    let (all, start) = (accounts(CONNECTIONS, Quotas::default()), Instant::now());
    let allow_uids = [GUEST].into();
    let profile = Profile { name: "p".into(), allow_uids, ..Profile::whole(Naming::default()) };
    let pause = |is_admitted| all.ledger().pause_after_connection(&profile, is_admitted, start);
    assert!((0..64).all(|_| pause(true).is_zero()));
    assert_eq!([pause(false), pause(true)], [MS, 5 * MS]);
}
