//! Servers of this machine: at a Unix socket, and those whose listener has to belong to certain processes.
//!
//! The owner of a Unix socket is the process that listens there, by the credentials that the kernel reports with the connection. The
//! owner of a TCP port is whoever has its listening socket open. The owner is checked on each new connection, before anything is sent.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::path::Path;
use std::sync::Arc;
use std::{fmt, fs};

use rustix::net::sockopt::socket_peercred;
use rustix::process::getuid;
use tokio::net::{TcpStream, UnixStream};
use tokio::task::spawn_blocking;

use super::error::{NetError, NetErrorKind};
use crate::config::Address;
use crate::tcp_sockets::{Socket, tcp_sockets};

/// The processes of a server, as they are now.
pub(crate) type ProcessIds = Arc<dyn Fn() -> Vec<i32> + Send + Sync>;

/// Who may listen at the URL of a server.
#[derive(Clone, Default)]
pub(crate) enum Owner {
    /// Anyone.
    #[default]
    Any,
    /// A process of this user, or of root.
    User,
    /// One of these processes.
    Processes(ProcessIds),
}

impl Owner {
    pub(super) fn is_any(&self) -> bool {
        matches!(self, Self::Any)
    }
}

fn is_trusted(uid: u32) -> bool {
    uid == 0 || uid == getuid().as_raw()
}

/// A process that listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listener {
    uid: u32,
    /// Its id and name, if they can be read.
    process: Option<(i32, String)>,
}

/// For a person.
impl fmt::Display for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.process {
            Some((pid, name)) => write!(f, "process {pid} (`{}`)", name.escape_debug()),
            None => f.write_str("another process"),
        }
    }
}

/// What a client of one server knows of its listener.
#[derive(Clone, Default)]
pub(super) struct Local {
    socket: Option<Arc<Path>>,
    /// The address for messages.
    shown: Arc<str>,
    owner: Owner,
}

impl Local {
    pub(super) fn new(address: &Address, shown: String, owner: Owner) -> Self {
        Self { socket: address.socket().map(Arc::from), shown: shown.into(), owner }
    }

    pub(super) fn socket(&self) -> Option<&Arc<Path>> {
        self.socket.as_ref()
    }

    /// Connects to the socket, if its owner may listen there.
    pub(super) async fn dial(&self, socket: &Path) -> Result<UnixStream, NetError> {
        let stream = UnixStream::connect(socket).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                NetError::new(NetErrorKind::ConnectionRefused, format!("nothing listens at {}", self.shown))
            }
            _ => format!("{}: {error}", self.shown).into(),
        })?;
        let peer = stream.peer_cred().map_err(|error| error.to_string())?;
        let is_permitted = match &self.owner {
            Owner::Any => true,
            Owner::User => is_trusted(peer.uid()),
            Owner::Processes(processes) => {
                let processes = Arc::clone(processes);
                let pids = spawn_blocking(move || processes()).await.unwrap_or_default();
                peer.pid().is_some_and(|pid| pids.contains(&pid))
            }
        };
        if is_permitted { Ok(stream) } else { Err(self.refused(&Listener::of(peer.uid(), peer.pid()))) }
    }

    /// Checks the owner of the port at the other end.
    pub(super) async fn admit(&self, stream: &TcpStream) -> Result<(), NetError> {
        if self.owner.is_any() {
            return Ok(());
        }
        let (local, peer) = (self.clone(), stream.peer_addr().map_err(|error| error.to_string())?);
        let checking = spawn_blocking(move || local.check(peer));
        checking.await.unwrap_or_else(|error| Err(error.to_string().into()))
    }

    fn check(&self, peer: SocketAddr) -> Result<(), NetError> {
        let sockets = listening(&[peer.ip()], peer.port());
        if sockets.is_empty() {
            let text = format!("the process that listens at {} cannot be determined", self.shown);
            return Err(NetError::new(NetErrorKind::ForeignListener, text));
        }
        let foreign = match &self.owner {
            Owner::Any => None,
            Owner::User => sockets.iter().find(|socket| !is_trusted(socket.uid)),
            Owner::Processes(processes) => {
                let processes = processes();
                sockets.iter().find(|socket| !processes.iter().any(|pid| socket.is_open_in(*pid)))
            }
        };
        foreign.map_or(Ok(()), |socket| Err(self.refused(&Listener::of_socket(socket))))
    }

    fn refused(&self, listener: &Listener) -> NetError {
        let text = match self.owner {
            Owner::Any | Owner::User => format!(
                "{listener} listens at {}, and belongs to the user with id {}: only processes of this user and of root receive requests",
                self.shown, listener.uid
            ),
            Owner::Processes(_) => {
                format!("{listener} listens at {}, and its `command` has not started that", self.shown)
            }
        };
        NetError::new(NetErrorKind::ForeignListener, text)
    }
}

