//! How a server is run as it is written, and what becomes of that when its `${…}` are filled in.

use std::path::PathBuf;

use super::super::interpolate::{Sources, Template, Undefined};
use super::super::launch::{Launch, Program};
use super::super::sourced::{Sourced, values};
use super::filling::{Filling, is_whole};
use super::remote::RemoteDraft;

/// What one table says of it.
#[derive(Debug)]
pub(in crate::config) enum LaunchDraft {
    Program(ProgramDraft),
    Remote(RemoteDraft),
    /// Neither, because something has no words here.
    Impossible(Undefined),
}

#[derive(Debug)]
pub(in crate::config) struct ProgramDraft {
    pub(in crate::config) command: Sourced<Template>,
    pub(in crate::config) args: Vec<Sourced<Template>>,
    pub(in crate::config) env: Vec<(String, Sourced<Template>)>,
    pub(in crate::config) pass_env: Vec<Sourced<String>>,
    pub(in crate::config) cwd: Option<Sourced<Template>>,
    pub(in crate::config) roots: Vec<Sourced<Template>>,
}

impl LaunchDraft {
    /// Filled in. The first undefined name fails the launch: one is enough to go and look.
    pub(in crate::config) fn fill(&self, sources: &dyn Sources) -> Result<Launch, Undefined> {
        let filling = Filling::from(sources);
        match self {
            Self::Program(draft) => draft.fill(filling).map(Launch::Program),
            Self::Remote(draft) => draft.fill(filling).map(Launch::Remote),
            Self::Impossible(undefined) => Err(undefined.clone()),
        }
    }
}

impl ProgramDraft {
    fn fill(&self, mut filling: Filling<'_>) -> Result<Program, Undefined> {
        let command = filling.text(&self.command)?;
        if command.trim().is_empty() {
            return Err(Undefined::Unfit { key: "command", complaint: "is empty" });
        }
        let cwd = self.cwd.as_ref().map(|cwd| filling.text(cwd)).transpose()?;
        if cwd.as_deref().is_some_and(|cwd| !is_whole(cwd)) {
            return Err(Undefined::Unfit { key: "cwd", complaint: "is no whole path" });
        }
        Ok(Program {
            command,
            args: filling.texts(&self.args)?,
            env: filling.named(&self.env)?,
            pass_env: values(&self.pass_env),
            passed: None,
            cwd: cwd.map(PathBuf::from),
            roots: filling.roots(&self.roots)?,
            secrets: filling.secrets,
        })
    }
}
