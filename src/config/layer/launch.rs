//! The launch keys of a server as written, and their expansion.

use std::path::PathBuf;

use super::super::interpolate::{Sources, Template, UnusableValue};
use super::super::launch::{Launch, Program};
use super::super::spanned::{Spanned, values};
use super::interpolation::{Interpolation, is_absolute_or_agent_cwd};
use super::remote::RemoteTemplate;

/// The launch keys of one table.
#[derive(Debug)]
pub(in crate::config) enum LaunchTemplate {
    Program(ProgramTemplate),
    Remote(RemoteTemplate),
    /// Neither, because a reference cannot be translated.
    Impossible(UnusableValue),
}

#[derive(Debug)]
pub(in crate::config) struct ProgramTemplate {
    pub(in crate::config) command: Spanned<Template>,
    pub(in crate::config) args: Vec<Spanned<Template>>,
    pub(in crate::config) env: Vec<(String, Spanned<Template>)>,
    pub(in crate::config) pass_env: Vec<Spanned<String>>,
    pub(in crate::config) cwd: Option<Spanned<Template>>,
    pub(in crate::config) roots: Vec<Spanned<Template>>,
}

impl LaunchTemplate {
    /// Expands all references. Reports the first undefined one.
    pub(in crate::config) fn interpolate(&self, sources: &dyn Sources) -> Result<Launch, UnusableValue> {
        let interpolation = Interpolation::from(sources);
        match self {
            Self::Program(layer) => layer.interpolate(interpolation).map(Launch::Program),
            Self::Remote(layer) => layer.interpolate(interpolation).map(Launch::Remote),
            Self::Impossible(undefined) => Err(undefined.clone()),
        }
    }
}

impl ProgramTemplate {
    fn interpolate(&self, mut interpolation: Interpolation<'_>) -> Result<Program, UnusableValue> {
        let command = interpolation.text(&self.command)?;
        if command.trim().is_empty() {
            return Err(UnusableValue::Invalid { key: "command", complaint: "is empty" });
        }
        let cwd = self.cwd.as_ref().map(|cwd| interpolation.text(cwd)).transpose()?;
        if cwd.as_deref().is_some_and(|cwd| !is_absolute_or_agent_cwd(cwd)) {
            return Err(UnusableValue::Invalid { key: "cwd", complaint: "is not an absolute path" });
        }
        Ok(Program {
            command,
            args: interpolation.texts(&self.args)?,
            env: interpolation.named(&self.env)?,
            pass_env: values(&self.pass_env),
            passed: None,
            cwd: cwd.map(PathBuf::from),
            cwd_is_stated: false,
            roots: interpolation.roots(&self.roots)?,
            secrets: interpolation.secrets,
        })
    }
}
