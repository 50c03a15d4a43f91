//! A directory, an environment and a tag of its own for each test.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use super::processes::{Process, alive, signal};
use super::run::{Ran, run};
use super::wait::{WAIT_LIMIT, poll};

/// The binary under test.
pub(crate) const MCPD: &str = env!("CARGO_BIN_EXE_mcpd");
/// The scripted server.
pub(crate) const SCRIPTED: &str = env!("CARGO_BIN_EXE_scripted-server");
/// The variable that marks everything a test starts.
pub(crate) const TAG: &str = "MCPD_TEST_TAG";
/// The tag of processes that the test itself starts and ends.
pub(crate) const STRANGER: &str = "stranger";

/// The directory and environment of a test. Dropping it fails the test if a process is left.
pub(crate) struct Place {
    dir: TempDir,
    tag: String,
}

impl Place {
    pub(crate) fn new() -> Rc<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let dir = tempfile::Builder::new().prefix("mcpd-it-").tempdir().expect("a temporary directory");
        for name in ["home", "xdg-run", "xdg-config", "tmp"] {
            fs::create_dir(dir.path().join(name)).expect("a fresh directory");
        }
        let tag = format!("{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        Rc::new(Self { dir, tag })
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The runtime directory that [`Place::client`] and the harness's daemons use.
    pub(crate) fn runtime_dir(&self) -> PathBuf {
        self.path("run")
    }

    /// The configuration file of the user.
    pub(crate) fn user_config(&self) -> PathBuf {
        self.path("xdg-config/mcpd/config.toml")
    }

    /// Writes the configuration file of the user.
    pub(crate) fn write_user_config(&self, text: impl AsRef<[u8]>) -> PathBuf {
        fs::create_dir_all(self.path("xdg-config/mcpd")).expect("it is the test's own");
        self.write("xdg-config/mcpd/config.toml", text)
    }

    pub(crate) fn tag(&self) -> &str {
        &self.tag
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("the test's own directory is writable");
        // Independent of the umask, since a configuration that others may write is refused.
        let mode = fs::metadata(&path).expect("it is there").permissions().mode();
        fs::set_permissions(&path, Permissions::from_mode(mode & !0o022)).expect("it is the test's own");
        path
    }

    /// Like [`Self::write`], for a file that a running process reads: it finds the old text or the new one, never a part.
    pub(crate) fn replace(&self, name: &str, text: impl AsRef<[u8]>) {
        let new = self.write(&format!("{name}.new"), text);
        fs::rename(new, self.path(name)).expect("both are in the test's own directory");
    }

    /// Writes a file that can be executed, and the directories above it.
    pub(crate) fn write_program(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        fs::create_dir_all(self.path(name).parent().expect("a directory")).expect("it is the test's own");
        let path = self.write(name, text);
        fs::set_permissions(&path, Permissions::from_mode(0o755)).expect("it is the test's own");
        path
    }

    /// `program` in the test's environment, with only `PATH` of the outer environment.
    pub(crate) fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        command.env_clear().env("PATH", std::env::var_os("PATH").expect("PATH is set")).env("RUST_BACKTRACE", "1");
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.env("XDG_RUNTIME_DIR", self.path("xdg-run")).env("XDG_CONFIG_HOME", self.path("xdg-config"));
        command.env(TAG, &self.tag).current_dir(self.dir.path());
        command
    }

    /// A copy of the binary, written by another program: a process that another test starts could inherit our descriptor,
    /// and a file that is open for writing cannot be executed.
    pub(crate) fn copy_of_mcpd(&self) -> PathBuf {
        let copy = self.path("mcpd");
        run(self.command("cp").arg(MCPD).arg(&copy)).expect_code(0);
        copy
    }

    /// The binary under a name of its own, which another program can replace without writing to the binary.
    pub(crate) fn installed_mcpd(&self) -> PathBuf {
        let path = self.path("mcpd");
        match fs::hard_link(MCPD, &path) {
            Ok(()) => path,
            Err(_) => self.copy_of_mcpd(),
        }
    }

    /// Runs `mcpd` with these arguments, and no others, to its end.
    pub(crate) fn mcpd(&self, args: &[&str]) -> Ran {
        run(self.command(MCPD).args(args))
    }

    /// Runs `mcpd` as a client of the daemon in [`Place::runtime_dir`].
    pub(crate) fn client(&self, args: &[&str]) -> Ran {
        run(self.command(MCPD).args(args).arg("--runtime-dir").arg(self.runtime_dir()))
    }

    /// The processes of this place, and those below `root`.
    pub(crate) fn processes(&self, root: Option<u32>) -> Vec<Process> {
        alive(&format!("{TAG}={}", self.tag), &format!("{TAG}={STRANGER}"), root)
    }

    /// Waits until every process of this place has ended, and kills the rest.
    pub(crate) fn expect_no_process(&self, limit: Duration) {
        poll(limit, || self.processes(None).is_empty().then_some(()));
        let left = self.processes(None);
        for process in &left {
            signal(process.pid, Signal::KILL);
        }
        assert!(left.is_empty() || thread::panicking(), "processes are left: {left:#?}");
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.expect_no_process(if thread::panicking() { Duration::ZERO } else { WAIT_LIMIT });
    }
}
