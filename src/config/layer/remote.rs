//! The keys of an HTTP server as written, and their expansion.

use std::path::PathBuf;

use url::Url;

use super::super::interpolate::{Template, UnusableValue};
use super::super::launch::{AGENT_CWD, Remote};
use super::super::oauth::{OAuth, OAuthGrant, OAuthSettings};
use super::super::spanned::{Spanned, values};
use super::interpolation::{Interpolation, is_absolute_or_agent_cwd};

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
    pub(super) fn interpolate(&self, mut interpolation: Interpolation<'_>) -> Result<Remote, UnusableValue> {
        let unfit = |key: &'static str, complaint: &'static str| UnusableValue::Invalid { key, complaint };
        let url = interpolation.text(&self.url)?;
        // The agent's directory is encoded when the placeholder is replaced.
        if let Some(complaint) = url_complaint(&interpolation.without_placeholders(&url)) {
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
            None => OAuth::default(),
            Some(OAuthTemplate::Off) => OAuth::Off,
            Some(OAuthTemplate::On(keys)) => OAuth::On(keys.interpolate(&mut interpolation)?),
        };
        let (ca_file, secrets) = (ca_file.map(PathBuf::from), interpolation.secrets);
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

/// Why a text is not a valid URL of a server. A user name would print a secret, and a fragment is never sent.
pub(crate) fn url_complaint(text: &str) -> Option<&'static str> {
    let Some(rest) = ["http://", "https://"].iter().find_map(|scheme| text.strip_prefix(scheme)) else {
        return Some("does not begin with `http://` or `https://`");
    };
    if rest.is_empty() {
        return Some("has no host: write one after `//`, as in `https://example.org/mcp`");
    }
    if text.contains(|c: char| c.is_control() || c == ' ') {
        return Some("has a space or a control character");
    }
    match Url::parse(text) {
        Err(url::ParseError::InvalidPort) => Some("has an invalid port: the highest is 65535"),
        Err(_) => Some("is no URL"),
        Ok(url) if !url.username().is_empty() || url.password().is_some() => Some("has a user name or a password"),
        Ok(url) if url.fragment().is_some() => Some("has a `#`"),
        Ok(_) => None,
    }
}

/// Whether it can be a line of an HTTP message.
pub(in crate::config) fn is_header_value(text: &str) -> bool {
    !text.replace(AGENT_CWD, "").contains(|c: char| c.is_control() && c != '\t')
}

/// Whether it can be a client id or a client secret. Source: RFC 6749, A.1 and A.2.
pub(in crate::config) fn is_credential(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Whether it is a valid scope. Source: RFC 6749, 3.3, `scope-token`.
pub(in crate::config) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}
