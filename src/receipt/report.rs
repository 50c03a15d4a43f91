//! The receipt: what a server that was tried has touched and offers, as `mcpd try --json` prints it. Pure.

use std::path::Path;
use std::time::Duration;

use serde::Serialize;
use serde_json::Value;
use serde_with::skip_serializing_none;

use super::observed::{Attempt, Endpoint, Observed, Reach};
use super::touched::{self, Touched};
pub(crate) use super::warnings::Claim;
use super::warnings::DefinitionWarnings;
use crate::catalog::tokens_of;
use crate::config::interpolate::Sources;
use crate::era::Era;
use crate::list_kind::ListKind;
use crate::manager::report::{MalformedItem, millis};
use crate::printable::beginning;
use crate::trial::Trial;

/// The most groups of files of one kind, and names in a group.
const MAX_GROUPS: usize = 6;
const MAX_INSTALLATIONS: usize = 3;
const MAX_NAMES: usize = 6;
/// The most hosts, connections and programs.
const MAX_LINES: usize = 200;
/// The most characters of the text of a result.
const MAX_TEXT: usize = 20_000;

/// What a server that was tried has touched and offers.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Receipt {
    /// The command line or the URL, without what looks like a secret.
    pub(crate) command: Vec<String>,
    /// The package that ran, if it is known.
    pub(crate) package: Option<PackageReport>,
    /// Why the server did not get ready, or ended before the trial did. Absent if it did not fail.
    pub(crate) failure: Option<String>,
    /// The last lines that it has written to stderr, if it failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) stderr: Vec<String>,
    /// Whether it had namespaces of its own. Without them, less was kept from it.
    pub(crate) namespaces: bool,
    /// Milliseconds that the download of the package took.
    pub(crate) installed_ms: Option<u64>,
    /// Milliseconds until it was ready.
    pub(crate) started_ms: Option<u64>,
    /// The most memory that its processes had together, in bytes.
    pub(crate) peak_memory: Option<u64>,
    /// The most processes that it had at once.
    pub(crate) processes: usize,
    /// Why nothing is known of what it has touched. Absent if it was traced.
    pub(crate) not_traced: Option<String>,
    /// What it has touched. Absent if it was not traced. Which variables it has read cannot be seen.
    pub(crate) touched: Option<TouchedReport>,
    /// What it offers. Absent if it did not get ready.
    pub(crate) offer: Option<OfferReport>,
    /// What a person should know before keeping it.
    pub(crate) warnings: Vec<Warning>,
    /// The call of `--call`.
    pub(crate) call: Option<CallReport>,
}

/// The package that a runner has downloaded.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct PackageReport {
    /// Its name in the registry.
    pub(crate) name: String,
    /// Its version; of an image, its digest.
    pub(crate) version: String,
    /// Its checksum, if the cache of its runner has one.
    pub(crate) integrity: Option<String>,
}

/// What a server has touched outside of its own directories and the system.
#[derive(Debug, Default, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct TouchedReport {
    /// The programs that it has started, the first one included; of its own package, only their names.
    pub(crate) programs: Vec<String>,
    /// The files of its installation that it has read.
    pub(crate) installation: Vec<FileGroup>,
    /// Other files that it has read or looked at.
    pub(crate) read: Vec<FileGroup>,
    /// Files that it looked for but could not see: those that exist, and those that would be secrets.
    pub(crate) missed: Vec<MissedFile>,
    /// Files that it has created, changed or deleted. In a trial, only copies are changed.
    pub(crate) wrote: Vec<FileGroup>,
    /// Files that it could not create or change.
    pub(crate) refused_writes: Vec<FileGroup>,
    /// Host names that it has looked up.
    pub(crate) hosts: Vec<String>,
    /// Host names that only the installation of its package has looked up.
    pub(crate) install_hosts: Vec<String>,
    /// Where it has connected to or has sent something.
    pub(crate) connections: Vec<ConnectionReport>,
    /// Where it has listened.
    pub(crate) listeners: Vec<String>,
    /// Something is missing here, because there was too much of it.
    pub(crate) cut: bool,
}

/// Files of one directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct FileGroup {
    /// The directory that they are in or below.
    pub(crate) directory: String,
    /// Their number.
    pub(crate) files: usize,
    /// Their names, if they are few.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) names: Vec<String>,
}

/// A file that the server missed.
#[skip_serializing_none]
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct MissedFile {
    /// Its path, in your home directory with `~`.
    pub(crate) path: String,
    /// Which secret it is or would be.
    pub(crate) secret: Option<String>,
}

/// The end of a connection.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ConnectionReport {
    /// Such as `tcp 192.0.2.1:443`, `udp …`, `unix /run/x` or `abstract NAME`.
    pub(crate) to: String,
    /// `reached`, `begun` (its result is not known), or the name of the error, such as `ECONNREFUSED`.
    pub(crate) result: String,
}

