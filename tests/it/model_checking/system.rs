//! The daemon, its servers and agents, driven by a script.

use std::collections::HashMap;
use std::rc::Rc;

use serde_json::{Value, json};

use super::Step;
use super::agent::Seat;
use super::model::{Kind, Model, NARROWINGS, PROFILES, RULES, SERVERS};
use crate::support::{Agent, Daemon, Place, Server, Setup, WAIT_LIMIT, arguments, code, notification, poll};

/// Most agents at once, the one included that tells servers what to do, and never leaves.
const SEATS: usize = 4;

pub(super) struct Stage {
    place: Rc<Place>,
    daemon: Daemon,
    model: Model,
    seats: Vec<Seat>,
    /// For each mark the server that is to have received it.
    marks: HashMap<String, Option<usize>>,
}

impl Stage {
    pub(super) fn open() -> Self {
        let (place, model) = (Place::new(), Model::new());
        (0..SERVERS.len()).for_each(|server| offer(&place, &model, server));
        let file = configure(&place, &model);
        let daemon = Setup::new().config(file).start_in(&place);
        let seats = vec![Seat::new(Agent::ready(&daemon), 0)];
        let mut stage = Self { place, daemon, model, seats, marks: HashMap::new() };
        stage.expect_as_modelled();
        stage
    }

    pub(super) fn play(&mut self, step: &Step) {
        match *step {
            Step::Join { profile } if self.seats.len() < SEATS && self.model.profiles[profile].configured => {
                let socket = if profile == 0 { "mcp" } else { PROFILES[profile] };
                let socket = self.place.runtime_dir().join(format!("{socket}.sock"));
                self.seats.push(Seat::new(Agent::ready_at(&socket), profile));
            }
            Step::Join { .. } => {}
            Step::Narrow { profile, narrowing, long } => {
                let view = &mut self.model.profiles[1 + profile];
                (view.narrowing, view.long) = (narrowing, long);
                self.reload();
            }
            Step::Serve { profile } => self.serve(1 + profile),
            Step::Leave { agent } => {
                let agent = agent % self.seats.len();
                if agent > 0 {
                    self.seats.remove(agent).leave();
                }
            }
            Step::Hold { agent, server } => self.hold(agent % self.seats.len(), server),
            Step::Cancel { agent } => {
                let agent = agent % self.seats.len();
                self.seats[agent].cancel();
            }
            Step::Crash { server } => self.crash(server),
            Step::Restart { server } if self.model.servers[server].is_up() && self.is_idle(server) => {
                self.daemon.client(&["restart", SERVERS[server]]).expect_code(0);
            }
            Step::Toggle { server, stop }
                if self.model.servers[server].configured && (!stop || self.is_idle(server)) =>
            {
                let enabled = !self.model.servers[server].enabled;
                (self.model.servers[server].enabled, self.model.servers[server].stopped) = (enabled, stop && !enabled);
                let order = match (enabled, stop) {
                    (true, _) => &["enable"][..],
                    (false, false) => &["disable"],
                    (false, true) => &["disable", "--stop"],
                };
                self.daemon.client(&[order, &[SERVERS[server]]].concat()).expect_code(0);
            }
            Step::Restart { .. } | Step::Toggle { .. } => {}
            Step::Offer { server, .. } if self.model.servers[server].is_hidden() => {}
            Step::Offer { server, bits } => self.offer(server, bits),
            Step::Rule { server, rule } => {
                self.model.servers[server].rule = rule;
                self.reload();
            }
            Step::Configure { server } => {
                if self.is_idle(server) {
                    let member = &mut self.model.servers[server];
                    // What was disabled is not, once it was taken out.
                    (member.configured, member.enabled, member.stopped) = (!member.configured, true, false);
                    self.reload();
                }
            }
        }
        self.expect_as_modelled();
    }

