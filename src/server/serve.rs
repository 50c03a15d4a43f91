//! What a server's task does while its instance is ready: every event of it, one at a time.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::control::{Orders, Vouched};
use super::ending::{End, closed};
use super::health::Health;
use super::instance::{Effect, Heard, Instance};
use super::lifecycle::Event;
use super::process::{Ended, Process};
use super::task::ServerTask;
use super::{Command, Stop};
use crate::alarm::Alarm;
use crate::era;
use crate::kind::{Kind, PerKind};
use crate::transport::Incoming;

/// How long calls in flight may go on when the server is to be stopped.
const DRAIN: Duration = Duration::from_secs(2);
/// Commands or messages taken in before anything else is done.
const BURST: usize = 64;

/// What seldom happens to a server.
enum Rare {
    Ended(Ended),
    /// It is to finish its calls and end.
    Unwanted,
    Killed,
    Vouched(Vouched),
    /// An agent that the server has asked something says something.
    Heard(Heard),
    Alarm,
}

impl ServerTask {
    pub(super) async fn serve(&mut self, instance: &mut Instance, offers: PerKind<bool>, process: &mut Process) -> End {
        let offers_any = instance.start_listing(offers);
        self.publisher.update(|published| {
            for kind in Kind::ALL.into_iter().filter(|kind| !offers[*kind]) {
                published.lists[kind] = Arc::default();
            }
        });
        self.publisher.settled(!offers_any);
        self.renew(instance);
        self.release_held(instance);
        match self.relay(instance, process).await {
            Ok(end) => end,
            Err(closed_what) => self.holding(closed(process, closed_what)).await,
        }
    }

