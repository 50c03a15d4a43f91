//! One attempt to run an instance: a process with its stderr, or a connection to a URL.
//!
//! A download that was cut off is removed from the private cache of a server at level `files`, once. The server can replace everything below
//! its private directory by links. So the directory that it names is opened from the private directory on without following links, and
//! removed through that descriptor.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use super::{AbortOnDrop, ServerTask, secrets};
use crate::config::known_commands::half_written_cache;
use crate::config::{Address, Program, Remote, Secrets};
use crate::net::client::{self, Owner};
use crate::oauth::Login;
use crate::server::error::ServerError;
use crate::server::launch_spec::LaunchSpec;
use crate::server::lifecycle::{Event, State};
use crate::server::link::Link;
use crate::server::process::cgroup::{Cgroup, Enforcement, LimitKey};
use crate::server::process::{self, Activity, Pipes, Process, SpawnError, SpawnedProcess, StderrBytes};
use crate::server::sandbox::probe::user_namespaces_limit_tasks;
use crate::server::sandbox::{Plan, Restrictions, Unenforceable};
use crate::server::start_error::StartError;
use crate::server::start_permit::StartPermit;
use crate::server::subtree::pid_and_descendants;
use crate::transport::http::HttpConnection;

/// Time to read the remaining stderr of an ended server.
const LAST_STDERR: Duration = Duration::from_millis(200);
/// Time for a guard to report that its server runs.
const SPAWN_TIMEOUT: Duration = Duration::from_secs(10);

impl ServerTask {
    /// Starts the program, serves the instance, and ends it. It is reached by its pipes, or at the URL `remote`. Returns the event for the
    /// lifecycle.
    pub(super) async fn one_process(
        &mut self,
        program: &Program,
        remote: Option<&Remote>,
        permit: StartPermit,
    ) -> Event {
        let secrets = program.secrets.clone();
        if let Some(remote) = remote
            && let Some(error) = self.handling_commands_until(occupied(remote)).await
        {
            return Event::Ended(error);
        }
        let plan = match self.plan_sandbox(program).await {
            Ok(plan) => plan,
            Err(error) => return self.not_started(SpawnError::Error(StartError::Unenforceable(error))),
        };
        let context = &self.context;
        let private = plan.restrictions.as_ref().and_then(Restrictions::private).map(Path::to_owned);
        let mut spec = process::launch_spec(program, context.inherited, plan.restrictions, own_env());
        let (guard, reaper, cgroups) = (context.guard.clone(), context.reaper.clone(), context.cgroups.clone());
        let config = Arc::clone(&self.config);
        // The guard, and `init`.
        let making = cgroups.create(&config, 1 + usize::from(spec.has_namespaces()));
        let (cgroup, enforcement) = self.handling_commands_until(making).await;
        let spawning =
            timeout(SPAWN_TIMEOUT, process::spawn(&guard, &reaper, &spec, cgroup.as_ref(), remote.is_some()));
        let mut spawned = match self.unless_stopped(spawning).await {
            Some(Ok(Ok(spawned))) => spawned,
            Some(Ok(Err(error))) => return self.not_started(error),
            Some(Err(_)) => return Event::Ended(ServerError::GuardSilent),
            None => return self.apply_stop(),
        };
        self.publisher.update(|published| {
            published.guard_pid = spawned.guard_pid();
            published.sandbox = Some(plan.report);
        });
        let recorded = |guard| self.context.guards.record(guard, Arc::clone(&self.config));
        let _guard_entry = spawned.guard_pid().map(recorded);
        self.limit(&mut spawned, cgroup, enforcement, &mut spec).await;
        let started = self.unless_stopped(timeout(SPAWN_TIMEOUT, spawned.start(&spec))).await;
        drop(spec);
        match started {
            Some(Ok(Ok(pid))) => {
                let event = self.running(spawned, pid, secrets, remote, permit).await;
                self.clear_private_cache(private).await;
                event
            }
            failed => {
                self.handling_commands_until(spawned.kill()).await;
                match failed {
                    Some(Ok(Err(error))) => self.not_started(error),
                    Some(_) => Event::Ended(ServerError::GuardSilent),
                    None => self.apply_stop(),
                }
            }
        }
    }

