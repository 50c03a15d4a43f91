//! The remedy for a server that is down, by the probable cause or the code of its error, for programs and for servers with a URL.

use super::probe::{Change, DaemonProbe};
use crate::admin::report::{ServerReport, StateName};
use crate::config::Program;
use crate::config::command_line::without_secrets;
use crate::config::interpolate::{Sources, UnusableValue};
use crate::config::known_commands::{asks_before_install, lacks_stdin};
use crate::config_lints::{ANSWER, PASS_STDIN};
use crate::known_clients::shell_word;
use crate::server::Cause;

/// The command that makes mcpd try a server again, with its files as they are now.
pub(super) fn again(probe: &DaemonProbe, name: &str) -> String {
    probe.after(Change::Elsewhere, name)
}

/// What to do about a server that is down; `has_ended` if doctor has started it and it has ended.
pub(super) fn remedy(probe: &DaemonProbe, report: &ServerReport, has_ended: bool) -> String {
    let code = report.code.as_deref().unwrap_or_default();
    match (code, &report.remote) {
        // The server has another era than the configured one (MCP 2026-07-28, `basic/versioning`).
        ("no_modern_era" | "modern_only" | "discover_timeout", _) => {
            format!(
                "set `era = \"auto\"` in {}; then {}",
                probe.definition(&report.name),
                probe.after(Change::Configuration, &report.name)
            )
        }
        ("unusable_value", _) if let Some(remedy) = of_value(probe, report) => remedy,
        ("unusable_value", _) if report.state == StateName::Backoff => {
            format!("run that program in a terminal, and fix what it reports; then {}", again(probe, &report.name))
        }
        _ if let Some(cause) = report.cause.filter(|cause| is_probable(probe, report, *cause)) => {
            of_cause(probe, report, cause)
        }
        _ if report.state == StateName::ListFailed => {
            let (name, again) = (&report.name, again(probe, &report.name));
            format!(
                "fix what it reports: {} may show more; mcpd requests the list again by itself, and {again} restarts it",
                probe.mcpd(&format!("logs {name}"))
            )
        }
        _ if let Some(remedy) = of_answer(code) => {
            format!("{remedy}; then {}", probe.after(Change::Configuration, &report.name))
        }
        (_, Some(remote)) => of_remote(probe, report, code, &remote.origin),
        (_, None) => of_program(probe, report, code, has_ended),
    }
}

/// What to do about a value that the environment of the daemon lacks.
fn of_value(probe: &DaemonProbe, report: &ServerReport) -> Option<String> {
    let name = &report.name;
    let set = match probe.servers.get(name)?.config.launch.as_ref().err()? {
        UnusableValue::Variable(variable) | UnusableValue::Empty(variable) => probe.set_variable(variable, name),
        UnusableValue::Home => probe.set_variable("HOME", name),
        UnusableValue::Credential(_) => {
            return Some(format!("add it to the unit; then {}", probe.after(Change::Program, name)));
        }
        _ => return None,
    };
    let (definition, reload) = (probe.definition(name), probe.after(Change::Configuration, name));
    Some(format!("{set}; or change {definition}, then {reload}"))
}

/// What to do about a server whose answer to the first request shows the error.
fn of_answer(code: &str) -> Option<&'static str> {
    match code {
        "unsupported_version" => Some("update the server or mcpd, until they have a version in common"),
        "initialize_error" => Some("fix what its error names"),
        "invalid_response" | "malformed_initialize" => Some("report it to the server's author"),
        _ => None,
    }
}

/// Whether the cause explains more than what the server itself reports on stderr.
fn is_probable(probe: &DaemonProbe, report: &ServerReport, cause: Cause) -> bool {
    let has_ended = matches!(report.code.as_deref(), Some("exited" | "signaled" | "ended"));
    match cause {
        // It has served, so a restart is the remedy.
        _ if report.code.as_deref() == Some("unanswered") => false,
        Cause::StdinUnread if is(probe, report, lacks_stdin) => true,
        Cause::SkippedLines if has_ended => report.stderr.is_empty(),
        Cause::StdinUnread | Cause::StreamClosed | Cause::LastMessage => report.stderr.is_empty(),
        _ => true,
    }
}

