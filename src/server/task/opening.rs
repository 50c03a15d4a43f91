//! Opens an instance: chooses its era, performs the handshake and records what that shows about the server.
//!
//! Runners such as `npx` and `uvx` download a server before they run it, which may take minutes, and a runner that is killed meanwhile
//! leaves half of a server in its cache. So the limit of a start counts from the last sign of life, up to a maximum, and is longer for a
//! runner until its server has sent its first message ([`StartLimit`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::ServerTask;
use super::shutdown::{StopReason, disconnected};
use crate::config::{Launch, Remote};
use crate::durations::{ErrorType, Labels, Measured};
use crate::era::{self, Era, Eras};
use crate::server::era_cache::{EraPreference, EraSupport, Support, has_url, may_split_by_era};
use crate::server::error::{ServerError, StartActivity, StartTimeout};
use crate::server::handshake::{HandshakeError, HandshakePlan, HandshakeResult, ServerInfo, handshake};
use crate::server::health::UnansweredCounts;
use crate::server::identity::Identities;
use crate::server::instance::{self, Instance};
use crate::server::lifecycle::Event;
use crate::server::link::{Link, RemoteTransport};
use crate::server::messages::call::Call;
use crate::server::process::{Activity, Process, ProcessEnd};
use crate::server::start_permit::StartPermit;

/// What is still open about the eras of a server.
#[derive(Debug, Default)]
pub(super) struct OpenEras {
    /// A legacy agent has called, or the tools could not be listed in the modern era.
    tries_legacy: bool,
    /// The instance is reopened for legacy calls as soon as it is not busy.
    is_to_reopen: bool,
    /// The last instance exited at the first request of this era, so the next one is opened in the other.
    died_opening: Option<Era>,
}

impl OpenEras {
    /// A call of an agent of this era waits.
    pub(super) fn note_call(&mut self, era: Era) {
        self.tries_legacy |= era == Era::Legacy;
    }

    /// Whether the instance that starts now is the last one, reopened for legacy calls.
    pub(super) fn take_reopening(&mut self) -> bool {
        std::mem::take(&mut self.is_to_reopen)
    }
}

impl ServerTask {
    /// Runs one instance. If it exits at its first request, runs another in the other era. Returns the event for the lifecycle.
    pub(super) async fn run_instance(&mut self) -> Event {
        let mut event = self.attempt().await;
        if let Some(era) = self.eras.died_opening {
            self.log_other_era(era, &event);
            event = self.attempt().await;
            self.eras.died_opening = None;
        }
        event
    }

    /// Performs the handshake on a link, and serves the instance. A stdio server has a process.
    pub(super) async fn with_link(
        &mut self,
        link: Link,
        process: Option<(Process, Activity)>,
        permit: StartPermit,
    ) -> Event {
        let (mut process, activity) = process.unzip();
        let limit_of = if self.runner().is_some() { StartLimit::of_runner } else { StartLimit::new };
        let limit = limit_of(self.config.settings.handshake_timeout, Instant::now());
        let setup = instance::InstanceSetup {
            config: Arc::clone(&self.config),
            scope: self.purpose.scope.clone(),
            label: self.purpose.label.clone(),
            stats: Arc::clone(&self.publisher.stats),
            message_limit: self.message_limit(),
            tap: self.context.tap.of_server(&self.config.name, self.publisher.snapshot().pid),
        };
        let mut instance = Instance::new(link, setup);
        let plan = self.eras.died_opening.map_or_else(|| self.handshake_plan(), HandshakePlan::instead_of);
        // Boxed, so that the futures that open and end the instance take no memory while it runs.
        let launch = self.config.launch.as_ref().ok();
        let origin = launch.and_then(Launch::remote).map(Remote::shown_origin);
        let opened = Box::pin(permit.during(open(&mut instance, &mut process, activity, plan, limit, origin)));
        let opened = self.unless_stopped(opened).await;
        self.learn(opened.as_ref(), plan, &instance);
        let mut session = None;
        let end = match opened {
            Some(Ok(_)) if self.needs_both_eras() => {
                if let Link::Http(http) = instance.wire.into_link() {
                    self.handling_commands_until(http.close()).await;
                }
                return Event::Ended(ServerError::HasBothEras);
            }
            Some(Ok(HandshakeResult { info, learned })) => {
                self.publish_start(&info, learned.identities, instance.wire.remote());
                session = Some((info.protocol, Instant::now()));
                self.eras.is_to_reopen = self.needs_legacy_opening(instance.wire.era());
                instance.logging.declare(info.logs);
                instance.subscriptions.declare(info.notifications);
                instance.declare_tasks(info.tasks);
                instance.lists.try_tools(info.identity.declares_nothing);
                self.serve(&mut instance, info.offers, &mut process).await
            }
            Some(Err(end)) => end,
            None => StopReason::Stop,
        };
        let event = Box::pin(self.end(end, instance, process)).await;
        if let Some((protocol, began)) = session {
            self.measure_session(protocol, began, &event);
        }
        event
    }

