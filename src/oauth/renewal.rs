//! Obtains tokens without a person, once for all callers: by a refresh token, or with client credentials.
//!
//! A token of client credentials has no refresh token: the next one is requested like the first. Source: OAuth 2.1, 4.2;
//! MCP extension `io.modelcontextprotocol/oauth-client-credentials`.

use std::time::{Duration, Instant};

use http::header::HeaderValue;

use super::error::LoginError;
use super::http::{NoResponse, Response, shown_origin};
use super::login::{Login, NoToken, Token, unavailable};
use super::metadata::endpoint;
use super::record::{Grant, LoginRecord, TokenState};
use super::request::{self, AuthMethod, ClientRegistration, Form, TokenError, TokenResponse};
use super::requirements::Requirements;
use super::store::StoreLock;
use crate::clock;

/// Delay after a failed renewal while the token is still valid.
const RENEWAL_RETRY: Duration = Duration::from_secs(30);

/// The next step to a token.
pub(super) enum RenewalStep {
    /// There is a valid token.
    Use(Token),
    /// A new one must be obtained.
    Renew {
        /// From this record.
        record: Box<LoginRecord>,
        /// Whether the record's token is valid meanwhile.
        is_valid: bool,
    },
}

impl Login {
    /// The next step, given the `stored` record and the header that the server has `refused`.
    ///
    /// # Errors
    /// If a person must log in.
    pub(super) fn step(
        &self,
        stored: Option<LoginRecord>,
        refused: Option<&HeaderValue>,
    ) -> Result<RenewalStep, NoToken> {
        let never = || NoToken::LoginNeeded { why: self.why_not_logged_in() };
        let record = Box::new(stored.ok_or_else(never)?);
        let Some(grant) = &record.grant else {
            // The server must have required a login first.
            let may_try = record.challenge.is_some() && self.may_use_client_credentials();
            return if may_try { Ok(RenewalStep::Renew { record, is_valid: false }) } else { Err(never()) };
        };
        let may_renew = !grant.uses_client_credentials || self.may_use_client_credentials();
        match grant.token_state(refused, clock::unix_seconds()) {
            TokenState::Valid => Token::of(grant).map(RenewalStep::Use),
            TokenState::RenewalDue => Ok(RenewalStep::Renew { record, is_valid: true }),
            TokenState::Expired if may_renew => Ok(RenewalStep::Renew { record, is_valid: false }),
            // Credentials that were refused may be accepted with the current configuration.
            TokenState::Unavailable(_) if grant.uses_client_credentials && may_renew => {
                Ok(RenewalStep::Renew { record, is_valid: false })
            }
            TokenState::Unavailable(why) if !grant.uses_client_credentials => Err(NoToken::LoginNeeded { why }),
            TokenState::Expired | TokenState::Unavailable(_) => Err(never()),
        }
    }

    /// Obtains the next token, unless another process has done so by now.
    pub(super) async fn renew(&self, refused: Option<HeaderValue>) -> Result<Token, NoToken> {
        let lock = self.store().lock().await.map_err(unavailable)?;
        let stored = self.applicable(lock.read().await.map_err(unavailable)?);
        let (record, is_valid) = match self.step(stored, refused.as_ref())? {
            RenewalStep::Use(token) => return Ok(token),
            RenewalStep::Renew { record, is_valid } => (*record, is_valid),
        };
        if let Some(grant) = &record.grant {
            self.http().restrict_to(grant);
        }
        let obtained = match &record.grant {
            Some(grant) if !grant.uses_client_credentials => self.refresh(grant).await,
            _ => self.token_by_client_credentials(&record).await,
        };
        match (obtained, &record.grant) {
            (Ok(grant), _) => {
                self.note(&grant);
                let grant = Grant { is_public: self.http().was_public(), ..grant };
                let token = Token::of(&grant);
                // The token is valid even if it could not be stored.
                save(&lock, LoginRecord { grant: Some(grant), ..record }).await;
                token
            }
            (Err(TokenError::Permanent(why)), grant) => {
                let why = why.to_string();
                if let Some(grant) = grant {
                    save(&lock, LoginRecord { grant: Some(grant.ended(why.clone())), ..record.clone() }).await;
                }
                Err(NoToken::LoginNeeded { why })
            }
            (Err(_), Some(grant)) if is_valid => Ok(Token::of(grant)?.due(Instant::now() + RENEWAL_RETRY)),
            (Err(TokenError::Refused(why)), _) => Err(NoToken::LoginNeeded { why: why.to_string() }),
            (Err(TokenError::Temporary(why)), _) => Err(unavailable(why)),
        }
    }