/// Whether this holds for the command and the arguments of the server.
pub(super) fn is(probe: &DaemonProbe, report: &ServerReport, condition: fn(&str, &[String]) -> bool) -> bool {
    probe.program(&report.name).is_some_and(|program| condition(&program.command, &program.args))
}

/// What to do about this cause.
pub(super) fn of_cause(probe: &DaemonProbe, report: &ServerReport, cause: Cause) -> String {
    let is = |condition| is(probe, report, condition);
    let definition = probe.definition(&report.name);
    let remedy = match (cause, &report.remote) {
        (Cause::HttpServer, _) => format!(
            "start it with its option for stdio in `args` in {definition}, or run it apart from mcpd and write its `url` there"
        ),
        (Cause::HeaderFraming, _) => format!(
            "if it is a language server, correct `command` and `args` in {definition}; else report it to the server's author"
        ),
        (Cause::UnusedIds, _) => {
            "report it to the server's author: an answer has to repeat the id of its request".to_owned()
        }
        (Cause::UnendedMessage, _) => {
            "report it to the server's author: a message has to end with a line feed, and to be flushed".to_owned()
        }
        (Cause::SkippedLines, Some(remote)) => remote_remedy("protocol_violation", &remote.origin),
        (Cause::SkippedLines, None) => format!(
            "correct `command` and `args` in {definition}, so that it serves MCP on stdio; if it writes its log to stdout, report it to the \
             server's author"
        ),
        (Cause::Question, _) if is(asks_before_install) => format!("{ANSWER} in {definition}"),
        (Cause::Question, _) => format!(
            "if it asks a question, add what answers it to `args` or `env` in {definition}, or run {} in a terminal and answer it",
            command_line_of(probe, report)
        ),
        (Cause::StdinUnread | Cause::StreamClosed, _) if is(lacks_stdin) => format!("{PASS_STDIN} in {definition}"),
        (Cause::StdinUnread | Cause::StreamClosed, _) => format!(
            "correct `command` and `args` in {definition}, so that the server runs in the foreground and uses the stdin and stdout of the command"
        ),
        (Cause::LastMessage, _) => "report it to the server's author, with the message that it ended over".to_owned(),
        (Cause::ContentCoding, _) => {
            "report it to its operator, or to that of its proxy: mcpd requests `Accept-Encoding: identity`".to_owned()
        }
    };
    format!("{remedy}; then {}", probe.after(Change::Configuration, &report.name))
}

fn of_program(probe: &DaemonProbe, report: &ServerReport, code: &str, has_ended: bool) -> String {
    let (name, again) = (&report.name, again(probe, &report.name));
    let (definition, reload) = (probe.definition(name), probe.after(Change::Configuration, name));
    match (code, report.state) {
        (_, StateName::Unresponsive) => format!("{again}; if it is only busy, raise its `health_timeout`"),
        ("command_not_found", _) => missing_command(probe, name, &again),
        ("command_line", _) => format!("move its arguments to `args` in {definition}; then {reload}"),
        ("no_working_directory", _) => {
            let shown =
                probe.program(name).and_then(|program| Some(program.secrets.masked(program.cwd.as_ref()?.to_str()?)));
            let create = match shown.filter(|directory| directory.starts_with('/')) {
                Some(directory) => format!("`mkdir -p {}`", shell_word(&directory)),
                None => "create that directory".to_owned(),
            };
            either(&create, &again, &format!("correct `cwd` in {definition}"), &reload)
        }
        ("linked_directory", _) => "have the agent state its directory without links".to_owned(),
        ("sandbox_unenforceable", _) => {
            format!("choose another `sandbox` in {definition}, or a newer kernel; then {reload}")
        }
        ("sandbox_path", _) => format!("correct `sandbox` or `cwd` in {definition}; then {reload}"),
        ("not_a_server", _) => format!("correct `command` and `args` in {definition}; then {reload}"),
        ("initialize_timeout", _) => {
            let raise = format!("if it needs more time, raise `handshake_timeout` in {definition}, then {reload}");
            format!("{}; {raise}", stderr_remedy(probe, report, &again))
        }
        (_, StateName::Failed) if !has_ended => format!("set what is missing, or change {definition}; then {reload}"),
        _ => stderr_remedy(probe, report, &again),
    }
}

