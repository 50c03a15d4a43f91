//! `mcpd login` and `mcpd logout`: log in to a server, list the logins or delete one, and make the running daemon use the change.
//!
//! They read the configuration with the daemon's environment, as `mcpd doctor` does, and store the login where the daemon finds it.
//!
//! The person reaches mcpd by a page in the browser, and by lines pasted into standard input meanwhile. Other users can read the address in the
//! arguments of the opening program. So it is a loopback address of mcpd, which redirects only this user's browser. A private file would not
//! work for sandboxed browsers (snap, Flatpak), for Windows browsers in front of WSL, and for helpers that open addresses on another machine.

pub(super) mod list;

use std::future::{pending, poll_fn};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap_complete::ArgValueCandidates;
use tokio::time::timeout;

use super::browser::open_browser;
use super::client_entries::runtime_dir_options;
use super::doctor::probe::DaemonProbe;
use super::outcome::config_failure;
use super::terminal::with_spinner;
use super::text::{join_limited, one_line};
use super::{CommandResult, FAILED, USAGE, completions, fail, print, try_print};
use crate::admin::report::{ControlReport, ServerReport};
use crate::admin::{self, AdminError, ServerAction};
use crate::config::interpolate::UnusableValue;
use crate::config::{self, Config, Launch, OAuth, Remote};
use crate::duration;
use crate::net::client::{Clients, NetError};
use crate::oauth::{
    self, Authorization, Browser, CallbackError, Login, LoginError, LoginMethod, LoginStatus, Logins, Logout, Loopback,
    ValidLogin,
};
use crate::shim::Input;
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::suggest::hint;

/// Scopes that the result names.
const MAX_SCOPES: usize = 8;

#[derive(Debug, clap::Args)]
pub(super) struct Arguments {
    /// Server to log in to; without one, list the servers with a URL and their logins
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: Option<String>,
    /// Print the address of the login page instead of opening it
    #[arg(long)]
    no_browser: bool,
    /// How long to wait for the login in the browser
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration::parse)]
    timeout: Duration,
    #[command(flatten)]
    files: Files,
    /// Print the logins as JSON
    #[arg(long, conflicts_with = "server")]
    json: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct LogoutArguments {
    /// Server to log out of, even if it is no longer configured
    #[arg(value_name = "SERVER", add = ArgValueCandidates::new(completions::servers))]
    server: String,
    #[command(flatten)]
    files: Files,
}

#[derive(Debug, clap::Args)]
pub(super) struct Files {
    /// Configuration file; repeatable [default: the files that the running daemon uses; if none runs, as for `mcpd serve`]
    #[arg(long, value_name = "FILE")]
    pub(super) config: Vec<PathBuf>,
}

/// `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) async fn run(arguments: &Arguments, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> CommandResult {
    let context = LoginContext::load(&arguments.files, given, directory).await?;
    let Some(name) = &arguments.server else { return Ok(list::run(&context, arguments.json).await) };
    let login = context.login(name).await.map_err(|reason| fail(USAGE, format!("{name}: {reason}")))?;
    let was_logged_in = matches!(login.status().await, Ok(LoginStatus::Valid(_) | LoginStatus::Ended(_)));
    let outcome = log_in(&login, name, arguments).await;
    match outcome.map_err(|reason| fail(FAILED, format!("{name}: {}", one_line(&reason.to_string()))))? {
        LoginOutcome::NotRequired => Ok(print(format!("{name}: requires no login\n"))),
        LoginOutcome::Success { by } => {
            try_print(format!("{name}: logged in{by}{}\n", allowed(&login).await))?;
            Ok(after_login(&context.probe, name, was_logged_in).await)
        }
    }
}

