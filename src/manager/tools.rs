//! Listing and calling the tools of all servers, for programs that embed mcpd.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::time::sleep_until;

use super::view::{Member, UnlistedName, ViewPart, WatchedView, start_for_call};
use super::{Manager, ManagerError, View};
use crate::catalog::{Item, Route, identity};
use crate::client::{ClientError, Refused, ToolResult, call_tool, no_tool, not_sent};
use crate::era::Era;
use crate::list_kind::ListKind;
use crate::methods::TargetKind;
use crate::server::messages::call::{Access, AccessTarget, AppliedOverride, CallError, Failure};
use crate::server::{START_WAIT, ServerError};

/// An exposed tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExposedTool {
    /// The exposed name, with which it is called.
    pub name: String,
    /// The name of its server.
    pub server: Arc<str>,
    /// The server's own name for it.
    pub tool: Arc<str>,
    /// The raw tool object with its exposed name. Unknown fields and the order of keys are preserved.
    pub definition: Bytes,
}

/// How a program names a tool: `"files__read"` by its exposed name, `("files", "read")` by its server and the server's own name for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolRef<'a> {
    /// By its exposed name.
    Exposed(&'a str),
    /// By its server and its own name, whatever it is exposed as.
    Own {
        /// The configured name of the server.
        server: &'a str,
        /// The server's own name for the tool.
        tool: &'a str,
    },
}

impl<'a> From<&'a str> for ToolRef<'a> {
    fn from(name: &'a str) -> Self {
        Self::Exposed(name)
    }
}

impl<'a> From<&'a String> for ToolRef<'a> {
    fn from(name: &'a String) -> Self {
        Self::Exposed(name)
    }
}

impl<'a> From<(&'a str, &'a str)> for ToolRef<'a> {
    fn from((server, tool): (&'a str, &'a str)) -> Self {
        Self::Own { server, tool }
    }
}

impl<'a> From<&'a ExposedTool> for ToolRef<'a> {
    fn from(tool: &'a ExposedTool) -> Self {
        Self::Own { server: &tool.server, tool: &tool.tool }
    }
}

impl Manager {
    /// Every tool that policy permits, in the order of servers and of their lists. Waits at most
    /// [`Setup::first_list_wait`](super::Setup) for starting servers without known lists. After [`Manager::close`] there are none.
    pub async fn all_tools(&self) -> Vec<ExposedTool> {
        let Some(view) = self.settled().await else { return Vec::new() };
        listed(&view).into_iter().filter_map(|raw| exposed(&view, &name_of(raw)?, raw)).collect()
    }

    /// The tool with this exposed name, or with this server and own name; `None` if it is unknown or denied. Waits as
    /// [`Manager::all_tools`].
    pub async fn find_tool<'a>(&self, tool: impl Into<ToolRef<'a>>) -> Option<ExposedTool> {
        let view = self.settled().await?;
        let (name, _) = route(&view, tool.into())?;
        let raw = listed(&view).into_iter().find(|raw| name_of(raw).as_ref() == Some(&name))?;
        exposed(&view, &name, raw)
    }

    /// The tools that their servers call `own_name`, in the order of the servers. Waits as [`Manager::all_tools`].
    pub async fn find_tools(&self, own_name: &str) -> Vec<ExposedTool> {
        self.all_tools().await.into_iter().filter(|tool| *tool.tool == *own_name).collect()
    }

    /// Calls a tool by its exposed name, or by its server and own name. Dropping the future cancels the call at the server.
    ///
    /// A call waits up to 10 s for a server that is starting or about to be started again. The call itself has the time limits
    /// `call_timeout` and `call_timeout_max` of the server's [`Settings`](crate::config::Settings).
    ///
    /// # Errors
    /// [`ManagerError::UnknownTool`], [`ManagerError::UnknownServer`], [`ManagerError::Closed`], or any of [`ClientError`] but
    /// `NotInitialized` and `Closed`. [`ManagerError::outcome`] tells whether the call may have had an effect.
    pub async fn call_tool<'a>(
        &self,
        tool: impl Into<ToolRef<'a>>,
        arguments: &impl Serialize,
    ) -> Result<ToolResult, ManagerError> {
        let (tool, until) = (tool.into(), Instant::now() + START_WAIT);
        let mut views = self.view.clone();
        loop {
            if self.is_stopping() {
                return Err(ManagerError::Closed);
            }
            let view = Arc::clone(&views.borrow_and_update());
            if let Some((exposed, route)) = route(&view, tool) {
                return self.call_routed(&view, tool, (&exposed, route), arguments).await;
            }
            // Before the decision, so that no change after it is missed.
            let listed = view.await_lists();
            let candidates = match tool {
                ToolRef::Exposed(name) => view.may_still_list(Some(name.as_bytes())).collect(),
                ToolRef::Own { server, .. } => {
                    view.may_still_list(None).filter(|member| *member.config.name == *server).collect()
                }
            };
            let now = Instant::now();
            match UnlistedName::of(candidates, until, now) {
                UnlistedName::Unknown => return Err(no_route(&view, tool)),
                UnlistedName::Down(error) => return Err(down(&view, error)),
                UnlistedName::Waits(candidates) => start_for_call(&candidates, now),
            }
            tokio::select! {
                () = listed => {}
                () = self.stopping() => {}
                // After the manager has closed, its last view stays.
                changed = views.changed() => changed.map_err(|_| ManagerError::Closed)?,
                () = sleep_until(until.into()) => {}
            }
        }
    }

    async fn call_routed(
        &self,
        view: &View,
        tool: ToolRef<'_>,
        (exposed, route): (&str, &Route),
        arguments: &impl Serialize,
    ) -> Result<ToolResult, ManagerError> {
        let Some(member) = view.servers.get(route.server) else { return Err(no_route(view, tool)) };
        let access = self.access(view, member, exposed, route);
        let called = call_tool(&member.handle, &route.name, arguments, route.limit, Some(access)).await;
        called.map_err(|refused| match refused {
            Refused::Error(error) => error.into(),
            // The tool was hidden while the call waited, so the newest view says why.
            Refused::Hidden if self.is_stopping() => ManagerError::Closed,
            Refused::Hidden => no_route(&self.view.borrow(), tool),
        })
    }

    /// The permission for a call that `view` routes to `member`.
    fn access(&self, view: &View, member: &Member, exposed: &str, route: &Route) -> Box<Access> {
        let exposed = Bytes::copy_from_slice(exposed.as_bytes());
        let name = Arc::clone(&route.name);
        let target = AccessTarget::Named { kind: ListKind::Tools, exposed: exposed.clone(), name };
        let (version, lists) = (view.version(), identity(&member.lists));
        let view = WatchedView::new(&self.view, ViewPart::default());
        Box::new(Access {
            view,
            target,
            error_kind: TargetKind::Tool,
            requested_name: exposed,
            era: Era::Legacy,
            version,
            lists,
            tool_override: AppliedOverride::of(route),
        })
    }

    /// The view once the first lists are known; `None` if the manager is closed.
    pub(super) async fn settled(&self) -> Option<Arc<View>> {
        let mut view = self.view.clone();
        tokio::select! {
            // After the manager has closed, its last view stays.
            _ = view.wait_for(|view| view.settled) => {}
            () = self.stopping() => {}
        }
        (!self.is_stopping()).then(|| Arc::clone(&self.view.borrow()))
    }
}