/// Who listens at this address of the machine, if anyone does. Sends nothing: a TCP port is looked up, a socket is connected. Removes a
/// socket that a former process has left, since the next one could not listen there.
pub(crate) fn occupied(address: &Address) -> Option<Listener> {
    if let Some(socket) = address.socket() {
        return match StdUnixStream::connect(socket).and_then(|stream| Ok(socket_peercred(&stream)?)) {
            Ok(peer) => Some(Listener::of(peer.uid.as_raw(), Some(peer.pid.as_raw_pid()))),
            Err(error) => {
                let is_left = |found: fs::Metadata| found.file_type().is_socket() && found.uid() == getuid().as_raw();
                if error.kind() == ErrorKind::ConnectionRefused && fs::symlink_metadata(socket).is_ok_and(is_left) {
                    // The program reports what keeps it from listening.
                    let _ = fs::remove_file(socket);
                }
                None
            }
        };
    }
    let port = address.url().port_or_known_default()?;
    listening(&address.loopback(), port).first().map(Listener::of_socket)
}

impl Listener {
    fn of(uid: u32, pid: Option<i32>) -> Self {
        let name = |pid: i32| Some((pid, fs::read_to_string(format!("/proc/{pid}/comm")).ok()?.trim_end().to_owned()));
        Self { uid, process: pid.and_then(name) }
    }

    fn of_socket(socket: &Socket) -> Self {
        Self::of(socket.uid, socket.process())
    }
}

/// The sockets that connections to this port at one of these addresses may lead to.
fn listening(addresses: &[IpAddr], port: u16) -> Vec<Socket> {
    let leads = |socket: &Socket| {
        let own = socket.local.ip().to_canonical();
        socket.is_listening && socket.local.port() == port && (own.is_unspecified() || addresses.contains(&own))
    };
    tcp_sockets().into_iter().filter(leads).collect()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    fn local(owner: Owner) -> Local {
        Local { socket: None, shown: "it".into(), owner }
    }

    #[test]
    fn port_belongs_to_the_processes_that_have_its_listener_open() {
        let own = std::process::id().cast_signed();
        for (bound, reached) in
            [("127.0.0.1", "127.0.0.1"), ("0.0.0.0", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")]
        {
            let listener = TcpListener::bind((bound, 0)).expect("a free port");
            let peer = SocketAddr::new(
                reached.parse().expect("an address"),
                listener.local_addr().expect("it is bound").port(),
            );
            let of = |pids: Vec<i32>| local(Owner::Processes(Arc::new(move || pids.clone()))).check(peer);
            assert_eq!(of(vec![own]), Ok(()), "{bound}");
            let refused = of(vec![1]).expect_err("the listener is here").to_string();
            assert!(refused.starts_with(&format!("process {own} (`")), "{refused}");
            assert_eq!(local(Owner::User).check(peer), Ok(()));
            let address = Address::parse(&format!("http://{peer}/mcp")).expect("it is valid");
            assert_eq!(occupied(&address).and_then(|found| found.process).map(|(pid, _)| pid), Some(own));
            drop(listener);
            // A child of another test may have it open until it executes its program.
            let is_free = || occupied(&address).is_none();
            assert!((0..100_000).any(|_| is_free() || (std::thread::yield_now(), false).1), "{address:?}");
        }
    }
}
