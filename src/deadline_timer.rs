//! A timer set to a deadline, on a timerfd of its own.
//!
//! The runtime's timers are given to the kernel again at every wait, which is at every message: with one pending, a small call
//! costs 6 % more. A timerfd is set once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use rustix::time::{Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec};
use tokio::net::unix::pipe;

/// Elapses once, at the earliest deadline that was set.
#[derive(Debug)]
pub(crate) struct DeadlineTimer {
    timer: Arc<Timer>,
    deadline: Option<Instant>,
}

#[derive(Debug)]
struct Timer {
    descriptor: pipe::Receiver,
    has_elapsed: AtomicBool,
}

impl DeadlineTimer {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let timer = rustix::time::timerfd_create(TimerfdClockId::Monotonic, flags)?;
        // A timerfd is read like a pipe, and a pipe is the safe type of the runtime for such a descriptor.
        let descriptor = pipe::Receiver::from_owned_fd_unchecked(timer)?;
        Ok(Self { timer: Arc::new(Timer { descriptor, has_elapsed: AtomicBool::new(false) }), deadline: None })
    }

    /// Sets the timer to `due`, unless it elapses earlier. The caller sets it again if it has elapsed too early.
    pub(crate) fn set(&mut self, due: Option<Instant>) {
        if self.timer.has_elapsed.swap(false, Ordering::Relaxed) {
            self.deadline = None;
        }
        let Some(due) = due.filter(|due| self.deadline.is_none_or(|deadline| *due < deadline)) else { return };
        let left = due.saturating_duration_since(Instant::now());
        // Zero would disarm the timer.
        let nanoseconds = left.subsec_nanos().max(u32::from(left.is_zero()));
        let value = Timespec { tv_sec: left.as_secs().try_into().unwrap_or(i64::MAX), tv_nsec: nanoseconds.into() };
        let once = Itimerspec { it_interval: Timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // Fails only for times out of range. The longest time that the configuration allows is a year.
        let _ = rustix::time::timerfd_settime(&self.timer.descriptor, TimerfdTimerFlags::empty(), &once);
        self.deadline = Some(due);
    }

    /// Waits for the deadline; for ever if none is set. Cancel safe.
    pub(crate) fn elapsed(&self) -> impl Future<Output = ()> + use<> {
        let timer = Arc::clone(&self.timer);
        async move {
            while timer.descriptor.readable().await.is_ok() && timer.descriptor.try_read(&mut [0; 8]).is_err() {}
            timer.has_elapsed.store(true, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(flavor = "current_thread")]
    async fn timer_elapses_once_at_the_earliest_deadline() {
        let mut timer = DeadlineTimer::new().expect("a timer");
        let start = Instant::now();
        timer.set(Some(start + Duration::from_secs(600)));
        timer.set(Some(start + Duration::from_millis(5)));
        timer.set(Some(start + Duration::from_secs(60)));
        timer.elapsed().await;
        assert!(start.elapsed() >= Duration::from_millis(5) && start.elapsed() < Duration::from_secs(60));
        timer.set(Some(start));
        timer.elapsed().await;
        let again = tokio::time::timeout(Duration::from_millis(5), timer.elapsed()).await;
        assert!(again.is_err(), "it was not set again");
    }
}
