//! Serves a ready instance: handles its events one at a time.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures_util::future::{BoxFuture, FutureExt};
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::sleep;

use super::ServerTask;
use super::shutdown::{EXIT_GRACE, StopReason, disconnected};
use crate::deadline_timer::DeadlineTimer;
use crate::list_kind::{ListKind, PerKind};
use crate::server::control::{ControlReceiver, HealthOverride, StopLevel};
use crate::server::error::ServerError;
use crate::server::health::{Health, UnansweredCounts};
use crate::server::instance::{Effect, Effects, FromAgent, Instance};
use crate::server::lifecycle::Event;
use crate::server::link::LinkError;
use crate::server::messages::command::Command;
use crate::server::process::{Process, ProcessEnd};
use crate::server::stats::BusyMark;
use crate::transport::Arrival;

/// Time for calls in flight when the server is stopped.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);
/// Commands or messages that are handled before anything else.
const BURST: usize = 64;

/// Rare events.
enum Rare {
    Ended(ProcessEnd),
    /// The instance has to finish its calls and stop.
    Obsolete,
    Killed,
    HealthOverride(HealthOverride),
    /// A reply of an agent to a request of the server.
    FromAgent(FromAgent),
    /// A connection to its program was lost, and the program has not ended.
    Lost(Box<Arrival>),
    Deadline,
}

/// State while an instance is ready.
struct Relay<'a> {
    /// Polled only when woken: a future that is polled at each turn costs a tenth of a small call.
    rare: FuturesUnordered<BoxFuture<'a, Rare>>,
    timer: DeadlineTimer,
    health: Option<Health>,
    busy: BusyMark,
    /// The deadline of its calls, once it has to stop.
    stop_deadline: Option<Instant>,
    /// Lines wait to be written.
    has_backlog: bool,
    /// An event was handled since the deadlines were last checked.
    has_changed: bool,
    /// The server is a program that is reached at a URL.
    is_served: bool,
}

impl ServerTask {
    pub(super) async fn serve(
        &mut self,
        instance: &mut Instance,
        offers: PerKind<bool>,
        process: &mut Option<Process>,
    ) -> StopReason {
        self.renew_subscriptions(instance);
        // Subscribes before it lists, so that no change is missed.
        instance.refresh_subscriptions();
        let offers_any = instance.lists.start(&mut instance.wire, offers);
        self.publisher.update(|published| {
            for kind in ListKind::ALL.into_iter().filter(|kind| !offers[*kind]) {
                published.lists[kind] = Arc::default();
            }
        });
        self.publisher.publish_complete_if(!offers_any);
        self.release_parked(instance);
        match self.relay(instance, process).await {
            Ok(end) => end,
            Err(closed) => self.handling_commands_until(disconnected(process, closed)).await,
        }
    }

    /// Relays messages until the instance stops or its link fails.
    async fn relay(&mut self, instance: &mut Instance, process: &mut Option<Process>) -> Result<StopReason, LinkError> {
        let timer = match DeadlineTimer::new() {
            Ok(timer) => timer,
            Err(error) => return Ok(StopReason::Broken(ServerError::Internal(format!("cannot be served: {error}")))),
        };
        let is_served = process.is_some() && !instance.wire.is_stdio();
        let rare = self.rare_events(process);
        rare.push(health_override_change(self.control.clone(), HealthOverride::Auto));
        rare.push(timer.elapsed().map(|()| Rare::Deadline).boxed());
        let mut relay = Relay {
            rare,
            timer,
            health: self.begin_checkups(),
            busy: BusyMark::new(Arc::clone(&self.publisher.stats)),
            stop_deadline: None,
            has_backlog: false,
            has_changed: true,
            is_served,
        };
        poll_fn(|cx| self.poll_relay(cx, instance, &mut relay)).await
    }

