//! A typical stdio server on rmcp, with the features of `checks/matrix_server.py`.
//!
//! usage: matrix-server NAME

#![expect(deprecated, reason = "logging and subscribing, as servers and agents do them that are in use")]

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, InputRequests, InputRequiredResult,
    ListResourcesResult, ListToolsResult, LoggingMessageNotificationParam, PaginatedRequestParams,
    ProgressNotificationParam, Resource, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool,
};
use rmcp::service::{RequestContext, SubscriptionContext, SubscriptionSink};
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use rmcp_http_server::{text_result, who};
use serde_json::{Value, json};

/// Name and parameter of each tool, with the parameter's type.
const TOOLS: [(&str, Option<(&str, &str)>); 10] = [
    ("echo", Some(("text", "string"))),
    ("fail", None),
    ("count", Some(("to", "integer"))),
    ("wait", Some(("name", "string"))),
    ("was_cancelled", Some(("name", "string"))),
    ("ask", None),
    ("log", Some(("text", "string"))),
    ("change", None),
    ("touch", None),
    (CHANGED, None),
];
/// The tool that comes and goes.
const CHANGED: &str = "changed";
/// The key of an input request.
const WHO: &str = "who";

#[derive(Default)]
struct State {
    cancelled: Vec<String>,
    has_changed: bool,
    /// Subscriptions that were accepted, of which those that were acknowledged will soon be among `listening`.
    accepted: usize,
    listening: Vec<SubscriptionSink>,
}

struct Server {
    watched: String,
    state: Arc<Mutex<State>>,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_logging()
            .build();
        ServerConfig::new(capabilities)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let has_changed = self.state.lock().expect("no panic").has_changed;
        let listed = TOOLS.iter().filter(|(name, _)| has_changed || *name != CHANGED);
        let tools = listed.map(|(name, parameter)| {
            let properties = parameter.map_or(json!({}), |(name, kind)| json!({ name: { "type": kind } }));
            let schema = json!({ "type": "object", "properties": properties });
            Tool::new(*name, "", schema.as_object().expect("an object").clone())
        });
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(vec![Resource::new(self.watched.clone(), "watched")]))
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        self.state.lock().expect("no panic").accepted += 1;
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        self.state.lock().expect("no panic").listening.push(context.sink().clone());
        context.cancelled().await;
        Ok(())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let argument = request.arguments.clone().unwrap_or_default().into_values().next().unwrap_or_default();
        let text = argument.as_str().unwrap_or_default().to_owned();
        Ok(match &*request.name {
            "echo" => text_result(text),
            "fail" => CallToolResult::error(vec![ContentBlock::text("on purpose")]),
            "count" => count(&argument, &context).await,
            "wait" => self.wait(text, &context).await,
            "was_cancelled" => text_result(self.state.lock().expect("no panic").cancelled.contains(&text).to_string()),
            "ask" => return ask(&request),
            "log" => log(text, &context).await,
            "change" => self.change().await,
            "touch" => self.touch().await,
            _ => return Err(ErrorData::invalid_params("Unknown tool", None)),
        }
        .into())
    }
}

impl Server {
    /// Waits until the call is cancelled.
    async fn wait(&self, name: String, context: &RequestContext<RoleServer>) -> CallToolResult {
        report(context, 0, 1).await;
        tokio::select! {
            () = context.ct.cancelled() => self.state.lock().expect("no panic").cancelled.push(name),
            () = tokio::time::sleep(Duration::from_secs(30)) => {}
        }
        text_result("waited".to_owned())
    }

    /// All subscribers, including former ones.
    async fn listening(&self) -> Vec<SubscriptionSink> {
        loop {
            {
                let state = self.state.lock().expect("no panic");
                if state.listening.len() == state.accepted {
                    return state.listening.clone();
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    async fn change(&self) -> CallToolResult {
        {
            let mut state = self.state.lock().expect("no panic");
            state.has_changed = !state.has_changed;
        }
        for sink in self.listening().await {
            // A subscriber may have ended or use another filter.
            let _ = sink.notify_tool_list_changed().await;
        }
        text_result("changed".to_owned())
    }

    async fn touch(&self) -> CallToolResult {
        for sink in self.listening().await {
            let _ = sink.notify_resource_updated(self.watched.clone()).await;
        }
        text_result("touched".to_owned())
    }
}

/// Requests the name in an `input_required` result.
fn ask(request: &CallToolRequestParams) -> Result<CallToolResponse, ErrorData> {
    if let Some(answer) = request.input_responses.as_ref().and_then(|responses| responses.get(WHO)) {
        let name = answer["content"]["name"].as_str().unwrap_or_default();
        return Ok(text_result(format!("Hello, {name}!")).into());
    }
    let mut questions = InputRequests::new();
    questions.insert(WHO.to_owned(), who()?);
    Ok(InputRequiredResult::new(Some(questions), None).into())
}

async fn log(text: String, context: &RequestContext<RoleServer>) -> CallToolResult {
    if context.meta.log_level().is_some() {
        let message = LoggingMessageNotificationParam::new(rmcp::model::LoggingLevel::Warning, text.into());
        let _ = context.peer.notify_logging_message(message).await;
    }
    text_result("logged".to_owned())
}

async fn count(to: &Value, context: &RequestContext<RoleServer>) -> CallToolResult {
    let to = to.as_u64().and_then(|to| u32::try_from(to).ok()).unwrap_or(0);
    for number in 1..=to {
        report(context, number, to).await;
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
    // Delay, so that slow agents receive the notification before the result.
    tokio::time::sleep(Duration::from_millis(150)).await;
    text_result(format!("counted to {to}"))
}

async fn report(context: &RequestContext<RoleServer>, progress: u32, total: u32) {
    if let Some(token) = context.meta.get_progress_token() {
        let progress = ProgressNotificationParam::new(token, progress.into()).with_total(total.into());
        let _ = context.peer.notify_progress(progress).await;
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).ok_or("usage: matrix-server NAME")?;
    let server = Server { watched: format!("matrix://{name}/watched"), state: Arc::default() };
    server.serve(stdio()).await?.waiting().await?;
    Ok(())
}
