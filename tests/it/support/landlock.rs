//! What the Landlock of the running kernel can do.

use landlock::{AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, Scope};

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
