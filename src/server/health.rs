//! Health checks of a running instance. Pure: time is passed in.
//!
//! ```text
//! silent for `interval` ─► ping ─ any message ─► healthy
//!                           └─ none within `timeout` ─► miss ─ three in a row ─► unhealthy ─ any message ─► healthy
//! ```
//!
//! - An instance that has never answered a ping may be one that answers none. It is sent a request for a list instead: at once after its
//!   first unanswered ping, and at each check from then on. Only unanswered requests for lists are misses then.
//! - An instance that sends messages is not pinged.
//! - A call that times out is a miss if nothing was received since it was sent. Calls that time out within one `timeout` count as
//!   one miss, so a burst of them weighs the same as one ping.
//! - An instance with unanswered calls may be busy. Its unanswered pings are reported, but are not misses, until one of its calls
//!   times out. (MCP 2025-11-25, `basic/utilities/ping`, leaves the reaction to the sender.)

use std::fmt;
use std::time::{Duration, Instant};

/// Consecutive misses that make an instance ill.
pub const MAX_MISSES: u32 = 3;

/// The messages that an instance has left unanswered since its last message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct UnansweredCounts {
    /// Unanswered pings, or requests for lists in their place, including those that are no misses.
    pub pings: u32,
    /// Calls that timed out and count as misses.
    pub calls: u32,
}

impl UnansweredCounts {
    /// Whether nothing is unanswered.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for UnansweredCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pings = if self.pings == 1 { "1 ping" } else { &format!("{} pings", self.pings) };
        let calls = if self.calls == 1 { "1 call" } else { &format!("{} calls", self.calls) };
        match (self.pings, self.calls) {
            (_, 0) => f.write_str(pings),
            (0, _) => f.write_str(calls),
            (_, _) => write!(f, "{pings} and {calls}"),
        }
    }
}

/// What the requests to an instance show about its health.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Outcomes {
    /// It has answered a ping.
    pub(super) answers_pings: bool,
    /// Calls are unanswered.
    pub(super) has_calls: bool,
    /// The send time of the latest call that has timed out since the last check.
    pub(super) timed_out: Option<Instant>,
}

/// The health of one instance, and the time of its next check.
#[derive(Debug)]
pub(super) struct Health {
    interval: Duration,
    timeout: Duration,
    /// The time of the latest message since the last check.
    received: Option<Instant>,
    /// The check that is unanswered, with the time when the next one is due.
    pending: Option<(Check, Instant)>,
    /// Requests for lists are sent in place of pings.
    probes: bool,
    unanswered: UnansweredCounts,
    misses: u32,
    /// The time of the last message before this silence.
    silent_since: Instant,
    /// The time when a call last counted as a miss.
    call_missed_at: Option<Instant>,
    due: Instant,
}

/// A request that an instance in good health answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// A ping.
    Ping,
    /// A request for a list.
    List,
}

/// The result of a check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum CheckResult {
    /// Do nothing until [`Health::due`].
    Wait,
    /// Send this request.
    Send(Check),
    /// The instance is healthy.
    Healthy,
    /// The instance has left these messages unanswered.
    Missed(UnansweredCounts),
}

impl Health {
    /// The health of an instance that has just sent a message.
    pub(super) fn new(interval: Duration, timeout: Duration, now: Instant) -> Self {
        Self {
            interval,
            timeout,
            received: None,
            pending: None,
            probes: false,
            unanswered: UnansweredCounts::default(),
            misses: 0,
            silent_since: now,
            call_missed_at: None,
            due: now + interval,
        }
    }

    /// Records any received message.
    pub(super) fn receive(&mut self, now: Instant) {
        self.received = Some(now);
    }

    /// Whether anything is unanswered. Then the next message calls for an immediate check.
    pub(super) fn has_unanswered(&self) -> bool {
        !self.unanswered.is_empty()
    }

    /// Whether the instance is unhealthy.
    pub(super) fn is_unresponsive(&self) -> bool {
        self.misses >= MAX_MISSES
    }

