//! `mcpd lock`: the versions that the caches of runners have are written into the configuration, and nothing else is changed.

use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::rc::Rc;

use serde_json::{Value, json};
use sha2::{Digest, Sha512};

use crate::support::{Agent, MCPD, Place, Ran, SCRIPTED, Server, Setup, Terminal, WAIT_LIMIT, poll, quoted, run};

/// A place with an `npx` that nothing runs.
fn place() -> Rc<Place> {
    let place = Place::new();
    ["npx", "uvx", "bunx"]
        .iter()
        .for_each(|name| drop(place.write_program(&format!("bin/{name}"), "#!/bin/sh\nexit 3\n")));
    place
}

/// `mcpd` with only the programs of the place and those of the system.
fn mcpd(place: &Place, args: &[&str]) -> Ran {
    let path = format!("{}:/usr/bin:/bin", place.path("bin").display());
    run(place.command(MCPD).args(args).env("PATH", path))
}

fn lock(place: &Place, file: &Path, args: &[&str]) -> Ran {
    mcpd(place, &[&["lock", "--config", file.to_str().expect("text")], args].concat())
}

fn write(place: &Place, name: &str, text: &str) {
    fs::create_dir_all(place.path(name).parent().expect("a directory")).expect("it is the test's own");
    place.write(name, text);
}

/// What `npx` keeps of `word` in the cache below `cache`.
fn npx_has(place: &Place, cache: &str, word: &str, package: &str, version: &str) {
    let digest = Sha512::digest(word.as_bytes()).iter().take(8).fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    });
    let directory = format!("{cache}/_npx/{digest}");
    write(
        place,
        &format!("{directory}/node_modules/{package}/package.json"),
        &json!({ "name": package, "version": version }).to_string(),
    );
    let lock = json!({ "packages": { format!("node_modules/{package}"): { "version": version, "integrity": "sha512-ab==" } } });
    write(place, &format!("{directory}/package-lock.json"), &lock.to_string());
}

/// What `uvx` keeps of a package.
fn uvx_has(place: &Place, package: &str, version: &str) {
    let environment = format!("home/.cache/uv/environments-v2/aa/{package}-{version}");
    write(place, &format!("{environment}/lib/python3.12/site-packages/{package}-{version}.dist-info/METADATA"), "");
}

fn text(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

/// The entry of a server.
fn entry<'r>(report: &'r Value, server: &str) -> &'r Value {
    let packages = report["packages"].as_array().expect("a list");
    packages.iter().find(|one| one["server"] == server).unwrap_or_else(|| panic!("no {server}: {report}"))
}

#[test]
fn versions_of_the_caches_are_written_and_every_other_byte_stays() {
    let place = place();
    npx_has(&place, "home/.npm", "@some/server", "@some/server", "1.2.3");
    npx_has(&place, "home/.npm", "other@latest", "other", "2.0.0-rc.1");
    uvx_has(&place, "py_server", "0.9");
    uvx_has(&place, "py_server", "0.10");
    let token = place.write("home/token", "t");
    fs::set_permissions(token, fs::Permissions::from_mode(0o600)).expect("a mode");
    let before = "\u{feff}# mine\r\n[servers.a]\r\ncommand = \"npx\" # runner\r\nargs = [ \"-y\",\r\n\t'@some/server', # why\r\n  \"${HOME}/x\"]\r\n\
                  [servers.b]\r\nargs=['--package=other@latest','other']\r\ncommand='npx'\r\nenv = { TOKEN = \"${file:~/token}\" }\r\n\
                  [servers]\r\nc = {command=\"uvx\",args=[\"py-server\",\"py-server\"]}\r\n";
    let after = before
        .replace("'@some/server'", "'@some/server@1.2.3'")
        .replace("other@latest", "other@2.0.0-rc.1")
        .replace("[\"py-server\"", "[\"py-server@0.10\"");
    let file = place.write("c.toml", before);
    let ran = lock(&place, &file, &["--check"]).expect_code(1);
    assert_eq!(
        ran.stdout,
        "a: @some/server is not locked: the newest version runs\nb: other is not locked: `latest` stands for several versions\n\
         c: py-server is not locked: the newest version runs\n"
    );
    assert!(ran.stderr.contains("3 servers are not locked: `mcpd lock a b c` writes the versions that run"), "{ran}");
    let ran = lock(&place, &file, &["--dry-run"]).expect_code(0);
    assert!(ran.stdout.contains("'@some/server@1.2.3'") && ran.stderr.contains("nothing is written"), "{ran}");
    let ran = lock(&place, &file, &[]).expect_code(2);
    assert!(ran.stderr.contains("add `--yes`"), "{ran}");
    assert_eq!(text(&file), before);
    let ran = lock(&place, &file, &["--yes", "a", "c"]).expect_code(0);
    assert!(ran.stderr.contains("a: @some/server is now locked at 1.2.3\n"), "{ran}");
    lock(&place, &file, &["--yes"]).expect_code(0);
    assert_eq!(text(&file), after);
    let ran = lock(&place, &file, &["--check"]).expect_code(0);
    assert!(ran.stdout.contains("c: py-server is locked at 0.10\n") && ran.stderr.is_empty(), "{ran}");
    let ran = lock(&place, &file, &[]).expect_code(0);
    assert!(ran.stdout.is_empty() && ran.stderr.contains("b: other is locked at 2.0.0-rc.1"), "{ran}");
    assert_eq!(text(&file), after);
}

