//! A scripted server as a child, and what is open to it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, MutexGuard};
use std::thread::{self, JoinHandle};

use super::Behavior;
use super::routes::Routes;
use crate::support::http::locked::Lock;
use crate::support::place::SCRIPTED;

/// How children are started.
pub(super) struct Launch {
    pub(super) variables: Vec<(OsString, OsString)>,
    pub(super) args: Vec<OsString>,
    pub(super) directory: PathBuf,
}

pub(super) struct Session {
    child: Lock<Child>,
    /// `None` once it must exit.
    stdin: Lock<Option<ChildStdin>>,
    routes: Lock<Routes>,
    has_ended: AtomicBool,
    reader: Lock<Option<JoinHandle<()>>>,
}

impl Session {
    pub(super) fn start(launch: &Launch, behavior: Behavior) -> Arc<Self> {
        let mut command = Command::new(SCRIPTED);
        command.env_clear().envs(launch.variables.iter().cloned()).args(&launch.args).current_dir(&launch.directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().expect("the scripted server starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let session = Arc::new(Self {
            child: Lock::new(child),
            stdin: Lock::new(stdin),
            routes: Lock::new(Routes::new(behavior)),
            has_ended: AtomicBool::new(false),
            reader: Lock::default(),
        });
        let reader = thread::spawn({
            let session = Arc::clone(&session);
            move || {
                for line in BufReader::new(stdout).split(b'\n').map_while(Result::ok) {
                    session.routes().take(String::from_utf8_lossy(&line).trim_end());
                }
                session.has_ended.store(true, Ordering::SeqCst);
                session.routes().end();
            }
        });
        *session.reader.lock() = Some(reader);
        session
    }

    pub(super) fn routes(&self) -> MutexGuard<'_, Routes> {
        self.routes.lock()
    }

    /// Whether its server has exited.
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    /// Forwards a message as one line.
    pub(super) fn write(&self, message: &[u8]) {
        // JSON strings contain no line ends, so every line end is white space.
        let mut line: Vec<_> =
            message.iter().map(|byte| if matches!(byte, b'\r' | b'\n') { b' ' } else { *byte }).collect();
        line.push(b'\n');
        if let Some(stdin) = &mut *self.stdin.lock() {
            // The reader notices the end of the server.
            let _ = stdin.write_all(&line);
        }
    }

    /// Ends the server and all open requests.
    pub(super) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
        self.routes().end();
        // A server that stopped reading does not see the end of stdin, so it is killed.
        let _ = self.child.lock().kill();
        self.stdin.lock().take();
        let _ = self.child.lock().wait();
        let reader = self.reader.lock().take();
        let _ = reader.map(JoinHandle::join);
    }
}
