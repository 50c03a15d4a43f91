//! Imports servers of other clients into mcpd's configuration.
//!
//! `foreign` reads a client's file, `secrets` moves secrets into separate files, [`super::edit`] appends to the text of the configuration.
//!
//! Pure: the caller writes the files.

mod foreign;
mod secrets;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use self::foreign::Settings;
pub(crate) use self::foreign::{Foreign, ForeignServer, Prompt, foreign};
use self::secrets::SecretExtractor;
pub(crate) use self::secrets::{Content, SecretFile, reference};
use super::diagnostic::SourceFile;
use super::edit::{self, EditError};
use super::interpolate::{Sources, UnusableValue, escaped};
use super::known_commands::{self, Advice, CommandLine, FilesObstacle, Proposal};
use super::launch::Launch;
pub(crate) use super::read::Pointer;
use super::serialize::Setting;
use super::{ServerConfig, read, toml};

/// The planned result of an import.
pub(crate) struct Plan<'a> {
    sources: &'a dyn Sources,
    lock: Option<Lock<'a>>,
    text: String,
    mover: SecretExtractor<'a>,
    /// Every existing and planned server. The first `configured` exist.
    known: Vec<(String, Result<Launch, UnusableValue>)>,
    configured: usize,
}

/// The arguments of a server with these settings, with the versions that run now. `None` if these are not known.
pub(crate) type Lock<'a> = &'a dyn Fn(&[(String, Setting)]) -> Option<Vec<String>>;

/// What the user chooses to add.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ImportChoices {
    /// A server whose name an existing server has: it gets another name.
    pub(crate) rename: bool,
    /// A server that a client starts in one project only.
    pub(crate) projects: bool,
}

/// The outcome for one server of another client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The server is added.
    Added {
        /// Its name.
        name: String,
        /// Why its sandbox is not level `files`. `None` if it is, and for a server at a URL.
        obstacle: Option<FilesObstacle>,
    },
    /// An equal server of this name exists.
    Known(String),
    /// A different server of the configuration has the name and stays unchanged.
    Differs {
        /// The name of both.
        name: String,
        /// A free name for the new one.
        free: String,
    },
    /// The client starts the server in one project only, and the user has not chosen those.
    Private,
    /// The server cannot be expressed in mcpd's format.
    Impossible(String),
}

/// The name of the configured server that is equal to `server`, a server of another client: what [`Plan::add`] does not add again.
/// `secrets` is the directory as in [`Plan::new`].
pub(crate) fn known<'c>(
    server: &ForeignServer,
    configured: impl IntoIterator<Item = &'c ServerConfig>,
    secrets: &Path,
    sources: &dyn Sources,
) -> Option<String> {
    match Plan::new("", configured, secrets, sources).add(server, ImportChoices::default()) {
        Outcome::Known(name) => Some(name),
        _ => None,
    }
}

/// The sandbox to propose for a server with these settings. `None` for a server at a URL, which has none.
pub(crate) fn proposed_sandbox(
    settings: &[(String, Setting)],
    sources: &dyn Sources,
) -> Option<Result<Proposal, FilesObstacle>> {
    let (command, args) = command_line(settings)?;
    let env = match value(settings, "env") {
        Some(Setting::Table(env)) => env.as_slice(),
        _ => &[],
    };
    let cwd = match value(settings, "cwd") {
        Some(Setting::Text(cwd)) => Some(&**cwd),
        _ => None,
    };
    Some(known_commands::proposal(CommandLine { command, args, env, cwd }, sources))
}

/// Writes the proposal into the settings of its server.
pub(crate) fn accept(proposal: Proposal, settings: &mut Vec<(String, Setting)>) {
    match settings.iter_mut().find(|(key, _)| key == "env") {
        Some((_, Setting::Table(env))) => env.extend(proposal.env),
        _ if proposal.env.is_empty() => {}
        _ => settings.push(("env".to_owned(), Setting::Table(proposal.env))),
    }
    settings.push(("sandbox".to_owned(), Setting::Sandbox(proposal.sandbox)));
}

/// Replaces the arguments in these settings.
pub(crate) fn set_args(args: Vec<String>, settings: &mut Settings) {
    settings
        .iter_mut()
        .filter(|(key, _)| key == "args")
        .for_each(|(_, setting)| *setting = Setting::List(args.clone()));
}

/// The keys that a server with these settings needs, as far as its command is known and they are not set.
pub(crate) fn known_keys(settings: &[(String, Setting)]) -> Vec<Advice> {
    let Some((command, args)) = command_line(settings) else { return Vec::new() };
    let mut advice = known_commands::advice(command, args, value(settings, "cwd").is_some());
    advice.retain(|advice| value(settings, advice.key).is_none());
    advice
}

/// Settings whose texts stand for themselves, whatever they contain: without references.
pub(crate) fn literal(settings: Settings) -> Settings {
    settings.into_iter().map(|(key, setting)| (key, secrets::each_text(&setting, escaped))).collect()
}

/// The command and the arguments of a server with these settings.
pub(crate) fn command_line(settings: &[(String, Setting)]) -> Option<(&str, &[String])> {
    let Setting::Text(command) = value(settings, "command")? else { return None };
    let args = match value(settings, "args") {
        Some(Setting::List(args)) => args.as_slice(),
        _ => &[],
    };
    Some((command, args))
}

fn value<'a>(settings: &'a [(String, Setting)], key: &str) -> Option<&'a Setting> {
    settings.iter().find(|(known, _)| known == key).map(|(_, setting)| setting)
}

