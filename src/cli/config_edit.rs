//! Options and steps of the commands that edit the configuration: `add`, `remove`, `import` and `edit`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use futures_util::StreamExt;
use signal_hook::consts::SIGINT;
use signal_hook_tokio::Signals;

use super::outcome::signal_exit;
use super::reload::{Scope, reload_after_edit};
use super::text::join_limited;
use super::{CommandResult, FAILED, USAGE, block_on, fail};
use crate::admin::report::Report;
use crate::admin::{self, AdminError};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{EditError, Overlay};
use crate::config::import::{Content, SecretFile, reference};
use crate::config::interpolate::{Process, Sources};
use crate::config::{self, ConfigError, LoadedConfig};
use crate::known_clients::shell_word;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// Maximum number of files of another configuration that are named.
const MAX_FILES: usize = 3;

/// How to keep `client`, or all clients, from starting their own copies of the servers that mcpd runs.
pub(super) fn link_hint(client: Option<&str>) -> String {
    let words = ["link"].into_iter().chain(client).chain(["--take-over"]).collect::<Vec<_>>().join(" ");
    format!(
        "`mcpd {words}` writes the entry, and removes the servers that mcpd runs now: otherwise the client starts its own copies"
    )
}

/// Why the configuration is not edited.
#[derive(Debug, thiserror::Error)]
pub(super) enum RefusedEdit {
    #[error("not added: the configuration would not be valid\n{0}")]
    Invalid(ConfigError),
    /// `${file:…}` cannot refer to the directory of the secrets.
    #[error("`${{file:…}}` cannot refer to {}: the path has `$`, `}}` or a line feed", .0.display())]
    SecretsDirectory(PathBuf),
}

// A doc comment here would replace the help text of the commands.
#[derive(Debug, Args)]
pub(super) struct EditOptions {
    /// Configuration file of mcpd to write to [default: $XDG_CONFIG_HOME/mcpd/config.toml, else ~/.config/mcpd/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Do not apply the change to the running daemon
    #[arg(long)]
    pub(super) no_reload: bool,
    /// Print the result as JSON, and the result of the reload as a second object
    #[arg(long)]
    pub(super) json: bool,
}

impl EditOptions {
    /// The file to edit: `--config`, else the user's configuration.
    ///
    /// # Errors
    /// If the file is not in mcpd's own format, or if there is no home directory.
    pub(super) fn path(&self) -> Result<PathBuf, ExitCode> {
        let path = self.config.clone().or_else(|| config::default_path(&Process));
        let path = path.ok_or_else(|| fail(USAGE, "HOME is not set: name the configuration with `--config FILE`"))?;
        match path.extension().is_some_and(|name| name == "json" || name == "jsonc") {
            true => Err(fail(
                USAGE,
                format!("{} has the format of another client: mcpd edits its own TOML files only", path.display()),
            )),
            false => Ok(path),
        }
    }

    /// The files to load: `--config` alone, or an empty list for the default files.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        self.config.iter().cloned().collect()
    }

    /// The error of an edit of the file at `path`, with the command that shows the line of a syntax error.
    pub(super) fn edit_failure(&self, path: &Path, error: &EditError) -> String {
        let text = format!("{}: {error}", path.display());
        match (error, &self.config) {
            (EditError::Syntax, Some(config)) => {
                format!("{text}; `mcpd check {}` shows the line", shell_word(&config.to_string_lossy()))
            }
            (EditError::Syntax, None) => format!("{text}; `mcpd check` shows the line"),
            _ => text,
        }
    }

    /// Loads the configuration as it would be with `text` in `file` and with the `secrets` written.
    ///
    /// # Errors
    /// Every error of that configuration.
    pub(super) fn check(
        &self,
        file: &ConfigFile,
        text: &str,
        secrets: &[SecretFile],
    ) -> Result<LoadedConfig, RefusedEdit> {
        let overlay = Overlay::new(&Process).with(file.path(), text);
        let overlay = secrets.iter().fold(overlay, |overlay, secret| match &secret.content {
            Content::Known(content) => overlay.with(&secret.path, content),
            Content::Prompt(_) => overlay,
        });
        config::load(&self.files(), &overlay).map_err(RefusedEdit::Invalid)
    }

    /// Applies the change of the files at `paths` to a running daemon that reads them, or prints what will apply it. The exit code covers
    /// the servers in `scope`.
    pub(super) fn apply(&self, directory: Option<RuntimeDir>, paths: &[&Path], scope: Scope<'_>) -> CommandResult {
        let Some(directory) = directory.filter(RuntimeDir::is_served) else {
            note_no_daemon(self.config.as_deref());
            return Ok(ExitCode::SUCCESS);
        };
        if self.no_reload {
            print_note!("mcpd: run `mcpd reload` to apply the change to the running daemon");
            return Ok(ExitCode::SUCCESS);
        }
        block_on(uninterrupted(paths, async {
            match reads_any(&directory, paths).await {
                Ok(true) => reload_after_edit(&directory, scope, self.json).await,
                Ok(false) => Ok(ExitCode::SUCCESS),
                Err(error) => Err(fail(FAILED, format!("the change is written, but not applied: {error}"))),
            }
        }))
    }
}

