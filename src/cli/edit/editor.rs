//! Runs the user's editor and waits for it.

use std::env::var;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGQUIT};

use crate::cli::text::one_line;
use crate::config::interpolate::{Process, Sources};

/// Editors to try if no variable names one.
const USUAL: [&str; 3] = ["sensible-editor", "nano", "vi"];

pub(super) struct Editor {
    program: String,
    arguments: Vec<String>,
    /// Whether the keys of SIGINT and SIGQUIT end mcpd. While the editor runs, they are the editor's.
    is_closed: Arc<AtomicBool>,
}

impl Editor {
    /// # Errors
    /// If there is no editor.
    pub(super) fn find() -> Result<Self, String> {
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
    pub(super) fn open(&self, file: &Path) -> Result<(), String> {
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
