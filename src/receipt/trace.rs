//! Reads what strace writes about the processes of a server, and collects what they have touched. Pure.
//!
//! The server controls much of this text: paths, arguments and payloads. strace escapes them within quotes and angle brackets, so
//! [`line`] finds the end of each, and no text of the server is taken for syntax. Everything collected is bounded.
//!
//! Source: strace(1) of 6.1, options `-f -q -y -s 512`, and its output.

mod calls;
mod dns;
mod line;

use std::collections::{BTreeSet, HashMap};
use std::path::{Component, Path, PathBuf};

use self::calls::{Access, Place, Row, SocketCall, row};
use self::line::{Call, Event, Outcome, path_of};
use super::observed::{Attempt, Endpoint, FileUse, Observed, Reach};

/// `argv[0]` of the processes of mcpd above a server.
const OWN: &[&[u8]] = &[b"mcpd-guard", b"mcpd-init", b"mcpd-reaper", b"mcpd-sandbox", b"mcpd-sandboxed"];
/// The maximum length of the beginning of a call that is kept until its end. Two paths fit.
const MAX_UNFINISHED: usize = 64 * 1024;
/// The most links on the way to a file. Source: path_resolution(7).
const MAX_LINKS: usize = 40;
/// Names of the process itself below `/proc`.
const PROCESS: &[&str] = &["self", "thread-self"];
/// The port of DNS.
const DNS: u16 = 53;

/// The system calls to trace: the value of strace's option `-e trace=`.
pub(crate) const TRACED: &str = "execve,execveat,%file,fchdir,clone,clone3,fork,vfork,socket,connect,bind,listen,sendto,sendmsg,sendmmsg,\
     kill,tkill,tgkill,pidfd_send_signal,ptrace,process_vm_readv,process_vm_writev,pidfd_getfd,unshare,setns,mount,fsopen,open_tree,\
     io_uring_setup,bpf,keyctl,add_key,request_key,perf_event_open";

/// The maximum sizes of what is collected.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Paths.
    pub(crate) paths: usize,
    /// Host names, endpoints and programs, each.
    pub(crate) others: usize,
    /// Processes and sockets that exist at one time, each.
    pub(crate) live: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { paths: 32 * 1024, others: 1024, live: 16 * 1024 }
    }
}

/// Collects what the lines of one trace say.
#[derive(Debug)]
pub(crate) struct Tracer {
    limits: Limits,
    observed: Observed,
    processes: HashMap<u32, Process>,
    /// The symbolic links that the server has created, with their targets.
    links: HashMap<PathBuf, PathBuf>,
    /// Sockets by inode.
    sockets: HashMap<u64, Socket>,
    /// The beginnings of calls whose end follows, by process.
    unfinished: HashMap<u32, Vec<u8>>,
    unfinished_bytes: usize,
    /// The last process that created another, and whether both share their working directory.
    creator: Option<(u32, bool)>,
    next_group: u64,
}

#[derive(Debug, Clone)]
struct Process {
    /// It belongs to the server. The others are mcpd's own.
    is_server: bool,
    /// The processes and threads with the same number have one working directory.
    group: u64,
    cwd: Option<PathBuf>,
}

#[derive(Debug, Default)]
struct Socket {
    is_datagram: bool,
    peer: Option<Endpoint>,
    bound: Option<Endpoint>,
}

