//! Random servers and agents: no definition that was not approved is ever in a list, and a name is callable if and only if it is listed.
//!
//! The approved definitions are fixed. After each step, every agent lists everything and calls every name, while the server may be about to
//! list something else. `PIN_CASES` sets the number of scripts, `PIN_SEED` repeats a failed run.

use proptest::prelude::*;
use proptest::test_runner::{RngSeed, TestRunner};

use super::*;
use crate::support::Era;

const NAMES: [&str; 3] = ["read", "write", "fresh"];
/// The definitions that a tool may have; none is approved for all tools.
const VARIANTS: usize = 4;
const SERVERS: [&str; 2] = ["legacy", "modern"];

#[derive(Debug, Clone)]
enum Step {
    /// A server has another definition of a tool from its next answer on, or does not list it.
    Offer { server: usize, tool: usize, variant: Option<usize> },
    /// It says that its tools have changed.
    Announce { server: usize },
    /// It is killed, and comes back.
    Crash { server: usize },
    /// The operator restarts it.
    Restart { server: usize },
    /// The configuration denies a tool, or none.
    Deny { server: usize, tool: Option<usize> },
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let server = 0..SERVERS.len();
    let tool = 0..NAMES.len();
    let step = prop_oneof![
        6 => (server.clone(), tool.clone(), prop::option::weighted(0.9, 0..VARIANTS))
            .prop_map(|(server, tool, variant)| Step::Offer { server, tool, variant }),
        6 => server.clone().prop_map(|server| Step::Announce { server }),
        1 => server.clone().prop_map(|server| Step::Crash { server }),
        1 => server.clone().prop_map(|server| Step::Restart { server }),
        1 => (server, prop::option::of(tool)).prop_map(|(server, tool)| Step::Deny { server, tool }),
    ];
    prop::collection::vec(step, 10..20)
}

fn is_approved(tool: usize, variant: usize) -> bool {
    match tool {
        0 => variant < 2,
        1 => variant == 1,
        _ => variant == 3,
    }
}

fn definition(tool: usize, variant: usize) -> Value {
    let approved = if is_approved(tool, variant) { "good" } else { "evil" };
    super::tool(NAMES[tool], &format!("variant {variant} is {approved}"))
}

struct Model {
    daemon: Daemon,
    place: Rc<Place>,
    agents: Vec<(String, Agent)>,
    offered: [[Option<usize>; NAMES.len()]; SERVERS.len()],
    denied: [Option<usize>; SERVERS.len()],
}

