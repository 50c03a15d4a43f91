//! What a server's task does while its instance is ready: every event of it, one at a time.

use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::alarm::Alarm;
use super::ending::{End, closed};
use super::instance::{Effect, Instance};
use super::lifecycle::Event;
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
        if instance.has_tools {
            instance.start_listing();
        } else {
            self.publisher.update(|published| {
                published.tools = Arc::default();
                published.attempted = true;
            });
        }
        self.release_held(instance);
        // Made once and kept: what is awaited anew at each turn costs as much as a small call.
        let mut orders = self.orders.clone();
        let mut unwanted = pin!(orders.unwanted(self.revision));
        let mut stop = self.orders.stop.clone();
        let mut killed = pin!(stop.at_least(Stop::Kill));
        let mut drained_by = None;
        let mut alarm = match Alarm::new() {
            Ok(alarm) => alarm,
            Err(error) => return End::Broken(format!("cannot be served: {error}")),
        };
        loop {
            if drained_by.is_some_and(|by| instance.calls() == 0 || by <= Instant::now()) {
                return End::Stop;
            }
            let idle_at = self.idle_at(instance);
            if idle_at.is_some_and(|at| at <= Instant::now()) {
                return End::Stop;
            }
            let relist_at = instance.relist();
            alarm.set([instance.next_deadline, relist_at, idle_at, drained_by].into_iter().flatten().min());
            tokio::select! {
                Some(command) = self.commands.recv() => self.take_in(command, instance, drained_by.is_some()),
                incoming = instance.reader.next() => match incoming {
                    Ok(Some(incoming)) => self.take_all(incoming, instance),
                    Ok(None) | Err(_) => return self.holding(closed(process, "closed its stdout")).await,
                },
                written = instance.outbox.write_some(&mut instance.stdin), if !instance.outbox.is_empty() => {
                    if written.is_err() {
                        return self.holding(closed(process, "closed its stdin")).await;
                    }
                }
                ended = process.ended() => return End::Ended(ended),
                () = alarm.rings() => {
                    let effect = instance.expire(Instant::now());
                    self.effect(effect);
                }
                () = &mut unwanted, if drained_by.is_none() => {
                    self.on(Event::Stop);
                    drained_by = Some(Instant::now() + DRAIN);
                }
                () = &mut killed => return End::Stop,
            }
        }
    }

    /// Takes what was read in one go, so that it is also written in one; a flood is interrupted for other work.
    fn take_all(&mut self, first: Incoming, instance: &mut Instance) {
        let effect = instance.take(first);
        self.effect(effect);
        for _ in 1..BURST {
            let Some(next) = instance.reader.buffered() else { return };
            let effect = instance.take(next);
            self.effect(effect);
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
            Command::Cancel { key, words } => instance.cancel(key, words.as_ref()),
            Command::Attach { .. } | Command::Detach { .. } => {}
            Command::Call(_) if stopping => self.hold(command),
            Command::Call(call) => {
                self.publisher.stats.calls.add_one();
                instance.call(*call);
            }
        }
    }

    fn effect(&self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Listed { list, settled } => {
                let list = Arc::new(list);
                self.keep_tools(&list);
                self.publisher.update(|published| {
                    published.tools = list;
                    published.attempted |= settled;
                });
            }
            Effect::NotListed(reason) => {
                self.publisher.error(reason);
                self.publisher.update(|published| published.attempted = true);
            }
        }
    }
}
