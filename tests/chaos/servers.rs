//! The servers of the storm, and the configuration as reloads change it.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use fastrand::Rng;

use crate::support::{Daemon, Place, Server, Setup};

/// The one server that no fault is done to: it has to work as if there were no storm.
pub(crate) const CALM: &str = "calm";
/// Every server, in file order, with its habits.
const SERVERS: [(&str, &str); 8] = [
    (CALM, ""),
    ("plain", "--era modern"),
    ("stubborn", "--ignore-eof --ignore-term"),
    ("wrapped", "--wrap --era both"),
    ("forking", "--double-fork"),
    ("holding", "--hold-stdout --ignore-eof"),
    ("noisy", "--banner --json-log --crlf --announce-on-list"),
    ("moving", "--init-delay 20"),
];
/// Message caps that a storm may have, in bytes: a small one is reached often, a large one has lines parsed elsewhere.
const CAPS: [usize; 3] = [128 << 10, 512 << 10, 4 << 20];

/// What the configuration file says now.
pub(crate) struct Servers {
    place: Rc<Place>,
    pub(crate) max_message: usize,
    changes: Changes,
}

#[derive(Clone, Default)]
struct Changes {
    /// `moving` is configured.
    moved_away: bool,
    /// Of `moving`, `noisy` and `holding`: another one means another process.
    versions: [u32; 3],
    /// `noisy` is to be run in a way that fails, so it goes on as it was.
    fails: bool,
    /// `plain` exposes no `fail`: a matter of policy, which costs no process.
    denies: bool,
}

impl Servers {
    pub(crate) fn new(place: &Rc<Place>, rng: &mut Rng) -> Self {
        Self { place: Rc::clone(place), max_message: *rng.choice(&CAPS).expect("some"), changes: Changes::default() }
    }

    /// Every name that is ever configured.
    pub(crate) fn names() -> [&'static str; 8] {
        SERVERS.map(|(name, _)| name)
    }

    /// A daemon of this world.
    pub(crate) fn start(&self) -> Daemon {
        let file = self.write();
        Setup::new().config(file).start_in(&self.place)
    }

    /// Changes something; a third of the time nothing that a server would notice.
    pub(crate) fn change(&mut self, rng: &mut Rng) {
        let changes = &mut self.changes;
        match rng.u32(..8) {
            0 | 1 => changes.moved_away ^= true,
            2 => changes.versions[0] += 1,
            3 => changes.versions[1] += 1,
            4 => changes.versions[2] += 1,
            5 => changes.fails ^= true,
            _ => changes.denies ^= true,
        }
        self.write();
    }

    /// Writes a configuration that does not hold, so that nothing may change.
    pub(crate) fn write_invalid(&self) {
        self.replace("[servers.calm]\ncommand = 5\n");
    }

    /// Has every server configured as at the start.
    pub(crate) fn restore(&mut self) {
        self.changes = Changes::default();
        self.write();
    }

    fn write(&self) -> PathBuf {
        let Changes { moved_away, versions, fails, denies } = &self.changes;
        let cap = self.max_message;
        let head =
            format!("[daemon]\nmax_message = {cap}\n[defaults]\nbackoff_reset = \"1s\"\ncall_timeout = \"2s\"\n");
        let server = |(name, habits): (&str, &str)| {
            let server = Server::named(name).flags(habits);
            let server = match name {
                // However busy the machine is, a timeout there would be a fault of mcpd.
                CALM => server.line("call_timeout = \"5m\""),
                "moving" => server.env("VERSION", &versions[0].to_string()),
                "noisy" if *fails => server.env("VERSION", "-").flags("--no-such-flag"),
                "noisy" => server.env("VERSION", &versions[1].to_string()),
                "holding" => server.env("VERSION", &versions[2].to_string()).line("replace = \"stop_first\""),
                "plain" if *denies => server.line("deny = [\"fail\"]"),
                _ => server,
            };
            server.toml(&self.place)
        };
        let there = SERVERS.into_iter().filter(|(name, _)| !(*moved_away && *name == "moving"));
        self.replace(&there.fold(head, |text, each| text + &server(each)))
    }

    /// By renaming: a file that is read while it is written would be another one.
    fn replace(&self, text: &str) -> PathBuf {
        let file = self.place.path("changing.toml");
        fs::rename(self.place.write("new.toml", text), &file).expect("the test's own directory");
        file
    }
}
