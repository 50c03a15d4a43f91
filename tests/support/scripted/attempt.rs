//! The tool `attempt`: one thing that a hostile server would try. Whatever succeeds is undone.

use std::fs::{self, File, OpenOptions};
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::symlink;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::{ptrace, wait};
use rustix::net::{
    AddressFamily, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
    socket_with,
};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Resource, Rlimit, Signal};
use serde_json::{Value, json};

use super::introspect::status_line;

/// Outcome of an attempt.
enum Outcome {
    Permitted,
    Denied(String),
    /// The system has no means for the attempt.
    Skipped(String),
}

use Outcome::{Denied, Permitted, Skipped};

/// Makes the attempt that `arguments` names, and reports the outcome.
pub(crate) fn report(arguments: &Value) -> String {
    match attempt(&Arguments(arguments)) {
        Ok(Permitted) => "permitted".to_owned(),
        Ok(Denied(reason)) => format!("denied: {reason}"),
        Ok(Skipped(reason)) => format!("skipped: {reason}"),
        Err(error) => format!("denied: {error}"),
    }
}

struct Arguments<'a>(&'a Value);

impl Arguments<'_> {
    fn text(&self, key: &str) -> &str {
        self.0[key].as_str().unwrap_or_default()
    }

    fn path(&self, key: &str) -> &Path {
        Path::new(self.text(key))
    }

    fn pid(&self) -> Pid {
        self.0["pid"].as_i64().and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw).expect("a process id")
    }

    fn address(&self) -> SocketAddrV4 {
        self.text("address").parse().expect("an address")
    }

    /// The same process id as another crate has it.
    fn raw_pid(&self) -> nix::unistd::Pid {
        nix::unistd::Pid::from_raw(self.pid().as_raw_pid())
    }
}

fn attempt(arguments: &Arguments<'_>) -> io::Result<Outcome> {
    let path = arguments.path("path");
    match arguments.text("do") {
        "trace" => {
            ptrace::attach(arguments.raw_pid())?;
            wait::waitpid(arguments.raw_pid(), None)?;
            ptrace::detach(arguments.raw_pid(), None)?;
        }
        "read_memory" => return read_memory(arguments.raw_pid()),
        "take_descriptor" => {
            let process = rustix::process::pidfd_open(arguments.pid(), PidfdFlags::empty())?;
            rustix::process::pidfd_getfd(process, 0, PidfdGetfdFlags::empty())?;
        }
        // Changes nothing for a process that runs.
        "signal" => rustix::process::kill_process(arguments.pid(), Signal::CONT)?,
        "reload_signal" => rustix::process::kill_process(arguments.pid(), Signal::HUP)?,
        "signal_child" => {
            let mut child = Command::new("sleep").arg("600").spawn()?;
            rustix::process::kill_process(Pid::from_child(&child), Signal::KILL)?;
            child.wait()?;
        }
        "limit" => {
            let now = rustix::process::getrlimit(Resource::Core);
            let limit = Rlimit { current: Some(0), maximum: now.maximum };
            rustix::process::prlimit(Some(arguments.pid()), Resource::Core, limit)?;
        }
        "lower_priority" => rustix::process::setpriority_process(Some(arguments.pid()), 19)?,
        "request" => return request(path, arguments.text("text")),
        "run" => return run(&arguments.0["argv"]),
        "set_up_ring" => drop(io_uring::IoUring::new(2)?),
        "gain_privileges" if status_line("NoNewPrivs") == "1" => return Ok(Denied("no new privileges".to_owned())),
        "gain_privileges" => {}
        "start_unrestricted" => return start_unrestricted(arguments),
        _ => return attempt_at_socket(arguments),
    }
    Ok(Permitted)
}

fn attempt_at_socket(arguments: &Arguments<'_>) -> io::Result<Outcome> {
    let path = arguments.path("path");
    match arguments.text("do") {
        "connect_abstract" => {
            let address = SocketAddr::from_abstract_name(arguments.text("name"))?;
            drop(UnixStream::connect_addr(&address)?);
        }
        "connect" => drop(UnixStream::connect(path)?),
        "connect_tcp" => drop(TcpStream::connect(arguments.text("address"))?),
        "listen" => {
            drop(UnixListener::bind(path)?);
            fs::remove_file(path)?;
        }
        "connect_multipath" => {
            let protocol = Some(rustix::net::ipproto::MPTCP);
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, protocol)?;
            rustix::net::connect(socket, &arguments.address())?;
        }
        "connect_fast_open" => {
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            // MSG_FASTOPEN
            rustix::net::sendto(socket, b"x", SendFlags::from_bits_retain(0x2000_0000), &arguments.address())?;
        }
        "listen_unbound" => {
            let family =
                if arguments.text("address").contains("::") { AddressFamily::INET6 } else { AddressFamily::INET };
            let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
            rustix::net::listen(socket, 1)?;
        }
        "listen_tcp" => drop(TcpListener::bind(arguments.text("address"))?),
        "bind_udp" => drop(UdpSocket::bind(arguments.text("address"))?),
        "send_datagram" => {
            let flags = SocketFlags::CLOEXEC;
            let (ours, _theirs) = rustix::net::socketpair(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
            rustix::net::sendto(ours, b"x", SendFlags::empty(), &SocketAddrUnix::new(path)?)?;
        }
        _ => return attempt_at_file(arguments),
    }
    Ok(Permitted)
}

