//! Facts about a process of this user and about listening sockets. Source: proc(5).

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::admin::ProcessReport;

/// Follows the path of a deleted executable.
const DELETED: &str = " (deleted)";

/// A running daemon. The kernel hides some facts from other processes; these are `None` unless the daemon itself reports them.
#[derive(Debug)]
pub(super) struct ProcessInfo {
    pub(super) pid: u32,
    /// The state letter of `ps`: `T` is suspended.
    pub(super) state: Option<char>,
    /// Whether it has a controlling terminal.
    pub(super) has_terminal: bool,
    pub(super) environment: Option<BTreeMap<String, String>>,
    pub(super) directory: Option<PathBuf>,
    pub(super) executable: Option<Executable>,
    pub(super) arguments: Vec<OsString>,
    /// The name of its systemd unit.
    pub(super) unit: Option<String>,
    /// Its cgroup of version 2, below the mount point.
    pub(super) cgroup: Option<PathBuf>,
    pub(super) files: Option<OpenFiles>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Executable {
    pub(super) path: PathBuf,
    /// The file was deleted. A new one may have its path.
    pub(super) is_deleted: bool,
}

/// The number of open files, and the soft limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct OpenFiles {
    pub(super) count: usize,
    pub(super) limit: usize,
}

impl ProcessInfo {
    /// The process `pid`, if there is one, with the facts that it has reported about itself.
    pub(super) fn of(pid: u32, reported: Option<ProcessReport>) -> Option<Self> {
        let of = |name: &str| Path::new("/proc").join(pid.to_string()).join(name);
        let stat = fs::read(of("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let cgroups = fs::read_to_string(of("cgroup")).unwrap_or_default();
        let arguments = fs::read(of("cmdline")).unwrap_or_default();
        let limits = fs::read_to_string(of("limits")).unwrap_or_default();
        let open_files = reported.as_ref().map(|reported| reported.open_files.len());
        let (directory, executable) = reported
            .as_ref()
            .map(|reported| (reported.directory.clone(), reported.executable.clone()))
            .unwrap_or_default();
        Some(Self {
            pid,
            state: state(&stat),
            has_terminal: has_terminal(&stat),
            environment: reported.map(|reported| reported.environment),
            directory,
            executable: executable.map(Executable::of),
            arguments: arguments.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect(),
            unit: unit(&cgroups),
            cgroup: cgroups.lines().find_map(|line| line.strip_prefix("0::/")).map(PathBuf::from),
            files: open_files.zip(file_limit(&limits)).map(|(count, limit)| OpenFiles { count, limit }),
        })
    }

    /// Whether it belongs to this systemd unit.
    pub(super) fn is_of(&self, unit: &str) -> bool {
        self.unit.as_deref() == Some(unit)
    }
}

impl Executable {
    fn of(link: PathBuf) -> Self {
        let text = link.to_string_lossy();
        match text.strip_suffix(DELETED) {
            Some(path) => Self { path: path.into(), is_deleted: true },
            None => Self { path: link, is_deleted: false },
        }
    }
}

/// Whether a process listens on the socket `path`. Unlike a connection, this check does not activate a systemd socket.
pub(super) fn is_listened_on(path: &Path) -> bool {
    fs::read_to_string("/proc/net/unix").is_ok_and(|text| listens(&text, &path.to_string_lossy()))
}

/// The state in `/proc/PID/stat`. It follows the name, which may contain any character.
fn state(stat: &str) -> Option<char> {
    stat.rsplit_once(") ")?.1.chars().next()
}

/// Whether `/proc/PID/stat` names a controlling terminal, which is the fifth field after the name.
fn has_terminal(stat: &str) -> bool {
    let after = stat.rsplit_once(") ").map(|(_, rest)| rest).unwrap_or_default();
    after.split(' ').nth(4).is_some_and(|terminal| terminal != "0")
}

/// The innermost service in `/proc/PID/cgroup`, other than the user's service manager.
fn unit(cgroup: &str) -> Option<String> {
    let parts = cgroup.lines().flat_map(|line| line.rsplit('/'));
    parts.into_iter().find(|part| part.ends_with(".service") && !part.starts_with("user@")).map(str::to_owned)
}

/// The soft limit in `/proc/PID/limits`.
fn file_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    let soft = line.split_whitespace().next()?;
    if soft == "unlimited" { Some(usize::MAX) } else { soft.parse().ok() }
}

/// Whether `/proc/net/unix` has a socket at `path` that accepts (flag `SO_ACCEPTCON`).
fn listens(sockets: &str, path: &str) -> bool {
    sockets.lines().any(|line| {
        let mut words = line.split_whitespace().skip(3);
        words.next() == Some("00010000") && line.ends_with(&format!(" {path}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_proc_are_parsed() {
        assert_eq!(state("41 (a) b (c)) T 1 41 41 0"), Some('T'));
        assert!(!has_terminal("41 (a) b (c)) T 1 41 41 0 -1") && has_terminal("41 (a) S 1 41 41 34816 41"));
        let limits = "Limit    Soft Limit   Hard Limit   Units\nMax open files            1024                 524288               files\n";
        assert_eq!(file_limit(limits), Some(1024));
        for (path, expected) in [("/usr/bin/mcpd", ("/usr/bin/mcpd", false)), ("/a b (deleted)", ("/a b", true))] {
            let executable = Executable::of(PathBuf::from(path));
            assert_eq!((executable.path.to_str(), executable.is_deleted), (Some(expected.0), expected.1));
        }
    }

    #[test]
    fn a_process_is_of_the_innermost_service() {
        for (cgroup, expected) in [
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/mcpd.service\n", Some("mcpd.service")),
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/mcpd.service/daemon\n", Some("mcpd.service")),
            ("0::/user.slice/user-7.slice/session-3.scope\n", None),
            ("0::/user.slice/user-7.slice/user@7.service/app.slice/term.scope\n", None),
            ("0::/\n", None),
        ] {
            assert_eq!(unit(cgroup).as_deref(), expected, "{cgroup}");
        }
    }

    #[test]
    fn a_socket_is_listened_on_if_it_accepts() {
        let sockets = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                       0000: 00000003 00000000 00000000 0001 03 81 /run/a b.sock\n\
                       0000: 00000002 00000000 00010000 0001 01 82 /run/mcp.sock\n";
        for (path, expected) in
            [("/run/mcp.sock", true), ("mcp.sock", false), ("/run/a b.sock", false), ("/run/mcp", false)]
        {
            assert_eq!(listens(sockets, path), expected, "{path}");
        }
    }
}