    /// Handles events in one poll function: a future for each source would cost more than a small call.
    fn poll_relay(
        &mut self,
        cx: &mut Context<'_>,
        instance: &mut Instance,
        relay: &mut Relay<'_>,
    ) -> Poll<Result<StopReason, LinkError>> {
        loop {
            if relay.has_backlog {
                instance.revoke_hidden(&self.publisher.snapshot().lists);
            }
            let written = instance.wire.poll_write(cx)?;
            relay.has_backlog = instance.wire.has_unwritten();
            if std::mem::take(&mut relay.has_changed) {
                if self.reopens_now(instance) {
                    return Poll::Ready(Ok(StopReason::Stop));
                }
                // While this instance drains, calls wait for the next one, if there is one.
                self.release_waiting(instance, relay.stop_deadline.is_none() || self.finishes_all());
                if self.is_over(instance, relay) {
                    return Poll::Ready(Ok(StopReason::Stop));
                }
            }
            relay.rare.extend(instance.forwarded_requests.take_waits().map(|wait| wait.map(Rare::FromAgent).boxed()));
            // Sources that can be ready endlessly come last.
            if let Poll::Ready(Some(event)) = relay.rare.poll_next_unpin(cx) {
                if let Some(end) = self.on_rare(event, instance, relay) {
                    return Poll::Ready(Ok(end));
                }
            } else if let Poll::Ready(Some(command)) = self.commands.poll_recv(cx) {
                self.handle_commands(command, instance, relay.stop_deadline.is_some());
            } else if let Poll::Ready(arrival) = instance.wire.poll_next(cx)? {
                let is_sign_of_life = arrival.is_sign_of_life();
                if relay.is_served && !is_sign_of_life && matches!(arrival, Arrival::RequestFailed { .. }) {
                    // The exit of the program is the reason, if it arrives.
                    let lost = Box::new(arrival);
                    relay.rare.push(sleep(EXIT_GRACE).map(|()| Rare::Lost(lost)).boxed());
                } else {
                    self.handle_messages(arrival, instance);
                }
                if is_sign_of_life {
                    self.received(relay.health.as_mut(), instance);
                }
            } else if written.is_pending() || !instance.wire.has_unwritten() {
                return Poll::Pending;
            } else {
                continue;
            }
            relay.has_changed = true;
        }
    }

    /// Whether the stop level is [`StopLevel::FinishAll`]: waiting calls are still sent before the instance stops.
    fn finishes_all(&self) -> bool {
        self.control.stop.now() == StopLevel::FinishAll
    }

