//! Whether a daemon runs, answers, and is the expected one.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::time::timeout;

use super::finding::{Finding, Group};
use super::probe::{ANSWER_TIMEOUT, Daemon, DaemonProbe, OpenFiles, ProcessInfo};
use super::unit::{controllers, unit_setting};
use crate::admin::report::{RejectedConfigReport, Report};
use crate::cli::daemon_report::{changed_sentence, replacement};
use crate::cli::stop;
use crate::cli::text::{TimeFormat, local_time};
use crate::config::interpolate::Process;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::{admin, autostart};

/// Open files that a daemon needs to be allowed: one for each agent, five for each server.
const MIN_FILE_LIMIT: usize = 1024;
/// Bytes read from the end of a log.
const LOG_TAIL: u64 = 4 << 10;
/// Log lines shown.
const LOG_LINES: usize = 3;

pub(super) async fn check(probe: &DaemonProbe, elsewhere: Option<&RuntimeDir>) -> Group {
    let findings = match &probe.daemon {
        Daemon::Absent => vec![absent(probe, elsewhere)],
        Daemon::Silent { process, reason } => vec![unanswering(process.as_ref(), reason, probe)],
        Daemon::Answers { process, report } => {
            let mut findings = vec![version(report, process.as_ref(), probe)];
            findings.extend(replaced_program(report, process.as_ref(), probe));
            findings.extend(report.reload_refused.as_ref().map(|refused| refused_reload(refused, probe)));
            findings.extend(
                process.as_ref().and_then(|process| open_files(process.files?, &open_files_advice(process, probe))),
            );
            findings.extend(controllers(probe));
            findings.extend(verbose_log(probe).await);
            findings.extend(elsewhere.map(second_daemon));
            findings
        }
    };
    Group { title: "daemon", findings }
}

/// Another runtime directory with a daemon of this user, as `su`, `cron` or `ssh` without a session may create.
pub(super) fn elsewhere(probe: &DaemonProbe) -> Option<RuntimeDir> {
    probe.directory.as_ref()?.others_served(|name| std::env::var_os(name)).into_iter().next()
}

fn second_daemon(elsewhere: &RuntimeDir) -> Finding {
    let path = elsewhere.path().display();
    let stop = format!("`{}`", stop::command(&path.to_string()));
    Finding::problem("second daemon", format!("another daemon of yours runs in {path}, with its own servers"), stop)
}

fn absent(probe: &DaemonProbe, elsewhere: Option<&RuntimeDir>) -> Finding {
    let Some(elsewhere) = elsewhere else {
        return match probe.has_explicit_directory() {
            true => Finding::warning("daemon", "none runs", format!("start one: {}", probe.start())),
            false => last_daemon(),
        };
    };
    let path = elsewhere.path().display();
    let expected =
        probe.directory.as_ref().map_or_else(String::new, |directory| directory.path().display().to_string());
    let advice = match elsewhere.path().strip_prefix("/run/user") {
        Ok(_) => format!("`export XDG_RUNTIME_DIR=/run/user/{}`", geteuid().as_raw()),
        Err(_) => format!(
            "`{}` stops that daemon, then `mcpd start` starts one with this runtime directory",
            stop::command(&path.to_string())
        ),
    };
    Finding::problem("daemon", format!("one runs in {path}, but commands in this shell use {expected}"), advice)
}

/// No daemon runs where `mcpd connect` would start one. The log of the last one may have the reason.
fn last_daemon() -> Finding {
    let found = "none runs; `mcpd connect` starts one when an agent needs it";
    let Some(log) = autostart::log_path(&Process) else { return Finding::fine("daemon", found) };
    let last = last_lines(&log).unwrap_or_default();
    match last.last() {
        Some(line) if !line.contains("stopped") => {
            let found =
                format!("{found}; the last one crashed or was killed, because its log does not end with `stopped`");
            let advice = format!("its last lines are above; the whole log is {}", log.display());
            Finding::warning("daemon", found, advice).with_lines(last)
        }
        _ => Finding::fine("daemon", found),
    }
}

fn last_lines(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(LOG_TAIL)))?;
    let mut end = Vec::new();
    file.take(LOG_TAIL).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end).into_owned();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    Ok(lines[lines.len().saturating_sub(LOG_LINES)..].to_vec())
}

