//! Restricts this process: no new privileges, a Landlock domain, a seccomp filter.

use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::path::PathBuf;

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, NetPort, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreated, RulesetCreatedAttr, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, remove_capability_from_bounding_set};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter,
};

use super::{Domain, Restrictions};

/// The address family of Unix sockets.
const UNIX: u64 = 1;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;
/// The types of datagram sockets. For Unix sockets they are the same.
const DATAGRAM: u64 = 2;
const RAW: u64 = 3;
/// What is added to the number of a system call. Some kernels for `x86_64` have a second set of them, the x32 ABI.
const MODES: &[i64] = if cfg!(target_arch = "x86_64") { &[0, 0x4000_0000] } else { &[0] };

/// What root loses in a domain: with either of these the kernel opens `/proc/PID/environ` and the like without asking Landlock.
const UNRESTRICTED: [CapabilitySet; 2] = [CapabilitySet::PERFMON, CapabilitySet::SYS_ADMIN];

/// The version of Landlock that the running kernel offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Abi(u8);

impl Abi {
    /// Nothing can be enforced, as there is no guard.
    pub(crate) const NO_GUARD: Self = Self(0);
    /// No Landlock. The first version counts as none, since it forbids to move files between directories.
    pub(crate) const NONE: Self = Self(1);
    /// Domains separate processes.
    pub(super) const DOMAINS: Self = Self(2);
    /// Rules for files include truncation.
    pub(super) const FILES: Self = Self(3);
    /// Rules for TCP ports.
    pub(super) const NETWORK: Self = Self(4);
    /// Scopes for signals and abstract sockets.
    pub(super) const SCOPES: Self = Self(6);

    /// The version of the running kernel, as far as mcpd uses it.
    #[must_use]
    pub fn running() -> Self {
        #[cfg(feature = "test-server")]
        if let Some(number) = std::env::var("MCPD_TEST_LANDLOCK").ok().and_then(|number| number.parse().ok()) {
            return Self(number).min(Self::of_kernel());
        }
        Self::of_kernel()
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
        probes.iter().find(|(_, is_known)| *is_known).map_or(Self::NONE, |(number, _)| Self(*number))
    }

    #[cfg(test)]
    pub(super) fn of_number(number: u8) -> Self {
        Self(number)
    }

    pub(super) fn number(self) -> u8 {
        self.0
    }
}

/// Applies `restrictions` to this process and to the program that it executes. `read` and `write` are the paths of level `files`.
pub(super) fn restrict(restrictions: &Restrictions, read: &[PathBuf], write: &[PathBuf]) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    if let Some(domain) = &restrictions.domain {
        for capability in UNRESTRICTED {
            // Fails without privileges, and then there is nothing to remove.
            let _ = remove_capability_from_bounding_set(capability);
        }
        let ruleset = ruleset(domain, read, write).map_err(io::Error::other)?;
        ruleset.restrict_self().map_err(io::Error::other)?;
    }
    match TargetArch::try_from(std::env::consts::ARCH) {
        Ok(architecture) => {
            let filter = filter(restrictions.unix, architecture).map_err(io::Error::other)?;
            apply_filter(&filter).map_err(io::Error::other)
        }
        // Filters cannot be built for every architecture. The domain is enforced all the same.
        Err(_) if restrictions.unix => Ok(()),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn ruleset(
    domain: &Domain,
    read: &[PathBuf],
    write: &[PathBuf],
) -> Result<RulesetCreated, Box<dyn Error + Send + Sync>> {
    let abi = match domain.abi {
        number @ 0..=4 => ABI::from(i32::from(number)),
        _ => ABI::V5,
    };
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    if domain.abi >= Abi::SCOPES.0 {
        ruleset = ruleset.scope(Scope::Signal | Scope::AbstractUnixSocket)?;
    }
    let reading = AccessFs::from_read(abi);
    let writing = AccessFs::from_all(abi) & !(AccessFs::MakeBlock | AccessFs::MakeChar);
    if domain.files.is_some() {
        ruleset = ruleset.handle_access(AccessFs::from_all(abi))?;
    } else if domain.abi < Abi::SCOPES.0 {
        // The kernel refuses a ruleset that handles nothing. This right is granted everywhere below.
        ruleset = ruleset.handle_access(AccessFs::Refer)?;
    }
    if domain.ports.is_some() {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut created = ruleset.create()?;
    if domain.files.is_some() {
        created =
            created.add_rules(path_beneath_rules(read, reading))?.add_rules(path_beneath_rules(write, writing))?;
    } else if domain.abi < Abi::SCOPES.0 {
        created = created.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    }
    for port in domain.ports.iter().flatten() {
        created = created.add_rule(NetPort::new(*port, AccessNet::from_all(ABI::V4)))?;
    }
    Ok(created)
}

/// A filter of system calls that a domain does not restrict.
///
/// - Limits of other processes: a limit of processor time would kill one, which is a signal by other means.
/// - Without `unix`, `socket(AF_UNIX)`. `socketpair` stays for streams, which runtimes use for the pipes of their children. A datagram
///   socket of a pair can still send to any path. `io_uring` could create sockets without the system call.
///
/// The kernel kills programs for another architecture, such as 32-bit ones, at their first system call.
fn filter(unix: bool, architecture: TargetArch) -> Result<BpfProgram, seccompiler::BackendError> {
    let condition = |argument, op, value| SeccompCondition::new(argument, SeccompCmpArgLen::Dword, op, value);
    let is_unix = condition(0, SeccompCmpOp::Eq, UNIX)?;
    let is_other = condition(0, SeccompCmpOp::Ne, 0)?;
    let sets_limit = SeccompCondition::new(2, SeccompCmpArgLen::Qword, SeccompCmpOp::Ne, 0)?;
    let mut refused = vec![(libc::SYS_prlimit64, vec![SeccompRule::new(vec![is_other, sets_limit])?])];
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
    let rules: BTreeMap<_, _> =
        MODES.iter().flat_map(|mode| refused.iter().map(move |(call, rules)| (call | mode, rules.clone()))).collect();
    let refusal = SeccompAction::Errno(libc::EACCES.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, architecture)?.try_into()
}
