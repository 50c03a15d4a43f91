//! Requests to the client in the legacy era, during a call that waits for the response.

use serde_json::Value;

use super::server::Server;
use super::tools::{Call, structured};
use super::wire::quoted;

/// A request to the client for a call. It is repeated `again` times after each response.
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

/// The tool `send_request`: sends `times` requests with `params` to the client, and answers the call with the client's last
/// response. `again` repeats the request that many times, each after the response to the one before. With `hang` the call
/// is never answered. With `fail` the tool fails if the client refuses.
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

/// Handles the client's response to the last open request of a call.
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
