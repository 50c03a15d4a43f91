//! A typical server on rmcp over streamable HTTP on loopback, with the tools of `checks/http_server.py`.
//!
//! usage: PORT=N rmcp-http-server   (0: a free port; the line "PORT n" reports it)

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, ListToolsResult, PaginatedRequestParams,
    ProgressNotificationParam, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// Name and parameter of each tool, with the parameter's type.
const TOOLS: [(&str, Option<(&str, &str)>); 5] = [
    ("echo", Some(("text", "string"))),
    ("fail", None),
    ("count", Some(("to", "integer"))),
    ("wait", Some(("name", "string"))),
    ("was_cancelled", Some(("name", "string"))),
];

/// The server of one session. Sessions share the list of cancelled calls.
#[derive(Clone, Default)]
struct Server {
    cancelled: Arc<Mutex<Vec<String>>>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = TOOLS.iter().map(|(name, parameter)| {
            let properties = parameter.map_or(json!({}), |(name, kind)| json!({ name: { "type": kind } }));
            let schema = json!({ "type": "object", "properties": properties });
            Tool::new(*name, "", schema.as_object().expect("an object").clone())
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = request.arguments.unwrap_or_default().into_values().next().unwrap_or_default();
        let text = argument.as_str().unwrap_or_default().to_owned();
        Ok(match &*request.name {
            "echo" => text_result(text),
            "fail" => CallToolResult::error(vec![ContentBlock::text("on purpose")]),
            "count" => count(&argument, &context).await,
            "wait" => self.wait(text, &context).await,
            "was_cancelled" => text_result(self.cancelled.lock().expect("no panic").contains(&text).to_string()),
            _ => return Err(ErrorData::invalid_params("Unknown tool", None)),
        }
        .into())
    }
}

impl Server {
    /// Waits until the call is cancelled.
    async fn wait(&self, name: String, context: &RequestContext<RoleServer>) -> CallToolResult {
        report(context, 0).await;
        tokio::select! {
            () = context.ct.cancelled() => self.cancelled.lock().expect("no panic").push(name),
            () = tokio::time::sleep(Duration::from_secs(60)) => {}
        }
        text_result("waited".to_owned())
    }
}

async fn count(to: &Value, context: &RequestContext<RoleServer>) -> CallToolResult {
    let to = to.as_u64().and_then(|to| u32::try_from(to).ok()).unwrap_or(0);
    for number in 1..=to {
        report(context, number).await;
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    text_result(format!("counted to {to}"))
}

async fn report(context: &RequestContext<RoleServer>, progress: u32) {
    if let Some(token) = context.meta.get_progress_token() {
        let progress = ProgressNotificationParam::new(token, progress.into());
        let _ = context.peer.notify_progress(progress).await;
    }
}

fn text_result(text: String) -> CallToolResult {
    CallToolResult::success(vec![ContentBlock::text(text)])
}

async fn serve(port: u16) -> std::io::Result<()> {
    let server = Server::default();
    let made = move || Ok(server.clone());
    let service =
        StreamableHttpService::new(made, Arc::<LocalSessionManager>::default(), StreamableHttpServerConfig::default());
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    println!("PORT {}", listener.local_addr()?.port());
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(service.clone());
        tokio::spawn(async move {
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

fn main() -> std::io::Result<()> {
    let port = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(0);
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(serve(port))
}
