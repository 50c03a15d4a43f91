//! `mcpd doctor --fix`: shows the changes that solve problems, asks once, and makes them.
//!
//! An edit of the configuration is proposed only if mcpd loads the result with fewer errors, or with none.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::Path;
use std::process::ExitCode;

use rustix::process::geteuid;

use super::finding::{Finding, Fix, Group};
use super::probe::{Daemon, DaemonProbe};
use crate::admin::{self, AdminError, ServerAction};
use crate::cli::config_edit::reads_any;
use crate::cli::reload::{Scope, reload_after_edit};
use crate::cli::style::OutputStyle;
use crate::cli::text::{count, one_line};
use crate::cli::{FAILED, USAGE, diff, fail, prompt, try_print};
use crate::config;
use crate::config::diagnostic::Edit;
use crate::config::edit::Overlay;
use crate::config::edit::file::ConfigFile;
use crate::known_clients::shell_word;
use crate::server::remove_below;
use crate::sockets::ADMIN_SOCKET;

/// All changes.
struct Plan<'f> {
    /// Changes outside of the texts of files, which are made first.
    direct: Vec<(&'f Finding, &'f Fix)>,
    /// The new texts of files, by the path that the configuration has.
    files: BTreeMap<&'f Path, (ConfigFile, String)>,
    /// The edits in these texts, the last one first, each with its diff.
    edits: Vec<(&'f Finding, &'f Edit, String)>,
}

impl Fix {
    /// A fix of what lets others change a file that mcpd reads. Only root may change the owner.
    pub(super) fn of_untrusted(path: &Path) -> Option<Self> {
        let (found, user) = (fs::metadata(path).ok()?, geteuid());
        if !found.is_file() {
            return None;
        }
        match (found.uid() == user.as_raw(), found.mode() & 0o022) {
            (true, 1..) => Some(Self::Mode { path: path.to_owned(), mode: found.mode() & 0o7755 }),
            (false, 0) if user.is_root() => Some(Self::Owner(path.to_owned())),
            _ => None,
        }
    }

    /// The command that does the same; empty for an edit.
    fn command(&self) -> String {
        let word = |path: &Path| shell_word(&path.to_string_lossy()).to_string();
        match self {
            Self::Edit(_) => String::new(),
            Self::Mode { path, mode } => format!("chmod {mode:o} {}", word(path)),
            Self::Owner(path) => format!("chown {} {}", geteuid().as_raw(), word(path)),
            Self::CreateDirectory { path, .. } => format!("mkdir {}", word(path)),
            Self::RemoveDirectory { path, .. } => format!("rm -r {}", word(path)),
        }
    }

    /// Makes the change; an edit is written with its file.
    fn make(&self) -> io::Result<()> {
        match self {
            Self::Edit(_) => Ok(()),
            Self::Mode { path, mode } => fs::set_permissions(path, Permissions::from_mode(*mode)),
            Self::Owner(path) => chown(path, Some(geteuid().as_raw()), None),
            Self::CreateDirectory { path, .. } => fs::create_dir(path),
            Self::RemoveDirectory { path, .. } => remove_below(Path::new("/"), path),
        }
    }
}

/// Shows the changes for `groups`, and makes them after `is_confirmed` or a confirmation. Returns whether all succeeded, `None` without any.
///
/// # Errors
/// The exit code, if it could not ask.
pub(super) async fn run(groups: &[Group], probe: &DaemonProbe, is_confirmed: bool) -> Result<Option<bool>, ExitCode> {
    let plan = Plan::of(groups, probe);
    let changes = plan.direct.len() + plan.edits.len();
    if changes == 0 {
        print_note!("mcpd: there is nothing that `--fix` can change");
        return Ok(None);
    }
    let commands = plan.direct.iter().map(|(_, fix)| format!("$ {}\n", one_line(&fix.command())));
    let diffs = plan.edits.iter().rev().map(|(.., diff)| diff.clone());
    try_print(format!("\n{}", commands.chain(diffs).collect::<String>()))?;
    if !is_confirmed {
        if !prompt::is_possible() {
            return Err(fail(USAGE, "nothing is changed: add `--yes`, or run the command on a terminal to confirm"));
        }
        let question = format!("Make {}?", count(changes, "change"));
        if !prompt::confirm(&question).map_err(|error| fail(FAILED, error))? {
            print_note!("mcpd: nothing is changed");
            return Ok(None);
        }
    }
    Ok(Some(plan.carry_out(probe).await))
}

impl<'f> Plan<'f> {
    fn of(groups: &'f [Group], probe: &DaemonProbe) -> Self {
        let mut plan = Self { direct: Vec::new(), files: BTreeMap::new(), edits: Vec::new() };
        let (mut edits, mut commands) = (Vec::new(), BTreeSet::new());
        for finding in groups.iter().flat_map(|group| &group.findings) {
            match &finding.fix {
                Some(Fix::Edit(edit)) => edits.push((finding, edit)),
                Some(fix) if commands.insert(fix.command()) => plan.direct.push((finding, fix)),
                _ => {}
            }
        }
        // From the end of each file on, so that spans stay valid.
        edits.sort_by_key(|(_, edit)| Reverse((&edit.file.path, edit.span.start)));
        let mut errors = plan.errors(probe, None);
        for (finding, edit) in edits {
            plan.edit(finding, edit, probe, &mut errors);
        }
        plan
    }

