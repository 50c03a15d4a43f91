//! The launch of a server with every `${…}` expanded: its program or URL, its login, and the directory that its agents work in. No `Debug` in
//! this module prints a value.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use url::Url;

use super::address::{Address, is_unix, url_complaint};
use super::interpolate::{Process, Sources, UnusableValue};
use super::known_commands::{PackageWord, package_words};
use super::rotating_headers::RotatingHeaders;
use super::secret::{in_arguments, secret_entries, url_secrets};
use super::secret_values::{AGENT_CWD, CommandOutputs, SecretCommand, Secrets};
use super::value_types::Choice;

/// How a server is launched.
#[derive(Clone, PartialEq, Eq)]
pub enum Launch {
    /// mcpd starts a program.
    Program(Program),
    /// mcpd connects to a URL.
    Remote(Remote),
    /// mcpd starts a program, and connects to the URL that it serves.
    Served(Program, Box<Remote>),
}

/// A server program. `Debug` prints no value that could be a secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Program {
    /// The program's name or path. A name without `/` is looked up on the child's `PATH`.
    pub command: String,
    /// Arguments, passed without a shell.
    pub args: Vec<String>,
    /// Environment variables, in addition to the inherited ones.
    pub env: BTreeMap<String, String>,
    /// Names of inherited variables, in addition to the allow-listed ones.
    pub pass_env: Vec<String>,
    /// The inherited variables: the allow-listed ones and those of `pass_env`. `None` takes the values of this process at the start of the
    /// server.
    pub passed: Option<BTreeMap<String, String>>,
    /// The working directory. Default: the agent's for `session` and `workspace` instances, else the user's home directory.
    pub cwd: Option<PathBuf>,
    /// Whether an agent has stated the working directory or a part of it.
    pub cwd_is_stated: bool,
    /// The roots reported to instances that several agents share: absolute paths and `file://` URIs.
    pub roots: Vec<String>,
    /// What of all this is never printed.
    pub secrets: Secrets,
}

/// An HTTP server. `Debug` prints no value that could be a secret.
#[derive(Clone, Default)]
pub struct Remote {
    /// Begins with `http://`, `https://` or `unix:`.
    pub url: String,
    /// Additional headers of each request. [`Self::latest_headers`] are those that are sent.
    pub headers: BTreeMap<String, String>,
    /// Those of `headers` that are read again.
    pub rotating: RotatingHeaders,
    /// As [`Program::roots`].
    pub roots: Vec<String>,
    /// The absolute path of PEM certificates that are trusted in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// How mcpd logs in.
    pub oauth: OAuth,
    /// What of all this is never printed.
    pub secrets: Secrets,
}

impl Launch {
    /// The program that mcpd starts, if there is one.
    #[must_use]
    pub fn program(&self) -> Option<&Program> {
        match self {
            Self::Program(program) | Self::Served(program, _) => Some(program),
            Self::Remote(_) => None,
        }
    }

    pub(super) fn program_mut(&mut self) -> Option<&mut Program> {
        match self {
            Self::Program(program) | Self::Served(program, _) => Some(program),
            Self::Remote(_) => None,
        }
    }

    /// The URL that mcpd connects to, if there is one.
    #[must_use]
    pub fn remote(&self) -> Option<&Remote> {
        match self {
            Self::Program(_) => None,
            Self::Remote(remote) => Some(remote),
            Self::Served(_, remote) => Some(remote),
        }
    }

    pub(super) fn remote_mut(&mut self) -> Option<&mut Remote> {
        match self {
            Self::Program(_) => None,
            Self::Remote(remote) => Some(remote),
            Self::Served(_, remote) => Some(remote),
        }
    }

    /// Whether it refers to the agent's working directory.
    #[must_use]
    pub fn needs_agent_cwd(&self) -> bool {
        let waits = |text: &String| text.contains(AGENT_CWD);
        let waits_in = |path: &Option<PathBuf>| path.as_deref().is_some_and(|path| waits(&path_text(path)));
        self.program().is_some_and(|Program { command, args, env, cwd, roots, .. }| {
            args.iter().chain(env.values()).chain(roots).chain([command]).any(waits) || waits_in(cwd)
        }) || self.remote().is_some_and(|Remote { url, headers, roots, ca_file, .. }| {
            headers.values().chain(roots).chain([url]).any(waits) || waits_in(ca_file)
        })
    }

