//! The system calls that are read, and what each does with its paths. Pure.
//!
//! Source: syscalls(2) and the page of each call.

use super::line::{Call, Outcome, find};
use crate::receipt::observed::{Attempt, FileUse};

/// What a call does with a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Look,
    ChangeDirectory,
    Execute,
    /// By its flags, one of the others.
    Open,
    Read,
    /// Changes what exists.
    Change,
    Create,
    Remove,
}

impl Access {
    /// What has become of the path.
    pub(super) fn outcome(self, outcome: &Outcome) -> FileUse {
        let is_missing = outcome.is(&["ENOENT", "ENOTDIR"]);
        let is_refused = outcome.is(&["EACCES", "EPERM", "EROFS"]);
        match self {
            Self::Create | Self::Change if is_refused => FileUse::WriteFailed,
            Self::Create if is_missing => FileUse::WriteFailed,
            Self::Remove if is_refused => FileUse::WriteFailed,
            _ if is_missing => FileUse::Missing,
            _ if is_refused => FileUse::Refused,
            Self::Create | Self::Change | Self::Remove if *outcome == Outcome::Done => FileUse::Wrote,
            Self::Read | Self::Execute if *outcome == Outcome::Done => FileUse::Read,
            _ => FileUse::Looked,
        }
    }
}

/// What an opening does, by its flags.
pub(super) fn opening(call: &Call<'_>) -> Access {
    let has = |flag: &[u8]| call.arguments.iter().skip(1).any(|argument| find(argument, flag).is_some());
    if has(b"O_CREAT") || has(b"O_TMPFILE") {
        return Access::Create;
    }
    if has(b"O_WRONLY") || has(b"O_RDWR") || has(b"O_TRUNC") {
        return Access::Change;
    }
    if has(b"O_PATH") { Access::Look } else { Access::Read }
}

/// The arguments with a path: that of the directory that it is relative to, and its own.
pub(super) type Place = (Option<usize>, usize);

