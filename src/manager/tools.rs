//! Listing and calling the tools of all servers, for programs that embed mcpd.

use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::view::{Member, ViewPart};
use super::watched_view::WatchedView;
use super::{Manager, ManagerError, View};
use crate::catalog::{Item, identity};
use crate::client::{ClientError, ToolResult, call_tool};
use crate::era::Era;
use crate::list_kind::ListKind;
use crate::server::messages::call::{Access, AccessTarget, TargetKind};

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

impl Manager {
    /// Every tool that policy permits, in the order of servers and of their lists. Waits at most
    /// [`Setup::first_list_wait`](super::Setup) for starting servers without known lists.
    pub async fn all_tools(&self) -> Vec<ExposedTool> {
        let view = self.settled().await;
        listed(&view).into_iter().filter_map(|raw| exposed(&view, &name_of(raw)?, raw)).collect()
    }

    /// The tool exposed as `name`; `None` if it is unknown or denied. Waits as [`Manager::all_tools`].
    pub async fn find_tool(&self, name: &str) -> Option<ExposedTool> {
        let view = self.settled().await;
        view.catalog.route(ListKind::Tools, name.as_bytes())?;
        let raw = listed(&view).into_iter().find(|raw| name_of(raw).as_deref() == Some(name))?;
        exposed(&view, name, raw)
    }

    /// Calls a tool by its exposed name. Dropping the future cancels the call at the server.
    ///
    /// # Errors
    /// [`ManagerError::UnknownTool`], or any of [`ClientError`] but `NotInitialized`.
    pub async fn call_tool(&self, name: &str, arguments: &impl Serialize) -> Result<ToolResult, ManagerError> {
        let known = Arc::clone(&self.view.borrow());
        let view =
            if known.catalog.route(ListKind::Tools, name.as_bytes()).is_some() { known } else { self.settled().await };
        let route = view.catalog.route(ListKind::Tools, name.as_bytes()).ok_or_else(|| self.no_route(&view, name))?;
        let Some(member) = view.servers.get(route.server) else { return Err(self.no_route(&view, name)) };
        if self.orders.is_closed() {
            return Err(ManagerError::Closed);
        }
        let access = self.access(&view, member, name, &route.name);
        let called = call_tool(&member.handle, &route.name, arguments, route.limit, Some(access)).await;
        // The tool was hidden while the call waited for its server.
        let newest = Arc::clone(&self.view.borrow());
        if called.is_err() && newest.catalog.route(ListKind::Tools, name.as_bytes()).is_none() {
            return Err(self.no_route(&newest, name));
        }
        Ok(called?)
    }

    /// The permission for a call that `view` routes to `member`.
    fn access(&self, view: &View, member: &Member, exposed: &str, tool: &Arc<str>) -> Box<Access> {
        let exposed = Bytes::copy_from_slice(exposed.as_bytes());
        let target = AccessTarget::Named { kind: ListKind::Tools, exposed: exposed.clone(), name: Arc::clone(tool) };
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
        })
    }

    /// The embedding program sets the policy, so errors may tell it what policy hides.
    fn no_route(&self, view: &View, name: &str) -> ManagerError {
        for member in &view.servers {
            let published = member.handle.published();
            let is_denied = |tool: &&Item| !member.config.policy.permits(ListKind::Tools, &tool.key, Some(&tool.json));
            for tool in published.lists[ListKind::Tools].items.iter().filter(is_denied) {
                if view.naming.candidates(member.handle.name(), &tool.key).any(|candidate| candidate == name) {
                    let (server, tool) = (Arc::clone(member.handle.name()), tool.key.to_string());
                    return ClientError::ToolDenied { server, tool }.into();
                }
            }
        }
        ManagerError::UnknownTool { tool: name.to_owned() }
    }

    pub(super) async fn settled(&self) -> Arc<View> {
        let mut view = self.view.clone();
        // After the manager has closed, its last view stays.
        let _ = view.wait_for(|view| view.settled).await;
        Arc::clone(&self.view.borrow())
    }
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
