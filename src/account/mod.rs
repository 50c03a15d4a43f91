//! What the agents of each user use, and what they may use.
//!
//! Connections, requests, calls and bytes are charged to the account of a user at a profile, and to all that it is a part of: the profile,
//! all guests, all agents. The connection has limits of its own. What exceeds a limit is charged to none of them. A [`Charge`] gives
//! back what it counts when it is dropped. [`limits::LIMITS`] has every limit.
//!
//! The session counts its own subscriptions and tasks: a subscription that is still unanswered counts, too, and a task ends by time.
//! Servers count what a user has at one of them, such as its directories ([`crate::server`]): only they know what is idle and can make room.
//!
//! While connections hold too much unwritten output and unhandled input, [`Ledger::take_surplus`] chooses those that are closed.

#![expect(clippy::disallowed_types, reason = "sessions count what they use together; nothing waits while it is locked")]

mod ledger;
mod limits;
mod usage;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

pub(crate) use self::ledger::{Held, Ledger};
use self::limits::Resource;
pub(crate) use self::limits::{MAX_STREAMS, MAX_SUBSCRIPTIONS, MAX_TASKS, OverLimit};
pub(crate) use self::usage::{ALLOWANCE, Cost, LimitUse};
use crate::server::User;

/// The accounts of all users.
#[derive(Debug)]
pub(crate) struct Accounts {
    ledger: Mutex<Ledger>,
    /// A connection holds more than before, while a limit is exceeded.
    exceeded: Notify,
}

/// The account of a user, as one connection charges it.
#[derive(Debug)]
pub(crate) struct Account {
    accounts: Arc<Accounts>,
    /// The number of the connection.
    number: u64,
    is_guest: bool,
    /// Bytes that the connection holds, so that nothing is locked while they stay the same.
    held: AtomicUsize,
}

/// What is in use. Dropping it gives it back.
#[derive(Debug)]
pub(crate) struct Charge {
    account: Arc<Account>,
    cost: Cost,
}

impl Accounts {
    /// At most so many connections are admitted.
    pub(crate) fn new(connections: usize, buffer_unit: usize) -> Arc<Self> {
        Arc::new(Self { ledger: Mutex::new(Ledger::new(connections, buffer_unit)), exceeded: Notify::new() })
    }

    /// Admits the connection `number`, of `user`.
    ///
    /// # Errors
    /// If a limit is reached.
    pub(crate) fn connect(
        self: &Arc<Self>,
        number: u64,
        user: &Arc<User>,
        now: Instant,
    ) -> Result<Arc<Account>, OverLimit> {
        self.ledger().connect(number, user, now)?;
        let (accounts, is_guest) = (Arc::clone(self), user.is_guest);
        Ok(Arc::new(Account { accounts, number, is_guest, held: AtomicUsize::new(0) }))
    }

    /// Waits until a connection holds more than before while a limit is exceeded.
    pub(crate) async fn exceeded(&self) {
        self.exceeded.notified().await;
    }

    /// What is in use. Nothing waits while it is locked.
    pub(crate) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Account {
    /// Charges `cost`.
    ///
    /// # Errors
    /// If a limit is reached.
    pub(crate) fn charge(self: &Arc<Self>, cost: Cost, now: Instant) -> Result<Charge, OverLimit> {
        self.accounts.ledger().charge(self.number, cost, now)?;
        Ok(Charge { account: Arc::clone(self), cost })
    }

    /// Counts what the connection holds now: unwritten output, and input that was read and not handled yet.
    pub(crate) fn hold(&self, bytes: usize) {
        if self.held.swap(bytes, Ordering::Relaxed) != bytes
            && self.accounts.ledger().hold(self.number, bytes, Instant::now())
        {
            self.accounts.exceeded.notify_one();
        }
    }

    /// Counts bytes that were read of a large incomplete line. Returns how long mcpd has to pause before it reads more of it.
    pub(crate) fn pause_in_line(&self, bytes: usize, now: Instant) -> Duration {
        self.accounts.ledger().delay(self.number, Resource::ReadRate, bytes, now)
    }

    /// Counts a message that was handled. Returns how long mcpd has to pause before it handles the next one. Only messages of guests that
    /// begin no call have a limit.
    pub(crate) fn pause_after_message(&self, now: Instant) -> Duration {
        if self.is_guest { self.accounts.ledger().end_message(self.number, now) } else { Duration::ZERO }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        self.accounts.ledger().disconnect(self.number);
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.account.accounts.ledger().give_back(self.account.number, self.cost);
    }
}

#[cfg(test)]
pub(crate) mod tests;
