//! The sandbox stage of a start: a process that restricts itself and then becomes the server.
//!
//! The guard re-executes itself under the name [`ARGV0`]. The stage's standard input is a socket to the guard, which sends it the
//! server's three standard streams and the [`LaunchSpec`], so no secret appears in an argument list. The stage sends [`READY`],
//! and the socket closes when the server is executed. Otherwise the stage sends the error.
//!
//! With [namespaces](super::namespaces), the stage has two halves. The first one finds the server's program and paths, enters the
//! namespaces, [mounts](super::mounts) the paths, starts [`init`], introduces it to the guard ([`INIT`]) and exits. `init` starts the
//! second half inside, under another name. That one restricts itself and becomes the server, as the whole stage does without
//! namespaces.

use std::ffi::CString;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::iter;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, parent_id};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::SigSet;
use nix::unistd::execve;
use rustix::event::{PollFd, PollFlags};
use rustix::fs::{MemfdFlags, Mode, OFlags, memfd_create, open};
use rustix::net::sockopt::set_socket_passcred;
use rustix::process::{
    Pid, Resource, Rlimit, Signal, WaitOptions, chdir, fchdir, geteuid, getrlimit, kill_process, setrlimit, setsid,
    waitpid,
};
use serde::{Deserialize, Serialize};
use signal_hook::consts::SIGPIPE;

use super::files::{self, FileGrant, TemporaryDirectories};
use super::namespaces::{AtStep, NamespaceStep, Namespaces};
use super::opened::OpenedPath;
use super::{Restrictions, domain, init, mounts};
use crate::disk::WRITABLE_BY_OTHERS;
use crate::fd_passing;
use crate::server::launch_spec::{LaunchSpec, find_program};
use crate::server::start_error::StartError;
use crate::server::subtree::Processes;
use crate::server::subtree_owner::poll_until;

/// The process name of a stage, by which `main` recognizes one.
pub(in crate::server) const ARGV0: &str = "mcpd-sandbox";

/// Sent immediately before the server is executed.
const READY: u8 = b'R';
/// Sent with the socket to `init`; the process id of `init` follows.
const INIT: u8 = b'I';
/// Delay until processes of the stage that are suspended are continued.
const CONTINUE_AFTER: Duration = Duration::from_millis(100);
/// What all processes of a user share: descriptors on their way through sockets count against open files, and timers against signals.
const SHARED: [Resource; 2] = [Resource::Nofile, Resource::Sigpending];

/// A server that was started, in a sandbox or without.
pub(in crate::server) struct StartedServer {
    /// The child of this process: `init`, or else the server itself.
    pub(in crate::server) child: Pid,
    /// The server.
    pub(in crate::server) server: Pid,
    /// The socket to `init`.
    pub(in crate::server) init: Option<UnixStream>,
}

impl StartedServer {
    /// Lets other processes in its namespaces outlive the server. Call it before SIGTERM is sent to all of them: `init` itself has no
    /// use for that signal.
    pub(in crate::server) fn spare_others(&self) {
        if let Some(mut socket) = self.init.as_ref() {
            let _ = socket.write_all(&[init::SPARE_OTHERS]);
        }
    }

    /// The wait status of the server, given that of the child, which has ended.
    pub(in crate::server) fn status(&self, child: i32) -> i32 {
        let mut status = [0; 4];
        match self.init.as_ref().map(|mut init| init.read_exact(&mut status)) {
            Some(Ok(())) => i32::from_ne_bytes(status),
            Some(Err(_)) | None => child,
        }
    }
}

/// What both halves of a stage need. `program` is missing in a trial, which executes nothing.
#[derive(Serialize, Deserialize)]
struct Prepared {
    spec: LaunchSpec,
    restrictions: Restrictions,
    program: Option<PathBuf>,
    /// Where the server may write in its namespaces.
    writable: Vec<PathBuf>,
    temporary: TemporaryDirectories,
}

/// Starts a stage in a process group of its own, and waits until it has become the server. A spec without a command is a trial.
pub(in crate::server) fn spawn(spec: &LaunchSpec, streams: &[OwnedFd; 3]) -> Result<StartedServer, StartError> {
    let (mut ours, theirs) = UnixStream::pair().map_err(StartError::system)?;
    set_socket_passcred(&ours, true).map_err(StartError::system)?;
    let mut command = Command::new("/proc/self/exe");
    command.arg0(ARGV0).env_clear().process_group(0);
    command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null());
    let stage = command.spawn().map_err(StartError::system)?;
    drop(command);
    let stage = Pid::from_child(&stage);
    let mut started = StartedServer { child: stage, server: stage, init: None };
    let sent = fd_passing::send_streams(&ours, streams).and_then(|()| fd_passing::send_line(&mut ours, spec));
    let answer = sent.and_then(|()| await_server(&ours, &mut started)).unwrap_or_else(|error| {
        // As a stage would report it.
        serde_json::to_vec(&StartError::system(error)).unwrap_or_default()
    });
    if answer == [READY] {
        return Ok(started);
    }
    let _ = kill_process(started.child, Signal::KILL);
    let _ = waitpid(Some(started.child), WaitOptions::empty());
    let error = answer.strip_prefix(&[READY]).unwrap_or(&answer);
    let unexplained = |_| StartError::system("the process that applies the sandbox ended without a reason");
    Err(serde_json::from_slice(error).unwrap_or_else(unexplained))
}

