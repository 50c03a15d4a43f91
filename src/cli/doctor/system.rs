//! The mcpd program, the system, and the home directory.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::process::{PidfdFlags, geteuid, getpid, pidfd_open};

use super::finding::{Finding, Group};
use super::probe::{DaemonProbe, Host};
use crate::config::interpolate::{Process, Sources};
use crate::server::SandboxHost;

pub(super) fn check(probe: &DaemonProbe) -> Group {
    Group {
        title: "program and system",
        findings: [Some(version()), others(), Some(system()), Some(sandbox()), Some(namespaces(probe)), home()]
            .into_iter()
            .flatten()
            .collect(),
    }
}

fn version() -> Finding {
    let path = std::env::current_exe().map_or_else(|error| error.to_string(), |path| path.display().to_string());
    Finding::fine("mcpd", format!("version {}, {path}", env!("CARGO_PKG_VERSION")))
}

/// Another mcpd on the PATH, which a shell, an agent or a unit may start instead.
fn others() -> Option<Finding> {
    let this = std::env::current_exe().ok()?;
    let path = Process.var("PATH").unwrap_or_default();
    let first = Process.on_path("mcpd", &path)?;
    (first.canonicalize().ok()? != this).then(|| {
        let first = first.display();
        let advice = format!(
            "if you do not need both, remove the older one (`{first} --version` prints its version), or this one if they are equal"
        );
        let found = format!(
            "the first `mcpd` on PATH is another file, {first}: a shell or an agent that runs `mcpd` without a path starts it"
        );
        Finding::warning("PATH", found, advice)
    })
}

fn system() -> Finding {
    let Ok(release) = fs::read_to_string("/proc/sys/kernel/osrelease") else {
        let advice =
            "mount it: `mount -t proc proc /proc`; mcpd needs it to find processes that a server leaves behind";
        return Finding::problem("system", "Linux without /proc", advice);
    };
    let found = format!("Linux {}", release.trim_end());
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::fine("system", found),
        Err(error) => Finding::problem(
            "system",
            format!("{found}, where `pidfd_open` fails: {error}"),
            "use Linux 5.6 or newer; in a container, allow `pidfd_open` in its seccomp profile",
        ),
    }
}

/// What sandboxes can restrict on this system.
fn sandbox() -> Finding {
    let scope = host().report_of_default();
    match scope.unenforced_text() {
        None => Finding::fine("sandbox", "Landlock separates servers from each other and from mcpd"),
        Some(unenforced) => {
            let advice = "use Linux 6.12 or newer, with Landlock enabled (`lsm=` on the kernel's command line)";
            Finding::warning("sandbox", format!("of each server: {unenforced}"), advice)
        }
    }
}

/// Whether servers at sandbox level `files` have namespaces of their own.
fn namespaces(probe: &DaemonProbe) -> Finding {
    match host().try_namespaces() {
        Ok(()) => Finding::fine("namespaces", "a server at sandbox level `files` reaches only what exists in its own"),
        Err(failure) => {
            let found = format!("servers at sandbox level `files` have none of their own: {failure}");
            Finding::warning("namespaces", found, namespaces_advice(probe))
        }
    }
}

/// How to permit namespaces.
fn namespaces_advice(probe: &DaemonProbe) -> String {
    let restart = match probe.host() {
        Host::Absent => String::new(),
        _ => format!("; then {}", probe.restart()),
    };
    let restricts = fs::read_to_string("/proc/sys/kernel/apparmor_restrict_unprivileged_userns");
    let program = std::env::current_exe().ok().filter(|path| fs::metadata(path).is_ok_and(|found| found.uid() == 0));
    match program.filter(|_| restricts.is_ok_and(|value| value.trim() == "1")) {
        // A profile for a program that others can replace would permit namespaces to them.
        Some(program) => format!(
            "have AppArmor permit them: `printf 'abi <abi/4.0>,\\nprofile mcpd {} flags=(unconfined) {{ userns, }}\\n' | sudo tee \
             /etc/apparmor.d/mcpd && sudo apparmor_parser -r /etc/apparmor.d/mcpd`{restart}",
            program.display()
        ),
        None => format!(
            "permit user namespaces (`user.max_user_namespaces`, or AppArmor, by the Debian package of mcpd); in a \
             container, also /proc without masks{restart}"
        ),
    }
}

fn host() -> SandboxHost {
    SandboxHost::new(Some(Path::new("/proc/self/exe")), &Process)
}

/// Checks HOME, which `sudo` and services may set to another user's directory or leave unset.
fn home() -> Option<Finding> {
    let Some(home) = std::env::var_os("HOME").filter(|home| !home.is_empty()) else {
        let advice = std::env::home_dir()
            .map_or_else(|| "set it".to_owned(), |home| format!("`export HOME={}`", home.display()));
        return Some(Finding::warning("HOME", "is not set: servers are started without it", advice));
    };
    let (shown, user) = (home.display(), geteuid().as_raw());
    match fs::metadata(&home) {
        Err(error) => {
            let advice = "create it, or set HOME to an existing directory";
            Some(Finding::warning("HOME", format!("{shown}: {error}"), advice))
        }
        Ok(found) if found.uid() != user => Some(Finding::warning(
            "HOME",
            format!("{shown} belongs to user {}, and this is user {user}", found.uid()),
            "run mcpd as that user, or with this user's home: `sudo -H`, or `su -`",
        )),
        Ok(_) => None,
    }
}
