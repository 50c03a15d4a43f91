//! A real systemd user manager with mcpd installed as its unit, separate from the user who runs the tests.
//!
//! It needs root, a cgroup and systemd. Processes below it have a separate pid namespace, so clients run inside it too.

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::thread;

use serde_json::Value;

use super::config::Setup;
use super::messages::{initialize, notification};
use super::output::{print_line, skipped};
use super::place::{MCPD, Place, TAG};
use super::processes::Process;
use super::run::{Ran, run, wait_exit};
use super::wait::until;

const SCRIPT: &str = include_str!("user_manager.sh");
const SYSTEMD: [&str; 2] = ["/usr/lib/systemd/systemd", "/lib/systemd/systemd"];
const UNIT: &str = "mcpd.service";

/// A running user manager. Dropping it ends everything below it and fails the test if the unit left files or processes.
pub(crate) struct UserManager {
    child: Child,
    /// A process in its namespaces.
    inside: u32,
    place: Rc<Place>,
}

impl UserManager {
    /// Starts a manager with this configuration. Where that is impossible, it reports the reason and returns `None`.
    pub(crate) fn start(setup: &Setup) -> Option<Self> {
        Self::start_with(setup, &["mcpd.service", "mcpd.socket", "mcpd@.socket"])
    }

    /// Starts a manager without mcpd.
    pub(crate) fn bare(setup: &Setup) -> Option<Self> {
        Self::start_with(setup, &[])
    }

    /// Starts a manager, and installs mcpd as its user would.
    pub(crate) fn installed(setup: &Setup) -> Option<Self> {
        let manager = Self::bare(setup)?;
        let tag = manager.place.tag();
        // Processes of the shell's startup files belong to the test, too.
        manager.place.write("home/.bash_profile", format!("export {TAG}={tag}\n"));
        manager.mcpd(&["service", "install", "--no-linger"]).expect_code(0);
        Some(manager)
    }

    fn start_with(setup: &Setup, units: &[&str]) -> Option<Self> {
        let place = Place::new();
        install(setup, &place, units);
        match launch(&place) {
            Ok((child, inside)) => {
                let manager = Self { child, inside, place };
                until("the user manager runs", || {
                    let state = manager.systemctl(&["is-system-running"]).stdout;
                    // Other units of the machine may make it degraded.
                    matches!(state.trim(), "running" | "degraded").then_some(())
                });
                Some(manager)
            }
            Err(reason) => {
                skipped(&format!("no user manager can be run: {reason}"));
                None
            }
        }
    }

    pub(crate) fn place(&self) -> &Rc<Place> {
        &self.place
    }

    /// Runs `systemctl --user` with these arguments.
    pub(crate) fn systemctl(&self, args: &[&str]) -> Ran {
        run(self.command("systemctl").arg("--user").args(args))
    }

    /// Runs `mcpd` as the user of this manager would.
    pub(crate) fn mcpd(&self, args: &[&str]) -> Ran {
        run(self.command(MCPD).args(args))
    }

    /// Runs the handshake through `mcpd connect` and disconnects.
    pub(crate) fn connect(&self) -> Ran {
        self.send_through(MCPD, &[initialize("2025-06-18")])
    }

    /// Sends these messages through `connect` of this program and disconnects.
    pub(crate) fn converse(&self, program: &str, request: &Value) -> Ran {
        let ready = notification("notifications/initialized", &Value::Null);
        self.send_through(program, &[initialize("2025-06-18"), ready, request.clone()])
    }

    fn send_through(&self, program: &str, messages: &[Value]) -> Ran {
        let output: String = messages.iter().map(|message| format!("{message}\n")).collect();
        let script = r#"printf %s "$1" | "$0" connect"#;
        run(self.command("sh").args(["-c", script, program, &output]))
    }

    /// Runs a command line among its processes and mounts.
    pub(crate) fn shell(&self, line: &str) -> Ran {
        run(self.command("sh").args(["-c", line]))
    }

    /// `mcpd connect`, whose agent is the test.
    pub(crate) fn agent(&self) -> Child {
        let mut command = self.command(MCPD);
        command.arg("connect").stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("nsenter starts")
    }

    /// A property of the unit.
    pub(crate) fn property(&self, name: &str) -> String {
        self.systemctl(&["show", "--property", name, "--value", UNIT]).stdout.trim().to_owned()
    }

    /// Waits until a property of the unit is this one.
    #[track_caller]
    pub(crate) fn wait_property(&self, name: &str, value: &str) {
        until(&format!("{name} is {value}"), || (self.property(name) == value).then_some(()));
    }

    pub(crate) fn agent_socket(&self) -> PathBuf {
        self.place.path("xdg-run/mcpd/mcp.sock")
    }

