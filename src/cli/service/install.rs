//! `mcpd service install`: write what is not there or out of date, then have it run; each step is said.

use std::path::PathBuf;
use std::process::ExitCode;

use super::files::{Change, Kind};
use super::manager::{Manager, shown};
use super::path::{self, FoundPath};
use super::units::{HARDENED_DROP_IN, Unit, hardened_drop_in, path_drop_in, units};
use super::{Install, linger};
use crate::admin::{self, report::Report};
use crate::cli::connect_print::this_program;
use crate::cli::import::diff::unified;
use crate::cli::waiting::waiting;
use crate::cli::{FAILED, RESTART, fail, say};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::{SERVICE, SOCKET};

pub(super) async fn run(directory: &RuntimeDir, wanted: &Install) -> ExitCode {
    let found = match Manager::find(directory).await {
        Ok(manager) => Plan::make(directory, manager, wanted).await,
        Err(why) => Err(why),
    };
    let plan = match found {
        Ok(plan) => plan,
        Err(why) => return fail(FAILED, why),
    };
    if wanted.dry_run {
        return plan.show();
    }
    if !wanted.force && plan.changes.iter().any(|change| change.kind == Kind::Foreign) {
        return plan.refuse();
    }
    match plan.carry_out(wanted).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => fail(FAILED, why),
    }
}

/// What is to be done, and what is known.
struct Plan<'a> {
    manager: Manager<'a>,
    changes: Vec<Change>,
    path: FoundPath,
    /// The unit that came with a package, if that is the one to run.
    packaged: Option<PathBuf>,
    /// The daemon that serves now.
    running: Option<Report>,
    state: State,
}

/// What systemd says of the units.
struct State {
    service_runs: bool,
    socket_listens: bool,
    /// systemd has not read what is on disk: nor does the service run by it.
    is_stale: bool,
}

impl State {
    async fn of(manager: &Manager<'_>) -> Self {
        let is = |state: &str| matches!(state, "active" | "reloading" | "activating");
        let service = manager.show(SERVICE, "ActiveState,NeedDaemonReload").await;
        let socket = manager.show(SOCKET, "ActiveState").await;
        let is_stale = service.get("NeedDaemonReload").is_some_and(|needs| needs == "yes");
        let [service_runs, socket_listens] =
            [service, socket].map(|unit| unit.get("ActiveState").is_some_and(|state| is(state)));
        Self { service_runs, socket_listens, is_stale }
    }
}

impl<'a> Plan<'a> {
    async fn make(directory: &RuntimeDir, manager: Manager<'a>, wanted: &Install) -> Result<Self, String> {
        let program = this_program().ok_or("the path of this executable is no text")?;
        let path = waiting(|| "the login shell".to_owned(), path::of_login()).await;
        let place = manager.directory();
        let packaged = manager.packaged(SERVICE).filter(|_| !place.join(SERVICE).exists());
        let mut texts: Vec<Unit> = if packaged.is_some() { Vec::new() } else { units(&program).into() };
        texts.push(path_drop_in(&path.path));
        if wanted.hardened || place.join(HARDENED_DROP_IN).exists() {
            texts.push(hardened_drop_in());
        }
        let changes = texts.into_iter().map(|unit| Change::plan(&place, unit)).collect::<Result<_, _>>();
        let changes = changes.map_err(|error| error.to_string())?;
        let running = admin::status(&directory.socket(ADMIN_SOCKET)).await.ok();
        let state = State::of(&manager).await;
        Ok(Self { manager, changes, path, packaged, running, state })
    }

