//! What a kept server may reach, from the receipt of its trial: one line for each grant, with its reason. Pure.
//!
//! Each line can be struck. A secret is never among them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::observed::{Attempt, Endpoint, Observed};
use super::secrets::{Secret, Secrets};
use super::touched::Touched;
use crate::config::interpolate::Sources;
use crate::config::{Network, ProtectedDirectories, Sandbox};
use crate::trial::Places;

/// The port of HTTPS, by which runners download packages.
const HTTPS: u16 = 443;
/// The port of DNS, which a list of ports does not restrict over UDP.
const DNS: u16 = 53;
/// A path with fewer parts opens too much.
const LEAST_PARTS: usize = 3;

/// One thing that a server may do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Grant {
    Read(PathBuf),
    /// To read and to change.
    Write(PathBuf),
    /// To connect to this TCP port.
    Port(u16),
    /// The whole network, which it needs to listen.
    Network,
    /// Unix sockets.
    UnixSockets,
    NestedNamespaces,
}

/// Why a grant is proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The command line names it, and so many files in it were read.
    NamedAndRead(usize),
    /// The command line names it, and so many files in it were written.
    NamedAndWritten(usize),
    /// Servers of this kind need it.
    Known,
    /// It has looked for it.
    Missed,
    /// It has tried to write there.
    RefusedWrite,
    /// It has connected to, or tried to.
    Connected(Vec<Endpoint>),
    /// This runner downloads the package at the first start.
    Downloads(String),
    /// It has listened.
    Listened(Vec<Endpoint>),
    /// It has sent datagrams.
    Sent(Vec<Endpoint>),
    /// Nothing is known of its network.
    NotTraced,
    /// It has tried to create one.
    Tried,
}

/// A grant that is proposed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ProposedGrant {
    pub(crate) grant: Grant,
    pub(crate) reason: Reason,
    /// Only the server's own behaviour asks for it, so a person has to accept it.
    pub(crate) is_servers_wish: bool,
    /// Names of secrets in the directory of the grant.
    pub(crate) contains: Vec<String>,
}

/// What is not proposed.
#[derive(Debug, Clone)]
pub(crate) struct Withheld {
    pub(crate) path: PathBuf,
    pub(crate) secret: &'static Secret,
}

/// What is known of a trial.
pub(crate) struct Evidence<'a> {
    /// The sandbox that its command line alone leads to.
    pub(crate) base: &'a Sandbox,
    pub(crate) places: &'a Places,
    /// `None` if it was not traced.
    pub(crate) traced: Option<(&'a Observed, &'a Touched)>,
    /// The program that downloads it.
    pub(crate) runner: Option<String>,
    /// Whether the trial had the network.
    pub(crate) had_network: bool,
    /// Whether this kernel can restrict ports.
    pub(crate) restricts_ports: bool,
}

/// The grants to propose, and the secrets that are not among them.
pub(crate) fn proposed(evidence: &Evidence<'_>, sources: &dyn Sources) -> (Vec<ProposedGrant>, Vec<Withheld>) {
    let mut proposal = Proposal {
        grants: Vec::new(),
        withheld: Vec::new(),
        home: sources.home(),
        secrets: Secrets::of(sources),
        protected: ProtectedDirectories::of(sources),
    };
    proposal.files(evidence, sources);
    proposal.network(evidence);
    if evidence.base.unix == Some(true) {
        proposal.add(Grant::UnixSockets, Reason::Known, false);
    }
    let nests = evidence.traced.is_some_and(|(observed, _)| observed.attempts.contains(&Attempt::Namespace));
    if evidence.base.nested_namespaces {
        proposal.add(Grant::NestedNamespaces, Reason::Known, false);
    } else if nests {
        proposal.add(Grant::NestedNamespaces, Reason::Tried, true);
    }
    (proposal.grants, proposal.withheld)
}

/// The sandbox with exactly these grants. `base` has the rest.
pub(crate) fn sandbox(base: &Sandbox, grants: &[Grant], restricts_network: bool) -> Sandbox {
    let mut sandbox =
        Sandbox { read: Vec::new(), write: Vec::new(), unix: None, nested_namespaces: false, ..base.clone() };
    let mut ports = Vec::new();
    for grant in grants {
        match grant {
            Grant::Read(path) => sandbox.read.push(path.clone()),
            Grant::Write(path) => sandbox.write.push(path.clone()),
            Grant::Port(port) => ports.push(*port),
            Grant::Network => {}
            Grant::UnixSockets => sandbox.unix = Some(true),
            Grant::NestedNamespaces => sandbox.nested_namespaces = true,
        }
    }
    sandbox.read.retain(|path| !sandbox.write.contains(path));
    let is_open = !restricts_network || grants.contains(&Grant::Network);
    sandbox.network = if is_open { Network::Any } else { Network::Ports(ports) };
    sandbox
}

