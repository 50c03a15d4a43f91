//! What one server needs to let mcpd in: its token, renewed in time, or why there is none.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::header::{AUTHORIZATION, HeaderValue};
use url::Url;

use super::answer::{self, Granted};
use super::application::Application;
use super::challenge::Challenge;
use super::metadata::endpoint;
use super::record::{Grant, Record, Worth};
use super::request::Form;
use super::store::{Change, Store};
use super::web::{Web, told};
use crate::config::{OAuth, OAuthSettings, Remote};
use crate::moment;
use crate::net::client::Client;

/// When a token that is still good could not be renewed, it is tried again after this.
const AGAIN: Duration = Duration::from_secs(30);
/// What an authorization server says of a grant, or of mcpd, that it will never take again. Source: RFC 6749, 5.2.
const FINAL: [&str; 3] = ["invalid_grant", "invalid_client", "unauthorized_client"];
/// What it says when it might take it later. Source: RFC 6749, 4.1.2.1; RFC 8628, 3.5.
const TRANSIENT: [&str; 3] = ["server_error", "temporarily_unavailable", "slow_down"];

/// What one server needs to let mcpd in. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Login(Arc<Parts>);

struct Parts {
    settings: OAuthSettings,
    web: Web,
    store: Store,
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

    /// That of the server `name`, whose logins are kept in `directory`. `None` if it is not to be logged in to, or its URL is
    /// none.
    #[must_use]
    pub(crate) fn of(name: &str, remote: &Remote, client: Client, directory: PathBuf) -> Option<Self> {
        let OAuth::On(settings) = &remote.oauth else { return None };
        if !Self::is_for(remote) {
            return None;
        }
        let url = Url::parse(&remote.url).ok()?;
        let web = Web::new(client, url, &remote.headers);
        Some(Self(Arc::new(Parts { settings: settings.clone(), web, store: Store::new(directory, name) })))
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
        let Some(grant) = kept.and_then(|kept| kept.grant) else { return Err(never()) };
        match grant.worth(refused.as_ref(), moment::unix_seconds()) {
            Worth::Good => token(&grant),
            Worth::Nothing(why) => Err(NoToken::LoginNeeded { why }),
            Worth::Due | Worth::Spent => {
                let login = self.clone();
                // Whoever has redeemed a refresh token must live to keep the next.
                let renewed = tokio::spawn(async move { login.renewed(refused).await }).await;
                renewed.unwrap_or_else(|error| Err(unavailable(error.to_string())))
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

    /// What is kept for the server at this URL.
    pub(super) async fn kept(&self) -> Result<Option<Record>, String> {
        Ok(self.store().read().await?.filter(|kept| kept.url == self.url()))
    }

    /// Renews the token, unless somebody else has by now.
    async fn renewed(&self, refused: Option<HeaderValue>) -> Result<Token, NoToken> {
        let change = self.store().change().await.map_err(unavailable)?;
        let kept = change.read().await.map_err(unavailable)?.filter(|kept| kept.url == self.url());
        let Some((record, grant)) = kept.and_then(|kept| Some((kept.clone(), kept.grant?))) else {
            return Err(never());
        };
        let is_good = match grant.worth(refused.as_ref(), moment::unix_seconds()) {
            Worth::Good => return token(&grant),
            Worth::Nothing(why) => return Err(NoToken::LoginNeeded { why }),
            Worth::Due => true,
            Worth::Spent => false,
        };
        match self.refresh(&grant).await {
            Ok(granted) => {
                let grant = grant.renewed(granted, moment::unix_seconds());
                // It is good, whether or not it is still there after the next start.
                keep(&change, Record { grant: Some(grant.clone()), ..record }).await;
                token(&grant)
            }
            Err(Failure::Over(why)) => {
                keep(&change, Record { grant: Some(grant.ended(why.clone())), ..record }).await;
                Err(NoToken::LoginNeeded { why })
            }
            Err(_) if is_good => Ok(Token { refresh_at: Some(Instant::now() + AGAIN), ..token(&grant)? }),
            Err(Failure::Refused(why)) => Err(NoToken::LoginNeeded { why }),
            Err(Failure::Later(reason)) => Err(NoToken::Unavailable { reason }),
        }
    }

    async fn refresh(&self, grant: &Grant) -> Result<Granted, Failure> {
        let url = endpoint(&grant.token_endpoint, self.web().configured()).map_err(Failure::Later)?;
        let token = grant.refresh_token.as_deref().unwrap_or_default();
        let form = Form::refresh(&self.signing(&grant.application), token, &grant.resource);
        let answer = self.web().form(&url, form).await.map_err(Failure::Later)?;
        answer::token(answer.status, &answer.body).map_err(|refused| {
            let why = format!("{} does not renew the login: it {}", told(&url), refused.reason);
            match refused.error.as_deref() {
                Some(error) if FINAL.contains(&error) => Failure::Over(why),
                Some(error) if !TRANSIENT.contains(&error) && !is_transient(answer.status) => Failure::Refused(why),
                _ => Failure::Later(why),
            }
        })
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

/// Why a token was not renewed. For a person, on one line.
enum Failure {
    /// It never will be.
    Over(String),
    /// It will not be, as far as can be known.
    Refused(String),
    /// It may be later.
    Later(String),
}

/// Whether a status says that another time it might be another one. Source: RFC 9110, 15.5.9 and 15.6; RFC 6585, 4.
fn is_transient(status: u16) -> bool {
    matches!(status, 408 | 429 | 500..)
}

async fn keep(change: &Change, record: Record) {
    if let Err(reason) = change.write(record).await {
        tracing::warn!("a renewed login is lost at the next start: {reason}");
    }
}

fn token(grant: &Grant) -> Result<Token, NoToken> {
    let bearer = grant.bearer().ok_or_else(|| unavailable("what is kept of its login is no token".to_owned()))?;
    let due = grant.due_in(moment::unix_seconds());
    Ok(Token { bearer, refresh_at: due.and_then(|due| Instant::now().checked_add(due)) })
}

fn never() -> NoToken {
    NoToken::LoginNeeded { why: "nobody has logged in to it".to_owned() }
}

fn unavailable(reason: String) -> NoToken {
    NoToken::Unavailable { reason }
}
