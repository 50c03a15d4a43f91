//! The launch keys of a program or an HTTP server as written, and their expansion.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::super::address::{is_unix, url_complaint};
use super::super::diagnostic::{Spanned, values};
use super::super::interpolate::{Sources, Template, UnusableValue};
use super::super::launch::{Launch, OAuth, OAuthGrant, OAuthSettings, Program, Remote, is_credential};
use super::super::secret_values::{AGENT_CWD, Secrets};
use crate::config::rotating_headers::{RotatingHeaders, is_header_value};

/// The launch keys of one table.
#[derive(Debug)]
pub(in crate::config) enum LaunchTemplate {
    Program(ProgramTemplate),
    Remote(RemoteTemplate),
    Served(ProgramTemplate, Box<RemoteTemplate>),
    /// None of them, because a reference cannot be translated.
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
        let mut interpolation = Interpolation::from(sources);
        match self {
            Self::Program(layer) => layer.interpolate(&mut interpolation).map(Launch::Program),
            Self::Remote(layer) => layer.interpolate(&mut interpolation, false).map(Launch::Remote),
            Self::Served(program, remote) => {
                let mut program = program.interpolate(&mut interpolation)?;
                let remote = remote.interpolate(&mut interpolation, true)?;
                program.secrets = remote.secrets.clone();
                Ok(Launch::Served(program, Box::new(remote)))
            }
            Self::Impossible(undefined) => Err(undefined.clone()),
        }
    }

    pub(in crate::config) fn program(&self) -> Option<&ProgramTemplate> {
        match self {
            Self::Program(program) | Self::Served(program, _) => Some(program),
            Self::Remote(_) | Self::Impossible(_) => None,
        }
    }

    pub(in crate::config) fn remote(&self) -> Option<&RemoteTemplate> {
        match self {
            Self::Remote(remote) => Some(remote),
            Self::Served(_, remote) => Some(remote),
            Self::Program(_) | Self::Impossible(_) => None,
        }
    }
}

impl ProgramTemplate {
    fn interpolate(&self, interpolation: &mut Interpolation<'_>) -> Result<Program, UnusableValue> {
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
            secrets: interpolation.secrets.clone(),
        })
    }
}

/// The sources of values, and the secrets found so far.
pub(super) struct Interpolation<'a> {
    sources: &'a dyn Sources,
    pub(super) secrets: Secrets,
}

impl<'a> Interpolation<'a> {
    pub(super) fn from(sources: &'a dyn Sources) -> Self {
        Self { sources, secrets: Secrets::default() }
    }

    pub(super) fn text(&mut self, template: &Spanned<Template>) -> Result<String, UnusableValue> {
        template.value.interpolate(self.sources, &mut self.secrets)
    }

    pub(super) fn texts(&mut self, templates: &[Spanned<Template>]) -> Result<Vec<String>, UnusableValue> {
        templates.iter().map(|template| self.text(template)).collect()
    }

    pub(super) fn named(
        &mut self,
        templates: &[(String, Spanned<Template>)],
    ) -> Result<BTreeMap<String, String>, UnusableValue> {
        templates.iter().map(|(name, template)| Ok((name.clone(), self.text(template)?))).collect()
    }

    /// Those of these headers that are read again. `values` are the values of all.
    pub(super) fn rotating(
        &self,
        templates: &[(String, Spanned<Template>)],
        values: &BTreeMap<String, String>,
    ) -> Result<RotatingHeaders, UnusableValue> {
        let mut rotating = BTreeMap::new();
        for (name, template) in templates {
            if let Some(template) = template.value.rotating(self.sources)? {
                rotating.insert(name.clone(), template);
            }
        }
        let values = values.iter().filter(|(name, _)| rotating.contains_key(*name));
        let values = values.map(|(name, value)| (name.clone(), value.clone())).collect();
        Ok(RotatingHeaders::new(rotating, values, self.secrets.clone()))
    }

    /// `text` without the placeholders for what is not known yet.
    pub(super) fn without_placeholders(&self, text: &str) -> String {
        self.secrets.without_placeholders(text).replace(AGENT_CWD, "")
    }

    pub(super) fn roots(&mut self, templates: &[Spanned<Template>]) -> Result<Vec<String>, UnusableValue> {
        let roots = self.texts(templates)?;
        let complaint = "has an entry that is neither an absolute path nor a `file://` URI";
        if roots.iter().all(|root| is_root(root)) {
            Ok(roots)
        } else {
            Err(UnusableValue::Invalid { key: "roots", complaint })
        }
    }
}