    /// Whether both run the same program or connect to the same URL. Ignores inherited variables, roots and logins.
    pub(super) fn is_equivalent(&self, other: &Self) -> bool {
        fn started(launch: &Launch) -> impl PartialEq {
            launch.program().map(|program| (&program.command, &program.args, &program.env, &program.cwd))
        }
        fn reached(launch: &Launch) -> impl PartialEq {
            launch.remote().map(|remote| (&remote.url, &remote.headers))
        }
        started(self) == started(other) && reached(self) == reached(other)
    }

    /// This launch with the exact versions that `other` has of the same packages. `None` if it has none.
    pub(super) fn with_versions_of(&self, other: &Program) -> Option<Self> {
        let mut launch = self.clone();
        let Program { command, args, .. } = launch.program_mut()?;
        let versions = package_words(&other.command, &other.args);
        let mut is_changed = false;
        for word in package_words(command, args) {
            let is_it = |one: &&PackageWord| one.index == word.index && one.name == word.name;
            let locked = versions.iter().find(is_it).filter(|one| one.version().is_some());
            if let Some(locked) = locked.filter(|_| word.version().is_none()) {
                args[word.index].clone_from(&other.args[locked.index]);
                is_changed = true;
            }
        }
        is_changed.then_some(launch)
    }

    /// This launch for agents in the directory `agent_cwd`.
    pub(super) fn at(&self, agent_cwd: &str) -> Self {
        let fill = |text: &String| text.replace(AGENT_CWD, agent_cwd);
        let fill_path = |path: &Path| PathBuf::from(fill(&path_text(path)));
        let fill_all = |texts: &[String]| texts.iter().map(fill).collect();
        let fill_each =
            |texts: &BTreeMap<String, String>| texts.iter().map(|(name, text)| (name.clone(), fill(text))).collect();
        let started = |program: &Program| Program {
            command: fill(&program.command),
            args: fill_all(&program.args),
            env: fill_each(&program.env),
            pass_env: program.pass_env.clone(),
            passed: program.passed.clone(),
            cwd: Some(program.cwd.as_deref().map_or_else(|| agent_cwd.into(), fill_path)),
            cwd_is_stated: program.cwd.as_deref().is_none_or(|cwd| path_text(cwd).contains(AGENT_CWD)),
            roots: fill_all(&program.roots),
            secrets: program.secrets.clone(),
        };
        let reached = |remote: &Remote| Remote {
            url: remote.url.replace(AGENT_CWD, &percent_encode(agent_cwd)),
            headers: fill_each(&remote.headers),
            rotating: remote.rotating.at(agent_cwd),
            roots: fill_all(&remote.roots),
            ca_file: remote.ca_file.as_deref().map(fill_path),
            oauth: remote.oauth.clone(),
            secrets: remote.secrets.clone(),
        };
        match self {
            Self::Program(program) => Self::Program(started(program)),
            Self::Remote(remote) => Self::Remote(reached(remote)),
            Self::Served(program, remote) => Self::Served(started(program), Box::new(reached(remote))),
        }
    }

    /// What is never printed: of a program with a URL, the secrets of both.
    pub(crate) fn secrets(&self) -> &Secrets {
        match self {
            Self::Program(Program { secrets, .. }) | Self::Remote(Remote { secrets, .. }) => secrets,
            Self::Served(program, _) => &program.secrets,
        }
    }

    /// The values that must not leave this machine: [`Self::secrets`], the client secret, and each variable, header, argument and part of a URL
    /// that looks like a secret.
    pub(crate) fn secret_values(&self) -> Vec<String> {
        let mut values = self.secrets().all();
        if let Some(program) = self.program() {
            let args: Vec<_> = program.args.iter().map(String::as_str).collect();
            values.extend(in_arguments(&args).into_iter().map(|index| named_value(args[index]).to_owned()));
            values.extend(args.iter().flat_map(|arg| url_secrets(arg)));
            values.extend(secret_entries(&program.env));
            let passed = program.pass_env.iter().filter_map(|name| {
                let passed = program.passed.as_ref();
                let value = passed.map_or_else(|| Process.var(name), |passed| passed.get(name).cloned())?;
                Some((name.clone(), value))
            });
            values.extend(secret_entries(&passed.collect()));
        }
        if let Some(remote) = self.remote() {
            values.extend(secret_entries(&remote.latest_headers()));
            values.extend(url_secrets(&remote.url));
            if let OAuth::On(settings) = &remote.oauth {
                values.extend(settings.client_secret.clone());
            }
        }
        // The agent's directory is no secret, and the output of a program is not known yet.
        values.retain(|value| !value.contains('\0'));
        values
    }

