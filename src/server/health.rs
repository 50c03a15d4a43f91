//! Whether a server that serves is well. Pure: time is handed in.
//!
//! ```text
//! silent for `interval` ─► ping ─ any message ─► well
//!                           └─ none within `timeout` ─► missed ─ three in a row ─► ill ─ any message ─► well
//! ```
//!
//! A server that speaks is not asked. One that has calls to answer may be busy with them: then a ping that is missed is
//! no miss (MCP 2025-11-25, `basic/utilities/ping`, leaves it to the asker what to make of one).

use std::time::{Duration, Instant};

/// Pings missed in a row that make a server ill.
pub(super) const MISSES: u32 = 3;

/// What has been heard of one instance, and when to ask next.
#[derive(Debug)]
pub(super) struct Health {
    interval: Duration,
    timeout: Duration,
    /// Since the last look.
    heard: bool,
    /// A ping is unanswered.
    asked: bool,
    missed: u32,
    due: Instant,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Act {
    /// Nothing before [`Health::due`].
    Wait,
    /// Ask.
    Ping,
    /// It was well until now, as far as is known.
    Well,
    /// It has missed so many pings in a row.
    Missed(u32),
}

impl Health {
    /// Of an instance that has just spoken.
    pub(super) fn new(interval: Duration, timeout: Duration, now: Instant) -> Self {
        Self { interval, timeout, heard: false, asked: false, missed: 0, due: now + interval }
    }

    /// It has said something, whatever it was.
    pub(super) fn hear(&mut self) {
        self.heard = true;
    }

    /// Whether it is ill, as far as is known.
    pub(super) fn is_ill(&self) -> bool {
        self.missed >= MISSES
    }

    /// When to look again.
    pub(super) fn due(&self) -> Instant {
        self.due
    }

    /// What to do at `now`. One that is `busy` misses nothing.
    pub(super) fn look(&mut self, now: Instant, busy: bool) -> Act {
        if self.heard {
            (self.heard, self.asked, self.missed) = (false, false, 0);
            self.due = now + self.interval;
            return Act::Well;
        }
        if now < self.due {
            return Act::Wait;
        }
        self.asked = !self.asked;
        if self.asked {
            self.due = now + self.timeout;
            return Act::Ping;
        }
        // The next one is asked as long after this one as if it had been answered.
        self.due = now + self.interval.saturating_sub(self.timeout);
        if busy {
            return Act::Wait;
        }
        self.missed = self.missed.saturating_add(1);
        Act::Missed(self.missed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const INTERVAL: Duration = Duration::from_secs(30);
    const TIMEOUT: Duration = Duration::from_secs(5);

    /// What is done at each due time, with what is heard before it and whether it is busy then.
    fn course(heard_busy: &[(bool, bool)]) -> Vec<Act> {
        let mut health = Health::new(INTERVAL, TIMEOUT, Instant::now());
        let look = |(heard, busy): &(bool, bool)| {
            if *heard {
                health.hear();
            }
            health.look(health.due(), *busy)
        };
        heard_busy.iter().map(look).collect()
    }

    #[test]
    fn a_server_that_speaks_is_not_asked() {
        assert_eq!(course(&[(true, false); 4]), [Act::Well; 4]);
    }

    #[test]
    fn three_pings_missed_in_a_row_make_it_ill_and_any_word_well() {
        let silent = (false, false);
        let ill = course(&[silent; 6]);
        assert_eq!(ill, [Act::Ping, Act::Missed(1), Act::Ping, Act::Missed(2), Act::Ping, Act::Missed(3)]);
        let between = course(&[silent, silent, silent, silent, (true, false), silent, silent]);
        assert_eq!(between[4..], [Act::Well, Act::Ping, Act::Missed(1)]);
    }

    #[test]
    fn one_that_is_busy_misses_nothing() {
        let busy = course(&[(false, true); 20]);
        assert!(!busy.iter().any(|act| matches!(act, Act::Missed(_))), "{busy:?}");
    }

    #[test]
    fn it_is_asked_once_in_each_interval() {
        let start = Instant::now();
        let mut health = Health::new(INTERVAL, TIMEOUT, start);
        let mut asked = Vec::new();
        while asked.len() < 4 {
            let now = health.due();
            if health.look(now, false) == Act::Ping {
                asked.push((now - start).as_secs());
            }
        }
        assert_eq!(asked, [30, 60, 90, 120]);
    }

    proptest! {
        #[test]
        fn it_is_ill_only_after_three_silent_pings(steps in prop::collection::vec((any::<bool>(), any::<bool>()), 0..60)) {
            let mut health = Health::new(INTERVAL, TIMEOUT, Instant::now());
            let mut silent = 0;
            for (heard, busy) in steps {
                if heard {
                    health.hear();
                }
                match health.look(health.due(), busy) {
                    Act::Well => silent = 0,
                    Act::Missed(_) => silent += 1,
                    Act::Wait | Act::Ping => {}
                }
                prop_assert_eq!(health.is_ill(), silent >= MISSES);
            }
        }
    }
}