/// What a server offers.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct OfferReport {
    /// The name and version that it states.
    pub(crate) software: Option<String>,
    /// `legacy` or `modern`.
    pub(crate) era: String,
    /// The version of MCP.
    pub(crate) protocol: String,
    /// The names of its capabilities.
    pub(crate) capabilities: Vec<String>,
    /// Its tools.
    pub(crate) tools: Vec<ToolCost>,
    /// Estimated number of model tokens of all tools.
    pub(crate) tokens: usize,
    /// Number of prompts.
    pub(crate) prompts: usize,
    /// Number of resources.
    pub(crate) resources: usize,
    /// Number of resource templates.
    pub(crate) templates: usize,
    /// Bytes of its instructions.
    pub(crate) instructions_bytes: usize,
}

/// A tool.
#[derive(Debug, Clone, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ToolCost {
    /// The server's own name of it.
    pub(crate) name: String,
    /// Estimated number of model tokens.
    pub(crate) tokens: usize,
}

/// What a person should know before keeping a server.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Warning {
    /// What it is about.
    pub(crate) kind: WarningKind,
    /// The path, tool or other item that it is about, if it is about one.
    pub(crate) subject: Option<String>,
    /// The secret, or the kind of the item.
    pub(crate) detail: Option<String>,
    /// The claim of `claim`.
    pub(crate) claim: Option<Claim>,
    /// The defects of `malformed`.
    pub(crate) malformed: Option<MalformedItem>,
}

/// What a warning is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub(crate) enum WarningKind {
    /// It looked for a secret, or read one.
    Secret,
    /// It tried to trace or read another process.
    Trace,
    /// It tried to create a namespace, as browsers do.
    Namespace,
    /// It tried to mount something.
    Mount,
    /// It sent a signal that was refused.
    Signal,
    /// It tried to use `io_uring`, which no trace sees.
    IoUring,
    /// It tried to use programs, keyrings or counters of the kernel.
    Kernel,
    /// A definition has invisible characters.
    Invisible,
    /// A tool claims something that its name contradicts.
    Claim,
    /// A definition is not as agents accept it, so it is mended or left out.
    Malformed,
}

/// The result of the call.
#[skip_serializing_none]
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct CallReport {
    /// The tool.
    pub(crate) tool: String,
    /// The text of its result. It may be cut.
    pub(crate) text: Option<String>,
    /// Why there is no result, or that the tool itself reports a failure.
    pub(crate) error: Option<String>,
}

/// What the receipt is made from.
pub(crate) struct Subject<'a> {
    /// Without secrets.
    pub(crate) command: Vec<String>,
    pub(crate) package: Option<PackageReport>,
    pub(crate) trial: &'a Trial,
    pub(crate) traced: Option<(&'a Observed, &'a Touched)>,
    /// The cache of its runner.
    pub(crate) runner: Option<&'a str>,
    /// The tool that was called.
    pub(crate) called: Option<&'a str>,
}

impl Receipt {
    pub(crate) fn of(subject: Subject<'_>, sources: &dyn Sources) -> Self {
        let Subject { command, package, trial, traced, runner, called } = subject;
        let home = sources.home();
        let shown = |path: &Path| touched_path(path, home.as_deref());
        let private = trial.places.private.as_path();
        let program = |path: &Path| match path.file_name().filter(|_| path.starts_with(private)) {
            Some(name) if private.is_absolute() => format!("{} (of its package)", name.to_string_lossy()),
            _ => shown(path),
        };
        let touched = traced.map(|(observed, touched)| TouchedReport::of(observed, touched, &shown, &program));
        let mut warnings = Vec::new();
        if let Some((observed, touched)) = traced {
            for missed in &touched.missed {
                let Some(secret) = missed.secret.filter(|secret| !secret.is_usual_for(runner)) else { continue };
                let mut warning = Warning::new(WarningKind::Secret, Some(shown(&missed.path)));
                warning.detail = Some(secret.what.to_owned());
                warnings.push(warning);
            }
            warnings.extend(observed.attempts.iter().map(|attempt| Warning::new(kind_of(*attempt), None)));
        }
        if let Some(offer) = &trial.offer {
            warnings.extend(of_definitions(DefinitionWarnings::of(&offer.lists, offer.instructions.as_deref())));
        }
        let call = called.zip(trial.call.as_ref()).map(|(tool, result)| CallReport::of(tool, result));
        let ms = |duration: Option<Duration>| duration.map(millis);
        Self {
            command,
            package,
            failure: trial.failure.as_ref().map(ToString::to_string),
            stderr: if trial.failure.is_some() { trial.stderr.clone() } else { Vec::new() },
            namespaces: trial.has_namespaces,
            installed_ms: ms(trial.installed),
            started_ms: ms(trial.started),
            peak_memory: trial.peak_memory,
            processes: trial.processes,
            not_traced: match &trial.traced {
                Err(why) => Some(why.to_string()),
                Ok(()) if touched.is_none() => Some("its trace does not show which process is the server".to_owned()),
                Ok(()) => None,
            },
            touched,
            offer: trial.offer.as_ref().map(OfferReport::of),
            warnings,
            call,
        }
    }
}

