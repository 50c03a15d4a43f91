//! What a server wants before it lets mcpd in, and from whom: a person, or mcpd itself.

use url::Url;

use super::answer::Granted;
use super::application::Application;
use super::discovery::{self, Found};
use super::failure::Failure;
use super::login::Login;
use super::metadata::Issuer;
use super::record::{Grant, Record};
use super::scopes::{self, Offered};
use super::web::told;
use crate::config::{OAuthGrant, OAuthSettings};
use crate::moment;
use crate::net::origin;

/// How mcpd comes to be let in at a server.
pub(crate) enum Way {
    /// The server lets anybody in.
    Open,
    /// By its own credentials.
    Own(Wanted),
    /// A person has to agree.
    Agreed(Wanted),
}

/// What there is to be obtained, and where.
pub(crate) struct Wanted {
    pub(super) found: Found,
    pub(super) scopes: Vec<String>,
}

impl Login {
    /// Asks the server what it wants.
    ///
    /// # Errors
    /// If mcpd cannot be let in there; for a person, on one line.
    pub(crate) async fn way(&self) -> Result<Way, String> {
        // What cannot be read is replaced.
        let kept = self.kept().await.ok().flatten();
        let told = self.web().probe().await?;
        let Some(challenge) = told.or_else(|| kept.as_ref().and_then(|kept| kept.challenge.clone())) else {
            return Ok(Way::Open);
        };
        let found = discovery::look(self.web(), &challenge).await.map_err(Failure::why)?;
        let is_own = is_own(self.settings(), &found.issuer);
        let before = kept.as_ref().and_then(|kept| kept.grant.as_ref()).map(|grant| &grant.scopes[..]);
        let scopes = scopes::chosen(&Offered {
            configured: &self.settings().scopes,
            challenged: &challenge.scopes(),
            before: before.unwrap_or_default(),
            missing: kept.as_ref().map(|kept| &kept.missing[..]).unwrap_or_default(),
            of_resource: &found.scopes,
            // What it might add is for those who come back without a person, and nobody else ever comes back.
            of_issuer: if is_own { &[] } else { &found.issuer.scopes_supported },
        });
        let wanted = Wanted { found, scopes };
        Ok(if is_own { Way::Own(wanted) } else { Way::Agreed(wanted) })
    }

    /// The same for one who has nobody to ask, and knows what the server has said. What was allowed before is asked for again, and
    /// nothing that was not: what only some call needs might be refused, and all the rest with it.
    ///
    /// # Errors
    /// If somebody does not answer, or it takes a person.
    pub(super) async fn own(&self, record: &Record) -> Result<Wanted, Failure> {
        let challenge = record.challenge.clone().unwrap_or_default();
        let found = discovery::look(self.web(), &challenge).await?;
        if !is_own(self.settings(), &found.issuer) {
            return Err(Failure::Refused(NOBODY.to_owned()));
        }
        let kept = record.grant.as_ref();
        if kept.is_none() && self.settings().grant.is_none() {
            // A secret that may be meant for a person's login is shown to nobody that a server names while no one looks.
            return Err(Failure::Refused(UNSAID.to_owned()));
        }
        if let Some(before) = kept.and_then(|kept| Url::parse(&kept.token_endpoint).ok())
            && !origin::same(&before, &found.token)
        {
            // The secret is worth more than a token, and nobody is there who would see for whom it is.
            let (before, now) = (told(&before), told(&found.token));
            return Err(Failure::Refused(format!(
                "it names {now} in the place of {before}, which has let mcpd in before"
            )));
        }
        let chosen = scopes::chosen(&Offered {
            configured: &self.settings().scopes,
            challenged: &challenge.scopes(),
            of_resource: &found.scopes,
            ..Offered::default()
        });
        let before = kept.filter(|_| self.settings().scopes.is_empty());
        let mut scopes = before.map(|grant| grant.scopes.clone()).unwrap_or_default();
        scopes::add(&mut scopes, &chosen);
        Ok(Wanted { found, scopes })
    }
}

impl Wanted {
    /// What is kept of the token that was `granted` now for this. A person's, unless it is said otherwise.
    pub(super) fn granted(self, granted: Granted, application: Application) -> Grant {
        let Self { found, scopes } = self;
        let now = moment::unix_seconds();
        Grant {
            issuer: found.issuer.issuer,
            resource: found.resource,
            token_endpoint: found.token.into(),
            revocation_endpoint: found.revocation.map(String::from),
            application,
            is_own: false,
            is_public: false,
            scopes: granted.scopes.unwrap_or(scopes),
            access_token: granted.access_token,
            refresh_token: granted.refresh_token,
            obtained_at: now,
            expires_at: granted.expires_in.map(|seconds| now.saturating_add(seconds)),
            over: None,
        }
    }
}

/// Why nobody is shown a secret.
const UNSAID: &str = "nobody has logged in to it, and its `oauth` does not say `grant = \"client_credentials\"`";
/// Why there is no token where it takes a person.
pub(super) const NOBODY: &str = "nobody has logged in to it";

/// Whether mcpd might be let in by its own credentials.
pub(super) fn may_be_own(settings: &OAuthSettings) -> bool {
    let has_both = settings.client_id.is_some() && settings.client_secret.is_some();
    has_both && settings.grant != Some(OAuthGrant::AuthorizationCode)
}

/// Whether it is, at this authorization server: where nothing is configured, only if there is no other way.
/// Source: MCP extension `io.modelcontextprotocol/oauth-client-credentials`; RFC 8414, 2 (`grant_types_supported`).
fn is_own(settings: &OAuthSettings, issuer: &Issuer) -> bool {
    let is_only_way = || issuer.grants("client_credentials") && !issuer.grants("authorization_code");
    may_be_own(settings) && (settings.grant.is_some() || is_only_way())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mcpd_lets_itself_in_where_that_is_said_or_the_only_way() {
        use OAuthGrant::{AuthorizationCode, ClientCredentials};
        let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        let words = |words: &str| words.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        for (id, secret, grant, offered, expected) in [
            ("i", "s", None, Some("client_credentials"), true),
            ("i", "s", None, Some("client_credentials refresh_token"), true),
            ("i", "s", None, Some("client_credentials authorization_code"), false),
            ("i", "s", None, Some("authorization_code"), false),
            ("i", "s", None, Some(""), false),
            ("i", "s", None, None, false),
            ("i", "", None, Some("client_credentials"), false),
            ("", "", None, Some("client_credentials"), false),
            ("i", "s", Some(AuthorizationCode), Some("client_credentials"), false),
            ("i", "s", Some(ClientCredentials), Some("client_credentials authorization_code"), true),
            ("i", "s", Some(ClientCredentials), Some("authorization_code"), true),
            ("i", "s", Some(ClientCredentials), None, true),
        ] {
            let settings =
                OAuthSettings { grant, client_id: text(id), client_secret: text(secret), ..OAuthSettings::default() };
            let url = Url::parse("https://b.org").expect("a URL");
            let issuer = Issuer { grant_types_supported: offered.map(words), ..Issuer::assumed(&url) };
            assert_eq!(is_own(&settings, &issuer), expected, "{id} {secret} {grant:?} {offered:?}");
        }
    }
}
