//! Options and steps of the commands that edit the configuration: `add`, `remove` and `import`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;

use super::reload::{self, Reload, Scope};
use super::{USAGE, block_on, fail};
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{EditError, Overlay};
use crate::config::import::{Content, SecretFile, reference};
use crate::config::interpolate::{Process, Sources};
use crate::config::{self, LoadedConfig};
use crate::known_clients::shell_word;
use crate::sockets::RuntimeDir;

/// How to keep a client from starting its own copies of the servers that mcpd runs.
pub(super) const OLD_ENTRIES: &str = "In the client's own configuration, remove the servers that mcpd runs now. Otherwise the client starts its own copies.";

// A doc comment here would replace the help text of the commands.
#[derive(Debug, Args)]
pub(super) struct EditOptions {
    /// Configuration file of mcpd to write to [default: $XDG_CONFIG_HOME/mcpd/config.toml, else ~/.config/mcpd/config.toml]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Then make the running daemon reload its configuration
    #[arg(long)]
    pub(super) reload: bool,
    /// Print the result as JSON; with `--reload`, the result of the reload as a second object
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
    /// Every error of that configuration, for a person.
    pub(super) fn check(&self, file: &ConfigFile, text: &str, secrets: &[SecretFile]) -> Result<LoadedConfig, String> {
        let overlay = Overlay::new(&Process).with(file.path(), text);
        let overlay = secrets.iter().fold(overlay, |overlay, secret| match &secret.content {
            Content::Known(content) => overlay.with(&secret.path, content),
            Content::Prompt(_) => overlay,
        });
        config::load(&self.files(), &overlay)
            .map_err(|error| format!("not added: the configuration would not be valid\n{error}"))
    }

    /// Reloads a running daemon if `--reload` is given, else prints how to. The exit code covers the servers `names`.
    pub(super) fn next_step(&self, directory: Option<RuntimeDir>, names: &[&str]) -> ExitCode {
        match directory.filter(RuntimeDir::is_served) {
            Some(directory) if self.reload => {
                let reload = Reload { environment: false, json: self.json };
                block_on(reload::run(&directory, reload, Scope::Servers(names)))
            }
            Some(_) => {
                print_note!("mcpd: run `mcpd reload` to apply the change to the running daemon");
                ExitCode::SUCCESS
            }
            None => ExitCode::SUCCESS,
        }
    }
}

/// The directory for secrets that are moved out of the configuration at `path`: beside the path as given, even if that is a
/// symbolic link, because the link's target may be published.
///
/// # Errors
/// If a configuration cannot refer to that directory.
pub(super) fn secrets_directory(path: &Path) -> Result<PathBuf, String> {
    let directory = std::path::absolute(path).unwrap_or_else(|_| path.to_owned()).with_file_name("secrets");
    match reference(&directory, Process.home().as_deref()) {
        Some(_) => Ok(directory),
        None => {
            Err(format!("`${{file:…}}` cannot refer to {}: the path has `$`, `}}` or a line feed", directory.display()))
        }
    }
}
