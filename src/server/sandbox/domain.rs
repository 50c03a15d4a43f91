//! Restricts this process: no new privileges, a Landlock domain, a seccomp filter.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope,
};
use rustix::io::Errno;
use rustix::thread::{
    CapabilitySet, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set, set_capabilities,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::files::Grant;
use super::{Domain, Restrictions};
use crate::test_variable::test_variable;

/// The address family of Unix sockets.
const UNIX: u64 = 1;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;
/// `SOCK_DGRAM` and `SOCK_RAW`. Both create a datagram socket in the family of Unix sockets.
const DATAGRAM: u64 = 2;
const RAW: u64 = 3;
/// The protocol of multipath TCP, and the address family of SMC, which both speak plain TCP to a peer that knows nothing else.
const MULTIPATH_TCP: u64 = 262;
const SMC: u64 = 43;
/// The flag of a message that also connects (`MSG_FASTOPEN`).
const FAST_OPEN: u64 = 0x2000_0000;
/// The bits that the ABIs of an architecture set in the number of a system call: none, or on `x86_64` also the bit of x32.
const SYSCALL_ABI_BITS: &[i64] = if cfg!(target_arch = "x86_64") { &[0, 0x4000_0000] } else { &[0] };

/// Capabilities that a process gives up with its domain: with either, the kernel opens `/proc/PID/environ` and similar files without
/// asking Landlock.
const LANDLOCK_BYPASS_CAPABILITIES: CapabilitySet = CapabilitySet::PERFMON.union(CapabilitySet::SYS_ADMIN);

/// What of Landlock can be used, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LandlockSupport {
    /// Nothing can be enforced, as there is no guard.
    NoGuard,
    /// The kernel has no usable Landlock. Version 1 is not usable, because it always forbids to move files between directories.
    NoLandlock,
    /// The version that the kernel offers.
    Version(u8),
}

impl LandlockSupport {
    /// Domains separate processes.
    pub(super) const DOMAINS: Self = Self::Version(2);
    /// Rules for files include truncation.
    pub(super) const FILES: Self = Self::Version(3);
    /// Rules for TCP ports.
    pub(super) const NETWORK: Self = Self::Version(4);
    /// Scopes for signals and abstract sockets.
    pub(super) const SCOPES: Self = Self::Version(6);

    /// The version of the running kernel, as far as mcpd uses it.
    #[must_use]
    pub fn running() -> Self {
        test_variable("MCPD_TEST_LANDLOCK")
            .map_or_else(Self::of_kernel, |number| Self::of_number(number).min(Self::of_kernel()))
    }

    fn of_kernel() -> Self {
        let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
        // Whether the kernel knows a right; nothing is created.
        let probes = [
            (6, strict().scope(Scope::Signal).is_ok()),
            (5, strict().handle_access(AccessFs::IoctlDev).is_ok()),
            (4, strict().handle_access(AccessNet::ConnectTcp).is_ok()),
            (3, strict().handle_access(AccessFs::Truncate).is_ok()),
            (2, strict().handle_access(AccessFs::Refer).is_ok()),
        ];
        probes.iter().find(|(_, is_known)| *is_known).map_or(Self::NoLandlock, |(number, _)| Self::Version(*number))
    }

    pub(super) fn of_number(number: u8) -> Self {
        match number {
            0 => Self::NoGuard,
            1 => Self::NoLandlock,
            version => Self::Version(version),
        }
    }
}

