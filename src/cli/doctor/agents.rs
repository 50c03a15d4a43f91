//! Other MCP clients on this machine: whether they connect to mcpd, and which servers they start themselves.

use std::io;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Group};
use super::probe::DaemonProbe;
use crate::admin::report::AgentReport;
use crate::config::Config;
use crate::config::import::{Foreign, ForeignServer, ImportChoices, Outcome, Plan, foreign};
use crate::config::interpolate::{Process, Sources};
use crate::known_clients::{CLIENTS, Client};
use crate::sockets::agent_socket;

/// Largest file that is read. Claude Code keeps its history in the same file as its servers.
const MAX_FILE: u64 = 32 << 20;
/// Servers or agents that a finding names.
const MAX_NAMED: usize = 5;

pub(super) fn check(probe: &DaemonProbe, config: Option<&Config>) -> Group {
    let mut findings: Vec<_> = CLIENTS.iter().flat_map(|client| check_client(client, probe, config)).collect();
    if findings.is_empty() {
        let titles: Vec<_> = CLIENTS.iter().map(|client| client.title).collect();
        findings.push(Finding::fine("clients", format!("none of {} is configured here", titles.join(", "))));
    }
    findings.extend(probe.report().map(|report| connected(&report.agents)));
    Group { title: "agents", findings }
}

/// The distinct names in order, the first few of them.
fn named(mut names: Vec<&str>) -> String {
    names.sort_unstable();
    names.dedup();
    let more = if names.len() > MAX_NAMED { ", …" } else { "" };
    names[..names.len().min(MAX_NAMED)].join(", ") + more
}

/// The agents that are connected now.
fn connected(agents: &[AgentReport]) -> Finding {
    let names = named(agents.iter().filter_map(|agent| agent.client.as_deref()).collect());
    let plural = if agents.len() == 1 { "agent is" } else { "agents are" };
    let found = format!("{} {plural} connected{}{names}", agents.len(), if names.is_empty() { "" } else { ": " });
    let dropped: u64 = agents.iter().map(|agent| agent.dropped_notifications).sum();
    if dropped == 0 {
        return Finding::fine("connected", found);
    }
    let advice = "`mcpd status --json` names the agent (`dropped_notifications` above 0): report to its author that it has to read notifications while it waits for a response";
    Finding::warning("connected", format!("{found}; {dropped} notifications were not read in time"), advice)
}

fn check_client(client: &Client, probe: &DaemonProbe, config: Option<&Config>) -> Vec<Finding> {
    let files = client.files(&Process).into_iter().filter_map(|path| read(&path).map(|read| (path, read)));
    let (mut findings, mut others, mut entries) = (Vec::new(), Vec::new(), 0);
    for (path, read) in files {
        let read = match read {
            Ok(read) => read,
            Err(error) => {
                let found = format!("{} cannot be read: {error}", path.display());
                findings.push(Finding::warning(client.title, found, "make it a UTF-8 file that this user can read"));
                continue;
            }
        };
        if !read.errors.is_empty() {
            let advice = format!("`mcpd import {} --dry-run` shows where", client.word);
            findings.push(Finding::warning(client.title, format!("{} has errors", path.display()), advice));
        }
        entries += read.pointers.len();
        findings.extend(read.pointers.iter().map(|words| Entry::of(words).finding(client, &path, probe)));
        // `mcpd import` leaves out private servers.
        let servers = read.servers.iter().map(|server| (server, known(server, config)));
        let servers = servers.filter(|(server, known)| known.is_some() || !server.is_private);
        others.extend(servers.map(|(_, known)| (path.clone(), known)));
    }
    let point = probe.mcpd(&format!("connect --print {}", client.word));
    findings.extend(own_copies(client, &others, entries > 0, &point));
    findings
}

