//! The system calls that a sandbox refuses, by filters (seccomp(2)).
//!
//! Landlock and [namespaces](super::namespaces) restrict which objects a server reaches. Filters refuse what neither of them sees: modes
//! that lend the rights of a file's owner, sockets of uncommon protocols, input to terminals, keyrings; and the ways around a filter.
//! Each error is the one after which programs do without: `openat2` and `io_uring` look missing.
//!
//! A filter reads only numbers. It cannot tell a directory from a file, nor a socket that is bound from one that is not.
//!
//! The kernel kills programs for another architecture, such as 32-bit ones, at their first system call.

use std::collections::BTreeMap;
use std::io;

use libc::{EACCES, EAFNOSUPPORT, ENOSYS, EPERM, EPROTONOSUPPORT, c_int};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch, apply_filter, sock_filter,
};

use self::Test::{Has, Is, IsNot, NotNull};
use super::Restrictions;

/// A test of the argument with this number. All but [`NotNull`] read its lower 32 bits, as the kernel does.
#[derive(Clone, Copy)]
enum Test {
    Is(u8, u64),
    IsNot(u8, u64),
    /// The bits of a mask, which is named first, have this value.
    Has(u8, u64, u64),
    NotNull(u8),
}

/// Succeeds always.
const ANY: &[Test] = &[Has(0, 0, 0)];

/// A system call, the error that it gets, and the tests that have to succeed for that.
type Refusal = (i64, c_int, &'static [Test]);

// Newer than some versions of libc. All architectures have the same numbers.
const SYS_FCHMODAT2: i64 = 452;
const SYS_OPEN_TREE_ATTR: i64 = 467;

/// In every sandbox: limits of other processes (`RLIMIT_CPU` ends one), and input to a terminal as if a person had typed it (`TIOCSTI`,
/// `TIOCLINUX`).
const EVERYWHERE: &[Refusal] = &[
    (libc::SYS_prlimit64, EPERM, &[IsNot(0, 0), NotNull(2)]),
    (libc::SYS_ioctl, EPERM, &[Is(1, 0x5412)]),
    (libc::SYS_ioctl, EPERM, &[Is(1, 0x541c)]),
];

/// The kernel takes requests out of memory, which no filter sees.
const RINGS: &[i64] = &[libc::SYS_io_uring_setup, libc::SYS_io_uring_enter, libc::SYS_io_uring_register];
/// Keyrings, files by number, mounts, and parts of the kernel that no server needs.
const SYSTEM: &[i64] = &[
    libc::SYS_add_key,
    libc::SYS_keyctl,
    libc::SYS_request_key,
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    SYS_OPEN_TREE_ATTR,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
];
/// System V IPC and message queues of POSIX.
const IPC: &[i64] = &[
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    libc::SYS_mq_timedsend,
    libc::SYS_mq_timedreceive,
    libc::SYS_mq_notify,
    libc::SYS_mq_getsetattr,
];

/// The bits with which a program runs as the owner, or with the group, of its file. Another user could run what a server leaves.
const LENDING_MODES: [u64; 2] = [0o4000, 0o2000];
/// Calls that set a mode, with the number of that argument.
const MODES: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chmod, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_creat, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mkdir, 1),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_mknod, 1),
    (libc::SYS_fchmod, 1),
    (libc::SYS_fchmodat, 2),
    (SYS_FCHMODAT2, 2),
    (libc::SYS_mkdirat, 2),
    (libc::SYS_mknodat, 2),
];
/// Calls that set a mode if a flag in the argument before says that they create a file.
const OPENS: &[(i64, u8)] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_open, 2),
    (libc::SYS_openat, 3),
];
/// `O_CREAT`, and the part of `O_TMPFILE` that is not `O_DIRECTORY`.
const CREATING_FLAGS: [u64; 2] = [0o100, 0o20_000_000];

/// Address families.
const UNIX: u64 = 1;
const INET: u64 = 2;
const INET6: u64 = 10;
const NETLINK: u64 = 16;
/// The bits of a socket's type that are not flags.
const TYPE: u64 = 0xf;
const STREAM: u64 = 1;
const DATAGRAM: u64 = 2;
/// In the family of Unix sockets, the same as a datagram socket.
const RAW: u64 = 3;
const TCP: u64 = 6;
const UDP: u64 = 17;
/// With datagram sockets: the echo requests of `ping`.
const ICMP: u64 = 1;
const ICMPV6: u64 = 58;
/// Netlink's protocol of interfaces, addresses and routes, which `getifaddrs` needs.
const ROUTE: u64 = 0;
/// The option `TCP_ULP`.
const UPPER_LAYER: u64 = 31;
/// The flag of a message that also connects (`MSG_FASTOPEN`).
const FAST_OPEN: u64 = 0x2000_0000;