    /// The programs of its `${cmd:…}`.
    pub(crate) fn commands(&self) -> &[SecretCommand] {
        self.secrets().commands()
    }

    /// This launch with the outputs of its programs. Those of headers are in [`Remote::rotating`].
    ///
    /// # Errors
    /// If the URL is not valid.
    pub(crate) fn with_outputs(&self, outputs: &CommandOutputs) -> Result<Self, UnusableValue> {
        let mut launch = self.clone();
        if let Some(Program { args, env, secrets, .. }) = launch.program_mut() {
            args.iter_mut().chain(env.values_mut()).for_each(|text| *text = outputs.fill(text));
            outputs.values().for_each(|value| secrets.add_later(value));
        }
        let is_served = self.program().is_some();
        if let Some(remote) = launch.remote_mut() {
            remote.url = outputs.fill(&remote.url);
            outputs.values().for_each(|value| remote.secrets.add_later(value));
            if let Some(complaint) = url_complaint(&remote.url, is_served) {
                return Err(UnusableValue::Invalid { key: "url", complaint });
            }
        }
        Ok(launch)
    }

    pub(super) fn roots(&self) -> &[String] {
        match self {
            Self::Program(Program { roots, .. })
            | Self::Remote(Remote { roots, .. })
            | Self::Served(Program { roots, .. }, _) => roots,
        }
    }
}

impl Program {
    /// The `PATH` on which the command is looked up: that of `env`, else that of `sources`.
    pub(crate) fn search_path(&self, sources: &dyn Sources) -> String {
        self.env.get("PATH").cloned().or_else(|| sources.var("PATH")).unwrap_or_default()
    }
}

impl Remote {
    /// Whether its URL is a Unix socket.
    pub(crate) fn is_at_socket(&self) -> bool {
        is_unix(&self.url)
    }

    /// The headers, with the values of files as they were read last.
    #[must_use]
    pub fn latest_headers(&self) -> BTreeMap<String, String> {
        let mut headers = self.headers.clone();
        headers.extend(self.rotating.latest());
        headers
    }

    /// The headers that are compared by their values: all but those with the output of a program.
    fn comparable_headers(&self) -> BTreeMap<String, String> {
        let mut headers = self.latest_headers();
        headers.retain(|name, _| !self.rotating.runs_programs(name));
        headers
    }

    /// Scheme, host and port of the URL, or its socket, for messages. The rest may be secret.
    #[must_use]
    pub fn shown_origin(&self) -> String {
        let masked = self.secrets.masked(&self.url);
        if is_unix(&masked) {
            return Address::parse(&masked).map_or_else(|_| "unix:…".to_owned(), |address| address.origin());
        }
        let url = Url::parse(&masked);
        url.map_or_else(|_| "…".to_owned(), |url| url.origin().ascii_serialization())
    }
}

/// Headers are compared as they were read last. Secrets are among the other values, except for those that were rotated away.
impl PartialEq for Remote {
    fn eq(&self, other: &Self) -> bool {
        let Self { url, headers: _, rotating, roots, ca_file, oauth, secrets } = self;
        (url, rotating, roots, ca_file, oauth)
            == (&other.url, &other.rotating, &other.roots, &other.ca_file, &other.oauth)
            && self.comparable_headers() == other.comparable_headers()
            && (!rotating.is_empty() || *secrets == other.secrets)
    }
}

impl Eq for Remote {}

/// The value in `--token=X`, `TOKEN=X` or `Authorization: X`, or the whole.
fn named_value(argument: &str) -> &str {
    let named = argument.split_once(['=', ':']).filter(|(name, _)| !name.contains(['/', ' ']));
    named.map_or(argument, |(_, value)| value.trim_start())
}

/// It was read from text.
fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

impl fmt::Debug for Launch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Program(program) => program.fmt(f),
            Self::Remote(remote) => remote.fmt(f),
            Self::Served(program, remote) => f.debug_tuple("Served").field(program).field(remote).finish(),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("args", &self.args.len())
            .field("env", &self.env.keys().collect::<Vec<_>>())
            .field("pass_env", &self.pass_env)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Remote").field("headers", &self.headers.keys().collect::<Vec<_>>()).finish_non_exhaustive()
    }
}