fn attempt_at_file(arguments: &Arguments<'_>) -> io::Result<Outcome> {
    let path = arguments.path("path");
    match arguments.text("do") {
        "read" => File::open(path)?.read(&mut [0]).map(drop)?,
        "open" => drop(File::open(path)?),
        "list" => drop(fs::read_dir(path)?),
        "follow" => drop(fs::read_link(path)?),
        "write" => OpenOptions::new().append(true).open(path)?.write_all(arguments.text("text").as_bytes())?,
        "create" => {
            drop(File::create_new(path)?);
            fs::remove_file(path)?;
        }
        "move" => {
            fs::rename(path, arguments.path("to"))?;
            fs::rename(arguments.path("to"), path)?;
        }
        "hard_link" => {
            fs::hard_link(path, arguments.path("to"))?;
            fs::remove_file(arguments.path("to"))?;
        }
        "read_by_link" => {
            symlink(path, arguments.path("to"))?;
            let outcome = fs::read(arguments.path("to"));
            fs::remove_file(arguments.path("to"))?;
            outcome?;
        }
        other => return Ok(Skipped(format!("unknown attempt {other}"))),
    }
    Ok(Permitted)
}

/// The kernel checks the access before the address, which is invalid.
fn read_memory(pid: nix::unistd::Pid) -> io::Result<Outcome> {
    let remote = [RemoteIoVec { base: 0, len: 1 }];
    match process_vm_readv(pid, &mut [IoSliceMut::new(&mut [0])], &remote) {
        Ok(_) | Err(nix::errno::Errno::EFAULT) => Ok(Permitted),
        Err(error) => Err(error.into()),
    }
}

/// Permitted if the peer answers with a result.
fn request(path: &Path, line: &str) -> io::Result<Outcome> {
    let mut stream = UnixStream::connect(path)?;
    stream.write_all(line.as_bytes())?;
    stream.shutdown(std::net::Shutdown::Write)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(if answer.contains(r#""result""#) { Permitted } else { Denied(format!("answer {answer:?}")) })
}

/// Permitted if the command ends with success. With exit code 77, the system has no means for the attempt.
fn run(argv: &Value) -> io::Result<Outcome> {
    let argv: Vec<_> = argv.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    match Command::new(argv[0]).args(&argv[1..]).stdin(Stdio::null()).output() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Skipped(format!("no program {}", argv[0]))),
        Err(error) => Err(error),
        Ok(output) if output.status.success() => Ok(Permitted),
        Ok(output) if output.status.code() == Some(77) => Ok(Skipped(format!("{argv:?}"))),
        Ok(output) => Ok(Denied(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "))),
    }
}

/// Runs mcpd as one of its own parts, with the order to start a program without a sandbox. Permitted if that program prints `secret`.
fn start_unrestricted(arguments: &Arguments<'_>) -> io::Result<Outcome> {
    let (control, stdin) = UnixStream::pair()?;
    // The part takes the end of this pipe for the death of its reaper.
    let (reaper, _alive) = io::pipe()?;
    let (mut printed, stdout) = io::pipe()?;
    let role = arguments.text("role");
    let mut part = spawn(arguments.path("program"), role, stdin.into(), reaper.into())?;
    let (mut control, _reaper_control) = if role == "mcpd-reaper" {
        let (guard_control, stdin) = UnixStream::pair()?;
        send(&control, &[stdin.as_fd()])?;
        drop(stdin);
        (&guard_control).read_exact(&mut [0; 4])?;
        (guard_control, Some(control))
    } else {
        (control, None)
    };
    let null = File::open("/dev/null")?;
    // A guard also receives copies of mcpd's ends of stdout and stderr.
    let streams = [null.as_fd(), stdout.as_fd(), null.as_fd(), null.as_fd(), null.as_fd()];
    send(&control, if role == "mcpd-sandbox" { &streams[..3] } else { &streams })?;
    drop(stdout);
    let sandbox = if role == "mcpd-sandbox" { json!({"domain": null, "unix": true}) } else { Value::Null };
    let definition = json!({
        "command": "cat", "args": [arguments.path("path")], "env": {"PATH": std::env::var("PATH").unwrap_or_default()},
        "cwd": "/", "cwd_is_stated": false, "umask": null, "open_files": null, "sandbox": sandbox,
    });
    control.write_all(format!("{definition}\n").as_bytes())?;
    let mut bytes = Vec::new();
    printed.read_to_end(&mut bytes)?;
    drop((control, _reaper_control));
    part.wait()?;
    let shown = String::from_utf8_lossy(&bytes).contains(arguments.text("secret"));
    Ok(if shown { Permitted } else { Denied("the program has no access".to_owned()) })
}

fn spawn(program: &Path, role: &str, stdin: OwnedFd, stdout: OwnedFd) -> io::Result<Child> {
    Command::new(program).arg0(role).stdin(stdin).stdout(stdout).stderr(Stdio::null()).spawn()
}

/// Sends one byte with these descriptors.
fn send(socket: &UnixStream, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(5))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(fds));
    rustix::net::sendmsg(socket, &[IoSlice::new(b"S")], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}
