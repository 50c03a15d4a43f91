//! Explains in one sentence why `mcpd.service` has failed. Pure.
//!
//! Source: systemd.exec(5), "Process Exit Codes", and `Result=` in systemd.service(5).

use super::units::property;
use crate::systemctl::Properties;

/// `CLD_EXITED` in `ExecMainCode`. Source: waitid(2).
const EXITED: &str = "1";
/// Failures of systemd before it executed the program, by exit code.
const SETUP_FAILURES: [(u16, &str); 16] = [
    (200, "systemd could not change to its working directory"),
    (203, "systemd could not execute its program; run `mcpd service install` again"),
    (204, "systemd had no memory to start it"),
    (205, "systemd could not set its limits"),
    (208, "systemd could not set up its standard input"),
    (209, "systemd could not set up its standard output"),
    (217, "systemd could not set up its user (PrivateUsers=)"),
    (218, "systemd could not drop its capabilities (CapabilityBoundingSet=)"),
    (219, "systemd could not put it into its cgroup"),
    (222, "systemd could not set up its standard error"),
    (226, "systemd could not set up its mount namespace (settings about files, such as ProtectSystem=)"),
    (227, "systemd could not set NoNewPrivileges="),
    (228, "systemd could not install its filter of system calls (SystemCallFilter=)"),
    (236, "systemd could not set the executable's security label"),
    (240, "systemd could not set up its state directory"),
    (243, "systemd could not load its credentials (LoadCredential=)"),
];

/// The reason from the daemon's status text if it set one before it exited, else from systemd's properties.
pub(super) fn failure(service: &Properties) -> String {
    let status = property(service, "ExecMainStatus");
    let text = property(service, "StatusText");
    match (property(service, "ExecMainCode"), status.parse::<u16>()) {
        // With other exit codes the status text is still the last summary of servers.
        (EXITED, Ok(1 | 2 | 4)) if !text.is_empty() => text.to_owned(),
        (EXITED, Ok(code)) => match SETUP_FAILURES.iter().find(|(known, _)| *known == code) {
            Some((_, sentence)) => (*sentence).to_owned(),
            None => format!("it exited with code {code} ({})", property(service, "Result")),
        },
        (_, Ok(signal @ 1..)) => format!("it was ended by signal {signal} ({})", property(service, "Result")),
        _ => format!("systemd says `{}`", property(service, "Result")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reason_is_the_daemons_status_text_or_else_how_it_ended() {
        let check = |[code, status, result, text]: [&str; 4], expected: &str| {
            let pairs = [("ExecMainCode", code), ("ExecMainStatus", status), ("Result", result), ("StatusText", text)];
            let unit = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
            assert_eq!(failure(&unit), expected);
        };
        let status_text = "unknown key `deamon` --> config.toml:1:2";
        check(["1", "2", "exit-code", status_text], status_text);
        check(["1", "2", "start-limit-hit", status_text], status_text);
        check(["1", "2", "exit-code", ""], "it exited with code 2 (exit-code)");
        check(["2", "9", "watchdog", "2 servers ready; 1 agent"], "it was ended by signal 9 (watchdog)");
        check(["1", "101", "exit-code", "2 servers ready; 1 agent"], "it exited with code 101 (exit-code)");
        check(["0", "0", "resources", ""], "systemd says `resources`");
        check(["1", "217", "exit-code", ""], "systemd could not set up its user (PrivateUsers=)");
    }
}
