//! `mcpd service install`: writes missing and outdated files, starts the units, and prints each step. A failed installation restores the former
//! state of the units.
//!
//! If the sandboxed unit does not start, the setting that systemd cannot enforce here is searched: a small unit runs `mcpd --version` with each
//! setting and all earlier ones, because some only work together.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{fs, io};

use super::Install;
use super::manager::{Manager, ServiceError, confirm_linger, enable_linger, shown, user_lingers};
use super::units::{
    Change, ChangeKind, FORMER_PATH_DROP_IN, HARDENED_DROP_IN, UndoableChange, Unit, environment_drop_in,
    hardened_drop_in, hardening, program_argument, units,
};
use crate::admin::report::Report;
use crate::cli::client_entries::this_program;
use crate::cli::diff::unified;
use crate::cli::print;
use crate::cli::service_env::{self, LoginEnvironment, launchers};
use crate::cli::terminal::with_spinner;
use crate::config::interpolate::Process;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::systemctl::{SERVICE, SOCKET};
use crate::{admin, autostart, config};

pub(super) async fn run(directory: &RuntimeDir, options: &Install) -> Result<ExitCode, ServiceError> {
    let plan = Plan::make(directory, Manager::find(directory).await?, options).await?;
    if options.dry_run {
        return Ok(plan.show());
    }
    plan.carry_out(options).await.map(|()| ExitCode::SUCCESS)
}

struct Plan<'a> {
    directory: &'a RuntimeDir,
    manager: Manager<'a>,
    program: String,
    changes: Vec<Change>,
    /// The sandbox drop-in that a person has edited, without `--hardened`: it stays as it is.
    edited_hardening: Option<PathBuf>,
    login: LoginEnvironment,
    /// The packaged unit, if mcpd runs by that.
    packaged: Option<PathBuf>,
    /// The daemon that runs now.
    running: Option<Report>,
    state: State,
}

/// The state of the units in systemd.
struct State {
    service_runs: bool,
    socket_listens: bool,
    /// The files have changed since systemd read them.
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
    async fn make(directory: &'a RuntimeDir, manager: Manager<'a>, options: &Install) -> Result<Self, ServiceError> {
        let program = this_program().ok_or(ServiceError::Lacking("the path of this executable is not UTF-8"))?;
        // A configuration that is not valid is reported when the daemon refuses it.
        let loaded = config::load(&[], &Process).ok();
        let login = with_spinner(|| "the login shell".to_owned(), service_env::of_login(loaded.as_ref())).await;
        let without_home = "HOME is not set, so the unit's variables cannot be saved: `export HOME=DIR`";
        let variables = service_env::file().ok_or(ServiceError::Lacking(without_home))?;
        let variables_text =
            variables.to_str().ok_or(ServiceError::Lacking("the path of the state directory is not UTF-8"))?;
        let place = manager.directory();
        let packaged = manager.packaged(SERVICE).filter(|_| !place.join(SERVICE).exists());
        let mut texts: Vec<Unit> = if packaged.is_some() { Vec::new() } else { units(&program).into() };
        texts.push(environment_drop_in(variables_text));
        let mut edited_hardening = None;
        if !options.no_hardened && (options.hardened || place.join(HARDENED_DROP_IN).exists()) {
            let present = Change::plan(&place, hardened_drop_in());
            let is_ours = present.is_ok_and(|change| change.kind != ChangeKind::Foreign);
            // The comments in it tell people to remove settings that break their servers.
            match options.hardened || is_ours {
                true => texts.push(hardened_drop_in()),
                false => edited_hardening = Some(place.join(HARDENED_DROP_IN)),
            }
        }
        let changes = texts.into_iter().map(|unit| Change::plan(&place, unit));
        let mut changes = changes.collect::<io::Result<Vec<_>>>()?;
        // If the shell does not answer, the file of an earlier answer stays.
        if login.trouble.is_none() || !variables.exists() {
            let text = service_env::text(&login.variables);
            changes.push(Change::private(variables, text)?);
        }
        changes.extend(Change::removal(&place, FORMER_PATH_DROP_IN));
        if options.no_hardened {
            changes.extend(Change::removal(&place, HARDENED_DROP_IN));
        }
        let running = admin::status(&directory.socket(ADMIN_SOCKET)).await.ok();
        let state = State::of(&manager).await;
        Ok(Self { directory, manager, program, changes, edited_hardening, login, packaged, running, state })
    }

