//! `subscriptions/listen`: notifications until the client cancels or a tool ends the subscription.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::modern::SUBSCRIPTION;
use super::modern_tasks;
use super::server::Server;
use super::tools::Call;
use super::wire::{Output, error, response};

/// The filter of each open subscription, by its JSON id.
#[derive(Default)]
pub(crate) struct Subscriptions(BTreeMap<String, Value>);

impl Subscriptions {
    /// The client has cancelled the subscription.
    pub(crate) fn cancel(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Notifies subscribers of `kind` of a list change.
    pub(crate) fn list_changed(&self, output: &mut Output, kind: &str) {
        let (key, method) = (format!("{kind}ListChanged"), format!("notifications/{kind}/list_changed"));
        for (id, _) in self.0.iter().filter(|(_, filter)| filter[&key] == true) {
            output.notify(&method, &format!("{{{}}}", meta(id)));
        }
    }

    /// Notifies subscribers of the task with this JSON id.
    pub(crate) fn task(&self, output: &mut Output, task: &str, state: &str) {
        let task: Value = serde_json::from_str(task).expect("JSON");
        let wants = |filter: &Value| filter["taskIds"].as_array().is_some_and(|ids| ids.contains(&task));
        for (id, _) in self.0.iter().filter(|(_, filter)| wants(filter)) {
            output.notify("notifications/tasks", &format!("{{{state},{}}}", meta(id)));
        }
    }

    fn updated(&self, output: &mut Output, uri: &Value) {
        let wants = |filter: &Value| filter["resourceSubscriptions"].as_array().is_some_and(|uris| uris.contains(uri));
        for (id, _) in self.0.iter().filter(|(_, filter)| wants(filter)) {
            // Members that a careless relay would alter come first.
            output.notify("notifications/resources/updated", &format!(r#"{{"zeta":1.10,{},"uri":{uri}}}"#, meta(id)));
        }
    }
}

fn meta(id: &str) -> String {
    format!(r#""_meta":{{"{SUBSCRIPTION}":{id}}}"#)
}

/// Opens a subscription, and acknowledges the supported part of its filter.
///
/// Source: MCP 2026-07-28, `subscriptions/listen`.
pub(crate) fn open(server: &mut Server, id: &str, params: &Value) {
    let filter = params["notifications"].as_object().cloned().unwrap_or_default();
    if server.flags.refuse_uri.as_ref().is_some_and(|uri| params.to_string().contains(uri)) {
        return server.output.line(&error(id, -32602, "there is no such resource", ""));
    }
    if server.flags.no_acknowledgement {
        return;
    }
    let library = server.flags.library.is_some();
    let mut granted: Map<_, _> = filter.into_iter().filter(|(key, _)| library || key == "toolsListChanged").collect();
    if let Some(ids) = params["notifications"]["taskIds"].as_array() {
        if !modern_tasks::is_understood(&params["_meta"]) {
            return server.output.line(&error(id, -32021, "Missing required client capability", ""));
        }
        let known = ids.iter().filter(|id| server.tasks.all.contains_key(&id.to_string()));
        granted.insert("taskIds".into(), known.cloned().collect());
    }
    let granted = Value::Object(granted);
    let acknowledged = format!(r#"{{{},"notifications":{granted}}}"#, meta(id));
    server.output.notify("notifications/subscriptions/acknowledged", &acknowledged);
    server.subscriptions.0.insert(id.to_owned(), granted);
}

/// The tool `touch`: notifies of changed `lists` and `uris`, and of the status of `tasks`.
pub(crate) fn touch(server: &mut Server, call: &Call) {
    for kind in call.names("lists") {
        server.subscriptions.list_changed(&mut server.output, &kind);
    }
    for uri in call.names("uris") {
        server.subscriptions.updated(&mut server.output, &Value::from(uri));
    }
    for task in call.names("tasks") {
        modern_tasks::tell(server, &Value::from(task).to_string());
    }
    server.output.line(&call.echo());
}

/// The tool `end_subscriptions`: ends all subscriptions by `cancelled` notifications or by results (`how`).
pub(crate) fn end(server: &mut Server, call: &Call) {
    for (id, _) in std::mem::take(&mut server.subscriptions.0) {
        if call.arguments["how"] == "cancelled" {
            server.output.notify("notifications/cancelled", &format!(r#"{{"requestId":{id}}}"#));
        } else {
            server.output.line(&response(&id, &format!(r#"{{"resultType":"complete",{}}}"#, meta(&id))));
        }
    }
    server.output.line(&call.echo());
}