/// Applies `restrictions` to this process and to the program that it executes. `grants` are the paths of level `files`.
pub(super) fn restrict(restrictions: &Restrictions, grants: &[Grant]) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let is_files = restrictions.files.is_some() || restrictions.namespaces.is_some();
    if let Some(domain) = &restrictions.domain {
        drop_bypass_capabilities()?;
        let ruleset = ruleset(domain, is_files.then_some(grants)).map_err(io::Error::other)?;
        ruleset.restrict_self().map_err(io::Error::other)?;
    }
    let has_ports = restrictions.domain.as_ref().is_some_and(|domain| domain.ports.is_some());
    match TargetArch::try_from(std::env::consts::ARCH) {
        Ok(architecture) => {
            let filter = filter(restrictions.unix, has_ports, is_files, architecture).map_err(io::Error::other)?;
            apply_filter(&filter).map_err(io::Error::other)
        }
        // Filters cannot be built for every architecture. The domain is enforced all the same.
        Err(_) if restrictions.unix && !has_ports && !is_files => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

/// Gives up the capabilities with which the kernel does not ask Landlock, for this process and for all that it executes.
fn drop_bypass_capabilities() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    sets.inheritable.remove(LANDLOCK_BYPASS_CAPABILITIES);
    set_capabilities(None, sets)?;
    for capability in LANDLOCK_BYPASS_CAPABILITIES.iter() {
        match remove_capability_from_bounding_set(capability) {
            // Only a process without privileges may not do that. It gains none, since `no_new_privs` is set.
            Err(Errno::PERM) | Ok(()) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// `files` are the paths of level `files`.
fn ruleset(domain: &Domain, files: Option<&[Grant]>) -> Result<RulesetCreated, Box<dyn Error + Send + Sync>> {
    let abi = match domain.abi {
        number @ 0..=4 => ABI::from(i32::from(number)),
        _ => ABI::V5,
    };
    let has_scopes = LandlockSupport::Version(domain.abi) >= LandlockSupport::SCOPES;
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if has_scopes {
        ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    }
    let reading = AccessFs::from_read(abi);
    let writing = AccessFs::from_all(abi) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    if files.is_some() {
        ruleset = ruleset.handle_access(AccessFs::from_all(abi))?;
    } else if !has_scopes {
        // The kernel refuses a ruleset that handles nothing. This right is granted everywhere below.
        ruleset = ruleset.handle_access(AccessFs::Refer)?;
    }
    if domain.ports.is_some() {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut created = ruleset.create()?;
    if let Some(grants) = files {
        for Grant { opened, writes } in grants {
            let access = if *writes { writing } else { reading };
            let access = if opened.is_directory()? { access } else { access & AccessFs::from_file(abi) };
            created = created.add_rule(PathBeneath::new(&opened.fd, access))?;
        }
    } else if !has_scopes {
        created = created.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    }
    for port in domain.ports.iter().flatten() {
        created = created.add_rule(NetPort::new(*port, AccessNet::from_all(ABI::V4)))?;
    }
    Ok(created)
}

/// A filter of system calls that a domain does not restrict.
///
/// - Changes of the limits of other processes. With `RLIMIT_CPU`, a server could kill a process although it may send no signal.
/// - Without `unix`, `socket(AF_UNIX)`. `socketpair` is permitted for streams, which runtimes use as pipes to their children. It is
///   refused for datagrams, because such a socket can send to any path. `io_uring_setup` is refused, because `io_uring` creates sockets
///   without `socket`.
/// - At level `files`, keyrings and `io_uring_setup`, even if Unix sockets are permitted.
/// - With a list of ports, connections that Landlock does not take for TCP: multipath TCP, SMC, and data with the first packet.
///
/// The kernel kills programs for another architecture, such as 32-bit ones, at their first system call.
fn filter(
    unix: bool,
    has_ports: bool,
    is_files: bool,
    architecture: TargetArch,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let condition = |argument, op, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value);
    let is_unix = condition(0, SeccompCmpOp::Eq, UNIX)?;
    let is_other = condition(0, SeccompCmpOp::Ne, 0)?;
    let sets_limit = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let mut refused = vec![(libc::SYS_prlimit64, vec![SeccompRule::new(vec![is_other, sets_limit])?])];
    if is_files {
        let calls = [libc::SYS_add_key, libc::SYS_keyctl, libc::SYS_request_key, libc::SYS_io_uring_setup];
        refused.extend(calls.map(|call| (call, Vec::new())));
    }
    if !unix {
        let of_type = |number| {
            let is_type = condition(1, SeccompCmpOp::MaskedEq(SOCKET_TYPE), number)?;
            SeccompRule::new(vec![is_unix.clone(), is_type])
        };
        refused.extend([
            (libc::SYS_socket, vec![SeccompRule::new(vec![is_unix.clone()])?]),
            (libc::SYS_socketpair, vec![of_type(DATAGRAM)?, of_type(RAW)?]),
            (libc::SYS_io_uring_setup, Vec::new()),
        ]);
    }
    if has_ports {
        let has_fast_open =
            |argument| SeccompRule::new(vec![condition(argument, SeccompCmpOp::MaskedEq(FAST_OPEN), FAST_OPEN)?]);
        let of_protocol = SeccompRule::new(vec![condition(2, SeccompCmpOp::Eq, MULTIPATH_TCP)?])?;
        let of_family = SeccompRule::new(vec![condition(0, SeccompCmpOp::Eq, SMC)?])?;
        let sockets =
            [of_protocol, of_family].into_iter().chain((!unix).then(|| SeccompRule::new(vec![is_unix])).transpose()?);
        refused.retain(|(call, _)| *call != libc::SYS_socket);
        refused.extend([
            (libc::SYS_socket, sockets.collect()),
            (libc::SYS_sendto, vec![has_fast_open(3)?]),
            (libc::SYS_sendmsg, vec![has_fast_open(2)?]),
            (libc::SYS_sendmmsg, vec![has_fast_open(3)?]),
            (libc::SYS_io_uring_setup, Vec::new()),
        ]);
    }
    let rules: BTreeMap<_, _> = SYSCALL_ABI_BITS
        .iter()
        .flat_map(|bits| refused.iter().map(move |(call, rules)| (call | bits, rules.clone())))
        .collect();
    let refusal = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
}
