//! What is enforced, by level and kernel.

use super::Obstacle::{MountingProgram, NoGuard, NoHome, NoLandlock, NoNamespaces, OldLandlock};
use super::RestrictedAccess::{
    AbstractSockets, FileMetadata, Files, Ipc, Keyrings, ProcessList, Processes, Signals, TcpPorts, Udp, UnixSockets,
};
use super::namespaces::NamespaceStep;
use super::*;

const REFUSED: NamespaceFailure = NamespaceFailure { step: NamespaceStep::Create, errno: 1 };

fn planned_with(
    namespaces: Result<(), NamespaceFailure>,
    sandbox: &Sandbox,
    abi: u8,
    command: &str,
) -> Result<Plan, Unenforceable> {
    let support = Support { landlock: LandlockSupport::of_number(abi), namespaces };
    plan(sandbox, support, command, Some(Path::new("/private")), &ProtectedDirectories::default())
}

/// Without namespaces.
fn planned(sandbox: &Sandbox, abi: u8, command: &str) -> Result<Plan, Unenforceable> {
    planned_with(Err(REFUSED), sandbox, abi, command)
}

#[test]
fn scope_enforces_what_the_kernel_can() {
    let all = [Processes, Signals, AbstractSockets];
    for (abi, command, enforced, reason) in [
        (0, "x", &all[..0], Some(NoGuard)),
        (1, "x", &all[..0], Some(NoLandlock)),
        (2, "x", &all[..1], Some(OldLandlock)),
        (5, "x", &all[..1], Some(OldLandlock)),
        (6, "x", &all[..], None),
        // Before Linux 6.12 a domain forbids mounts.
        (5, "/usr/bin/podman", &all[..0], Some(MountingProgram)),
        (6, "/usr/bin/podman", &all[..], None),
    ] {
        let plan = planned(&Sandbox::default(), abi, command).expect("level `scope` never keeps a server down");
        assert_eq!(plan.report.enforced, enforced, "{abi} {command}");
        assert_eq!(plan.report.not_enforced, all[enforced.len()..], "{abi} {command}");
        assert_eq!(plan.report.reason, reason, "{abi} {command}");
        assert_eq!(plan.restrictions.is_some(), !enforced.is_empty(), "{abi} {command}");
    }
}

#[test]
fn files_is_refused_where_it_cannot_be_enforced() {
    let files = Sandbox::of_level(SandboxLevel::Files);
    for (abi, command, expected) in [
        (0, "x", Err(NoGuard)),
        (1, "x", Err(NoLandlock)),
        (2, "x", Err(OldLandlock)),
        (3, "x", Ok(vec![Processes, AbstractSockets, Files, Ipc, Keyrings, UnixSockets])),
        (6, "x", Ok(vec![Processes, Signals, AbstractSockets, Files, Ipc, Keyrings, UnixSockets])),
        (6, "bwrap", Err(MountingProgram)),
    ] {
        let result = planned(&files, abi, command).map(|plan| plan.report.enforced);
        assert_eq!(result, expected.map_err(Unenforceable::Files), "{abi} {command}");
    }
    let support = Support { landlock: LandlockSupport::of_number(6), namespaces: Ok(()) };
    let without_home = plan(&files, support, "x", None, &ProtectedDirectories::default());
    assert_eq!(without_home, Err(Unenforceable::Files(NoHome)));
    for (abi, command, reason) in [(0, "x", NoGuard), (6, "bwrap", MountingProgram)] {
        let result = planned_with(Ok(()), &files, abi, command).map(|plan| plan.report);
        assert_eq!(result, Err(Unenforceable::Files(reason)), "namespaces change nothing for {command}");
    }
}