#[test]
fn server_of_a_client_file_is_locked_with_its_secrets_and_references_intact() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    let before = "{\n  // mine\n  \"mcpServers\": {\n    \"Some Server\": {\"command\": \"npx\", \"args\": [\"-y\",\"some-server\" , \"${HOME}\"],\n      \
                  \"env\": {\"API_TOKEN\": \"canary-0123456789abcdef\", \"OTHER\": \"${OTHER:-x}\"}},\n  },\n}\n";
    let file = place.write("clients.json", before);
    let ran = lock(&place, &file, &["--yes"]).expect_code(0);
    assert_eq!(text(&file), before.replace("\"some-server\"", "\"some-server@1.2.3\""));
    assert!(!format!("{ran}").contains("canary"), "{ran}");
    lock(&place, &file, &["--check"]).expect_code(0);
}

#[test]
fn what_cannot_be_locked_is_named_with_its_reason() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    let docker = "#!/bin/sh\necho 'Cannot connect to the daemon' >&2\nexit 1\n";
    place.write_program("bin/docker", docker);
    let file = place.write(
        "c.toml",
        "[servers.url]\nurl = 'https://example.org/mcp'\n[servers.local]\ncommand = 'cat'\n\
         [servers.git]\ncommand = 'uvx'\nargs = ['--from', 'git+https://user:canary@example.org/x', 'x']\n\
         [servers.exact]\ncommand = 'npx'\nargs = ['-y', 'some-server@1.0.0']\n\
         [servers.new]\ncommand = 'npx'\nargs = ['-y', 'never-started']\n\
         [servers.image]\ncommand = 'docker'\nargs = ['run', '-i', 'mcp/time']\n\
         [servers.alias]\ncommand = 'env'\nargs = ['npx', '-y', 'x@npm:some-server']\n\
         [servers.shell]\ncommand = 'sh'\nargs = ['-c', 'npx -y some-server']\n\
         [servers.written]\ncommand = 'npx'\nargs = ['-y', '${PACKAGE:-some-server}']\n\
         [servers.unset]\ncommand = 'npx'\nargs = ['-y', 'some-server']\nenv = { TOKEN = '${UNSET_TOKEN}' }\n",
    );
    let before = text(&file);
    let ran = lock(&place, &file, &["--yes", "--json"]).expect_code(0);
    let report = ran.json();
    for (server, state, reason) in [
        ("url", "not_lockable", "it is reached by a URL"),
        ("local", "not_lockable", "its command is not known to download a package"),
        ("git", "not_lockable", "what it runs is not a package of a registry"),
        ("new", "unlocked", "its runner has not downloaded it yet: start the server, then run `mcpd lock new` again"),
        ("image", "unlocked", "the digest of the image is not known: Cannot connect to the daemon"),
        ("alias", "unlocked", "it is an alias: name the package itself"),
        ("shell", "not_lockable", "its command is not known to download a package"),
        ("written", "unlocked", "it is written with `${…}`: add its version by hand"),
    ] {
        let entry = entry(&report, server);
        assert_eq!((&entry["state"], &entry["reason"]), (&json!(state), &json!(reason)), "{entry}");
    }
    assert_eq!(entry(&report, "exact")["version"], "1.0.0");
    assert_eq!((&entry(&report, "exact")["state"], &report["files"]), (&json!("locked"), &json!([])));
    let unset = &entry(&report, "unset")["reason"];
    assert!(unset.as_str().is_some_and(|reason| reason.contains("UNSET_TOKEN")), "{unset}");
    assert!(!format!("{ran}").contains("canary"), "{ran}");
    assert_eq!(text(&file), before);
    // CI has no secrets, and no caches.
    let report = lock(&place, &file, &["--check", "--json"]).expect_code(1).json();
    assert_eq!(entry(&report, "unset")["reason"], "the newest version runs");
    lock(&place, &file, &["--check", "url", "local", "git", "exact"]).expect_code(0);
    let ran = lock(&place, &file, &["--check", "exakt"]).expect_code(2);
    assert!(ran.stderr.contains("there is no server `exakt`: did you mean `exact`?"), "{ran}");
}

