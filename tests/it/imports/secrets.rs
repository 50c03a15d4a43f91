//! Imported secrets are moved to private files.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::thread;

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::json;

use super::fixtures::{Shims, place_of};
use crate::support::{MCPD, Place, Setup, wait_exit};

const CANARY: &str = "ghp_c4n4ryC4N4RYc4n4ryC4N4RYc4n4";

pub(super) fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o777
}

#[test]
fn plain_secrets_are_moved_into_files_for_their_owner_alone() {
    let place = Place::new();
    let shims = Shims::new(&place);
    // On one line with something that is complained about, which is shown.
    place.write(
        ".mcp.json",
        format!(
            r#"{{"mcpServers": {{"a": {{"command": "npx", "args": ["a-server", "--token", "{CANARY}1"], "odd": 1, "env": {{"GITHUB_TOKEN": "{CANARY}2"}}}}, "b": {{"url": "https://x.example.org", "headers": {{"X-Key": "{CANARY}3"}}}}, "c": {{"command": 5, "env": {{"T": "{CANARY}4"}}}}}}}}"#
        ),
    );
    let dry = place.mcpd(&["import", "--dry-run"]).expect_code(1);
    let ran = shims.mcpd(&place, &["import", "--yes"]).expect_code(1);
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    for shown in [&dry.stdout, &dry.stderr, &ran.stdout, &ran.stderr, &config] {
        assert!(!shown.contains("c4n4ry"), "{shown}");
    }
    assert!(ran.stderr.contains("unknown key `odd`") && ran.stderr.contains("`command` must be a string"), "{ran}");
    let directory = place.path("xdg-config/mcpd/secrets");
    assert_eq!(mode(&directory), 0o700);
    for (file, secret) in [("a.token", "1"), ("a.GITHUB_TOKEN", "2"), ("b.X-Key", "3")] {
        let path = directory.join(file);
        assert_eq!(fs::read_to_string(&path).expect("a secret"), format!("{CANARY}{secret}\n"));
        assert_eq!(mode(&path), 0o600, "{file}");
        assert!(ran.stderr.contains(path.to_str().expect("text")), "it is said where {file} is: {ran}");
    }
    assert_eq!(fs::read_dir(&directory).expect("a directory").count(), 3);
    let daemon = shims.on_path(Setup::new().without_config()).start_in(&place);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    assert_eq!(shims.seen("a-server", "GITHUB_TOKEN"), Some(format!("{CANARY}2")));
    assert!(shims.arguments("a-server").ends_with(&format!("--token {CANARY}1")));
    for process in ["self", &daemon.pid().to_string(), &daemon.guard_pid("a").to_string()] {
        let line = fs::read(format!("/proc/{process}/cmdline")).expect("a process");
        assert!(!String::from_utf8_lossy(&line).contains("c4n4ry"));
    }
}

#[test]
fn unanswered_secret_fails_one_server_until_it_is_saved() {
    let place = Place::new();
    let shims = Shims::new(&place);
    fs::create_dir_all(place.path(".vscode")).expect("a directory");
    place.write(
        ".vscode/mcp.json",
        r#"{"servers": {"a": {"command": "npx", "args": ["a-server"], "env": {"KEY": "${input:key}"}}}}"#,
    );
    let ran = shims.mcpd(&place, &["import", "--yes"]).expect_code(0);
    let secret = place.path("xdg-config/mcpd/secrets/a.key");
    assert!(
        ran.stderr.contains(&format!("a: key is missing: write it to {} with mode 0600", secret.display())),
        "{ran}"
    );
    let daemon = shims.on_path(Setup::new().without_config()).start_in(&place);
    let row = daemon.wait_row("a", "has failed", |row| row["state"] == "failed");
    assert!(row.to_string().contains("a.key"), "{row}");
    fs::create_dir_all(secret.parent().expect("a directory")).expect("a directory");
    fs::write(&secret, "answer\n").expect("one's own directory");
    daemon.client(&["reload"]).expect_code(0);
    daemon.wait_row("a", "is ready", |row| row["state"] == "ready");
    assert_eq!(shims.seen("a-server", "KEY").as_deref(), Some("answer"));
}