/// What to do about a server whose stderr may explain the error.
fn stderr_remedy(probe: &DaemonProbe, report: &ServerReport, again: &str) -> String {
    if !report.stderr.is_empty() {
        return format!("fix what its last lines report; then {again}");
    }
    let command = command_line_of(probe, report);
    format!("it wrote nothing to stderr: run {command} in a terminal, and fix the error that it prints; then {again}")
}

fn command_line_of(probe: &DaemonProbe, report: &ServerReport) -> String {
    probe.program(&report.name).map_or_else(|| "its command".to_owned(), command_line)
}

/// What to do about a command that is not found. `again`: the command that makes mcpd try the server again.
pub(super) fn missing_command(probe: &DaemonProbe, name: &str, again: &str) -> String {
    let correct = format!("correct `command` in {}", probe.definition(name));
    either("install it", again, &correct, &probe.after(Change::Configuration, name))
}

/// The command line of a program for a shell, without likely secrets.
fn command_line(program: &Program) -> String {
    let words = [&program.command].into_iter().chain(&program.args);
    let words: Vec<_> = words.map(|word| shell_word(&program.secrets.masked(word)).to_string()).collect();
    format!("`{}`", without_secrets(&words).join(" "))
}

/// Two ways to solve a problem, each with the command that applies it.
fn either(first: &str, apply_first: &str, second: &str, apply_second: &str) -> String {
    match apply_first == apply_second {
        true => format!("{first}, or {second}; then {apply_first}"),
        false => format!("{first}, then {apply_first}; or {second}, then {apply_second}"),
    }
}

fn of_remote(probe: &DaemonProbe, report: &ServerReport, code: &str, origin: &str) -> String {
    let again = again(probe, &report.name);
    if report.state == StateName::Unresponsive {
        return format!("{again}; if it is only slow, raise its `health_timeout`");
    }
    let is_set = |name: &str| probe.sources.var(name).is_some_and(|value| !value.is_empty());
    let proxy = proxy_variable(origin, is_set);
    let proxy =
        proxy.map(|name| format!(" ({name} is set: requests use that proxy, unless NO_PROXY excludes the host)"));
    // mcpd tries it again by itself, and a reload applies a changed table.
    let change = if code == "proxy" { Change::Environment } else { Change::Configuration };
    let then = probe.after(change, &report.name);
    format!("{}{}; then {then}", remote_remedy(code, origin), proxy.unwrap_or_default())
}