/// Reads a client's file. Returns `None` if it does not exist or has no servers.
fn read(path: &Path) -> Option<io::Result<Foreign>> {
    match Process.read(path, MAX_FILE) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => None,
        Err(error) => Some(Err(error)),
        Ok(text) => {
            let read = foreign(path, &text, &Process);
            (read.is_about_servers || !read.errors.is_empty()).then_some(Ok(read))
        }
    }
}

/// The name of mcpd's server with the same command or URL.
fn known(server: &ForeignServer, config: Option<&Config>) -> Option<String> {
    let mut plan = Plan::new("", &config?.servers, Path::new("/"), &Process);
    if let Outcome::Known(name) = plan.add(server, ImportChoices::default()) { Some(name) } else { None }
}

/// Servers that the client starts itself, one copy for each of its agents. `servers`: the client's file, and the name of mcpd's
/// server that is the same. `point`: the command that prints the entry for mcpd.
fn own_copies(
    client: &Client,
    servers: &[(PathBuf, Option<String>)],
    is_pointed_here: bool,
    point: &str,
) -> Option<Finding> {
    let twice: Vec<_> = servers.iter().filter_map(|(path, known)| Some((path, known.as_deref()?))).collect();
    let Some((path, _)) = twice.first() else {
        let count = servers.len();
        return (!is_pointed_here && count > 0).then(|| {
            let plural = if count == 1 { "server" } else { "servers" };
            let found = format!("starts {count} {plural} by itself; `mcpd import {}` imports them", client.word);
            Finding::fine(client.title, format!("{found}, and {point} prints the entry that connects it to mcpd"))
        });
    };
    let names = named(twice.iter().map(|(_, name)| *name).collect());
    let found = format!("starts its own copy of servers that mcpd has: {names}");
    let advice = match is_pointed_here {
        true => format!("remove them from {}", path.display()),
        false => format!("replace them in {} by the entry that {point} prints", path.display()),
    };
    Some(Finding::warning(client.title, found, advice))
}

/// A client's entry that runs `mcpd connect`.
struct Entry<'a> {
    command: &'a str,
    directory: Option<&'a str>,
    profile: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// Parses the command and its arguments.
    fn of(words: &'a [String]) -> Self {
        let option = |name: &str| {
            words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(name)? {
                "" => words.get(at + 1).map(String::as_str),
                joined => joined.strip_prefix('='),
            })
        };
        let command = words.first().map_or("", String::as_str);
        Self { command, directory: option("--runtime-dir"), profile: option("--profile") }
    }

    fn finding(&self, client: &Client, path: &Path, probe: &DaemonProbe) -> Finding {
        let Self { command, directory, profile } = self;
        let (title, file) = (client.title, path.display());
        let print = probe.mcpd(&format!("connect --print {}", client.word));
        let again = format!("replace the entry by the one that {print} prints");
        let search = Process.var("PATH").unwrap_or_default();
        let is_there = match command.contains('/') {
            true => Process.is_program(Path::new(command)),
            false => Process.on_path(command, &search).is_some(),
        };
        if !is_there {
            return Finding::problem(title, format!("runs `{command}`, which does not exist ({file})"), again);
        }
        let ours = probe.directory.as_ref();
        if let Some(directory) = directory
            && ours.is_some_and(|ours| std::path::absolute(ours.path()).is_ok_and(|ours| ours != Path::new(directory)))
        {
            return Finding::warning(
                title,
                format!("connects to a daemon in {directory}, not to this one ({file})"),
                again,
            );
        }
        if let (Some(profile), Some(report)) = (profile, probe.report())
            && !report.profiles.iter().any(|known| known.name == *profile)
        {
            let found = format!("uses the profile `{profile}`, which the daemon does not have ({file})");
            let advice = format!("add [profiles.{profile}] for {}; or {again}", agent_socket(profile));
            return Finding::problem(title, found, advice);
        }
        Finding::fine(title, format!("connects to mcpd by `{command}` ({file})"))
    }
}