    /// Until it is over, or the server has closed one of its streams: then an error says which.
    async fn relay(&mut self, instance: &mut Instance, process: &mut Process) -> Result<End, &'static str> {
        let mut alarm = match Alarm::new() {
            Ok(alarm) => alarm,
            Err(error) => return Ok(End::Broken(format!("cannot be served: {error}"))),
        };
        let mut drained_by = None;
        let mut health = self.begin_checkups();
        let mut rare = self.rare_events(process);
        rare.push(vouched(self.orders.clone(), Vouched::Auto));
        rare.push(alarm.rings().map(|()| Rare::Alarm).boxed());
        loop {
            if let Some(Err(_)) = instance.outbox.write_some(&mut instance.stdin).now_or_never() {
                return Err("closed its stdin");
            }
            rare.extend(instance.questions.waits.drain(..).map(|wait| wait.map(Rare::Heard).boxed()));
            let idle_at = self.idle_at(instance);
            let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
            if is_due(idle_at) || is_due(drained_by) || (drained_by.is_some() && instance.calls() == 0) {
                return Ok(End::Stop);
            }
            let relist_at = instance.relist();
            let look_at = health.as_ref().map(Health::due);
            alarm.set([instance.next_deadline, relist_at, idle_at, look_at, drained_by].into_iter().flatten().min());
            tokio::select! {
                // What can be ready without end comes last.
                biased;
                Some(event) = rare.next() => match event {
                    Rare::Ended(ended) => return Ok(End::Ended(ended)),
                    Rare::Killed => return Ok(End::Stop),
                    Rare::Unwanted => {
                        self.on(Event::Stop);
                        drained_by = Some(Instant::now() + DRAIN);
                    }
                    Rare::Alarm => {
                        rare.push(alarm.rings().map(|()| Rare::Alarm).boxed());
                        if let Some(end) = self.look_at_the_clock(health.as_mut(), instance) {
                            return Ok(end);
                        }
                    }
                    Rare::Vouched(said) => {
                        self.vouch(said);
                        rare.push(vouched(self.orders.clone(), said));
                    }
                    Rare::Heard(heard) => instance.heard(heard),
                },
                Some(command) = self.commands.recv() => self.take_in(command, instance, drained_by.is_some()),
                incoming = instance.reader.next() => match incoming {
                    Ok(Some(incoming)) => {
                        self.take_all(incoming, instance);
                        self.heard(health.as_mut(), instance);
                    }
                    Ok(None) | Err(_) => return Err("closed its stdout"),
                },
                written = instance.outbox.write_some(&mut instance.stdin), if !instance.outbox.is_empty() => {
                    if written.is_err() {
                        return Err("closed its stdin");
                    }
                }
            }
        }
    }

    /// Ends what has waited too long, and looks how the instance is if that is due; the end of one that is to be replaced.
    fn look_at_the_clock(&mut self, health: Option<&mut Health>, instance: &mut Instance) -> Option<End> {
        let effect = instance.expire(Instant::now());
        self.effect(effect);
        health.and_then(|health| self.check_up(health, instance))
    }

    /// Any message says that it is well; one that was thought ill is so no longer at once.
    fn heard(&mut self, health: Option<&mut Health>, instance: &mut Instance) {
        if let Some(health) = health {
            health.hear();
            if health.is_ill() {
                self.check_up(health, instance);
            }
        }
    }

    /// Polled only when woken: what is polled at each turn costs a tenth of a small call.
    fn rare_events<'a>(&self, process: &'a mut Process) -> FuturesUnordered<BoxFuture<'a, Rare>> {
        let (revision, mut orders) = (self.revision, self.orders.clone());
        let mut stop = orders.stop.clone();
        FuturesUnordered::from_iter([
            process.ended().map(Rare::Ended).boxed(),
            async move {
                orders.unwanted(revision).await;
                Rare::Unwanted
            }
            .boxed(),
            async move {
                stop.at_least(Stop::Kill).await;
                Rare::Killed
            }
            .boxed(),
        ])
    }

    /// Takes what was read in one go, so that it is also written in one; a flood is interrupted for other work.
    fn take_all(&mut self, first: Incoming, instance: &mut Instance) {
        self.take_incoming(first, instance);
        for _ in 1..BURST {
            let Some(next) = instance.reader.buffered() else { return };
            self.take_incoming(next, instance);
        }
    }

    /// The members of a batch are as good as messages that come alone, if the server may send batches.
    fn take_incoming(&mut self, incoming: Incoming, instance: &mut Instance) {
        match incoming {
            Incoming::Batch(members) if instance.protocol.is_some_and(|protocol| era::has(protocol, era::BATCHES)) => {
                for member in members {
                    self.effect(instance.take(member));
                }
            }
            single => self.effect(instance.take(single)),
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
            Command::Check(asker) => instance.check(asker),
            Command::DropTask { session, id } => instance.drop_task(session, &id),
            Command::Attach { agent, .. } => self.join(agent, instance),
            Command::Detach { session } => self.leave(session, instance),
            Command::RootsChanged { session, line } => instance.roots_changed(session, &line),
            Command::Call(_) if stopping => self.hold(command),
            Command::Call(call) => {
                self.publisher.stats.calls.add_one();
                if self.marked_down() {
                    self.refuse(*call, self.unavailable());
                } else {
                    self.give(*call, instance);
                }
            }
        }
    }

    pub(super) fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Nothing => {}
            Effect::Listed { kind, list, settled } => {
                self.publisher.listed(kind, list, settled);
                self.keep_lists_if(settled);
            }
            Effect::Checked(askers) => {
                self.publisher.checked(0);
                askers.tell();
            }
            Effect::Subscribed(accepted) => self.subscribed(*accepted),
            Effect::Lapsed(uri) => self.lapsed(&uri),
            Effect::Updated { line, params } => self.updated(&line, params.as_ref()),
            Effect::Logged { line, params, owner } => self.logged(&line, params.as_ref(), owner),
            Effect::NotListed { reason, settled } => {
                self.publisher.error(reason);
                self.publisher.settled(settled);
                self.keep_lists_if(settled);
            }
        }
    }
}

/// Until a person says something else of the server than `last`.
fn vouched<'a>(mut orders: Orders, last: Vouched) -> BoxFuture<'a, Rare> {
    async move { Rare::Vouched(orders.vouched_other_than(last).await) }.boxed()
}