impl TouchedReport {
    fn of(
        observed: &Observed,
        touched: &Touched,
        shown: &dyn Fn(&Path) -> String,
        program: &dyn Fn(&Path) -> String,
    ) -> Self {
        let groups = |paths: &[_], most| {
            let groups = touched::grouped(paths, most, MAX_NAMES).into_iter();
            let group = |group: touched::Group| FileGroup {
                directory: shown(&group.directory),
                files: group.count,
                names: group.names,
            };
            groups.map(group).collect()
        };
        let missed = touched.missed.iter().map(|missed| MissedFile {
            path: shown(&missed.path),
            secret: missed.secret.map(|secret| secret.what.to_owned()),
        });
        let connections = touched.connections.iter().map(|(to, reach)| ConnectionReport {
            to: to.to_string(),
            result: match reach {
                Reach::Reached => "reached".to_owned(),
                Reach::Begun => "begun".to_owned(),
                Reach::Failed(name) => name.clone(),
            },
        });
        Self {
            programs: observed.programs.iter().take(MAX_LINES).map(|path| program(path)).collect(),
            installation: groups(&touched.installation, MAX_INSTALLATIONS),
            read: groups(&touched.read, MAX_GROUPS),
            missed: missed.take(MAX_LINES).collect(),
            wrote: groups(&touched.wrote, MAX_GROUPS),
            refused_writes: groups(&touched.refused_writes, MAX_GROUPS),
            hosts: observed.hosts.iter().take(MAX_LINES).cloned().collect(),
            install_hosts: Vec::new(),
            connections: connections.take(MAX_LINES).collect(),
            listeners: observed.listeners.iter().take(MAX_LINES).map(Endpoint::to_string).collect(),
            cut: observed.is_cut
                || observed.programs.len().max(observed.hosts.len()).max(touched.missed.len()) > MAX_LINES,
        }
    }
}

impl OfferReport {
    fn of(offer: &crate::trial::Offer) -> Self {
        let lists = &offer.lists;
        let tools: Vec<_> = lists[ListKind::Tools]
            .items
            .iter()
            .map(|tool| ToolCost { name: tool.key.to_string(), tokens: tokens_of(tool.key.len(), tool.model_bytes) })
            .collect();
        let capabilities = match serde_json::from_slice(&offer.capabilities) {
            Ok(Value::Object(members)) => members.into_iter().map(|(name, _)| name).collect(),
            _ => Vec::new(),
        };
        Self {
            software: offer.software.clone(),
            era: match offer.era {
                Era::Legacy => "legacy".to_owned(),
                Era::Modern => "modern".to_owned(),
            },
            protocol: offer.protocol.to_owned(),
            capabilities,
            tokens: tools.iter().map(|tool| tool.tokens).sum(),
            tools,
            prompts: lists[ListKind::Prompts].items.len(),
            resources: lists[ListKind::Resources].items.len(),
            templates: lists[ListKind::Templates].items.len(),
            instructions_bytes: offer.instructions.as_ref().map_or(0, |text| text.len()),
        }
    }
}

impl CallReport {
    fn of(tool: &str, result: &Result<crate::ToolResult, crate::ClientError>) -> Self {
        let (text, error) = match result {
            Ok(result) => {
                let text = result.text().unwrap_or_default();
                (
                    Some(beginning(&text, MAX_TEXT).to_owned()),
                    result.is_error().then(|| "the tool reports a failure".to_owned()),
                )
            }
            Err(error) => (None, Some(error.to_string())),
        };
        Self { tool: tool.to_owned(), text, error }
    }
}

impl Warning {
    fn new(kind: WarningKind, subject: Option<String>) -> Self {
        Self { kind, subject, detail: None, claim: None, malformed: None }
    }
}

fn kind_of(attempt: Attempt) -> WarningKind {
    match attempt {
        Attempt::Trace => WarningKind::Trace,
        Attempt::Namespace => WarningKind::Namespace,
        Attempt::Mount => WarningKind::Mount,
        Attempt::Signal => WarningKind::Signal,
        Attempt::IoUring => WarningKind::IoUring,
        Attempt::Kernel => WarningKind::Kernel,
    }
}

fn of_definitions(found: DefinitionWarnings) -> impl Iterator<Item = Warning> {
    let invisible = found.invisible.into_iter().map(|(kind, name)| {
        let subject = (!name.is_empty()).then_some(name);
        Warning { detail: Some(kind.to_owned()), ..Warning::new(WarningKind::Invisible, subject) }
    });
    let claims = found
        .claims
        .into_iter()
        .map(|(name, claim)| Warning { claim: Some(claim), ..Warning::new(WarningKind::Claim, Some(name)) });
    let malformed = found.malformed.into_iter().map(|item| {
        let subject = item.item.clone();
        Warning { malformed: Some(item), ..Warning::new(WarningKind::Malformed, subject) }
    });
    invisible.chain(claims).chain(malformed)
}

/// A path for people: the home directory is `~`.
fn touched_path(path: &Path, home: Option<&Path>) -> String {
    match home.filter(|home| home.components().count() > 1).and_then(|home| path.strip_prefix(home).ok()) {
        Some(below) if below.as_os_str().is_empty() => "~".to_owned(),
        Some(below) => format!("~/{}", below.display()),
        None => path.display().to_string(),
    }
}
