//! `mcpd login`: a person lets mcpd in at a server; without a server, how logins stand.
//!
//! The configuration is read with the eyes of the daemon, as `mcpd doctor` reads it, and the login is kept where that looks for it.

mod browser;
pub(super) mod daemon;
mod list;
mod paste;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap_complete::ArgValueCandidates;
use tokio::time::timeout;

use self::paste::Pasted;
use super::doctor::probe::DaemonProbe;
use super::outcome::print_styled_note;
use super::spinner::with_spinner;
use super::style::OutputStyle;
use super::text::{join_limited, one_line};
use super::{FAILED, USAGE, completions, connect_print, fail, print, try_print};
use crate::config::interpolate::Sources;
use crate::config::{self, Config, Launch, OAuth, Remote};
use crate::duration;
use crate::net::client::Clients;
use crate::oauth::{
    self, Authorization, Browser, CallbackError, Login, LoginMethod, LoginStatus, Logins, Loopback, ValidLogin,
};
use crate::sockets::RuntimeDir;
use crate::suggest::hint;

/// Names of scopes that are shown.
const SCOPES: usize = 8;

#[derive(Debug, clap::Args)]
pub(super) struct Wanted {
    /// The server; without one, show those that are reached by a URL, and how their logins stand
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: Option<String>,
    /// Show the address of the page, and open it nowhere
    #[arg(long)]
    no_browser: bool,
    /// For how long to wait until somebody has agreed
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    files: Files,
    /// Print how logins stand as JSON
    #[arg(long, conflicts_with = "server")]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Configuration, as `mcpd serve --config FILE` takes it [default: what the running daemon serves, else as `mcpd serve`]
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
}

