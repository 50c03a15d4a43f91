//! `mcpd check` reports on a configuration without starting anything.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::support::{Agent, Place, Ran, SCRIPTED, Server, Setup, quoted};

fn check(place: &Place, args: &[&str], files: &[&Path]) -> Ran {
    let files = files.iter().map(|file| file.to_str().expect("text"));
    place.mcpd(&[&["check"], args, &files.collect::<Vec<_>>()].concat())
}

fn check_text(place: &Place, args: &[&str], text: &str) -> Ran {
    check(place, args, &[&place.write("config.toml", text)])
}

/// A server that would leave a trace.
fn witness(place: &Place) -> String {
    let journal = quoted(place.path("witness.journal"));
    format!("[servers.witness]\ncommand = {}\nargs = [\"--journal\", {journal}]\n", quoted(SCRIPTED))
}

/// Every file below a place with what it holds.
fn files(place: &Place) -> BTreeMap<PathBuf, Vec<u8>> {
    let (mut waiting, mut found) = (vec![place.path("")], BTreeMap::new());
    while let Some(directory) = waiting.pop() {
        for path in fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                waiting.push(path.clone());
                found.insert(path, Vec::new());
            } else {
                let text = fs::read(&path).unwrap_or_default();
                found.insert(path, text);
            }
        }
    }
    found
}

#[test]
fn missing_file_is_reported_with_the_file_that_is_checked_without_an_argument() {
    let place = Place::new();
    let default = place.path("xdg-config/mcpd/config.toml");
    let help = format!("nosuch.toml does not exist: correct the path, or omit it to check {}", default.display());
    let ran = place.mcpd(&["check", "nosuch.toml"]).expect_code(2);
    assert!(ran.stderr.contains(&format!("\nhelp: {help}\n")), "{ran}");
    let ran = place.mcpd(&["check", "--json", "nosuch.toml"]).expect_code(2);
    assert_eq!(ran.json()["diagnostics"][0]["help"], *help, "{ran}");
}

#[test]
fn schema_is_printed_without_a_daemon() {
    let schema = Place::new().mcpd(&["schema"]).expect_code(0).json();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    assert_eq!(schema["properties"]["daemon"]["properties"]["max_message"]["default"], "10176KiB");
}

#[test]
fn check_starts_no_server_and_writes_no_file() {
    let place = Place::new();
    let file = place.write("config.toml", witness(&place));
    let before = files(&place);
    let ran = check(&place, &[], &[&file]).expect_code(0);
    assert_eq!(ran.stdout, "1 server: valid, 0 warnings\n", "{ran}");
    assert_eq!(files(&place), before);
    assert!(place.processes(None).is_empty());
}

#[test]
fn check_reports_all_errors_of_all_files_together() {
    let place = Place::new();
    let first = place.write("1.toml", "[daemon]\nnamming = 1\n[servers.a]\ncommand = 7\nargs = 'x'\n");
    let second = place.write("2.toml", "[servers.b]\ncomand = 'x'\n[servers.a]\ncommand = 'y'\n");
    let third = place.path("none.toml");
    let ran = check(&place, &["--strict"], &[&first, &second, &third]).expect_code(2);
    for expected in ["1.toml:2:1", "did you mean `naming`?", "1.toml:4:11", "1.toml:5:8", "2.toml:2:1", "none.toml"] {
        assert!(ran.stderr.contains(expected), "no {expected}: {ran}");
    }
    assert!(ran.stdout.contains(" errors: this configuration is refused\n"), "{ran}");
    assert_eq!(ran.stdout.lines().count(), 1, "{ran}");
}

#[test]
fn check_fails_on_warnings_only_with_strict() {
    let place = Place::new();
    let text = format!("{}[servers.lost]\ncommand = 'no-such-program'\n", witness(&place));
    let ran = check_text(&place, &[], &text).expect_code(0);
    assert_eq!(ran.stdout, "2 servers: 1 server cannot start, 1 warning\n", "{ran}");
    assert!(ran.stderr.contains("config.toml:5:11") && ran.stderr.contains("searched for commands: "), "{ran}");
    check_text(&place, &["--strict"], &text).expect_code(1);
    check_text(&place, &["--strict"], &witness(&place)).expect_code(0);
}