/// What to do about a server at `origin` that is down with an error of this code.
pub(super) fn remote_remedy(code: &str, origin: &str) -> String {
    let remedy = match code {
        "proxy" => {
            "start that proxy, or correct or unset the environment variable that names it; `NO_PROXY` excludes hosts from it"
        }
        "certificate_self_signed" => {
            "its certificate is self-signed: save that certificate and name its PEM file as `ca_file`"
        }
        "certificate_unknown_issuer" => {
            "its certificate is signed by an unknown authority: name the PEM file of that authority as `ca_file`"
        }
        "certificate_wrong_name" => {
            "use the name in its certificate as `url`, or get a certificate for the present name"
        }
        "certificate_expired" => {
            "its certificate has expired: compare the clock here (`date`) with the right time; if it is right, its operator has to renew the certificate"
        }
        "certificate_not_yet_valid" => {
            "its certificate is not valid yet: compare the clock here (`date`) with the right time; if it is right, its operator has to replace the certificate"
        }
        "certificate_invalid" => "its operator has to repair its certificate",
        "no_certificate_authorities" => "install the certificates of the system's authorities (`ca-certificates`)",
        "ca_file" => "write the path of a PEM file with the authority's certificate as `ca_file`",
        "name_lookup" => "check the host of its `url`, and whether this machine can resolve names",
        "connection_refused" => "nothing listens there: start it, or write another port in its `url`",
        "network_unreachable" => "check whether this machine has a network that leads there",
        "http_unauthorized" | "http_forbidden" => "check the credentials in its `headers`",
        "http_not_found" | "http_method_not_allowed" => "correct the path of its `url`; many servers have `/mcp`",
        "not_tls" => "write `http://` in its `url`, if it serves plain HTTP, or its port for HTTPS",
        "redirect" => "write the origin that it redirects to in its `url`, if you trust it",
        "initialize_timeout" | "discover_timeout" | "start_timeout" => {
            return format!(
                "{}, and give the server more time with `handshake_timeout` if it needs it",
                check_connection(origin)
            );
        }
        "not_plain" => {
            return format!("{}; if it serves HTTPS, write `https://` in its `url`", check_connection(origin));
        }
        "unreachable" => return check_connection(origin),
        "session_ended" | "event_stream_closed" | "unanswered" => {
            return format!("{origin} is reached, and does not keep the connection: its operator's log may show why");
        }
        // The server itself has answered.
        _ => {
            return format!(
                "{origin} is reached, but does not answer as an MCP server: correct the path of its `url`, or report it to its operator"
            );
        }
    };
    remedy.to_owned()
}

/// The remedy where the code shows no more.
pub(super) fn check_connection(origin: &str) -> String {
    format!("check how this machine reaches {origin}")
}

/// The variable that sends requests to `origin` through a proxy, if one does. Ignores `NO_PROXY`.
fn proxy_variable(origin: &str, is_set: impl Fn(&str) -> bool) -> Option<&'static str> {
    let of_scheme =
        if origin.starts_with("https:") { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    of_scheme.into_iter().chain(["ALL_PROXY", "all_proxy"]).find(|name| is_set(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remedy_follows_from_the_code() {
        for (code, part) in [
            ("certificate_unknown_issuer", "`ca_file`"),
            ("certificate_self_signed", "is self-signed"),
            ("certificate_wrong_name", "as `url`"),
            ("certificate_expired", "renew the certificate"),
            ("certificate_not_yet_valid", "`date`"),
            ("certificate_invalid", "repair its certificate"),
            ("connection_refused", "start it"),
            ("name_lookup", "host of its `url`"),
            ("proxy", "start that proxy"),
            ("http_not_found", "correct the path"),
            ("http_unauthorized", "`headers`"),
            ("redirect", "in its `url`"),
            ("http_status", "https://example.org is reached"),
            ("unreachable", "reaches https://example.org"),
            ("unanswered", "https://example.org is reached"),
            ("initialize_timeout", "`handshake_timeout`"),
            ("not_tls", "write `http://`"),
            ("not_plain", "write `https://`"),
        ] {
            let remedy = remote_remedy(code, "https://example.org");
            assert!(remedy.contains(part), "{code}: {remedy}");
        }
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme_or_of_all() {
        let proxy = |origin, set: &[&str]| proxy_variable(origin, |name| set.contains(&name));
        assert_eq!(proxy("https://a", &["HTTP_PROXY", "ALL_PROXY"]), Some("ALL_PROXY"));
        assert_eq!(proxy("https://a", &["https_proxy"]), Some("https_proxy"));
        assert_eq!(proxy("http://a", &["HTTP_PROXY"]), Some("HTTP_PROXY"));
        assert_eq!(proxy("http://a", &["HTTPS_PROXY", "NO_PROXY"]), None);
    }
}
