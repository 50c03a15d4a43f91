//! What a daemon is told: the config file, written by the test that needs it.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::rc::Rc;

use super::daemon::Daemon;
use super::place::{MCPD, Place, SCRIPTED, TAG};

/// A string as TOML; JSON's escapes are a subset of TOML's.
pub(crate) fn quoted(text: impl AsRef<Path>) -> String {
    serde_json::Value::from(text.as_ref().to_str().expect("text")).to_string()
}

/// One `[servers.NAME]` table; a scripted server by default.
pub(crate) struct Server {
    pub(crate) name: String,
    launch: Launch,
    lines: Vec<String>,
}

enum Launch {
    Program(Program),
    Url(String),
}

struct Program {
    command: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
    library: Option<String>,
}

impl Server {
    pub(crate) fn named(name: &str) -> Self {
        Self::run_by(name, SCRIPTED)
    }

    /// A server run by another command.
    pub(crate) fn run_by(name: &str, command: impl AsRef<Path>) -> Self {
        let command = command.as_ref().to_str().expect("text").into();
        let launch = Launch::Program(Program { command, args: Vec::new(), env: Vec::new(), library: None });
        Self { name: name.into(), launch, lines: Vec::new() }
    }

    /// A server at a URL.
    pub(crate) fn at(name: &str, url: &str) -> Self {
        Self { name: name.into(), launch: Launch::Url(url.into()), lines: Vec::new() }
    }

    /// Arguments, split at white space.
    pub(crate) fn flags(self, flags: &str) -> Self {
        flags.split_whitespace().fold(self, |server, flag| server.arg(flag))
    }

    /// One argument, unsplit.
    pub(crate) fn arg(mut self, arg: impl AsRef<Path>) -> Self {
        self.program().args.push(arg.as_ref().to_str().expect("text").into());
        self
    }

    /// The prompts, resources and templates of a scripted server, and its further capabilities.
    pub(crate) fn library(mut self, library: impl ToString) -> Self {
        self.program().library = Some(library.to_string());
        self
    }

    /// One more line of the table.
    pub(crate) fn line(mut self, line: impl Into<String>) -> Self {
        self.lines.push(line.into());
        self
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.program().env.push((name.into(), value.into()));
        self
    }

    fn program(&mut self) -> &mut Program {
        match &mut self.launch {
            Launch::Program(program) => program,
            Launch::Url(url) => panic!("{url} is not run by a command"),
        }
    }

    /// The table as text. Every scripted server keeps a journal.
    pub(crate) fn toml(&self, place: &Place) -> String {
        let (name, lines) = (&self.name, self.lines.join("\n"));
        let launch = match &self.launch {
            Launch::Program(program) => program.toml(place, name),
            Launch::Url(url) => format!("url = {}", quoted(url)),
        };
        format!("[servers.{name}]\n{launch}\n{lines}\n")
    }

    /// Starts a daemon with this server alone, and waits until its first start has ended.
    pub(crate) fn start(self) -> Daemon {
        Setup::with(self).start()
    }
}

impl Program {
    fn toml(&self, place: &Place, name: &str) -> String {
        let journal = [String::from("--journal"), journal(place, name).to_str().expect("text").into()];
        let journal = journal.into_iter().filter(|_| self.command == SCRIPTED);
        let library = self.library.iter().flat_map(|text| ["--library".into(), write_library(place, name, text)]);
        let args: Vec<_> = self.args.iter().cloned().chain(library).chain(journal).map(quoted).collect();
        let tag = (TAG.to_owned(), place.tag().to_owned());
        let env = self.env.iter().chain([&tag]).map(|(name, value)| format!("{name} = {}", quoted(value)));
        let (command, args, env) = (quoted(&self.command), args.join(", "), env.collect::<Vec<_>>().join(", "));
        format!("command = {command}\nargs = [{args}]\nenv = {{ {env} }}")
    }
}

/// The head of a configuration, in which first lists wait for every first start, however busy the machine is.
fn patient(head: &str) -> String {
    const FIRST_LISTS: &str = "[daemon]\nfirst_list_wait = \"3m\"\n";
    match (head.contains("first_list_wait"), head.contains("[daemon]\n")) {
        (true, _) => head.to_owned(),
        (false, true) => head.replacen("[daemon]\n", FIRST_LISTS, 1),
        (false, false) => format!("{head}\n{FIRST_LISTS}"),
    }
}

/// Writes the library of the scripted server `name`, unless it is there: a server may be reading it.
fn write_library(place: &Place, name: &str, text: &str) -> String {
    let file = place.path(&format!("{name}.library"));
    if fs::read_to_string(&file).ok().as_deref() != Some(text) {
        place.write(&format!("{name}.library"), text);
    }
    file.to_str().expect("text").to_owned()
}

