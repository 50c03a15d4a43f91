//! Denials of a sandbox that a server reports on stderr. Pure.

use super::finding::Finding;
use super::probe::DaemonProbe;
use crate::admin::report::ServerReport;
use crate::config::SandboxLevel;

/// What programs write if the system refuses access to a file (EACCES).
const REFUSALS: [&str; 3] = ["EACCES", "Permission denied", "permission denied"];

/// The path that the sandbox of a server has refused most recently, as far as its stderr tells.
pub(super) fn finding(probe: &DaemonProbe, report: &ServerReport) -> Option<Finding> {
    let sandbox = report.sandbox.as_ref().filter(|sandbox| sandbox.level == SandboxLevel::Files)?;
    let path = report.stderr.iter().rev().find_map(|line| refused_path(line))?;
    let found = format!("its sandbox, at level `{}`, may have refused `{path}`", sandbox.level.name());
    let definition = probe.definition(&report.name);
    let advice =
        format!("add the path to `read` or `write` of `sandbox` in {definition}; then {}", probe.mcpd("reload"));
    Some(Finding::warning(&*report.name, found, advice))
}

/// The absolute path in a line about a refusal.
fn refused_path(line: &str) -> Option<&str> {
    if !REFUSALS.iter().any(|refusal| line.contains(refusal)) {
        return None;
    }
    let is_start = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(|c| " '\"`(=:".contains(c));
    let (start, _) = line.match_indices('/').find(is_start)?;
    let path = &line[start..];
    let end = path.find(['\'', '"', '`', ' ', ',', ':', ')']).unwrap_or(path.len());
    Some(&path[..end]).filter(|path| path.len() > 1)
}

#[cfg(test)]
mod tests {
    use super::refused_path;

    #[test]
    fn refused_path_is_found_in_the_messages_of_common_runtimes() {
        for (line, path) in [
            ("Error: EACCES: permission denied, open '/home/u/notes/a.md'", Some("/home/u/notes/a.md")),
            ("PermissionError: [Errno 13] Permission denied: '/srv/data'", Some("/srv/data")),
            ("cat: /home/u/x: Permission denied", Some("/home/u/x")),
            ("bash: line 1: /opt/tool/run: Permission denied", Some("/opt/tool/run")),
            ("Error: ENOENT: no such file or directory, open '/home/u/notes'", None),
            ("permission denied", None),
            ("EACCES and/or something else", None),
        ] {
            assert_eq!(refused_path(line), path, "{line}");
        }
    }
}