pub(in crate::config) fn is_absolute_or_agent_cwd(path: &str) -> bool {
    Path::new(path).is_absolute() || path.starts_with(AGENT_CWD)
}

pub(in crate::config) fn is_root(text: &str) -> bool {
    is_absolute_or_agent_cwd(text) || text.starts_with("file:///")
}

#[derive(Debug)]
pub(in crate::config) struct RemoteTemplate {
    pub(in crate::config) url: Spanned<Template>,
    pub(in crate::config) headers: Vec<(String, Spanned<Template>)>,
    pub(in crate::config) roots: Vec<Spanned<Template>>,
    pub(in crate::config) ca_file: Option<Spanned<Template>>,
    pub(in crate::config) oauth: Option<Spanned<OAuthTemplate>>,
}

/// The value of `oauth`.
#[derive(Debug)]
pub(in crate::config) enum OAuthTemplate {
    Off,
    On(Box<OAuthTableTemplate>),
}

/// The keys of the `oauth` table.
#[derive(Debug, Default)]
pub(in crate::config) struct OAuthTableTemplate {
    pub(in crate::config) grant: Option<Spanned<OAuthGrant>>,
    pub(in crate::config) client_id: Option<Spanned<Template>>,
    pub(in crate::config) client_secret: Option<Spanned<Template>>,
    pub(in crate::config) scopes: Vec<Spanned<String>>,
    pub(in crate::config) redirect_port: Option<Spanned<u16>>,
}

impl RemoteTemplate {
    fn interpolate(&self, interpolation: &mut Interpolation<'_>, is_served: bool) -> Result<Remote, UnusableValue> {
        let unfit = |key: &'static str, complaint: &'static str| UnusableValue::Invalid { key, complaint };
        let url = interpolation.text(&self.url)?;
        // The agent's directory is encoded when the placeholder is replaced.
        let known = interpolation.without_placeholders(&url);
        if let Some(complaint) = url_complaint(&known, is_served) {
            return Err(unfit("url", complaint));
        }
        let headers = interpolation.named(&self.headers)?;
        if !headers.values().all(|value| is_header_value(&interpolation.without_placeholders(value))) {
            return Err(unfit("headers", "has one with a control character"));
        }
        let rotating = interpolation.rotating(&self.headers, &headers)?;
        let roots = interpolation.roots(&self.roots)?;
        let ca_file = self.ca_file.as_ref().map(|path| interpolation.text(path)).transpose()?;
        if ca_file.as_deref().is_some_and(|path| !is_absolute_or_agent_cwd(path)) {
            return Err(unfit("ca_file", "is not an absolute path"));
        }
        let oauth = match self.oauth.as_ref().map(|oauth| &oauth.value) {
            None if is_served || is_unix(&known) => OAuth::Off,
            None => OAuth::default(),
            Some(OAuthTemplate::Off) => OAuth::Off,
            Some(OAuthTemplate::On(_)) if is_unix(&known) => {
                return Err(unfit("oauth", "does not go with a Unix socket"));
            }
            Some(OAuthTemplate::On(keys)) => OAuth::On(keys.interpolate(interpolation)?),
        };
        let (ca_file, secrets) = (ca_file.map(PathBuf::from), interpolation.secrets.clone());
        Ok(Remote { url, headers, rotating, roots, ca_file, oauth, secrets })
    }
}

impl OAuthTableTemplate {
    fn interpolate(&self, interpolation: &mut Interpolation<'_>) -> Result<OAuthSettings, UnusableValue> {
        let mut text = |template: &Option<Spanned<Template>>, complaint: &'static str| {
            let text = template.as_ref().map(|text| interpolation.text(text)).transpose()?;
            let is_fit = text.as_deref().is_none_or(is_credential);
            if is_fit { Ok(text) } else { Err(UnusableValue::Invalid { key: "oauth", complaint }) }
        };
        let client_id = text(&self.client_id, "has a `client_id` that is none")?;
        let client_secret = text(&self.client_secret, "has a `client_secret` that is none")?;
        client_secret.iter().for_each(|secret| interpolation.secrets.add(secret));
        let redirect_port = self.redirect_port.as_ref().map(|port| port.value);
        let grant = self.grant.as_ref().map(|grant| grant.value);
        Ok(OAuthSettings { grant, client_id, client_secret, scopes: values(&self.scopes), redirect_port })
    }
}