/// All sockets but TCP, UDP, `ping`, interfaces and Unix. Without these families, what is neither Unix nor netlink is the Internet.
const UNCOMMON_SOCKETS: &[Refusal] = &[
    (libc::SYS_socketpair, EAFNOSUPPORT, &[IsNot(0, UNIX)]),
    (libc::SYS_socket, EAFNOSUPPORT, &[IsNot(0, UNIX), IsNot(0, INET), IsNot(0, INET6), IsNot(0, NETLINK)]),
    (libc::SYS_socket, EPROTONOSUPPORT, &[Is(0, NETLINK), IsNot(2, ROUTE)]),
    // The types are numbers, not bits: of 0 to 15, all but 1 and 2.
    (libc::SYS_socket, EPROTONOSUPPORT, &[IsNot(0, UNIX), IsNot(0, NETLINK), Has(1, 0b1000, 0b1000)]),
    (libc::SYS_socket, EPROTONOSUPPORT, &[IsNot(0, UNIX), IsNot(0, NETLINK), Has(1, 0b0100, 0b0100)]),
    (libc::SYS_socket, EPROTONOSUPPORT, &[IsNot(0, UNIX), IsNot(0, NETLINK), Has(1, 0b0011, 0b0011)]),
    (libc::SYS_socket, EPROTONOSUPPORT, &[IsNot(0, UNIX), IsNot(0, NETLINK), Has(1, 0b0011, 0b0000)]),
    (
        libc::SYS_socket,
        EPROTONOSUPPORT,
        &[IsNot(0, UNIX), IsNot(0, NETLINK), Has(1, TYPE, STREAM), IsNot(2, 0), IsNot(2, TCP)],
    ),
    (
        libc::SYS_socket,
        EPROTONOSUPPORT,
        &[Is(0, INET), Has(1, TYPE, DATAGRAM), IsNot(2, 0), IsNot(2, UDP), IsNot(2, ICMP)],
    ),
    (
        libc::SYS_socket,
        EPROTONOSUPPORT,
        &[Is(0, INET6), Has(1, TYPE, DATAGRAM), IsNot(2, 0), IsNot(2, UDP), IsNot(2, ICMPV6)],
    ),
];
/// Unix sockets, but pairs of streams, which runtimes use as pipes to their children. A datagram socket can send to any path.
const UNIX_SOCKETS: &[Refusal] = &[
    (libc::SYS_socket, EACCES, &[Is(0, UNIX)]),
    (libc::SYS_socketpair, EACCES, &[Is(0, UNIX), Has(1, TYPE, DATAGRAM)]),
    (libc::SYS_socketpair, EACCES, &[Is(0, UNIX), Has(1, TYPE, RAW)]),
];
const TCP_SOCKETS: &[Refusal] =
    &[(libc::SYS_socket, EACCES, &[IsNot(0, UNIX), IsNot(0, NETLINK), Has(1, TYPE, STREAM)])];
const INTERNET_SOCKETS: &[Refusal] = &[(libc::SYS_socket, EACCES, &[IsNot(0, UNIX), IsNot(0, NETLINK)])];
/// What Landlock does not see of TCP: `listen` without `bind`, which takes a free port; data with the first packet; and a socket that turns
/// into one for SMC by the option `TCP_ULP`.
const UNSEEN_TCP: &[Refusal] = &[
    (libc::SYS_listen, EACCES, ANY),
    (libc::SYS_sendto, EACCES, &[Has(3, FAST_OPEN, FAST_OPEN)]),
    (libc::SYS_sendmsg, EACCES, &[Has(2, FAST_OPEN, FAST_OPEN)]),
    (libc::SYS_sendmmsg, EACCES, &[Has(3, FAST_OPEN, FAST_OPEN)]),
    (libc::SYS_setsockopt, EACCES, &[Is(1, TCP), Is(2, UPPER_LAYER)]),
];

/// Refuses the system calls of the ABI x32, some of which have other numbers. No program uses it.
const X32: [sock_filter; 4] = [
    // The number of the call.
    instruction(0x20, 0, 0),
    // Goes on, or over one, depending on the bit of x32.
    instruction(0x45, 1, 0x4000_0000),
    instruction(0x06, 0, 0x0005_0000 | ENOSYS.unsigned_abs()),
    // Permits the call.
    instruction(0x06, 0, 0x7fff_0000),
];