#[test]
fn searched_path_is_printed_once_for_all_missing_commands() {
    let place = Place::new();
    let lost = |name: &str| format!("[servers.{name}]\ncommand = 'no-such-{name}'\n");
    let text = witness(&place) + &["a", "b", "c"].map(lost).concat();
    let ran = check_text(&place, &[], &text).expect_code(0);
    assert_eq!(ran.stderr.matches("is not found").count(), 3, "{ran}");
    assert_eq!(ran.stderr.matches("searched for commands: ").count(), 1, "{ran}");
    let all = check_text(&place, &["--json"], &text).expect_code(0).json();
    let diagnostics = all["diagnostics"].as_array().expect("a list");
    assert!(
        diagnostics.iter().all(|one| one["message"].as_str().is_some_and(|text| text.contains("; PATH searched: ")))
    );
    let config = place.write("lost.toml", &text);
    let config = config.to_str().expect("text");
    let doctor = place.mcpd(&["doctor", "--no-start", "--config", config]).expect_code(1);
    assert_eq!(doctor.stdout.matches("is not found").count(), 3, "{doctor}");
    assert_eq!(doctor.stdout.matches("searched for commands: ").count(), 1, "{doctor}");
}

#[test]
fn programs_get_the_same_as_json() {
    let place = Place::new();
    let ran = check_text(&place, &["--json"], &format!("{}[servers.lost]\ncommand = '/none'\n", witness(&place)));
    let expected = ran.expect_code(0).json();
    assert_eq!((&expected["format"], &expected["servers"], &expected["warnings"]), (&1.into(), &2.into(), &1.into()));
    let warning = &expected["diagnostics"][0];
    assert_eq!((&warning["level"], &warning["line"], &warning["column"]), (&"warning".into(), &5.into(), &11.into()));
    assert_eq!(warning["message"], "command `/none` does not exist");
    assert!(warning["help"].is_string());
    assert_eq!(warning["file"], place.path("config.toml").to_str().expect("text"));
    assert_eq!(expected["unknown"], serde_json::json!(["witness", "lost"]));
    let refused = check(&place, &["--json"], &[&place.path("none.toml")]).expect_code(2).json();
    assert_eq!((&refused["errors"], &refused["diagnostics"][0]["level"]), (&1.into(), &"error".into()));
    let wrong = check_text(&place, &["--json"], "x = 1\ny = 2\n").expect_code(2).json();
    assert_eq!(wrong["diagnostics"].as_array().expect("a list").len(), 2);
}

#[test]
fn check_without_a_file_reads_what_the_daemon_would_read() {
    let place = Place::new();
    let ran = place.mcpd(&["check"]).expect_code(0);
    assert_eq!(ran.stdout, "0 servers: no server is configured, 0 warnings\n");
    assert!(ran.stderr.contains("no server is configured: `mcpd import` "), "{ran}");
    fs::create_dir_all(place.path("xdg-config/mcpd")).expect("the test's own");
    place.write("xdg-config/mcpd/config.toml", "[servers.a]\ncomand = 'x'\n");
    let ran = place.mcpd(&["check"]).expect_code(2);
    assert!(ran.stderr.contains("xdg-config/mcpd/config.toml:2:1"), "{ran}");
}

/// A place in which these servers have run once.
fn learn_lists(servers: impl Fn() -> Vec<Server>) -> (Rc<Place>, PathBuf) {
    let place = Place::new();
    let mut daemon = servers().into_iter().fold(Setup::new(), Setup::server).start_in(&place);
    let _ = Agent::ready(&daemon).tools();
    daemon.term();
    let file = place.path("config.toml");
    (place, file)
}