/// The journal of the scripted server `name`.
pub(crate) fn journal(place: &Place, name: &str) -> PathBuf {
    place.path(&format!("{name}.journal"))
}

/// The configuration of a daemon before its start.
#[derive(Default)]
pub(crate) struct Setup {
    head: String,
    servers: Vec<Server>,
    launcher: Vec<OsString>,
    variables: Vec<(String, String)>,
    options: Vec<String>,
    config: Option<Vec<PathBuf>>,
    program: Option<PathBuf>,
}

impl Setup {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// With this server.
    pub(crate) fn with(server: Server) -> Self {
        Self::new().server(server)
    }

    /// With this server, and the scripted server `good`, which it must not affect.
    pub(crate) fn beside_good(server: Server) -> Self {
        Self::with(server).server(Server::named("good"))
    }

    pub(crate) fn server(mut self, server: Server) -> Self {
        self.servers.push(server);
        self
    }

    /// Text before the servers: `[daemon]` and `[defaults]`.
    pub(crate) fn head(mut self, text: &str) -> Self {
        self.head.push_str(text);
        self.head.push('\n');
        self
    }

    /// A variable of the daemon's own environment.
    pub(crate) fn variable(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.into(), value.into()));
        self
    }

    /// Replaces mcpd's limit for a pause within a line.
    pub(crate) fn line_timeout(self, ms: u64) -> Self {
        self.variable("MCPD_TEST_LINE_TIMEOUT_MS", &ms.to_string())
    }

    /// Replaces the time after which mcpd counts a server as recovered.
    pub(crate) fn backoff_reset(self, ms: u64) -> Self {
        self.variable("MCPD_TEST_BACKOFF_RESET_MS", &ms.to_string())
    }

    /// One more argument of `mcpd serve`.
    pub(crate) fn option(mut self, option: &str) -> Self {
        self.options.push(option.into());
        self
    }

    /// Runs shell commands in the process that then becomes the daemon.
    pub(crate) fn after_shell(mut self, script: &str) -> Self {
        let script = format!("{script}; exec \"$0\" \"$@\"");
        self.launcher = ["sh", "-c", &script].map(OsString::from).into();
        self
    }

    /// Runs this copy of mcpd.
    pub(crate) fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// Serves this file instead of one written here.
    pub(crate) fn config(mut self, file: PathBuf) -> Self {
        self.config.get_or_insert_default().push(file);
        self
    }

    /// Serves the default configuration file, which exists only if the test writes it.
    pub(crate) fn without_config(mut self) -> Self {
        self.config = Some(Vec::new());
        self
    }

    /// Writes the configuration and returns the command that serves it.
    pub(crate) fn command(&self, place: &Place) -> Command {
        let mut argv =
            self.launcher.iter().cloned().chain([self.program.clone().unwrap_or_else(|| MCPD.into()).into()]);
        let mut command = place.command(argv.next().expect("at least mcpd"));
        command.args(argv).arg("serve").args(&self.options);
        for file in self.config.clone().unwrap_or_else(|| vec![self.write(place)]) {
            command.arg("--config").arg(file);
        }
        command.arg("--runtime-dir").arg(place.runtime_dir());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Writes the configuration and returns its path.
    pub(crate) fn write(&self, place: &Place) -> PathBuf {
        for server in &self.servers {
            // Created here, because a server's umask may keep it from opening the file again.
            let journal = journal(place, &server.name);
            File::options().create(true).append(true).open(journal).expect("the test's own directory is writable");
        }
        let servers: String = self.servers.iter().map(|server| server.toml(place)).collect();
        place.write("config.toml", format!("{}\n{servers}", patient(&self.head)))
    }

    /// Starts the daemon and waits until its servers' first starts have ended.
    pub(crate) fn start(self) -> Daemon {
        self.start_in(&Place::new())
    }

    /// [`Setup::start`] in the place of an earlier daemon.
    pub(crate) fn start_in(self, place: &Rc<Place>) -> Daemon {
        let daemon = self.spawn_in(place);
        daemon.wait_status("settled", |status| status["settled"] == true);
        daemon
    }

    /// [`Setup::spawn`] in the place of an earlier daemon.
    pub(crate) fn spawn_in(self, place: &Rc<Place>) -> Daemon {
        Daemon::spawn(Rc::clone(place), &self)
    }

    /// Starts the daemon without waiting.
    pub(crate) fn spawn(self) -> Daemon {
        self.spawn_in(&Place::new())
    }
}