#[test]
fn files_with_namespaces_needs_no_landlock() {
    let files = Sandbox::of_level(SandboxLevel::Files);
    let offline = Sandbox { network: Network::Ports(Vec::new()), ..files.clone() };
    let with_sockets = Sandbox { unix: Some(true), ..files.clone() };
    let namespaces = [Processes, Signals, Files, FileMetadata, ProcessList, Ipc, Keyrings];
    for (sandbox, abi, more, open) in [
        // By a socket, others could pass descriptors in, so there are no Unix sockets by default.
        (&files, 1, &[AbstractSockets, UnixSockets][..], &[][..]),
        (&files, 5, &[AbstractSockets, UnixSockets], &[]),
        (&with_sockets, 5, &[], &[AbstractSockets]),
        (&with_sockets, 6, &[AbstractSockets], &[]),
        (&files, 6, &[AbstractSockets, UnixSockets], &[]),
        (&offline, 1, &[AbstractSockets, UnixSockets, TcpPorts, Udp], &[]),
        (&offline, 6, &[AbstractSockets, UnixSockets, TcpPorts, Udp], &[]),
    ] {
        let plan = planned_with(Ok(()), sandbox, abi, "x").expect("it can be enforced");
        let mut enforced = plan.report.enforced.clone();
        enforced.retain(|access| !more.contains(access));
        assert_eq!(enforced, namespaces, "{abi}");
        assert_eq!(plan.report.enforced.len(), namespaces.len() + more.len(), "{abi}");
        assert_eq!(plan.report.not_enforced, open, "{abi}");
        assert_eq!(plan.report.namespaces, None);
        let restrictions = plan.restrictions.expect("there are restrictions");
        assert_eq!(restrictions.unix, !more.contains(&UnixSockets), "{abi}");
        assert!(restrictions.namespaces.is_some());
        assert_eq!(restrictions.domain.is_some(), abi >= 2, "{abi}");
    }
}

#[test]
fn refused_namespaces_are_reported_with_step_and_error() {
    let files = Sandbox::of_level(SandboxLevel::Files);
    let report = planned(&files, 6, "x").expect("Landlock is enough").report;
    assert_eq!(report.not_enforced, [FileMetadata, ProcessList]);
    assert_eq!((report.reason, report.namespaces), (Some(NoNamespaces), Some(REFUSED)));
    let text = report.unenforced_text().expect("something is not enforced");
    assert!(text.contains("cannot create namespaces: Operation not permitted"), "{text}");
    let offline = Sandbox { network: Network::Ports(Vec::new()), ..files.clone() };
    let report = planned(&offline, 6, "x").expect("Landlock is enough").report;
    assert_eq!(report.not_enforced, [FileMetadata, ProcessList]);
    assert!(report.enforced.contains(&Udp));
    let required = Sandbox { namespaces: NamespaceUse::Require, ..files };
    assert_eq!(planned(&required, 6, "x"), Err(Unenforceable::Namespaces(REFUSED)));
    assert!(planned_with(Ok(()), &required, 6, "x").is_ok());
}

#[test]
fn network_is_refused_where_it_cannot_be_enforced() {
    let one_port = Sandbox { network: Network::Ports(vec![443]), ..Sandbox::default() };
    assert_eq!(planned(&one_port, 3, "x"), Err(Unenforceable::Network(OldLandlock)));
    let offline = Sandbox { network: Network::Ports(Vec::new()), ..Sandbox::default() };
    assert_eq!(planned(&offline, 0, "x"), Err(Unenforceable::Network(NoGuard)));
    let plan = planned(&offline, 1, "x").expect("a filter is enough to refuse all ports");
    assert_eq!(plan.report.enforced, [TcpPorts]);
    assert!(plan.restrictions.is_some());
    let plan = planned(&one_port, 4, "x").expect("the kernel has rules for ports");
    assert_eq!(plan.report.enforced, [Processes, TcpPorts]);
    let at_files = Sandbox { network: Network::Ports(vec![443]), ..Sandbox::of_level(SandboxLevel::Files) };
    assert_eq!(planned_with(Ok(()), &at_files, 3, "x"), Err(Unenforceable::Network(OldLandlock)));
}

#[test]
fn unix_sockets_are_refused_without_landlock() {
    let without_sockets = Sandbox { unix: Some(false), ..Sandbox::default() };
    let plan = planned(&without_sockets, 1, "x").expect("seccomp is enough");
    assert_eq!(plan.report.enforced, [AbstractSockets, UnixSockets]);
    let expected = Restrictions { domain: None, namespaces: None, files: None, unix: false, ports: None };
    assert_eq!(plan.restrictions, Some(expected));
}

#[test]
fn level_none_restricts_nothing_and_reports_no_degradation() {
    let plan = planned(&Sandbox::of_level(SandboxLevel::None), 1, "x").expect("nothing is required");
    assert_eq!(plan.restrictions, None);
    assert_eq!(plan.report.unenforced_text(), None);
}