    /// The `systemctl` commands that enable and start the units, or restart an outdated daemon.
    fn jobs(&self) -> Vec<Vec<&'static str>> {
        let changed = self.state.is_stale || self.changes.iter().any(Change::is_due);
        let is_old = self.running.as_ref().is_some_and(|running| running.version != env!("CARGO_PKG_VERSION"));
        let mut jobs = Vec::new();
        if changed {
            jobs.push(vec!["daemon-reload"]);
        }
        jobs.push(vec!["enable", SOCKET, SERVICE]);
        match (self.state.service_runs, self.state.socket_listens) {
            // A daemon that systemd did not start holds the lock.
            (false, _) if self.running.is_some() => {}
            (true, true) if changed || is_old => jobs.push(vec!["restart", SERVICE]),
            // systemd does not open a socket for a running service.
            (true, false) => jobs.extend([vec!["stop", SERVICE], vec!["start", SOCKET, SERVICE]]),
            // Waits, too, if systemd is about to start it or does so after a failure.
            _ => jobs.push(vec!["start", SOCKET, SERVICE]),
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
        print(text)
    }

    fn difference(&self, change: &Change) -> String {
        if change.is_private {
            let lines = self.login.summary().into_iter().map(|(what, names)| format!("# {what} {names}\n"));
            return format!("# {}, mode 0600\n{}", shown(&change.path), lines.collect::<String>());
        }
        let old = std::fs::read_to_string(&change.path).unwrap_or_default();
        unified(&old, change.text.as_deref().unwrap_or_default(), &change.path, false)
    }

    async fn carry_out(self, options: &Install) -> Result<(), ServiceError> {
        if let Some(packaged) = &self.packaged {
            line("uses", &format!("{}, which came with a package", packaged.display()));
        }
        let former = FormerState::of(&self.manager, self.state.service_runs, self.state.socket_listens).await;
        let mut applied = Vec::new();
        for change in self.changes.iter().filter(|change| change.is_due()) {
            match change.apply() {
                Ok(done) => applied.push(done),
                Err(error) => return Err(former.restore(&self.manager, applied, error).await),
            }
        }
        for change in &self.changes {
            line(verb(change), &shown(&change.path));
        }
        if let Some(path) = &self.edited_hardening {
            line("left", &format!("{}, which somebody has changed; `--hardened` replaces it", shown(path)));
        }
        self.print_environment();
        let started = self.run_jobs().await;
        if let (Err(why), true) = (&started, self.hardens()) {
            let why = self.explain(why).await;
            return Err(former.restore(&self.manager, applied, why).await);
        }
        for backup in applied.into_iter().filter_map(UndoableChange::commit) {
            let advice = "your edited file; use `systemctl --user edit mcpd` to save changes in a file of their own";
            line("aside", &format!("{}: {advice}", shown(&backup)));
        }
        started.map_err(|why| {
            ServiceError::NotStarted(format!("{why}\n  run `journalctl --user --unit mcpd` to see its log"))
        })?;
        self.set_linger(options).await;
        if let Some(by_hand) = self.running.as_ref().filter(|_| !self.state.service_runs) {
            return Err(ServiceError::RunsByHand(by_hand.pid));
        }
        let status = self.manager.show(SERVICE, "StatusText,MainPID").await;
        let get = |name: &str| status.get(name).map_or("", String::as_str);
        line("serves", &format!("pid {}: {}", get("MainPID"), get("StatusText")));
        Ok(())
    }

    async fn run_jobs(&self) -> Result<(), ServiceError> {
        // Earlier failed starts count against the start limit. This fails for a unit that is not loaded, which has no limit.
        for unit in [SERVICE, SOCKET] {
            let _ = self.manager.run(&["reset-failed", unit]).await;
        }
        for job in &self.jobs() {
            if let Err(error) = self.manager.run(job).await {
                let why = autostart::failure_of_unit(self.directory).await;
                return Err(why.map_or(error, ServiceError::NotStarted));
            }
            line("ran", &format!("systemctl --user {}", job.join(" ")));
        }
        Ok(())
    }

    /// Whether this installation adds or changes the sandbox.
    fn hardens(&self) -> bool {
        let mut due = self.changes.iter().filter(|change| change.is_due() && change.text.is_some());
        due.any(|change| change.path.ends_with(HARDENED_DROP_IN))
    }

    /// Why the sandboxed unit does not start: `failure`, and the setting that causes it.
    async fn explain(&self, failure: &ServiceError) -> String {
        let what = || "finding the setting that systemd cannot enforce".to_owned();
        let setting = with_spinner(what, find_unenforceable(&self.manager, self.directory, &self.program)).await;
        let setting = setting.map(|setting| format!("\n  systemd cannot enforce `{setting}` here")).unwrap_or_default();
        format!("mcpd does not start with --hardened: {failure}{setting}")
    }

    fn print_environment(&self) {
        if let Some(trouble) = &self.login.trouble {
            line("", &format!("this program's environment, because {trouble}"));
        }
        self.login.summary().iter().for_each(|(what, names)| line(what, names));
        let path = self.login.variables.get("PATH").map_or("", String::as_str);
        line("PATH", path);
        launchers(path).iter().for_each(|found| line("", found));
    }

