//! An agent on rmcp that reports as JSON what it sees of each server.
//!
//! usage: matrix-agent JSON, with the members of `checks/matrix_agent.py`; `mode` is modern or legacy

#![expect(deprecated, reason = "logging and subscribing, as servers and agents do them that are in use")]

use std::error::Error;
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientCapabilities, ClientConfig, ElicitRequestParams, ElicitResult,
    ElicitationAction, Implementation, LoggingLevel, LoggingMessageNotificationParam, ProgressNotificationParam,
    ProtocolVersion, RequestMetaObject, ResourceUpdatedNotificationParam, ServerNotification, SetLevelRequestParams,
    SubscribeRequestParams, SubscriptionFilter,
};
use rmcp::service::{NotificationContext, RequestContext, RunningService};
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::transport::{StreamableHttpClientTransport, TokioChildProcess, UnixSocketHttpClient};
use rmcp::{ClientHandler, ClientLifecycleMode, ClientServiceExt, ErrorData, RoleClient};
use serde_json::{Map, Value, json};
use tokio::process::Command;
use tokio::time::{sleep, timeout};

type Seen = Result<Value, Box<dyn Error>>;

/// Time limit of a check.
const CHECK_LIMIT: Duration = Duration::from_secs(60);
const TICK: Duration = Duration::from_millis(10);
const CHANGED: &str = "changed";

/// The received messages so far. It answers elicitations as Ada.
#[derive(Debug, Clone, Default)]
struct ReceivedMessages {
    progress: Vec<Value>,
    logged: Vec<Value>,
    tools: usize,
    updated: Vec<String>,
}

#[derive(Debug, Clone, Default)]
struct Ada(Arc<Mutex<ReceivedMessages>>);

impl Ada {
    fn received(&self) -> std::sync::MutexGuard<'_, ReceivedMessages> {
        self.0.lock().expect("no panic")
    }

    async fn until(&self, met: impl Fn(&ReceivedMessages) -> bool) {
        while !met(&self.received()) {
            sleep(TICK).await;
        }
    }
}

impl ClientHandler for Ada {
    fn get_info(&self) -> ClientConfig {
        ClientConfig::new(
            ClientCapabilities::builder().enable_elicitation().build(),
            Implementation::new("matrix", "1"),
        )
    }

    async fn create_elicitation(
        &self,
        _: ElicitRequestParams,
        _: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        Ok(ElicitResult::new(ElicitationAction::Accept).with_content(json!({ "name": "Ada" })))
    }

    async fn on_progress(&self, notification: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        self.received().progress.push(json!([notification.progress, notification.total]));
    }

    async fn on_logging_message(
        &self,
        notification: LoggingMessageNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.received().logged.push(notification.data);
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.received().tools += 1;
    }

    async fn on_resource_updated(
        &self,
        notification: ResourceUpdatedNotificationParam,
        _: NotificationContext<RoleClient>,
    ) {
        self.received().updated.push(notification.uri);
    }
}

struct Agent {
    client: RunningService<RoleClient, Ada>,
    is_modern: bool,
    server: String,
    prefix: String,
}

impl Agent {
    fn ada(&self) -> &Ada {
        self.client.service()
    }

