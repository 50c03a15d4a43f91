//! What is enforced, by level and kernel.

use super::Obstacle::{MountingProgram, NoGuard, NoHome, NoLandlock, OldLandlock};
use super::RestrictedAccess::{AbstractSockets, Files, Processes, Signals, TcpPorts, UnixSockets};
use super::*;

fn planned(sandbox: &Sandbox, abi: u8, command: &str) -> Result<Plan, Unenforceable> {
    plan(
        sandbox,
        LandlockSupport::of_number(abi),
        command,
        Some(Path::new("/private")),
        &ProtectedDirectories::default(),
    )
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
        (3, "x", Ok(vec![Processes, Files, UnixSockets])),
        (6, "x", Ok(vec![Processes, Signals, AbstractSockets, Files, UnixSockets])),
        (6, "bwrap", Err(MountingProgram)),
    ] {
        let result = planned(&files, abi, command).map(|plan| plan.report.enforced);
        assert_eq!(result, expected.map_err(Unenforceable::Files), "{abi} {command}");
    }
    let without_home = plan(&files, LandlockSupport::of_number(6), "x", None, &ProtectedDirectories::default());
    assert_eq!(without_home, Err(Unenforceable::Files(NoHome)));
}

#[test]
fn network_is_refused_where_it_cannot_be_enforced() {
    let one_port = Sandbox { network: Network::Ports(vec![443]), ..Sandbox::default() };
    assert_eq!(planned(&one_port, 3, "x"), Err(Unenforceable::Network(OldLandlock)));
    let plan = planned(&one_port, 4, "x").expect("the kernel has rules for ports");
    assert_eq!(plan.report.enforced, [Processes, TcpPorts]);
}

#[test]
fn unix_sockets_are_refused_without_landlock() {
    let without_sockets = Sandbox { unix: false, ..Sandbox::default() };
    let plan = planned(&without_sockets, 1, "x").expect("seccomp is enough");
    assert_eq!(plan.report.enforced, [UnixSockets]);
    assert_eq!(plan.restrictions, Some(Restrictions { domain: None, unix: false }));
}

#[test]
fn level_none_restricts_nothing_and_reports_no_degradation() {
    let plan = planned(&Sandbox::of_level(SandboxLevel::None), 1, "x").expect("nothing is required");
    assert_eq!(plan.restrictions, None);
    assert_eq!(plan.report.unenforced_text(), None);
}
