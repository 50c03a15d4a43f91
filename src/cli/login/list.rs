//! Lists the servers with a URL and their logins.

use std::process::ExitCode;

use serde::Serialize;
use serde_with::skip_serializing_none;

use super::LoginContext;
use crate::cli::outcome::print_report;
use crate::cli::print;
use crate::cli::style::{Cell, Column, OutputStyle, Tone};
use crate::cli::text::short_duration;
use crate::config::Remote;
use crate::oauth::{Login, LoginStatus};

/// Servers with a URL, and their logins.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport {
    /// One entry for each server with a `url`, in the order of the configuration.
    logins: Vec<Row>,
}

/// The login at one server.
#[skip_serializing_none]
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Row {
    /// Name of the server.
    server: String,
    /// State of the login.
    login: LoginState,
    /// Why the login is not `good`.
    reason: Option<String>,
    /// `authorization_code` if a person has agreed; `client_credentials` if mcpd has its own login.
    grant: Option<&'static str>,
    /// The authorization server.
    issuer: Option<String>,
    /// Granted scopes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    scopes: Vec<String>,
    /// Time until the token expires.
    expires_in_ms: Option<u64>,
    /// Whether mcpd then renews it by itself.
    renews: Option<bool>,
}

/// State of a login.
#[derive(Debug, Clone, Copy, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
enum LoginState {
    /// The login is valid.
    Good,
    /// The server has refused access without a login.
    Needed,
    /// The login has ended: log in again, or correct the configuration.
    Over,
    /// Nobody has logged in, and the server has not required a login.
    None,
    /// The configuration has credentials, such as an `Authorization` header.
    Configured,
    /// The state is not known.
    Unknown,
}

pub(super) async fn run(context: &LoginContext, as_json: bool) -> ExitCode {
    let mut logins = Vec::new();
    for (name, remote) in context.remotes() {
        logins.push(row(context, name, remote).await);
    }
    if as_json {
        return print_report(&JsonReport { logins });
    }
    if logins.is_empty() {
        return print("no server is reached by a URL, so there is nothing to log in to\n");
    }
    const COLUMNS: [Column; 4] = [
        Column::text("SERVER").min_width(12),
        Column::text("LOGIN"),
        Column::text("ISSUER").min_width(16).drop_rank(2),
        Column::text("SCOPES").min_width(12).drop_rank(1),
    ];
    let rows = logins.iter().map(|row| {
        let (text, tone) = row.cell_text();
        let issuer = row.issuer.as_deref().unwrap_or_default();
        [row.server.as_str().into(), Cell::new(tone, text), issuer.into(), row.scopes.join(" ").into()]
    });
    print(OutputStyle::of_stdout().fit_table(&COLUMNS, rows.collect()))
}

async fn row(context: &LoginContext, name: &str, remote: &Remote) -> Row {
    let of = |login| Row {
        server: name.to_owned(),
        login,
        reason: None,
        grant: None,
        issuer: None,
        scopes: Vec::new(),
        expires_in_ms: None,
        renews: None,
    };
    let because = |login, reason| Row { reason: Some(reason), ..of(login) };
    if !Login::is_for(remote) {
        return of(LoginState::Configured);
    }
    let login = match context.login_of(name, remote).await {
        Ok(login) => login,
        Err(reason) => return because(LoginState::Unknown, reason.to_string()),
    };
    match login.status().await {
        Ok(LoginStatus::Valid(good)) => Row {
            grant: Some(if good.uses_client_credentials { "client_credentials" } else { "authorization_code" }),
            issuer: Some(good.issuer),
            scopes: good.scopes,
            expires_in_ms: good.expires_in.map(|seconds| seconds.saturating_mul(1000)),
            renews: Some(good.renews),
            ..of(LoginState::Good)
        },
        Ok(LoginStatus::Ended(reason)) => because(LoginState::Over, reason),
        Ok(LoginStatus::Absent { is_required: true }) => of(LoginState::Needed),
        Ok(LoginStatus::Absent { is_required: false }) => of(LoginState::None),
        Err(error) => because(LoginState::Unknown, error.to_string()),
    }
}

impl Row {
    /// For a person.
    fn cell_text(&self) -> (String, Tone) {
        let reason = self.reason.as_deref().unwrap_or_default();
        let again = format!("`mcpd login {}`", self.server);
        match (self.login, self.expires_in_ms) {
            (LoginState::Good, Some(ms)) if self.renews == Some(false) => {
                (format!("good for {}", short_duration(ms)), Tone::Doubtful)
            }
            (LoginState::Good, _) => ("good".to_owned(), Tone::Good),
            (LoginState::Needed, _) => (format!("needed: {again}"), Tone::Bad),
            (LoginState::Over, _) => (format!("over: {reason}: {again}"), Tone::Bad),
            (LoginState::None, _) => ("none".to_owned(), Tone::Faint),
            (LoginState::Configured, _) => ("by its configuration".to_owned(), Tone::Faint),
            (LoginState::Unknown, _) => (format!("unknown: {reason}"), Tone::Bad),
        }
    }
}
