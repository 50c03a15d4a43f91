//! The login of one server: its token, renewed in time, or why there is none; its status; and logout.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::header::{AUTHORIZATION, HeaderValue};
use url::Url;

use super::challenge::Challenge;
use super::error::LoginError;
use super::http::{OAuthHttp, shown_origin};
use super::metadata::endpoint;
use super::record::{Grant, LoginRecord, TokenState};
use super::renewal::RenewalStep;
use super::request::{ClientRegistration, Form};
use super::requirements::allows_client_credentials;
use super::store::{Logins, Store, StoreError, StoreLock};
use crate::clock;
use crate::config::{OAuth, OAuthGrant, OAuthSettings, Remote, Secrets};
use crate::net::client::Client;

/// The login of one server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Login(Arc<Parts>);

struct Parts {
    settings: OAuthSettings,
    secrets: Secrets,
    http: OAuthHttp,
    store: Store,
    logins: Logins,
    /// Why the client credentials were refused. New credentials make a new `Login`.
    credentials_refusal: OnceLock<String>,
}

/// A valid token.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    bearer: HeaderValue,
    refresh_at: Option<Instant>,
}

/// Why there is no token. Texts are for a person, on one line, without secrets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoToken {
    /// A person must log in; a retry before that is useless. A server without a stored login may not require one, so it
    /// is first tried without a token.
    LoginNeeded {
        /// Why.
        why: String,
    },
    /// A later request may succeed.
    Unavailable {
        /// What is in the way.
        reason: String,
    },
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login").field("store", self.store()).finish_non_exhaustive()
    }
}

impl Token {
    pub(super) fn of(grant: &Grant) -> Result<Self, NoToken> {
        let bearer = grant.bearer().ok_or_else(|| unavailable("the token of its stored login is not valid"))?;
        let due = grant.due_in(clock::unix_seconds());
        Ok(Self { bearer, refresh_at: due.and_then(|due| Instant::now().checked_add(due)) })
    }

    /// The token with another renewal time.
    pub(super) fn due(self, at: Instant) -> Self {
        Self { refresh_at: Some(at), ..self }
    }

    /// The value of `Authorization`. It is sensitive: `Debug` does not show it.
    #[must_use]
    pub(crate) fn bearer(&self) -> &HeaderValue {
        &self.bearer
    }

    /// When to request the next token by [`Login::token`]; `None` if its end is unknown, or it cannot be renewed.
    #[must_use]
    pub(crate) fn refresh_at(&self) -> Option<Instant> {
        self.refresh_at
    }
}

impl Login {
    /// Whether a server may need a login: not if `oauth` is off, or `Authorization` is configured.
    #[must_use]
    pub(crate) fn is_for(remote: &Remote) -> bool {
        let is_let_in = remote.headers.keys().any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        remote.oauth != OAuth::Off && !is_let_in && !remote.is_at_socket()
    }

    /// The login of the server `name`. `None` if it needs none, or its URL is not valid.
    #[must_use]
    pub(crate) fn of(name: &str, remote: &Remote, client: Client, logins: &Logins) -> Option<Self> {
        let OAuth::On(settings) = &remote.oauth else { return None };
        if !Self::is_for(remote) {
            return None;
        }
        let url = Url::parse(&remote.url).ok()?;
        let http = OAuthHttp::new(client, url, &remote.latest_headers());
        Some(Self(Arc::new(Parts {
            settings: settings.clone(),
            secrets: remote.secrets.clone(),
            http,
            store: Store::new(logins.directory().to_owned(), name),
            logins: logins.clone(),
            credentials_refusal: OnceLock::new(),
        })))
    }

    /// A valid token: the stored one, or a new one if that is about to expire or was `refused` by the server.
    /// Concurrent callers, also in other processes, renew it once. A cancelled caller does not stop the renewal.
    ///
    /// # Errors
    /// See [`NoToken`].
    pub(crate) async fn token(&self, refused: Option<&Token>) -> Result<Token, NoToken> {
        let refused = refused.map(|token| token.bearer.clone());
        let stored = self.stored().await.map_err(unavailable)?;
        match self.step(stored, refused.as_ref())? {
            RenewalStep::Use(token) => Ok(token),
            RenewalStep::Renew { .. } => {
                let (login, in_progress) = (self.clone(), self.0.logins.begin());
                // A task of its own, since a redeemed refresh token is lost unless its successor is stored.
                let renewed = tokio::spawn(async move {
                    let renewed = login.renew(refused).await;
                    drop(in_progress);
                    renewed
                });
                renewed.await.unwrap_or_else(|error| Err(unavailable(error)))
            }
        }
    }