    /// The time of the next check.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// Checks the instance at `now`. Nothing counts as a miss while an operator has `overruled` the checks.
    pub(super) fn check(&mut self, now: Instant, outcomes: Outcomes, overruled: bool) -> CheckResult {
        if let Some(at) = self.received.take() {
            let is_later = |sent: &Instant| *sent >= at;
            *self = Self { silent_since: at, probes: self.probes, ..Self::new(self.interval, self.timeout, now) };
            // A call that was sent after that message and has timed out is still a miss.
            if overruled || !outcomes.timed_out.as_ref().is_some_and(is_later) {
                return CheckResult::Healthy;
            }
        }
        self.probes &= !outcomes.answers_pings;
        if !overruled && outcomes.timed_out.is_some_and(|sent| self.is_miss(sent, now)) {
            self.call_missed_at = Some(now);
            self.unanswered.calls = self.unanswered.calls.saturating_add(1);
            self.misses = self.misses.saturating_add(u32::from(!self.probes));
            return CheckResult::Missed(self.unanswered);
        }
        if now < self.due {
            return CheckResult::Wait;
        }
        let next = match self.pending.take() {
            None => Some((if self.probes { Check::List } else { Check::Ping }, now + self.interval)),
            Some((Check::Ping, next)) if !outcomes.answers_pings => {
                (self.probes, self.misses) = (true, 0);
                Some((Check::List, next))
            }
            // The interval between checks is the same whether or not they are answered.
            Some((_, next)) => {
                self.due = next.max(now);
                None
            }
        };
        if let Some((check, _)) = next {
            (self.pending, self.due) = (next, now + self.timeout);
            return CheckResult::Send(check);
        }
        if overruled {
            return CheckResult::Wait;
        }
        self.unanswered.pings = self.unanswered.pings.saturating_add(1);
        let is_excused = outcomes.has_calls && self.call_missed_at.is_none();
        if !is_excused {
            self.misses = self.misses.saturating_add(1);
        }
        CheckResult::Missed(self.unanswered)
    }