/// Deletes the login of a server, and revokes it at the authorization server. `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) async fn run_logout(
    arguments: &LogoutArguments,
    given: Option<PathBuf>,
    directory: Option<RuntimeDir>,
) -> CommandResult {
    let name = &*arguments.server;
    let context = LoginContext::load(&arguments.files, given, directory).await?;
    let login = match context.login(name).await {
        Ok(login) => login,
        Err(reason) => context.stored(name).await.ok_or_else(|| fail(USAGE, format!("{name}: {reason}")))?,
    };
    let logged_out = with_spinner(|| format!("logging out of {name}"), login.log_out()).await;
    let Logout { was_logged_in, logs_in_again, not_revoked } =
        logged_out.map_err(|reason| fail(FAILED, format!("{name}: {}", one_line(&reason.to_string()))))?;
    if let Some(reason) = not_revoked {
        print_note!("{name}: forgotten here only: {}", one_line(&reason.to_string()));
    }
    if !was_logged_in {
        return Ok(print(format!("{name}: nobody was logged in\n")));
    }
    let again = if logs_in_again { ", until its client credentials let mcpd in again" } else { "" };
    try_print(format!("{name}: logged out{again}\n"))?;
    Ok(after_logout(&context.probe, name).await)
}

enum LoginOutcome {
    NotRequired,
    Success {
        /// The method if it is not the user's consent, for the middle of a sentence.
        by: &'static str,
    },
}

/// Why a login has failed.
#[derive(Debug, thiserror::Error)]
enum FailedLogin {
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error("standard output is closed, so the address cannot be printed")]
    ClosedOutput,
    #[error("no login in the browser within {}; run `mcpd login {server}` again", duration::format(*limit))]
    TimedOut { server: String, limit: Duration },
}

async fn log_in(login: &Login, name: &str, arguments: &Arguments) -> Result<LoginOutcome, FailedLogin> {
    let logging_in = || format!("logging in to {name}");
    let requirements =
        match with_spinner(|| format!("reading the login requirements of {name}"), login.method()).await? {
            LoginMethod::NotRequired => return Ok(LoginOutcome::NotRequired),
            LoginMethod::ClientCredentials(requirements) => {
                with_spinner(logging_in, login.log_in_with_client_credentials(requirements)).await?;
                return Ok(LoginOutcome::Success { by: " by its client credentials" });
            }
            LoginMethod::Consent(requirements) => requirements,
        };
    let loopback = Loopback::bind(login.redirect_port()).await?;
    let attempt =
        with_spinner(|| format!("requesting the login page of {name}"), login.begin(requirements, loopback.redirect()))
            .await?;
    let Callback { code, browser } = wait_for_callback(&loopback, &attempt, name, arguments).await?;
    let finished = async { with_spinner(logging_in, login.finish(attempt, &code?)).await };
    match browser {
        Some(browser) => browser.show_outcome(finished, &format!("mcpd is logged in to {name}.")).await?,
        None => finished.await?,
    }
    Ok(LoginOutcome::Success { by: "" })
}

struct Callback {
    /// The authorization code, or the authorization server's reason for refusing it.
    code: Result<String, CallbackError>,
    /// The browser, which waits for the result.
    browser: Option<Browser>,
}

/// Shows the login page, and waits for the callback from the browser or from a pasted address.
async fn wait_for_callback(
    loopback: &Loopback,
    attempt: &Authorization,
    name: &str,
    arguments: &Arguments,
) -> Result<Callback, FailedLogin> {
    let page = attempt.page();
    let opened = !arguments.no_browser && open_browser(loopback.start());
    let how = if opened {
        format!("Your browser opens this page to log in to {name}. If it does not, open it yourself:")
    } else {
        format!("Open this page in a browser to log in to {name}:")
    };
    let shown = try_print(format!("{how}\n\n  {}\n\n", one_line(page.as_str())));
    shown.map_err(|_| FailedLogin::ClosedOutput)?;
    print_note!(
        "If that browser runs on another machine, paste the address that it ends up at here: {}?…",
        loopback.redirect()
    );
    let pasted = PasteReader::open();
    let callback = timeout(arguments.timeout, async {
        tokio::select! {
            answer = loopback.wait(attempt) => Callback { code: answer.code, browser: Some(answer.browser) },
            code = pasted_code(pasted, attempt) => Callback { code, browser: None },
        }
    });
    callback.await.map_err(|_| FailedLogin::TimedOut { server: name.to_owned(), limit: arguments.timeout })
}

