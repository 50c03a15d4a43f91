//! What one server needs to let mcpd in: its token, renewed in time, or why there is none.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use http::header::{AUTHORIZATION, HeaderValue};
use url::Url;

use super::application::Application;
use super::challenge::Challenge;
use super::logins::Logins;
use super::record::{Grant, Record};
use super::renewal::Step;
use super::store::{Change, Store};
use super::wanted::may_be_own;
use super::web::Web;
use crate::config::{OAuth, OAuthGrant, OAuthSettings, Remote, Secrets};
use crate::moment;
use crate::net::client::Client;

/// What one server needs to let mcpd in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Login(Arc<Parts>);

struct Parts {
    settings: OAuthSettings,
    secrets: Secrets,
    web: Web,
    store: Store,
    logins: Logins,
    /// Why mcpd is not let in by its own credentials, once that was said: whoever is given others makes another of these.
    own_refused: OnceLock<String>,
}

/// A token that is good.
#[derive(Debug, Clone)]
pub(crate) struct Token {
    bearer: HeaderValue,
    refresh_at: Option<Instant>,
}

/// Why there is no token. For a person, on one line, and without a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum NoToken {
    /// A person has to log in, for the first time or again: asking again before that is of no use. A server of which nothing
    /// is known yet may let anybody in: one asks it without a token first.
    LoginNeeded {
        /// Why.
        why: String,
    },
    /// There may be one later.
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
        let bearer = grant.bearer().ok_or_else(|| unavailable("what is kept of its login is no token".to_owned()))?;
        let due = grant.due_in(moment::unix_seconds());
        Ok(Self { bearer, refresh_at: due.and_then(|due| Instant::now().checked_add(due)) })
    }

    /// The same, to be renewed at another time.
    pub(super) fn due(self, at: Instant) -> Self {
        Self { refresh_at: Some(at), ..self }
    }

    /// The value of `Authorization`. It is sensitive: no `Debug` shows it.
    #[must_use]
    pub(crate) fn bearer(&self) -> &HeaderValue {
        &self.bearer
    }

    /// When [`Login::token`] is to be asked for the next one; `None` if this one ends unforeseen, or not at all.
    #[must_use]
    pub(crate) fn refresh_at(&self) -> Option<Instant> {
        self.refresh_at
    }
}

impl Login {
    /// Whether such a server is to be logged in to: not if it is configured so, or with an `Authorization` of its own.
    #[must_use]
    pub(crate) fn is_for(remote: &Remote) -> bool {
        let is_let_in = remote.headers.keys().any(|name| name.eq_ignore_ascii_case(AUTHORIZATION.as_str()));
        remote.oauth != OAuth::Off && !is_let_in
    }

    /// That of the server `name` among `logins`. `None` if it is not to be logged in to, or its URL is none.
    #[must_use]
    pub(crate) fn of(name: &str, remote: &Remote, client: Client, logins: &Logins) -> Option<Self> {
        let OAuth::On(settings) = &remote.oauth else { return None };
        if !Self::is_for(remote) {
            return None;
        }
        let url = Url::parse(&remote.url).ok()?;
        let web = Web::new(client, url, &remote.headers);
        Some(Self(Arc::new(Parts {
            settings: settings.clone(),
            secrets: remote.secrets.clone(),
            web,
            store: Store::new(logins.directory().to_owned(), name),
            logins: logins.clone(),
            own_refused: OnceLock::new(),
        })))
    }

    /// A token that is good now: the one that is kept, or the next one if that is about to end or is the one that the server has
    /// `refused`. Several who ask at once, in this process and others, have it renewed once. A caller that goes away changes
    /// nothing of that.
    ///
    /// # Errors
    /// See [`NoToken`].
    pub(crate) async fn token(&self, refused: Option<&Token>) -> Result<Token, NoToken> {
        let refused = refused.map(|token| token.bearer.clone());
        let kept = self.kept().await.map_err(unavailable)?;
        match self.step(kept, refused.as_ref())? {
            Step::Show(token) => Ok(token),
            Step::Make { .. } => {
                let (login, under_way) = (self.clone(), self.0.logins.begin());
                // Whoever has redeemed a refresh token must live to keep the next.
                let renewed = tokio::spawn(async move {
                    let renewed = login.renewed(refused).await;
                    drop(under_way);
                    renewed
                });
                renewed.await.unwrap_or_else(|error| Err(unavailable(error.to_string())))
            }
        }
    }

