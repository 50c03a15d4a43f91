//! `mcpd bugreport`: one private archive, with and without a daemon, and without secrets.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Stdio;

use flate2::read::GzDecoder;
use serde_json::{Value, json};

use crate::reload::{change, changing, text};
use crate::support::{Agent, MCPD, Place, Server, Setup, arguments, initialize_params, result, until, wait_exit};

/// The files of an archive, by name.
fn unpacked(path: &Path) -> BTreeMap<String, String> {
    let mut archive = tar::Archive::new(GzDecoder::new(File::open(path).expect("an archive")));
    let entries = archive.entries().expect("entries").map(|entry| {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a path").to_string_lossy().into_owned();
        let mut text = String::new();
        entry.read_to_string(&mut text).expect("text");
        (name.strip_prefix("mcpd-bugreport/").expect("one directory").to_owned(), text)
    });
    entries.collect()
}

const CANARY: &str = "cAnArY";

/// Case H9.
#[test]
fn a_report_has_all_parts_and_no_secrets() {
    let place = Place::new();
    let file = place.write("secret", format!("{CANARY}-in-file\n"));
    let server = Server::named("a")
        .env("FROM_FILE", &format!("${{file:{}}}", file.display()))
        .env("API_KEY", &format!("{CANARY}-literal"))
        .env("OTHER", &format!("{CANARY}-shown-nowhere"))
        .line("log_arguments = true");
    let command = format!("${{cmd:printf {CANARY}-printed}}");
    let daemon = Setup::with(server).server(Server::named("b").env("PRINTED", &command)).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    arguments(&agent.call("a__echo", &json!({"text": format!("{CANARY}-argument")})));
    for (server, secret) in [("a", "in-file"), ("a", "literal"), ("b", "printed")] {
        arguments(&agent.call(&format!("{server}__stderr"), &json!({"text": format!("leaks {CANARY}-{secret}")})));
    }
    let logged = |args: &[&str]| daemon.client(&[&["logs"], args].concat()).expect_code(0).stdout;
    until("all is logged", || (logged(&[]).matches("leaks").count() == 3).then_some(()));
    assert_eq!(logged(&["--masked"]).matches("leaks …").count(), 3, "{}", logged(&["--masked"]));
    let path = place.path("report.tar.gz");
    let ran = daemon.client(&["bugreport", "-o", &path.display().to_string()]).expect_code(0);
    let files = unpacked(&path);
    for name in ["system.txt", "configuration.toml", "check.txt", "doctor.txt", "status.json", "tools.txt"] {
        assert!(files.contains_key(name) && ran.stdout.contains(name), "{name}: {ran}");
    }
    for (name, part) in [
        ("configuration.toml", "[servers.a]"),
        ("status.json", "\"name\": \"a\""),
        ("tools.txt", "a__echo"),
        ("metrics.txt", "# TYPE mcp_server_operation_duration_seconds histogram"),
        ("calls.jsonl", "\"tool\":\"echo\""),
        ("servers.jsonl", "leaks …"),
        ("system.txt", concat!("mcpd ", env!("CARGO_PKG_VERSION"))),
    ] {
        assert!(files[name].contains(part), "{name}: {}", files[name]);
    }
    let home = place.path("home").display().to_string();
    for (name, text) in &files {
        assert!(!text.contains(CANARY) && !text.contains(&home), "{name}: {text}");
    }
    assert_eq!(fs::metadata(&path).expect("a file").permissions().mode() & 0o777, 0o600);
    let again = daemon.client(&["bugreport", "-o", &path.display().to_string()]).expect_code(2);
    assert!(again.stderr.contains("cannot write") && unpacked(&path) == files, "{again}");
    let other = place.path("other.tar.gz");
    let report = daemon.client(&["bugreport", "--json", "-o", &other.display().to_string()]).json();
    let names: Vec<_> =
        report["contents"].as_array().expect("a list").iter().map(|part| part["name"].clone()).collect();
    assert_eq!(names.len(), unpacked(&other).len(), "{report}");
}

#[test]
fn arguments_of_programs_literal_secrets_and_cut_secrets_are_in_no_part_of_a_report() {
    let place = Place::new();
    let secret = format!("{CANARY}\"horse battery staple over the hill");
    let file = place.write("secret", &secret);
    let prints = format!("${{cmd:sh -c 'echo printed; : {CANARY}'}}");
    let literal = format!("{CANARY} garden");
    let script = "echo cannot log in with $DB_PASSWORD or $(echo $DB_PASSWORD | sed 's/ /%20/') >&2; exit 3";
    let fails = Server::run_by("b", "/bin/sh").arg("-c").arg(script).arg(&prints).env("DB_PASSWORD", &literal);
    let server = Server::named("a").env("FILE", &format!("${{file:{}}}", file.display()));
    let daemon = Setup::with(server).server(fails).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let percent = secret.replace(' ', "%20").replace('"', "%22");
    for text in [&secret, &percent] {
        arguments(&agent.call("a__stderr", &json!({"text": format!("{}{text}", ".".repeat((64 << 10) - 20))})));
    }
    let logged = || daemon.client(&["logs", "a"]).expect_code(0).stdout;
    until("all is logged", || (logged().lines().filter(|line| line.contains("...")).count() == 2).then_some(()));
    until("the failure is logged", || daemon.log().contains("cannot log in").then_some(()));
    assert!(!daemon.log().contains(CANARY), "{}", daemon.log());
    let path = place.path("report.tar.gz");
    daemon.client(&["bugreport", "-o", &path.display().to_string()]).expect_code(0);
    for (name, text) in unpacked(&path) {
        let shown = text.find(CANARY).map(|at| text.get(at.saturating_sub(80)..at + 20));
        assert!(shown.is_none(), "{name}: {shown:?}");
    }
}

