//! A timer that costs nothing while it waits.
//!
//! The runtime's own timers are handed to the kernel anew at every wait, which is at every message; with one pending, a
//! small call costs 6 % more. This one is set once and then belongs to the kernel.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::net::unix::pipe;

/// Rings once at the earliest time it was set to.
#[derive(Debug)]
pub(crate) struct Alarm {
    timer: Arc<Timer>,
    set_to: Option<Instant>,
}

#[derive(Debug)]
struct Timer {
    descriptor: pipe::Receiver,
    /// Since it was set.
    rang: AtomicBool,
}

impl Alarm {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // A timer is read like a pipe, and this is the runtime's safe way to wait for a descriptor that is.
        let descriptor = pipe::Receiver::from_owned_fd_unchecked(timer)?;
        Ok(Self { timer: Arc::new(Timer { descriptor, rang: AtomicBool::new(false) }), set_to: None })
    }

    /// Has it ring at `due`, unless it rings earlier anyway: one that rings too early is asked again.
    pub(crate) fn set(&mut self, due: Option<Instant>) {
        if self.timer.rang.swap(false, Ordering::Relaxed) {
            self.set_to = None;
        }
        let Some(due) = due.filter(|due| self.set_to.is_none_or(|set_to| *due < set_to)) else { return };
        let left = due.saturating_duration_since(Instant::now());
        // Zero would mean never.
        let nanoseconds = left.subsec_nanos().max(u32::from(left.is_zero()));
        let value = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: nanoseconds.into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // It fails for times out of range only, and the year that configuration allows is not.
        let _ = rustix::time::timerfd_settime(&self.timer.descriptor, TimerfdTimerFlags::empty(), &once);
        self.set_to = Some(due);
    }

    /// Waits until it rings; never, if it is not set. May be cancelled without loss.
    pub(crate) fn rings(&self) -> impl Future<Output = ()> + use<> {
        let timer = Arc::clone(&self.timer);
        async move {
            while timer.descriptor.readable().await.is_ok() && timer.descriptor.try_read(&mut [0; 8]).is_err() {}
            timer.rang.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn it_rings_at_the_earliest_time_and_once() {
        let mut alarm = Alarm::new().expect("a timer");
        let start = Instant::now();
        alarm.set(Some(start + Duration::from_secs(600)));
        alarm.set(Some(start + Duration::from_millis(5)));
        alarm.set(Some(start + Duration::from_secs(60)));
        alarm.rings().await;
        assert!(start.elapsed() >= Duration::from_millis(5) && start.elapsed() < Duration::from_secs(60));
        alarm.set(Some(start));
        alarm.rings().await;
        let again = tokio::time::timeout(Duration::from_millis(5), alarm.rings()).await;
        assert!(again.is_err(), "it was not set again");
    }
}