    /// Enables lingering if requested or confirmed, and prints the result.
    async fn set_linger(&self, options: &Install) {
        let is_on = user_lingers().await;
        if is_on == Some(true) {
            line("lingers", "mcpd also runs while you are not logged in");
        } else if options.linger || !options.no_linger && is_on.is_some() && confirm_linger() {
            match enable_linger().await {
                Ok(()) => line("ran", "loginctl enable-linger"),
                Err(why) => print_note!("mcpd: loginctl enable-linger: {why}"),
            }
        } else {
            line("", "mcpd runs while you are logged in; to run it always: `loginctl enable-linger`");
        }
    }
}

fn verb(change: &Change) -> &'static str {
    match (change.kind, &change.text) {
        (ChangeKind::Same, _) => "kept",
        (_, None) => "removed",
        (ChangeKind::New, _) => "wrote",
        (ChangeKind::Update | ChangeKind::Foreign, _) => "renewed",
    }
}

/// Prints one step.
pub(super) fn line(verb: &str, what: &str) {
    // A closed pipe must not stop the installation half-way.
    let _ = print(format!("{verb:8} {what}\n"));
}

const UNITS: [&str; 2] = [SOCKET, SERVICE];

/// For each of [`UNITS`], whether it was enabled and active.
struct FormerState {
    enabled: [bool; 2],
    active: [bool; 2],
}

impl FormerState {
    async fn of(manager: &Manager<'_>, service_runs: bool, socket_listens: bool) -> Self {
        let mut enabled = [false; 2];
        for (unit, enabled) in UNITS.iter().zip(&mut enabled) {
            let state = manager.show(unit, "UnitFileState").await;
            *enabled = state.get("UnitFileState").is_some_and(|state| state.starts_with("enabled"));
        }
        Self { enabled, active: [socket_listens, service_runs] }
    }

    /// Restores the files and restarts the units that ran. Returns `why` with the result.
    async fn restore(self, manager: &Manager<'_>, applied: Vec<UndoableChange>, why: impl Display) -> ServiceError {
        let units = |states: [bool; 2], state: bool| {
            UNITS.into_iter().zip(states).filter(move |(_, one)| *one == state).map(|(unit, _)| unit)
        };
        // New units have to be disabled before their files are removed. This fails for a unit that systemd does not know.
        for (words, unit) in units(self.active, false)
            .map(|unit| ("stop", unit))
            .chain(units(self.enabled, false).map(|unit| ("disable", unit)))
        {
            let _ = manager.run(&[words, unit]).await;
        }
        for result in applied.into_iter().rev().map(UndoableChange::undo) {
            if let Err(error) = result {
                return ServiceError::NotStarted(format!("{why}\n  a former unit could not be restored: {error}"));
            }
        }
        let _ = manager.run(&["daemon-reload"]).await;
        for unit in UNITS {
            let _ = manager.run(&["reset-failed", unit]).await;
        }
        let start: Vec<_> = ["start"].into_iter().chain(units(self.active, true)).collect();
        let restored = match start.len() {
            1 => "nothing was installed, and nothing runs, as before".to_owned(),
            _ => match manager.run(&start).await {
                Ok(()) => "the former units are restored and run".to_owned(),
                Err(error) => format!("the former units are restored, but do not start either: {error}"),
            },
        };
        ServiceError::NotStarted(format!("{why}\n  {restored}"))
    }
}

/// The first setting with which systemd does not run `program`.
async fn find_unenforceable(manager: &Manager<'_>, directory: &RuntimeDir, program: &str) -> Option<String> {
    // systemd also searches this directory, which is removed at logout.
    let place = directory.session()?.join("systemd/user");
    let probes = Probes::write(&place, &program_argument(program)).ok()?;
    manager.run(&["daemon-reload"]).await.ok()?;
    let mut found = None;
    for (unit, setting) in &probes.0 {
        let name = unit.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if manager.run(&["start", name]).await.is_err() {
            let _ = manager.run(&["reset-failed", name]).await;
            found = Some(setting.clone());
            break;
        }
    }
    drop(probes);
    let _ = manager.run(&["daemon-reload"]).await;
    found
}

/// Unit files, each with its last setting. Dropping this removes them.
struct Probes(Vec<(PathBuf, String)>);

impl Probes {
    fn write(place: &Path, program: &str) -> io::Result<Self> {
        fs::create_dir_all(place)?;
        let (mut probes, mut settings) = (Self(Vec::new()), String::new());
        for setting in hardening() {
            settings += &format!("{setting}\n");
            let unit = format!(
                "[Service]\nType=oneshot\nExecStart={program} --version\nStandardOutput=null\nStandardError=null\n{settings}"
            );
            let path = place.join(format!("mcpd-probe-{}-{}.service", std::process::id(), probes.0.len()));
            probes.0.push((path.clone(), setting.to_owned()));
            fs::write(path, unit)?;
        }
        Ok(probes)
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        for (path, _) in &self.0 {
            let _ = fs::remove_file(path);
        }
    }
}
