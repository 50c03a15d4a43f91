//! The user at the other end of a loopback TCP connection.
//!
//! Source: proc(5), `/proc/net/tcp` and `/proc/net/tcp6`.

use std::fmt::Write;
use std::fs;
use std::net::{IpAddr, SocketAddr};

use tokio::net::TcpStream;
use tokio::task::spawn_blocking;

const TABLES: [&str; 2] = ["/proc/net/tcp", "/proc/net/tcp6"];
/// Fields of a connection's line: local address, remote address, user.
const LOCAL: usize = 1;
const REMOTE: usize = 2;
const USER: usize = 7;

/// Whether the other end belongs to this user or to root. Root can read this process anyway, and relays connections for
/// WSL.
pub(super) async fn is_this_user_or_root(stream: &TcpStream) -> bool {
    let (Ok(local), Ok(peer)) = (stream.local_addr(), stream.peer_addr()) else { return false };
    let find = move || TABLES.iter().find_map(|table| owner(&fs::read_to_string(table).ok()?, peer, local));
    let user = spawn_blocking(find).await.ok().flatten();
    user.is_some_and(|user| user == 0 || user == rustix::process::getuid().as_raw())
}

/// The user of the socket at `local` that is connected to `remote`, in a table of the kernel.
fn owner(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u32> {
    let ends = |address: SocketAddr| [field(address, false), field(address, true)];
    let (locals, remotes) = (ends(local), ends(remote));
    table.lines().find_map(|line| {
        let fields: Vec<_> = line.split_ascii_whitespace().collect();
        let is_it = locals.iter().any(|end| fields.get(LOCAL) == Some(&&**end))
            && remotes.iter().any(|end| fields.get(REMOTE) == Some(&&**end));
        if is_it { fields.get(USER)?.parse().ok() } else { None }
    })
}

/// An address in the table's format: words in native byte order. An IPv4 address may be in an IPv6 socket.
fn field(address: SocketAddr, is_mapped: bool) -> String {
    let mut text = String::new();
    let octets = match address.ip() {
        IpAddr::V4(address) if is_mapped => address.to_ipv6_mapped().octets().to_vec(),
        IpAddr::V4(address) => address.octets().to_vec(),
        IpAddr::V6(address) => address.octets().to_vec(),
    };
    for word in octets.chunks_exact(4) {
        let word = u32::from_ne_bytes([word[0], word[1], word[2], word[3]]);
        write!(text, "{word:08X}").expect("memory");
    }
    write!(text, ":{:04X}", address.port()).expect("memory");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn user_of_a_connection_is_found_by_both_addresses() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0\n   \
            1: 0100007F:C001 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 2 1 0\n   \
            2: 0100007F:1F90 0100007F:C001 01 00000000:00000000 00:00000000 00000000  1001        0 3 1 0\n";
        let mapped = "   0: 0000000000000000FFFF00000100007F:C002 0000000000000000FFFF00000100007F:1F90 01 0:0 0:0 0  1002 0 4\n";
        let end = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(owner(table, end(0xc001), end(8080)), Some(1000));
        assert_eq!(owner(table, end(8080), end(0xc001)), Some(1001));
        assert_eq!(owner(mapped, end(0xc002), end(8080)), Some(1002));
        for (table, local, remote) in [(table, 0xc002, 8080), (table, 0xc001, 8081), (mapped, 0xc001, 8080), ("", 1, 2)]
        {
            assert_eq!(owner(table, end(local), end(remote)), None);
        }
    }
}