/// `given` is the runtime directory that a person has named, `directory` the one that there is, if any.
pub(super) async fn run(wanted: &Wanted, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> ExitCode {
    let place = match Place::look(&wanted.files, given, directory).await {
        Ok(place) => place,
        Err(code) => return code,
    };
    let Some(name) = &wanted.server else { return list::run(&place, wanted.json).await };
    let login = match place.login(name).await {
        Ok(login) => login,
        Err(reason) => return fail(USAGE, format!("{name}: {reason}")),
    };
    let was_logged_in = matches!(login.status().await, Ok(LoginStatus::Valid(_) | LoginStatus::Ended(_)));
    match log_in(&login, name, wanted).await {
        Ok(Done::NotNeeded) => print(format!("{name}: lets anybody in, so there is nothing to log in to\n")),
        Ok(Done::LoggedIn { by }) => match try_print(format!("{name}: logged in{by}{}\n", allowed(&login).await)) {
            Ok(()) => daemon::after_login(&place.probe, name, was_logged_in).await,
            Err(code) => code,
        },
        Err(reason) => fail(FAILED, format!("{name}: {}", one_line(&reason))),
    }
}

/// What came of it.
enum Done {
    NotNeeded,
    LoggedIn {
        /// By what, where that is nobody's consent; for the middle of a sentence.
        by: &'static str,
    },
}

async fn log_in(login: &Login, name: &str, wanted: &Wanted) -> Result<Done, String> {
    let logging_in = || format!("logging in to {name}");
    let asked = match with_spinner(|| format!("asking {name} who lets mcpd in"), login.method()).await? {
        LoginMethod::NotRequired => return Ok(Done::NotNeeded),
        LoginMethod::ClientCredentials(asked) => {
            with_spinner(logging_in, login.log_in_with_client_credentials(asked)).await?;
            return Ok(Done::LoggedIn { by: " by its client credentials" });
        }
        LoginMethod::Consent(asked) => asked,
    };
    let loopback = Loopback::bind(login.redirect_port()).await?;
    let attempt =
        with_spinner(|| format!("asking for a page to log in to {name}"), login.begin(asked, loopback.redirect()))
            .await?;
    let (code, browser) = agreed(&loopback, &attempt, name, wanted).await?;
    let finished = async { with_spinner(logging_in, login.finish(attempt, &code?)).await };
    match browser {
        Some(browser) => browser.show_outcome(finished, &format!("mcpd is logged in to {name}.")).await?,
        None => finished.await?,
    }
    Ok(Done::LoggedIn { by: "" })
}

/// The code that the authorization server gives, or why it gives none, and the browser that waits for the rest.
type Agreed = (Result<String, String>, Option<Browser>);

/// Has a person agree, and gives what comes back: by the browser, or pasted.
async fn agreed(loopback: &Loopback, attempt: &Authorization, name: &str, wanted: &Wanted) -> Result<Agreed, String> {
    let page = attempt.page();
    let opened = !wanted.no_browser && browser::open(loopback.start());
    let how = if opened {
        format!("Your browser opens this page to log in to {name}. If it does not, open it yourself:")
    } else {
        format!("Open this page in a browser to log in to {name}:")
    };
    let shown = try_print(format!("{how}\n\n  {}\n\n", one_line(page.as_str())));
    shown.map_err(|_| "nobody reads where to go".to_owned())?;
    print_note!("If that browser runs elsewhere, paste the address here that it ends up at: {}?…", loopback.redirect());
    let pasted = Pasted::open();
    let brought = timeout(wanted.timeout, async {
        tokio::select! {
            answered = loopback.wait(attempt) => (answered.code, Some(answered.browser)),
            code = told(pasted, attempt) => (code, None),
        }
    });
    brought.await.map_err(|_| {
        let limit = duration::format(wanted.timeout);
        format!("nobody has agreed within {limit}; `mcpd login {name}` asks again")
    })
}

/// The code of the first pasted line that has one.
async fn told(mut pasted: Pasted, attempt: &Authorization) -> Result<String, String> {
    loop {
        match attempt.pasted(&pasted.line().await) {
            Ok(code) => return Ok(code),
            Err(CallbackError::Refused(reason)) => return Err(reason),
            Err(CallbackError::OtherLogin) => {
                print_note!("This is no answer to what was asked; the address begins with the one above.")
            }
        }
    }
}

/// What a login allows, for the end of a sentence.
async fn allowed(login: &Login) -> String {
    match login.status().await {
        Ok(LoginStatus::Valid(ValidLogin { scopes, .. })) if !scopes.is_empty() => {
            format!(", for {}", one_line(&join_limited(&scopes, SCOPES)))
        }
        _ => String::new(),
    }
}

/// Where logins are looked for, and of what.
pub(super) struct Place {
    pub(super) probe: DaemonProbe,
    config: Config,
    directory: PathBuf,
    clients: Clients,
}

impl Place {
    /// # Errors
    /// With which code to end, after saying why: the configuration is not valid, or nothing says where logins are kept.
    pub(super) async fn look(
        files: &Files,
        given: Option<PathBuf>,
        directory: Option<RuntimeDir>,
    ) -> Result<Self, ExitCode> {
        let probe = DaemonProbe::run(directory, connect_print::options(given.as_deref()), &files.config).await;
        let config = match config::load(&probe.files, &probe.sources) {
            Ok(loaded) => loaded.config,
            Err(error) => {
                print_styled_note(&(error.render(OutputStyle::of_stderr().has_colour()) + "\n"));
                return Err(ExitCode::from(USAGE));
            }
        };
        let Some(directory) = oauth::directory(|name| probe.sources.var(name).map(PathBuf::from)) else {
            return Err(fail(USAGE, "logins are kept below $XDG_STATE_HOME or $HOME, and neither is a whole path"));
        };
        Ok(Self { probe, config, directory, clients: Clients::default() })
    }

    /// The servers with a URL.
    fn remotes(&self) -> impl Iterator<Item = (&str, &Remote)> {
        self.config.servers.iter().filter_map(|server| match &server.launch {
            Ok(Launch::Remote(remote)) => Some((&*server.name, remote)),
            _ => None,
        })
    }

    /// The login of the server `name`.
    ///
    /// # Errors
    /// If there is nothing to log in to; for a person, on one line.
    pub(super) async fn login(&self, name: &str) -> Result<Login, String> {
        let servers = &self.config.servers;
        let Some(server) = servers.iter().find(|server| &*server.name == name) else {
            let near = hint(name, servers.iter().map(|server| &*server.name));
            return Err(format!("is no configured server{near}"));
        };
        match &server.launch {
            Ok(Launch::Remote(remote)) => self.login_of(name, remote).await,
            Ok(Launch::Program(_)) => Err("is a program, which is run and not logged in to".to_owned()),
            Err(reason) => Err(reason.to_string()),
        }
    }

    async fn login_of(&self, name: &str, remote: &Remote) -> Result<Login, String> {
        let needless = || {
            let why =
                if remote.oauth == OAuth::Off { "its `oauth` is `false`" } else { "it has an `Authorization` header" };
            format!("needs no login: {why}")
        };
        if !Login::is_for(remote) {
            return Err(needless());
        }
        let client = self.clients.get(remote).await.map_err(|error| error.to_string())?;
        Login::of(name, remote, client, &Logins::new(self.directory.clone())).ok_or_else(needless)
    }

    /// The login that is kept for a server that is not configured any more.
    pub(super) async fn left(&self, name: &str) -> Option<Login> {
        let url = oauth::stored_url(&self.directory, name).await?;
        self.login_of(name, &Remote { url, ..Remote::default() }).await.ok()
    }
}
