//! A modern agent on rmcp that calls tools as tasks of the extension and reports their outcome as JSON.
//!
//! usage: task-agent JSON, with the members of `checks/task_agent.py`

use std::error::Error;
use std::process::Stdio;
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ClientCapabilities, ClientConfig,
    GetTaskParams, Implementation, InputRequests, InputResponses, ProtocolVersion, TaskPayload, UpdateTaskParams,
};
use rmcp::service::RunningService;
use rmcp::transport::TokioChildProcess;
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, RoleClient};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

type Seen = Result<Value, Box<dyn Error>>;

/// Time limit of a check.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
/// Polling interval of a server that names none.
const TICK: Duration = Duration::from_millis(50);

struct Agent;

impl ClientHandler for Agent {
    fn get_info(&self) -> ClientConfig {
        let capabilities = ClientCapabilities::builder().enable_elicitation().enable_tasks().build();
        ClientConfig::new(capabilities, Implementation::new("tasks", "1"))
    }
}

type Client = RunningService<RoleClient, Agent>;

/// Calls a tool and returns the id of its task.
async fn make(client: &Client, tool: String) -> Result<String, Box<dyn Error>> {
    match client.call_tool_once(CallToolRequestParams::new(tool)).await? {
        CallToolResponse::Task(made) => Ok(made.task.task_id),
        other => Err(format!("no task: {other:?}").into()),
    }
}

/// Follows a task to its end. It answers each input request once, as Ada.
async fn end(client: &Client, id: &str) -> Result<TaskPayload, Box<dyn Error>> {
    let mut answered = InputRequests::new();
    loop {
        let state = client.get_task(GetTaskParams::new(id)).await?.task;
        if let TaskPayload::InputRequired { input_requests } = &state.payload {
            let new = input_requests.keys().filter(|key| !answered.contains_key(*key));
            let ada = |key: &String| (key.clone(), json!({ "action": "accept", "content": { "name": "Ada" } }));
            let answers: InputResponses = new.map(ada).collect();
            if !answers.is_empty() {
                client.update_task(UpdateTaskParams::new(id, answers)).await?;
            }
            answered.extend(input_requests.clone());
        } else if state.status().is_terminal() {
            return Ok(state.payload);
        }
        sleep(state.task.poll_interval_ms.map_or(TICK, Duration::from_millis)).await;
    }
}

/// `isError` of the result, and its text.
async fn result(client: &Client, tool: String) -> Seen {
    let id = make(client, tool).await?;
    let TaskPayload::Completed { result } = end(client, &id).await? else { return Err("not completed".into()) };
    let result: CallToolResult = serde_json::from_value(Value::Object(result))?;
    let text = result.content.first().and_then(|content| content.as_text()).ok_or("no text")?;
    Ok(json!([result.is_error == Some(true), text.text]))
}

async fn cancels(client: &Client, tool: String) -> Seen {
    let id = make(client, tool).await?;
    client.cancel_task(CancelTaskParams::new(id.as_str())).await?;
    match end(client, &id).await? {
        TaskPayload::Cancelled => Ok(json!("cancelled")),
        other => Err(format!("{other:?}").into()),
    }
}

async fn see(check: impl Future<Output = Seen>) -> Value {
    match timeout(CHECK_LIMIT, check).await {
        Ok(Ok(seen)) => seen,
        Ok(Err(error)) => json!(error.to_string()),
        Err(_) => json!("nothing in time"),
    }
}

async fn connect(settings: &Value) -> Result<Client, Box<dyn Error>> {
    let command: Vec<String> = serde_json::from_value(settings["command"].clone())?;
    let [program, arguments @ ..] = &command[..] else { return Err("no command".into()) };
    let mut launched = Command::new(program);
    launched.args(arguments);
    let (transport, _) = TokioChildProcess::builder(launched).stderr(Stdio::inherit()).spawn()?;
    let lifecycle = ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] };
    Ok(Agent.serve_with_lifecycle(transport, lifecycle).await?)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let settings: Value = serde_json::from_str(&std::env::args().nth(1).ok_or("usage: task-agent JSON")?)?;
    let client = connect(&settings).await?;
    let mut saw = Map::new();
    for (server, prefix) in settings["servers"].as_object().ok_or("no servers")? {
        let prefix = prefix.as_str().ok_or("no prefix")?;
        let seen = json!({
            "runs": see(result(&client, format!("{prefix}build"))).await,
            "errors": see(result(&client, format!("{prefix}fail"))).await,
            "asks": see(result(&client, format!("{prefix}ask"))).await,
            "cancels": see(cancels(&client, format!("{prefix}wait"))).await,
        });
        saw.insert(server.clone(), seen);
    }
    println!("{}", Value::Object(saw));
    client.cancel().await?;
    Ok(())
}