    /// Keeps what the server has said when it refused a request: `mcpd login` begins with it.
    pub(crate) async fn challenged(&self, challenge: Challenge) {
        let keep = async {
            let change = self.store().change().await?;
            let kept = change.read().await.ok().flatten().filter(|kept| kept.url == self.url());
            let mut record = kept.clone().unwrap_or_else(|| Record::of(self.url()));
            record.challenged(challenge);
            if kept.as_ref() == Some(&record) { Ok(()) } else { change.write(record).await }
        };
        if let Err(reason) = keep.await {
            tracing::warn!("what a server wants of a login is not kept: {reason}");
        }
    }

    /// What is kept for the server at this URL, and counts.
    pub(super) async fn kept(&self) -> Result<Option<Record>, String> {
        Ok(self.counted(self.store().read().await?))
    }

    /// As far as it is for this URL, with the login that is in it only if it is of the kind that is configured.
    pub(super) fn counted(&self, kept: Option<Record>) -> Option<Record> {
        let mut record = kept.filter(|kept| kept.url == self.url())?;
        let settings = self.settings();
        record.grant.take_if(|grant| {
            let is_as_configured = match grant.is_own {
                true => may_be_own(settings) && settings.client_id.as_deref() == Some(&grant.application.id),
                false => settings.grant != Some(OAuthGrant::ClientCredentials),
            };
            !is_as_configured
        });
        Some(record)
    }

    /// Keeps a login that is new, in the place of what there was.
    pub(super) async fn keep(&self, change: &Change, grant: Grant) -> Result<(), String> {
        let grant = Grant { is_public: self.web().was_public(), ..grant };
        let kept = change.read().await.ok().flatten().filter(|kept| kept.url == self.url());
        let mut record = kept.unwrap_or_else(|| Record::of(self.url()));
        record.missing.clear();
        record.grant = Some(grant);
        change.write(record).await
    }

    /// Whether mcpd may try to let itself in.
    pub(super) fn may_enter(&self) -> bool {
        may_be_own(self.settings()) && self.own_refused().is_none()
    }

    /// Why it was not let in when it tried.
    pub(super) fn own_refused(&self) -> Option<&str> {
        self.0.own_refused.get().map(String::as_str)
    }

    pub(super) fn remember_refused(&self, why: &str) {
        self.0.own_refused.get_or_init(|| why.to_owned());
    }

    /// Words of an authorization server as they may be shown: some repeat what they were sent.
    pub(super) fn masked(&self, text: &str) -> String {
        self.0.secrets.masked(text)
    }

    /// With the secret that is configured, which is not kept a second time.
    pub(super) fn signing(&self, application: &Application) -> Application {
        let OAuthSettings { client_id, client_secret, .. } = self.settings();
        let is_configured = client_id.as_deref() == Some(&application.id);
        let secret = if is_configured { client_secret.clone() } else { application.secret.clone() };
        Application { secret, ..application.clone() }
    }

    /// The port to which the browser is to be sent back, if that is configured.
    pub(crate) fn redirect_port(&self) -> Option<u16> {
        self.settings().redirect_port
    }

    pub(super) fn settings(&self) -> &OAuthSettings {
        &self.0.settings
    }

    pub(super) fn web(&self) -> &Web {
        &self.0.web
    }

    pub(super) fn store(&self) -> &Store {
        &self.0.store
    }

    /// What a login is bound to.
    pub(super) fn url(&self) -> &str {
        self.web().configured().as_str()
    }
}

pub(super) fn unavailable(reason: String) -> NoToken {
    NoToken::Unavailable { reason }
}
