//! A real terminal, as tmux has it, with a shell in it.

use std::path::PathBuf;
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::output::{print_line, skipped};
use super::place::{MCPD, Place, STRANGER, TAG};
use super::run::{Ran, run};
use super::wait::poll;
use super::{WAIT_LIMIT, quoted};

/// The number of terminals so far.
static OPENED: AtomicUsize = AtomicUsize::new(0);

/// A terminal with a shell, in which `m` is `mcpd` as a client of the place's daemon. Dropping it closes it.
pub(crate) struct Terminal {
    place: Rc<Place>,
    /// A separate tmux server, since that of an earlier terminal may still be ending.
    socket: PathBuf,
}

impl Terminal {
    /// Opens a terminal. Without tmux it reports that and returns `None`.
    pub(crate) fn open(place: &Rc<Place>, width: usize, height: usize) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            skipped("there is no tmux");
            return None;
        }
        let socket = place.path(&format!("tmux-{}", OPENED.fetch_add(1, Ordering::Relaxed)));
        let terminal = Self { place: Rc::clone(place), socket };
        let (mcpd, directory) = (quoted(MCPD), quoted(place.runtime_dir()));
        let rc = place.write("rc", format!("PS1='$ '\nm() {{ {mcpd} \"$@\" --runtime-dir {directory}; }}\n"));
        let (width, height) = (width.to_string(), height.to_string());
        let mut command = terminal.command();
        command.env("ENV", rc).args(["new-session", "-d", "-x", &width, "-y", &height, "sh"]);
        let ran = run(&mut command).expect_code(0);
        assert_eq!(ran.stderr, "");
        terminal.wait("$");
        Some(terminal)
    }

    /// Types `line` and ends it.
    pub(crate) fn line(&self, line: &str) {
        self.tmux(&["send-keys", "-l", line]);
        self.key("Enter");
    }

    /// Presses a key, by tmux's name for it.
    pub(crate) fn key(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    pub(crate) fn resize(&self, width: usize, height: usize) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// The screen, without trailing blanks and empty lines.
    pub(crate) fn screen(&self) -> String {
        let text = self.tmux(&["capture-pane", "-p"]).stdout;
        text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n").trim_end().to_owned()
    }

    /// The screen with colour codes.
    pub(crate) fn colours(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"]).stdout
    }

    /// The value of a tmux format.
    pub(crate) fn asks(&self, format: &str) -> String {
        self.tmux(&["display-message", "-p", format]).stdout.trim().to_owned()
    }

    /// Waits until `text` is on the screen, and returns the screen.
    #[track_caller]
    pub(crate) fn wait(&self, text: &str) -> String {
        self.wait_for(text, |screen| screen.contains(text))
    }

    /// Waits until the screen fulfils a condition, and returns it.
    #[track_caller]
    pub(crate) fn wait_for(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let seen = poll(WAIT_LIMIT, || Some(self.screen()).filter(|screen| is_so(screen)));
        seen.unwrap_or_else(|| panic!("not within {WAIT_LIMIT:?}: {what}\n{}", self.screen()))
    }

    #[track_caller]
    fn tmux(&self, args: &[&str]) -> Ran {
        run(self.command().args(args)).expect_code(0)
    }

    fn command(&self) -> Command {
        let mut command = self.place.command("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null", "-u"]);
        command.env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color").env(TAG, STRANGER);
        command
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let closed = run(self.command().arg("kill-server"));
        if closed.code != Some(0) {
            print_line(&format!("the terminal was not closed: {closed}"));
        }
    }
}
