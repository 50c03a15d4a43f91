//! The tracer of a trial: `strace`, above the reaper and so outside of the sandbox. The server can neither see nor reach it.
//!
//! It leaves the reaper in its place (`-D`) and traces from beside it. So nothing else changes: if the tracer is killed, everything runs on
//! untraced. Its output comes through a pipe; a server that causes much of it is slowed down.
//!
//! Without `--seccomp-bpf`, which would be faster: the filter stays when the tracer has died, and then refuses the traced calls to the
//! guard, too. Source: strace(1).

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, absolute};
use std::time::Duration;

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open, pidfd_send_signal, waitpid};
use tokio::net::unix::pipe;
use tokio::time::{sleep, timeout};

use super::outcome::NotTraced;
use crate::config::interpolate::{Process, Sources};
use crate::server::{REAPER, ReaperHandle, Tracer};

const PROGRAM: &str = "strace";
/// Bytes that are shown of a string: enough for a question to DNS. Paths are shown as a whole.
const SHOWN: &str = "512";
/// What begins the tracer's own messages.
const OWN: &[u8] = b"strace: ";
/// Maximum length of a line. A longer one is dropped.
const MAX_LINE: usize = 64 << 10;
/// The size of the pipe, in bytes, if the system permits that.
const PIPE: usize = 1 << 20;
/// Time for the tracer to end after all that it traces has.
pub(super) const END_LIMIT: Duration = Duration::from_secs(5);
/// Delay between two looks at a tracer that ends.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// The output of a tracer.
pub(super) struct Trace {
    pipe: Option<pipe::Receiver>,
    /// The begin of a line.
    line: Vec<u8>,
    is_too_long: bool,
    /// The last message of the tracer itself.
    complaint: Option<String>,
}

/// A tracer of a reaper, and its output. `directory` is the trial's, and `system_calls` those that are reported.
pub(super) fn tracer(directory: &Path, system_calls: &str) -> Result<(Tracer, Trace), NotTraced> {
    let path = Process.var("PATH").unwrap_or_default();
    let program = Process.on_path(PROGRAM, &path).ok_or(NotTraced::NoStrace)?;
    let refused = |error: io::Error| NotTraced::Refused(error.to_string());
    let program = absolute(program).map_err(refused)?;
    let directory = directory.join("tracer");
    let made = || -> io::Result<_> {
        fs::create_dir_all(&directory)?;
        match symlink(std::env::current_exe()?, directory.join(REAPER)) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        let _ = fcntl_setpipe_size(&write, PIPE);
        Ok((pipe::Receiver::from_owned_fd(read)?, write))
    };
    let (read, output) = made().map_err(refused)?;
    let calls = format!("trace={system_calls}");
    let arguments =
        ["-D", "-f", "-q", "-y", "-s", SHOWN, "-e", &calls, "-e", "signal=none", "-o", "/proc/self/fd/2", REAPER];
    let arguments = arguments.into_iter().map(OsString::from).collect();
    Ok((Tracer { program, arguments, directory, output }, Trace { pipe: Some(read), ..Trace::none() }))
}

impl Trace {
    /// Without a tracer.
    pub(super) fn none() -> Self {
        Self { pipe: None, line: Vec::new(), is_too_long: false, complaint: None }
    }

    /// Waits for output, and hands each line to `sink`, or `None` in the place of one that is too long. Cancel-safe.
    pub(super) async fn read(&mut self, sink: &mut dyn FnMut(Option<&[u8]>)) {
        let Some(pipe) = &self.pipe else { return std::future::pending().await };
        let mut bytes = [0; 32 << 10];
        let read = match pipe.readable().await.and_then(|()| pipe.try_read(&mut bytes)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
            read => read.unwrap_or_default(),
        };
        if read == 0 {
            self.pipe = None;
        }
        for part in bytes[..read].split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            self.is_too_long |= self.line.len() + text.len() > MAX_LINE;
            if !self.is_too_long {
                self.line.extend(text);
            }
            if text.len() < part.len() {
                match self.line.strip_prefix(OWN) {
                    _ if self.is_too_long => sink(None),
                    Some(message) => self.complaint = Some(String::from_utf8_lossy(message).into_owned()),
                    None => sink(Some(&self.line)),
                }
                self.line.clear();
                self.is_too_long = false;
            }
        }
    }

    /// Reads until the tracer has ended.
    pub(super) async fn read_all(&mut self, sink: &mut dyn FnMut(Option<&[u8]>)) {
        while self.pipe.is_some() {
            self.read(sink).await;
        }
    }

    /// The last message of the tracer itself.
    pub(super) fn complaint(&self) -> Option<&str> {
        self.complaint.as_deref()
    }
}

/// The process that traces the reaper, if one does.
pub(super) fn tracing_process(reaper: &ReaperHandle) -> Option<Pid> {
    let status = fs::read_to_string(format!("/proc/{}/status", reaper.pid()?)).ok()?;
    Pid::from_raw(status.lines().find_map(|line| line.strip_prefix("TracerPid:"))?.trim().parse().ok()?)
}

/// Waits for the end of a tracer, which is a child of this process once the one that it traces has started it.
pub(super) async fn reap(tracer: Pid) {
    let ended = async {
        while let Ok(None) = waitpid(Some(tracer), WaitOptions::NOHANG) {
            sleep(LOOK_AGAIN).await;
        }
    };
    let _ = timeout(END_LIMIT, ended).await;
}

/// Kills a tracer that does not end. What it traces runs on.
pub(super) fn kill(tracer: Pid) {
    let is_tracer =
        fs::read_to_string(format!("/proc/{}/comm", tracer.as_raw_pid())).is_ok_and(|name| name.trim() == PROGRAM);
    if let Some(pidfd) = pidfd_open(tracer, PidfdFlags::empty()).ok().filter(|_| is_tracer) {
        let _ = pidfd_send_signal(pidfd, Signal::KILL);
    }
}

#[cfg(test)]
mod tests {
    use rustix::io::write;

    use super::*;

    #[tokio::test]
    async fn lines_are_handed_on_whole_and_messages_of_the_tracer_are_kept() {
        let (read, output) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let read = pipe::Receiver::from_owned_fd(read).expect("a pipe");
        let mut trace = Trace { pipe: Some(read), ..Trace::none() };
        let mut lines = Vec::new();
        let mut keep =
            |line: Option<&[u8]>| lines.push(String::from_utf8_lossy(line.expect("it is short")).into_owned());
        for part in ["7 open", "(\"a\") = 3\n7 close(3", ") = 0\nstrace: attach: no\n", "8 exit"] {
            write(&output, part.as_bytes()).expect("there is room");
            trace.read(&mut keep).await;
        }
        drop(output);
        trace.read_all(&mut keep).await;
        assert_eq!(lines, ["7 open(\"a\") = 3", "7 close(3) = 0"]);
        assert_eq!(trace.complaint(), Some("attach: no"));
    }

    #[tokio::test]
    async fn line_that_is_too_long_is_dropped() {
        let (read, output) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let read = pipe::Receiver::from_owned_fd(read).expect("a pipe");
        let mut trace = Trace { pipe: Some(read), ..Trace::none() };
        let mut lines = Vec::new();
        for _ in 0..100 {
            write(&output, &[b'x'; 1000]).expect("there is room");
            trace.read(&mut |line| lines.push(line.map(<[u8]>::to_vec))).await;
        }
        write(&output, b"\nnext\n").expect("there is room");
        trace.read(&mut |line| lines.push(line.map(<[u8]>::to_vec))).await;
        assert_eq!(lines, [None, Some(b"next".to_vec())]);
    }
}