/// The exposed name and the route of a tool.
fn route<'a>(view: &'a View, tool: ToolRef<'_>) -> Option<(String, &'a Route)> {
    let route = |name: &str| view.catalog.route(ListKind::Tools, name.as_bytes());
    match tool {
        ToolRef::Exposed(name) => Some((name.to_owned(), route(name)?)),
        ToolRef::Own { server, tool } => {
            let index = view.servers.iter().position(|member| *member.config.name == *server)?;
            let is_it = |route: &&Route| route.server == index && *route.name == *tool;
            let shown = view.servers[index].shown_name(ListKind::Tools, tool);
            let mut names = view.naming.candidates(server, shown);
            names.find_map(|name| route(&name).filter(is_it).map(|route| (name, route)))
        }
    }
}

/// Why there is no such tool. The embedding program sets the policy, so errors may tell it what policy hides.
fn no_route(view: &View, tool: ToolRef<'_>) -> ManagerError {
    let why_not = |member: &Member, tool: &str| {
        let tools = Arc::clone(&member.handle.published().lists[ListKind::Tools]);
        no_tool(member.handle.name(), tool, &member.config.policy, &tools)
    };
    let name = match tool {
        ToolRef::Exposed(name) => name,
        ToolRef::Own { server, tool } => {
            let member = view.servers.iter().find(|member| *member.config.name == *server);
            return match member {
                None => ManagerError::UnknownServer { server: server.to_owned() },
                Some(member) if !member.is_enabled() => disabled(member).into(),
                Some(member) => why_not(member, tool).into(),
            };
        }
    };
    for member in &view.servers {
        let tools = Arc::clone(&member.handle.published().lists[ListKind::Tools]);
        let shown = |item: &Item| member.shown_name(ListKind::Tools, &item.key).to_owned();
        let is_it = |item: &&Item| view.naming.candidates(member.handle.name(), &shown(item)).any(|one| one == name);
        if let Some(item) = tools.items.iter().find(is_it)
            && let error @ ClientError::ToolDenied { .. } = why_not(member, &item.key)
        {
            return error.into();
        }
    }
    ManagerError::UnknownTool { tool: name.to_owned() }
}

/// The error of a server that may have the tool, but is down.
fn down(view: &View, error: CallError) -> ManagerError {
    match view.servers.iter().find(|member| member.config.name == error.server) {
        Some(member) => ClientError::of_failure(&member.handle, error).into(),
        None => ManagerError::UnknownServer { server: error.server.to_string() },
    }
}

/// The error of a server that is disabled.
pub(super) fn disabled(member: &Member) -> ClientError {
    not_sent(&member.handle, Failure::Unavailable { reason: ServerError::Disabled, retry_after: None })
}

/// The tools of a view, as agents receive them.
fn listed(view: &View) -> Vec<&RawValue> {
    let list = serde_json::from_slice::<List<'_>>(view.catalog.list(ListKind::Tools));
    list.map(|list| list.tools).unwrap_or_default()
}

fn name_of(raw: &RawValue) -> Option<String> {
    serde_json::from_str::<ToolName>(raw.get()).ok().map(|named| named.name)
}

fn exposed(view: &View, name: &str, raw: &RawValue) -> Option<ExposedTool> {
    let route = view.catalog.route(ListKind::Tools, name.as_bytes())?;
    let server = Arc::clone(view.servers.get(route.server)?.handle.name());
    let definition = view.catalog.list(ListKind::Tools).slice_ref(raw.get().as_bytes());
    Some(ExposedTool { name: name.to_owned(), server, tool: Arc::clone(&route.name), definition })
}

#[derive(Deserialize)]
struct List<'a> {
    #[serde(borrow)]
    tools: Vec<&'a RawValue>,
}

#[derive(Deserialize)]
struct ToolName {
    name: String,
}