const fn instruction(code: u16, jf: u8, k: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf, k }
}

/// Refuses what `restrictions` do not permit, to this process and to the program that it executes.
pub(super) fn restrict(restrictions: &Restrictions) -> io::Result<()> {
    let is_files = restrictions.files.is_some() || restrictions.namespaces.is_some();
    let architecture = match TargetArch::try_from(std::env::consts::ARCH) {
        Ok(architecture) => architecture,
        // Filters cannot be built for every architecture. The domain is enforced all the same.
        Err(_) if restrictions.unix && restrictions.ports.is_none() && !is_files => return Ok(()),
        Err(error) => return Err(io::Error::other(error)),
    };
    for program in programs(restrictions, is_files, architecture).map_err(io::Error::other)? {
        apply_filter(&program).map_err(io::Error::other)?;
    }
    if cfg!(target_arch = "x86_64") { apply_filter(&X32).map_err(io::Error::other) } else { Ok(()) }
}

/// One filter for each error. If several of them refuse a call, the last one decides on the error.
fn programs(
    restrictions: &Restrictions,
    is_files: bool,
    architecture: TargetArch,
) -> Result<Vec<BpfProgram>, BackendError> {
    let mut refusals = Refusals::default();
    refusals.add(EVERYWHERE)?;
    if is_files {
        refusals.add_calls(EPERM, SYSTEM)?;
        refusals.add_modes()?;
        // Its arguments lie in memory, too.
        refusals.add_calls(ENOSYS, &[libc::SYS_openat2])?;
    }
    if is_files && restrictions.namespaces.is_none() {
        refusals.add_calls(ENOSYS, IPC)?;
    }
    if is_files || !restrictions.unix || restrictions.ports.is_some() {
        refusals.add_calls(ENOSYS, RINGS)?;
    }
    if is_files || restrictions.ports.is_some() {
        refusals.add(UNCOMMON_SOCKETS)?;
    }
    if !restrictions.unix {
        refusals.add(UNIX_SOCKETS)?;
    }
    match restrictions.ports.as_deref() {
        Some([]) => refusals.add(if is_files { INTERNET_SOCKETS } else { TCP_SOCKETS })?,
        Some(_) => refusals.add(UNSEEN_TCP)?,
        None => {}
    }
    let programs = refusals.0.into_iter().map(|(error, rules)| {
        let refusal = SeccompAction::Errno(error.unsigned_abs());
        SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
    });
    programs.collect()
}

/// The rules for each call, by error. One of them is enough to refuse the call.
#[derive(Default)]
struct Refusals(BTreeMap<c_int, BTreeMap<i64, Vec<SeccompRule>>>);

impl Refusals {
    fn add(&mut self, refusals: &[Refusal]) -> Result<(), BackendError> {
        refusals.iter().try_for_each(|(call, error, tests)| self.add_rule(*call, *error, tests))
    }

    fn add_calls(&mut self, error: c_int, calls: &[i64]) -> Result<(), BackendError> {
        calls.iter().try_for_each(|call| self.add_rule(*call, error, ANY))
    }

    fn add_modes(&mut self) -> Result<(), BackendError> {
        for bit in LENDING_MODES {
            for (call, mode) in MODES {
                self.add_rule(*call, EPERM, &[Has(*mode, bit, bit)])?;
            }
            for (call, mode) in OPENS {
                for flag in CREATING_FLAGS {
                    self.add_rule(*call, EPERM, &[Has(mode - 1, flag, flag), Has(*mode, bit, bit)])?;
                }
            }
        }
        Ok(())
    }

    fn add_rule(&mut self, call: i64, error: c_int, tests: &[Test]) -> Result<(), BackendError> {
        let conditions = tests.iter().map(|test| {
            let (argument, length, operator, value) = match *test {
                Is(argument, value) => (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, value),
                IsNot(argument, value) => (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::Ne, value),
                Has(argument, mask, value) => (argument, SeccompCmpArgLen::Dword, SeccompCmpOp::MaskedEq(mask), value),
                NotNull(argument) => (argument, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0),
            };
            SeccompCondition::new(argument, length, operator, value)
        });
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        self.0.entry(error).or_default().entry(call).or_default().push(rule);
        Ok(())
    }
}
