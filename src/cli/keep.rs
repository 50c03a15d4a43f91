//! `mcpd enable --keep` and `mcpd disable --keep`: write the decision into the configuration, and apply it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use super::config_edit::{note_no_daemon, reads_any};
use super::doctor::probe::DaemonProbe;
use super::reload::{Scope, others_failed};
use super::terminal::with_spinner;
use super::text::one_line;
use super::{FAILED, USAGE, admin_failure, fail, tool_names};
use crate::admin::report::{ControlReport, StateName, ToolServer};
use crate::admin::{self, AdminError, ServerAction, ToolsRequest};
use crate::client::ClientError;
use crate::config::edit::file::ConfigFile;
use crate::config::edit::{self, Overlay};
use crate::config::interpolate::Process;
use crate::config::{self, LoadedConfig, ServerConfig};
use crate::manager::Toggle;
use crate::policy::{Hidden, ListKind};
use crate::sockets::{ADMIN_SOCKET, RuntimeDir};
use crate::suggest::{hint, nearest};

#[derive(Debug, Args)]
pub(super) struct Keep {
    /// Write it into the configuration, so that it also holds after the daemon has stopped
    #[arg(long)]
    pub(super) keep: bool,
    /// Configuration file to load [default: that of the running daemon, else the user's]
    #[arg(long, value_name = "FILE", requires = "keep")]
    config: Option<PathBuf>,
}

/// A decision that is in the configuration.
pub(super) struct WrittenToggle {
    pub(super) file: PathBuf,
    /// The result, if the daemon has nothing left to do.
    pub(super) result: Option<ControlReport>,
}

/// A tool, by the server's own name.
struct Tool {
    name: String,
    /// Whether the server lists it, or has never listed its tools.
    may_exist: bool,
}

impl Keep {
    /// `--keep`, with this value of `--config`.
    pub(super) fn in_file(config: Option<PathBuf>) -> Self {
        Self { keep: true, config }
    }

    /// Writes `toggle` of `server`, makes a running daemon reload, and prints which file has it.
    ///
    /// # Errors
    /// The exit code. If nothing is written, nothing has changed.
    pub(super) async fn write(
        &self,
        directory: &RuntimeDir,
        server: &str,
        toggle: &Toggle,
    ) -> Result<WrittenToggle, ExitCode> {
        let (tool, enabled) = match toggle {
            Toggle::EnableTool(tool) => (Some(tool), true),
            Toggle::DisableTool(tool) => (Some(tool), false),
            Toggle::Enable => (None, true),
            Toggle::Disable | Toggle::Stop => (None, false),
        };
        let files = self.files(directory).await;
        let invalid = |error| fail(USAGE, format!("nothing is written: the configuration is not valid\n{error}"));
        let loaded = config::load(&files, &Process).map_err(invalid)?;
        let tool = match tool {
            Some(tool) => Some(own_name(directory, server, tool).await),
            None => None,
        };
        let path = defining_file(&loaded, server).map_err(|error| fail(USAGE, error))?;
        let unusable = |error: String| fail(USAGE, format!("nothing is written: {}: {error}", path.display()));
        let file = ConfigFile::open(&path).map_err(|error| unusable(error.to_string()))?;
        let text = match &tool {
            Some(tool) => edit::set_denied(file.text(), server, &tool.name, !enabled),
            None => edit::set_enabled(file.text(), server, enabled),
        };
        let text = text.map_err(|error| unusable(error.to_string()))?;
        let is_changed = text != file.text();
        if let Some(tool) = tool.as_ref().filter(|tool| !(tool.may_exist || enabled && is_changed)) {
            return Err(unknown_tool(directory, server, &tool.name).await);
        }
        let overlay = Overlay::new(&Process).with(file.path(), &text);
        let after = config::load(&files, &overlay).map_err(invalid)?;
        let after_server = after.config.servers.iter().find(|one| *one.name == *server);
        if tool.is_none() && after_server.is_some_and(|one| one.settings.enabled != enabled) {
            let place = after.enabled_at(server).unwrap_or_default();
            return Err(fail(
                USAGE,
                format!("nothing is written: {place} decides about {server}, change `enabled` there"),
            ));
        }
        if is_changed {
            file.write(&text).map_err(|error| fail(FAILED, error))?;
        }
        let hidden = tool.as_ref().zip(after_server).filter(|_| enabled);
        let hidden = hidden.and_then(|(tool, server)| hidden_by(&after, server, &tool.name));
        if is_changed {
            print_note!("mcpd: written to {}", path.display());
        } else if hidden.is_none() {
            print_note!("mcpd: {} already says so", path.display());
        }
        let state = if enabled { StateName::Enabled } else { StateName::Disabled };
        let name = tool.map(|tool| tool.name);
        let result = ControlReport { tool: name.clone(), state, reason: None, done: true, temporary: false };
        if !self.reload(directory, server, &path).await? {
            if let Some(why) = hidden {
                print_note!("note: agents still do not see it: {why}");
            }
            return Ok(WrittenToggle { file: path, result: Some(result) });
        }
        let Some(name) = name else { return Ok(WrittenToggle { file: path, result: None }) };
        end_denial(directory, server, name).await?;
        Ok(WrittenToggle { file: path, result: Some(result) })
    }