    async fn names(&self) -> Result<Vec<String>, Box<dyn Error>> {
        Ok(self.client.list_all_tools().await?.into_iter().map(|tool| tool.name.into_owned()).collect())
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<CallToolResult, Box<dyn Error>> {
        let mut params = CallToolRequestParams::new(format!("{}{tool}", self.prefix));
        params.arguments = arguments.as_object().cloned();
        if self.is_modern {
            let mut meta = RequestMetaObject::default();
            meta.set_log_level(LoggingLevel::Info);
            params.meta = Some(meta);
        }
        Ok(self.client.call_tool(params).await?)
    }

    async fn text(&self, tool: &str, arguments: Value) -> Result<String, Box<dyn Error>> {
        let result = self.call(tool, arguments).await?;
        let text = result.content.first().and_then(|content| content.as_text()).ok_or("no text")?;
        Ok(text.text.clone())
    }

    async fn lists(&self) -> Seen {
        let names = self.names().await?;
        let own = names.iter().filter_map(|name| name.strip_prefix(&self.prefix));
        let mut own: Vec<_> = own.filter(|name| *name != CHANGED).collect();
        own.sort_unstable();
        Ok(json!(own))
    }

    async fn errors(&self) -> Seen {
        let failed = self.call("fail", json!({})).await?;
        let text = failed.content.first().and_then(|content| content.as_text()).ok_or("no text")?;
        Ok(json!([failed.is_error, text.text.contains("on purpose")]))
    }

    async fn progress(&self) -> Seen {
        self.ada().received().progress.clear();
        let text = self.text("count", json!({ "to": 3 })).await?;
        Ok(json!([self.ada().received().progress, text]))
    }

    async fn logs(&self) -> Seen {
        self.ada().received().logged.clear();
        let text = self.text("log", json!({ "text": "for the log" })).await?;
        self.ada().until(|received| !received.logged.is_empty()).await;
        Ok(json!([text, self.ada().received().logged]))
    }

    async fn changes(&self) -> Seen {
        let changed = format!("{}{CHANGED}", self.prefix);
        let before = self.names().await?.contains(&changed);
        if self.is_modern {
            let mut events = self.client.listen(SubscriptionFilter::builder().tools_list_changed().build()).await?;
            self.text("change", json!({})).await?;
            while !matches!(events.next().await?, Some(ServerNotification::ToolListChangedNotification(_))) {}
            events.cancel().await?;
        } else {
            self.ada().received().tools = 0;
            self.text("change", json!({})).await?;
            self.ada().until(|received| received.tools > 0).await;
        }
        while self.names().await?.contains(&changed) == before {
            sleep(TICK).await;
        }
        Ok(json!("changed"))
    }

    async fn updates(&self) -> Seen {
        let expected = format!("matrix://{}/watched", self.server);
        let resources = self.client.list_all_resources().await?;
        let uri = resources.into_iter().map(|one| one.uri.clone()).find(|uri| *uri == expected).ok_or("no resource")?;
        if self.is_modern {
            let filter = SubscriptionFilter::builder().resource_subscription(uri).build();
            let mut events = self.client.listen(filter).await?;
            self.text("touch", json!({})).await?;
            while !matches!(events.next().await?, Some(ServerNotification::ResourceUpdatedNotification(notification)) if notification.params.uri == expected)
            {
            }
            events.cancel().await?;
        } else {
            self.subscribe(uri).await?;
            self.text("touch", json!({})).await?;
            self.ada().until(|received| received.updated.contains(&expected)).await;
        }
        Ok(json!("updated"))
    }

    async fn subscribe(&self, uri: String) -> Result<(), Box<dyn Error>> {
        Ok(self.client.subscribe(SubscribeRequestParams::new(uri)).await?)
    }

    async fn cancels(&self) -> Seen {
        let name = format!("rmcp-{}", std::process::id());
        self.ada().received().progress.clear();
        tokio::select! {
            answered = self.call("wait", json!({ "name": name })) => return Err(format!("answered: {answered:?}").into()),
            () = self.ada().until(|received| !received.progress.is_empty()) => {}
        }
        while !self.text("was_cancelled", json!({ "name": name })).await?.eq_ignore_ascii_case("true") {
            sleep(TICK).await;
        }
        Ok(json!("given up"))
    }

    async fn check(&self, what: &str) -> Seen {
        match what {
            "lists" => self.lists().await,
            "calls" => Ok(json!(self.text("echo", json!({ "text": "ä\n" })).await?)),
            "errors" => self.errors().await,
            "progress" => self.progress().await,
            "asks" => Ok(json!(self.text("ask", json!({})).await?)),
            "logs" => self.logs().await,
            "changes" => self.changes().await,
            "updates" => self.updates().await,
            "cancels" => self.cancels().await,
            _ => Err("no such check".into()),
        }
    }

    /// The checks of one server.
    async fn see(&self, checks: &[&str]) -> Value {
        let mut seen = Map::new();
        for check in checks {
            let one = match timeout(CHECK_LIMIT, self.check(check)).await {
                Ok(Ok(seen)) => seen,
                Ok(Err(error)) => json!(error.to_string()),
                Err(_) => json!("nothing in time"),
            };
            seen.insert((*check).to_owned(), one);
        }
        Value::Object(seen)
    }
}

async fn connect(config: &Value) -> Result<(RunningService<RoleClient, Ada>, bool), Box<dyn Error>> {
    let is_modern = config["mode"] == "modern";
    let lifecycle = if is_modern {
        ClientLifecycleMode::Discover { preferred_versions: vec![ProtocolVersion::V_2026_07_28] }
    } else {
        ClientLifecycleMode::Initialize
    };
    let client = if let Some(url) = config["url"].as_str() {
        let socket = UnixSocketHttpClient::new(config["socket"].as_str().ok_or("no socket")?, url);
        let to_url = StreamableHttpClientTransportConfig::with_uri(url);
        Ada::default()
            .serve_with_lifecycle(StreamableHttpClientTransport::with_client(socket, to_url), lifecycle)
            .await?
    } else {
        let command: Vec<String> = serde_json::from_value(config["command"].clone())?;
        let [program, arguments @ ..] = &command[..] else { return Err("no command".into()) };
        let mut launched = Command::new(program);
        launched.args(arguments);
        let (transport, _) = TokioChildProcess::builder(launched).stderr(Stdio::inherit()).spawn()?;
        Ada::default().serve_with_lifecycle(transport, lifecycle).await?
    };
    Ok((client, is_modern))
}

async fn set_level(client: &RunningService<RoleClient, Ada>) {
    // Servers without a settable level log everything.
    let _ = client.set_level(SetLevelRequestParams::new(LoggingLevel::Info)).await;
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let config: Value = serde_json::from_str(&std::env::args().nth(1).ok_or("usage: matrix-agent JSON")?)?;
    let (client, is_modern) = connect(&config).await?;
    if !is_modern {
        set_level(&client).await;
    }
    let mut agent = Agent { client, is_modern, server: String::new(), prefix: String::new() };
    let mut saw = Map::from_iter([("modern".to_owned(), json!(is_modern))]);
    for (server, prefix) in config["servers"].as_object().ok_or("no servers")? {
        agent.server.clone_from(server);
        prefix.as_str().ok_or("no prefix")?.clone_into(&mut agent.prefix);
        let checks = config["checks"][server].as_array().into_iter().flatten().filter_map(Value::as_str);
        saw.insert(server.clone(), agent.see(&checks.collect::<Vec<_>>()).await);
    }
    println!("{}", Value::Object(saw));
    agent.client.cancel().await?;
    Ok(())
}