    /// The commands that start what is not started, and whether that begins a running daemon anew.
    fn jobs(&self) -> Vec<Vec<&'static str>> {
        let changed = self.state.is_stale || self.changes.iter().any(Change::is_due);
        let is_old = self.running.as_ref().is_some_and(|running| running.version != env!("CARGO_PKG_VERSION"));
        let mut jobs = Vec::new();
        if changed {
            jobs.push(vec!["daemon-reload"]);
        }
        jobs.push(vec!["enable", SOCKET, SERVICE]);
        match (self.state.service_runs, self.state.socket_listens) {
            // Somebody else's daemon holds the lock.
            (false, _) if self.running.is_some() => {}
            (true, true) if changed || is_old => jobs.push(vec!["restart", SERVICE]),
            (true, true) => {}
            // systemd does not open a socket for a service that runs.
            (true, false) => jobs.extend([vec!["stop", SERVICE], vec!["start", SOCKET, SERVICE]]),
            (false, _) => jobs.push(vec!["start", SOCKET, SERVICE]),
        }
        jobs
    }

    fn show(&self) -> ExitCode {
        let mut text = String::new();
        for change in self.changes.iter().filter(|change| change.is_due()) {
            text += &self.difference(change);
        }
        for job in self.jobs() {
            text += &format!("systemctl --user {}\n", job.join(" "));
        }
        say(text)
    }

    fn difference(&self, change: &Change) -> String {
        let old = std::fs::read_to_string(&change.path).unwrap_or_default();
        unified(&old, &change.text, &change.path, false)
    }

    /// What a person has written stays.
    fn refuse(&self) -> ExitCode {
        for change in self.changes.iter().filter(|change| change.kind == Kind::Foreign) {
            let said = say(self.difference(change));
            if said != ExitCode::SUCCESS {
                return said;
            }
            tell!("mcpd: {} was written or changed by somebody else", shown(&change.path));
        }
        fail(FAILED, "nothing has been changed; `--force` writes over them, as shown")
    }

    async fn carry_out(self, wanted: &Install) -> Result<(), String> {
        if let Some(packaged) = &self.packaged {
            line("uses", &format!("{}, which came with a package", packaged.display()));
        }
        for change in &self.changes {
            if change.is_due() {
                change.write().map_err(|error| error.to_string())?;
            }
            let done = match change.kind {
                Kind::New => "wrote",
                Kind::Same => "kept",
                Kind::Renewed | Kind::Foreign => "renewed",
            };
            line(done, &shown(&change.path));
        }
        self.tell_path();
        let jobs = self.jobs();
        // Starts that failed before count against the start limit of this one. A unit that is not loaded has none.
        for unit in [SERVICE, SOCKET] {
            let _ = self.manager.run(&["reset-failed", unit]).await;
        }
        for job in &jobs {
            self.manager.run(job).await.map_err(|why| why + "\n  see `journalctl --user --unit mcpd`")?;
            line("ran", &format!("systemctl --user {}", job.join(" ")));
        }
        self.tell_linger(wanted).await;
        if let Some(by_hand) = self.running.as_ref().filter(|_| !self.state.service_runs) {
            let pid = by_hand.pid;
            return Err(format!("a daemon that systemd has not started serves already, pid {pid}: {RESTART}"));
        }
        let status = self.manager.show(SERVICE, "StatusText,MainPID").await;
        let get = |name: &str| status.get(name).map_or("", String::as_str);
        line("serves", &format!("pid {}: {}", get("MainPID"), get("StatusText")));
        Ok(())
    }

    fn tell_path(&self) {
        if let Some(trouble) = &self.path.trouble {
            line("PATH", &format!("this one's, since {trouble}"));
        }
        line("PATH", &self.path.path);
        path::launchers(&self.path.path).iter().for_each(|found| line("", found));
    }

    async fn tell_linger(&self, wanted: &Install) {
        let is_on = linger::is_on().await;
        if is_on == Some(true) {
            line("lingers", "mcpd also runs while you are not logged in");
        } else if wanted.linger || !wanted.no_linger && is_on.is_some() && linger::is_wanted() {
            match linger::turn_on().await {
                Ok(()) => line("ran", "loginctl enable-linger"),
                Err(why) => tell!("mcpd: loginctl enable-linger: {why}"),
            }
        } else {
            line("", "mcpd runs while you are logged in; `loginctl enable-linger` has it run always");
        }
    }
}

/// One thing that was done.
pub(super) fn line(done: &str, what: &str) {
    // A reader that has seen enough is no failure, and no reason to stop half-way.
    let _ = say(format!("{done:8} {what}\n"));
}
