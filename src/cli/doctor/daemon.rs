//! Whether a daemon runs and answers, and whether it is the one that is meant.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;
use std::time::Duration;

use rustix::process::geteuid;
use tokio::time::timeout;

use super::finding::{Finding, Group};
use super::probe::{ANSWER, Daemon, DaemonProbe};
use super::process::{Files, Seen};
use crate::admin;
use crate::admin::report::{ReloadRefused, Report};
use crate::autostart;
use crate::cli::local_time::{self, TimeFormat};
use crate::cli::{changed_files, stop};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};

/// Files that a daemon should be able to have open: each agent is one, each server five.
const FEW_FILES: usize = 1024;
/// Bytes that are read of the end of a log, and lines that are shown of it.
const END: u64 = 4 << 10;
const LINES: usize = 3;

pub(super) async fn check(probe: &DaemonProbe, elsewhere: Option<&RuntimeDir>) -> Group {
    let findings = match &probe.daemon {
        Daemon::Absent => vec![absent(probe, elsewhere)],
        Daemon::Silent { process, reason } => vec![silent(process.as_ref(), reason, probe)],
        Daemon::Answers { process, report } => {
            let mut findings = vec![version(report, process.as_ref(), probe)];
            findings.extend(process.as_ref().and_then(|process| upgraded(process, probe)));
            findings.extend(report.reload_refused.as_ref().map(|refused| reload(refused, probe)));
            findings.extend(process.as_ref().and_then(|process| files(process.files?)));
            findings.extend(log(probe).await);
            findings.extend(elsewhere.map(second));
            findings
        }
    };
    Group { title: "daemon", findings }
}

/// Another directory in which a daemon of this user serves: what `su`, `cron` and `ssh` without a session lead to.
pub(super) fn elsewhere(probe: &DaemonProbe) -> Option<RuntimeDir> {
    probe.directory.as_ref()?.others_served(|name| std::env::var_os(name)).into_iter().next()
}

/// Beside the daemon that answers.
fn second(elsewhere: &RuntimeDir) -> Finding {
    let path = elsewhere.path().display();
    let stop = format!("`{}`", stop::command(&path.to_string()));
    Finding::problem("second daemon", format!("another one of yours serves in {path}, with servers of its own"), stop)
}

fn absent(probe: &DaemonProbe, elsewhere: Option<&RuntimeDir>) -> Finding {
    let Some(elsewhere) = elsewhere else {
        return match probe.is_told_where() {
            true => Finding::warning("daemon", "none runs", format!("start one: {}", probe.start())),
            false => before(),
        };
    };
    let path = elsewhere.path().display();
    let looked_in =
        probe.directory.as_ref().map_or_else(String::new, |directory| directory.path().display().to_string());
    let advice = match elsewhere.path().strip_prefix("/run/user") {
        Ok(_) => format!("`export XDG_RUNTIME_DIR=/run/user/{}`", geteuid().as_raw()),
        Err(_) => format!(
            "`{}` stops that daemon, then `mcpd start` starts one with this runtime directory",
            stop::command(&path.to_string())
        ),
    };
    Finding::problem("daemon", format!("one runs in {path}, and from here it is looked for in {looked_in}"), advice)
}

/// There is none where `mcpd connect` starts one; the last that it has started may tell why it is gone.
fn before() -> Finding {
    let found = "none runs; `mcpd connect` starts one where an agent needs it";
    let Some(log) = autostart::log_path(|name| std::env::var_os(name)) else { return Finding::fine("daemon", found) };
    let last = last_lines(&log).unwrap_or_default();
    match last.last() {
        Some(line) if !line.contains("stopped") => {
            let found = format!("{found}; the last that it has started did not end in order");
            let advice = format!("{} has its log; `mcpd serve` in a terminal shows whether it starts", log.display());
            Finding::warning("daemon", found, advice).with_lines(last)
        }
        _ => Finding::fine("daemon", found),
    }
}

