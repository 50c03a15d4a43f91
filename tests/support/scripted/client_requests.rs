//! What it asks its client as of the legacy era, for a call that waits for that.

use serde_json::Value;

use super::server::Server;
use super::tools::{Call, structured};
use super::wire::quoted;

/// What the client was asked for a call, and is asked once more so many times after it has answered.
#[derive(Clone)]
pub(crate) struct ClientRequest {
    pub(crate) call: String,
    method: String,
    params: String,
    again: u64,
    /// The call is never answered.
    hangs: bool,
    /// The tool fails if the client refuses.
    fails: bool,
}

/// Sends the client a request with the `params` given, as often as `times` says; the call is answered with what the client
/// answers last. With `again` it is sent so many times more, each when the one before is answered; with `hang` there is no answer, and with
/// `fail` the tool fails if the client refuses.
pub(crate) fn tool(server: &mut Server, call: &Call) {
    let method = quoted(call.text("method"));
    let params = call.raw_argument("params").unwrap_or_else(|| "{}".to_owned());
    let [hangs, fails] = ["hang", "fail"].map(|flag| call.arguments[flag] == true);
    let request = ClientRequest { call: call.id.clone(), method, params, again: call.number("again"), hangs, fails };
    (0..call.arguments["times"].as_u64().unwrap_or(1)).for_each(|_| send(server, request.clone()));
}

fn send(server: &mut Server, request: ClientRequest) {
    let (question, ClientRequest { method, params, .. }) = (quoted(&format!("ask-{}", server.fresh())), &request);
    server.output.line(&format!(r#"{{"jsonrpc":"2.0","id":{question},"method":{method},"params":{params}}}"#));
    server.pending_requests.insert(question, request);
}

/// The client has answered this, and nothing else is asked for the call.
pub(crate) fn answered(server: &mut Server, request: ClientRequest, answer: &Value) {
    match request {
        ClientRequest { again: 0, hangs: true, .. } => {}
        ClientRequest { again: 0, fails: true, call, .. } if answer.get("error").is_some() => {
            server.output.line(&format!(r#"{{"jsonrpc":"2.0","id":{call},"result":{{"content":[],"isError":true}}}}"#));
        }
        ClientRequest { again: 0, call, .. } => server.output.line(&structured(&call, &answer.to_string())),
        ClientRequest { again, .. } => send(server, ClientRequest { again: again - 1, ..request }),
    }
}
