//! Two tools with which an embedding agent lists and reads the resources of all servers, for models that support only tools.
//!
//! Source: MCP 2025-11-25, `server/resources`.

use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::tools::disabled;
use super::{Manager, ManagerError, Member};
use crate::catalog::Item;
use crate::client::{ClientError, Outcome, ToolResult, connected, request};
use crate::list_kind::ListKind;
use crate::server::ServerHandle;

/// A tool that mcpd itself provides to an embedding agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceTool {
    /// `list_mcp_resources`: lists resources.
    List,
    /// `read_mcp_resource`: reads one resource.
    Read,
}

/// The arguments of both tools.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    server: Option<String>,
    uri: Option<String>,
}

impl ResourceTool {
    /// Both tools.
    pub const ALL: [Self; 2] = [Self::List, Self::Read];

    /// The name to register it under.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::List => "list_mcp_resources",
            Self::Read => "read_mcp_resource",
        }
    }

    /// The tool object to register, in the form of MCP's `tools/list`.
    #[must_use]
    pub fn definition(self) -> Value {
        let server = json!({ "type": "string", "description": "Name of the server" });
        let (description, schema) = match self {
            Self::List => (
                "Lists the resources that MCP servers offer, each with its server and its URI",
                json!({ "type": "object", "properties": { "server": server }, "additionalProperties": false }),
            ),
            Self::Read => (
                "Reads one resource of an MCP server",
                json!({
                    "type": "object",
                    "properties": { "server": server, "uri": { "type": "string", "description": "URI as listed" } },
                    "required": ["server", "uri"],
                    "additionalProperties": false,
                }),
            ),
        };
        let hints = json!({ "readOnlyHint": true });
        json!({ "name": self.name(), "description": description, "inputSchema": schema, "annotations": hints })
    }

    /// Calls the tool. In a list, a server that is down is replaced by its error.
    ///
    /// # Errors
    /// [`ManagerError::UnknownServer`], [`ManagerError::BadResourceArguments`], [`ManagerError::Closed`]; for `Read` also any of
    /// [`ClientError`] that a call of a tool can have, and [`ClientError::ResourceDenied`].
    pub async fn call(self, manager: &Manager, arguments: &Value) -> Result<ToolResult, ManagerError> {
        let bad = |reason: String| ManagerError::BadResourceArguments { tool: self.name(), reason };
        let Arguments { server, uri } = Arguments::deserialize(arguments).map_err(|error| bad(error.to_string()))?;
        match (self, server, uri) {
            (Self::List, server, None) => list(manager, server.as_deref()).await,
            (Self::List, _, Some(_)) => Err(bad("a list takes no `uri`".to_owned())),
            (Self::Read, Some(server), Some(uri)) => read(manager, &server, &uri).await,
            (Self::Read, ..) => Err(bad("`server` and `uri` are required".to_owned())),
        }
    }
}

fn members(manager: &Manager, server: Option<&str>) -> Result<Vec<Member>, ManagerError> {
    if manager.is_closed() {
        return Err(ManagerError::Closed);
    }
    let view = manager.view.borrow();
    let is_requested = |member: &&Member| server.is_none_or(|server| *server == *member.config.name);
    let members: Vec<_> = view.servers.iter().filter(is_requested).cloned().collect();
    match server {
        Some(server) if members.is_empty() => Err(ManagerError::UnknownServer { server: server.to_owned() }),
        _ => Ok(members),
    }
}

/// The resources as JSON objects: a `server` member, then all members of the server's object, unknown ones included.
async fn list(manager: &Manager, server: Option<&str>) -> Result<ToolResult, ManagerError> {
    manager.settled().await.ok_or(ManagerError::Closed)?;
    let mut lines = Vec::new();
    for member in members(manager, server)? {
        let server = &*member.config.name;
        match connected(&member.handle) {
            Err(error) => lines.push(json!({ "server": server, "error": error.to_string() }).to_string()),
            Ok(()) => {
                let exposed =
                    |item: &&Item| member.config.policy.permits(ListKind::Resources, &item.key, Some(&item.json));
                let resources = member.lists[ListKind::Resources].items.iter().filter(exposed);
                lines.extend(resources.map(|resource| with_server(server, &resource.json)));
            }
        }
    }
    let text = format!("[{}]", lines.join(",\n"));
    let result = json!({ "content": [{ "type": "text", "text": text }] });
    Ok(ToolResult::from_raw(Bytes::from(result.to_string())))
}

/// Adds a `server` member to a resource object, which is never empty because a resource has a URI.
fn with_server(server: &str, definition: &[u8]) -> String {
    let members = String::from_utf8_lossy(&definition[1..]);
    format!("{{\"server\":{},{members}", Value::from(server))
}

#[derive(Deserialize)]
struct Contents<'a> {
    #[serde(borrow)]
    contents: Vec<&'a RawValue>,
}

/// Reads a resource and returns its contents as embedded resources (MCP 2025-11-25, `server/tools`, "Embedded Resources").
async fn read(manager: &Manager, server: &str, uri: &str) -> Result<ToolResult, ManagerError> {
    let member = members(manager, Some(server))?.remove(0);
    if !member.is_enabled() {
        return Err(disabled(&member).into());
    }
    let Member { handle, config, .. } = member;
    connected(&handle)?;
    if !config.policy.permits(ListKind::Resources, uri, None) {
        return Err(ClientError::ResourceDenied { server: Arc::clone(handle.name()), uri: uri.to_owned() }.into());
    }
    let limit = config.settings.request_limit();
    let result = request(&handle, "resources/read", &json!({ "uri": uri }), limit).await?;
    let read: Contents<'_> = serde_json::from_slice(&result).map_err(|_| malformed(&handle, "resources/read"))?;
    let mut raw = BytesMut::from(&br#"{"content":["#[..]);
    for (index, part) in read.contents.into_iter().enumerate() {
        raw.put_slice(if index == 0 { b"" } else { b"," });
        raw.put_slice(br#"{"type":"resource","resource":"#);
        raw.put_slice(part.get().as_bytes());
        raw.put_u8(b'}');
    }
    raw.put_slice(b"]}");
    Ok(ToolResult::from_raw(raw.freeze()))
}

fn malformed(handle: &ServerHandle, method: &str) -> ClientError {
    let (outcome, reason) = (Outcome::Answered, format!("has sent a malformed answer to `{method}`"));
    ClientError::Protocol { server: Arc::clone(handle.name()), outcome, reason }
}