/// The last lines of a file.
fn last_lines(path: &Path) -> io::Result<Vec<String>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(END)))?;
    let mut end = Vec::new();
    file.take(END).read_to_end(&mut end)?;
    let text = String::from_utf8_lossy(&end).into_owned();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    Ok(lines[lines.len().saturating_sub(LINES)..].to_vec())
}

fn silent(process: Option<&Seen>, reason: &str, probe: &DaemonProbe) -> Finding {
    let Some(process) = process else {
        return Finding::problem("daemon", format!("does not answer: {reason}"), "run mcpd as the user whose it is");
    };
    let pid = process.pid;
    match process.state {
        Some('T' | 't') => Finding::problem(
            "daemon",
            format!("process {pid} is stopped, and does not answer"),
            format!("`kill -CONT {pid}` has it go on; or {}", probe.restart()),
        ),
        _ => {
            let how = format!("{}, which ends its servers too, then {}", probe.mcpd("stop --force"), probe.start());
            Finding::problem("daemon", format!("process {pid} does not answer: {reason}"), how)
        }
    }
}

fn version(report: &Report, process: Option<&Seen>, probe: &DaemonProbe) -> Finding {
    let up = crate::duration::format(Duration::from_secs(report.uptime_ms / 1000));
    let unit = process.and_then(|process| process.unit.as_deref());
    let by = unit.map_or_else(|| "not started by systemd".to_owned(), |unit| format!("in {unit}"));
    let found = format!("version {}, process {}, up {up}, {by}", report.version, report.pid);
    if report.version == env!("CARGO_PKG_VERSION") {
        return Finding::fine("daemon", found);
    }
    Finding::warning("daemon", format!("{found}; this program is another version"), probe.restart())
}

fn upgraded(process: &Seen, probe: &DaemonProbe) -> Option<Finding> {
    let executable = process.executable.as_ref().filter(|executable| executable.is_deleted)?;
    let found = format!("{} was replaced since the daemon was started", executable.path.display());
    Some(Finding::warning("executable", found, probe.restart()))
}

fn reload(ReloadRefused { time, reason, files_changed, .. }: &ReloadRefused, probe: &DaemonProbe) -> Finding {
    let time = local_time::format(time, TimeFormat::Sentence);
    if let Some(changed) = changed_files::sentence(files_changed) {
        let found = format!("was refused at {time}, and mcpd uses the previous one; {changed} since then");
        return Finding::warning("configuration", found, probe.mcpd("reload"));
    }
    let advice = format!("fix it until `mcpd check` reports no error; then {}", probe.mcpd("reload"));
    let found = format!("was refused at {time}, and mcpd uses the previous one");
    Finding::warning("configuration", found, advice).with_lines(reason.lines().map(str::to_owned))
}

fn files(Files { open, most }: Files) -> Option<Finding> {
    let found = format!("{open} are open, and {most} may be");
    let advice = "`LimitNOFILE=65536` in its unit, or `ulimit -Hn 65536` before `mcpd serve`; then restart it";
    let is_full = open.saturating_mul(10) > most.saturating_mul(8);
    match (most < FEW_FILES, is_full) {
        (_, true) => Some(Finding::problem("open files", format!("{found}: agents will be refused"), advice)),
        (true, false) => Some(Finding::warning("open files", found, advice)),
        (false, false) => None,
    }
}

async fn log(probe: &DaemonProbe) -> Option<Finding> {
    let path = probe.directory.as_ref()?.socket(ADMIN_SOCKET);
    let filter = timeout(ANSWER, admin::log_level(&path, None)).await.ok()?.ok()?;
    let is_loud = filter.contains("debug") || filter.contains("trace");
    is_loud.then(|| {
        Finding::warning(
            "log",
            format!("is at `{filter}`, a line and more for each call"),
            probe.mcpd("log-level info"),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_told_of_when_they_run_out() {
        let check = |open, most, expected: &str| {
            let found = files(Files { open, most });
            assert_eq!(found.map_or("ok", |finding| finding.verdict.word()), expected, "{open} of {most}");
        };
        check(10, 1 << 20, "ok");
        check(10, usize::MAX, "ok");
        check(10, 512, "warning");
        check(900, 1024, "problem");
    }
}