#[test]
fn server_at_level_files_runs_what_its_private_cache_has() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    npx_has(&place, "home/.local/state/mcpd/servers/own/cache/npm", "some-server", "some-server", "1.0.0");
    let table =
        |name: &str, more: &str| format!("[servers.{name}]\ncommand = 'npx'\nargs = ['-y', 'some-server']\n{more}");
    let file = place.write(
        "c.toml",
        table("own", "sandbox = 'files'\n")
            + &table("shared", "")
            + &table("elsewhere", "env = { npm_config_cache = '/nowhere' }\n"),
    );
    let report = lock(&place, &file, &["--dry-run", "--json"]).expect_code(0).json();
    assert_eq!(entry(&report, "own")["version"], "1.0.0", "{report}");
    let shared = entry(&report, "shared");
    assert_eq!(
        (&shared["version"], &shared["integrity"], &shared["state"]),
        (&json!("1.2.3"), &json!("sha512-ab=="), &json!("planned"))
    );
    assert_eq!(entry(&report, "elsewhere")["state"], "unlocked");
}

#[test]
fn digest_of_an_image_is_written_behind_its_tag() {
    let place = place();
    let digest = format!("sha256:{}", "0a".repeat(32));
    place.write_program("bin/docker", format!("#!/bin/sh\necho '[\"mcp/time@{digest}\"]'\n"));
    let file = place.write("c.toml", "[servers.a]\ncommand = 'docker'\nargs = ['run', '-i', '--rm', 'mcp/time:1']\n");
    lock(&place, &file, &["--yes"]).expect_code(0);
    assert!(text(&file).contains(&format!("'mcp/time:1@{digest}']")));
    lock(&place, &file, &["--check"]).expect_code(0);
}

#[test]
fn running_daemon_starts_the_locked_version() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    let journal = quoted(place.path("a.journal"));
    place.write_program("bin/npx", format!("#!/bin/sh\necho \"runs $2\" >&2\nexec {SCRIPTED} --journal {journal}\n"));
    let npx = quoted(place.path("bin/npx"));
    place.write_user_config(format!("[servers.a]\ncommand = {npx}\nargs = [\"-y\", \"some-server\"]\n"));
    let daemon = Setup::new().without_config().start_in(&place);
    let before = daemon.server_pid("a");
    let ran = daemon.client(&["lock", "--yes"]).expect_code(0);
    assert!(ran.stdout.contains("+args = [\"-y\", \"some-server@1.2.3\"]\n"), "{ran}");
    assert_ne!(daemon.server_pid("a"), before);
    let mut agent = Agent::ready(&daemon);
    assert!(agent.tools().contains(&"a__echo".to_owned()));
    let logs = daemon.client(&["logs", "a"]).expect_code(0);
    assert!(logs.stdout.contains("runs some-server@1.2.3"), "{logs}");
}

#[test]
fn question_is_answered_by_enter() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    let file = place.write("c.toml", "[servers.a]\ncommand = 'npx'\nargs = ['-y', 'some-server']\n");
    let Some(terminal) = Terminal::open(&place, 100, 30) else { return };
    terminal.line(&format!("m lock --config {}", file.display()));
    terminal.wait("Write 1 version? [Y/n]");
    terminal.line("n");
    terminal.wait("nothing is written");
    assert!(text(&file).contains("'some-server'"));
    terminal.line(&format!("clear; m lock --config {}", file.display()));
    terminal.wait("Write 1 version? [Y/n]");
    terminal.line("");
    terminal.wait("is now locked at 1.2.3");
    assert!(text(&file).contains("'some-server@1.2.3'"));
}

