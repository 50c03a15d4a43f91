//! `mcpd try` with hostile servers: what they see and change, and that nothing is left of them.

use std::fs::{self, File};
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::rc::Rc;

use rustix::process::Signal;

use crate::support::{
    MCPD, NO_NAMESPACES, Place, Process, SCRIPTED, children, kernel_has_landlock, signal, skipped,
    system_has_namespaces, until,
};

/// The variable that limits the disk of a trial, in bytes.
const DISK: &str = "MCPD_TEST_TRIAL_DISK";
/// A server that answers nothing and resists, with processes that have left their parents.
const SILENT: &str = "trap '' HUP INT TERM
for i in 1 2 3 4; do setsid sh -c '(sleep 600; :) </dev/null >/dev/null 2>&1 &'; done
sleep 600; sleep 600";

/// A trial that was started, and its processes that were seen.
struct Trial {
    place: Rc<Place>,
    child: Child,
    seen: Vec<Process>,
}

impl Trial {
    /// `mcpd try` with a script of the shell as the server. In it, `serve` becomes a server that answers, and `$1` and so on are `paths`.
    fn command(place: &Place, script: &str, options: &[&str], paths: &[&Path]) -> Command {
        let text = format!("#!/bin/sh\nprogram=$1; shift\nserve() {{ exec \"$program\"; }}\n{script}\n");
        let server = place.write_program("server/run", text);
        let mut command = place.command(MCPD);
        command.args(["try", "--json"]).args(options).arg(server).arg(SCRIPTED).args(paths);
        command
    }

    fn start(place: &Rc<Place>, command: &mut Command) -> Self {
        let output = |name| File::create(place.path(name)).expect("the test's own");
        command.stdin(Stdio::null()).stdout(output("stdout")).stderr(output("stderr"));
        let child = command.spawn().expect("mcpd is there");
        Self { place: Rc::clone(place), child, seen: Vec::new() }
    }

    /// Remembers the processes that run now, and returns how many they are.
    fn look(&mut self) -> usize {
        let now = self.place.processes(Some(self.child.id()));
        let new: Vec<_> = now.iter().filter(|process| !self.seen.contains(process)).cloned().collect();
        self.seen.extend(new);
        now.len()
    }

    /// Waits until a process below it has this text in its command, and returns the process.
    fn wait_process(&mut self, text: &str) -> Process {
        until(text, || {
            self.look();
            self.seen.iter().find(|process| process.command.contains(text)).cloned()
        })
    }

    fn signal(&self, sent: Signal) {
        signal(self.child.id(), sent);
    }

    /// Waits until it has a handler for the signal with this number. Before, it may be one that is ignored, such as under nohup.
    fn wait_handles(&self, number: u32) {
        let status = format!("/proc/{}/status", self.child.id());
        let caught = || {
            let status = fs::read_to_string(&status).ok()?;
            let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
            u64::from_str_radix(mask.trim(), 16).ok()
        };
        until("it handles the signal", || caught().filter(|mask| mask >> (number - 1) & 1 == 1));
    }

    /// Waits for its end.
    fn end(&mut self) -> ExitStatus {
        until("the trial ends", || {
            self.look();
            self.child.try_wait().expect("one's own child")
        })
    }

    /// What it has written.
    fn output(&self) -> String {
        let text = |name| fs::read_to_string(self.place.path(name)).expect("text");
        text("stdout") + &text("stderr")
    }

    /// Waits until all processes that were seen have ended. `mcpd` has none as children when it ends by itself.
    fn expect_no_process(&self) {
        until("its processes end", || self.seen.iter().all(|process| !process.is_alive()).then_some(()));
    }

    /// Waits for its end, after which nothing may be left.
    fn end_without_rest(&mut self) -> ExitStatus {
        let ended = self.end();
        self.expect_no_process();
        assert_eq!(trials(&self.place), Vec::<PathBuf>::new(), "{}", self.output());
        ended
    }
}

/// The directories of trials.
fn trials(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("home/.local/state/mcpd/trials")).into_iter().flatten();
    entries.map(|entry| entry.expect("an entry").path()).collect()
}

fn has_strace() -> bool {
    let has = Command::new("strace").arg("-V").output().is_ok();
    if !has {
        skipped("there is no strace");
    }
    has
}

/// A directory with files of the person.
fn notes(place: &Place) -> PathBuf {
    let notes = place.path("notes");
    fs::create_dir(&notes).expect("a fresh directory");
    place.write("notes/mine", "mine\n");
    place.write("notes/old", "old\n");
    notes
}

#[track_caller]
fn expect_unchanged(place: &Place) {
    let mut names: Vec<_> = fs::read_dir(place.path("notes"))
        .expect("a directory")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    names.sort_unstable();
    assert_eq!(names, ["mine", "old"]);
    assert_eq!(fs::read_to_string(place.path("notes/mine")).expect("text"), "mine\n");
}

