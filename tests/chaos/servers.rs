//! The servers of the storm, and the configuration changes that reloads apply.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use fastrand::Rng;

use crate::support::{Daemon, Place, Server, Setup};

/// The one server without faults: it must work as if there were no storm.
pub(crate) const CALM: &str = "calm";
/// Every server, in file order, with its flags.
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
/// Possible message caps in bytes: small ones are reached often, large ones use the parser threads.
const CAPS: [usize; 3] = [128 << 10, 512 << 10, 4 << 20];

/// The current configuration file.
pub(crate) struct Servers {
    place: Rc<Place>,
    pub(crate) max_message: usize,
    changes: Changes,
}

#[derive(Clone, Default)]
struct Changes {
    /// `moving` is not configured.
    moved_away: bool,
    /// Versions of `moving`, `noisy` and `holding`. A new version means a new process.
    versions: [u32; 3],
    /// The new definition of `noisy` fails to start, so the old process continues.
    fails: bool,
    /// `plain` does not expose `fail`: a policy change without a restart.
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

    /// Starts a daemon with these servers.
    pub(crate) fn start(&self) -> Daemon {
        let file = self.write();
        Setup::new().config(file).backoff_reset(1_000).start_in(&self.place)
    }

    /// Changes the configuration. A third of the changes do not affect servers.
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

    /// Writes an invalid configuration, which must change nothing.
    pub(crate) fn write_invalid(&self) {
        self.replace("[servers.calm]\ncommand = 5\n");
    }

    /// Restores the initial configuration.
    pub(crate) fn restore(&mut self) {
        self.changes = Changes::default();
        self.write();
    }

    fn write(&self) -> PathBuf {
        let Changes { moved_away, versions, fails, denies } = &self.changes;
        let cap = self.max_message;
        let head = format!("[daemon]\nmax_message = {cap}\n[defaults]\ncall_timeout = \"2s\"\n");
        let server = |(name, habits): (&str, &str)| {
            let server = Server::named(name).flags(habits);
            let server = match name {
                // Long enough that a timeout is a fault of mcpd on any machine.
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

    /// By rename, so that no reload reads half a file.
    fn replace(&self, text: &str) -> PathBuf {
        let file = self.place.path("changing.toml");
        fs::rename(self.place.write("new.toml", text), &file).expect("the test's own directory");
        file
    }
}