    /// Counts how long an instance was ready.
    fn measure_session(&self, protocol: &'static str, began: Instant, end: &Event) {
        let error = match end {
            Event::Ended(ServerError::Stopped) => None,
            Event::Ended(error) => Some(ErrorType::Word(error.code())),
            _ => None,
        };
        let server = Some(&self.config.name);
        let labels = Labels { server, protocol: Some(protocol), error, ..Labels::default() };
        self.publisher.stats.durations.add(Measured::ClientSession, labels, began.elapsed());
    }

    fn handshake_plan(&self) -> HandshakePlan {
        let known = self.publisher.eras.of(&self.config);
        HandshakePlan::of(self.config.settings.era, self.preference(), &known, has_url(&self.config))
    }

    /// A server at a URL is sent `initialize` only once a legacy agent calls it.
    fn preference(&self) -> EraPreference {
        match self.control.desired().era {
            EraPreference::Shared if may_split_by_era(&self.config) && !self.eras.tries_legacy => {
                EraPreference::Of(Era::Modern)
            }
            preference => preference,
        }
    }

    /// Records the first legacy call. Returns whether `call` has to wait because the instance is now reopened in the legacy era. A busy
    /// instance is not reopened, and its legacy calls are bridged.
    pub(super) fn note_call_and_check_reopen(&mut self, call: &Call, instance: &Instance) -> bool {
        if !self.eras.tries_legacy && call.origin.era() == Era::Legacy {
            self.eras.tries_legacy = true;
            self.eras.is_to_reopen = self.needs_legacy_opening(instance.wire.era());
        }
        self.reopens_now(instance)
    }

    /// The tools could not be listed. Returns whether the instance is reopened now, as a server of both eras may be able to list them in the
    /// legacy one.
    pub(super) fn reopens_to_list(&mut self) -> bool {
        if self.eras.tries_legacy || self.publisher.knows_lists() {
            return false;
        }
        self.eras.tries_legacy = true;
        let protocol = self.publisher.snapshot().protocol;
        self.eras.is_to_reopen = protocol.is_some_and(|version| self.needs_legacy_opening(era::of(version)));
        self.eras.is_to_reopen
    }

    /// Whether the instance ends now to be reopened for legacy calls.
    pub(super) fn reopens_now(&self, instance: &Instance) -> bool {
        self.eras.is_to_reopen && !instance.is_busy()
    }

    /// Whether the next instance has to try the legacy era, as this one was opened in the modern `era` before a legacy agent
    /// called, or before its tools could not be listed.
    fn needs_legacy_opening(&self, era: Era) -> bool {
        self.eras.tries_legacy
            && era == Era::Modern
            && self.control.desired().era == EraPreference::Shared
            && may_split_by_era(&self.config)
            && self.publisher.eras.of(&self.config).legacy == Support::Unknown
    }

    /// Whether the next instance is known to use the legacy era.
    pub(super) fn next_is_legacy(&self) -> bool {
        self.handshake_plan().first == Era::Legacy && self.publisher.eras.of(&self.config).legacy == Support::Confirmed
    }

    /// Whether a single instance has to be replaced by one for each era.
    pub(super) fn needs_both_eras(&self) -> bool {
        let is_shared = self.control.desired().era == EraPreference::Shared;
        is_shared && may_split_by_era(&self.config) && self.publisher.eras.of(&self.config).has_both()
    }