struct Proposal<'a> {
    grants: Vec<ProposedGrant>,
    withheld: Vec<Withheld>,
    home: Option<PathBuf>,
    secrets: Secrets<'a>,
    protected: ProtectedDirectories,
}

impl Proposal<'_> {
    fn add(&mut self, grant: Grant, reason: Reason, is_servers_wish: bool) {
        self.push(ProposedGrant { grant, reason, is_servers_wish, contains: Vec::new() });
    }

    fn push(&mut self, new: ProposedGrant) {
        if !self.grants.iter().any(|known| known.grant == new.grant) {
            self.grants.push(new);
        }
    }

    /// Adds a grant for a path, unless it would open a secret.
    fn add_path(&mut self, real: &Path, grant: Grant, reason: Reason, is_servers_wish: bool) {
        match self.secrets.opened_by(real) {
            Some(secret)
                if self.withheld.iter().any(|known| known.path == real && known.secret.what == secret.what) => {}
            Some(secret) => self.withheld.push(Withheld { path: real.to_owned(), secret }),
            None => {
                let contains = self.secrets.names_in(real);
                self.push(ProposedGrant { grant, reason, is_servers_wish, contains });
            }
        }
    }

    fn files(&mut self, evidence: &Evidence<'_>, sources: &dyn Sources) {
        let expanded = |path: &Path| match (path.to_str().and_then(home_relative), &self.home) {
            (Some(below), Some(home)) => home.join(below),
            _ => path.to_owned(),
        };
        let touched = evidence.traced.map(|(_, touched)| touched);
        let count = |paths: fn(&Touched) -> &[PathBuf], real: &Path| {
            touched.map_or(0, |touched| paths(touched).iter().filter(|path| path.starts_with(real)).count())
        };
        let is_named = |real: &Path| evidence.places.named.iter().any(|named| named.path == *real);
        let base = evidence.base;
        let spelled = base.read.iter().map(|path| (path, false)).chain(base.write.iter().map(|path| (path, true)));
        let spelled: Vec<_> = spelled.map(|(path, writes)| (path.clone(), expanded(path), writes)).collect();
        for (path, real, writes) in spelled {
            let read = count(|touched| &touched.read, &real);
            let wrote = count(|touched| &touched.wrote, &real);
            let reason = if is_named(&real) { Reason::NamedAndRead(read) } else { Reason::Known };
            self.add_path(&real, Grant::Read(path.clone()), reason, false);
            if writes {
                let reason = if is_named(&real) { Reason::NamedAndWritten(wrote) } else { Reason::Known };
                self.add_path(&real, Grant::Write(path), reason, false);
            }
        }
        let Some(touched) = touched else { return };
        for missed in &touched.missed {
            match missed.secret {
                Some(secret) => self.withheld.push(Withheld { path: missed.path.clone(), secret }),
                // What lies in the home directory would not be found there: a kept server has a home directory of its own.
                None if self.is_wish(&missed.path, sources) => {
                    self.add_path(&missed.path, Grant::Read(missed.path.clone()), Reason::Missed, true);
                }
                None => {}
            }
        }
        for path in &touched.refused_writes {
            let directory = if sources.exists(path) { Some(path.as_path()) } else { path.parent() };
            let directory = directory.filter(|directory| sources.exists(directory) && self.is_wish(directory, sources));
            if let Some(directory) = directory {
                self.add_path(directory, Grant::Write(directory.to_owned()), Reason::RefusedWrite, true);
            }
        }
    }

    /// Whether a server may wish for this path.
    fn is_wish(&self, path: &Path, sources: &dyn Sources) -> bool {
        // The configuration would take `${` for a reference.
        let is_literal = !path.to_string_lossy().contains("${");
        let is_narrow =
            |path: &Path| path.components().count() >= LEAST_PARTS && self.protected.opened_by(path).is_none();
        is_literal && !self.secrets.is_in_home(path) && is_narrow(path) && is_narrow(&sources.real(path))
    }

    fn network(&mut self, evidence: &Evidence<'_>) {
        if !evidence.restricts_ports {
            return;
        }
        let Some((observed, touched)) = evidence.traced else {
            return self.add(Grant::Network, Reason::NotTraced, false);
        };
        if let Some(runner) = &evidence.runner {
            self.add(Grant::Port(HTTPS), Reason::Downloads(runner.clone()), false);
        }
        if !evidence.had_network {
            return;
        }
        let listened: Vec<_> = observed.listeners.iter().cloned().collect();
        if !listened.is_empty() {
            self.add(Grant::Network, Reason::Listened(listened), true);
        }
        let is_other = |port: u16| port != DNS;
        let (mut ports, mut datagrams) = (BTreeMap::<u16, Vec<_>>::new(), Vec::new());
        for to in touched.connections.keys() {
            match to {
                Endpoint::Tcp(address) if is_other(address.port()) => {
                    ports.entry(address.port()).or_default().push(to.clone());
                }
                Endpoint::Udp(address) if is_other(address.port()) => datagrams.push(to.clone()),
                _ => {}
            }
        }
        for (port, to) in ports {
            self.add(Grant::Port(port), Reason::Connected(to), false);
        }
        if !datagrams.is_empty() && !self.grants.iter().any(|known| matches!(known.grant, Grant::Port(_))) {
            self.add(Grant::Network, Reason::Sent(datagrams), true);
        }
    }
}