/// Case M1.
#[test]
fn server_on_trial_sees_no_secret_and_changes_no_file() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let notes = notes(&place);
    fs::create_dir(place.path("home/.ssh")).expect("a fresh directory");
    let secret = place.write("home/.ssh/id_ed25519", "secret\n");
    let script = format!(
        r#"cat ~/.ssh/id_ed25519 {secret} && exit 7
        notes=$1
        rm "$notes/old" && echo changed > "$notes/mine" && mkdir "$notes/more" && echo new > "$notes/more/file" || exit 8
        test "$(cat "$notes/mine")" = changed && test ! -e "$notes/old" && test -e "$notes/more/file" || exit 9
        test -z "$TOKEN" && test -z "$SSH_AUTH_SOCK" || exit 10
        serve"#,
        secret = secret.display()
    );
    let mut command = Trial::command(&place, &script, &[], &[&notes]);
    let mut trial = Trial::start(&place, command.env("TOKEN", "hunter2").env("SSH_AUTH_SOCK", "/nowhere"));
    assert_eq!(trial.end_without_rest().code(), Some(0), "{}", trial.output());
    expect_unchanged(&place);
    assert!(!trial.output().contains("hunter2"));
    if has_strace() {
        assert!(trial.output().contains(".ssh"), "{}", trial.output());
    }
}

/// Case M2.
#[test]
fn silent_server_on_trial_is_ended_at_the_time_limit_with_all_that_it_has_started() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let mut trial = Trial::start(&place, &mut Trial::command(&place, SILENT, &["--timeout", "20s"], &[]));
    trial.wait_process("sleep 600");
    let ended = trial.end_without_rest();
    assert_ne!(ended.code(), Some(0), "{}", trial.output());
    assert!(trial.output().contains("within 20s"), "{}", trial.output());
}

/// Case M3.
#[test]
fn server_on_trial_that_fills_the_disk_is_ended() {
    if !system_has_namespaces() {
        return;
    }
    for script in [
        "head -c 50000000 /dev/zero > ~/big; sleep 600",
        // Nobody else can see it.
        "exec 3> ~/big; rm ~/big; head -c 50000000 /dev/zero >&3; sleep 600",
    ] {
        let place = Place::new();
        let mut command = Trial::command(&place, script, &["--timeout", "600s"], &[]);
        let mut trial = Trial::start(&place, command.env(DISK, "10000000"));
        trial.end_without_rest();
        assert!(trial.output().contains("of disk"), "{}", trial.output());
    }
}

/// Case M4.
#[test]
fn signal_at_any_moment_ends_a_trial_and_leaves_nothing() {
    if !system_has_namespaces() {
        return;
    }
    for (number, sent) in [(2, Signal::INT), (15, Signal::TERM), (1, Signal::HUP)] {
        for alive in [0, 1, 2, 3, 5, 8] {
            let place = Place::new();
            let mut trial = Trial::start(&place, &mut Trial::command(&place, SILENT, &["--timeout", "600s"], &[]));
            trial.wait_handles(number);
            until("so many processes have been started", || (trial.look() >= alive).then_some(()));
            trial.signal(sent);
            let ended = trial.end_without_rest();
            // Before the trial has begun, the signal ends mcpd itself.
            let code = i32::try_from(number).expect("a signal");
            let is_ended = ended.code() == Some(128 + code) || ended.signal() == Some(code);
            assert!(is_ended, "{ended:?}: {}", trial.output());
        }
    }
}

/// Case M5.
#[test]
fn kill_9_of_a_trial_leaves_no_process_and_the_next_one_removes_its_directory() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    for alive in [0, 1, 2, 3, 5, 8] {
        let mut trial = Trial::start(&place, &mut Trial::command(&place, SILENT, &["--timeout", "600s"], &[]));
        until("so many processes have been started", || (trial.look() >= alive).then_some(()));
        trial.signal(Signal::KILL);
        trial.end();
        trial.expect_no_process();
    }
    assert_eq!(trials(&place).len(), 1, "each has removed that of the one before");
    let mut trial = Trial::start(&place, &mut Trial::command(&place, "serve", &[], &[]));
    assert_eq!(trial.end_without_rest().code(), Some(0), "{}", trial.output());
}

/// Case M6.
#[test]
fn nothing_is_left_of_a_trial_whose_tracer_or_supervisor_was_killed() {
    if !system_has_namespaces() || !has_strace() {
        return;
    }
    for killed in ["strace", "mcpd-reaper", "mcpd-guard", "mcpd-init"] {
        let place = Place::new();
        let mut trial = Trial::start(&place, &mut Trial::command(&place, SILENT, &["--timeout", "20s"], &[]));
        trial.wait_process("sleep 600");
        let is_it = |process: &Process| Path::new(process.command.split(' ').next().expect("a word")).ends_with(killed);
        let found = trial.seen.iter().find(|process| is_it(process) && process.is_alive()).cloned();
        signal(found.unwrap_or_else(|| panic!("{killed} runs: {:#?}", trial.seen)).pid, Signal::KILL);
        trial.end_without_rest();
    }
}