#[test]
fn check_compares_patterns_with_what_servers_have_offered() {
    let servers = || {
        let tools = "--bare --tool read_file --tool write_file";
        let all = ["shared", "session", "pool"].map(|sharing| {
            Server::named(sharing)
                .flags(tools)
                .line(format!("sharing = \"{sharing}\"\ndeny = [\"wirte_*\", \"read_*\"]"))
        });
        all.into()
    };
    let (place, file) = learn_lists(servers);
    let ran = check(&place, &[], &[&file]).expect_code(0);
    assert_eq!(ran.stdout, "3 servers: valid, 3 warnings\n", "{ran}");
    for server in ["shared", "session", "pool"] {
        let expected = format!("`wirte_*` matches none of the tools of `{server}`");
        assert!(ran.stderr.contains(&expected) && ran.stderr.contains("did you mean `write_file`?"), "{server}: {ran}");
    }
    let changed = fs::read_to_string(&file).expect("text").replace("--bare", "--bare\", \"--tool\", \"new");
    let ran = check_text(&place, &[], &changed).expect_code(0);
    assert!(
        ran.stdout.starts_with("3 servers: valid, 0 warnings") && ran.stderr.contains("shared, session, pool"),
        "{ran}"
    );
}

/// Case G6.
#[test]
fn check_reports_secrets_without_printing_them() {
    let place = Place::new();
    fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).expect("the test's own");
    let secret = place.write("secret", "canary-1");
    fs::set_permissions(&secret, fs::Permissions::from_mode(0o644)).expect("the test's own");
    let text = format!(
        "{}env = {{ TOKEN = \"canary-2\", OTHER = \"${{file:{}}}\" }}\n[servers.b]\ncommand = {}\n\
         args = [\"--token=canary-3\", \"--key\", \"${{TOKEN:-canary-4}}\"]\n",
        witness(&place),
        secret.display(),
        quoted(SCRIPTED)
    );
    let file = place.write("config.toml", text);
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("the test's own");
    let ran = check(&place, &[], &[&file]).expect_code(0);
    for expected in ["`TOKEN` looks like a secret", "the secret in ", "an argument of `b` is a secret"] {
        assert!(ran.stderr.contains(expected), "no {expected}: {ran}");
    }
    for args in [&[][..], &["--json"], &["--show"]] {
        let ran = check(&place, args, &[&file]).expect_code(0);
        for canary in ["canary-1", "canary-2", "canary-3"] {
            assert!(!format!("{ran}").contains(canary), "{canary}: {ran}");
        }
    }
}

#[test]
fn check_of_a_special_or_endless_file_ends_with_a_bounded_error() {
    let place = Place::new();
    let fifo = place.path("fifo.toml");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("the test's own");
    let link = place.path("loop.toml");
    std::os::unix::fs::symlink(&link, &link).expect("the test's own");
    let huge = place.path("huge.toml");
    fs::File::create(&huge).and_then(|file| file.set_len(1 << 40)).expect("a file of holes");
    let wrong = place.write("wrong.toml", "x = 1\n".repeat(100_000));
    let deep = place.write("deep.toml", format!("x = {}", "[".repeat(1 << 20)));
    let nested = place.write("nested.json", "{\"a\":".repeat(200_000));
    let patterns = (0..20_000).map(|n| format!("'pattern-{n}*', ")).collect::<String>();
    let many =
        place.write("many.toml", format!("[servers.a]\ncommand = 'none'\ntool_timeouts = {{}}\ndeny = [{patterns}]"));
    let servers: String = (0..30_000).map(|n| format!("[servers.s{n}]\ncommand = '${{N}}'\nargs = ['']\n")).collect();
    let servers = place.write("servers.toml", servers);
    for file in [&fifo, &link, &huge, &wrong, &deep, &nested, &place.path("tmp"), Path::new("/dev/zero")] {
        let ran = check(&place, &[], &[file]).expect_code(2);
        assert!(ran.stderr.len() < 200_000 && ran.stderr.contains("error: "), "{}", file.display());
    }
    for file in [&many, &servers] {
        let ran = check(&place, &[], &[file]).expect_code(1);
        assert!(ran.stderr.len() < 2_000_000, "{}", file.display());
    }
}