const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// Encodes an absolute path for the path or query of a URL. No character of the result ends that part, and no segment leads above it.
/// Source: RFC 3986, 2.1 (other characters) and 5.2.4 (`..`).
pub(super) fn percent_encode(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').filter(|segment| !matches!(*segment, "" | ".")) {
        match segment {
            ".." => drop(segments.pop()),
            segment => segments.push(segment),
        }
    }
    utf8_percent_encode(&format!("/{}", segments.join("/")), ENCODED).to_string()
}

/// The directory that an agent works in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum AgentDirectory {
    /// The agent has stated none, and the kernel does not know it either.
    #[default]
    Unknown,
    /// That of an agent of the user who runs mcpd.
    Own(Arc<str>),
    /// That of a guest, below one of `workspace_roots`. Guests can replace what lies there at any time.
    Guest(Arc<str>),
    /// That of a guest, elsewhere.
    Refused,
}

impl AgentDirectory {
    /// The directory `path`. A guest may choose it only below `guest_roots`, which are `None` for other agents.
    #[must_use]
    pub fn of(path: Arc<str>, guest_roots: Option<&[PathBuf]>) -> Self {
        let Some(roots) = guest_roots else { return Self::Own(path) };
        let lies_below = |root: &PathBuf| Path::new(&*path).starts_with(root);
        let leads_back = Path::new(&*path).components().any(|part| part == Component::ParentDir);
        if !leads_back && roots.iter().any(lies_below) { Self::Guest(path) } else { Self::Refused }
    }

    /// Its path, if a server may work there.
    #[must_use]
    pub fn path(&self) -> Option<&Arc<str>> {
        match self {
            Self::Own(path) | Self::Guest(path) => Some(path),
            Self::Unknown | Self::Refused => None,
        }
    }
}

/// Whether mcpd logs in to a server that requires it. Source: MCP 2025-11-25, `basic/authorization`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OAuth {
    /// No login: only the headers are sent.
    Off,
    /// As the user after `mcpd login`, or as mcpd itself.
    On(OAuthSettings),
}

/// The configured details of the login. `Debug` does not print the secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct OAuthSettings {
    /// The grant. If unset, the authorization server's metadata decides.
    pub grant: Option<OAuthGrant>,
    /// The client id, or the `https://` URL of a client metadata document. If unset, mcpd registers itself.
    pub client_id: Option<String>,
    /// The client secret. It is one of the [`Remote::secrets`](super::Remote::secrets).
    pub client_secret: Option<String>,
    /// The requested scopes, which replace those that the server requires.
    pub scopes: Vec<String>,
    /// The port of the redirect to 127.0.0.1. If unset, any free port.
    pub redirect_port: Option<u16>,
}

/// The OAuth grant. Source: OAuth 2.1, 4.1 and 4.2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OAuthGrant {
    /// A person logs in with a browser.
    AuthorizationCode,
    /// mcpd logs in as itself with [`OAuthSettings::client_id`] and [`OAuthSettings::client_secret`].
    ClientCredentials,
}

impl Choice for OAuthGrant {
    const NAMES: &[(&str, Self)] =
        &[("authorization_code", Self::AuthorizationCode), ("client_credentials", Self::ClientCredentials)];
}

impl Default for OAuth {
    fn default() -> Self {
        Self::On(OAuthSettings::default())
    }
}

impl fmt::Debug for OAuthSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OAuthSettings")
            .field("grant", &self.grant)
            .field("client_id", &self.client_id.is_some())
            .field("client_secret", &self.client_secret.is_some())
            .field("scopes", &self.scopes)
            .field("redirect_port", &self.redirect_port)
            .finish()
    }
}

