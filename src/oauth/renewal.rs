//! The next token of a login, made once, whoever asks for it.

use std::time::{Duration, Instant};

use http::header::HeaderValue;

use super::answer;
use super::failure::Failure;
use super::login::{Login, NoToken, Token, unavailable};
use super::metadata::endpoint;
use super::record::{Grant, Record, Worth};
use super::request::Form;
use super::store::Change;
use super::wanted::NOBODY;
use super::web::told;
use crate::moment;

/// When a token that is still good could not be renewed, it is tried again after this.
const AGAIN: Duration = Duration::from_secs(30);

/// What is to be done for a token.
pub(super) enum Step {
    /// There is one.
    Show(Token),
    /// The next one is to be made.
    Make {
        /// From all that is known.
        record: Box<Record>,
        /// Whether the one that is in it is good meanwhile.
        is_good: bool,
    },
}

impl Login {
    /// What is to be done with what is `kept`, when the server has `refused` this header.
    ///
    /// # Errors
    /// If only a person can do something.
    pub(super) fn step(&self, kept: Option<Record>, refused: Option<&HeaderValue>) -> Result<Step, NoToken> {
        let never = || NoToken::LoginNeeded { why: self.own_refused().unwrap_or(NOBODY).to_owned() };
        let record = Box::new(kept.ok_or_else(never)?);
        let Some(grant) = &record.grant else {
            // Whether it wants anything, the server says first.
            let may_enter = record.challenge.is_some() && self.may_enter();
            return if may_enter { Ok(Step::Make { record, is_good: false }) } else { Err(never()) };
        };
        let may_make = !grant.is_own || self.may_enter();
        match grant.worth(refused, moment::unix_seconds()) {
            Worth::Good => Token::of(grant).map(Step::Show),
            Worth::Due => Ok(Step::Make { record, is_good: true }),
            Worth::Spent if may_make => Ok(Step::Make { record, is_good: false }),
            // What was refused then may be taken now, with what is configured now.
            Worth::Nothing(_) if grant.is_own && may_make => Ok(Step::Make { record, is_good: false }),
            Worth::Nothing(why) if !grant.is_own => Err(NoToken::LoginNeeded { why }),
            Worth::Spent | Worth::Nothing(_) => Err(never()),
        }
    }

    /// Makes the next token, unless somebody else has by now.
    pub(super) async fn renewed(&self, refused: Option<HeaderValue>) -> Result<Token, NoToken> {
        let change = self.store().change().await.map_err(unavailable)?;
        let kept = self.counted(change.read().await.map_err(unavailable)?);
        let (record, is_good) = match self.step(kept, refused.as_ref())? {
            Step::Show(token) => return Ok(token),
            Step::Make { record, is_good } => (*record, is_good),
        };
        if let Some(grant) = &record.grant {
            self.web().hold_to(grant);
        }
        let made = match &record.grant {
            Some(grant) if !grant.is_own => self.refreshed(grant).await,
            _ => self.entered(&record).await,
        };
        match (made, &record.grant) {
            (Ok(grant), _) => {
                let grant = Grant { is_public: self.web().was_public(), ..grant };
                let token = Token::of(&grant);
                // It is good, whether or not it is still there after the next start.
                keep(&change, Record { grant: Some(grant), ..record }).await;
                token
            }
            (Err(Failure::Over(why)), grant) => {
                if let Some(grant) = grant {
                    keep(&change, Record { grant: Some(grant.ended(why.clone())), ..record.clone() }).await;
                }
                Err(NoToken::LoginNeeded { why })
            }
            (Err(_), Some(grant)) if is_good => Ok(Token::of(grant)?.due(Instant::now() + AGAIN)),
            (Err(Failure::Refused(why)), _) => Err(NoToken::LoginNeeded { why }),
            (Err(Failure::Later(reason)), _) => Err(NoToken::Unavailable { reason }),
        }
    }

    /// By what it was given for that.
    async fn refreshed(&self, grant: &Grant) -> Result<Grant, Failure> {
        let url = endpoint(&grant.token_endpoint, self.web().configured()).map_err(Failure::Later)?;
        let token = grant.refresh_token.as_deref().unwrap_or_default();
        let form = Form::refresh(&self.signing(&grant.application), token, &grant.resource);
        let answer = self.web().form(&url, form).await.map_err(Failure::Later)?;
        let granted = answer::token(answer.status, &answer.body).map_err(|refused| {
            let why = format!("{} does not renew the login: it {}", told(&url), self.masked(&refused.reason));
            Failure::of(answer.status, &refused, why)
        })?;
        Ok(grant.renewed(granted, moment::unix_seconds()))
    }

    /// By its own credentials. That they are refused is remembered: they are tried once for each start of an instance.
    async fn entered(&self, record: &Record) -> Result<Grant, Failure> {
        let entered = async { self.credited(self.own(record).await?).await };
        let made = entered.await;
        if let Err(Failure::Over(why) | Failure::Refused(why)) = &made {
            self.remember_refused(why);
        }
        made
    }
}

async fn keep(change: &Change, record: Record) {
    if let Err(reason) = change.write(record).await {
        tracing::warn!("a renewed login is lost at the next start: {reason}");
    }
}
