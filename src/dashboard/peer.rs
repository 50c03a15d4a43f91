//! Who is at the other end of a connection: the system knows the user of each socket, and its process.
//!
//! Other users get nothing. Neither does a process below a server, which has no operator rights. If a process cannot be seen, such as
//! `sshd` with a forwarded port, only its user is known, and it needs the key. While a server hides, every such process is refused, because it
//! may be that server.

use std::fs;
use std::io::ErrorKind;
use std::net::SocketAddr;

use rustix::process::geteuid;
use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

use crate::server::{AncestryEnd, ancestry};
use crate::tcp_sockets::tcp_sockets;

const ROOT: u32 = 0;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Peer {
    /// A process of this user that no server has started.
    Own,
    /// A process of this user that cannot be seen.
    Unseen,
    OtherUser,
    /// A process below a server.
    Server,
    /// A process of this user that cannot be seen, while a process below a server cannot be seen either.
    MaybeServer,
}

impl Peer {
    pub(super) async fn of(stream: &TcpStream) -> Self {
        let (Ok(local), Ok(remote)) = (stream.local_addr(), stream.peer_addr()) else { return Self::OtherUser };
        spawn_blocking(move || Self::at(local, remote)).await.unwrap_or(Self::OtherUser)
    }

    fn at(local: SocketAddr, remote: SocketAddr) -> Self {
        let own = geteuid().as_raw();
        let is_it = |ends: [SocketAddr; 2]| ends.map(canonical) == [remote, local];
        let Some(socket) = tcp_sockets().into_iter().find(|socket| is_it([socket.local, socket.remote])) else {
            return Self::OtherUser;
        };
        match socket.uid {
            // It reads this process anyway, and relays connections for WSL.
            ROOT if own != ROOT => Self::Own,
            user if user == own => socket.process().map_or_else(Self::unseen, Self::of_process),
            _ => Self::OtherUser,
        }
    }

    fn of_process(pid: i32) -> Self {
        let ancestry = ancestry(pid);
        match ancestry.end {
            _ if !ancestry.supervisors.is_empty() => Self::Server,
            AncestryEnd::Root => Self::Own,
            AncestryEnd::Unreadable | AncestryEnd::Unsettled => Self::unseen(),
        }
    }

    fn unseen() -> Self {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        if pids.any(|pid| is_hidden(pid) && is_of_own_server(pid)) { Self::MaybeServer } else { Self::Unseen }
    }
}

/// Whether the kernel does not show the open files of a process (`PR_SET_DUMPABLE` in prctl(2)).
fn is_hidden(pid: i32) -> bool {
    fs::read_dir(format!("/proc/{pid}/fd")).is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

/// Whether a process of this user is below a guard, and is not part of mcpd itself.
fn is_of_own_server(pid: i32) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let field = |name| status.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    if field("Uid:").split_ascii_whitespace().next() != Some(&*geteuid().as_raw().to_string()) {
        return false;
    }
    // The first process in a sandbox is in a PID namespace below this one.
    let is_init = matches!(field("NSpid:").split_ascii_whitespace().collect::<Vec<_>>()[..], [_, "1"]);
    let supervisors = ancestry(pid).supervisors;
    // A server that poses as a guard has two supervisors above it.
    let is_supervisor = supervisors.first() == Some(&pid) && supervisors.len() <= 2;
    !supervisors.is_empty() && !is_supervisor && !is_init
}

/// An IPv4 address may be that of an IPv6 socket.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn own_process_is_known_by_its_connection() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let theirs = TcpStream::connect(listener.local_addr().expect("bound")).await.expect("it listens");
        let (ours, _) = listener.accept().await.expect("a connection");
        assert_eq!(Peer::of(&ours).await, Peer::Own);
        drop(theirs);
    }
}