    /// The number of errors that the configuration would have with the new texts, and with this one of a file.
    fn errors(&self, probe: &DaemonProbe, last: Option<(&Path, &str)>) -> usize {
        let overlay = self.files.iter().fold(Overlay::new(&probe.sources), |overlay, (path, (file, text))| {
            overlay.with(file.path(), last.filter(|(last, _)| last == path).map_or(text, |(_, text)| text))
        });
        match config::load(&probe.files, &overlay) {
            Ok(_) => 0,
            Err(error) => error.diagnostics().len() + error.unreadable().count(),
        }
    }

    /// Adds an edit if the configuration has fewer `errors` with it, or none. Leaves out a file that has changed since it was read.
    fn edit(&mut self, finding: &'f Finding, edit: &'f Edit, probe: &DaemonProbe, errors: &mut usize) {
        let path = &*edit.file.path;
        // A byte order mark is no part of the text that was read.
        let body = |text: &str| text.trim_start_matches('\u{feff}').len();
        if !self.files.contains_key(path) {
            let file = ConfigFile::open(path).ok().filter(|file| file.text().ends_with(&edit.file.text));
            let Some(file) = file.filter(|file| body(file.text()) == edit.file.text.len()) else { return };
            let text = file.text().to_owned();
            self.files.insert(path, (file, text));
        }
        let old = self.files[path].1.clone();
        let (mark, text) = old.split_at(old.len() - body(&old));
        let new = format!("{mark}{}", edit.apply(text));
        let left = self.errors(probe, Some((path, &new)));
        if left < *errors || left == 0 {
            *errors = left;
            let diff = diff::masked(&old, &new, path, OutputStyle::of_stdout().has_colour());
            self.edits.push((finding, edit, diff));
            self.files.entry(path).and_modify(|(_, text)| *text = new);
        }
    }

    /// Makes the changes, prints which are made, and applies them to a running daemon. Returns whether all succeeded.
    async fn carry_out(self, probe: &DaemonProbe) -> bool {
        let (mut fixed, mut changed, mut servers, mut failed) = (Vec::new(), Vec::new(), BTreeSet::new(), false);
        for (finding, fix) in self.direct {
            match (fix.make(), fix) {
                (Err(error), _) => {
                    fail(FAILED, format!("{}: {error}", fix.command()));
                    failed = true;
                    continue;
                }
                (Ok(()), Fix::CreateDirectory { server, .. } | Fix::RemoveDirectory { server, .. }) => {
                    servers.insert(&**server);
                }
                (Ok(()), Fix::Mode { path, .. } | Fix::Owner(path)) => changed.push(&**path),
                (Ok(()), Fix::Edit(_)) => {}
            }
            fixed.push(finding);
        }
        for (path, (file, text)) in self.files.into_iter().filter(|(_, (file, text))| file.text() != text) {
            match file.write(&text) {
                Ok(()) => changed.push(path),
                Err(error) => {
                    fail(FAILED, error);
                    failed = true;
                }
            }
        }
        let written = self.edits.iter().rev().filter(|(_, edit, _)| changed.contains(&&*edit.file.path));
        fixed.extend(written.map(|(finding, ..)| *finding));
        let line = |finding: &&Finding| format!("fixed {}: {}\n", one_line(&finding.about), one_line(&finding.found));
        let printed = try_print(fixed.iter().map(line).collect::<String>());
        printed.is_ok() && apply_to_daemon(probe, &changed, &servers).await && !failed
    }
}

/// Has a running daemon start `servers` again, and read the `changed` files. Returns whether it did.
async fn apply_to_daemon(probe: &DaemonProbe, changed: &[&Path], servers: &BTreeSet<&str>) -> bool {
    let Some(directory) = probe.directory.as_ref().filter(|_| probe.report().is_some()) else {
        if matches!(probe.daemon, Daemon::Absent) {
            print_note!("mcpd: no daemon runs: {} applies the changes", probe.start());
        }
        return true;
    };
    let applied = async {
        for server in servers {
            admin::control(&directory.socket(ADMIN_SOCKET), ServerAction::Restart, server).await?;
        }
        let is_read = !changed.is_empty() && reads_any(directory, changed).await?;
        if !is_read {
            return Ok(true);
        }
        let reloaded = reload_after_edit(directory, Scope::All, false).await;
        Ok(reloaded.unwrap_or_else(|code| code) == ExitCode::SUCCESS)
    };
    applied.await.unwrap_or_else(|error: AdminError| {
        fail(FAILED, format!("the changes are made, but not applied: {error}"));
        false
    })
}