/// Awaits the application of a change of the files at `paths`. Ctrl-C ends the wait, and prints what stays.
async fn uninterrupted(paths: &[&Path], applied: impl Future<Output = CommandResult>) -> CommandResult {
    let Ok(mut interrupts) = Signals::new([SIGINT]) else { return applied.await };
    tokio::select! {
        code = applied => code,
        Some(signal) = interrupts.next() => {
            let files: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
            print_note!(
                "mcpd: the change stays in {}, and the daemon goes on applying it: `mcpd status` shows the result",
                join_limited(&files, MAX_FILES)
            );
            Err(signal_exit(signal))
        }
    }
}

/// Prints what applies a change if no daemon runs. `config`: the file that the user named.
pub(super) fn note_no_daemon(config: Option<&Path>) {
    match config.filter(|path| config::default_path(&Process).is_none_or(|default| !is_same(path, &default))) {
        Some(path) => {
            let path = shell_word(&path.to_string_lossy());
            print_note!("mcpd: no daemon runs: `mcpd serve --config {path}` applies the change");
        }
        None => print_note!(
            "mcpd: no daemon runs: `mcpd start` applies the change, and so does the next client that runs `mcpd connect`"
        ),
    }
}

/// Whether the daemon reads one of the files at `paths`. If not, prints which files it reads.
///
/// # Errors
/// If the daemon does not answer.
pub(super) async fn reads_any(directory: &RuntimeDir, paths: &[&Path]) -> Result<bool, AdminError> {
    let Report { files, reload_refused, .. } = admin::status(&directory.socket(ADMIN_SOCKET)).await?;
    let refused = reload_refused.map(|refused| refused.files).unwrap_or_default();
    let files: Vec<_> = files.iter().chain(&refused).map(|file| PathBuf::from(&file.path)).collect();
    // A directory of layers is one of the files.
    let is_read = |path: &&Path| {
        files.iter().any(|file| is_same(file, path) || path.parent().is_some_and(|parent| is_same(file, parent)))
    };
    let reads = paths.iter().any(is_read);
    if !reads {
        let written: Vec<_> = paths.iter().map(|path| path.display().to_string()).collect();
        let read: Vec<_> = files.iter().map(|path| path.display().to_string()).collect();
        let (written, read) = (join_limited(&written, MAX_FILES), join_limited(&read, MAX_FILES));
        print_note!("mcpd: the running daemon does not read {written}, so it is not reloaded; it reads {read}");
    }
    Ok(reads)
}

/// Whether both paths lead to the same file, which need not exist.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().or_else(|_| std::path::absolute(path)).ok();
    whole(one) == whole(other)
}

/// The directory for secrets that are moved out of the configuration at `path`: beside the path as given, even if that is a
/// symbolic link, because the link's target may be published.
///
/// # Errors
/// If a configuration cannot refer to that directory.
pub(super) fn secrets_directory(path: &Path) -> Result<PathBuf, RefusedEdit> {
    let directory = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).with_file_name("secrets");
    match reference(&directory, Process.home().as_deref()) {
        Some(_) => Ok(directory),
        None => Err(RefusedEdit::SecretsDirectory(directory)),
    }
}