    /// Uses the refresh token.
    async fn refresh(&self, grant: &Grant) -> Result<Grant, TokenError> {
        let url = endpoint(&grant.token_endpoint, self.http().configured())
            .map_err(|why| TokenError::Temporary(why.into()))?;
        let token = grant.refresh_token.as_deref().unwrap_or_default();
        let send =
            || self.http().post_form(&url, Form::refresh(&self.signing(&grant.registration), token, &grant.resource));
        let mut sent = send().await;
        // The server may have renewed it. Many accept the same refresh token once more then.
        let lost = lost_answer(&sent);
        if lost.is_some() {
            sent = send().await;
        }
        let response = sent.map_err(|none| TokenError::Temporary(none.into()))?;
        let granted = request::parse_token(response.status, &response.body).map_err(|refused| {
            let (issuer, reason) = (shown_origin(&url), self.masked(&refused.reason));
            TokenError::of(response.status, &refused, LoginError::RenewalRefused { issuer, reason, lost })
        })?;
        Ok(grant.renewed(granted, clock::unix_seconds()))
    }

    /// Uses client credentials. A refusal is remembered: they are tried once per start of an instance.
    async fn token_by_client_credentials(&self, record: &LoginRecord) -> Result<Grant, TokenError> {
        let requested = async { self.request_token(self.stored_requirements(record).await?).await };
        let obtained = requested.await;
        if let Err(TokenError::Permanent(why) | TokenError::Refused(why)) = &obtained {
            self.remember_refusal(why.to_string());
        }
        obtained
    }
}

/// Why the answer to a request was lost on the way, if it was: the server may have processed the request.
fn lost_answer(sent: &Result<Response, NoResponse>) -> Option<String> {
    match sent {
        Err(none) if none.is_lost() => Some(none.to_string()),
        // A proxy answers for the server.
        Ok(Response { status: status @ (502 | 504), .. }) => Some(format!("status {status}")),
        Ok(_) | Err(_) => None,
    }
}

async fn save(lock: &StoreLock, record: LoginRecord) {
    if let Err(reason) = lock.write(record).await {
        tracing::warn!("cannot store a renewed login, which is lost at the next start: {reason}");
    }
}

impl Login {
    /// Logs in with client credentials, and stores the token.
    ///
    /// # Errors
    /// If the request is refused, or the token cannot be stored.
    pub(crate) async fn log_in_with_client_credentials(&self, requirements: Requirements) -> Result<(), LoginError> {
        let lock = self.store().lock().await?;
        let grant = self.request_token(requirements).await?;
        Ok(self.save(&lock, grant).await?)
    }

    /// Requests a token with the client credentials.
    ///
    /// # Errors
    /// If the request is refused.
    pub(super) async fn request_token(&self, requirements: Requirements) -> Result<Grant, TokenError> {
        let Requirements { found, scopes } = &requirements;
        let Some(id) = &self.settings().client_id else {
            return Err(TokenError::Refused(LoginError::NoClientId));
        };
        let known = found.issuer.token_endpoint_auth_methods_supported.as_deref();
        let registration =
            ClientRegistration { id: id.clone(), secret: None, method: AuthMethod::supported(true, known) };
        let form = Form::client_credentials(&self.signing(&registration), scopes, &found.resource);
        let response =
            self.http().post_form(&found.token, form).await.map_err(|none| TokenError::Temporary(none.into()))?;
        let granted = request::parse_token(response.status, &response.body).map_err(|refused| {
            let (issuer, reason) = (shown_origin(&found.token), self.masked(&refused.reason));
            TokenError::of(response.status, &refused, LoginError::ClientCredentialsRefused { issuer, reason })
        })?;
        // Source: RFC 6749, 4.4.3: a refresh token should not be included.
        let granted = TokenResponse { refresh_token: None, ..granted };
        Ok(Grant { uses_client_credentials: true, ..requirements.granted(granted, registration) })
    }
}