/// Reads what the stage sends until the socket closes: the server is executed, or there is an error.
fn await_server(socket: &UnixStream, started: &mut StartedServer) -> io::Result<Vec<u8>> {
    let (mut answer, mut bytes) = (Vec::new(), [0; 1024]);
    loop {
        await_message(socket)?;
        let message = fd_passing::receive_with_sender(socket, &mut bytes)?;
        match &bytes[..message.bytes] {
            [] => return Ok(answer),
            // An error of `init` may come first.
            [INIT, id @ ..] if !message.fds.is_empty() => adopt(started, id, message.fds)?,
            [READY] if answer.is_empty() => {
                started.server = message.sender.unwrap_or(started.server);
                answer.push(READY);
            }
            part => answer.extend(part),
        }
    }
}

/// Waits until the stage has sent something, or its socket is closed. Whatever is suspended meanwhile is continued: everything below this
/// process is still mcpd's own.
fn await_message(socket: &UnixStream) -> io::Result<()> {
    loop {
        let mut fds = [PollFd::new(socket, PollFlags::IN)];
        poll_until(&mut fds, Some(Instant::now() + CONTINUE_AFTER))?;
        if !fds[0].revents().is_empty() {
            return Ok(());
        }
        let processes = Processes::below_this(&[]);
        processes.signal(&processes.descendants(), Signal::CONT);
    }
}

/// Waits for the end of a child, and continues it if it is suspended.
fn await_end(child: Pid) -> rustix::io::Result<()> {
    while let Some((_, status)) = waitpid(Some(child), WaitOptions::UNTRACED)?
        && status.stopped()
    {
        kill_process(child, Signal::CONT)?;
    }
    Ok(())
}

/// Becomes the parent of `init`, once the first half of the stage has exited.
fn adopt(started: &mut StartedServer, id: &[u8], fds: Vec<OwnedFd>) -> io::Result<()> {
    let id = id.try_into().map(i32::from_ne_bytes).ok().and_then(Pid::from_raw);
    let (id, socket) = id.zip(fds.into_iter().next()).ok_or(io::ErrorKind::InvalidData)?;
    await_end(started.child)?;
    started.child = id;
    let socket = started.init.insert(UnixStream::from(socket));
    // If `init` has failed already, its error follows.
    let _ = socket.write_all(&[init::ADOPTED]);
    Ok(())
}

/// Runs this process as a stage, or as the first half of one. Returns only if the server was not executed by this process.
pub(in crate::server) fn run() -> ExitCode {
    let Ok(socket) = fd_passing::inherited_socket() else { return ExitCode::FAILURE };
    exit_code(&socket, prepare(&socket))
}

/// Runs this process as the second half of a stage, in the namespaces.
pub(in crate::server) fn run_in_namespaces() -> ExitCode {
    let received = || -> io::Result<_> {
        let init = fd_passing::inherited_socket()?;
        let streams = fd_passing::receive_streams(&init)?;
        let (_, fds) = fd_passing::receive(&init, &mut [0])?;
        let [socket, prepared] = fds.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok((UnixStream::from(socket), prepared, streams))
    };
    let Ok((socket, prepared, streams)) = received() else { return ExitCode::FAILURE };
    exit_code(&socket, execute_prepared(&socket, prepared, streams))
}

fn exit_code(socket: &UnixStream, result: Result<(), StartError>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = fd_passing::send_line(&mut &*socket, &error);
            ExitCode::FAILURE
        }
    }
}

