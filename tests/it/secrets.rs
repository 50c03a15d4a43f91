//! Secrets appear only where a person wrote them, and reach only their server.

use std::fs;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::json;

use crate::support::{Agent, Daemon, MCPD, Place, Ran, Server, Setup, quoted, run};

/// In every secret, however it is given.
const CANARY: &str = "cAnArY";

/// The start of each log: human or JSON.
const FORMATS: [&str; 2] = ["--log-format=human", "--log-format=json"];

fn canary(of: &str) -> String {
    format!("{CANARY}-{of}-51c0d3")
}

/// A place with a secret in a file, and how a configuration refers to that.
fn with_secret_file() -> (Rc<Place>, String) {
    let place = Place::new();
    let file = place.write("secret-file", canary("file") + "\n");
    place.write("credential", canary("credential") + "\n");
    (place, format!("${{file:{}}}", file.display()))
}

/// Servers that hold secrets in every way and end, or fail, in every way.
fn servers(file: &str) -> Vec<Server> {
    let secret = |name: &str| {
        let server = Server::named(name).env("LITERAL", &canary("env")).env("FROM_FILE", file);
        let server = server.env("CREDENTIAL", "${cred:credential}").env("VARIABLE", "${SECRET_VARIABLE}");
        server.arg("--tool").arg(format!("token={}", canary("arg"))).arg("--tool").arg(file)
    };
    let bare = |server: Server| server.arg("--bare").arg("--tool").arg("echo");
    vec![
        // What it lists are tools with names that are its own arguments, so of these it lists none.
        Server::named("works")
            .env("LITERAL", &canary("env"))
            .env("FROM_FILE", file)
            .env("CREDENTIAL", "${cred:credential}"),
        Server::named("lazy").env("FROM_FILE", file).flags("--bare --tool echo").line("start = \"lazy\""),
        Server::named("own").env("FROM_FILE", file).flags("--bare --tool echo").line("sharing = \"session\""),
        secret("leaves").flags("--exit-at-start 3"),
        secret("garbage").flags("--init-garbage"),
        bare(secret("hangs")).flags("--init-never").line("handshake_timeout = \"200ms\""),
        secret("old").flags("--protocol 1999-01-01"),
        Server::run_by("missing", format!("/nowhere/{file}")).env("LITERAL", &canary("env")),
        Server::run_by("unknown", file),
        Server::named("lost").line(format!("cwd = {}", quoted(format!("/nowhere/{file}")))),
        Server::named("undefined").env("LITERAL", &canary("env")).env("NEVER", "${NO_SUCH_VARIABLE_ANYWHERE}"),
    ]
}

fn start(place: &Rc<Place>, servers: Vec<Server>, format: &str) -> Daemon {
    let remote = format!(
        "[servers.far]\nurl = \"http://127.0.0.1:9/{}\"\nheaders = {{ Authorization = \"Bearer {}\", X-Key = \"${{cred:credential}}\" }}\n",
        canary("url"),
        canary("header"),
    );
    let setup = servers
        .into_iter()
        .fold(Setup::new().head("[daemon]\ncall_log = \"calls.jsonl\"").head(&remote), Setup::server);
    let call_log = quoted(place.path("calls.jsonl"));
    let setup = setup.variable("CREDENTIALS_DIRECTORY", place.path("").to_str().expect("text"));
    let setup = setup.variable("SECRET_VARIABLE", &canary("variable")).option("--log=trace").option(format);
    let file = setup.write(place);
    let text = fs::read_to_string(&file).expect("text").replace("\"calls.jsonl\"", &call_log);
    place.write("config.toml", text);
    setup.config(file).start_in(place)
}

/// What is found where no daemon runs: then each server is started to be looked at.
fn try_servers(place: &Place) -> Ran {
    let mut command = place.command(MCPD);
    command.args(["doctor", "--config"]).arg(place.path("config.toml")).arg("--runtime-dir").arg(place.runtime_dir());
    command.env("CREDENTIALS_DIRECTORY", place.path("")).env("SECRET_VARIABLE", canary("variable"));
    run(&mut command)
}

#[track_caller]
fn expect_none(what: &str, text: &str) {
    let found = text.find(CANARY).map(|at| {
        text[..at].lines().last().unwrap_or_default().to_owned() + &text[at..].chars().take(60).collect::<String>()
    });
    assert_eq!(found, None, "{what}");
}