    /// Stores the challenge of a refused request, with which `mcpd login` begins.
    pub(crate) async fn challenged(&self, challenge: Challenge) {
        let save = async {
            let lock = self.store().lock().await?;
            let stored = lock.read().await.ok().flatten().filter(|stored| stored.url == self.url());
            let mut record = stored.clone().unwrap_or_else(|| LoginRecord::of(self.url()));
            record.challenged(challenge);
            if stored.as_ref() == Some(&record) { Ok(()) } else { lock.write(record).await }
        };
        if let Err(reason) = save.await {
            tracing::warn!("cannot store what a server requires for a login: {reason}");
        }
    }

    /// The stored record, if it applies.
    pub(super) async fn stored(&self) -> Result<Option<LoginRecord>, StoreError> {
        Ok(self.applicable(self.store().read().await?))
    }

    /// Makes the tokens of a grant known before they are sent.
    pub(super) fn note(&self, Grant { access_token, refresh_token, registration, .. }: &Grant) {
        let tokens = [Some(access_token), refresh_token.as_ref(), registration.secret.as_ref()];
        self.0.logins.secrets().add_tokens(tokens.into_iter().flatten().map(String::as_str));
    }

    /// The record, if it is for this URL. Its grant is removed if it is not of the configured kind.
    pub(super) fn applicable(&self, stored: Option<LoginRecord>) -> Option<LoginRecord> {
        let mut record = stored.filter(|stored| stored.url == self.url())?;
        let settings = self.settings();
        record.grant.take_if(|grant| {
            let is_as_configured = match grant.uses_client_credentials {
                true => {
                    allows_client_credentials(settings) && settings.client_id.as_deref() == Some(&grant.registration.id)
                }
                false => settings.grant != Some(OAuthGrant::ClientCredentials),
            };
            !is_as_configured
        });
        record.grant.iter().for_each(|grant| self.note(grant));
        Some(record)
    }

    /// Stores a new login in place of the old one.
    pub(super) async fn save(&self, lock: &StoreLock, grant: Grant) -> Result<(), StoreError> {
        let grant = Grant { is_public: self.http().was_public(), ..grant };
        let stored = lock.read().await.ok().flatten().filter(|stored| stored.url == self.url());
        let mut record = stored.unwrap_or_else(|| LoginRecord::of(self.url()));
        record.missing.clear();
        record.grant = Some(grant);
        lock.write(record).await
    }

    /// Whether mcpd may try its client credentials.
    pub(super) fn may_use_client_credentials(&self) -> bool {
        allows_client_credentials(self.settings()) && self.0.credentials_refusal.get().is_none()
    }

    /// Why there is no login: the client credentials were refused, or nobody has logged in.
    pub(super) fn why_not_logged_in(&self) -> String {
        self.0.credentials_refusal.get().cloned().unwrap_or_else(|| LoginError::NotLoggedIn.to_string())
    }

    pub(super) fn remember_refusal(&self, why: String) {
        self.0.credentials_refusal.get_or_init(|| why);
    }

    /// An authorization server's text without secrets, which some repeat.
    pub(super) fn masked(&self, text: &str) -> String {
        self.0.secrets.masked(text)
    }

    /// The registration with the configured secret, which is not stored.
    pub(super) fn signing(&self, registration: &ClientRegistration) -> ClientRegistration {
        let OAuthSettings { client_id, client_secret, .. } = self.settings();
        let is_configured = client_id.as_deref() == Some(&registration.id);
        let secret = if is_configured { client_secret.clone() } else { registration.secret.clone() };
        ClientRegistration { secret, ..registration.clone() }
    }

