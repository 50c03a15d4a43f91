//! Servers of other clients, taken over into a configuration of ours.
//!
//! Pure: what there is to write, the caller writes. `foreign` reads a client's file, `secrets` moves what is secret into
//! files of its own; the text of the configuration is edited by [`super::edit`], which touches nothing that is there.

mod foreign;
mod secrets;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

pub(crate) use self::foreign::{Foreign, ForeignServer, Prompt, foreign};
use self::secrets::SecretExtractor;
pub(crate) use self::secrets::{Content, SecretFile, reference};
use super::diagnostic::SourceFile;
use super::edit::{self, EditError, Setting};
use super::interpolate::{Sources, UndefinedValue};
use super::launch::Launch;
use super::{ServerConfig, read, toml};

/// Settings of one server, in the order in which they are written.
type Settings = Vec<(String, Setting)>;

/// What an import would write, server by server.
pub(crate) struct Plan<'a> {
    sources: &'a dyn Sources,
    text: String,
    mover: SecretExtractor<'a>,
    /// Every server that is configured, or will be.
    known: Vec<(String, Result<Launch, UndefinedValue>)>,
}

/// What becomes of one server of another client.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It is added under this name.
    Added(String),
    /// The server of this name is run just like it.
    Known(String),
    /// A server of this name is run otherwise, and stays as it is. The second name is free.
    Differs {
        /// Which they both have.
        name: String,
        /// Under which it could be added.
        free: String,
    },
    /// It cannot be written down for mcpd.
    Impossible(String),
}

impl<'a> Plan<'a> {
    /// Begins with the `text` of the configuration that is added to, and with the servers that are configured there and
    /// elsewhere. Secrets go into files in `secrets`,
    /// an absolute path to which a text can refer.
    pub(crate) fn new(text: &str, configured: &[ServerConfig], secrets: &Path, sources: &'a dyn Sources) -> Self {
        let known = configured.iter().map(|server| (server.name.to_string(), server.launch.clone())).collect();
        Self { sources, text: text.to_owned(), mover: SecretExtractor::new(secrets, sources), known }
    }

    /// Adds `server`, unless it is there already. One whose name is taken is added under another if `rename` says so.
    pub(crate) fn add(&mut self, server: &ForeignServer, rename: bool) -> Outcome {
        if let Some(reason) = &server.impossible {
            return Outcome::Impossible(reason.to_string());
        }
        let mut name = server.name.clone();
        let launch = self.launch(&name, &self.mover.with_inputs(&name, server));
        if let Some((same, _)) = self.known.iter().find(|(known, other)| same(&name, &launch, known, other)) {
            return Outcome::Known(same.clone());
        }
        if self.is_taken(&name) {
            let free = self.free(&name);
            if !rename {
                return Outcome::Differs { name, free };
            }
            name = free;
        }
        let (settings, files) = self.mover.moved(&name, server);
        let settings: Vec<_> = settings.iter().map(|(key, setting)| (key.as_str(), setting.clone())).collect();
        match edit::add(&self.text, &name, &settings) {
            Ok(text) => {
                self.text = text;
                self.mover.keep(files);
                self.known.push((name.clone(), launch));
                Outcome::Added(name)
            }
            Err(error) => Outcome::Impossible(error.to_string()),
        }
    }

    /// Adds a server of these settings, whatever others there are elsewhere.
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

    /// The text of the configuration, and the files it refers to that are to be written first.
    pub(crate) fn finish(self) -> (String, Vec<SecretFile>) {
        (self.text, self.mover.files)
    }

    fn is_taken(&self, name: &str) -> bool {
        self.known.iter().any(|(known, _)| known == name)
    }

    fn free(&self, name: &str) -> String {
        let mut numbered = (2..).map(|number| format!("{name}-{number}"));
        numbered.find(|name| !self.is_taken(name)).unwrap_or_default()
    }

    /// How a server of these settings would be run, as far as that is known now.
    fn launch(&self, name: &str, settings: &Settings) -> Result<Launch, UndefinedValue> {
        let settings: Vec<_> = settings.iter().map(|(key, setting)| (key.as_str(), setting.clone())).collect();
        let text = edit::add("", name, &settings).unwrap_or_default();
        let root = toml::parse(&text).root;
        let file = Arc::new(SourceFile::new(Path::new("/"), &text, Vec::new()));
        let layer = root.map(|root| read::read(&root, read::Format::Native, &file, self.sources).0);
        let server = layer.and_then(|layer| layer.servers.into_iter().next());
        server.map_or(Err(UndefinedValue::Unfit { key: "command", complaint: "is unfit" }), |server| {
            server.launch.interpolate(self.sources)
        })
    }
}

/// Whether two servers are one. Where something is undefined that cannot be seen, but for two of one name.
fn same(
    name: &str,
    this: &Result<Launch, UndefinedValue>,
    other_name: &str,
    other: &Result<Launch, UndefinedValue>,
) -> bool {
    match (this, other) {
        (Ok(this), Ok(other)) => this.is_equivalent(other),
        (Err(this), Err(other)) => name == other_name && this == other,
        _ => false,
    }
}