    /// Serves the instance of a process that was started, and ends it.
    async fn running(
        &mut self,
        spawned: SpawnedProcess,
        pid: u32,
        secrets: Secrets,
        remote: Option<&Remote>,
        permit: StartPermit,
    ) -> Event {
        self.publisher.update(|published| published.pid = Some(pid));
        self.last_process.note_start(pid);
        let (stderr_bytes, root) = (StderrBytes::default(), spawned.guard_pid().unwrap_or(pid));
        let activity = Activity::new(root, Arc::clone(&stderr_bytes), self.runner().is_some());
        let (process, Pipes { stdin, stdout, stderr }) = spawned.into_process();
        let drain = self.last_process.stderr().clone().drain(
            stderr,
            pid,
            stderr_bytes,
            (secrets, self.context.secrets.clone()),
        );
        let mut draining = AbortOnDrop(tokio::spawn(drain));
        let event = match remote {
            None => {
                let link = Link::pipes(stdin, stdout, self.message_limit().bytes());
                self.with_link(link, Some((process, activity)), permit).await
            }
            Some(remote) => {
                let event = self.one_listener(remote, root, (process, activity), permit).await;
                // Kept open until now, since some programs end with their stdin.
                drop(stdin);
                event
            }
        };
        // The last lines usually have the reason.
        let _ = self.handling_commands_until(timeout(LAST_STDERR, &mut draining.0)).await;
        event
    }

    /// Moves the server into its cgroup. Its namespaces limit its tasks if the cgroup does not.
    async fn limit(
        &mut self,
        spawned: &mut SpawnedProcess,
        cgroup: Option<Cgroup>,
        mut enforcement: Enforcement,
        spec: &mut LaunchSpec,
    ) {
        let config = Arc::clone(&self.config);
        if let Some(cgroup) = cgroup
            && let Err(missing) = self.handling_commands_until(spawned.enter(&config.name, cgroup)).await
        {
            enforcement = missing;
        }
        let can_otherwise = spec.has_namespaces() && user_namespaces_limit_tasks();
        if can_otherwise && enforcement.enforce_otherwise(LimitKey::TasksMax) {
            spec.tasks_max = config.settings.tasks_max.max;
        }
        self.context.cgroups.warn_once(&enforcement);
        self.publisher.update(|published| published.limits = Some(enforcement));
    }

    /// The event of a server that did not start. Secrets are masked.
    fn not_started(&self, error: SpawnError) -> Event {
        Event::Ended(error.masked(|text| self.masked(text)))
    }

    /// Decides what of the server's sandbox is enforced.
    async fn plan_sandbox(&mut self, program: &Program) -> Result<Plan, Unenforceable> {
        let (host, config) = (self.context.sandbox.clone(), Arc::clone(&self.config));
        self.handling_commands_until(host.plan(&config, &program.command)).await
    }
}

/// mcpd's own environment, without variables that are not UTF-8.
fn own_env() -> impl Iterator<Item = (String, String)> {
    std::env::vars_os().filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
}

/// Why the program for this URL must not be started: another process already listens there.
async fn occupied(remote: &Remote) -> Option<ServerError> {
    let (origin, address) = (remote.shown_origin(), Address::parse(&remote.url).ok()?);
    let listener = spawn_blocking(move || client::occupied(&address)).await.ok()??.to_string();
    Some(ServerError::AddressInUse { origin, listener })
}

impl ServerTask {
    /// Serves the instance of a program at its URL, once it listens there, and ends it. `root`: the process above all of its processes. Only
    /// these receive headers.
    async fn one_listener(
        &mut self,
        remote: &Remote,
        root: u32,
        process: (Process, Activity),
        permit: StartPermit,
    ) -> Event {
        let owner = if remote.headers.is_empty() {
            Owner::User
        } else {
            Owner::Processes(Arc::new(move || pid_and_descendants(root)))
        };
        let (clients, max) = (self.context.clients.clone(), self.message_limit().bytes());
        let read_again = secrets::reread(&self.context, &remote.rotating);
        let connecting = async {
            let client = clients.owned(remote, owner).await?;
            HttpConnection::new(remote, client, None, read_again, max).await
        };
        let failed = match self.unless_stopped(Box::pin(connecting)).await {
            Some(Ok(http)) => return self.with_link(Link::Http(Box::new(http)), Some(process), permit).await,
            failed => failed.and_then(Result::err),
        };
        self.handling_commands_until(process.0.kill()).await;
        match failed {
            Some(error) => Event::Ended(error.with_text(|text| self.masked(text)).into()),
            None => self.apply_stop(),
        }
    }