impl<'a> Plan<'a> {
    /// Starts with the `text` of the configuration to edit, and with the servers of all files. Secrets go into files in the directory
    /// `secrets`, an absolute path that a reference can contain.
    pub(crate) fn new<'c>(
        text: &str,
        configured: impl IntoIterator<Item = &'c ServerConfig>,
        secrets: &Path,
        sources: &'a dyn Sources,
    ) -> Self {
        let configured = configured.into_iter();
        let known: Vec<_> = configured.map(|server| (server.name.to_string(), server.launch.clone())).collect();
        let mover = SecretExtractor::new(secrets, sources);
        Self { sources, lock: None, text: text.to_owned(), mover, configured: known.len(), known }
    }

    /// Adds servers with the versions that `lock` knows.
    pub(crate) fn locking(self, lock: Lock<'a>) -> Self {
        Self { lock: Some(lock), ..self }
    }

    /// Adds `server`, unless an equal one exists. If another planned server has its name, a number is added to the name.
    pub(crate) fn add(&mut self, server: &ForeignServer, choices: ImportChoices) -> Outcome {
        if let Some(reason) = &server.impossible {
            return Outcome::Impossible(reason.to_string());
        }
        let (mut number, mut name) = (1, server.name.clone());
        let launch = loop {
            let mut settings = self.mover.with_inputs(&name, server);
            let launch = self.launch(&name, &settings);
            // A definition for all projects includes that of one.
            let general = server.runs_in_project().then(|| {
                settings.retain(|(key, _)| key != "cwd");
                self.launch(&name, &settings)
            });
            let is_same = |known: &str, other: &_| {
                let launches = [Some(&launch), general.as_ref()];
                launches.into_iter().flatten().any(|launch| same(&name, launch, known, other))
            };
            if let Some((same, _)) = self.known.iter().find(|(known, other)| is_same(known, other)) {
                return Outcome::Known(same.clone());
            }
            if !self.known.iter().any(|(known, _)| *known == name) {
                break launch;
            }
            number += 1;
            name = format!("{}-{number}", server.name);
        };
        if server.is_private && !choices.projects {
            return Outcome::Private;
        }
        if !choices.rename && self.known[..self.configured].iter().any(|(known, _)| *known == server.name) {
            return Outcome::Differs { name: server.name.clone(), free: name };
        }
        let (mut settings, files) = self.mover.moved(&name, server);
        if let Some(args) = self.lock.and_then(|lock| lock(&settings)) {
            set_args(args, &mut settings);
        }
        let known = known_keys(&settings).into_iter().map(|advice| (advice.key.to_owned(), advice.setting()));
        settings.extend(known.collect::<Vec<_>>());
        let proposed = proposed_sandbox(&settings, self.sources).transpose();
        let obstacle = proposed.map(|proposal| proposal.into_iter().for_each(|one| accept(one, &mut settings))).err();
        let settings: Vec<_> = settings.iter().map(|(key, setting)| (key.as_str(), setting.clone())).collect();
        match edit::add(&self.text, &name, &settings) {
            Ok(text) => {
                self.text = text;
                self.mover.keep(files);
                self.known.push((name.clone(), launch));
                Outcome::Added { name, obstacle }
            }
            Err(error) => Outcome::Impossible(error.to_string()),
        }
    }

    /// Adds a server without comparing it to existing servers.
    ///
    /// # Errors
    /// As [`edit::add`].
    pub(crate) fn put(&mut self, name: &str, settings: Settings) -> Result<(), EditError> {
        let (settings, files) = self.mover.moved(name, &ForeignServer::new(name, settings));
        let settings: Vec<_> = settings.iter().map(|(key, setting)| (key.as_str(), setting.clone())).collect();
        self.text = edit::add(&self.text, name, &settings)?;
        self.mover.keep(files);
        Ok(())
    }

    /// The new text of the configuration, and the secret files to write before it.
    pub(crate) fn finish(self) -> (String, Vec<SecretFile>) {
        (self.text, self.mover.files)
    }

    /// The launch of a server with these settings, as far as its references have values now.
    fn launch(&self, name: &str, settings: &Settings) -> Result<Launch, UnusableValue> {
        let settings: Vec<_> = settings.iter().map(|(key, setting)| (key.as_str(), setting.clone())).collect();
        let text = edit::add("", name, &settings).unwrap_or_default();
        let root = toml::parse(&text).root;
        let file = Arc::new(SourceFile::new(Path::new("/"), &text, Vec::new()));
        let layer = root.map(|root| read::read(&root, read::Format::Native, &file, self.sources).0);
        let server = layer.and_then(|layer| layer.servers.into_iter().next());
        server.map_or(Err(UnusableValue::Invalid { key: "command", complaint: "is unfit" }), |server| {
            server.launch.interpolate(self.sources)
        })
    }
}

/// Whether two servers are equal. With undefined references, only servers of one name count as equal. A server with a locked version is
/// equal to one that does not choose a version.
fn same(
    name: &str,
    this: &Result<Launch, UnusableValue>,
    other_name: &str,
    other: &Result<Launch, UnusableValue>,
) -> bool {
    match (this, other) {
        (Ok(this), Ok(other)) => {
            let locked = || other.program().and_then(|other| this.with_versions_of(other));
            this.is_equivalent(other) || locked().is_some_and(|locked| locked.is_equivalent(other))
        }
        (Err(this), Err(other)) => name == other_name && this == other,
        _ => false,
    }
}