/// Runs `mcpd import` on a terminal of its own where a person types `keys`; what the terminal shows, and the exit code.
fn on_a_terminal(place: &Place, keys: &[&str]) -> (String, Option<i32>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("one's own terminal");
    let name = ptsname(&master, Vec::new()).expect("its name");
    let terminal =
        fs::File::options().read(true).write(true).open(name.to_str().expect("text")).expect("its other side");
    let both = || terminal.try_clone().expect("a file descriptor");
    let mut command: Command = place.command(MCPD);
    let mut child = command
        .arg("import")
        .env("TERM", "xterm-256color")
        .stdin(both())
        .stdout(both())
        .stderr(both())
        .spawn()
        .expect("mcpd starts");
    drop((command, terminal));
    let mut master = fs::File::from(master);
    let mut keyboard = master.try_clone().expect("a file descriptor");
    let keys: Vec<_> = keys.iter().map(|keys| (*keys).to_owned()).collect();
    let mut keys: Vec<_> = keys.iter().rev().map(|keys| (*keys).to_owned()).collect();
    let screen = thread::spawn(move || {
        let mut shown = Vec::new();
        let mut buffer = [0; 4096];
        while let Ok(read @ 1..) = master.read(&mut buffer) {
            shown.extend_from_slice(&buffer[..read]);
            let is_prompt = shown.ends_with(b"[Y/n] ") || shown.ends_with(b": ");
            if let Some(keys) = is_prompt.then(|| keys.pop()).flatten() {
                keyboard.write_all(keys.as_bytes()).expect("a terminal");
            }
        }
        String::from_utf8_lossy(&shown).into_owned()
    });
    let status = wait_exit(&mut child);
    (screen.join().expect("a reader does not panic"), status.code())
}

#[test]
fn terminal_prompt_hides_the_answer() {
    let place = Place::new();
    fs::create_dir_all(place.path(".vscode")).expect("a directory");
    place.write(
        ".vscode/mcp.json",
        r#"{"inputs": [{"type": "promptString", "id": "key", "description": "The key", "password": true},
                       {"type": "promptString", "id": "city", "description": "Your city", "default": "Ulm"}],
            "servers": {"a": {"command": "x", "env": {"KEY": "${input:key}", "CITY": "${input:city}"}}}}"#,
    );
    let (shown, code) = on_a_terminal(&place, &["n\n"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("nothing is written") && !place_of(&place).exists(), "{shown}");
    let (shown, code) = on_a_terminal(&place, &["y\n", "\u{3}"]);
    assert_eq!(code, Some(1), "{shown}");
    assert!(shown.contains("cancelled") && !place_of(&place).exists(), "{shown}");
    let (shown, code) = on_a_terminal(&place, &["y\n", "sesamx\u{7f}e\n", "\n"]);
    assert_eq!(code, Some(0), "{shown}");
    assert!(shown.contains("The key (a: key): ") && !shown.contains("sesam"), "{shown}");
    assert!(shown.contains("Your city (a: city) [default: Ulm]: "), "{shown}");
    assert!(shown.contains("\u{1b}[32m+[servers.a]\u{1b}[0m"), "{shown:?}");
    let answer = |file: &str| fs::read_to_string(place.path("xdg-config/mcpd/secrets").join(file)).expect("an answer");
    assert_eq!((answer("a.key").as_str(), answer("a.city").as_str()), ("sesame\n", "Ulm\n"));
    assert_eq!(mode(&place.path("xdg-config/mcpd/secrets/a.key")), 0o600);
}

