//! The TCP sockets of this machine, and the sockets that a process has open.
//!
//! The kernel lists the sockets in `/proc/net/tcp`, and the open ones of a process in `/proc/PID/fd`.

use std::fs;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) is_listening: bool,
    /// The user who has made it.
    pub(crate) uid: u32,
    inode: u64,
}

impl Socket {
    /// The first process that has it open.
    pub(crate) fn process(&self) -> Option<i32> {
        let pids = fs::read_dir("/proc").into_iter().flatten().flatten();
        let mut pids = pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        pids.find(|pid| self.is_open_in(*pid))
    }

    pub(crate) fn is_open_in(&self, pid: i32) -> bool {
        open_sockets(pid).any(|inode| inode == self.inode)
    }

    /// A line of `/proc/net/tcp` or `/proc/net/tcp6` (proc_pid_net(5)).
    fn parse(line: &str) -> Option<Self> {
        const LISTEN: &str = "0A";
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let [_, local, remote, state, _, _, _, uid, _, inode, ..] = fields[..] else { return None };
        let (local, remote) = (parse_address(local)?, parse_address(remote)?);
        let (uid, inode) = (uid.parse().ok()?, inode.parse().ok()?);
        Some(Self { local, remote, is_listening: state == LISTEN, uid, inode })
    }
}

/// All sockets of the network namespace of this process.
pub(crate) fn tcp_sockets() -> Vec<Socket> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].map(|path| fs::read_to_string(path).unwrap_or_default());
    tables.iter().flat_map(|table| table.lines()).filter_map(Socket::parse).collect()
}

fn parse_address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    // Words of 32 bits, each in the byte order of the machine.
    let words = (0..address.len() / 8).map(|at| u32::from_str_radix(address.get(8 * at..8 * at + 8)?, 16).ok());
    let bytes: Vec<u8> = words.collect::<Option<Vec<_>>>()?.into_iter().flat_map(u32::to_ne_bytes).collect();
    let address = match bytes.len() {
        4 => Ipv4Addr::from(*bytes.first_chunk::<4>()?).into(),
        _ => Ipv6Addr::from(*bytes.first_chunk::<16>()?).into(),
    };
    Some(SocketAddr::new(address, u16::from_str_radix(port, 16).ok()?))
}

/// The inodes of the sockets that a process has open.
pub(crate) fn open_sockets(pid: i32) -> impl Iterator<Item = u64> {
    let files = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let targets = files.filter_map(|file| fs::read_link(file.path()).ok());
    targets.filter_map(|target: PathBuf| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok())
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn connection_belongs_to_the_process_that_has_its_socket_open() {
        for address in ["127.0.0.1", "::1"] {
            let listener = TcpListener::bind((address, 0)).expect("a free port");
            let stream = TcpStream::connect(listener.local_addr().expect("it is bound")).expect("it listens");
            let ends = [stream.local_addr(), stream.peer_addr()].map(|end| end.expect("it is connected"));
            let all = tcp_sockets();
            let found = all.iter().find(|socket| [socket.local, socket.remote] == ends).expect("it is listed");
            assert!(!found.is_listening && found.is_open_in(std::process::id().cast_signed()));
        }
    }

    #[test]
    fn addresses_are_read_as_the_kernel_writes_them() {
        let line = |local: &str, state: &str| {
            format!("  0: {local} {local} {state} 0:0 00:0 0 1000 0 27168469 1 0 100 0 0 10 0")
        };
        let v4 = if cfg!(target_endian = "big") { "7F000001:1E64" } else { "0100007F:1E64" };
        let found = Socket::parse(&line(v4, "0A")).expect("it is a socket");
        assert_eq!((found.local.to_string(), found.uid, found.inode), ("127.0.0.1:7780".to_owned(), 1000, 27_168_469));
        assert!(found.is_listening && !Socket::parse(&line(v4, "01")).expect("it is a socket").is_listening);
        assert_eq!(Socket::parse("  sl  local_address rem_address   st tx_queue"), None);
        assert_eq!(Socket::parse(&line("0100:1", "0A")), None);
    }
}
