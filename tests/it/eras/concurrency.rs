//! Agents of both eras use shared servers of both eras at once, and no message is misdirected.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::both;
use crate::support::{Agent, Era, code, result};

/// Requests of the two agents together.
const REQUESTS: usize = 10_000;
/// What one agent has open at a time: less than it may, so that nothing is refused for that.
const AT_ONCE: usize = 50;

/// What a request has to be answered with.
struct Expectation {
    server: Era,
    mark: String,
    kind: Kind,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Call,
    Progress,
    Failure,
    Unknown,
    Prompt,
    Resource,
    Completion,
    Cancelled,
}

const KINDS: [Kind; 8] = [
    Kind::Call,
    Kind::Progress,
    Kind::Failure,
    Kind::Unknown,
    Kind::Prompt,
    Kind::Resource,
    Kind::Completion,
    Kind::Cancelled,
];

/// One agent and what it waits for, by id.
struct Worker {
    agent: Agent,
    era: Era,
    waiting: HashMap<u64, Expectation>,
    cancelled: usize,
    done: usize,
}

impl Worker {
    fn start(&mut self, number: usize) {
        let (kind, server) = (KINDS[number % KINDS.len()], Era::BOTH[number / KINDS.len() % 2]);
        let mark = format!("{:?}-{number}", self.era);
        let call =
            |tool: &str, arguments: Value| ("tools/call", json!({"name": server.tool(tool), "arguments": arguments}));
        let prompt = format!("{}__greet", server.name());
        let (method, params) = match kind {
            Kind::Call => call("sleep", json!({"ms": number % 4, "mark": mark})),
            Kind::Progress => {
                let (method, mut params) = call("progress", json!({"n": 2, "message": mark, "mark": mark}));
                params["_meta"] = json!({"progressToken": mark});
                (method, params)
            }
            Kind::Failure => call("fail", json!({"code": 7, "message": mark})),
            Kind::Unknown => call(&format!("no_{mark}"), json!({})),
            Kind::Prompt => ("prompts/get", json!({"name": prompt, "mark": mark})),
            Kind::Resource => ("resources/read", json!({"uri": server.uri(), "mark": mark})),
            Kind::Completion => {
                let argument = json!({"name": "a", "value": mark});
                ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": prompt}, "argument": argument}))
            }
            Kind::Cancelled => call("sleep", json!({"ms": 600_000, "mark": mark})),
        };
        let id = self.agent.start_request(method, &params);
        if kind == Kind::Cancelled {
            let params = json!({"requestId": id});
            self.agent.notify("notifications/cancelled", &params);
            self.cancelled += 1;
        } else {
            let id = id.as_u64().expect("a number");
            self.waiting.insert(id, Expectation { server, mark, kind });
        }
        self.done += 1;
    }

    /// Takes one message, which has to be for this agent and of its era.
    fn take(&mut self) {
        let message = self.agent.next();
        if message["method"] == "notifications/progress" {
            let token = &message["params"]["progressToken"];
            assert_eq!(message["params"]["message"], *token, "{message}");
            assert!(self.waiting.values().any(|one| *token == one.mark), "not this agent's, or over: {message}");
            return;
        }
        let id = message["id"].as_u64().unwrap_or_else(|| panic!("out of place: {message}"));
        let expected = self.waiting.remove(&id).unwrap_or_else(|| panic!("nobody waits for it: {message}"));
        self.check(&message, &expected);
    }

    fn check(&self, message: &Value, Expectation { server, mark, kind }: &Expectation) {
        let content = match kind {
            Kind::Failure => {
                assert_eq!((code(message), &message["error"]["message"]), (7, &json!(mark)));
                return;
            }
            Kind::Unknown => {
                assert_eq!(code(message), -32602);
                return assert!(
                    message["error"]["message"].as_str().is_some_and(|text| text.ends_with(mark)),
                    "{message}"
                );
            }
            Kind::Call | Kind::Progress | Kind::Cancelled => &result(message)["structuredContent"]["params"],
            Kind::Prompt | Kind::Resource | Kind::Completion => &result(message)["received"],
        };
        let found = [&content["arguments"]["mark"], &content["mark"], &content["argument"]["value"]];
        assert!(found.contains(&&json!(mark)), "{mark}: {message}");
        let is_modern = !content["_meta"]["io.modelcontextprotocol/protocolVersion"].is_null();
        assert_eq!(is_modern, *server == Era::Modern, "{message}");
        let says = result(message)["resultType"] == "complete";
        assert_eq!(says, self.era == Era::Modern, "{message}");
    }
}

/// Case J8.
#[test]
fn ten_thousand_mixed_requests_of_both_eras_go_where_they_belong() {
    let daemon = both();
    let worker = |era: Era| Worker {
        agent: era.agent(&daemon, &json!({"sampling": {}})),
        era,
        waiting: HashMap::new(),
        cancelled: 0,
        done: 0,
    };
    let mut workers = Era::BOTH.map(worker);
    while workers.iter().map(|worker| worker.done).sum::<usize>() < REQUESTS {
        for worker in &mut workers {
            while worker.waiting.len() < AT_ONCE && worker.done < REQUESTS / 2 {
                worker.start(worker.done);
            }
        }
        for worker in &mut workers {
            (0..AT_ONCE / 2).for_each(|_| {
                if !worker.waiting.is_empty() {
                    worker.take()
                }
            });
        }
    }
    for worker in &mut workers {
        while !worker.waiting.is_empty() {
            worker.take();
        }
        worker.agent.expect_quiet();
        assert_eq!((worker.done, worker.cancelled), (REQUESTS / 2, REQUESTS / 2 / KINDS.len()));
    }
    for server in Era::BOTH {
        let row = daemon.wait_row(server.name(), "has nothing left to do", |row| row["in_flight"] == 0);
        assert_eq!((&row["restarts"], &row["stray_responses"]), (&json!(0), &json!(0)), "{row}");
    }
}
