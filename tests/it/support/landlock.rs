//! What the running system permits sandboxes: the version of Landlock, and namespaces.

use std::process::Command;
use std::sync::LazyLock;

use landlock::{AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

/// The variable that makes the daemon find no namespaces, with this error number.
pub(crate) const NO_NAMESPACES: &str = "MCPD_TEST_NO_NAMESPACES";

/// Whether this user may have namespaces, according to a program that is not mcpd. Reports the rest of the test as skipped if not.
pub(crate) fn system_has_namespaces() -> bool {
    static TRIED: LazyLock<Result<(), String>> = LazyLock::new(|| {
        let options = ["--user", "--map-root-user", "--mount", "--pid", "--fork", "--ipc", "--net", "--mount-proc"];
        let tried = Command::new("unshare").args(options).arg("true").output().map_err(|error| error.to_string())?;
        tried.status.success().then_some(()).ok_or_else(|| String::from_utf8_lossy(&tried.stderr).trim().to_owned())
    });
    if let Err(reason) = &*TRIED {
        super::skipped(&format!("the system permits no namespaces: {reason}"));
    }
    TRIED.is_ok()
}

/// Whether the running kernel has at least this version of Landlock.
pub(crate) fn kernel_has_landlock(abi: u8) -> bool {
    let strict = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    match abi {
        ..=1 => strict().handle_access(AccessFs::Execute).is_ok(),
        2 => strict().handle_access(AccessFs::Refer).is_ok(),
        3 => strict().handle_access(AccessFs::Truncate).is_ok(),
        4 => strict().handle_access(AccessNet::ConnectTcp).is_ok(),
        5 => strict().handle_access(AccessFs::IoctlDev).is_ok(),
        _ => strict().scope(Scope::Signal).is_ok(),
    }
}