/// Case H9.
#[test]
fn outputs_of_programs_and_replaced_secrets_are_masked_even_if_the_configuration_is_broken() {
    let server = |secret: &str| Server::named("a").env("PRINTED", &format!("${{cmd:printf {CANARY}-{secret}}}"));
    let (mut daemon, place) = changing(&[server("first")]);
    let mut agent = Agent::connect(&daemon);
    let mut params = initialize_params("2025-11-25", &json!({}));
    params["clientInfo"]["name"] = json!(format!("{CANARY}-first"));
    result(&agent.request("initialize", &params));
    arguments(&agent.call("a__stderr", &json!({"text": format!("leaks {CANARY}-first")})));
    change(&mut daemon, text(&[server("second")], &place), "reloaded: changed a");
    arguments(&agent.call("a__stderr", &json!({"text": format!("leaks {CANARY}-second and {CANARY}-first")})));
    let logged = || daemon.client(&["logs"]).expect_code(0).stdout;
    until("all is logged", || (logged().matches("leaks").count() == 2).then_some(()));
    let broken = format!("[servers.a]\ncomand = 'x'\nenv = {{ API_KEY = '{CANARY}-broken' }}\n");
    change(&mut daemon, broken, "not reloaded, nothing has changed");
    let path = place.path("report.tar.gz");
    daemon.client(&["bugreport", "-o", &path.display().to_string()]).expect_code(0);
    let files = unpacked(&path);
    assert!(files["status.json"].contains("\"… 7\"") && files["doctor.txt"].contains("comand"), "{files:#?}");
    assert_eq!(files["servers.jsonl"].matches("leaks …").count(), 2, "{files:#?}");
    for (name, text) in &files {
        assert!(!text.contains(CANARY), "{name}: {text}");
    }
}

#[test]
fn a_report_needs_neither_a_daemon_nor_a_valid_configuration() {
    let place = Place::new();
    place.write_user_config(format!("[servers.a]\ncomand = 'x'\nenv = {{ API_KEY = '{CANARY}' }}\n"));
    let path = place.path("report.tar.gz");
    place.client(&["bugreport", "-o", &path.display().to_string()]).expect_code(0);
    let files = unpacked(&path);
    assert!(files["check.txt"].contains("did you mean `command`"), "{files:#?}");
    assert!(files["doctor.txt"].contains("comand"), "{files:#?}");
    assert!(files["notes.txt"].contains("mcpd status --json: exit status: 3"), "{files:#?}");
    let left_out = "Left out: the daemon's log and the journal, which only a running daemon can mask (not running: ";
    assert!(files["notes.txt"].contains(left_out), "{files:#?}");
    assert!(!["daemon.log", "journal.log", "servers.jsonl"].iter().any(|name| files.contains_key(*name)), "{files:#?}");
    assert!(!files.contains_key("status.json") && !format!("{files:?}").contains(CANARY), "{files:#?}");
}

#[test]
fn a_report_with_a_tap_has_the_messages_of_that_time() {
    let daemon = Server::named("a").env("API_KEY", &format!("{CANARY}-literal")).start();
    let mut agent = Agent::ready(&daemon);
    let path = daemon.place().path("report.tar.gz");
    let mut command = daemon.place().command(MCPD);
    command.args(["bugreport", "--tap", "1h", "-o"]).arg(&path).arg("--runtime-dir").arg(daemon.place().runtime_dir());
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("it starts");
    let notes = BufReader::new(child.stderr.take().expect("a pipe")).lines();
    let note = notes.map(|line| line.expect("text")).find(|line| line.contains("watching")).expect("a note");
    assert!(note.contains("watching for 1h: cause the problem now"), "{note}");
    arguments(&agent.call("a__echo", &json!({"text": format!("{CANARY}-literal")})));
    assert!(!path.exists(), "it is written as a whole");
    crate::support::signal(child.id(), rustix::process::Signal::INT);
    assert_eq!(wait_exit(&mut child).code(), Some(0));
    let files = unpacked(&path);
    let lines: Vec<Value> =
        files["tap.jsonl"].lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect();
    assert!(lines.iter().any(|line| line["method"] == "tools/call"), "{lines:#?}");
    assert!(!files["tap.jsonl"].contains(CANARY), "{lines:#?}");
}
