//! How a server is run as it is written, and what becomes of that when its `${…}` are filled in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::interpolate::{Sources, Template, Undefined};
use super::super::launch::{AGENT_CWD, Launch, Program, Secrets};
use super::super::sourced::{Sourced, values};
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
        let filling = Filling { sources, secrets: Secrets::default() };
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
            cwd: cwd.map(PathBuf::from),
            roots: filling.roots(&self.roots)?,
            secrets: filling.secrets,
        })
    }
}

/// Where values come from, and what of them is secret.
pub(super) struct Filling<'a> {
    sources: &'a dyn Sources,
    pub(super) secrets: Secrets,
}

impl Filling<'_> {
    pub(super) fn text(&mut self, template: &Sourced<Template>) -> Result<String, Undefined> {
        template.value.fill(self.sources, &mut self.secrets)
    }

    fn texts(&mut self, templates: &[Sourced<Template>]) -> Result<Vec<String>, Undefined> {
        templates.iter().map(|template| self.text(template)).collect()
    }

    pub(super) fn named(
        &mut self,
        templates: &[(String, Sourced<Template>)],
    ) -> Result<BTreeMap<String, String>, Undefined> {
        templates.iter().map(|(name, template)| Ok((name.clone(), self.text(template)?))).collect()
    }

    pub(super) fn roots(&mut self, templates: &[Sourced<Template>]) -> Result<Vec<String>, Undefined> {
        let roots = self.texts(templates)?;
        let complaint = "has one that is no whole path and no `file://` URI";
        if roots.iter().all(|root| is_root(root)) {
            Ok(roots)
        } else {
            Err(Undefined::Unfit { key: "roots", complaint })
        }
    }
}

pub(in crate::config) fn is_whole(path: &str) -> bool {
    Path::new(path).is_absolute() || path.starts_with(AGENT_CWD)
}

pub(in crate::config) fn is_root(text: &str) -> bool {
    is_whole(text) || text.starts_with("file:///")
}
