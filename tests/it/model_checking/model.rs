//! The model: configuration and offered items, and the expected lists and routes. Independent of the daemon's code.

use serde_json::{Value, json};

/// In file order.
pub(super) const SERVERS: [&str; 3] = ["a", "b", "c"];
/// What every server always offers and nothing denies, so that it can be told what to do.
const TOOLS_OF_ALL: [&str; 2] = ["raw", "die"];
/// Whether a rule denies this of a server.
type Denies = fn(Kind, &str) -> bool;
/// Rules: a line of the configuration, and the same said plainly.
pub(super) const RULES: [(&str, Denies); 8] = [
    ("", |_, _| false),
    (r#"deny = ["t0", "sleep"]"#, |kind, key| kind == Kind::Tools && (key == "t0" || key == "sleep")),
    (r#"deny = ["t*"]"#, |kind, key| kind == Kind::Tools && key.starts_with('t')),
    (r#"allow = ["t1", "raw", "die", "sleep"]"#, |kind, key| {
        kind == Kind::Tools && !["t1", "raw", "die", "sleep"].contains(&key)
    }),
    (r#"prompts = { deny = ["p1"] }"#, |kind, key| kind == Kind::Prompts && key == "p1"),
    (r#"resources = { deny = ["u://1*", "k://*"] }"#, |kind, key| {
        kind.is_of_uris() && (key.starts_with("u://1") || key.starts_with("k://"))
    }),
    (r#"resources = { allow = ["k://*"] }"#, |kind, key| kind.is_of_uris() && !key.starts_with("k://")),
    (r#"expose = ["tools"]"#, |kind, _| kind != Kind::Tools),
];

/// Of a profile: the lines of its table, where `SERVERS` stands for those servers of `a` and `c` that are configured, and what of a
/// server it hides, said plainly.
pub(super) const NARROWINGS: [(&str, Hides); 6] = [
    ("", |_, _, _| false),
    ("servers = [SERVERS]", |server, _, _| server == 1),
    (r#"deny = ["a/t*", "*/sleep"]"#, |server, kind, key| {
        kind == Kind::Tools && (server == 0 && key.starts_with('t') || key == "sleep")
    }),
    (r#"allow = ["b/*", "*/t1"]"#, |server, kind, key| kind == Kind::Tools && server != 1 && key != "t1"),
    ("resources = { deny = [\"*/u://1*\"] }\nprompts = { deny = [\"b/*\"] }", |server, kind, key| {
        kind.is_of_uris() && key.starts_with("u://1") || kind == Kind::Prompts && server == 1
    }),
    (r#"expose = ["tools"]"#, |_, kind, _| kind != Kind::Tools),
];
/// Whether a profile hides this of a server.
type Hides = fn(usize, Kind, &str) -> bool;
/// The default profile, which says nothing, and two others.
pub(super) const PROFILES: [&str; 3] = ["default", "p", "q"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    pub(super) const ALL: [Self; 4] = [Self::Tools, Self::Prompts, Self::Resources, Self::Templates];

    /// The method that lists it, the member of its result, the member that names each, and what says that it has changed.
    pub(super) fn words(self) -> [&'static str; 4] {
        match self {
            Self::Tools => ["tools/list", "tools", "name", "notifications/tools/list_changed"],
            Self::Prompts => ["prompts/list", "prompts", "name", "notifications/prompts/list_changed"],
            Self::Resources => ["resources/list", "resources", "uri", "notifications/resources/list_changed"],
            Self::Templates => {
                ["resources/templates/list", "resourceTemplates", "uriTemplate", "notifications/resources/list_changed"]
            }
        }
    }

    fn is_of_uris(self) -> bool {
        matches!(self, Self::Resources | Self::Templates)
    }
}

/// One server of the model.
#[derive(Debug)]
pub(super) struct Member {
    /// Which of what it may offer it offers.
    pub(super) bits: u8,
    /// Another one whenever it offers other things.
    pub(super) version: u32,
    pub(super) rule: usize,
    pub(super) configured: bool,
    pub(super) enabled: bool,
    /// Its process has ended, too, when it was disabled.
    pub(super) stopped: bool,
    /// It offers something else since it was up last, so the lists that the daemon remembers of it are shown until it has listed.
    pub(super) changed_while_down: bool,
}

impl Member {
    pub(super) fn is_up(&self) -> bool {
        self.configured && self.enabled
    }

    /// It cannot be told that it offers something else: nobody reaches it, and it does not look again by itself.
    pub(super) fn is_hidden(&self) -> bool {
        self.configured && !self.enabled && !self.stopped
    }

    /// Its own names of what it offers.
    fn offers(&self, kind: Kind) -> Vec<&'static str> {
        let some = |all: &[&'static str], first: u8| -> Vec<_> {
            (first..).zip(all).filter(|(bit, _)| self.bits & (1 << bit) != 0).map(|(_, key)| *key).collect()
        };
        match kind {
            Kind::Tools => [&TOOLS_OF_ALL[..], &["sleep"], &some(&["t0", "t1"], 0)].concat(),
            Kind::Prompts => some(&["p0", "p1"], 2),
            Kind::Resources => some(&["u://0", "u://1", "u://2"], 4),
            Kind::Templates => some(&["k://{id}"], 7),
        }
    }

    /// The list as the server of this name gives it.
    pub(super) fn listing(&self, kind: Kind, name: &str) -> Value {
        let [_, member, key, _] = kind.words();
        let item =
            |own: &&str| json!({key: own, "inputSchema": {"type": "object"}, "by": name, "version": self.version});
        json!({member: self.offers(kind).iter().map(item).collect::<Vec<_>>()})
    }
}

/// What is listed: the name or URI, the server that it leads to, and the version of what that offers.
pub(super) type ListedItem = (String, usize, u32);

/// One profile of the model.
#[derive(Debug)]
pub(super) struct View {
    pub(super) narrowing: usize,
    /// Names begin with `mcp__`.
    pub(super) long: bool,
    pub(super) configured: bool,
}

#[derive(Debug)]
pub(super) struct Model {
    pub(super) servers: [Member; SERVERS.len()],
    pub(super) profiles: [View; PROFILES.len()],
}

impl Model {
    pub(super) fn new() -> Self {
        let servers = SERVERS.map(|_| Member {
            bits: 0xff,
            version: 0,
            rule: 0,
            configured: true,
            enabled: true,
            stopped: false,
            changed_while_down: false,
        });
        Self { servers, profiles: PROFILES.map(|_| View { narrowing: 0, long: false, configured: true }) }
    }

    pub(super) fn listed(&self, profile: usize, kind: Kind) -> Vec<ListedItem> {
        let mut listed: Vec<ListedItem> = Vec::new();
        let hides = NARROWINGS[self.profiles[profile].narrowing].1;
        for (server, member) in self.servers.iter().enumerate().filter(|(_, member)| member.is_up()) {
            let offers = member.offers(kind).into_iter();
            for own in offers.filter(|own| !RULES[member.rule].1(kind, own) && !hides(server, kind, own)) {
                let key = if kind.is_of_uris() { own.to_owned() } else { self.exposed(profile, server, own) };
                // Of two servers with one URI the first has it.
                if !listed.iter().any(|(other, ..)| *other == key) {
                    listed.push((key, server, member.version));
                }
            }
        }
        listed
    }

    /// The server that a name, a URI or a template leads to.
    pub(super) fn leads(&self, profile: usize, kind: Kind, key: &str) -> Option<usize> {
        let find = |kind, key: &str| {
            self.listed(profile, kind).into_iter().find(|(other, ..)| other == key).map(|found| found.1)
        };
        let of_template = || key.starts_with("k://").then(|| find(Kind::Templates, "k://{id}")).flatten();
        find(kind, key).or_else(|| (kind == Kind::Resources).then(of_template).flatten())
    }

    /// The name that agents of a profile know something by.
    pub(super) fn exposed(&self, profile: usize, server: usize, own: &str) -> String {
        let prefix = if self.profiles[profile].long { "mcp__" } else { "" };
        format!("{prefix}{}__{own}", SERVERS[server])
    }
}
