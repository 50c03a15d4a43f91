//! The command with which a client edits its own file. Running instances of such a client rewrite the file, and could lose an edit by another
//! program.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::client_files::{ClientText, SyntaxError};
use crate::config::clients::{Client, Editor};
use crate::config::edit::file::{ConfigFile, WriteError};
use crate::config::interpolate::Sources;
use crate::known_clients::MAX_FILE;

/// The command of a client, as it is installed.
pub(crate) struct EditorCommand {
    client: &'static Client,
    editor: &'static Editor,
    program: PathBuf,
}

/// Why the command did not change the file.
#[derive(Debug, thiserror::Error)]
pub(crate) enum EditorError {
    #[error("`{command}` failed: {reason}")]
    Failed { command: String, reason: String },
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    #[error(transparent)]
    Write(#[from] WriteError),
}

/// A table of servers.
struct Table<'a> {
    keys: Vec<&'a str>,
    /// The directory of the project to which it belongs.
    project: Option<&'a Path>,
}

impl EditorCommand {
    /// The command of `client`, if it has one and that is on the `PATH`.
    pub(crate) fn find(client: &'static Client, sources: &dyn Sources) -> Option<Self> {
        let editor = client.editor.as_ref()?;
        let program = sources.on_path(editor.program, &sources.var("PATH")?)?;
        Some(Self { client, editor, program })
    }

    /// Makes the servers of the file those of `text`. After a failure the file is as it was.
    ///
    /// # Errors
    /// If the command fails.
    pub(super) fn carry_out(&self, file: ConfigFile, text: &str) -> Result<(), EditorError> {
        let done = self.replace_servers(file.text(), text);
        if done.is_err() {
            // A part of it may be done.
            let now = ConfigFile::open_up_to(file.path(), MAX_FILE).ok();
            let now = now.filter(|now| now.text() != file.text());
            let _ = now.map(|now| if file.exists() { now.write(file.text()) } else { now.remove() });
        }
        done
    }

    fn replace_servers(&self, before: &str, after: &str) -> Result<(), EditorError> {
        let syntax = self.client.syntax();
        let [before, after] = [ClientText::parse(syntax, before)?, ClientText::parse(syntax, after)?];
        let projects = before.names(&["projects"]);
        let of_user = Table { keys: self.client.servers_table().to_vec(), project: None };
        let of_projects = projects.iter().filter(|project| Path::new(project).is_dir()).map(|project| Table {
            keys: ["projects", project].into_iter().chain(self.client.servers_table().iter().copied()).collect(),
            project: Some(Path::new(project)),
        });
        for table in [of_user].into_iter().chain(of_projects) {
            let differs = |name: &String| before.entry(&table.keys, name) != after.entry(&table.keys, name);
            for name in before.names(&table.keys).iter().filter(|name| differs(name)) {
                self.run(&table, &self.editor.remove_arguments(table.project.is_some(), name))?;
            }
            for name in after.names(&table.keys).iter().filter(|name| differs(name)) {
                let entry = after.entry(&table.keys, name).unwrap_or_default();
                self.run(&table, &self.editor.add_arguments(table.project.is_some(), name, &entry))?;
            }
        }
        Ok(())
    }

    fn run(&self, table: &Table<'_>, arguments: &[&str]) -> Result<(), EditorError> {
        // An entry may have a secret.
        let shown = arguments.iter().filter(|argument| !argument.starts_with('{'));
        let shown: Vec<_> = [self.editor.program].into_iter().chain(shown.copied()).collect();
        let failed = |reason: String| EditorError::Failed { command: shown.join(" "), reason };
        let mut process = Command::new(&self.program);
        process.args(arguments).stdin(Stdio::null());
        if let Some(project) = table.project {
            process.current_dir(project);
        }
        let output = process.output().map_err(|error| failed(error.to_string()))?;
        if output.status.success() {
            return Ok(());
        }
        let text = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty());
        Err(failed(line.map_or_else(|| output.status.to_string(), str::to_owned)))
    }
}
