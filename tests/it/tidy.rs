//! Rules that neither the compiler nor a lint checks: pure modules, headers, clocks, and references in docs.

use std::fs;
use std::path::Path;
use std::process::Command;

use toml_edit::DocumentMut;

use crate::support::{MCPD, skipped};

/// Rooms that do no I/O, so that everything in them is tested as tables and properties.
const PURE: &[&str] = &[
    "config_lints",
    "dashboard/board",
    "dashboard/history",
    "account/ledger",
    "account/limits",
    "account/usage",
    "bridge",
    "catalog",
    "client_capabilities",
    "client_files",
    "known_clients",
    "config",
    "era",
    "extensions",
    "instructions",
    "jsonrpc",
    "log_level",
    "suggest",
    "naming",
    "oauth/challenge",
    "oauth/metadata",
    "oauth/record",
    "oauth/request",
    "methods",
    "policy",
    "printable",
    "server/handshake/info",
    "server/identity",
    "server/instance/attribution",
    "server/instance/tasks/modern_tasks",
    "server/instance/tasks/session_tasks",
    "server/lifecycle",
    "server/listing",
    "server/messages/server_notification",
    "server/messages/subscribers",
    "server/messages/tasks",
    "server/process/cgroup/events",
    "server/agent_scope",
    "server/fairness",
    "server/stats",
    "session/agent",
    "session/agent_message",
    "session/declaration",
    "session/unanswered",
    "session/output",
    "session/resource_subscriptions",
    "session/results",
    "session/extension_route",
    "session/received_call",
    "session/router",
    "session/fan_out",
    "session/task_token",
    "session/tasks",
    "shim/lines",
    "shim/memory",
    "shim/subscriptions",
    "shim/unanswered",
    "shim/relay",
    "shim/request",
    "task_state",
    "transport/http/modern",
];

/// The one file of a pure room that frames bytes for tokio.
const FRAMING: &str = "jsonrpc/codec.rs";

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every source file below `dir` with its path relative to it and its text.
fn sources(dir: &Path) -> Vec<(String, String)> {
    let (mut waiting, mut found) = (vec![dir.to_owned()], Vec::new());
    while let Some(next) = waiting.pop() {
        for path in fs::read_dir(next).expect("a directory").map(|entry| entry.expect("an entry").path()) {
            if path.is_dir() {
                waiting.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(dir).expect("below it").display().to_string();
                found.push((name, fs::read_to_string(&path).expect("text")));
            }
        }
    }
    assert!(!found.is_empty());
    found
}

#[test]
fn pure_modules_import_neither_tokio_nor_processes() {
    let is_pure = |name: &str| {
        let room = |room: &&str| name == format!("{room}.rs") || name.starts_with(&format!("{room}/"));
        PURE.iter().any(room) && name != FRAMING
    };
    for (name, text) in sources(&root().join("src")).iter().filter(|(name, _)| is_pure(name)) {
        // What a comment says a room must not touch is no use of it.
        let code: String = text.lines().filter(|line| !line.trim_start().starts_with("//")).collect();
        for word in ["tokio", "std::process", "process::Command"] {
            assert!(!code.contains(word), "src/{name} mentions {word}");
        }
    }
}

#[test]
fn every_module_begins_with_a_header() {
    for dir in ["src", "tests"] {
        for (name, text) in sources(&root().join(dir)) {
            let documented = text.starts_with("//!") || text.starts_with("#![doc = include_str!");
            assert!(documented, "{dir}/{name} does not begin with //!");
        }
    }
}

/// What jumps when a person or a time server sets the clock, and when the machine wakes.
const WALL_CLOCKS: [&str; 4] =
    ["SystemTime", "TimerfdClockId::Realtime", "TimerfdClockId::Boottime", "ClockId::Realtime"];

/// Case E10.
#[test]
fn no_deadline_uses_a_wall_clock() {
    // What has happened is dated by the day's clock, and nothing waits for it.
    // A server may say by the day's clock when it wants to be asked again; how long that is, is worked out once.
    let dates = ["clock.rs", "transport/http/body.rs"];
    let waits = |name: &str| !name.starts_with("calls/") && !name.ends_with("/tests.rs") && !dates.contains(&name);
    for (name, text) in sources(&root().join("src")).into_iter().filter(|(name, _)| waits(name)) {
        for clock in WALL_CLOCKS {
            assert!(!text.contains(clock), "src/{name} reads {clock}");
        }
    }
}

/// The files that listen on loopback addresses: while a person logs in or looks at the page, and for agents. The last has sockets of systemd,
/// which the third checks. Each names what restricts its addresses.
const LISTENS: [(&str, &str); 4] = [
    ("oauth/loopback.rs", "Ipv4Addr::LOCALHOST"),
    ("dashboard/http.rs", "Ipv4Addr::LOCALHOST"),
    ("http_listener/loopback.rs", "is_loopback()"),
    ("sockets/passed_sockets.rs", "is_ok_and(|found| found == address)"),
];