/// Whether it can be a client id or a client secret. Source: RFC 6749, A.1 and A.2.
pub(super) fn is_credential(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Whether it is a valid scope. Source: RFC 6749, 3.3, `scope-token`.
pub(super) fn is_scope(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_secret_is_masked_wherever_it_stands() {
        let mut secrets = Secrets::default();
        ["ab", "abc", "", "ab"].into_iter().for_each(|secret| secrets.add(secret));
        assert_eq!(secrets.masked("cannot run `/x/abc/ab`, ab"), "cannot run `/x/…/…`, …");
        assert_eq!(format!("{secrets:?}"), "Secrets(2)");
    }

    #[test]
    fn secret_values_have_parts_of_urls_client_secrets_and_inherited_variables() {
        let remote = Remote {
            url: "https://u:pass%21@x.org/mcp?api_key=que%2Fry&lang=german".to_owned(),
            oauth: OAuth::On(OAuthSettings { client_secret: Some("client-s".to_owned()), ..OAuthSettings::default() }),
            ..Remote::default()
        };
        let named = |entries: &[(&str, &str)]| {
            entries.iter().map(|(name, it)| ((*name).to_owned(), (*it).to_owned())).collect()
        };
        let program = Program {
            args: ["--db", "postgres://u:dbpass@h/x"].map(str::to_owned).into(),
            env: named(&[("DB", "postgres://u:envpass@h/x"), ("LANG", "german")]),
            pass_env: vec!["GITHUB_TOKEN".to_owned()],
            passed: Some(named(&[("GITHUB_TOKEN", "inherited"), ("OTHER_TOKEN", "not-passed")])),
            ..Program::default()
        };
        let values = Launch::Served(program, Box::new(remote)).secret_values();
        for value in ["pass%21", "pass!", "que%2Fry", "que/ry", "client-s", "dbpass", "envpass", "inherited"] {
            assert!(values.iter().any(|one| one == value), "{value}: {values:?}");
        }
        assert!(!values.iter().any(|value| ["german", "not-passed", "x.org", ""].contains(&&**value)), "{values:?}");
    }

    #[test]
    fn a_directory_stands_in_a_url_as_a_path() {
        let remote = Remote { url: format!("https://x.org/w{AGENT_CWD}/mcp?d={AGENT_CWD}"), ..Remote::default() };
        let Launch::Remote(there) = Launch::Remote(remote).at("/p q/..?r") else { panic!("it is reached") };
        assert_eq!(there.url, "https://x.org/w/p%20q/..%3Fr/mcp?d=/p%20q/..%3Fr");
    }

    #[test]
    fn of_a_url_only_the_origin_is_shown_and_no_secret_in_it() {
        for (url, shown) in [
            ("https://Example.org/mcp?key=k#f", "https://example.org"),
            ("https://user:word@example.org:8443/", "https://example.org:8443"),
            ("http://127.0.0.1:8080/a/b", "http://127.0.0.1:8080"),
            ("https://example.org:443", "https://example.org"),
            ("http://[::1]:1/", "http://[::1]:1"),
            ("https://example.org:5ecret/mcp", "…"),
            ("https://", "…"),
        ] {
            let mut secrets = Secrets::default();
            secrets.add("5ecret");
            let remote = Remote { url: url.to_owned(), secrets, ..Remote::default() };
            assert_eq!(remote.shown_origin(), shown, "{url}");
        }
        let mut secrets = Secrets::default();
        secrets.add("TenanT");
        let remote = Remote { url: "https://TenanT.example.org/mcp".to_owned(), secrets, ..Remote::default() };
        assert!(!remote.shown_origin().to_lowercase().contains("tenant"), "{}", remote.shown_origin());
    }

    #[test]
    fn a_directory_in_a_url_is_nothing_but_a_path() {
        for (directory, expected) in [
            ("/home/u/a-b_c.d~", "/home/u/a-b_c.d~"),
            ("/a b/c?d#e&f=g+h%41", "/a%20b/c%3Fd%23e%26f%3Dg%2Bh%2541"),
            ("/ä:@;", "/%C3%A4%3A%40%3B"),
            ("/a/../../b/./c/", "/b/c"),
            ("/..a/...", "/..a/..."),
            ("/", "/"),
        ] {
            assert_eq!(percent_encode(directory), expected, "{directory}");
        }
    }

    #[test]
    fn guest_may_choose_only_directories_below_the_roots() {
        let roots = [PathBuf::from("/srv/shared"), PathBuf::from("/x/")];
        let guest = |path: &str| AgentDirectory::of(path.into(), Some(&roots));
        for path in ["/srv/shared", "/srv/shared/a", "/srv//shared/./a", "/x/y"] {
            assert_eq!(guest(path), AgentDirectory::Guest(path.into()));
        }
        for path in ["/srv", "/srv/shared2", "/srv/shared/../a", "/srv/shared/a/..", "/", "/y/x"] {
            assert_eq!(guest(path), AgentDirectory::Refused, "{path}");
        }
        assert_eq!(AgentDirectory::of("/x/y".into(), Some(&[])), AgentDirectory::Refused);
        assert_eq!(AgentDirectory::of("/y/..".into(), None), AgentDirectory::Own("/y/..".into()));
    }
}
