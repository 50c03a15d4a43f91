//! A modern server on rmcp whose SDK makes tools tasks of the extension.

use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult,
    GetTaskParams, GetTaskResult, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    UpdateTaskParams,
};
use rmcp::service::RequestContext;
use rmcp::task_manager::{TaskContext, TaskExit, TaskManager, TaskOptions};
use rmcp::transport::stdio;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt};
use rmcp_http_server::{text_result, who};
use serde_json::json;

const TOOLS: [&str; 4] = ["ask", "build", "fail", "wait"];

#[derive(Clone, Default)]
struct Server {
    tasks: TaskManager,
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().enable_tasks().build())
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let schema = json!({ "type": "object" });
        let schema = schema.as_object().expect("an object");
        Ok(ListToolsResult::with_all_items(TOOLS.map(|name| Tool::new(name, "", schema.clone())).to_vec()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let options = TaskOptions::new().with_poll_interval_ms(50);
        let task = self.tasks.spawn(options, move |context| {
            Box::pin(async move {
                tokio::select! {
                    result = work(&request.name, &context) => result,
                    () = context.cancelled() => Err(TaskExit::Cancelled),
                }
            })
        });
        Ok(CallToolResponse::Task(CreateTaskResult::new(task)))
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.tasks.cancel_task(&request.task_id)
    }
}

async fn work(tool: &str, context: &TaskContext) -> Result<CallToolResult, TaskExit> {
    tokio::time::sleep(Duration::from_millis(100)).await;
    Ok(match tool {
        "build" => text_result("built".to_owned()),
        "fail" => CallToolResult::error(vec![ContentBlock::text("on purpose")]),
        "ask" => {
            let answer = context.request_input("who", who()?).await?;
            text_result(format!("Hello, {}!", answer["content"]["name"].as_str().unwrap_or_default()))
        }
        "wait" => {
            tokio::time::sleep(Duration::from_secs(30)).await;
            text_result("nobody gave it up".to_owned())
        }
        _ => return Err(ErrorData::invalid_params("Unknown tool", None).into()),
    })
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Server::default().serve(stdio()).await?.waiting().await?;
    Ok(())
}
