//! Opens an instance: chooses its era, performs the handshake and records what that shows about the server.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::time::sleep_until;

use super::ServerTask;
use super::shutdown::{StopReason, disconnected};
use super::start_limit::StartLimit;
use crate::config::{Launch, Remote};
use crate::era::{self, Era, Eras};
use crate::server::era_cache::{EraPreference, EraSupport, Support, has_url, may_split_by_era};
use crate::server::error::{ServerError, StartTimeout};
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
        };
        let mut instance = Instance::new(link, setup);
        let plan = self.eras.died_opening.map_or_else(|| self.handshake_plan(), HandshakePlan::instead_of);
        // Boxed, so that the futures that open and end the instance take no memory while it runs.
        let launch = self.config.launch.as_ref().ok();
        let origin = launch.and_then(Launch::remote).map(Remote::shown_origin);
        let opened = Box::pin(permit.during(open(&mut instance, &mut process, activity, plan, limit, origin)));
        let opened = self.unless_stopped(opened).await;
        self.learn(opened.as_ref(), plan, &instance);
        let end = match opened {
            Some(Ok(_)) if self.needs_both_eras() => {
                if let Link::Http(http) = instance.wire.into_link() {
                    self.handling_commands_until(http.close()).await;
                }
                return Event::Ended(ServerError::HasBothEras);
            }
            Some(Ok(HandshakeResult { info, learned })) => {
                self.publish_start(&info, learned.identities, instance.wire.remote());
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
        Box::pin(self.end(end, instance, process)).await
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