impl Tracer {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            limits,
            observed: Observed::default(),
            processes: HashMap::new(),
            links: HashMap::new(),
            sockets: HashMap::new(),
            unfinished: HashMap::new(),
            unfinished_bytes: 0,
            creator: None,
            next_group: 0,
        }
    }

    /// The end of the trace.
    pub(crate) fn finish(self) -> Observed {
        self.observed
    }

    /// Something of the trace was lost, such as a line that was too long.
    pub(crate) fn cut(&mut self) {
        self.observed.is_cut = true;
    }

    /// Reads one line, without its end. Unknown lines are ignored.
    pub(crate) fn line(&mut self, line: &[u8]) {
        let Some((pid, event)) = line::event(line) else { return };
        match event {
            Event::Exited => {
                self.processes.remove(&pid);
                self.forget(pid);
            }
            Event::Unfinished(beginning) => {
                self.appear(pid);
                self.note_creation(pid, beginning);
                self.keep(pid, beginning);
            }
            Event::Resumed(name, end) => {
                self.appear(pid);
                if let Some(mut text) = self.forget(pid).filter(|text| text.starts_with(name)) {
                    text.extend_from_slice(end);
                    self.call(pid, &text);
                }
            }
            Event::Call(text) => {
                self.appear(pid);
                self.note_creation(pid, text);
                self.call(pid, text);
            }
        }
    }

    /// A process that is new belongs to the server as soon as the server runs: mcpd's own processes create no others from then on.
    fn appear(&mut self, pid: u32) {
        if self.processes.contains_key(&pid) {
            return;
        }
        if self.processes.len() >= self.limits.live {
            self.cut();
            self.processes.clear();
            // Nothing is known of processes that exist, and the server runs.
            self.processes.insert(0, Process { is_server: true, group: 0, cwd: None });
        }
        let is_server = self.processes.values().any(|process| process.is_server);
        let creator = self.creator.and_then(|(creator, shares)| Some((self.processes.get(&creator)?, shares)));
        let cwd = creator.and_then(|(creator, _)| creator.cwd.clone());
        self.next_group += 1;
        let group = creator.filter(|(_, shares)| *shares).map_or(self.next_group, |(creator, _)| creator.group);
        self.processes.insert(pid, Process { is_server, group, cwd });
    }

    fn note_creation(&mut self, pid: u32, text: &[u8]) {
        if [&b"clone"[..], b"fork(", b"vfork("].iter().any(|name| text.starts_with(name)) {
            self.creator = Some((pid, line::find(text, b"CLONE_FS").is_some()));
        }
    }

    fn keep(&mut self, pid: u32, beginning: &[u8]) {
        self.forget(pid);
        let mut text = beginning.to_vec();
        if text.len() > MAX_UNFINISHED
            && let Some(end) = line::end_of_first(&text).filter(|end| *end < MAX_UNFINISHED)
        {
            // Of a long command line, only the program counts.
            text.truncate(end);
        }
        if text.len() > MAX_UNFINISHED
            || self.unfinished.len() >= self.limits.live
            || self.unfinished_bytes > MAX_UNFINISHED * 256
        {
            return self.cut();
        }
        self.unfinished_bytes += text.len();
        self.unfinished.insert(pid, text);
    }

    fn forget(&mut self, pid: u32) -> Option<Vec<u8>> {
        let text = self.unfinished.remove(&pid)?;
        self.unfinished_bytes -= text.len();
        Some(text)
    }

    fn call(&mut self, pid: u32, text: &[u8]) {
        let Some(call) = line::call(text) else { return };
        if let Some(cwd) = call.arguments.iter().find_map(|argument| line::current_directory(argument)) {
            self.set_cwd(pid, path_of(cwd));
        }
        let Some(row) = row(call.name) else { return };
        let executes = matches!(row, Row::Path(Access::Execute, _));
        if executes && call.outcome == Outcome::Done {
            let argv = call.arguments.iter().find(|argument| argument.starts_with(b"["));
            let name = argv.and_then(|argv| line::string(&argv[1..]));
            // The memory of some processes of mcpd cannot be read, so neither can the arguments of what they execute. That is mcpd, too: the
            // last process before a server can be read.
            let is_own = name.is_none_or(|(name, _)| OWN.contains(&&*name));
            if let Some(process) = self.processes.get_mut(&pid) {
                process.is_server |= !is_own;
            }
        }
        if !self.processes.get(&pid).is_some_and(|process| process.is_server) {
            return;
        }
        match row {
            Row::Path(access, places) => {
                for (directory, index) in *places {
                    self.path(pid, *access, &call, *directory, *index);
                }
            }
            Row::Rename(from, to) => {
                self.path(pid, Access::Remove, &call, from.0, from.1);
                self.path(pid, Access::Create, &call, to.0, to.1);
            }
            Row::Link(from, to) => {
                self.path(pid, Access::Look, &call, from.0, from.1);
                self.path(pid, Access::Create, &call, to.0, to.1);
            }
            Row::Symlink(target, link) => self.symlink(pid, &call, *target, *link),
            Row::Socket(kind) => self.socket(pid, *kind, &call),
            Row::Attempt(attempt) => drop(self.observed.attempts.insert(*attempt)),
            Row::Signal => {
                if call.outcome.is(&["EPERM"]) {
                    self.observed.attempts.insert(Attempt::Signal);
                }
            }
            Row::Clone => {
                if line::find(text, b"CLONE_NEW").is_some() {
                    self.observed.attempts.insert(Attempt::Namespace);
                }
            }
            Row::DirectoryOfDescriptor => {
                let directory = call.arguments.first().and_then(|argument| line::descriptor_path(argument));
                if let (Some(directory), Outcome::Done) = (directory, &call.outcome) {
                    self.set_group_cwd(pid, &path_of(directory));
                }
            }
        }
    }

    fn set_cwd(&mut self, pid: u32, cwd: PathBuf) {
        if let Some(process) = self.processes.get_mut(&pid) {
            process.cwd = Some(cwd);
        }
    }

    fn set_group_cwd(&mut self, pid: u32, cwd: &Path) {
        let Some(group) = self.processes.get(&pid).map(|process| process.group) else { return };
        for process in self.processes.values_mut().filter(|process| process.group == group) {
            process.cwd = Some(cwd.to_owned());
        }
    }

    /// The path at `index` of the arguments, made absolute. The one at `directory` is what it is relative to.
    fn named(&mut self, pid: u32, call: &Call<'_>, directory: Option<usize>, index: usize) -> Option<PathBuf> {
        let (name, is_whole) = call.arguments.get(index).and_then(|argument| line::string(argument))?;
        if name.is_empty() {
            return None;
        }
        if !is_whole {
            self.cut();
        }
        let base = match directory {
            Some(index) => call.arguments.get(index).and_then(|argument| line::descriptor_path(argument)).map(path_of),
            None => self.processes.get(&pid).and_then(|process| process.cwd.clone()),
        };
        Some(base.unwrap_or_default().join(path_of(name)))
    }

    /// Records what a call does with the path at `index` of its arguments, which is relative to that at `directory`.
    fn path(&mut self, pid: u32, access: Access, call: &Call<'_>, directory: Option<usize>, index: usize) {
        let Some(spelled) = self.named(pid, call, directory, index) else { return };
        let named = self.normal(pid, &spelled, false);
        let access = match access {
            Access::Open => calls::opening(call),
            access => access,
        };
        let uses = access.outcome(&call.outcome);
        if access == Access::Execute && call.outcome == Outcome::Done {
            let full = self.observed.programs.len() >= self.limits.others;
            self.observed.is_cut |= full;
            if !full {
                self.observed.programs.insert(named.clone());
            }
        }
        if access == Access::ChangeDirectory && call.outcome == Outcome::Done {
            self.set_group_cwd(pid, &named);
        }
        if matches!(uses, FileUse::Missing | FileUse::Refused) {
            // Only a failure does not say where a link of the server led.
            let followed = self.normal(pid, &spelled, true);
            if followed != named {
                self.touch(followed, uses);
            }
        }
        // The result of an opening names the file that was really opened.
        let real = call.opened.clone().map(path_of).filter(|path| path.is_absolute());
        self.touch(real.unwrap_or(named), uses);
    }

    /// Records a symbolic link, so that what is done by its name counts for its target, too.
    fn symlink(&mut self, pid: u32, call: &Call<'_>, target: usize, (directory, index): Place) {
        self.path(pid, Access::Create, call, directory, index);
        let Some(link) = self.named(pid, call, directory, index) else { return };
        let Some((target, _)) = call.arguments.get(target).and_then(|argument| line::string(argument)) else { return };
        let (link, target) = (self.normal(pid, &link, false), path_of(target));
        let target = self.normal(pid, &link.parent().unwrap_or(Path::new("/")).join(target), true);
        self.touch(target.clone(), FileUse::Linked);
        if call.outcome == Outcome::Done {
            if self.links.len() < self.limits.paths {
                self.links.insert(link, target);
            } else {
                self.cut();
            }
        }
    }

    /// `path` without `.` and `..`, and without the links of `/proc` to the root and to the working directory. Of other links, only the
    /// server's own are known, and followed if that is asked for.
    fn normal(&self, pid: u32, path: &Path, follows: bool) -> PathBuf {
        let cwd = self.processes.get(&pid).and_then(|process| process.cwd.as_deref());
        let mut followed = 0;
        path.components().fold(PathBuf::new(), |mut normal, part| {
            match part {
                Component::CurDir => {}
                Component::ParentDir => drop(normal.pop()),
                part => normal.push(part),
            }
            while let Some(target) = follows.then(|| self.links.get(&normal)).flatten()
                && followed < MAX_LINKS
            {
                followed += 1;
                normal.clone_from(target);
            }
            without_proc(normal, cwd)
        })
    }

    fn touch(&mut self, path: PathBuf, uses: FileUse) {
        if let Some(known) = self.observed.files.get_mut(&path) {
            known.insert(uses);
        } else if self.observed.files.len() < self.limits.paths {
            self.observed.files.insert(path, BTreeSet::from([uses]));
        } else {
            self.observed.is_cut = true;
        }
    }

    fn socket(&mut self, pid: u32, kind: SocketCall, call: &Call<'_>) {
        if kind == SocketCall::Create {
            let Some(inode) = call.opened.as_deref().and_then(line::inode) else { return };
            let is_datagram =
                call.arguments.get(1).is_some_and(|argument| line::find(argument, b"SOCK_DGRAM").is_some());
            if self.sockets.len() >= self.limits.live {
                self.sockets.clear();
                self.cut();
            }
            self.sockets.insert(inode, Socket { is_datagram, ..Socket::default() });
            return;
        }
        let [descriptor, rest @ ..] = &call.arguments[..] else { return };
        let inode = line::descriptor(descriptor).as_deref().and_then(line::inode);
        let known = inode.and_then(|inode| self.sockets.get(&inode));
        let is_datagram = known.is_some_and(|socket| socket.is_datagram);
        let address = rest.iter().find_map(|argument| line::address(argument, is_datagram));
        match kind {
            SocketCall::Create => {}
            SocketCall::Bind => {
                if let (Some(inode), Some(address), Outcome::Done) = (inode, address, &call.outcome) {
                    if let Endpoint::Unix(path) = &address {
                        self.touch(self.normal(pid, path, false), FileUse::Wrote);
                    }
                    self.sockets.entry(inode).or_default().bound = Some(address);
                }
            }
            SocketCall::Listen => {
                if let (Some(bound), Outcome::Done) = (known.and_then(|socket| socket.bound.clone()), &call.outcome) {
                    let full = self.observed.listeners.len() >= self.limits.others;
                    self.observed.is_cut |= full;
                    if !full {
                        self.observed.listeners.insert(bound);
                    }
                }
            }
            SocketCall::Connect => {
                let Some(address) = address else { return };
                if !is_datagram || matches!(address, Endpoint::Unix(_) | Endpoint::Abstract(_)) {
                    self.connected(address.clone(), &call.outcome);
                }
                if let Some(inode) = inode {
                    self.sockets.entry(inode).or_default().peer = Some(address);
                }
            }
            SocketCall::Send => {
                let Some(peer) = address.or_else(|| known.and_then(|socket| socket.peer.clone())) else { return };
                if let Endpoint::Tcp(address) | Endpoint::Udp(address) = &peer
                    && address.port() == DNS
                {
                    self.looked_up(rest, matches!(peer, Endpoint::Tcp(_)));
                }
                // Resolvers connect datagram sockets to choose an address, without sending anything.
                if is_datagram {
                    self.connected(peer, &call.outcome);
                }
            }
        }
    }

    fn connected(&mut self, to: Endpoint, outcome: &Outcome) {
        let reach = match outcome {
            Outcome::Done => Reach::Reached,
            Outcome::Failed(name) if name == "EINPROGRESS" => Reach::Begun,
            Outcome::Failed(name) => Reach::Failed(name.clone()),
            Outcome::Unknown => Reach::Begun,
        };
        let connections = &mut self.observed.connections;
        if let Some(known) = connections.get_mut(&to) {
            // The best result counts.
            if *known > reach {
                *known = reach;
            }
        } else if connections.len() < self.limits.others {
            connections.insert(to, reach);
        } else {
            self.observed.is_cut = true;
        }
    }

    fn looked_up(&mut self, arguments: &[&[u8]], is_stream: bool) {
        let payloads = arguments.iter().flat_map(|argument| line::payloads(argument));
        for host in payloads.filter_map(|payload| dns::question(payload.get(if is_stream { 2 } else { 0 }..)?)) {
            let full = self.observed.hosts.len() >= self.limits.others;
            self.observed.is_cut |= full;
            if !full {
                self.observed.hosts.insert(host);
            }
        }
    }
}

/// The root or the working directory, if `path` is the link of a process to it. The processes of a server have one root, and the numbers
/// that they see are not those of the trace, so any process stands for this one.
fn without_proc(path: PathBuf, cwd: Option<&Path>) -> PathBuf {
    let mut parts = path.components().skip(1).map(|part| part.as_os_str().to_str().unwrap_or_default());
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_process =
        parts.next() == Some("proc") && parts.next().is_some_and(|part| PROCESS.contains(&part) || is_number(part));
    let link = match parts.next().filter(|_| is_process) {
        Some("task") => parts.next().filter(|part| is_number(part)).and_then(|_| parts.next()),
        link => link,
    };
    let target = match (link, parts.next()) {
        (Some("root"), None) => Some(Path::new("/")),
        (Some("cwd"), None) => cwd,
        _ => None,
    };
    let target = target.map(Path::to_owned);
    target.unwrap_or(path)
}

#[cfg(test)]
mod tests;