    /// Records the eras that the handshake has found out.
    fn learn(
        &mut self,
        opened: Option<&Result<HandshakeResult, StopReason>>,
        plan: HandshakePlan,
        instance: &Instance,
    ) {
        match opened {
            Some(Ok(HandshakeResult { info, learned })) => {
                let mut learned = learned.clone();
                if let Some(era) = self.eras.died_opening.filter(|era| *era != era::of(info.protocol)) {
                    learned.set(era, Support::Doubtful);
                }
                self.learn_eras(&learned);
            }
            Some(Err(StopReason::Ended(ProcessEnd::Exited(_))))
                if plan.is_trial()
                    && self.eras.died_opening.is_none()
                    && instance.awaits_handshake_response(plan.first) =>
            {
                self.eras.died_opening = Some(plan.first);
            }
            Some(Err(StopReason::Broken(_) | StopReason::Disconnected(_))) => {
                let failed = if instance.wire.is_known_modern() { Era::Legacy } else { plan.first };
                self.publisher.eras.record_failed_opening(&self.config, failed);
            }
            Some(Err(StopReason::Ended(_) | StopReason::Stop)) | None => {}
        }
    }

    fn learn_eras(&self, learned: &EraSupport) {
        self.publisher.eras.learn(&self.config, learned);
    }

    fn publish_start(&mut self, info: &ServerInfo, identities: Identities, remote: Option<RemoteTransport>) {
        self.publisher.keep_lists();
        self.publisher.update(|published| {
            published.remote = remote;
            published.protocol = Some(info.protocol);
            published.eras = Eras::from_iter([era::of(info.protocol)]);
            published.software.clone_from(&info.software);
            published.identities = identities;
            published.checked = Some((Instant::now(), UnansweredCounts::default()));
        });
        self.on(Event::Started);
    }
}

/// Performs the handshake, unless the server ends or shows no sign of life for `limit`. A program at the URL `origin` has to listen first.
async fn open(
    instance: &mut Instance,
    process: &mut Option<Process>,
    activity: Option<Activity>,
    plan: HandshakePlan,
    limit: StartLimit,
    origin: Option<String>,
) -> Result<HandshakeResult, StopReason> {
    let (first_message, is_listening) = (Notify::new(), AtomicBool::new(process.is_none()));
    let ended = async {
        match process {
            Some(process) => process.wait_ended().await,
            None => std::future::pending().await,
        }
    };
    let result = tokio::select! {
        result = async {
            if !is_listening.load(Ordering::Relaxed) {
                instance.wire.wait_listening().await.map_err(HandshakeError::Closed)?;
                is_listening.store(true, Ordering::Relaxed);
            }
            handshake(instance, plan, &first_message).await
        } => result,
        ended = ended => return Err(StopReason::Ended(ended)),
        timeout = too_slow(limit, activity, plan, &first_message) => {
            let error = match origin {
                Some(origin) if !is_listening.load(Ordering::Relaxed) => ServerError::NotListening { origin, took: timeout.took },
                _ => ServerError::StartTimedOut(timeout),
            };
            return Err(StopReason::Broken(error));
        }
    };
    match result {
        Ok(info) => Ok(info),
        Err(HandshakeError::Refused(reason)) => Err(StopReason::Broken(reason)),
        Err(HandshakeError::Closed(closed)) => Err(disconnected(process, closed).await),
    }
}

/// Waits until the start has taken too long.
async fn too_slow(
    mut start: StartLimit,
    mut activity: Option<Activity>,
    plan: HandshakePlan,
    first_message: &Notify,
) -> StartTimeout {
    while let Some(look) = start.next_check(Instant::now()) {
        tokio::select! {
            () = sleep_until(look.into()) => {}
            () = first_message.notified(), if start.is_of_download() => {
                start.note_message(Instant::now());
                continue;
            }
        }
        if let Some(activity) = &mut activity
            && activity.check().await
        {
            start.note_life(Instant::now());
        }
    }
    start.timeout(plan.method(), Instant::now())
}

/// Maximum time of a start with signs of life, unless the configured limit is longer.
const MAX_START: Duration = Duration::from_secs(5 * 60);
/// Time without a sign of life that a runner has at least, until its server has sent its first message.
const RUNNER_LIMIT: Duration = Duration::from_secs(5 * 60);
/// Maximum time of that part of a start.
const MAX_DOWNLOAD: Duration = Duration::from_secs(30 * 60);
/// Number of looks for signs of life within one limit.
const CHECKS: u32 = 4;

/// The limit of one start.
#[derive(Debug)]
pub(super) struct StartLimit {
    limit: Duration,
    max: Duration,
    started: Instant,
    alive: Instant,
    /// The limit from the first message of the server on, if a runner may still download it.
    after_download: Option<Duration>,
}

