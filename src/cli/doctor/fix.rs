//! `mcpd doctor --fix`: shows the changes that solve problems, asks once, and makes them.
//!
//! An edit of the configuration is proposed only if mcpd loads the result with fewer errors, or with none.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::io::{self, IsTerminal, stderr, stdin};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use rustix::process::geteuid;

use super::finding::{Finding, Group};
use super::probe::{Daemon, DaemonProbe};
use crate::admin::{self, ServerAction};
use crate::cli::config_edit::reads_any;
use crate::cli::import::{diff, prompt};
use crate::cli::reload::{self, Scope};
use crate::cli::style::OutputStyle;
use crate::cli::text::one_line;
use crate::cli::{FAILED, USAGE, fail, try_print};
use crate::config;
use crate::config::diagnostic::{Correction, Edit};
use crate::config::edit::Overlay;
use crate::config::edit::file::ConfigFile;
use crate::known_clients::shell_word;
use crate::server::remove_below;
use crate::sockets::ADMIN_SOCKET;

/// What solves the problem of a finding.
#[derive(Debug, Clone)]
pub(super) enum Fix {
    Edit(Edit),
    Mode {
        path: PathBuf,
        mode: u32,
    },
    /// Makes this user the owner.
    Owner(PathBuf),
    CreateDirectory(PathBuf),
    /// Removes what a download has left, if no part of the path is a symbolic link.
    RemoveDirectory(PathBuf),
}

/// All changes. They are made in the order of the fields.
struct Plan<'f> {
    /// Changes outside of the texts of files.
    direct: Vec<(&'f Finding, &'f Fix)>,
    edited: Vec<EditedFile>,
    edits: Vec<&'f Finding>,
    /// One diff for each edit, the last one first.
    diffs: Vec<String>,
}

struct EditedFile {
    /// The path as the configuration has it.
    path: PathBuf,
    file: ConfigFile,
    text: String,
}

impl From<Correction> for Fix {
    fn from(correction: Correction) -> Self {
        match correction {
            Correction::Edit(edit) => Self::Edit(edit),
            Correction::MakePrivate(path) => Self::Mode { path, mode: 0o600 },
        }
    }
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

    /// The command that does the same; `None` for an edit.
    fn command(&self) -> Option<String> {
        let word = |path: &Path| shell_word(&path.to_string_lossy()).to_string();
        Some(match self {
            Self::Edit(_) => return None,
            Self::Mode { path, mode } => format!("chmod {mode:o} {}", word(path)),
            Self::Owner(path) => format!("chown {} {}", geteuid().as_raw(), word(path)),
            Self::CreateDirectory(path) => format!("mkdir {}", word(path)),
            Self::RemoveDirectory(path) => format!("rm -r {}", word(path)),
        })
    }

    fn apply(&self) -> io::Result<()> {
        match self {
            Self::Edit(_) => Ok(()),
            Self::Mode { path, mode } => fs::set_permissions(path, Permissions::from_mode(*mode)),
            Self::Owner(path) => chown(path, Some(geteuid().as_raw()), None),
            Self::CreateDirectory(path) => fs::create_dir(path),
            Self::RemoveDirectory(path) => remove_below(Path::new("/"), path),
        }
    }

    /// Whether its server has to be started again.
    fn needs_restart(&self) -> bool {
        matches!(self, Self::CreateDirectory(_) | Self::RemoveDirectory(_))
    }
}

/// Shows the changes for `groups`, and makes them after `is_confirmed` or a confirmation. Returns whether anything was changed.
///
/// # Errors
/// The exit code, if nothing was changed.
pub(super) async fn run(
    groups: &[Group],
    probe: &DaemonProbe,
    is_confirmed: bool,
) -> Result<Option<ExitCode>, ExitCode> {
    let plan = Plan::of(groups, probe);
    let changes = plan.direct.len() + plan.edits.len();
    if changes == 0 {
        print_note!("mcpd: there is nothing that `--fix` can change");
        return Ok(None);
    }
    try_print(plan.preview())?;
    if !is_confirmed {
        if !stdin().is_terminal() || !stderr().is_terminal() {
            return Err(fail(USAGE, "nothing is changed: add `--yes`, or run the command on a terminal to confirm"));
        }
        let question = format!(
            "Make {}?",
            if changes == 1 { "this change".to_owned() } else { format!("these {changes} changes") }
        );
        if !prompt::confirm(&question).map_err(|error| fail(FAILED, error))? {
            print_note!("mcpd: nothing is changed");
            return Ok(None);
        }
    }
    Ok(Some(plan.apply(probe).await))
}

impl<'f> Plan<'f> {
    fn of(groups: &'f [Group], probe: &DaemonProbe) -> Self {
        let findings = groups.iter().flat_map(|group| &group.findings);
        let fixes = findings.filter_map(|finding| Some((finding, finding.fix.as_ref()?)));
        let (mut direct, mut edits, mut commands) = (Vec::new(), Vec::new(), BTreeSet::new());
        for (finding, fix) in fixes {
            match fix {
                Fix::Edit(edit) => edits.push((finding, edit)),
                fix if commands.insert(fix.command()) => direct.push((finding, fix)),
                _ => {}
            }
        }
        let mut plan = Self { direct, edited: Vec::new(), edits: Vec::new(), diffs: Vec::new() };
        plan.add_edits(edits, probe);
        plan
    }

