//! `mcpd edit`: opens the configuration in the user's editor, and saves it only if it is valid.
//!
//! The editor gets a private copy. After an invalid edit, the copy has the mistakes as comments above their lines. The comments are removed
//! again before the text is used.

use std::collections::{BTreeMap, BTreeSet};
use std::env::var;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use clap::Args;
use signal_hook::consts::{SIGINT, SIGQUIT};
use tempfile::TempDir;

use super::config_edit::EditOptions;
use super::outcome::config_failure;
use super::reload::Scope;
use super::text::one_line;
use super::{CommandResult, FAILED, USAGE, fail, prompt};
use crate::config::diagnostic::Diagnostic;
use crate::config::edit::Overlay;
use crate::config::edit::file::{ConfigFile, WriteError};
use crate::config::interpolate::{Process, Sources};
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

pub(super) fn run(Edit { config, no_reload }: Edit, directory: Option<RuntimeDir>) -> CommandResult {
    let options = EditOptions { config, no_reload, json: false };
    let path = options.path()?;
    let file =
        ConfigFile::open(&path).map_err(|error| fail(USAGE, format!("cannot read {}: {error}", path.display())))?;
    let start = if file.exists() { file.text().to_owned() } else { START.to_owned() };
    let Some((text, elsewhere)) = edit_copy(&options, &path, &file, &start)? else { return Ok(ExitCode::SUCCESS) };
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
    options.apply(directory, &[&path], Scope::All)
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
        config_failure(&error);
        let again = if prompt::is_possible() {
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
    error.iter().flat_map(|error: &ConfigError| elsewhere(error, file)).collect()
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

/// Editors to try if no variable names one.
const USUAL: [&str; 3] = ["sensible-editor", "nano", "vi"];

struct Editor {
    program: String,
    arguments: Vec<String>,
    /// Whether the keys of SIGINT and SIGQUIT end mcpd. While the editor runs, they are the editor's.
    is_closed: Arc<AtomicBool>,
}

impl Editor {
    /// # Errors
    /// If there is no editor.
    fn find() -> Result<Self, String> {
        let mut words = words()?.into_iter();
        let program = words.next().ok_or("no editor is named")?;
        let is_closed = Arc::new(AtomicBool::new(true));
        for signal in [SIGINT, SIGQUIT] {
            // A handler, unlike an ignored signal, is not inherited.
            let registered = signal_hook::flag::register_conditional_default(signal, Arc::clone(&is_closed));
            registered.map_err(|error| error.to_string())?;
        }
        Ok(Self { program, arguments: words.collect(), is_closed })
    }

    /// Opens `file`, and returns when the editor has ended.
    ///
    /// # Errors
    /// If the editor cannot be started, or fails.
    fn open(&self, file: &Path) -> Result<(), String> {
        let shown = one_line(&self.program);
        self.is_closed.store(false, Ordering::SeqCst);
        let status = Command::new(&self.program).args(&self.arguments).arg(file).status();
        self.is_closed.store(true, Ordering::SeqCst);
        let status = status.map_err(|error| format!("the editor `{shown}` cannot be started: {error}"))?;
        if status.success() { Ok(()) } else { Err(format!("the editor `{shown}` failed: {status}")) }
    }
}

/// The editor and its arguments: `$VISUAL`, else `$EDITOR`, else a usual one.
fn words() -> Result<Vec<String>, String> {
    for name in ["VISUAL", "EDITOR"] {
        let Some(text) = var(name).ok().filter(|text| !text.trim().is_empty()) else { continue };
        return shlex::split(&text).ok_or_else(|| format!("`{name}` has an open quote: {}", one_line(&text)));
    }
    let path = Process.var("PATH").unwrap_or_default();
    let found = USUAL.iter().find(|name| Process.on_path(name, &path).is_some());
    let none = || format!("no editor is found: set EDITOR, or install one of {}", USUAL.join(", "));
    found.map(|name| vec![(*name).to_owned()]).ok_or_else(none)
}

/// The beginning of each comment.
const MARK: &str = "#mcpd! ";

/// The mistakes of one text.
#[derive(Debug, Default)]
struct Mistakes {
    /// Lines of text, by the number of the line that they belong to. Those of other files belong to the first line.
    by_line: BTreeMap<usize, Vec<String>>,
    /// A mark that no line of the text begins with.
    mark: String,
}

impl Mistakes {
    /// The mistakes in `text` of `file`, and those of other files that are not `known`.
    fn of(error: &ConfigError, file: &ConfigFile, known: &BTreeSet<String>, text: &str) -> Self {
        let mut mark = MARK.to_owned();
        while text.lines().any(|line| line.starts_with(&mark)) {
            mark.insert(0, '#');
        }
        let mut by_line: BTreeMap<usize, Vec<String>> = BTreeMap::new();
        for one in error.diagnostics().iter().filter(|one| is_in(one, file)) {
            let Diagnostic { message, label, help, .. } = one;
            let lines = by_line.entry(one.place().0).or_default();
            lines.push(message.clone());
            lines.extend(label.iter().cloned());
            lines.extend(help.iter().flat_map(|help| help.lines()).map(|line| format!("help: {line}")));
        }
        let elsewhere = elsewhere(error, file).filter(|text| !known.contains(text));
        let elsewhere: Vec<_> =
            elsewhere.flat_map(|text| text.lines().map(str::to_owned).collect::<Vec<_>>()).collect();
        if !elsewhere.is_empty() {
            by_line.entry(1).or_default().extend(elsewhere);
        }
        Self { by_line, mark }
    }

    fn is_empty(&self) -> bool {
        self.by_line.is_empty()
    }

    /// `text` with the comments.
    fn shown_in(&self, text: &str) -> String {
        let (mut shown, mut rest) = (String::new(), self.by_line.clone());
        for (index, line) in text.split_inclusive('\n').enumerate() {
            let comments = rest.remove(&(index + 1)).unwrap_or_default();
            comments.iter().for_each(|comment| shown += &format!("{}{comment}\n", self.mark));
            shown += line;
        }
        // Behind the last line end.
        rest.values().flatten().for_each(|comment| shown += &format!("{}{comment}\n", self.mark));
        shown
    }

    /// `text` without the comments.
    fn removed_from(&self, text: &str) -> String {
        let is_comment = |line: &&str| !self.mark.is_empty() && line.starts_with(self.mark.trim_end());
        text.split_inclusive('\n').filter(|line| !is_comment(line)).collect()
    }
}

/// The errors of other files, as they are printed.
fn elsewhere(error: &ConfigError, file: &ConfigFile) -> impl Iterator<Item = String> {
    let unreadable = error.unreadable().map(|(path, error)| format!("cannot read {}: {error}", path.display()));
    let others = error.diagnostics().iter().filter(|one| !is_in(one, file)).map(|one| one.render(false));
    unreadable.chain(others).collect::<Vec<_>>().into_iter()
}

fn is_in(diagnostic: &Diagnostic, file: &ConfigFile) -> bool {
    file.is_at(&diagnostic.file.path)
}