    /// Everybody leaves; each server has received what led to it, once, and nothing else.
    pub(super) fn close(mut self) {
        self.seats.drain(..).for_each(Seat::leave);
        for server in (0..SERVERS.len()).filter(|server| self.model.servers[*server].is_up()) {
            self.daemon.wait_row(SERVERS[server], "has nothing in flight", |row| row["in_flight"] == 0);
        }
        let mut received: HashMap<String, Vec<usize>> = HashMap::new();
        for (server, name) in SERVERS.iter().enumerate() {
            let journal = self.daemon.journal(name).join("\n");
            for rest in journal.split(r#""mark":""#).skip(1) {
                let mark = rest.split('"').next().expect("the beginning");
                received.entry(mark.to_owned()).or_default().push(server);
            }
        }
        for (mark, leads) in &self.marks {
            let servers = received.remove(mark).unwrap_or_default();
            assert_eq!(servers, leads.iter().copied().collect::<Vec<_>>(), "{mark}");
        }
        assert!(received.is_empty(), "nobody has sent {received:?}");
    }

    /// A mark that no other request has.
    fn mark(&mut self, leads: Option<usize>) -> String {
        let mark = format!("m{}", self.marks.len());
        self.marks.insert(mark.clone(), leads);
        mark
    }

    /// Whether nobody waits for what is to be stopped in order, which takes its time.
    fn is_idle(&self, server: usize) -> bool {
        self.seats.iter().flat_map(|seat| &seat.holds).all(|hold| hold.server != server)
    }

    /// A profile is taken out of the configuration, or put back.
    fn serve(&mut self, profile: usize) {
        // An agent that waits for something is waited for.
        if self.seats.iter().all(|seat| seat.profile != profile || seat.holds.is_empty()) {
            self.model.profiles[profile].configured ^= true;
            self.reload();
            self.seats.extract_if(.., |seat| seat.profile == profile).for_each(Seat::expect_end);
        }
    }

    fn hold(&mut self, agent: usize, server: usize) {
        let profile = self.seats[agent].profile;
        let tool = self.model.exposed(profile, server, "sleep");
        if self.model.leads(profile, Kind::Tools, &tool).is_some() {
            let mark = self.mark(Some(server));
            self.seats[agent].hold(&tool, server, &mark);
        }
    }

    fn crash(&mut self, server: usize) {
        if self.model.servers[server].is_up() {
            let answer = self.seats[0].call(&self.model.exposed(0, server, "die"), &json!({"how": "kill"}));
            assert_eq!(code(&answer), -31001, "{answer}");
            self.seats.iter_mut().for_each(|seat| seat.expect_died(server));
        }
    }

    fn offer(&mut self, server: usize, bits: u8) {
        let member = &mut self.model.servers[server];
        (member.bits, member.version) = (bits, member.version + 1);
        member.changed_while_down |= !member.is_up();
        offer(&self.place, &self.model, server);
        if self.model.servers[server].is_up() {
            let notifications = [Kind::Tools, Kind::Prompts, Kind::Resources].map(|kind| {
                let line = notification(kind.words()[3], &Value::Null);
                format!("{line}\n")
            });
            arguments(
                &self.seats[0].call(&self.model.exposed(0, server, "raw"), &json!({"text": notifications.concat()})),
            );
        }
    }

    fn reload(&self) {
        configure(&self.place, &self.model);
        self.daemon.client(&["reload"]).expect_code(0);
    }

    /// Waits until one agent lists what the model says; then all do, and everything leads where it says.
    fn expect_as_modelled(&mut self) {
        let expected = Kind::ALL.map(|kind| self.model.listed(0, kind));
        let mut seen = Default::default();
        poll(WAIT_LIMIT, || {
            seen = self.seats[0].list();
            (seen == expected).then_some(())
        });
        assert_eq!(seen, expected, "lists are not as expected");
        let servers = self.model.servers.iter_mut().filter(|server| server.is_up());
        let shows_remembered = servers.fold(false, |any, server| any | std::mem::take(&mut server.changed_while_down));
        for agent in 0..self.seats.len() {
            let profile = self.seats[agent].profile;
            self.seats[agent].expect_lists(Kind::ALL.map(|kind| self.model.listed(profile, kind)), shows_remembered);
            self.expect_leads(agent);
        }
    }

