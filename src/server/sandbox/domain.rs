//! Restricts this process: no new privileges, a Landlock domain, and filters of [system calls](super::syscalls).

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

use super::files::FileGrant;
use super::{Domain, Restrictions, syscalls};
use crate::test_variable::test_variable;

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
pub(super) fn restrict(restrictions: &Restrictions, grants: &[FileGrant]) -> io::Result<()> {
    rustix::thread::set_no_new_privs(true)?;
    let is_files = restrictions.files.is_some() || restrictions.namespaces.is_some();
    if let Some(domain) = &restrictions.domain {
        drop_bypass_capabilities()?;
        let ruleset = ruleset(domain, restrictions.ports.as_deref(), is_files.then_some(grants));
        ruleset.map_err(io::Error::other)?.restrict_self().map_err(io::Error::other)?;
    }
    syscalls::restrict(restrictions)
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

/// `ports` are the TCP ports that may be connected to, and `files` the paths of level `files`.
fn ruleset(
    domain: &Domain,
    ports: Option<&[u16]>,
    files: Option<&[FileGrant]>,
) -> Result<RulesetCreated, Box<dyn Error + Send + Sync>> {
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
    // An older version has no rules for ports. Then there are none, and no sockets either.
    let ports = ports.filter(|_| LandlockSupport::Version(domain.abi) >= LandlockSupport::NETWORK);
    if ports.is_some() {
        ruleset = ruleset.handle_access(AccessNet::from_all(ABI::V4))?;
    }
    let mut created = ruleset.create()?;
    if let Some(grants) = files {
        for FileGrant { opened, writes, .. } in grants {
            let access = if *writes { writing } else { reading };
            let access = if opened.is_directory()? { access } else { access & AccessFs::from_file(abi) };
            created = created.add_rule(PathBeneath::new(&opened.fd, access))?;
        }
    } else if !has_scopes {
        created = created.add_rule(PathBeneath::new(PathFd::new("/")?, AccessFs::Refer))?;
    }
    for port in ports.into_iter().flatten() {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    Ok(created)
}
