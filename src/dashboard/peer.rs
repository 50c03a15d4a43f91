//! Who is at the other end of a connection: the system knows the user of each socket, and its process.
//!
//! Other users get nothing. Neither does a process below a server, which has no operator rights. Of a process that cannot be seen, such as
//! `sshd` with a forwarded port, nothing is known but the user. It needs the key.

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
            user if user == own => socket.process().map_or(Self::Unseen, Self::of_process),
            _ => Self::OtherUser,
        }
    }

    fn of_process(pid: i32) -> Self {
        let ancestry = ancestry(pid);
        match ancestry.end {
            _ if !ancestry.supervisors.is_empty() => Self::Server,
            AncestryEnd::Root => Self::Own,
            AncestryEnd::Unreadable | AncestryEnd::Unsettled => Self::Unseen,
        }
    }
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
