//! How logins stand, for a person.

use super::login::Login;
use super::record::Worth;
use crate::moment;

/// How the login of one server stands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Nobody has logged in, and mcpd has not either.
    Absent {
        /// Whether the server has said that somebody has to.
        is_wanted: bool,
    },
    /// mcpd is let in, as far as it knows.
    Good(Good),
    /// It was. For a person, on one line.
    Over(String),
}

/// A login that is good.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Good {
    /// Who has given it.
    pub(crate) issuer: String,
    /// What it allows.
    pub(crate) scopes: Vec<String>,
    /// In how many seconds its token ends, if that is known.
    pub(crate) expires_in: Option<u64>,
    /// Whether it is mcpd's own.
    pub(crate) is_own: bool,
    /// Whether it is renewed then without anybody.
    pub(crate) renews: bool,
}

impl Login {
    /// # Errors
    /// If it cannot be read.
    pub(crate) async fn standing(&self) -> Result<Standing, String> {
        let Some(kept) = self.kept().await? else { return Ok(Standing::Absent { is_wanted: false }) };
        let Some(grant) = kept.grant else { return Ok(Standing::Absent { is_wanted: kept.challenge.is_some() }) };
        let now = moment::unix_seconds();
        Ok(match grant.worth(None, now) {
            Worth::Nothing(why) => Standing::Over(why),
            Worth::Good | Worth::Due | Worth::Spent => Standing::Good(Good {
                renews: grant.can_renew(),
                issuer: grant.issuer,
                scopes: grant.scopes,
                expires_in: grant.expires_at.map(|end| end.saturating_sub(now)),
                is_own: grant.is_own,
            }),
        })
    }
}