/// Finds the program and its paths. Then executes it, or, with namespaces, starts `init`.
fn prepare(socket: &UnixStream) -> Result<(), StartError> {
    let streams = fd_passing::receive_streams(socket).map_err(StartError::system)?;
    let mut line = String::new();
    BufReader::new(socket).read_line(&mut line).map_err(StartError::system)?;
    let mut spec: LaunchSpec = serde_json::from_str(&line).map_err(StartError::system)?;
    let restrictions = spec.sandbox.take().ok_or_else(|| StartError::system("no sandbox"))?;
    let namespaces = restrictions.namespaces;
    if spec.command.is_empty() {
        let (writable, temporary) = (Vec::new(), TemporaryDirectories::default());
        let trial = Prepared { spec, restrictions, program: None, writable, temporary };
        let start = |namespaces| start_init(socket, namespaces, &trial, &files::system(), &streams);
        return namespaces.map_or(Ok(()), start);
    }
    if let Some(rules) = &restrictions.files {
        files::create_private(rules).map_err(StartError::system)?;
    }
    let program = find_program(&spec)?;
    let grants = restrictions.files.as_ref().map(|rules| files::grants(rules, &spec, &program)).transpose()?;
    // The guard lives as long as `init`.
    let instance = if namespaces.is_some() { parent_id() } else { std::process::id() };
    let temporary = restrictions.files.as_ref().map(|rules| TemporaryDirectories::of(rules, instance));
    let (grants, temporary) = (grants.unwrap_or_default(), temporary.unwrap_or_default());
    let writable = grants.iter().filter(|grant| grant.writes).map(|grant| grant.opened.real.clone()).collect();
    let prepared = Prepared { spec, restrictions, program: Some(program), writable, temporary };
    match namespaces {
        Some(namespaces) => start_init(socket, namespaces, &prepared, &grants, &streams),
        None => execute(socket, prepared, &grants, streams),
    }
}

/// Enters the namespaces and starts `init`, which starts the second half.
fn start_init(
    socket: &UnixStream,
    namespaces: Namespaces,
    prepared: &Prepared,
    grants: &[FileGrant],
    streams: &[OwnedFd; 3],
) -> Result<(), StartError> {
    let spec = memfd(prepared).map_err(StartError::system)?;
    let (own, program) = own_and_init().map_err(StartError::system)?;
    let (ours, theirs) = UnixStream::pair().map_err(StartError::system)?;
    let (control, init_control) = UnixStream::pair().map_err(StartError::system)?;
    let env = &prepared.spec.env;
    let temporary = prepared.restrictions.files.as_ref().and_then(|rules| prepared.temporary.path(rules, env));
    mounts::enter(namespaces, grants, env, temporary.as_deref())?;
    let start = || -> io::Result<()> {
        fd_passing::send(&ours, &[0], &[socket.as_fd(), init_control.as_fd(), own.as_fd()])?;
        fd_passing::send(&ours, &[0], &[spec.as_fd()])?;
        fd_passing::send_streams(&ours, streams)?;
        let mut command = Command::new(fd_passing::path_of(&program));
        let init = command.arg0(init::ARGV0).env_clear().stdin(OwnedFd::from(theirs)).spawn()?;
        let id = Pid::from_child(&init).as_raw_pid().to_ne_bytes();
        fd_passing::send(socket, &[&[INIT], &id[..]].concat(), &[control.as_fd()])
    };
    start().at(NamespaceStep::StartInit).map_err(StartError::Namespaces)
}

/// A file in memory, since the second half may start before it could read a long text from a socket.
fn memfd(prepared: &Prepared) -> io::Result<OwnedFd> {
    let mut file = File::from(memfd_create("mcpd-sandbox", MemfdFlags::CLOEXEC)?);
    serde_json::to_writer(&mut file, prepared)?;
    file.rewind()?;
    Ok(file.into())
}

/// This program, and the one to run as `init`: `mcpd-init` in the same directory, if only this user and root can change it, else this
/// program. An upgrade that replaces this program also removes its name, so both are always of one version.
fn own_and_init() -> io::Result<(OwnedFd, OwnedFd)> {
    let open = |path: &Path| File::options().read(true).custom_flags(OFlags::PATH.bits().cast_signed()).open(path);
    let own = open(Path::new("/proc/self/exe"))?;
    let path = std::env::current_exe()?;
    let beside = || {
        let init = open(&path.with_file_name(init::ARGV0)).ok()?;
        let (found, this) = (init.metadata().ok()?, own.metadata().ok()?);
        let is_trusted =
            [0, geteuid().as_raw(), this.uid()].contains(&found.uid()) && found.mode() & WRITABLE_BY_OTHERS == 0;
        let is_current =
            std::fs::metadata(&path).is_ok_and(|named| (named.dev(), named.ino()) == (this.dev(), this.ino()));
        (found.is_file() && is_trusted && is_current).then_some(init)
    };
    let init = beside().map_or_else(|| own.try_clone(), Ok)?;
    Ok((own.into(), init.into()))
}