#[derive(Debug)]
pub(super) enum Row {
    Path(Access, &'static [Place]),
    Rename(Place, Place),
    Link(Place, Place),
    /// The target of a symbolic link, and its place.
    Symlink(usize, Place),
    Socket(SocketCall),
    Attempt(Attempt),
    Signal,
    Clone,
    /// The working directory becomes that of a descriptor.
    DirectoryOfDescriptor,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SocketCall {
    Create,
    Bind,
    Listen,
    Connect,
    Send,
}

const FIRST: &[Place] = &[(None, 0)];
const SECOND: &[Place] = &[(None, 1)];
const AT: &[Place] = &[(Some(0), 1)];

/// The calls by name.
const ROWS: &[(&str, Row)] = &[
    ("access", Row::Path(Access::Look, FIRST)),
    ("add_key", Row::Attempt(Attempt::Kernel)),
    ("bind", Row::Socket(SocketCall::Bind)),
    ("bpf", Row::Attempt(Attempt::Kernel)),
    ("chdir", Row::Path(Access::ChangeDirectory, FIRST)),
    ("chmod", Row::Path(Access::Change, FIRST)),
    ("chown", Row::Path(Access::Change, FIRST)),
    ("clone", Row::Clone),
    ("clone3", Row::Clone),
    ("connect", Row::Socket(SocketCall::Connect)),
    ("creat", Row::Path(Access::Create, FIRST)),
    ("execve", Row::Path(Access::Execute, FIRST)),
    ("execveat", Row::Path(Access::Execute, AT)),
    ("faccessat", Row::Path(Access::Look, AT)),
    ("faccessat2", Row::Path(Access::Look, AT)),
    ("fchdir", Row::DirectoryOfDescriptor),
    ("fchmodat", Row::Path(Access::Change, AT)),
    ("fchmodat2", Row::Path(Access::Change, AT)),
    ("fchownat", Row::Path(Access::Change, AT)),
    ("fsopen", Row::Attempt(Attempt::Mount)),
    ("futimesat", Row::Path(Access::Change, AT)),
    ("getxattr", Row::Path(Access::Look, FIRST)),
    ("inotify_add_watch", Row::Path(Access::Look, SECOND)),
    ("io_uring_setup", Row::Attempt(Attempt::IoUring)),
    ("keyctl", Row::Attempt(Attempt::Kernel)),
    ("kill", Row::Signal),
    ("lchown", Row::Path(Access::Change, FIRST)),
    ("lgetxattr", Row::Path(Access::Look, FIRST)),
    ("link", Row::Link((None, 0), (None, 1))),
    ("linkat", Row::Link((Some(0), 1), (Some(2), 3))),
    ("listen", Row::Socket(SocketCall::Listen)),
    ("listxattr", Row::Path(Access::Look, FIRST)),
    ("llistxattr", Row::Path(Access::Look, FIRST)),
    ("lremovexattr", Row::Path(Access::Change, FIRST)),
    ("lsetxattr", Row::Path(Access::Change, FIRST)),
    ("lstat", Row::Path(Access::Look, FIRST)),
    ("mkdir", Row::Path(Access::Create, FIRST)),
    ("mkdirat", Row::Path(Access::Create, AT)),
    ("mknod", Row::Path(Access::Create, FIRST)),
    ("mknodat", Row::Path(Access::Create, AT)),
    ("mount", Row::Attempt(Attempt::Mount)),
    ("name_to_handle_at", Row::Path(Access::Look, AT)),
    ("newfstatat", Row::Path(Access::Look, AT)),
    ("open", Row::Path(Access::Open, FIRST)),
    ("open_tree", Row::Attempt(Attempt::Mount)),
    ("openat", Row::Path(Access::Open, AT)),
    ("openat2", Row::Path(Access::Open, AT)),
    ("perf_event_open", Row::Attempt(Attempt::Kernel)),
    ("pidfd_getfd", Row::Attempt(Attempt::Trace)),
    ("pidfd_send_signal", Row::Signal),
    ("process_vm_readv", Row::Attempt(Attempt::Trace)),
    ("process_vm_writev", Row::Attempt(Attempt::Trace)),
    ("ptrace", Row::Attempt(Attempt::Trace)),
    ("readlink", Row::Path(Access::Look, FIRST)),
    ("readlinkat", Row::Path(Access::Look, AT)),
    ("removexattr", Row::Path(Access::Change, FIRST)),
    ("rename", Row::Rename((None, 0), (None, 1))),
    ("renameat", Row::Rename((Some(0), 1), (Some(2), 3))),
    ("renameat2", Row::Rename((Some(0), 1), (Some(2), 3))),
    ("request_key", Row::Attempt(Attempt::Kernel)),
    ("rmdir", Row::Path(Access::Remove, FIRST)),
    ("sendmmsg", Row::Socket(SocketCall::Send)),
    ("sendmsg", Row::Socket(SocketCall::Send)),
    ("sendto", Row::Socket(SocketCall::Send)),
    ("setns", Row::Attempt(Attempt::Namespace)),
    ("setxattr", Row::Path(Access::Change, FIRST)),
    ("socket", Row::Socket(SocketCall::Create)),
    ("stat", Row::Path(Access::Look, FIRST)),
    ("statfs", Row::Path(Access::Look, FIRST)),
    ("statx", Row::Path(Access::Look, AT)),
    ("symlink", Row::Symlink(0, (None, 1))),
    ("symlinkat", Row::Symlink(0, (Some(1), 2))),
    ("tgkill", Row::Signal),
    ("tkill", Row::Signal),
    ("truncate", Row::Path(Access::Change, FIRST)),
    ("unlink", Row::Path(Access::Remove, FIRST)),
    ("unlinkat", Row::Path(Access::Remove, AT)),
    ("unshare", Row::Attempt(Attempt::Namespace)),
    ("utime", Row::Path(Access::Change, FIRST)),
    ("utimensat", Row::Path(Access::Change, AT)),
    ("utimes", Row::Path(Access::Change, FIRST)),
];

/// What is done with the call of this name.
pub(super) fn row(name: &str) -> Option<&'static Row> {
    ROWS.binary_search_by(|(known, _)| known.cmp(&name)).ok().map(|index| &ROWS[index].1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_sorted_and_found() {
        assert!(ROWS.windows(2).all(|rows| rows[0].0 < rows[1].0), "the search needs this order");
        assert!(row("openat").is_some() && row("read").is_none());
    }
}