/// Case K29.
#[test]
fn no_literal_header_or_secret_variable_is_printed() {
    let place = Place::new();
    // What looks like a placeholder, a path or an unknown header is not moved, and is masked all the same.
    let headers = json!({"Authorization": "Bearer my-example-CANARY", "X-Auth": "CANARY-2", "Proxy-Authorization": "/CANARY",
               "X-Account": "CANARY-${USER}", "X-Default": "${NONE:-CANARY}", "X-User": "Bearer ${USER}"});
    let env =
        json!({"LOG_LEVEL": "shown", "API_TOKEN": "your-CANARY", "HEADERS": "Authorization: Bearer CANARY-CANARY"});
    let servers = json!({"a": {"url": "https://x.example.org", "headers": headers}, "b": {"command": "x", "env": env},
        "o": {"url": "https://o.example.org", "headers": {"X-Open": "CANARY${CANARY"}}});
    place.write(".mcp.json", json!({"mcpServers": servers}).to_string());
    let own = "[servers.y]\ncommand = 'y'\nenv = { API_TOKEN = \"\"\"one\nCANARY\"\"\" }\n[servers.z]\nurl = 'https://z.example.org'\nheaders = { Authorization = 'Bearer CANARY' }\n";
    let config = place_of(&place);
    fs::create_dir_all(config.parent().expect("a directory")).expect("a directory");
    fs::write(&config, own).expect("one's own directory");
    let dry = place.mcpd(&["import", "--dry-run"]).expect_code(0);
    assert!(!dry.to_string().contains("CANARY"), "{dry}");
    for shown in ["+LOG_LEVEL = \"shown\"", "+X-User = \"Bearer ${USER}\"", "+X-Auth = \"…\"", "+API_TOKEN = \"…\""]
    {
        assert!(dry.stdout.contains(shown), "{shown}: {dry}");
    }
    let words = ["add", "c", "--header", "Authorization: Bearer my-example-CANARY", "https://c.example.org"];
    let added = place.mcpd(&words).expect_code(0);
    assert!(!added.to_string().contains("CANARY") && added.stdout.contains("Authorization"), "{added}");
}

#[test]
fn secrets_inside_of_longer_values_are_moved_and_never_printed() {
    let place = Place::new();
    let (headers, sql) = (
        r#"{"Authorization": "Bearer CANARY01", "Notion-Version": "2022-06-28"}"#,
        "Server=db;User ID=sa;Password=CANARY02;",
    );
    let notion = json!({"command": "x", "env": {"OPENAPI_MCP_HEADERS": headers, "SQL": sql, "DB": "postgres://me:CANARY03@db/x", "KEY": "CANARY04"}});
    let args = [
        "--header",
        r#"{"x-api-key": "CANARY05"}"#,
        "--key",
        "CANARY06",
        "--api-key=CANARY07",
        "-e",
        "DB_KEY=1",
        "-e",
        "DB_TOKEN=CANARY08",
        "--env=API_KEY=CANARY09",
        "--dsn",
        "mongodb+srv://me:CANARY10@${HOST}/x",
        "-c",
        "API_KEY=CANARY11 exec server --port 1",
        "--verbose",
    ];
    let local = json!({"command": "x", "args": args});
    let remote = json!({"type": "http", "url": "https://x.example.org/s/CANARY12q7Zt9LmX2bVw4RkP8sYdN3Fg/mcp",
        "headers": {"X-Api-Key": "CANARY13", "Cookie": "session=CANARY14", "Authorization": "Basic CANARY15"}});
    let servers = json!({"notion": notion, "local": local, "remote": remote, "broken": {"command": 5, "args": args, "env": {"H": headers}}});
    let file = json!({"mcpServers": servers});
    place.write(".mcp.json", serde_json::to_string_pretty(&file).expect("JSON"));
    let dry = place.mcpd(&["import", "--dry-run"]).expect_code(1);
    let json = place.mcpd(&["import", "--dry-run", "--json"]).expect_code(1);
    let served = place.mcpd(&["check", "--config", ".mcp.json"]);
    let ran = place.mcpd(&["import", "--yes"]).expect_code(1);
    let checked = place.mcpd(&["check", "--show"]);
    let config = fs::read_to_string(place_of(&place)).expect("a configuration");
    for shown in [&dry, &json, &served, &ran, &checked].map(ToString::to_string).iter().chain([&config]) {
        assert!(!shown.contains("CANARY"), "{shown}");
    }
    for shown in ["\"--verbose\"", "\"DB_KEY=1\"", "${HOST}/x"] {
        assert!(config.contains(shown), "no {shown}: {config}");
    }
    let files = fs::read_dir(place.path("xdg-config/mcpd/secrets")).expect("a directory");
    let moved: String =
        files.map(|file| fs::read_to_string(file.expect("an entry").path()).expect("a secret")).collect();
    for number in 1..=15 {
        assert_eq!(moved.matches(&format!("CANARY{number:02}")).count(), 1, "{number}: {moved}");
    }
}
