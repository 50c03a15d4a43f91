//! `mcpd edit`: opens the configuration in an editor, and saves it only if it is valid.
//!
//! The editor gets a private copy. After an invalid edit, the copy has the mistakes as comments above their lines. `mistakes` writes and removes
//! these comments, `editor` runs the editor.

mod editor;
mod mistakes;

use std::collections::BTreeSet;
use std::fs::{self, OpenOptions};
use std::io::{IsTerminal, Write, stderr, stdin};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use tempfile::TempDir;

use self::editor::Editor;
use self::mistakes::Mistakes;
use super::config_edit::EditOptions;
use super::import::prompt;
use super::outcome::print_styled_note;
use super::reload::Scope;
use super::style::OutputStyle;
use super::{FAILED, USAGE, fail};
use crate::config::edit::Overlay;
use crate::config::edit::file::{ConfigFile, WriteError};
use crate::config::interpolate::Process;
use crate::config::{self, ConfigError};
use crate::sockets::RuntimeDir;

/// The text of a new file.
const START: &str = "\
# Servers that mcpd runs. docs/configure.md describes all keys.

# [servers.files]
# command = \"npx\"
# args = [\"-y\", \"@modelcontextprotocol/server-filesystem\", \"${HOME}/notes\"]
# deny = [\"write_*\"]              # tools that agents do not see

# [servers.search]
# url = \"https://example.org/mcp\"
";

#[derive(Debug, Args)]
pub(super) struct Edit {
    /// Configuration file to edit [default: $XDG_CONFIG_HOME/mcpd/config.toml, else ~/.config/mcpd/config.toml]
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Do not apply the change to the running daemon
    #[arg(long)]
    no_reload: bool,
}

pub(super) fn run(Edit { config, no_reload }: Edit, directory: Option<RuntimeDir>) -> ExitCode {
    let options = EditOptions { config, no_reload, json: false };
    edit(&options, directory).unwrap_or_else(|code| code)
}

fn edit(options: &EditOptions, directory: Option<RuntimeDir>) -> Result<ExitCode, ExitCode> {
    let path = options.path()?;
    let file =
        ConfigFile::open(&path).map_err(|error| fail(USAGE, format!("cannot read {}: {error}", path.display())))?;
    let start = if file.exists() { file.text().to_owned() } else { START.to_owned() };
    let Some((text, elsewhere)) = edit_copy(options, &path, &file, &start)? else { return Ok(ExitCode::SUCCESS) };
    match file.write(&text) {
        Ok(()) => print_note!("mcpd: saved {}", path.display()),
        Err(error) => {
            let copy =
                keep_copy(&text).map_err(|failed| fail(FAILED, format!("{error}; your text is lost: {failed}")))?;
            let error = match error {
                WriteError::Changed(path) => format!("{} was changed by another program meanwhile", path.display()),
                error => error.to_string(),
            };
            return Err(fail(FAILED, format!("not saved: {error}\n  your text is in {}", copy.display())));
        }
    }
    if elsewhere {
        return Err(fail(USAGE, "not applied: other files of the configuration have errors; `mcpd check` shows them"));
    }
    Ok(options.apply(directory, &[&path], Scope::All))
}

/// The edited text, without errors of its own, and whether other files have errors. `None` if it is as before or was dropped.
fn edit_copy(
    options: &EditOptions,
    path: &Path,
    file: &ConfigFile,
    start: &str,
) -> Result<Option<(String, bool)>, ExitCode> {
    let cannot = |error: std::io::Error| fail(FAILED, format!("nothing is changed: {error}"));
    let editor = Editor::find().map_err(|error| fail(FAILED, error))?;
    let copy = Copy::new().map_err(cannot)?;
    let (mut text, mut mistakes) = (start.to_owned(), Mistakes::default());
    let known = errors_elsewhere(options, file, start);
    loop {
        copy.write(&mistakes.shown_in(&text)).map_err(cannot)?;
        editor.open(&copy.path).map_err(|error| fail(FAILED, format!("nothing is changed: {error}")))?;
        let before = std::mem::replace(&mut text, mistakes.removed_from(&copy.read().map_err(cannot)?));
        if text == start {
            print_note!("mcpd: nothing is changed in {}", path.display());
            return Ok(None);
        }
        let overlay = Overlay::new(&Process).with(file.path(), &text);
        let Err(error) = config::load(&options.files(), &overlay) else { return Ok(Some((text, false))) };
        mistakes = Mistakes::of(&error, file, &known, &text);
        if mistakes.is_empty() {
            return Ok(Some((text, true)));
        }
        print_styled_note(&(error.render(OutputStyle::of_stderr().has_colour()) + "\n"));
        let is_terminal = stdin().is_terminal() && stderr().is_terminal();
        let again = if is_terminal {
            prompt::confirm_default("The configuration is not valid. Edit again?").map_err(cannot)?
        } else {
            // Without a terminal, an editor that mends nothing is not asked again.
            text != before
        };
        if !again {
            return Err(fail(USAGE, format!("the edit is dropped, nothing is changed in {}", path.display())));
        }
    }
}

/// The errors that other files of the configuration have already.
fn errors_elsewhere(options: &EditOptions, file: &ConfigFile, text: &str) -> BTreeSet<String> {
    let overlay = Overlay::new(&Process).with(file.path(), text);
    let error = config::load(&options.files(), &overlay).err();
    error.iter().flat_map(|error: &ConfigError| mistakes::elsewhere(error, file)).collect()
}

/// Stores a text that could not be saved.
fn keep_copy(text: &str) -> std::io::Result<PathBuf> {
    let mut file = tempfile::Builder::new().prefix("mcpd-edit-").suffix(".toml").tempfile()?;
    file.write_all(text.as_bytes())?;
    let (_, path) = file.keep().map_err(|error| error.error)?;
    Ok(path)
}

/// The editor's copy, in a directory that only the user may enter. Dropping it removes both.
struct Copy {
    _directory: TempDir,
    path: PathBuf,
}

impl Copy {
    fn new() -> std::io::Result<Self> {
        let directory = tempfile::Builder::new().prefix("mcpd-edit-").tempdir()?;
        let path = directory.path().join("config.toml");
        Ok(Self { _directory: directory, path })
    }

    fn write(&self, text: &str) -> std::io::Result<()> {
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600).open(&self.path)?.write_all(text.as_bytes())
    }

    fn read(&self) -> std::io::Result<String> {
        fs::read_to_string(&self.path)
    }
}
