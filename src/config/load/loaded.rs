//! A valid configuration with its layers, and the file and line that define each server.

use std::path::PathBuf;

use super::super::Config;
use super::super::diagnostic::Diagnostic;
use super::super::read::Format;
use super::files::parse;
use super::merge::Layers;
use super::stamp::Stamp;

/// A valid configuration, with its warnings and files.
#[derive(Debug)]
pub struct LoadedConfig {
    /// The configuration.
    pub config: Config,
    /// The merged layers, which have the location of each value.
    pub(in crate::config) layers: Layers,
    /// Warnings, for example about ignored keys.
    pub warnings: Vec<Diagnostic>,
    /// The files that were read, in order.
    pub files: Vec<PathBuf>,
    /// Digests of the files, including optional files that do not exist.
    pub stamps: Vec<Stamp>,
    /// Digests of the files of `${file:…}`.
    pub secret_files: Vec<Stamp>,
    /// The first steps, if no file exists.
    pub hint: Option<String>,
}

/// The location in a file that defines a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Definition {
    /// The server's name in the file. mcpd changes names of other clients that are not valid.
    pub(crate) title: String,
    /// The file.
    pub(crate) file: PathBuf,
    /// `FILE:LINE`.
    pub(crate) location: String,
    /// Whether the file has mcpd's own format, with tables such as `[servers.files]`.
    pub(crate) is_native: bool,
}

impl LoadedConfig {
    /// `FILE:LINE` of the `enabled` in force for `server`, if a file has one.
    pub(crate) fn enabled_at(&self, server: &str) -> Option<String> {
        let layer = self.layers.servers.iter().find(|layer| *layer.name.value == *server)?;
        Some(layer.rules.settings.get("enabled")?.location.line())
    }

    /// The definition of `server`; `None` if there is no such server.
    pub(crate) fn definition(&self, server: &str) -> Option<Definition> {
        let layer = self.layers.servers.iter().find(|layer| *layer.name.value == *server)?;
        let location = &layer.name.location;
        let written = location.file.text.get(location.span.clone()).unwrap_or_default();
        let title = match serde_json::from_str(written) {
            Ok(title) => title,
            Err(_) => written.trim_matches(['"', '\'']).to_owned(),
        };
        let is_native = parse(&location.file.path, &location.file.text).0 == Format::Native;
        Some(Definition { title, file: location.file.path.clone(), location: location.line(), is_native })
    }
}