    /// The configured port of the callback.
    pub(crate) fn redirect_port(&self) -> Option<u16> {
        self.settings().redirect_port
    }

    pub(super) fn settings(&self) -> &OAuthSettings {
        &self.0.settings
    }

    pub(super) fn http(&self) -> &OAuthHttp {
        &self.0.http
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    /// The URL that a login is bound to.
    pub(super) fn url(&self) -> &str {
        self.http().configured().as_str()
    }
}

pub(super) fn unavailable(error: impl fmt::Display) -> NoToken {
    NoToken::Unavailable { reason: error.to_string() }
}

/// The status of one server's login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LoginStatus {
    /// There is no login.
    Absent {
        /// Whether the server has required one.
        is_required: bool,
    },
    /// There is a login, valid as far as known.
    Valid(ValidLogin),
    /// The login has ended. For a person, on one line.
    Ended(String),
}

/// A valid login.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValidLogin {
    /// The authorization server.
    pub(crate) issuer: String,
    /// The granted scopes.
    pub(crate) scopes: Vec<String>,
    /// Seconds until the token expires, if known.
    pub(crate) expires_in: Option<u64>,
    /// Whether it uses client credentials.
    pub(crate) uses_client_credentials: bool,
    /// Whether it is renewed without a person.
    pub(crate) renews: bool,
}

impl Login {
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn status(&self) -> Result<LoginStatus, LoginError> {
        let Some(stored) = self.stored().await? else { return Ok(LoginStatus::Absent { is_required: false }) };
        let Some(grant) = stored.grant else {
            return Ok(LoginStatus::Absent { is_required: stored.challenge.is_some() });
        };
        let now = clock::unix_seconds();
        Ok(match grant.token_state(None, now) {
            TokenState::Unavailable(why) => LoginStatus::Ended(why),
            TokenState::Valid | TokenState::RenewalDue | TokenState::Expired => LoginStatus::Valid(ValidLogin {
                renews: grant.can_renew(),
                issuer: grant.issuer,
                scopes: grant.scopes,
                expires_in: grant.expires_at.map(|end| end.saturating_sub(now)),
                uses_client_credentials: grant.uses_client_credentials,
            }),
        })
    }
}

/// The result of a logout.
pub(crate) struct Logout {
    /// Whether there was a login.
    pub(crate) was_logged_in: bool,
    /// Whether mcpd will log in again by its client credentials.
    pub(crate) logs_in_again: bool,
    /// Why the token may not be revoked.
    pub(crate) not_revoked: Option<LoginError>,
}

impl Login {
    /// Deletes the stored login, and revokes its token.
    ///
    /// # Errors
    /// If it could not be deleted.
    pub(crate) async fn log_out(&self) -> Result<Logout, LoginError> {
        let lock = self.store().lock().await?;
        let stored = lock.read().await.ok().flatten();
        let grant = stored
            .filter(|stored| stored.url == self.url())
            .and_then(|stored| stored.grant)
            .filter(|grant| grant.over.is_none());
        let revoked = match &grant {
            Some(grant) => {
                self.http().restrict_to(grant);
                self.revoke(grant).await
            }
            None => Ok(()),
        };
        lock.remove().await?;
        Ok(Logout {
            was_logged_in: grant.is_some(),
            logs_in_again: grant
                .is_some_and(|grant| grant.uses_client_credentials && self.may_use_client_credentials()),
            not_revoked: revoked.err(),
        })
    }

    /// Revoking the refresh token also ends its access tokens. Source: RFC 7009, 2.1.
    async fn revoke(&self, grant: &Grant) -> Result<(), LoginError> {
        let Some(text) = &grant.revocation_endpoint else {
            return Err(LoginError::NoRevocation);
        };
        let url = endpoint(text, self.http().configured())?;
        let (token, kind) = match &grant.refresh_token {
            Some(token) => (token, "refresh_token"),
            None => (&grant.access_token, "access_token"),
        };
        let form = Form::revocation(&self.signing(&grant.registration), token, kind);
        let response = self.http().post_form(&url, form).await?;
        match response.status {
            200..300 => Ok(()),
            status => Err(LoginError::RevocationRefused { issuer: shown_origin(&url), status }),
        }
    }
}
