//! What a server's task does while its instance is ready: every event of it, one at a time.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::{Sleep, sleep};

use super::ending::{End, closed};
use super::instance::{Effect, Instance};
use super::lifecycle::Event;
use super::listing::Pace;
use super::process::Process;
use super::task::ServerTask;
use super::{Command, Stop};
use crate::transport::Incoming;

/// How long calls in flight may go on when the server is to be stopped.
const DRAIN: Duration = Duration::from_secs(2);
/// Commands or messages taken in before anything else is done.
const BURST: usize = 64;

impl ServerTask {
    pub(super) async fn serve(&mut self, instance: &mut Instance, process: &mut Process) -> End {
        let mut pace = Pace::default();
        if instance.has_tools {
            pace.begin(Instant::now());
            instance.start_listing();
        } else {
            self.publisher.update(|published| published.attempted = true);
        }
        self.release_held(instance);
        // Made once and kept: what is awaited anew at each turn costs as much as a small call.
        let mut stop = self.stop.clone();
        let mut stopped = pin!(stop.at_least(Stop::Stop));
        let mut drained_by = None;
        let mut timer = pin!(sleep(Duration::ZERO));
        let mut armed = None;
        loop {
            if drained_by.is_some_and(|by| instance.calls() == 0 || by <= Instant::now()) {
                return End::Stop;
            }
            let relist_at = relist(instance, &mut pace);
            let due = [instance.next_deadline, relist_at, drained_by].into_iter().flatten().min();
            arm(timer.as_mut(), &mut armed, due);
            tokio::select! {
                Some(command) = self.commands.recv() => self.take_in(command, instance, drained_by.is_some()),
                incoming = instance.reader.next() => match incoming {
                    Ok(Some(incoming)) => self.take_all(incoming, instance),
                    Ok(None) | Err(_) => return closed(process, "closed its stdout").await,
                },
                written = instance.outbox.write_some(&mut instance.stdin), if !instance.outbox.is_empty() => {
                    if written.is_err() {
                        return closed(process, "closed its stdin").await;
                    }
                }
                ended = process.ended() => return End::Ended(ended),
                () = &mut timer, if armed.is_some() => {
                    armed = None;
                    let effect = instance.expire(Instant::now());
                    self.effect(effect, instance);
                }
                () = &mut stopped, if drained_by.is_none() => {
                    self.on(Event::Stop);
                    drained_by = Some(Instant::now() + DRAIN);
                }
            }
        }
    }

    /// Takes what was read in one go, so that it is also written in one; a flood is interrupted for other work.
    fn take_all(&mut self, first: Incoming, instance: &mut Instance) {
        let effect = instance.take(first);
        self.effect(effect, instance);
        for _ in 1..BURST {
            let Some(next) = instance.reader.buffered() else { return };
            let effect = instance.take(next);
            self.effect(effect, instance);
        }
    }

    fn take_in(&mut self, first: Command, instance: &mut Instance, stopping: bool) {
        self.take_one(first, instance, stopping);
        for _ in 1..BURST {
            let Ok(next) = self.commands.try_recv() else { return };
            self.take_one(next, instance, stopping);
        }
    }

    fn take_one(&mut self, command: Command, instance: &mut Instance, stopping: bool) {
        match command {
            Command::Cancel { key, reason } => instance.cancel(key, reason.as_ref()),
            Command::Call(_) if stopping => self.hold(command),
            Command::Call(call) => {
                self.publisher.stats.calls.add_one();
                instance.call(*call);
            }
        }
    }

    fn effect(&mut self, effect: Effect, instance: &Instance) {
        match effect {
            Effect::Nothing => {}
            Effect::Listed(list) => {
                // A list that has changed meanwhile is published too, but is no answer to "what does it offer?".
                let complete = !instance.wants_listing();
                self.publisher.update(|published| {
                    published.tools = Arc::new(list);
                    published.attempted |= complete;
                });
            }
            Effect::NotListed(reason) => {
                self.publisher.error(reason);
                self.publisher.update(|published| published.attempted = true);
            }
        }
    }
}

/// Asks for a changed list if it may be asked for now; otherwise tells when.
fn relist(instance: &mut Instance, pace: &mut Pace) -> Option<Instant> {
    if !instance.wants_listing() {
        return None;
    }
    let now = Instant::now();
    let allowed_at = pace.allowed_at().filter(|at| *at > now);
    if allowed_at.is_none() {
        pace.begin(now);
        instance.start_listing();
    }
    allowed_at
}

/// Sets the timer only when its time has changed: a call costs no timer of its own.
fn arm(timer: Pin<&mut Sleep>, armed: &mut Option<Instant>, due: Option<Instant>) {
    let earlier = due.is_some_and(|due| armed.is_none_or(|armed| due < armed));
    if earlier && let Some(due) = due {
        timer.reset(due.into());
        *armed = Some(due);
    }
}
