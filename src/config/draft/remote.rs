//! How a server is reached as it is written, and what becomes of that when its `${…}` are filled in.

use std::path::PathBuf;

use url::Url;

use super::super::interpolate::{Template, Undefined};
use super::super::launch::{AGENT_CWD, Remote};
use super::super::oauth::{OAuth, OAuthGrant, OAuthSettings};
use super::super::sourced::{Sourced, values};
use super::filling::{Filling, is_whole};

#[derive(Debug)]
pub(in crate::config) struct RemoteDraft {
    pub(in crate::config) url: Sourced<Template>,
    pub(in crate::config) headers: Vec<(String, Sourced<Template>)>,
    pub(in crate::config) roots: Vec<Sourced<Template>>,
    pub(in crate::config) ca_file: Option<Sourced<Template>>,
    pub(in crate::config) oauth: Option<Sourced<OAuthDraft>>,
}

/// What `oauth` says.
#[derive(Debug)]
pub(in crate::config) enum OAuthDraft {
    Off,
    On(Box<OAuthKeys>),
}

/// The keys of its table.
#[derive(Debug, Default)]
pub(in crate::config) struct OAuthKeys {
    pub(in crate::config) grant: Option<Sourced<OAuthGrant>>,
    pub(in crate::config) client_id: Option<Sourced<Template>>,
    pub(in crate::config) client_secret: Option<Sourced<Template>>,
    pub(in crate::config) scopes: Vec<Sourced<String>>,
    pub(in crate::config) redirect_port: Option<Sourced<u16>>,
}

impl RemoteDraft {
    pub(super) fn fill(&self, mut filling: Filling<'_>) -> Result<Remote, Undefined> {
        let unfit = |key: &'static str, complaint: &'static str| Undefined::Unfit { key, complaint };
        let url = filling.text(&self.url)?;
        // What stands for an agent's directory is encoded when that is filled in.
        if let Some(complaint) = url_complaint(&url.replace(AGENT_CWD, "")) {
            return Err(unfit("url", complaint));
        }
        let headers = filling.named(&self.headers)?;
        if !headers.values().all(|value| is_header_value(value)) {
            return Err(unfit("headers", "has one with a control character"));
        }
        let roots = filling.roots(&self.roots)?;
        let ca_file = self.ca_file.as_ref().map(|path| filling.text(path)).transpose()?;
        if ca_file.as_deref().is_some_and(|path| !is_whole(path)) {
            return Err(unfit("ca_file", "is no whole path"));
        }
        let oauth = match self.oauth.as_ref().map(|oauth| &oauth.value) {
            None => OAuth::default(),
            Some(OAuthDraft::Off) => OAuth::Off,
            Some(OAuthDraft::On(keys)) => OAuth::On(keys.fill(&mut filling)?),
        };
        Ok(Remote { url, headers, roots, ca_file: ca_file.map(PathBuf::from), oauth, secrets: filling.secrets })
    }
}

impl OAuthKeys {
    fn fill(&self, filling: &mut Filling<'_>) -> Result<OAuthSettings, Undefined> {
        let mut text = |template: &Option<Sourced<Template>>, complaint: &'static str| {
            let text = template.as_ref().map(|text| filling.text(text)).transpose()?;
            let is_fit = text.as_deref().is_none_or(is_credential);
            if is_fit { Ok(text) } else { Err(Undefined::Unfit { key: "oauth", complaint }) }
        };
        let client_id = text(&self.client_id, "has a `client_id` that is none")?;
        let client_secret = text(&self.client_secret, "has a `client_secret` that is none")?;
        client_secret.iter().for_each(|secret| filling.secrets.add(secret));
        let redirect_port = self.redirect_port.as_ref().map(|port| port.value);
        let grant = self.grant.as_ref().map(|grant| grant.value);
        Ok(OAuthSettings { grant, client_id, client_secret, scopes: values(&self.scopes), redirect_port })
    }
}

/// Why a text is no URL of a server. A user name would be a secret amid what is shown, and a fragment is sent to nobody.
pub(crate) fn url_complaint(text: &str) -> Option<&'static str> {
    if !["http://", "https://"].iter().any(|scheme| text.strip_prefix(scheme).is_some_and(|rest| !rest.is_empty())) {
        return Some("does not begin with `http://` or `https://`");
    }
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return Some("has a space or a control character");
    }
    match Url::parse(text) {
        Err(_) => Some("is no URL"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Some("has a user name or a password"),
        Ok(url) if url.fragment().is_some() => Some("has a `#`"),
        Ok(_) => None,
    }
}

/// Whether it can be one line of an HTTP message.
pub(in crate::config) fn is_header_value(text: &str) -> bool {
    !text.replace(AGENT_CWD, "").contains(|c: char| c.is_control() && c != '\t')
}

/// Whether it can identify a client, or prove that it is one. Source: RFC 6749, A.1 and A.2.
pub(in crate::config) fn is_credential(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Whether it is one scope. Source: RFC 6749, 3.3, `scope-token`.
pub(in crate::config) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}