impl StartLimit {
    /// The limit of a start that begins `now`.
    pub(super) fn new(limit: Duration, now: Instant) -> Self {
        Self { limit, max: limit.max(MAX_START), started: now, alive: now, after_download: None }
    }

    /// The limit of a runner that begins `now`. Once its server has sent a message, `limit` holds.
    pub(super) fn of_runner(limit: Duration, now: Instant) -> Self {
        let after_download = Some(limit);
        let limit = limit.max(RUNNER_LIMIT);
        Self { limit, max: limit.max(MAX_DOWNLOAD), started: now, alive: now, after_download }
    }

    /// Whether it ends with the first message of the server.
    pub(super) fn is_of_download(&self) -> bool {
        self.after_download.is_some()
    }

    /// The server has sent its first message `now`.
    pub(super) fn note_message(&mut self, now: Instant) {
        if let Some(limit) = self.after_download {
            *self = Self::new(limit, now);
        }
    }

    /// Records a sign of life.
    pub(super) fn note_life(&mut self, now: Instant) {
        self.alive = now;
    }

    /// When to look for signs of life next; `None` if the start has taken too long.
    pub(super) fn next_check(&self, now: Instant) -> Option<Instant> {
        let end = (self.alive + self.limit).min(self.started + self.max);
        (now < end).then(|| end.min(now + self.limit / CHECKS))
    }

    /// Describes a start that has taken too long and whose first request is `method`.
    pub(super) fn timeout(&self, method: &'static str, now: Instant) -> StartTimeout {
        let took = Duration::from_secs(now.duration_since(self.started).as_secs());
        let (took, activity) = match (self.alive == self.started, now.duration_since(self.alive) < self.limit) {
            (true, _) => (self.limit, StartActivity::Never),
            (false, true) => (took, StartActivity::UntilEnd),
            (false, false) => (took, StartActivity::Stopped),
        };
        StartTimeout { method, took, activity }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    /// The duration of a start whose server shows signs of life for `alive_for`.
    fn lasts(limit: Duration, alive_for: Duration) -> (Duration, String) {
        let start = Instant::now();
        let (mut timer, mut now) = (StartLimit::new(limit, start), start);
        while let Some(look) = timer.next_check(now) {
            now = look;
            if now - start <= alive_for {
                timer.note_life(now);
            }
        }
        (now - start, timer.timeout("initialize", now).to_string())
    }

    #[test]
    fn silent_start_ends_at_its_limit() {
        assert_eq!(
            lasts(LIMIT, Duration::ZERO),
            (LIMIT, "did not answer `initialize` within 30s (`handshake_timeout`)".to_owned())
        );
    }

    #[test]
    fn start_that_falls_silent_ends_one_limit_later() {
        let (lasted, reason) = lasts(LIMIT, Duration::from_secs(90));
        assert_eq!(lasted, Duration::from_secs(120));
        assert_eq!(
            reason,
            "did not answer `initialize` within 2m, and its start makes no more progress (`handshake_timeout`)"
        );
    }

    #[test]
    fn start_that_never_falls_silent_ends_after_five_minutes() {
        let (lasted, reason) = lasts(LIMIT, Duration::MAX);
        assert_eq!((lasted, &*reason), (MAX_START, "was still starting after 5m, the maximum"));
        assert_eq!(lasts(2 * MAX_START, Duration::MAX).0, 2 * MAX_START);
    }

    #[test]
    fn runner_has_five_minutes_after_each_sign_of_life_and_half_an_hour_in_all() {
        let lasts = |alive_for: Duration| {
            let start = Instant::now();
            let (mut timer, mut now) = (StartLimit::of_runner(LIMIT, start), start);
            while let Some(look) = timer.next_check(now) {
                now = look;
                if now - start <= alive_for {
                    timer.note_life(now);
                }
            }
            now - start
        };
        assert_eq!(lasts(Duration::ZERO), RUNNER_LIMIT);
        assert_eq!(lasts(2 * RUNNER_LIMIT), 3 * RUNNER_LIMIT);
        assert_eq!(lasts(Duration::MAX), MAX_DOWNLOAD);
    }

    proptest! {
        #[test]
        fn start_lasts_at_least_its_limit_and_is_bounded(limit in 1_u64..1_000_000, alive_for in 0_u64..1_000_000) {
            let limit = Duration::from_millis(limit);
            let (lasted, _) = lasts(limit, Duration::from_millis(alive_for));
            prop_assert!(lasted >= limit && lasted <= limit.max(MAX_START));
        }
    }
}