    /// This agent asks for all that there ever was.
    fn expect_leads(&mut self, agent: usize) {
        let profile = self.seats[agent].profile;
        let exposed = |server, own| self.model.exposed(profile, server, own);
        let mut probes = Vec::new();
        for server in 0..SERVERS.len() {
            let tools = ["t0", "t1", "sleep", "none"].map(|own| (Kind::Tools, "tools/call", exposed(server, own)));
            let prompts = ["p0", "p1", "none"].map(|own| (Kind::Prompts, "prompts/get", exposed(server, own)));
            probes.extend(tools.into_iter().chain(prompts));
            probes.push((Kind::Prompts, "completion/complete", exposed(server, "p0")));
        }
        let uris = ["u://0", "u://1", "u://2", "k://7", "k://a/b", "z://none"];
        probes.extend(uris.map(|uri| (Kind::Resources, "resources/read", uri.to_owned())));
        let requested: Vec<_> = probes
            .iter()
            .map(|(kind, method, key)| {
                // What has two segments, the template does not stand for.
                let leads = if key == "k://a/b" { None } else { self.model.leads(profile, *kind, key) };
                let mark = self.mark(leads);
                (*method, params(method, key, &mark), mark, leads)
            })
            .collect();
        let requests: Vec<_> = requested.iter().map(|(method, params, ..)| (*method, params.clone())).collect();
        let answers = self.seats[agent].ask_all(&requests);
        for ((.., key), ((method, _, mark, leads), answer)) in probes.iter().zip(requested.iter().zip(&answers)) {
            match leads {
                Some(_) => assert!(answer["result"].to_string().contains(&format!("\"{mark}\"")), "{key}: {answer}"),
                None => assert_eq!(answer["error"], unknown(method, key), "{method} of {key}: {answer}"),
            }
        }
    }
}

/// What asks for this, with a mark that comes back.
fn params(method: &str, key: &str, mark: &str) -> Value {
    let meta = json!({"mark": mark});
    match method {
        "tools/call" | "prompts/get" => json!({"name": key, "arguments": {"mark": mark}}),
        "resources/read" => json!({"uri": key, "_meta": meta}),
        _ => json!({"ref": {"type": "ref/prompt", "name": key}, "argument": {"name": "x", "value": ""}, "_meta": meta}),
    }
}

/// What there never was is answered so.
fn unknown(method: &str, key: &str) -> Value {
    match method {
        "tools/call" => json!({"code": -32602, "message": format!("Unknown tool: {key}")}),
        "resources/read" => json!({"code": -32002, "message": "Resource not found", "data": {"uri": key}}),
        _ => json!({"code": -32602, "message": format!("Unknown prompt: {key}")}),
    }
}

/// Writes what a server offers to where it looks when it is asked.
fn offer(place: &Place, model: &Model, server: usize) {
    let (name, member) = (SERVERS[server], &model.servers[server]);
    place.replace(&format!("{name}.tools"), member.listing(Kind::Tools, name).to_string());
    let mut library = serde_json::Map::from_iter([("completions".to_owned(), Value::Bool(true))]);
    for kind in [Kind::Prompts, Kind::Resources, Kind::Templates] {
        library.extend(member.listing(kind, name).as_object().expect("an object").clone());
    }
    place.replace(&format!("{name}.library"), Value::from(library).to_string());
}

/// Writes the configuration.
fn configure(place: &Place, model: &Model) -> std::path::PathBuf {
    let configured = SERVERS.iter().zip(&model.servers).filter(|(_, member)| member.configured);
    let servers = configured.map(|(name, member)| {
        let server = Server::named(name).flags("--tool t0 --tool t1");
        let server = server.arg("--tool-list").arg(place.path(&format!("{name}.tools")));
        let server = server.arg("--library").arg(place.path(&format!("{name}.library")));
        server.line(RULES[member.rule].0).toml(place)
    });
    let names = [0, 2].map(|server| model.servers[server].configured.then(|| format!("\"{}\"", SERVERS[server])));
    let names = names.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let profiles = PROFILES.iter().zip(&model.profiles).filter(|(_, view)| view.configured).map(|(name, view)| {
        let naming = if view.long { "naming = \"mcp__{server}__{tool}\"" } else { "" };
        let narrowing = NARROWINGS[view.narrowing].0.replace("SERVERS", &names);
        format!("[profiles.{name}]\n{naming}\n{narrowing}\n")
    });
    place.write("changing.toml", servers.chain(profiles).collect::<String>())
}