    /// Whether the instance stops now. If not, sets the timer for the next check.
    fn is_over(&mut self, instance: &mut Instance, relay: &mut Relay<'_>) -> bool {
        relay.busy.set(instance.is_busy() || !self.waiting.is_empty());
        let (idle_at, drained_by) = (self.idle_at(instance), relay.stop_deadline);
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= Instant::now());
        let has_taken_all = self.commands.is_empty() && (self.waiting.is_empty() || !self.finishes_all());
        let is_drained = drained_by.is_some() && instance.awaited() == 0 && has_taken_all;
        if is_due(idle_at) || is_due(drained_by) || is_drained {
            return true;
        }
        let (relist_at, relisten_at) = (instance.lists.refresh(&mut instance.wire), instance.refresh_subscriptions());
        let next_check = relay.health.as_ref().map(Health::due);
        let vacated_at = if self.waiting.has_queued() { instance.next_vacancy() } else { None };
        let waiting_at = [self.waiting.next_expiry(), vacated_at].into_iter().flatten().min();
        let times =
            [instance.wire.next_deadline(), relist_at, relisten_at, idle_at, next_check, drained_by, waiting_at];
        relay.timer.set(times.into_iter().flatten().min());
        false
    }

    /// Handles a rare event. Returns the reason if the instance stops.
    #[cold]
    fn on_rare(&mut self, event: Rare, instance: &mut Instance, relay: &mut Relay<'_>) -> Option<StopReason> {
        match event {
            Rare::Ended(ended) => return Some(StopReason::Ended(ended)),
            Rare::Killed => return Some(StopReason::Stop),
            Rare::Obsolete => {
                self.on(Event::Stop);
                relay.stop_deadline = Some(Instant::now() + STOP_TIMEOUT);
            }
            Rare::Deadline => {
                relay.rare.push(relay.timer.elapsed().map(|()| Rare::Deadline).boxed());
                let effects = instance.expire(Instant::now());
                self.carry_out(effects, instance);
                return relay.health.as_mut().and_then(|health| self.check_up(health, instance));
            }
            Rare::HealthOverride(mark) => {
                self.override_health(mark);
                relay.rare.push(health_override_change(self.control.clone(), mark));
            }
            Rare::FromAgent(received) => instance.handle_agent_message(received),
            Rare::Lost(arrival) => self.handle_messages(*arrival, instance),
        }
        None
    }

    /// Records a message as a sign of health, which is published at once after a silence.
    fn received(&mut self, health: Option<&mut Health>, instance: &mut Instance) {
        if let Some(health) = health {
            health.receive(Instant::now());
            if health.has_unanswered() {
                self.check_up(health, instance);
            }
        }
    }

    fn rare_events<'a>(&self, process: &'a mut Option<Process>) -> FuturesUnordered<BoxFuture<'a, Rare>> {
        let mut control = self.control.clone();
        let mut stop = control.stop.clone();
        let ended = process.as_mut().map(|process| process.wait_ended().map(Rare::Ended).boxed());
        let control = [
            async move {
                control.wait_obsolete().await;
                Rare::Obsolete
            }
            .boxed(),
            async move {
                stop.at_least(StopLevel::Kill).await;
                Rare::Killed
            }
            .boxed(),
        ];
        ended.into_iter().chain(control).collect()
    }

    /// Handles the messages of one read together, so that they are written together, up to [`BURST`].
    fn handle_messages(&mut self, first: Arrival, instance: &mut Instance) {
        let effects = instance.arrive(first);
        self.carry_out(effects, instance);
        for _ in 1..BURST {
            let Some(incoming) = instance.wire.next_buffered() else { return };
            let effects = instance.arrive(Arrival::Incoming { incoming, source_request: None });
            self.carry_out(effects, instance);
        }
    }

    fn handle_commands(&mut self, first: Command, instance: &mut Instance, stopping: bool) {
        self.handle_command(first, instance, stopping);
        for _ in 1..BURST {
            let Ok(next) = self.commands.try_recv() else { return };
            self.handle_command(next, instance, stopping);
        }
    }

    fn handle_command(&mut self, command: Command, instance: &mut Instance, stopping: bool) {
        match command {
            Command::Cancel { key, .. } if self.waiting.cancel(key) => {}
            Command::Cancel { key, notification } => {
                let effects = instance.cancel(key, notification.as_deref());
                self.carry_out(effects, instance);
            }
            Command::Check(caller) => instance.health.check(&mut instance.wire, caller, instance.lists.offered()),
            Command::Relist => instance.lists.mark_all_changed(),
            Command::Wake => {}
            Command::DropTask { session, id } => instance.drop_task(session, &id),
            Command::Attach { agent, .. } => self.attach_agent(*agent, instance),
            Command::Detach { session } => self.detach_agent(session, instance),
            Command::RootsChanged { session, line } => instance.roots_changed(session, &line),
            Command::Notify { session, era, line } => instance.forward_notification(session, era, &line),
            Command::Subscribe { agent, change } => self.subscribe(*agent, *change, instance),
            Command::Call(_) if stopping && !self.finishes_all() => self.park_command(command),
            Command::Call(ref call) if self.note_call_and_check_reopen(call, instance) => self.park_command(command),
            Command::Call(call) => {
                self.publisher.stats.calls.add_one();
                if self.marked_down() {
                    self.refuse(*call, self.unavailable());
                } else {
                    self.dispatch_call(call, instance);
                }
            }
        }
    }

    /// Does what follows from a message or deadline.
    pub(super) fn carry_out(&mut self, effects: Effects, instance: &Instance) {
        effects.into_iter().for_each(|effect| self.carry_out_one(effect, instance));
    }

    fn carry_out_one(&mut self, effect: Effect, instance: &Instance) {
        match effect {
            Effect::Listed { kind, list, settled } => {
                self.publisher.publish_list(kind, list, settled);
                self.store_lists_if(settled);
            }
            Effect::Checked(callers) => {
                self.publisher.publish_check(UnansweredCounts::default());
                callers.notify();
            }
            Effect::Subscribed(accepted) => self.record_subscription(*accepted),
            Effect::TopicsAnswered { accepted, refused } => {
                accepted.into_iter().for_each(|one| self.record_subscription(one));
                refused.iter().for_each(|topic| self.remove_topic(topic));
            }
            Effect::SubscribeRefused(uri) => self.remove_subscription(&uri),
            Effect::Notify { notification, recipients } => self.deliver(&notification, &recipients),
            Effect::ListFailed { kind: ListKind::Tools, .. } if self.reopens_to_list() => {}
            Effect::ListFailed { kind, reason, partial, settled } => {
                let reason = self.explained(reason, instance);
                let is_truncated = partial.is_some();
                if let Some(list) = partial {
                    self.publisher.publish_list(kind, list, false);
                }
                self.publisher.publish_list_error(kind, reason);
                self.publisher.publish_complete_if(settled);
                // A truncated list is not stored for the next start.
                self.store_lists_if(settled && !is_truncated);
            }
        }
    }
}

/// Waits for another mark of the operator than `last`.
fn health_override_change<'a>(mut control: ControlReceiver, last: HealthOverride) -> BoxFuture<'a, Rare> {
    async move { Rare::HealthOverride(control.health_override_other_than(last).await) }.boxed()
}
