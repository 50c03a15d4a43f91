//! Findings about the systemd unit.

use super::{expect, expect_any, findings};
use crate::support::{Server, Setup, TAG, UserManager};

fn manager() -> Option<UserManager> {
    UserManager::start(&Setup::with(Server::named("plain")))
}

#[test]
fn unit_is_active_and_enabled_after_the_printed_remedy() {
    let Some(manager) = manager() else { return };
    let doctor = || manager.mcpd(&["doctor", "--json", "--no-start"]);
    let finding = expect(doctor(), "warning", "mcpd.service", "is inactive");
    assert_eq!(finding.command(), "mcpd start");
    manager.mcpd(&["start"]).expect_code(0);
    let finding = expect(doctor(), "warning", "mcpd.service", "is not enabled");
    assert_eq!(finding.command(), "systemctl --user enable mcpd.service");
    manager.systemctl(&["enable", "mcpd.service"]).expect_code(0);
    let ran = doctor();
    let all = findings(&ran);
    let is_reported = |about: &str, part: &str| {
        let mut of = all.iter().filter(|finding| finding.get("about") == about && finding.get("level") == "ok");
        assert!(of.any(|finding| finding.get("found").contains(part)), "no {part}: {ran}");
    };
    is_reported("mcpd.service", "is active");
    is_reported("daemon", "in mcpd.service");
    let complaints = all.iter().filter(|finding| finding.get("group") == "service" && finding.get("level") != "ok");
    assert!(complaints.filter(|finding| finding.get("about") != "PATH").count() == 0, "{ran}");
}

#[test]
fn unit_that_has_failed_is_a_problem_with_its_reason() {
    let Some(manager) = manager() else { return };
    let place = manager.place();
    let file = place.path("config.toml");
    let text = std::fs::read_to_string(&file).expect("text");
    place.write("config.toml", format!("{text}\nwrong = 1\n"));
    // A start in progress has no reason yet.
    place.write("xdg-config/systemd/user/mcpd.service.d/later.conf", "[Service]\nRestartSec=600\n");
    manager.systemctl(&["daemon-reload"]).expect_code(0);
    manager.systemctl(&["start", "mcpd"]);
    manager.wait_property("SubState", "auto-restart");
    let ran = manager.mcpd(&["doctor", "--json", "--no-start"]);
    let finding = expect(ran, "problem", "mcpd.service", "has failed (exit-code)");
    assert!(finding.get("found").contains("unknown key `wrong`"), "{finding:?}");
    assert!(finding.get("advice").contains("`mcpd start`"), "{finding:?}");
    place.write("config.toml", text);
}

#[test]
fn unset_variable_of_a_unit_is_set_by_the_printed_command() {
    let needy = Server::named("a").flags("--bare --tool x").env("A", "${MCPD_IT_UNSET}");
    let Some(manager) = UserManager::installed(&Setup::with(needy)) else { return };
    manager.mcpd(&["start"]);
    let finding = expect_any(&manager.mcpd(&["doctor", "--json"]), "a", "`MCPD_IT_UNSET` is not set");
    let expected =
        "set `MCPD_IT_UNSET` in the profile of your login shell; then `mcpd reload --environment`; or change ";
    assert!(finding.get("advice").starts_with(expected), "{finding:?}");
    let profile = format!("export {TAG}={}\nexport MCPD_IT_UNSET=1\n", manager.place().tag());
    manager.place().write("home/.bash_profile", profile);
    manager.mcpd(&["reload", "--environment"]).expect_code(0);
    manager.wait_row("a", "is ready", |row| row["state"] == "ready");
}