    /// Connects to the server, serves the instance, and ends it. Returns the event for the lifecycle.
    pub(super) async fn one_connection(&mut self, remote: &Remote, permit: StartPermit) -> Event {
        let (clients, max) = (self.context.clients.clone(), self.message_limit().bytes());
        let (name, logins) = (Arc::clone(&self.config.name), self.context.logins.clone());
        let read_again = secrets::reread(&self.context, &remote.rotating);
        let connecting = async {
            let client = clients.get(remote).await?;
            let login = logins.and_then(|logins| Login::of(&name, remote, client.clone(), &logins));
            HttpConnection::new(remote, client, login, read_again, max).await
        };
        // Boxed, as the future of the login is large and short-lived.
        match self.unless_stopped(Box::pin(connecting)).await {
            Some(Ok(http)) => self.with_link(Link::Http(Box::new(http)), None, permit).await,
            Some(Err(error)) => Event::Ended(error.with_text(|text| self.masked(text)).into()),
            None => self.apply_stop(),
        }
    }
}

/// Last lines of stderr that are read, with the maximum length of one and of all.
const LINES: (usize, usize, usize) = (40, 2 << 10, 32 << 10);

impl ServerTask {
    /// Removes what a start that has just failed reports as incomplete, if it lies in the `private` directory.
    pub(super) async fn clear_private_cache(&mut self, private: Option<PathBuf>) {
        let Some(private) = private else { return };
        if self.last_process.has_cleared_cache()
            || self.runner().is_none()
            || !matches!(self.lifecycle.state(), State::Starting)
        {
            return;
        }
        let (count, longest, most) = LINES;
        let lines = self.last_process.stderr().log().last(count, longest, most);
        let Some(incomplete) = half_written_cache(lines.iter().map(String::as_str)) else { return };
        let removing = spawn_blocking(move || remove_below(&private, &incomplete).map(|()| incomplete));
        if let Ok(Ok(removed)) = self.handling_commands_until(removing).await {
            self.last_process.note_cleared_cache();
            tracing::warn!(server = &*self.config.name, "removed an incomplete download: {}", removed.display());
        }
    }
}

/// Removes `directory`, which must lie in the directory `private`, with no symbolic link in between.
pub(crate) fn remove_below(private: &Path, directory: &Path) -> io::Result<()> {
    let private = private.canonicalize()?;
    let outside = || io::Error::from(io::ErrorKind::PermissionDenied);
    let below = directory.strip_prefix(&private).map_err(|_| outside())?;
    let (parent, name) = below.parent().zip(below.file_name()).ok_or_else(outside)?;
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    let parent = openat2(
        File::open(&private)?,
        parent,
        flags,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )?;
    fs::remove_dir_all(Path::new("/proc/self/fd").join(parent.as_raw_fd().to_string()).join(name))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn only_directories_below_the_private_one_are_removed() {
        let place = tempfile::tempdir().expect("a directory");
        let path = |name: &str| place.path().join(name);
        for directory in ["private/cache/npm/_npx/a/b", "private/cache/npm/_npx/c", "outside/_npx/a"] {
            fs::create_dir_all(path(directory)).expect("a directory");
        }
        symlink(path("outside"), path("private/link")).expect("a link");
        symlink(path("outside"), path("private/cache/npm/_npx/link")).expect("a link");
        let removed =
            |name: &str| remove_below(&path("private"), &path(name).canonicalize().unwrap_or_else(|_| path(name)));
        assert!(removed("private/cache/npm/_npx/a").is_ok() && !path("private/cache/npm/_npx/a").exists());
        assert!(remove_below(&path("private"), &path("private/link/_npx/a")).is_err());
        assert!(remove_below(&path("private"), &path("outside/_npx/a")).is_err());
        assert!(remove_below(&path("private"), &path("private/../outside/_npx/a")).is_err());
        let _ = remove_below(&path("private"), &path("private/cache/npm/_npx/link"));
        assert!(path("outside/_npx/a").exists() && path("private/cache/npm/_npx/c").exists());
    }
}