    /// Whether a call that was sent at `sent` and timed out at `now` is a miss.
    fn is_miss(&self, sent: Instant, now: Instant) -> bool {
        let earliest = self.call_missed_at.map_or(self.silent_since, |at| at + self.timeout);
        sent >= self.silent_since && now >= earliest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: Duration = Duration::from_secs(30);
    const TIMEOUT: Duration = Duration::from_secs(5);
    const IDLE: Outcomes = Outcomes { answers_pings: true, has_calls: false, timed_out: None };
    const BUSY: Outcomes = Outcomes { has_calls: true, ..IDLE };
    /// Of an instance that has never answered a ping.
    const MUTE: Outcomes = Outcomes { answers_pings: false, ..IDLE };
    const PING: CheckResult = CheckResult::Send(Check::Ping);
    const LIST: CheckResult = CheckResult::Send(Check::List);

    fn health() -> Health {
        Health::new(INTERVAL, TIMEOUT, Instant::now())
    }

    /// What is done at each due time, with whether a message is received before it and whether calls are pending then.
    fn course(received_busy: &[(bool, bool)]) -> Vec<CheckResult> {
        let mut health = health();
        let check = |(received, busy): &(bool, bool)| {
            if *received {
                health.receive(health.due());
            }
            health.check(health.due(), if *busy { BUSY } else { IDLE }, false)
        };
        received_busy.iter().map(check).collect()
    }

    fn missed(pings: u32, calls: u32) -> CheckResult {
        CheckResult::Missed(UnansweredCounts { pings, calls })
    }

    #[test]
    fn instance_that_sends_messages_is_not_pinged() {
        assert_eq!(course(&[(true, false); 4]), [CheckResult::Healthy; 4]);
    }

    #[test]
    fn three_pings_missed_in_a_row_make_it_ill_and_any_message_well() {
        let silent = (false, false);
        let ill = course(&[silent; 6]);
        assert_eq!(ill, [PING, missed(1, 0), PING, missed(2, 0), PING, missed(3, 0)]);
        let between = course(&[silent, silent, silent, silent, (true, false), silent, silent]);
        assert_eq!(between[4..], [CheckResult::Healthy, PING, missed(1, 0)]);
    }

    #[test]
    fn unanswered_pings_of_a_busy_instance_are_reported_and_do_not_make_it_ill() {
        let mut health = health();
        let acts: Vec<_> = (0..20).map(|_| health.check(health.due(), BUSY, false)).collect();
        assert_eq!(acts.last(), Some(&missed(10, 0)));
        assert!(health.has_unanswered() && !health.is_unresponsive());
    }

    #[test]
    fn nothing_is_missed_while_a_person_overrules_the_checks() {
        let mut health = health();
        for _ in 0..20 {
            let timed_out = Some(health.due());
            let act = health.check(health.due(), Outcomes { timed_out, ..BUSY }, true);
            assert!(matches!(act, CheckResult::Wait | CheckResult::Send(_)), "{act:?}");
        }
        assert!(!health.has_unanswered());
    }

    #[test]
    fn after_a_call_timed_out_in_silence_pending_calls_excuse_no_ping() {
        let (mut health, start) = (health(), Instant::now() + TIMEOUT);
        let timed_out = Outcomes { timed_out: Some(start), ..BUSY };
        assert_eq!(health.check(start + TIMEOUT, timed_out, false), missed(0, 1));
        let acts = [(); 4].map(|()| health.check(health.due(), BUSY, false));
        assert_eq!(acts, [PING, missed(1, 1), PING, missed(2, 1)]);
        assert!(health.is_unresponsive());
    }

    #[test]
    fn calls_that_time_out_within_one_ping_timeout_are_one_miss() {
        let mut health = health();
        let timed_out = |sent| Outcomes { timed_out: Some(sent), ..BUSY };
        let first = health.silent_since + TIMEOUT;
        assert_eq!(health.check(first, timed_out(first), false), missed(0, 1));
        assert_eq!(health.check(first + TIMEOUT / 2, timed_out(first), false), CheckResult::Wait);
        assert_eq!(health.check(first + TIMEOUT, timed_out(first), false), missed(0, 2));
    }

    #[test]
    fn call_that_was_sent_before_the_last_message_is_no_miss() {
        let mut health = health();
        let sent = health.silent_since + TIMEOUT;
        health.receive(sent + Duration::from_millis(1));
        assert_eq!(health.check(sent + TIMEOUT, BUSY, false), CheckResult::Healthy);
        let late = Outcomes { timed_out: Some(sent), ..BUSY };
        assert_eq!(health.check(sent + 2 * TIMEOUT, late, false), CheckResult::Wait);
    }

    #[test]
    fn call_that_was_sent_after_the_last_message_is_a_miss_at_the_first_check() {
        let mut health = health();
        let sent = health.silent_since + TIMEOUT;
        health.receive(sent - Duration::from_millis(1));
        let late = Outcomes { timed_out: Some(sent), ..BUSY };
        assert_eq!(health.check(sent + 2 * TIMEOUT, late, false), missed(0, 1));
    }

    #[test]
    fn instance_that_has_never_answered_a_ping_is_ill_only_after_three_unanswered_lists() {
        let mut health = health();
        let start = health.silent_since;
        let mut act = |outcomes| (health.check(health.due(), outcomes, false), (health.due() - start).as_secs());
        let acts = [(); 7].map(|()| act(MUTE));
        let expected = [
            (PING, 35),
            (LIST, 40),
            (missed(1, 0), 60),
            (LIST, 65),
            (missed(2, 0), 90),
            (LIST, 95),
            (missed(3, 0), 120),
        ];
        assert_eq!(acts, expected);
        assert!(health.is_unresponsive());
        // An answer to a list shows that it is healthy, and not that it answers pings.
        health.receive(health.due());
        let mut act = |outcomes| health.check(health.due(), outcomes, false);
        assert_eq!([act(MUTE), act(MUTE), act(IDLE), act(IDLE)], [CheckResult::Healthy, LIST, missed(1, 0), PING]);
    }

    #[test]
    fn timed_out_calls_are_no_misses_of_an_instance_that_has_never_answered_a_ping() {
        let mut health = health();
        assert_eq!([(); 2].map(|()| health.check(health.due(), MUTE, false)), [PING, LIST]);
        for _ in 0..6 {
            let now = health.due() + TIMEOUT;
            health.check(now, Outcomes { timed_out: Some(now), ..MUTE }, false);
        }
        assert!(health.unanswered.calls >= MAX_MISSES && !health.is_unresponsive(), "{health:?}");
    }

    #[test]
    fn silence_prints_the_unanswered_messages() {
        let text = |pings, calls| UnansweredCounts { pings, calls }.to_string();
        assert_eq!(
            [text(1, 0), text(3, 0), text(0, 2), text(2, 1)],
            ["1 ping", "3 pings", "2 calls", "2 pings and 1 call"]
        );
    }

    #[test]
    fn one_ping_is_sent_in_each_interval() {
        let start = Instant::now();
        let mut health = Health::new(INTERVAL, TIMEOUT, start);
        let mut sent = Vec::new();
        while sent.len() < 4 {
            let now = health.due();
            if health.check(now, IDLE, false) == PING {
                sent.push((now - start).as_secs());
            }
        }
        assert_eq!(sent, [30, 60, 90, 120]);
    }

    proptest! {
        #[test]
        fn it_is_ill_only_after_three_misses_without_a_message(
            steps in prop::collection::vec((any::<bool>(), any::<bool>(), any::<bool>()), 0..60),
        ) {
            let mut health = health();
            let mut misses = 0;
            let mut excuses = true;
            for (received, are_pending, times_out) in steps {
                if received {
                    health.receive(health.due() + Duration::from_millis(1));
                }
                let now = health.due();
                let calls = Outcomes { has_calls: are_pending, timed_out: times_out.then_some(now), ..IDLE };
                let before = health.unanswered;
                match health.check(now, calls, false) {
                    CheckResult::Healthy => (misses, excuses) = (0, true),
                    CheckResult::Missed(silence) if silence.calls > before.calls => (misses, excuses) = (misses + 1, false),
                    CheckResult::Missed(_) if are_pending && excuses => {}
                    CheckResult::Missed(_) => misses += 1,
                    CheckResult::Wait | CheckResult::Send(_) => {}
                }
                prop_assert_eq!(health.is_unresponsive(), misses >= MAX_MISSES);
            }
        }
    }
}