/// Case M7.
#[test]
fn server_on_trial_does_not_see_that_it_is_traced() {
    if !system_has_namespaces() || !has_strace() {
        return;
    }
    let place = Place::new();
    let script = "grep -q '^TracerPid:.0$' /proc/self/status /proc/1/status || exit 7
        ! cat /proc/*/cmdline | grep -q '[s]trace' || exit 8
        test \"$(ls -d /proc/[0-9]* | wc -l)\" -lt 10 || exit 9
        serve";
    let mut trial = Trial::start(&place, &mut Trial::command(&place, script, &[], &[]));
    assert_eq!(trial.end_without_rest().code(), Some(0), "{}", trial.output());
}

/// Case M8.
#[test]
fn trial_without_strace_says_so() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    fs::create_dir(place.path("bin")).expect("a fresh directory");
    for program in ["cat", "sh"] {
        symlink(Path::new("/bin").join(program), place.path("bin").join(program)).expect("a fresh link");
    }
    let notes = notes(&place);
    let mut command = Trial::command(&place, "/bin/rm \"$1/old\" || exit 7; serve", &[], &[&notes]);
    let mut trial = Trial::start(&place, command.env("PATH", place.path("bin")));
    assert_eq!(trial.end_without_rest().code(), Some(0), "{}", trial.output());
    expect_unchanged(&place);
    assert!(trial.output().contains("strace"), "{}", trial.output());
}

/// Case M9.
#[test]
fn trial_without_namespaces_is_refused_unless_a_weak_one_will_do() {
    if !kernel_has_landlock(3) {
        return skipped("the kernel has no Landlock of version 3");
    }
    let place = Place::new();
    let (notes, secret) = (notes(&place), place.write("home/secret", "secret\n"));
    let script = format!(
        "! cat {secret} && ! rm \"$1/old\" && ! echo x >> \"$1/mine\" && cat \"$1/mine\" && touch ~/own || exit 7; serve",
        secret = secret.display()
    );
    for (options, code) in [(&[][..], None), (&["--weak"], Some(0))] {
        let mut command = Trial::command(&place, &script, options, &[&notes]);
        let mut trial = Trial::start(&place, command.env(NO_NAMESPACES, "1"));
        let ended = trial.end_without_rest();
        match code {
            Some(_) => assert_eq!(ended.code(), code, "{}", trial.output()),
            None => assert!(!ended.success() && trial.output().contains("--weak"), "{}", trial.output()),
        }
        expect_unchanged(&place);
        assert!(!place.path("home/own").exists());
    }
}

/// Case M10.
#[test]
fn directory_that_cannot_be_copied_is_only_readable_on_trial() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let notes = notes(&place);
    fs::create_dir(place.path("notes/inner")).expect("a fresh directory");
    let script = "cat \"$1/mine\" && ! rm \"$1/mine\" && ! touch \"$1/inner/x\" || exit 7; serve";
    let trial = Trial::command(&place, script, &[], &[&notes]);
    let mut command = place.command("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c"]);
    // The kernel copies no directory with a mount in it.
    command.arg("mount -t tmpfs none \"$0/inner\" && exec \"$@\"").arg(&notes);
    command.arg(trial.get_program()).args(trial.get_args());
    let mut trial = Trial::start(&place, &mut command);
    assert_eq!(trial.end_without_rest().code(), Some(0), "{}", trial.output());
    assert!(place.path("notes/mine").exists());
}

/// Case M11.
#[test]
fn connection_of_a_server_on_trial_is_reported_and_refused_without_a_network() {
    if !system_has_namespaces() {
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let port = listener.local_addr().expect("it is bound").port();
    let connect = format!("bash -c 'exec 3<> /dev/tcp/127.0.0.1/{port}'");
    for (options, script) in
        [(&[][..], format!("{connect} || exit 7; serve")), (&["--no-network"], format!("! {connect} || exit 7; serve"))]
    {
        let place = Place::new();
        let mut trial = Trial::start(&place, &mut Trial::command(&place, &script, options, &[]));
        assert_eq!(trial.end_without_rest().code(), Some(0), "{}", trial.output());
        if options.is_empty() && has_strace() {
            assert!(trial.output().contains(&port.to_string()), "{}", trial.output());
        }
    }
}

/// Case M4.
#[test]
fn zombies_are_reaped_before_a_trial_ends() {
    if !system_has_namespaces() || !has_strace() {
        return;
    }
    let place = Place::new();
    let mut trial = Trial::start(&place, &mut Trial::command(&place, "serve", &[], &[]));
    let mut below = Vec::new();
    until("it ends", || {
        below.extend(children(trial.child.id()));
        trial.child.try_wait().expect("one's own child")
    });
    below.retain(|pid| Path::new("/proc").join(pid.to_string()).exists());
    assert_eq!(below, [0; 0], "the reaper and the tracer are gone");
}
