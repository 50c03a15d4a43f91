//! A server that requires a login, its authorization server, and a person's browser.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::rc::Rc;

use serde_json::Value;

use crate::support::http::{Authorization, Behavior, Front, visit};
use crate::support::{Daemon, MCPD, Place, Ran, Setup, until, wait_exit};

/// A server that wants a login, and who gives it.
pub(crate) struct LoginFixture {
    pub(crate) place: Rc<Place>,
    pub(crate) authorization: Authorization,
    pub(crate) front: Front,
}

impl LoginFixture {
    pub(crate) fn new() -> Self {
        Self::of("")
    }

    /// With a scripted server of these flags.
    pub(crate) fn of(flags: &str) -> Self {
        let place = Place::new();
        let (authorization, front) = (Authorization::start(), Front::start(&place, "tracker", flags, Behavior::json()));
        front.intercept(authorization.guard(&front.url()));
        Setup::with(front.server()).write(&place);
        Self { place, authorization, front }
    }

    /// A daemon that serves it.
    pub(crate) fn serve(&self) -> Daemon {
        Setup::new().config(self.place.path("config.toml")).start_in(&self.place)
    }

    /// Another daemon of the same user, elsewhere.
    pub(crate) fn serve_in(&self, place: &Rc<Place>) -> Daemon {
        let home = self.place.path("home");
        let setup = Setup::new().config(self.place.path("config.toml"));
        setup.variable("HOME", home.to_str().expect("text")).start_in(place)
    }

    /// The file of the login.
    pub(crate) fn file(&self) -> PathBuf {
        self.place.path("home/.local/state/mcpd/logins/tracker.json")
    }

    pub(crate) fn saved_login(&self) -> Value {
        serde_json::from_slice(&fs::read(self.file()).expect("a login is kept")).expect("JSON")
    }

    /// Begins to log in.
    pub(crate) fn begin(&self, args: &[&str]) -> Attempt {
        self.begin_with(args, &[], Stdio::null())
    }

    pub(crate) fn begin_with(&self, args: &[&str], variables: &[(&str, &str)], stdin: Stdio) -> Attempt {
        let files = ["stdout", "stderr"].map(|name| self.place.path(name));
        let [stdout, stderr] = files.each_ref().map(|path| File::create(path).expect("writable"));
        let mut command = self.place.command(MCPD);
        command.args(["login", "tracker", "--config"]).arg(self.place.path("config.toml")).args(args);
        command.arg("--runtime-dir").arg(self.place.runtime_dir()).envs(variables.iter().copied());
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn().expect("mcpd starts");
        Attempt { child, files }
    }

    /// Logs in, as a person in front of a browser does.
    pub(crate) fn log_in(&self) -> Ran {
        let attempt = self.begin(&["--no-browser"]);
        visit(&attempt.page());
        attempt.end()
    }

    /// Runs another command with the same configuration.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let config = self.place.path("config.toml");
        self.place.client(&[args, &["--config", config.to_str().expect("text")]].concat())
    }
}

/// A `mcpd login` that runs.
pub(crate) struct Attempt {
    pub(crate) child: Child,
    files: [PathBuf; 2],
}

impl Attempt {
    pub(crate) fn output(&self) -> [String; 2] {
        self.files.each_ref().map(|path| fs::read_to_string(path).expect("text"))
    }

    /// The page that it shows.
    pub(crate) fn page(&self) -> String {
        until("a page is shown", || {
            let line = self.output()[0].lines().find_map(|line| line.strip_prefix("  http").map(str::to_owned))?;
            self.output()[0].ends_with("\n\n").then(|| format!("http{line}"))
        })
    }

    /// Where it waits for the browser.
    pub(crate) fn redirect(&self) -> url::Url {
        let page = url::Url::parse(&self.page()).expect("a URL");
        let redirect = page.query_pairs().find(|(name, _)| name == "redirect_uri").expect("there is one").1;
        url::Url::parse(&redirect).expect("a URL")
    }

    pub(crate) fn end(mut self) -> Ran {
        let code = wait_exit(&mut self.child).code();
        let [stdout, stderr] = self.output();
        Ran { code, stdout, stderr }
    }
}