#[test]
fn add_offers_the_version_that_the_cache_of_the_user_has() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    let config = place.user_config();
    let ran = mcpd(&place, &["add", "a", "npx", "-y", "some-server"]).expect_code(0);
    let note = "note: `--yes` writes `some-server@1.2.3`, the version that your cache has, so that no other version of a runs\n";
    assert!(ran.stderr.contains(note) && text(&config).contains("\"some-server\""), "{ran}");
    let ran = mcpd(&place, &["add", "--json", "c", "npx", "-y", "some-server"]).expect_code(0);
    assert_eq!(ran.json()["version_proposal"], json!(["some-server@1.2.3"]), "{ran}");
    let ran = mcpd(&place, &["add", "--yes", "b", "npx", "-y", "some-server", "x"]).expect_code(0);
    assert!(text(&config).contains("args = [\"-y\", \"some-server@1.2.3\", \"x\"]"), "{ran}");
    let ran = mcpd(&place, &["add", "--yes", "d", "uvx", "never-started"]).expect_code(0);
    assert!(ran.stderr.contains("`mcpd lock d` writes the version that runs, after its first start"), "{ran}");
    let ran = mcpd(&place, &["add", "--yes", "e", "npx", "-y", "some-server@1.0.0"]).expect_code(0);
    assert!(!ran.stderr.contains("lock") && text(&config).contains("some-server@1.0.0"), "{ran}");
}

#[test]
fn import_writes_the_version_and_knows_the_server_afterwards() {
    let place = place();
    npx_has(&place, "home/.npm", "some-server", "some-server", "1.2.3");
    let client = |args: &str| format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"npx\", \"args\": {args}}}}}}}");
    let file = place.write("client.json", client("[\"-y\", \"some-server\"]"));
    let import = |expected: &str| {
        let ran = mcpd(&place, &["import", "--yes", "--json", file.to_str().expect("text")]).expect_code(0);
        assert_eq!(ran.json()["sources"][0]["servers"][0]["outcome"], expected, "{ran}");
    };
    import("added");
    assert!(text(&place.user_config()).contains("args = [\"-y\", \"some-server@1.2.3\"]"));
    import("known");
    place.write("client.json", client("[\"-y\", \"some-server@latest\"]"));
    import("known");
    place.write("client.json", client("[\"-y\", \"some-server@1.0.0\"]"));
    import("differs");
    let file =
        place.write("more.json", "{\"mcpServers\": {\"b\": {\"command\": \"uvx\", \"args\": [\"never-started\"]}}}");
    let ran = mcpd(&place, &["import", "--yes", file.to_str().expect("text")]).expect_code(0);
    assert!(
        ran.stderr.contains("mcpd: after their first start, `mcpd lock b` writes the versions that run\n"),
        "{ran}"
    );
}

#[test]
fn check_compares_the_last_lists_with_the_pins_without_a_daemon() {
    let place = place();
    place.write_user_config(Server::named("s").flags("--bare --tool one --tool two").toml(&place));
    let mut daemon = Setup::new().without_config().start_in(&place);
    daemon.wait_row("s", "is ready", |row| row["state"] == "ready");
    let only_file = |directory: &str| {
        let entries = fs::read_dir(place.path(directory)).ok()?;
        let files = entries.map(|entry| entry.expect("an entry").path());
        files.filter(|file| file.extension().is_some_and(|extension| extension == "json")).max()
    };
    let list = poll(WAIT_LIMIT, || only_file("home/.cache/mcpd/tools")).expect("a list");
    poll(WAIT_LIMIT, || only_file("home/.local/state/mcpd/pins/default")).expect("a pin file");
    daemon.term();
    let ran = mcpd(&place, &["lock", "--check"]).expect_code(0);
    assert_eq!(ran.stdout, "s: has no version to lock: its command is not known to download a package\n");
    let listed = text(&list);
    fs::write(&list, listed.replacen("\"name\":\"two\"", "\"name\":\"three\"", 1)).expect("written");
    let ran = mcpd(&place, &["lock", "--check"]).expect_code(1);
    assert!(
        ran.stdout.contains("s: 1 definition differs from its pins (0 changed, 1 new): `mcpd diff s` shows them\n"),
        "{ran}"
    );
    fs::write(&list, listed.replacen("\"inputSchema\":{", "\"inputSchema\":{\"title\":\"changed\",", 1))
        .expect("written");
    let report = mcpd(&place, &["lock", "--check", "--json"]).expect_code(1).json();
    assert_eq!(report["definitions"], json!([{ "server": "s", "changed": 1, "new": 0 }]), "{report}");
    let pins = only_file("home/.local/state/mcpd/pins/default").expect("a pin file");
    fs::set_permissions(&pins, fs::Permissions::from_mode(0o666)).expect("a mode");
    let ran = mcpd(&place, &["lock", "--check"]).expect_code(1);
    assert!(ran.stdout.contains("s: its pins cannot be compared: "), "{ran}");
}
