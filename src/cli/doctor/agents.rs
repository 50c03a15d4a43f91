//! Other MCP clients on this machine: whether they connect to mcpd, and which servers they start themselves.

use std::io;
use std::path::{Path, PathBuf};

use super::finding::{Finding, Group};
use super::probe::DaemonProbe;
use crate::admin::report::AgentReport;
use crate::cli::agent::{ProfileError, choose_by_directory};
use crate::config;
use crate::config::clients::project_of;
use crate::config::import::{Foreign, Pointer, foreign, known};
use crate::config::interpolate::{Process, Sources};
use crate::config::{Config, Profile};
use crate::known_clients::{CLIENTS, Client, MAX_FILE};
use crate::links::{LinkRecord, Links};
use crate::sockets::{DirectoryChoice, DirectoryError, ProfileDirectories, RuntimeDir, agent_socket};

/// Servers or agents that a finding names.
const MAX_NAMED: usize = 5;

pub(super) fn check(probe: &DaemonProbe, config: Option<&Config>) -> Group {
    // Whoever asks about links sees an unreadable record.
    let (links, _) = Links::of(&Process).and_then(|links| links.all()).unwrap_or_default();
    let mut findings: Vec<_> = CLIENTS.iter().flat_map(|client| check_client(client, probe, config, &links)).collect();
    if findings.is_empty() {
        let titles: Vec<_> = CLIENTS.iter().map(|client| client.title).collect();
        findings.push(Finding::fine("clients", format!("none of {} is configured here", titles.join(", "))));
    }
    findings.extend(probe.report().map(|report| connected(&report.agents)));
    findings.extend(profile(probe, config));
    Group { title: "agents", findings }
}

/// The profile of agents in the working directory, if profiles have directories: those of the daemon, else of the configuration.
fn profile(probe: &DaemonProbe, config: Option<&Config>) -> Option<Finding> {
    let directories = match (probe.report(), config) {
        (Some(report), _) => ProfileDirectories::new(report.profiles.iter().map(|one| (&*one.name, &*one.directories))),
        (None, config) => ProfileDirectories::new(config?.profiles.iter().map(|one| (&*one.name, &*one.directories))),
    };
    if directories.is_empty() {
        return None;
    }
    let default = Profile::DEFAULT;
    Some(match choose_by_directory(&directories) {
        Ok(Some(DirectoryChoice { profile, directory })) => Finding::fine(
            "profile",
            format!("`{profile}` for agents in this directory: its `directories` contain {}", directory.display()),
        ),
        Ok(None) => Finding::fine(
            "profile",
            format!("`{default}` for agents in this directory: no profile has it in its `directories`"),
        ),
        Err(error) => {
            let advice = match error {
                ProfileError::Directory(DirectoryError::Ambiguous { .. }) => "leave the directory to one profile",
                _ => "let this user enter the directory, or remove it from `directories`",
            };
            Finding::problem("profile", error.to_string(), advice)
        }
    })
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

fn check_client(client: &Client, probe: &DaemonProbe, config: Option<&Config>, links: &[LinkRecord]) -> Vec<Finding> {
    let files = client.files(&Process).into_iter().filter_map(|path| read(&path).map(|read| (path, read)));
    let (mut findings, mut others, mut entries) = (Vec::new(), Vec::new(), 0);
    let secrets = config::default_path(&Process).unwrap_or_default().with_file_name("secrets");
    let known = |server: &_| known(server, config.into_iter().flat_map(|config| &config.servers), &secrets, &Process);
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
        findings.extend(read.pointers.iter().map(|pointer| Entry::of(pointer).finding(client, &path, probe, config)));
        // `mcpd import` leaves out private servers.
        let servers = read.servers.iter().map(|server| (server, known(server)));
        let servers = servers.filter(|(server, known)| known.is_some() || !server.is_private);
        others.extend(servers.map(|(_, known)| (path.clone(), known)));
    }
    // An entry with a URL does not show where it leads. Its record does.
    let is_by_url = |link: &&LinkRecord| entries == 0 && link.client == client.word && !link.names().is_empty();
    let by_url: Vec<_> = links.iter().filter(is_by_url).collect();
    entries += by_url.len();
    findings.extend(by_url.into_iter().map(|link| linked_by_url(client, link, probe, config)));
    findings.extend(own_copies(client, &others, entries > 0, probe));
    findings
}

/// A client that `mcpd link --http` has linked.
fn linked_by_url(client: &Client, link: &LinkRecord, probe: &DaemonProbe, config: Option<&Config>) -> Finding {
    let (profile, file) = (&*link.served.profile, link.file.display());
    if has_profile(profile, probe, config) {
        return Finding::fine(client.title, format!("connects to mcpd by a URL ({file})"));
    }
    Finding::problem(
        client.title,
        format!("uses the profile `{profile}`, which the daemon does not have ({file})"),
        format!("{} links it again, {} undoes the link", link_command(client, probe, ""), unlink_command(client)),
    )
}