    /// The configuration files: those of the command line, or of a running daemon, or the usual ones.
    async fn files(&self, directory: &RuntimeDir) -> Vec<PathBuf> {
        match &self.config {
            Some(file) => vec![file.clone()],
            None => DaemonProbe::run(Some(directory.clone()), Vec::new(), &[]).await.files,
        }
    }

    /// Makes a running daemon that reads `path` reload. Returns whether there is one.
    async fn reload(&self, directory: &RuntimeDir, server: &str, path: &Path) -> Result<bool, ExitCode> {
        if !directory.is_served() {
            note_no_daemon(self.config.as_deref());
            return Ok(false);
        }
        let failed = |error: AdminError| match error {
            AdminError::Refused(_) => fail(USAGE, error),
            error => fail(FAILED, format!("the change is written, but not applied: {error}")),
        };
        if !reads_any(directory, &[path]).await.map_err(failed)? {
            return Ok(false);
        }
        let socket = directory.socket(ADMIN_SOCKET);
        let activity = || "applying the configuration".to_owned();
        let report = with_spinner(activity, admin::reload(&socket)).await.map_err(failed)?;
        others_failed(&report, Scope::Servers(&[server]));
        Ok(true)
    }
}

/// Ends what is denied at run time, so that the configuration alone decides about the tool.
async fn end_denial(directory: &RuntimeDir, server: &str, tool: String) -> Result<(), ExitCode> {
    let toggle = ServerAction::Toggle(Toggle::EnableTool(tool));
    match admin::control(&directory.socket(ADMIN_SOCKET), toggle, server).await {
        // A server that is down lists no tools.
        Ok(_) | Err(AdminError::Refused(_)) => Ok(()),
        Err(error) => Err(admin_failure(&error)),
    }
}

/// The file that defines a server.
fn defining_file(loaded: &LoadedConfig, server: &str) -> Result<PathBuf, String> {
    let Some(definition) = loaded.definition(server) else {
        let known = loaded.config.servers.iter().map(|server| &*server.name);
        return Err(format!("there is no server `{}`{}", one_line(server), hint(server, known)));
    };
    match definition.is_native {
        true => Ok(definition.file),
        false => Err(format!(
            "nothing is written: `{server}` is defined at {}, in the format of another client, and mcpd edits its own TOML files only",
            definition.location
        )),
    }
}

/// The own name of a tool that the command line names. Without a daemon, it is taken as it is.
async fn own_name(directory: &RuntimeDir, server: &str, tool: &str) -> Tool {
    let Ok((found, list)) = tool_names::find(directory, None, &tool_names::qualified(server, tool)).await else {
        return Tool { name: tool.to_owned(), may_exist: true };
    };
    if let Some(found) = found.into_iter().find(|found| found.server == server) {
        return Tool { name: found.tool, may_exist: true };
    }
    let has_listed = |one: &ToolServer| !one.missing && one.state != StateName::Disabled;
    let may_exist = !list.servers.iter().any(|one| one.name == server && has_listed(one));
    Tool { name: tool.to_owned(), may_exist }
}

async fn unknown_tool(directory: &RuntimeDir, server: &str, tool: &str) -> ExitCode {
    let (all, _) = tool_names::request(directory, ToolsRequest::default()).await.unwrap_or_default();
    let known = all.iter().filter(|one| one.server == server).map(|one| &*one.tool);
    let nearest = nearest(tool, known).map(str::to_owned);
    fail(FAILED, ClientError::UnknownTool { server: server.into(), tool: tool.to_owned(), nearest })
}

/// What else hides a tool from agents of the default profile, as far as the configuration tells.
fn hidden_by(loaded: &LoadedConfig, server: &ServerConfig, tool: &str) -> Option<String> {
    let seen = loaded.config.profiles.first()?.seen(&Arc::new(server.clone()));
    let Some(seen) = seen else { return Some("its server is not in the profile".to_owned()) };
    match seen.policy.verdict(ListKind::Tools, tool, None).err()? {
        // That depends on the tool's annotations, which only the server knows.
        Hidden::Writes { .. } => None,
        Hidden::Denied { pattern, table } => Some(format!("denied by `{}` of [{table}]", one_line(pattern))),
        hidden => Some(format!("`{}` of [{}] hides it", hidden.word(), hidden.table().unwrap_or_default())),
    }
}