/// The code in the first pasted line that has one.
async fn pasted_code(mut pasted: PasteReader, attempt: &Authorization) -> Result<String, CallbackError> {
    loop {
        match attempt.pasted(&pasted.line().await) {
            Err(CallbackError::OtherLogin) => {
                print_note!("This is no answer to what was asked; the address begins with the one above.")
            }
            code => return code,
        }
    }
}

/// The granted scopes, for the end of a sentence.
async fn allowed(login: &Login) -> String {
    match login.status().await {
        Ok(LoginStatus::Valid(ValidLogin { scopes, .. })) if !scopes.is_empty() => {
            format!(", for {}", one_line(&join_limited(&scopes, MAX_SCOPES)))
        }
        _ => String::new(),
    }
}

/// Why a server has no login, after its name.
#[derive(Debug, thiserror::Error)]
enum NoLogin {
    /// With a hint at a similar name.
    #[error("is not a configured server{0}")]
    NotConfigured(String),
    #[error("is a program that mcpd starts: only servers elsewhere have logins")]
    Program,
    #[error("needs no login: its `oauth` is `false`")]
    Off,
    #[error("has no login: it is at a Unix socket")]
    Socket,
    #[error("needs no login: it has an `Authorization` header")]
    HasHeader,
    #[error(transparent)]
    Launch(#[from] UnusableValue),
    #[error(transparent)]
    Client(#[from] NetError),
}

/// The configuration and the directory of logins, as the daemon sees them.
struct LoginContext {
    probe: DaemonProbe,
    config: Config,
    directory: PathBuf,
    clients: Clients,
}

impl LoginContext {
    /// # Errors
    /// Prints an invalid configuration or a missing directory, and returns the exit code.
    async fn load(files: &Files, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> Result<Self, ExitCode> {
        let probe = DaemonProbe::run(directory, runtime_dir_options(given.as_deref()), &files.config).await;
        let config = config::load(&probe.files, &probe.sources).map_err(|error| config_failure(&error))?.config;
        let without = "set XDG_STATE_HOME or HOME to an absolute path: logins are stored below it";
        let directory = oauth::directory(&probe.sources).ok_or_else(|| fail(USAGE, without))?;
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
    /// If the server has no login.
    async fn login(&self, name: &str) -> Result<Login, NoLogin> {
        let servers = &self.config.servers;
        let Some(server) = servers.iter().find(|server| &*server.name == name) else {
            return Err(NoLogin::NotConfigured(hint(name, servers.iter().map(|server| &*server.name))));
        };
        match &server.launch {
            Ok(Launch::Remote(remote)) => self.login_of(name, remote).await,
            Ok(Launch::Program(_) | Launch::Served(..)) => Err(NoLogin::Program),
            Err(reason) => Err(reason.clone().into()),
        }
    }

    async fn login_of(&self, name: &str, remote: &Remote) -> Result<Login, NoLogin> {
        let no_login = || match remote.oauth {
            OAuth::Off if remote.is_at_socket() => NoLogin::Socket,
            OAuth::Off => NoLogin::Off,
            OAuth::On(_) => NoLogin::HasHeader,
        };
        if !Login::is_for(remote) {
            return Err(no_login());
        }
        let client = self.clients.get(remote).await?;
        Login::of(name, remote, client, &Logins::new(self.directory.clone())).ok_or_else(no_login)
    }

    /// The stored login of a server that is no longer configured.
    async fn stored(&self, name: &str) -> Option<Login> {
        let url = oauth::stored_url(&self.directory, name).await?;
        self.login_of(name, &Remote { url, ..Remote::default() }).await.ok()
    }
}

/// The effect on the daemon.
enum Effect {
    /// No daemon runs, or it does not need the new login.
    None,
    /// The daemon does not have the server.
    UnknownServer,
    /// The daemon runs the server with its former configuration, because the changed one failed.
    FormerConfiguration,
    Restarted(ControlReport),
}

/// Restarts the server if it waits for a login or `had_one`, and prints its state.
async fn after_login(probe: &DaemonProbe, name: &str, had_one: bool) -> ExitCode {
    let waits = |server: &ServerReport| had_one || server.state.is_down();
    match restarted(probe, name, waits).await {
        Ok(Effect::None) => ExitCode::SUCCESS,
        Ok(Effect::UnknownServer) => {
            print(format!("{name}: the daemon does not know it yet: {}\n", probe.mcpd("reload")))
        }
        Ok(Effect::FormerConfiguration) => {
            print(format!("{name}: goes on as it was before it was changed, until {}\n", probe.mcpd("reload")))
        }
        Ok(Effect::Restarted(report)) if report.done => print(format!("{name}: {}\n", report.state)),
        Ok(Effect::Restarted(report)) => fail(FAILED, format!("{name}: {}", shown(&report))),
        Err(error) => fail(FAILED, format!("{name}: {error}")),
    }
}

/// Restarts the server without its login, and prints its state.
async fn after_logout(probe: &DaemonProbe, name: &str) -> ExitCode {
    match restarted(probe, name, |_| true).await {
        Ok(Effect::None | Effect::UnknownServer | Effect::FormerConfiguration) => ExitCode::SUCCESS,
        Ok(Effect::Restarted(report)) => print(format!("{name}: {}\n", shown(&report))),
        Err(error) => fail(FAILED, format!("{name}: {error}")),
    }
}

async fn restarted(
    probe: &DaemonProbe,
    name: &str,
    is_due: impl Fn(&ServerReport) -> bool,
) -> Result<Effect, AdminError> {
    let Some(directory) = &probe.directory else { return Ok(Effect::None) };
    let socket = directory.socket(ADMIN_SOCKET);
    let report = match admin::status(&socket).await {
        Err(AdminError::NotRunning(_)) => return Ok(Effect::None),
        report => report?,
    };
    let Some(server) = report.servers.iter().find(|server| server.name == name) else {
        return Ok(Effect::UnknownServer);
    };
    if server.update_error.is_some() {
        return Ok(Effect::FormerConfiguration);
    }
    if server.disabled || !is_due(server) {
        return Ok(Effect::None);
    }
    let report =
        with_spinner(|| format!("restarting {name}"), admin::control(&socket, ServerAction::Restart, name)).await?;
    Ok(Effect::Restarted(report))
}

fn shown(report: &ControlReport) -> String {
    let reason = report.reason.as_deref().map(|reason| format!(": {}", one_line(reason))).unwrap_or_default();
    format!("{}{reason}", report.state)
}

/// Maximum length of a line, in bytes. Addresses are shorter.
const MAX_LINE: usize = 16 << 10;

/// Reads standard input line by line.
struct PasteReader {
    /// `None` at the end of the input.
    input: Option<Input>,
    read: Vec<u8>,
}

impl PasteReader {
    fn open() -> Self {
        Self { input: Input::open().ok(), read: Vec::new() }
    }

    /// The next line that is not empty. Pends forever at the end of the input.
    async fn line(&mut self) -> String {
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.read.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line).trim().to_owned();
                if !line.is_empty() {
                    return line;
                }
            }
            let Some(input) = &self.input else { return pending().await };
            let mut buffer = [0; 4096];
            match poll_fn(|cx| input.poll_read(cx, &mut buffer)).await {
                Ok(read @ 1..) => self.read.extend_from_slice(&buffer[..read]),
                _ => self.input = None,
            }
            if self.read.len() > MAX_LINE {
                self.read.clear();
            }
        }
    }
}