fn execute_prepared(socket: &UnixStream, prepared: OwnedFd, streams: [OwnedFd; 3]) -> Result<(), StartError> {
    // `init` waits for its children with a blocked signal.
    SigSet::empty().thread_set_mask().map_err(StartError::system)?;
    setsid().map_err(StartError::system)?;
    let prepared: Prepared =
        serde_json::from_reader(BufReader::new(File::from(prepared))).map_err(StartError::system)?;
    let open = |path: PathBuf| OpenedPath::open(&path).ok();
    // Nothing else exists.
    let read = open(PathBuf::from("/")).map(FileGrant::read);
    // A new user namespace needs its maps.
    let is_nested = prepared.restrictions.namespaces.is_some_and(|namespaces| namespaces.nested);
    let maps = is_nested.then(|| PathBuf::from("/proc"));
    let write = prepared.writable.iter().cloned().chain(mounts::writable()).chain(maps);
    let grants: Vec<_> = read.into_iter().chain(write.filter_map(open).map(FileGrant::write)).collect();
    execute(socket, prepared, &grants, streams)
}

/// Restricts this process, and executes the server. Returns without an error after a trial.
fn execute(
    socket: &UnixStream,
    prepared: Prepared,
    grants: &[FileGrant],
    [stdin, stdout, stderr]: [OwnedFd; 3],
) -> Result<(), StartError> {
    let Prepared { mut spec, restrictions, program, writable: _, temporary } = prepared;
    domain::restrict(&restrictions, grants).map_err(|error| StartError::Sandbox(error.to_string()))?;
    let send_ready = || (&mut &*socket).write_all(&[READY]).map_err(StartError::system);
    let Some(mut program) = program else { return send_ready() };
    if !spec.instead.is_empty() {
        // Found inside.
        spec.args = std::mem::take(&mut spec.instead);
        spec.command = spec.args.remove(0);
        program = find_program(&spec)?;
    }
    if let Some(rules) = &restrictions.files {
        files::fill_private(rules, &temporary, &mut spec.env).map_err(StartError::system)?;
    }
    let [path, command] = [program.as_os_str().as_bytes(), spec.command.as_bytes()].map(c_string);
    let (path, command) = (path?, command?);
    let args: Vec<_> = spec.args.iter().map(|argument| c_string(argument.as_bytes())).collect::<Result<_, _>>()?;
    let args: Vec<_> = iter::once(command).chain(args).collect();
    let env = spec.env.iter().map(|(name, value)| c_string(format!("{name}={value}").as_bytes()));
    let env: Vec<_> = env.collect::<Result<_, _>>()?;

    SHARED.into_iter().try_for_each(leave_half).map_err(StartError::system)?;
    if let Some(tasks) = spec.tasks_max {
        limit_tasks(tasks).map_err(StartError::system)?;
    }
    enter(&spec.cwd, restrictions.files.is_some()).map_err(StartError::system)?;
    rustix::stdio::dup2_stdin(stdin).map_err(StartError::system)?;
    rustix::stdio::dup2_stdout(stdout).map_err(StartError::system)?;
    rustix::stdio::dup2_stderr(stderr).map_err(StartError::system)?;
    // `exec` resets handlers to the default, and the runtime of Rust ignores this signal.
    signal_hook::flag::register(SIGPIPE, Arc::default()).map_err(StartError::system)?;
    send_ready()?;
    // Not `Command::exec`: its `execvp` runs a file of unknown format (ENOEXEC) with `/bin/sh`.
    let Err(error) = execve(&path, &args, &env);
    Err(StartError::of_execution(&program, &error.into()))
}

/// Makes `cwd` the working directory. At level `files`, only what was granted can be opened, wherever `cwd` leads now.
fn enter(cwd: &Path, is_files: bool) -> rustix::io::Result<()> {
    if !is_files {
        return chdir(cwd);
    }
    fchdir(open(cwd, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?)
}

/// Leaves mcpd and its guards more than a server can use up: the kernel counts for the user as a whole, but compares with the limit of
/// the process that asks.
fn leave_half(resource: Resource) -> rustix::io::Result<()> {
    let now = getrlimit(resource);
    let Some(maximum) = now.maximum.map(|maximum| maximum / 2) else { return Ok(()) };
    let current = now.current.map_or(maximum, |current| current.min(maximum));
    setrlimit(resource, Rlimit { current: Some(current), maximum: Some(maximum) })
}

/// Limits the processes and threads of this user namespace, in which `init` is one more.
fn limit_tasks(tasks: usize) -> rustix::io::Result<()> {
    let now = getrlimit(Resource::Nproc);
    let at_most = |limit: Option<u64>| Some((tasks as u64 + 1).min(limit.unwrap_or(u64::MAX)));
    setrlimit(Resource::Nproc, Rlimit { current: at_most(now.current), maximum: at_most(now.maximum) })
}

/// Does not fail for text of the configuration, which permits no NUL.
fn c_string(bytes: &[u8]) -> Result<CString, StartError> {
    CString::new(bytes).map_err(StartError::system)
}
