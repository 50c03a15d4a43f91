//! Results that require input, in as many rounds as the test configures.
//!
//! Stateless: the contents of a retry identify its round.

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, from_str, json};

use super::modern::{CAPABILITIES, Refusal};
use super::server::Server;
use super::tools::Call;
use super::wire::response;

/// One round of input requests.
#[derive(Deserialize)]
struct Round<'a> {
    /// `inputRequests`, sent as given.
    #[serde(borrow)]
    inputs: Option<&'a RawValue>,
    /// `requestState`, sent as given.
    #[serde(borrow)]
    state: Option<&'a RawValue>,
    /// Ignores the client's declared capabilities.
    #[serde(default)]
    unchecked: bool,
}

/// The next response to a request.
pub(crate) enum Step {
    /// All input is there.
    Complete,
    /// The complete `input_required` result.
    Required(String),
    Refused(Refusal),
}

/// The response to a request with these `params`, for these `rounds` (JSON).
pub(crate) fn step(rounds: &str, params: &Value) -> Step {
    let rounds: Vec<Round> = from_str(rounds).expect("the rounds of a test are a list of objects");
    let brings_some = ["inputResponses", "requestState"].iter().any(|key| !params[key].is_null());
    let next = match rounds.iter().position(|round| round.is_answered_by(params)) {
        Some(answered) => answered + 1,
        None if brings_some => return refused(-32602, "no such state", Value::Null),
        None => 0,
    };
    rounds.get(next).map_or(Step::Complete, |round| round.ask(&params["_meta"][CAPABILITIES]))
}

/// The tool `need_input`: requires the input of `rounds`, one round after another.
pub(crate) fn tool(server: &mut Server, call: &Call) {
    let rounds = call.raw_argument("rounds").unwrap_or_else(|| "[]".to_owned());
    let params: Value = from_str(&call.params).expect("it was read before");
    let line = match step(&rounds, &params) {
        Step::Complete => call.echo(),
        Step::Required(result) => response(&call.id, &result),
        Step::Refused(refusal) => refusal.line(&call.id),
    };
    server.output.line(&line);
}

fn refused(code: i64, message: &'static str, data: Value) -> Step {
    Step::Refused(Refusal { code, message, data })
}

impl Round<'_> {
    fn requests(&self) -> Map<String, Value> {
        self.inputs.map(|inputs| from_str(inputs.get()).expect("inputs are an object")).unwrap_or_default()
    }

    fn is_answered_by(&self, params: &Value) -> bool {
        let state: Value = self.state.map(|state| from_str(state.get()).expect("JSON")).unwrap_or_default();
        let responses = &params["inputResponses"];
        (self.inputs.is_some() || self.state.is_some())
            && params["requestState"] == state
            && self.requests().keys().all(|key| responses.get(key).is_some())
    }

    fn ask(&self, capabilities: &Value) -> Step {
        let missing = self.requests().values().find_map(|request| missing(request, capabilities));
        if let Some(missing) = missing.filter(|_| !self.unchecked) {
            return refused(-32021, "it cannot be asked", json!({"requiredCapabilities": missing}));
        }
        let inputs = self.inputs.map(|inputs| format!(r#","inputRequests":{}"#, inputs.get())).unwrap_or_default();
        let state = self.state.map(|state| format!(r#","requestState":{}"#, state.get())).unwrap_or_default();
        Step::Required(format!(r#"{{"resultType":"input_required"{inputs}{state}}}"#))
    }
}

/// The capability that this request needs and the client lacks.
fn missing(request: &Value, capabilities: &Value) -> Option<Value> {
    match request["method"].as_str().expect("a method") {
        "elicitation/create" if request["params"]["mode"] == "url" => {
            (!capabilities["elicitation"]["url"].is_object()).then(|| json!({"elicitation": {"url": {}}}))
        }
        "elicitation/create" => {
            let declared = capabilities["elicitation"].as_object();
            let can = declared.is_some_and(|modes| modes.is_empty() || modes.contains_key("form"));
            (!can).then(|| json!({"elicitation": {"form": {}}}))
        }
        "sampling/createMessage" => (!capabilities["sampling"].is_object()).then(|| json!({"sampling": {}})),
        "roots/list" => (!capabilities["roots"].is_object()).then(|| json!({"roots": {}})),
        _ => None,
    }
}