#[test]
fn only_loopback_addresses_are_listened_on() {
    for (name, text) in sources(&root().join("src")) {
        let code = text.split("#[cfg(test)]").next().expect("the beginning");
        let is_test = name.ends_with("/tests.rs") || name.contains("/tests/");
        for socket in ["TcpListener", "TcpSocket", "UdpSocket", "AddressFamily::INET"] {
            let may = LISTENS.iter().any(|(listens, _)| *listens == name);
            assert!(is_test || may || !code.contains(socket), "src/{name} has a {socket}");
        }
        if let Some((_, restriction)) = LISTENS.iter().find(|(listens, _)| *listens == name) {
            assert!(code.contains(restriction) && !code.contains("UNSPECIFIED"), "src/{name} listens elsewhere");
        }
    }
}

#[test]
fn security_page_names_existing_tests() {
    let page = fs::read_to_string(root().join("docs/internals/security-tests.md")).expect("text");
    let tests = sources(&root().join("tests"));
    let named: Vec<_> = page.split('`').filter_map(|word| word.rsplit_once("::")).collect();
    assert!(named.len() > 20);
    for (module, test) in named.into_iter().filter(|named| *named != ("module", "name")) {
        let path = module.replace("::", "/");
        let is_there = |(name, text): &(String, String)| {
            name.trim_start_matches("it/").starts_with(&path) && text.contains(&format!("#[test]\nfn {test}() {{"))
        };
        assert!(tests.iter().any(is_there), "docs/internals/security-tests.md names {module}::{test}");
    }
}

/// Every page of Markdown, relative to the root.
fn pages() -> Vec<String> {
    let mut found = Vec::new();
    for dir in ["", "docs", "docs/internals", "examples/agents"] {
        for entry in fs::read_dir(root().join(dir)).expect("a directory") {
            let name = entry.expect("an entry").file_name().into_string().expect("text");
            found.extend(name.ends_with(".md").then(|| Path::new(dir).join(name).display().to_string()));
        }
    }
    assert!(found.len() > 10, "{found:?}");
    found
}

/// The text without its blocks of code.
fn without_code(text: &str) -> String {
    text.split("```").step_by(2).collect()
}

/// The anchor that GitHub gives a heading.
fn anchor(heading: &str) -> String {
    let letters = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    letters.flat_map(char::to_lowercase).map(|c| if c == ' ' { '-' } else { c }).collect()
}

#[test]
fn every_link_between_pages_leads_to_a_file_and_a_heading() {
    for page in pages() {
        let path = root().join(&page);
        let text = without_code(&fs::read_to_string(&path).expect("text"));
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().expect("the beginning")) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().expect("a directory").join(file) };
            assert!(target.exists(), "{page}: {link}");
            if !heading.is_empty() {
                let text = without_code(&fs::read_to_string(&target).expect("text"));
                let mut headings = text.lines().filter(|line| line.starts_with('#'));
                let is_there = headings.any(|line| anchor(line.trim_start_matches('#').trim()) == heading);
                assert!(is_there, "{page}: {link}");
            }
        }
    }
}

/// How many cases each group of the matrix of faults has.
const FAULTS: [(char, u32); 13] = [
    ('A', 25),
    ('B', 26),
    ('C', 19),
    ('D', 12),
    ('E', 15),
    ('F', 10),
    ('G', 11),
    ('H', 22),
    ('I', 26),
    ('J', 15),
    ('K', 41),
    ('L', 6),
    ('M', 11),
];
/// Every test that says which cases it proves, as `module::name`, with each of them.
fn proofs() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for (file, text) in sources(&root().join("tests")) {
        let lines: Vec<_> = text.lines().collect();
        for (at, line) in lines.iter().enumerate().filter(|(_, line)| line.starts_with("/// Case")) {
            let name = lines[at..].iter().find_map(|line| line.strip_prefix("fn ")).expect("a test");
            let name = name.split('(').next().expect("the beginning");
            let words = line.split(|c: char| !c.is_ascii_alphanumeric());
            let cases =
                words.filter(|word| word.starts_with(|c: char| c.is_ascii_uppercase()) && !word.starts_with("Case"));
            let module = file.trim_start_matches("it/").trim_end_matches("/main.rs").trim_end_matches(".rs");
            let module = module.replace('/', "::");
            found.extend(cases.map(|case| (case.to_owned(), format!("{module}::{name}"))));
        }
    }
    found.sort();
    found
}