    /// The contents of mcpd's runtime directory.
    pub(crate) fn runtime_files(&self) -> Vec<String> {
        let entries = fs::read_dir(self.place.path("xdg-run/mcpd")).into_iter().flatten().flatten();
        let mut names: Vec<_> = entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The log of mcpd.
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.place.path("unit.log")).unwrap_or_default()
    }

    /// The daemon, its guards and its servers.
    pub(crate) fn unit_processes(&self) -> Vec<Process> {
        let mut all = self.place.processes(None);
        all.retain(|process| {
            let group = fs::read_to_string(format!("/proc/{}/cgroup", process.pid)).unwrap_or_default();
            group.contains(UNIT)
        });
        all
    }

    /// The cgroups below the unit's, in order, without those of systemd.
    pub(crate) fn cgroups(&self) -> Vec<String> {
        let root = PathBuf::from(format!("/proc/{}/root/sys/fs/cgroup", self.inside));
        let entries = fs::read_dir(root.join(self.property("ControlGroup").trim_start_matches('/')));
        let directories = entries.into_iter().flatten().flatten().filter(|entry| entry.path().is_dir());
        let mut names: Vec<_> = directories.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.retain(|name| !name.starts_with('.'));
        names.sort();
        names
    }

    /// The row of a server in the status, once it fulfils `condition`.
    #[track_caller]
    pub(crate) fn wait_row(&self, name: &str, what: &str, condition: impl Fn(&Value) -> bool) -> Value {
        until(&format!("{name} {what}"), || {
            let status: Value = serde_json::from_str(&self.mcpd(&["status", "--json"]).stdout).ok()?;
            let row = status["servers"].as_array()?.iter().find(|row| row["name"] == name)?.clone();
            condition(&row).then_some(row)
        })
    }

    /// Fails unless only the lock of mcpd is left.
    #[track_caller]
    pub(crate) fn expect_nothing_left(&self) {
        let left = self.unit_processes();
        assert!(left.is_empty(), "processes are left: {left:#?}");
        assert_eq!(self.runtime_files(), ["lock"]);
    }

    fn command(&self, program: impl AsRef<Path>) -> Command {
        let mut command = self.place.command("nsenter");
        command.args(["--mount", "--pid", "--cgroup", "--target", &self.inside.to_string(), "--"]);
        command.arg(program.as_ref());
        command
    }
}

impl Drop for UserManager {
    fn drop(&mut self) {
        if thread::panicking() {
            print_line(&format!("--- the unit's log\n{}---", self.log()));
        } else if self.property("ActiveState") == "active" {
            // Some tests do not install it.
            self.systemctl(&["stop", "mcpd.socket"]);
            self.systemctl(&["stop", UNIT]).expect_code(0);
            self.expect_nothing_left();
        }
        drop(self.child.stdin.take());
        wait_exit(&mut self.child);
    }
}

/// Installs the shipped units, the program and the configuration where a user would.
fn install(setup: &Setup, place: &Place, units: &[&str]) {
    let shipped = |unit: &&str| {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("systemd").join(unit);
        (file, format!("xdg-config/systemd/user/{unit}"))
    };
    // Without a journal systemd has no place for output.
    let log = place.path("unit.log");
    let log = log.display();
    let drop_in =
        place.write("log.conf", format!("[Service]\nStandardOutput=append:{log}\nStandardError=append:{log}\n"));
    let (program, config) = (PathBuf::from(MCPD), setup.write(place));
    let symlinks = [
        (drop_in, "xdg-config/systemd/user/mcpd.service.d/log.conf"),
        (program, "home/.cargo/bin/mcpd"),
        (config, "xdg-config/mcpd/config.toml"),
    ];
    let symlinks = symlinks.map(|(file, name)| (file, name.to_owned())).into_iter();
    for (file, name) in symlinks.chain(units.iter().map(shipped)) {
        let link = place.path(&name);
        fs::create_dir_all(link.parent().expect("below the place")).expect("the test's own directory is writable");
        symlink(file, link).expect("a fresh directory");
    }
}

/// Starts the script that runs a user manager. Returns it with a process id in its namespaces, or the reason of a failure.
fn launch(place: &Place) -> Result<(Child, u32), String> {
    let systemd = SYSTEMD.into_iter().find(|path| Path::new(path).exists()).ok_or("systemd is not installed")?;
    let log = fs::File::create(place.path("manager.log")).expect("the test's own directory is writable");
    let mut command = place.command("unshare");
    command.args(["--mount", "sh", "-c", SCRIPT, "sh"]).arg(place.path("")).arg(systemd);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
    let mut child = command.spawn().map_err(|error| format!("unshare: {error}"))?;
    let mut output = String::new();
    let stdout = child.stdout.take().expect("a piped stream");
    BufReader::new(stdout).read_line(&mut output).expect("text");
    if let Ok(inside) = output.trim().parse() {
        return Ok((child, inside));
    }
    drop(child.stdin.take());
    wait_exit(&mut child);
    let log = fs::read_to_string(place.path("manager.log")).unwrap_or_default();
    Err(log.lines().next_back().unwrap_or("unshare said nothing").to_owned())
}