/// Whether the daemon has the profile, or will have it.
fn has_profile(profile: &str, probe: &DaemonProbe, config: Option<&Config>) -> bool {
    match (probe.report(), config) {
        (Some(report), _) => report.profiles.iter().any(|known| known.name == profile),
        (None, Some(config)) => config.profiles.iter().any(|known| *known.name == *profile),
        (None, None) => true,
    }
}

fn link_command(client: &Client, probe: &DaemonProbe, options: &str) -> String {
    probe.mcpd(&format!("link {}{options}", client.word))
}

fn unlink_command(client: &Client) -> String {
    format!("`mcpd unlink {}`", client.word)
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

/// Servers that the client starts itself, one copy for each of its agents. `servers`: the client's file, and the name of mcpd's
/// server that is the same.
fn own_copies(
    client: &Client,
    servers: &[(PathBuf, Option<String>)],
    is_linked: bool,
    probe: &DaemonProbe,
) -> Option<Finding> {
    let twice: Vec<_> = servers.iter().filter_map(|(path, known)| Some((path, known.as_deref()?))).collect();
    let Some((path, _)) = twice.first() else {
        let count = servers.len();
        return (!is_linked && count > 0).then(|| {
            let plural = if count == 1 { "server" } else { "servers" };
            let link = link_command(client, probe, " --take-over");
            let found = format!("starts {count} {plural} by itself; `mcpd import {}` imports them", client.word);
            Finding::fine(client.title, format!("{found}, and {link} connects it to mcpd instead"))
        });
    };
    let names = named(twice.iter().map(|(_, name)| *name).collect());
    let found = format!("starts its own copy of servers that mcpd has: {names} ({})", path.display());
    let project = if project_of(path, &Process).is_some() { " --project" } else { "" };
    let link = link_command(client, probe, &format!(" --take-over{project}"));
    let advice = match is_linked {
        true => format!("{link} removes them there"),
        false => format!("{link} replaces them by an entry for mcpd"),
    };
    Some(Finding::warning(client.title, found, advice))
}

/// A client's entry that runs `mcpd connect`.
struct Entry<'a> {
    name: &'a str,
    command: &'a str,
    directory: Option<&'a str>,
    profile: Option<&'a str>,
}

impl<'a> Entry<'a> {
    /// Parses the command and its arguments.
    fn of(pointer: &'a Pointer) -> Self {
        let words = &pointer.words;
        let option = |name: &str| {
            words.iter().enumerate().find_map(|(at, word)| match word.strip_prefix(name)? {
                "" => words.get(at + 1).map(String::as_str),
                joined => joined.strip_prefix('='),
            })
        };
        let command = words.first().map_or("", String::as_str);
        Self { name: &pointer.name, command, directory: option("--runtime-dir"), profile: option("--profile") }
    }

    fn finding(&self, client: &Client, path: &Path, probe: &DaemonProbe, config: Option<&Config>) -> Finding {
        let Self { name, command, directory, profile } = *self;
        let (title, file) = (client.title, path.display());
        let project = if project_of(path, &Process).is_some() { " --project" } else { "" };
        let (link, unlink) = (link_command(client, probe, project), unlink_command(client));
        // `link` replaces the entry of its own name only.
        let again = match name {
            "mcpd" => format!("{link} replaces the entry, {unlink} removes it"),
            _ => format!("{unlink} removes the entry; then {link} writes a new one"),
        };
        let search = Process.var("PATH").unwrap_or_default();
        let is_there = match command.contains('/') {
            true => Process.is_program(Path::new(command)),
            false => Process.on_path(command, &search).is_some(),
        };
        if !is_there {
            return Finding::problem(title, format!("runs `{command}`, which does not exist ({file})"), again);
        }
        if let Some(directory) = directory {
            let is_served = RuntimeDir::resolve(Some(PathBuf::from(directory)), |_: &str| None)
                .is_ok_and(|directory| directory.is_served());
            let is_ours = probe
                .directory
                .as_ref()
                .is_some_and(|ours| std::path::absolute(ours.path()).is_ok_and(|ours| ours == Path::new(directory)));
            if !is_served {
                let found = format!("connects to {directory}, where no daemon runs, and it starts none there ({file})");
                return Finding::problem(title, found, again);
            }
            if !is_ours && probe.directory.is_some() {
                let found = format!("connects to a daemon in {directory}, not to this one ({file})");
                return Finding::warning(title, found, again);
            }
        }
        if let Some(profile) = profile.filter(|profile| !has_profile(profile, probe, config)) {
            let found = format!("uses the profile `{profile}`, which the daemon does not have ({file})");
            let advice = format!("add [profiles.{profile}] for {}; or {again}", agent_socket(profile));
            return Finding::problem(title, found, advice);
        }
        Finding::fine(title, format!("connects to mcpd by `{command}` ({file})"))
    }
}