    /// Adds those edits with which the configuration has fewer errors. From the end of each file on, so that spans stay valid.
    fn add_edits(&mut self, mut edits: Vec<(&'f Finding, &'f Edit)>, probe: &DaemonProbe) {
        edits.sort_by_key(|(_, edit)| Reverse((edit.file.path.clone(), edit.span.start)));
        let errors = |overlay: &Overlay<'_>| match config::load(&probe.files, overlay) {
            Ok(_) => 0,
            Err(error) => error.diagnostics().len() + error.unreadable().count(),
        };
        let mut before = errors(&Overlay::new(&probe.sources));
        let colour = OutputStyle::of_stdout().has_colour();
        for (finding, edit) in edits {
            let Some(index) = self.file_of(edit) else { continue };
            let EditedFile { path, text: old, .. } = &self.edited[index];
            // A byte order mark is no part of the text that was read.
            let (mark, body) = old.split_at(old.len() - old.trim_start_matches('\u{feff}').len());
            let new = format!("{mark}{}", edit.apply(body));
            let files = self.edited.iter().enumerate();
            let overlay = files.fold(Overlay::new(&probe.sources), |overlay, (at, edited)| {
                overlay.with(edited.file.path(), if at == index { &new } else { &edited.text })
            });
            let after = errors(&overlay);
            if after < before || after == 0 {
                let [shown_old, shown_new] = [old, &new].map(|text| config::masked(path, text));
                self.diffs.push(diff::unified(&shown_old, &shown_new, path, colour));
                self.edited[index].text = new;
                self.edits.push(finding);
                before = after;
            }
        }
    }

    /// The index of the file that `edit` is for. `None` if the file has changed since.
    fn file_of(&mut self, edit: &Edit) -> Option<usize> {
        let path = &edit.file.path;
        if let Some(index) = self.edited.iter().position(|edited| edited.path == *path) {
            return Some(index);
        }
        let file =
            ConfigFile::open(path).ok().filter(|file| file.text().trim_start_matches('\u{feff}') == edit.file.text)?;
        let text = file.text().to_owned();
        self.edited.push(EditedFile { path: path.clone(), file, text });
        Some(self.edited.len() - 1)
    }

    /// The commands, and the diffs.
    fn preview(&self) -> String {
        let commands = self.direct.iter().filter_map(|(_, fix)| fix.command());
        let commands: String = commands.map(|command| format!("$ {}\n", one_line(&command))).collect();
        let diffs: String = self.diffs.iter().rev().map(String::as_str).collect();
        format!("\n{commands}{diffs}")
    }

    /// Makes the changes, prints the result of each, and applies them to a running daemon.
    async fn apply(self, probe: &DaemonProbe) -> ExitCode {
        let Self { direct, edited, edits, .. } = self;
        let mut code = ExitCode::SUCCESS;
        let (mut fixed, mut restarts) = (Vec::new(), BTreeSet::new());
        for (finding, fix) in direct {
            match fix.apply() {
                Ok(()) => {
                    fixed.push(finding);
                    restarts.extend(fix.needs_restart().then_some(&*finding.about));
                }
                Err(error) => code = fail(FAILED, format!("{}: {error}", fix.command().unwrap_or_default())),
            }
        }
        let mut written = Vec::new();
        for EditedFile { path, file, text } in edited.into_iter().filter(|edited| edited.text != edited.file.text()) {
            match file.write(&text) {
                Ok(()) => written.push(path),
                Err(error) => code = fail(FAILED, error),
            }
        }
        let is_written =
            |finding: &&Finding| matches!(&finding.fix, Some(Fix::Edit(edit)) if written.contains(&edit.file.path));
        fixed.extend(edits.into_iter().rev().filter(is_written));
        let lines =
            fixed.iter().map(|finding| format!("fixed {}: {}\n", one_line(&finding.about), one_line(&finding.found)));
        let printed = try_print(lines.collect::<String>());
        let read = fixed.iter().filter_map(|finding| match &finding.fix {
            Some(Fix::Mode { path, .. } | Fix::Owner(path)) => Some(path),
            _ => None,
        });
        let changed: Vec<&Path> = written.iter().chain(read).map(PathBuf::as_path).collect();
        let applied = self::apply(probe, &changed, &restarts).await;
        let codes = [code, printed.err().unwrap_or(ExitCode::SUCCESS), applied];
        codes.into_iter().find(|code| *code != ExitCode::SUCCESS).unwrap_or(ExitCode::SUCCESS)
    }
}

/// Has a running daemon start `servers` again, and read the `changed` files.
async fn apply(probe: &DaemonProbe, changed: &[&Path], servers: &BTreeSet<&str>) -> ExitCode {
    let Some(directory) = probe.directory.as_ref().filter(|_| probe.report().is_some()) else {
        if matches!(probe.daemon, Daemon::Absent) {
            print_note!("mcpd: no daemon runs: {} applies the changes", probe.start());
        }
        return ExitCode::SUCCESS;
    };
    let failed = |error| fail(FAILED, format!("the changes are made, but not applied: {error}"));
    let mut code = ExitCode::SUCCESS;
    for server in servers {
        if let Err(error) = admin::control(&directory.socket(ADMIN_SOCKET), ServerAction::Restart, server).await {
            code = failed(error);
        }
    }
    if changed.is_empty() {
        return code;
    }
    match reads_any(directory, changed).await {
        Ok(true) => match reload::apply(directory, Scope::All, false).await {
            ExitCode::SUCCESS => code,
            refused => refused,
        },
        Ok(false) => code,
        Err(error) => failed(error),
    }
}