impl Model {
    fn start() -> Self {
        let place = Place::new();
        let offered = [[Some(0); NAMES.len()]; SERVERS.len()];
        for (server, tools) in SERVERS.iter().zip(&offered) {
            list(&place, server, tools);
            let all = (0..NAMES.len()).flat_map(|tool| (0..VARIANTS).map(move |variant| (tool, variant)));
            let approved = all
                .filter(|(tool, variant)| is_approved(*tool, *variant))
                .map(|(tool, variant)| definition(tool, variant));
            approve_lists(&place, server, &approved.chain(own()).collect::<Vec<_>>(), &Value::Null);
        }
        let denied = [None; SERVERS.len()];
        let daemon = configured(&place, &denied).start_in(&place);
        let mut agents = Vec::new();
        for era in Era::BOTH {
            agents.push((String::new(), era.agent(&daemon, &json!({}))));
            agents.extend(SERVERS.map(|server| (server.to_owned(), era.agent_at_face(&daemon, server))));
        }
        Self { daemon, place, agents, offered, denied }
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Offer { server, tool, variant } => {
                self.offered[server][tool] = variant;
                list(&self.place, SERVERS[server], &self.offered[server]);
                // Nobody knows yet. Whatever is listed meanwhile must be approved all the same.
                return self.agents.iter_mut().for_each(|(_, agent)| drop(offered_tools(agent)));
            }
            Step::Announce { server } => {
                let name = format!("{}__burst_list_changed", SERVERS[server]);
                arguments(&self.agents[0].1.call(&name, &json!({ "n": 1 })));
            }
            Step::Crash { server } => {
                let before = self.daemon.count_starts(SERVERS[server]);
                drop(self.agents[0].1.call(&format!("{}__die", SERVERS[server]), &json!({ "how": "kill" })));
                self.wait_started(server, before);
            }
            Step::Restart { server } => {
                let before = self.daemon.count_starts(SERVERS[server]);
                self.daemon.client(&["restart", SERVERS[server]]).expect_code(0);
                self.wait_started(server, before);
            }
            Step::Deny { server, tool } => {
                self.denied[server] = tool;
                configured(&self.place, &self.denied).write(&self.place);
                self.daemon.client(&["reload"]).expect_code(0);
                return self.agents.iter_mut().for_each(|(_, agent)| drop(offered_tools(agent)));
            }
        }
        let server = match *step {
            Step::Announce { server } | Step::Crash { server } | Step::Restart { server } => server,
            Step::Offer { .. } | Step::Deny { .. } => return,
        };
        self.check(server);
    }

    fn wait_started(&mut self, server: usize, before: usize) {
        let name = SERVERS[server];
        self.daemon.wait_row(name, "is back", |row| row["state"] == "ready");
        assert!(self.daemon.count_starts(name) > before);
    }

    /// Every agent gets what the server now offers, less what is not approved or denied.
    fn check(&mut self, server: usize) {
        let is_exposed = |tool: &usize| {
            let is_approved = self.offered[server][*tool].is_some_and(|variant| is_approved(*tool, variant));
            is_approved && self.denied[server] != Some(*tool)
        };
        let exposed: Vec<_> = (0..NAMES.len()).filter(is_exposed).collect();
        for (face, agent) in &mut self.agents {
            let prefix = match &**face {
                "" => format!("{}__", SERVERS[server]),
                face if face == SERVERS[server] => String::new(),
                _ => continue,
            };
            let name = |tool: usize| format!("{prefix}{}", NAMES[tool]);
            until("the lists are up to date", || {
                let listed = offered_tools(agent);
                let listed = (0..NAMES.len()).filter(|tool| listed.contains(&name(*tool)));
                (listed.collect::<Vec<_>>() == exposed).then_some(())
            });
            for tool in 0..NAMES.len() {
                let reached = self.daemon.count_journal(SERVERS[server], "\"tools/call\"");
                let answer = agent.call(&name(tool), &json!({}));
                if exposed.contains(&tool) {
                    arguments(&answer);
                } else {
                    assert_eq!(code(&answer), -32602, "{answer}");
                    assert_eq!(self.daemon.count_journal(SERVERS[server], "\"tools/call\""), reached);
                }
            }
        }
    }
}

fn own() -> impl Iterator<Item = Value> {
    ["burst_list_changed", "die"].map(|name| super::tool(name, "Stays.")).into_iter()
}

fn list(place: &Place, server: &str, tools: &[Option<usize>; NAMES.len()]) {
    let tools = tools.iter().enumerate().filter_map(|(tool, variant)| Some(definition(tool, (*variant)?)));
    offer_tools(place, &format!("{server}.json"), &tools.chain(own()).collect::<Vec<_>>());
}

fn configured(place: &Place, denied: &[Option<usize>; SERVERS.len()]) -> Setup {
    let server = |(name, denied): (&&str, &Option<usize>)| {
        let server = listing(name, place, "hold", &format!("{name}.json")).flags("--era").flags(name);
        match denied {
            Some(tool) => server.line(format!("deny = ['{}']", NAMES[*tool])),
            None => server,
        }
    };
    SERVERS.iter().zip(denied).map(server).fold(Setup::new(), Setup::server)
}

/// The names that an agent is offered. Fails if one of them has a definition that was not approved.
fn offered_tools(agent: &mut Agent) -> Vec<String> {
    let answer = agent.request("tools/list", &json!({}));
    let all = result(&answer).to_string();
    assert!(!all.contains("evil"), "{all}");
    let tools = result(&answer)["tools"].as_array().expect("a list");
    tools.iter().map(|tool| tool["name"].as_str().expect("a name").to_owned()).collect()
}

fn setting(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Case H4.
#[test]
fn no_agent_ever_gets_what_was_not_approved() {
    let seed = setting("PIN_SEED").unwrap_or_else(|| fastrand::u64(..));
    let cases = setting("PIN_CASES").unwrap_or(2).try_into().expect("a small number");
    let config = ProptestConfig { cases, max_shrink_iters: 20, failure_persistence: None, ..ProptestConfig::default() };
    let config = ProptestConfig { rng_seed: RngSeed::Fixed(seed), ..config };
    let checked = TestRunner::new(config).run(&steps(), |steps| {
        let mut model = Model::start();
        (0..SERVERS.len()).for_each(|server| model.check(server));
        steps.iter().for_each(|step| model.take(step));
        model.agents.drain(..).for_each(|(_, agent)| agent.disconnect());
        Ok(())
    });
    assert!(checked.is_ok(), "PIN_SEED={seed}: {}", checked.expect_err("not ok"));
}