/// The path below the home directory that a spelled path names.
fn home_relative(path: &str) -> Option<&str> {
    let below = path.strip_prefix("~/").or_else(|| path.strip_prefix("${HOME}/"));
    below.or_else(|| ["~", "${HOME}"].contains(&path).then_some(""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::SandboxLevel;
    use crate::config::interpolate::tests::table::Table;
    use crate::config::serialize::sandbox_text;
    use crate::receipt::observed::Reach;
    use crate::receipt::touched::TouchedPath;
    use crate::trial::NamedPath;

    fn base(read: &[&str], write: &[&str]) -> Sandbox {
        let paths = |paths: &[&str]| paths.iter().map(PathBuf::from).collect();
        Sandbox { read: paths(read), write: paths(write), ..Sandbox::of_level(SandboxLevel::Files) }
    }

    struct Case {
        base: Sandbox,
        observed: Observed,
        touched: Touched,
        runner: Option<String>,
        is_traced: bool,
        restricts_ports: bool,
    }

    impl Case {
        fn new(base: Sandbox) -> Self {
            let (observed, touched) = Default::default();
            Self { base, observed, touched, runner: None, is_traced: true, restricts_ports: true }
        }

        fn proposed(&self) -> (Vec<ProposedGrant>, Vec<Withheld>) {
            let named = ["/srv/notes", "/home/u/x"].map(|path| NamedPath { path: path.into(), is_copied: true });
            let places = Places { named: named.into(), ..Places::default() };
            let sources = Table::from([
                ("~", "/home/u"),
                ("/data/real", "x"),
                ("/data/dir", ""),
                ("/srv/app/.env", "x"),
                ("/srv/app/main.py", "x"),
                ("/data/link link", "/home/u/.ssh"),
                ("/data/home link", "/home/u"),
                ("/data/home", "x"),
            ]);
            let evidence = Evidence {
                base: &self.base,
                places: &places,
                traced: self.is_traced.then_some((&self.observed, &self.touched)),
                runner: self.runner.clone(),
                had_network: true,
                restricts_ports: self.restricts_ports,
            };
            proposed(&evidence, &sources)
        }

        /// The sandbox if every grant is accepted that a person does not have to.
        fn text(&self) -> String {
            let grants = self.proposed().0.into_iter().filter(|one| !one.is_servers_wish);
            sandbox_text(&sandbox(&self.base, &grants.map(|one| one.grant).collect::<Vec<_>>(), self.restricts_ports))
        }
    }

    #[test]
    fn paths_of_the_command_line_are_two_lines_each() {
        let mut case = Case::new(base(&["~/.gitconfig"], &["/srv/notes"]));
        case.touched.read = vec!["/srv/notes".into(), "/srv/notes/a".into()];
        let grants = case.proposed().0;
        let expected = [
            (Grant::Read("~/.gitconfig".into()), Reason::Known),
            (Grant::Read("/srv/notes".into()), Reason::NamedAndRead(2)),
            (Grant::Write("/srv/notes".into()), Reason::NamedAndWritten(0)),
        ];
        assert_eq!(grants.into_iter().map(|one| (one.grant, one.reason)).collect::<Vec<_>>(), expected);
        assert_eq!(
            case.text(),
            r#"{ level = "files", read = ["~/.gitconfig"], write = ["/srv/notes"], network = "none" }"#
        );
        let struck = [Grant::Read("/srv/notes".into())];
        assert_eq!(
            sandbox_text(&sandbox(&case.base, &struck, true)),
            r#"{ level = "files", read = ["/srv/notes"], network = "none" }"#
        );
    }

    #[test]
    fn secrets_are_never_proposed() {
        for path in [
            "~/.ssh",
            "/home/u/.ssh/config",
            "~/.config",
            "/run/user/1000/bus",
            "/srv/app/.env",
            "${HOME}/.aws",
            "/data/link",
            "/data/link/id",
            "~/notes/../.ssh",
            "/data/home",
        ] {
            let (grants, withheld) = Case::new(base(&[path], &[path])).proposed();
            assert!(grants.is_empty() && withheld.len() == 1, "{path}: {grants:?}");
        }
        let mut case = Case::new(base(&[], &[]));
        let secret = Secrets::of(&Table::from([])).at(Path::new("/data/token"));
        case.touched.missed = vec![TouchedPath { path: "/data/token".into(), secret }];
        case.touched.refused_writes = vec!["/home/u/.ssh/authorized_keys".into(), "/data/x/.env".into()];
        let (grants, withheld) = case.proposed();
        assert!(grants.is_empty() && withheld.len() == 1, "{grants:?}");
    }

    #[test]
    fn grant_names_the_secrets_in_its_directory() {
        let grants = Case::new(base(&["/srv/app"], &["/srv/notes"])).proposed().0;
        let contains: Vec<_> = grants.into_iter().map(|one| (one.grant, one.contains)).collect();
        let expected = [
            (Grant::Read("/srv/app".into()), vec![".env".to_owned()]),
            (Grant::Read("/srv/notes".into()), Vec::new()),
            (Grant::Write("/srv/notes".into()), Vec::new()),
        ];
        assert_eq!(contains, expected);
    }

    #[test]
    fn what_only_the_server_asks_for_needs_a_person() {
        let mut case = Case::new(base(&[], &[]));
        let missed = |path: &str| TouchedPath { path: path.into(), secret: None };
        case.touched.missed = vec![missed("/data/real"), missed("/data"), missed("/home/u/.gitconfig")];
        case.touched.refused_writes =
            vec!["/data/dir/new".into(), "/home/u/new".into(), "/absent/dir/x".into(), "/data/home/x".into()];
        case.observed.attempts.insert(Attempt::Namespace);
        let grants = case.proposed().0;
        let expected = [Grant::Read("/data/real".into()), Grant::Write("/data/dir".into()), Grant::NestedNamespaces];
        assert_eq!(grants.iter().map(|one| one.grant.clone()).collect::<Vec<_>>(), expected);
        assert!(grants.iter().all(|one| one.is_servers_wish));
        assert_eq!(case.text(), r#"{ level = "files", network = "none" }"#);
    }

    #[test]
    fn network_is_granted_as_far_as_it_was_used() {
        let tcp = |text: &str| Endpoint::Tcp(text.parse().expect("an address"));
        let udp = |text: &str| Endpoint::Udp(text.parse().expect("an address"));
        let with = |change: fn(&mut Case)| {
            let mut case = Case::new(base(&[], &[]));
            change(&mut case);
            case
        };
        let mut connected = with(|case| case.runner = Some("npx".to_owned()));
        for to in [tcp("192.0.2.1:8080"), tcp("192.0.2.1:53"), udp("192.0.2.1:53"), udp("192.0.2.1:123")] {
            connected.touched.connections.insert(to, Reach::Reached);
        }
        assert_eq!(connected.text(), r#"{ level = "files", network = [443, 8080] }"#);
        let mut listening = with(|_| {});
        listening.observed.listeners.insert(tcp("127.0.0.1:3000"));
        assert_eq!(listening.proposed().0[0].grant, Grant::Network);
        assert_eq!(listening.text(), r#"{ level = "files", network = "none" }"#);
        let mut sending = with(|_| {});
        sending.touched.connections.insert(udp("192.0.2.1:123"), Reach::Reached);
        assert_eq!(sending.proposed().0[0].grant, Grant::Network);
        assert_eq!(with(|case| case.is_traced = false).text(), r#""files""#);
        assert_eq!(with(|case| case.restricts_ports = false).text(), r#""files""#);
        assert_eq!(with(|_| {}).text(), r#"{ level = "files", network = "none" }"#);
    }
}