fn expect_silent(what: &[&str], ran: &Ran) {
    expect_none(&what.join(" "), &ran.to_string());
}

/// Every file below, but those that a person or the test's servers have written.
fn files(place: &Place) -> Vec<PathBuf> {
    let (mut waiting, mut found) = (vec![place.path("")], Vec::new());
    while let Some(directory) = waiting.pop() {
        for path in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            let is_written =
                ["secret-file", "credential", "config.toml"].contains(&&*name) || name.ends_with(".journal");
            match path.symlink_metadata().expect("it is there").file_type() {
                kind if kind.is_dir() => waiting.push(path),
                kind if kind.is_file() && !is_written => found.push(path),
                _ => {}
            }
        }
    }
    found
}

/// What the system shows of a process.
fn shown_of(pid: u32, what: &str) -> String {
    let path = Path::new("/proc").join(pid.to_string()).join(what);
    String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned()
}

/// Case H9.
#[test]
fn secret_stands_in_no_status_log_error_file_or_command_line() {
    for format in FORMATS {
        let (place, file) = with_secret_file();
        let mut daemon = start(&place, servers(&file), format);
        let mut agent = Agent::ready(&daemon);
        agent.tools();
        let mut output = Vec::new();
        for tool in ["works__echo", "works__fail", "lazy__echo", "own__echo", "leaves__echo", "no__such"] {
            output.push(agent.call(tool, &json!({"text": canary("argument"), "code": -5, "message": canary("reply")})));
        }
        assert!(output[0].to_string().contains(CANARY), "a call passes what it is given: {}", output[0]);
        output[2..]
            .iter()
            .filter(|answer| answer["result"].is_null())
            .for_each(|answer| expect_none("an error", &answer.to_string()));
        // The server's own words are its own; it is killed, and its last words are shown.
        agent.call("works__die", &json!({"how": "kill"}));
        for command in [
            &["status"][..],
            &["status", "--json"],
            &["status", "--check"],
            &["tools"],
            &["tools", "--json"],
            &["calls", "--json"],
            &["logs", "--json"],
            &["restart", "garbage"],
            &["restart", "missing"],
            &["disable", "leaves"],
            &["enable", "leaves"],
            &["reload"],
            &["doctor"],
            &["doctor", "--json"],
            &["check", place.path("config.toml").to_str().expect("text")],
            &["check", "--show", place.path("config.toml").to_str().expect("text")],
            &["check", "--json", place.path("config.toml").to_str().expect("text")],
        ] {
            expect_silent(command, &daemon.client(command));
        }
        let mut guards = 0;
        for process in daemon.family() {
            if shown_of(process.pid, "cmdline").starts_with("mcpd-guard") {
                guards += 1;
                expect_none("a guard", &shown_of(process.pid, "cmdline"));
                expect_none("the environment of a guard", &shown_of(process.pid, "environ"));
            }
        }
        assert!(guards > 2, "{guards}");
        agent.disconnect();
        assert!(daemon.term().success());
        expect_silent(&["doctor", "without a daemon"], &try_servers(&place));
        let files = files(&place);
        assert!(files.iter().any(|path| path.ends_with("calls.jsonl")), "{files:?}");
        assert!(files.iter().any(|path| path.to_string_lossy().contains("/mcpd/")), "lists are kept: {files:?}");
        for path in files {
            expect_none(&path.display().to_string(), &String::from_utf8_lossy(&fs::read(&path).expect("readable")));
        }
    }
}

#[test]
fn configuration_that_is_refused_is_shown_without_the_secrets_in_it() {
    let (place, file) = with_secret_file();
    let text = format!(
        "[servers.a]\ncommand = \"x\"\nenv = {{ A = \"{0}\", B = 7, C = \"{0}\" }}\nenvv = {{ A = \"{1}\" }}\n\
         [servers.b]\nurl = \"http://x\"\nheaders = {{ H = \"{0}\", \"bad name\" = \"{0}\" }}\ncwd = \"{file}/${{\"\n",
        canary("env"),
        canary("misspelt"),
    );
    let config = place.write("config.toml", text);
    let ran = place.client(&["serve", "--config", config.to_str().expect("text")]).expect_code(2);
    for secret in [canary("env"), canary("file")] {
        assert!(!ran.stderr.contains(&secret), "{ran}");
    }
}