fn unanswering(process: Option<&ProcessInfo>, reason: &str, probe: &DaemonProbe) -> Finding {
    let Some(process) = process else {
        let found =
            format!("does not answer: {reason}; its process is not visible, perhaps because it is another user's");
        let advice = format!("{}, then {}, as the user who started it", probe.mcpd("stop --force"), probe.start());
        return Finding::problem("daemon", found, advice);
    };
    let pid = process.pid;
    match process.state {
        Some('T' | 't') => Finding::problem(
            "daemon",
            format!("process {pid} is suspended (SIGSTOP or Ctrl-Z), and does not answer"),
            format!("`kill -CONT {pid}` continues it; or {}", probe.restart()),
        ),
        _ => {
            let how = format!("{}, which also ends its servers, then {}", probe.mcpd("stop --force"), probe.start());
            Finding::problem("daemon", format!("process {pid} does not answer: {reason}"), how)
        }
    }
}

fn version(report: &Report, process: Option<&ProcessInfo>, probe: &DaemonProbe) -> Finding {
    let up = crate::duration::format(Duration::from_secs(report.uptime_ms / 1000));
    let unit = process.and_then(|process| process.unit.as_deref());
    let by = unit.map_or_else(|| "not started by systemd".to_owned(), |unit| format!("in {unit}"));
    let found = format!("version {}, process {}, up {up}, {by}", report.version, report.pid);
    if report.version == env!("CARGO_PKG_VERSION") {
        return Finding::fine("daemon", found);
    }
    Finding::warning("daemon", format!("{found}; this program is another version"), probe.restart())
}

fn replaced_program(report: &Report, process: Option<&ProcessInfo>, probe: &DaemonProbe) -> Option<Finding> {
    if let Some(replacement) = replacement(report) {
        return Some(Finding::warning("executable", replacement, probe.mcpd("restart")));
    }
    let executable = process?.executable.as_ref().filter(|executable| executable.is_deleted)?;
    let found = format!("{} was replaced since the daemon was started", executable.path.display());
    Some(Finding::warning("executable", found, probe.restart()))
}

fn refused_reload(
    RejectedConfigReport { time, reason, files_changed, .. }: &RejectedConfigReport,
    probe: &DaemonProbe,
) -> Finding {
    let time = local_time(time, TimeFormat::Sentence);
    if let Some(changed) = changed_sentence(files_changed) {
        let found = format!("was refused at {time}, and mcpd uses the previous one; {changed} since then");
        return Finding::warning("configuration", found, probe.mcpd("reload"));
    }
    let advice = format!("fix it until {} reports no error; then {}", probe.check(), probe.mcpd("reload"));
    let found = format!("was refused at {time}, and mcpd uses the previous one");
    Finding::warning("configuration", found, advice).with_lines(reason.lines().map(str::to_owned))
}

/// How to raise the limit. The daemon has raised its soft limit to the hard one, which only root or systemd raises.
fn open_files_advice(process: &ProcessInfo, probe: &DaemonProbe) -> String {
    match &process.unit {
        Some(unit) => format!("{}, then {}", unit_setting(unit, "LimitNOFILE=65536"), probe.restart()),
        None => format!("let root raise `nofile` in /etc/security/limits.conf; log in again, then {}", probe.restart()),
    }
}

fn open_files(OpenFiles { count, limit }: OpenFiles, advice: &str) -> Option<Finding> {
    let found = format!("{count} are open, and the limit is {limit}");
    let is_full = count.saturating_mul(10) > limit.saturating_mul(8);
    match (limit < MIN_FILE_LIMIT, is_full) {
        (_, true) => Some(Finding::problem("open files", format!("{found}: agents will be refused"), advice)),
        (true, false) => Some(Finding::warning("open files", found, advice)),
        (false, false) => None,
    }
}

async fn verbose_log(probe: &DaemonProbe) -> Option<Finding> {
    let path = probe.directory.as_ref()?.socket(ADMIN_SOCKET);
    let filter = timeout(ANSWER_TIMEOUT, admin::log_level(&path, None)).await.ok()?.ok()?;
    let is_verbose = filter.contains("debug") || filter.contains("trace");
    is_verbose.then(|| {
        Finding::warning(
            "log",
            format!("is at `{filter}`, which writes one or more lines for each call"),
            probe.mcpd("reload --log-level info"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_files_near_the_limit_are_reported() {
        let check = |count, limit, expected: &str| {
            let found = open_files(OpenFiles { count, limit }, "raise it");
            assert_eq!(found.map_or("ok", |finding| finding.verdict.word()), expected, "{count} of {limit}");
        };
        check(10, 1 << 20, "ok");
        check(10, usize::MAX, "ok");
        check(10, 512, "warning");
        check(900, 1024, "problem");
    }
}