#[test]
fn table_of_faults_has_every_case_once_and_names_its_tests() {
    let text = fs::read_to_string(root().join("docs/internals/faults.md")).expect("text");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split('|').map(str::trim).collect()).collect();
    let is_case = |row: &&Vec<&str>| row.len() == 5 && row[1].ends_with(|c: char| c.is_ascii_digit());
    let rows: Vec<_> = rows.iter().filter(is_case).collect();
    let cases = FAULTS.iter().flat_map(|(group, last)| (1..=*last).map(move |n| format!("{group}{n}")));
    assert_eq!(rows.iter().map(|row| row[1]).collect::<Vec<_>>(), cases.collect::<Vec<_>>());
    let mut named = Vec::new();
    for row in rows {
        let tests = row[3].split('`').skip(1).step_by(2).filter(|name| name.contains("::"));
        named.extend(tests.map(|test| (row[1].to_owned(), test.to_owned())));
        assert!(!row[3].is_empty(), "{} has neither a test nor a reason", row[1]);
    }
    let proofs = proofs();
    let missing: Vec<_> = proofs.iter().filter(|proof| !named.contains(proof)).collect();
    let invented: Vec<_> = named.iter().filter(|name| !proofs.contains(name)).collect();
    assert!(missing.is_empty() && invented.is_empty(), "not in the table: {missing:?}; not in a test: {invented:?}");
}

#[test]
fn page_of_dependencies_has_each_of_them_once() {
    let manifest: DocumentMut = fs::read_to_string(root().join("Cargo.toml")).expect("text").parse().expect("TOML");
    let tables = ["dependencies", "dev-dependencies"].map(|table| manifest[table].as_table().expect("a table"));
    let mut direct: Vec<_> = tables.iter().flat_map(|table| table.iter()).map(|(name, _)| name.to_owned()).collect();
    direct.retain(|name| name != "mcpd");
    direct.sort();
    let page = fs::read_to_string(root().join("docs/internals/dependencies.md")).expect("text");
    let mut listed = Vec::new();
    for row in page.lines().filter(|line| line.starts_with("| `")) {
        let cells: Vec<_> = row.trim_matches('|').split(" | ").map(str::trim).collect();
        assert!(cells.len() == 4 && cells.iter().all(|cell| !cell.is_empty()), "{row}");
        listed.push(cells[0].trim_matches('`').to_owned());
    }
    listed.sort();
    assert_eq!(listed, direct);
}

#[test]
fn unit_files_pass_systemd_analyze() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let installed = "%h/.cargo/bin/mcpd";
    fs::create_dir(dir.path().join("mcpd.service.d")).expect("a fresh directory");
    // Verification wants the program to be there, which it is on the user's machine.
    let copy = |name: &str, to: &str| {
        let text = fs::read_to_string(root().join("systemd").join(name)).expect("text");
        let copied = dir.path().join(to);
        fs::write(&copied, text.replace(installed, MCPD)).expect("the test's own directory is writable");
        (text, copied)
    };
    let (unit, service) = copy("mcpd.service", "mcpd.service");
    assert!(unit.contains(installed), "the unit runs what `cargo install` installs");
    let sockets = ["mcpd.socket", "mcpd@.socket"].map(|name| copy(name, name).1);
    copy("hardened.conf", "mcpd.service.d/20-hardened.conf");
    copy("credentials.conf", "mcpd.service.d/30-credentials.conf");
    let mut command = Command::new("systemd-analyze");
    command.args(["--user", "--man=no", "verify"]).arg(&service).args(&sockets).env("XDG_RUNTIME_DIR", dir.path());
    match command.output() {
        Err(error) => skipped(&format!("systemd-analyze cannot be run: {error}")),
        Ok(output) => {
            // It ends with 0 even for a key that does not exist.
            let output = [output.stdout, output.stderr].concat();
            assert!(output.is_empty(), "{}", String::from_utf8_lossy(&output));
        }
    }
}

/// Modules that only the program `mcpd` uses.
const OF_THE_PROGRAM: &[&str] = &[
    "admin",
    "autostart",
    "cli",
    "config_lints",
    "daemon",
    "dashboard",
    "http_listener",
    "main",
    "oauth/loopback",
    "session",
    "shim",
    "sockets",
];

/// Others whose texts no program with the library sees, or that are about files of `mcpd` itself.
const FOR_PEOPLE: &[(&str, &str)] = &[
    ("config/daemon.rs", "the comments of config/mcpd.toml"),
    ("config/interpolate/unusable.rs", "a file of another client"),
    ("config/load.rs", "no configuration file"),
    ("server/messages/call/failure.rs", "error responses to agents"),
];

#[test]
fn library_proposes_no_command_of_the_program() {
    let is_of_program = |name: &str| {
        let is_in = |module: &&str| name == format!("{module}.rs") || name.starts_with(&format!("{module}/"));
        OF_THE_PROGRAM.iter().any(is_in) || name.split('/').any(|part| part == "tests" || part == "tests.rs")
    };
    let mut found: Vec<_> = sources(&root().join("src"))
        .into_iter()
        .filter(|(name, text)| {
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let mut lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
            !is_of_program(name) && lines.any(|line| line.contains("`mcpd "))
        })
        .map(|(name, _)| name)
        .collect();
    found.sort();
    let known: Vec<_> = FOR_PEOPLE.iter().map(|(name, _)| *name).collect();
    assert_eq!(found, known, "move the command to where `cli` prints the text");
}
