//! How a server is run or reached as it is written, and what becomes of that when its `${…}` are filled in.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::interpolate::{Sources, Template, Undefined};
use super::super::launch::{AGENT_CWD, Launch, OAuth, Program, Remote, Secrets};
use super::super::sourced::{Sourced, values};

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

#[derive(Debug)]
pub(in crate::config) struct RemoteDraft {
    pub(in crate::config) url: Sourced<Template>,
    pub(in crate::config) headers: Vec<(String, Sourced<Template>)>,
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

impl RemoteDraft {
    fn fill(&self, mut filling: Filling<'_>) -> Result<Remote, Undefined> {
        let url = filling.text(&self.url)?;
        if !is_url(&url) {
            return Err(Undefined::Unfit { key: "url", complaint: "does not begin with `http://` or `https://`" });
        }
        let headers = filling.named(&self.headers)?;
        if !headers.values().all(|value| is_header_value(value)) {
            return Err(Undefined::Unfit { key: "headers", complaint: "has one with a control character" });
        }
        let roots = filling.roots(&self.roots)?;
        Ok(Remote { url, headers, roots, ca_file: None, oauth: OAuth::default(), secrets: filling.secrets })
    }
}

/// Where values come from, and what of them is secret.
struct Filling<'a> {
    sources: &'a dyn Sources,
    secrets: Secrets,
}

impl Filling<'_> {
    fn text(&mut self, template: &Sourced<Template>) -> Result<String, Undefined> {
        template.value.fill(self.sources, &mut self.secrets)
    }

    fn texts(&mut self, templates: &[Sourced<Template>]) -> Result<Vec<String>, Undefined> {
        templates.iter().map(|template| self.text(template)).collect()
    }

    fn named(&mut self, templates: &[(String, Sourced<Template>)]) -> Result<BTreeMap<String, String>, Undefined> {
        templates.iter().map(|(name, template)| Ok((name.clone(), self.text(template)?))).collect()
    }

    fn roots(&mut self, templates: &[Sourced<Template>]) -> Result<Vec<String>, Undefined> {
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

pub(in crate::config) fn is_url(text: &str) -> bool {
    let after = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme));
    after.is_some_and(|rest| !rest.is_empty()) && !text.contains(|c: char| c.is_control() || c == ' ')
}

/// Whether it can be one line of an HTTP message.
pub(in crate::config) fn is_header_value(text: &str) -> bool {
    !text.replace(AGENT_CWD, "").contains(|c: char| c.is_control() && c != '\t')
}
