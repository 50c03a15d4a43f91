//! Frequent configuration mistakes are reported once, at their place, with the edit that fixes them.

use crate::support::{Daemon, Place, Ran, SCRIPTED, Server, Setup, quoted};

fn check(place: &Place, name: &str, text: impl AsRef<[u8]>) -> Ran {
    let file = place.write(name, text);
    place.mcpd(&["check", file.to_str().expect("text")])
}

/// Fails unless `text` is refused with one error, which stands at `position` and has all of `phrases`.
fn one_error(name: &str, text: impl AsRef<[u8]>, position: &str, phrases: &[&str]) {
    let ran = check(&Place::new(), name, text).expect_code(2);
    assert!(ran.stdout.starts_with("1 error: "), "{ran}");
    assert_eq!(ran.stderr.matches("error: ").count(), 1, "{ran}");
    for phrase in [&format!("{name}:{position}")[..]].iter().chain(phrases) {
        assert!(ran.stderr.contains(phrase), "no {phrase:?}: {ran}");
    }
}

fn reason(daemon: &Daemon, server: &str) -> String {
    daemon.wait_row(server, "has an error", |row| row["last_error"].is_string())["last_error"].to_string()
}

#[test]
fn command_line_in_command_is_reported_with_the_split_into_command_and_args() {
    let place = Place::new();
    // Each is written as a person would copy it from a shell.
    for (command, help) in [
        ("npx -y @scope/server", r#"write `command = "npx"` and `args = ["-y", "@scope/server"]`"#),
        ("npx -y 'my server' ${HOME}/x", r#"write `command = "npx"` and `args = ["-y", "my server", "${HOME}/x"]`"#),
        ("cd /x && npm start", r#"write `command = "sh"` and `args = ["-c", "cd /x && npm start"]`"#),
        ("A=1 npx server", r#"write `command = "sh"` and `args = ["-c", "A=1 npx server"]`"#),
        ("https://example.org/mcp", r#"write `url = "https://example.org/mcp"`"#),
    ] {
        let ran = check(&place, "c.toml", format!("[servers.a]\ncommand = {}\n", quoted(command))).expect_code(1);
        assert_eq!(ran.stderr.matches("warning: ").count(), 1, "{ran}");
        assert!(ran.stderr.contains("c.toml:2:11") && ran.stderr.contains(help), "no {help}: {ran}");
        assert!(!ran.stderr.contains("PATH"), "{ran}");
    }
    let ran = check(&place, "c.json", r#"{"mcpServers": {"a": {"command": "npx -y pkg", "args": []}}}"#);
    assert!(ran.stderr.contains(r#"write `"command": "npx"` and `"args": ["-y", "pkg"]`"#), "{ran}");
    let ran = check(&place, "c.toml", "[servers.a]\ncommand = \"npx --api-key canary12 pkg\"\nargs = [\"x\"]\n");
    assert!(ran.stderr.contains(r#"`args = ["--api-key", "…", "pkg", …]`"#) && !ran.stderr.contains("canary"), "{ran}");
}

#[test]
fn status_explains_a_command_line_in_the_command_key() {
    let line = Server::run_by("line", "npx -y pkg");
    let daemon = Setup::with(line).start();
    let reason = reason(&daemon, "line");
    assert!(reason.contains("`npx -y pkg` is a command line") && !reason.contains("PATH"), "{reason}");
}

#[test]
fn command_with_a_blank_in_its_path_is_run() {
    let place = Place::new();
    std::fs::create_dir(place.path("my tools")).expect("a fresh directory");
    let program = place.path("my tools/server one");
    std::os::unix::fs::symlink(SCRIPTED, &program).expect("a link");
    let ran = check(&place, "c.toml", format!("[servers.a]\ncommand = {}\n", quoted(&program))).expect_code(0);
    assert_eq!(ran.stdout, "1 server: valid, 0 warnings\n", "{ran}");
}

#[test]
fn wrong_type_is_reported_with_the_correct_spelling() {
    let server = |rest: &str| format!("[servers.a]\n{rest}\n");
    one_error(
        "c.toml",
        server("command = \"npx\"\nargs = \"-y foo 'a b'\""),
        "3:8",
        &[r#"write `args = ["-y", "foo", "a b"]`"#],
    );
    one_error(
        "c.toml",
        server(r#"command = ["npx", "-y", "foo"]"#),
        "2:11",
        &[r#"write `command = "npx"` and `args = ["-y", "foo"]`"#],
    );
    one_error(
        "c.toml",
        server("command = [\"npx\", \"-y\"]\nargs = [\"foo\"]"),
        "2:11",
        &[r#"write `command = "npx"` and `args = ["-y", "foo"]`"#],
    );
    one_error("c.toml", server(r#"command = ["npx"]"#), "2:11", &[r#"write `command = "npx"`"#]);
    one_error("c.toml", server("command = []"), "2:11", &[r#"write `command = "npx"`"#]);
    one_error(
        "c.json",
        r#"{"mcpServers": {"a": {"command": ["npx", "foo"]}}}"#,
        "1:34",
        &[r#"write `"command": "npx"` and `"args": ["foo"]`"#],
    );
}

#[test]
fn mistake_causes_no_follow_up_error() {
    let profile = "[profiles.p]\nservers = [\"a\"]\n";
    let with_profile = |text: &str| format!("{text}\n{profile}");
    one_error("c.toml", with_profile("[servers.a]\ncomand = \"x\""), "2:1", &["did you mean `command`?"]);
    one_error("c.toml", with_profile("[server.a]\ncommand = \"x\""), "1:2", &["did you mean `servers`?"]);
    one_error("c.toml", with_profile("include = [\"a.toml\"]"), "1:1", &["removed in 0.2", "`config.d`"]);
    one_error("c.toml", "include = [\"a.toml\"]\n[servers.a]\ndeny = [\"x\"]\n", "1:1", &["removed in 0.2"]);
    one_error(
        "c.toml",
        "command = \"npx\"\nargs = [\"x\"]\nenv = { A = \"b\" }\n",
        "1:1",
        &["`command`, `args` and `env` stand outside", "write `[servers.NAME]` above"],
    );
    let of_server = "write \"files/write_*\": the server before the first `/`";
    one_error("c.toml", "[profiles.p]\ndeny = [\"files__write_*\"]\n", "2:9", &[of_server]);
    for kind in ["stdio", "http", "sse", "streamable-http"] {
        let text = format!("[servers.a]\ntype = \"{kind}\"\ncommand = \"x\"\n");
        one_error("c.toml", text, "2:1", &["remove it: `command` or `url` is enough"]);
    }
}

#[test]
fn list_that_is_never_closed_is_reported_where_it_is_opened() {
    let place = Place::new();
    let check = |text: &str| check(&place, "c.toml", text).expect_code(2);
    let server = format!("[servers.a]\ncommand = {}\n", quoted("npx"));
    for (rest, name, close) in [
        ("args = [\"-y\", \"pkg\"\n\n[servers.b]\ncommand = \"x\"\n", "list", "]"),
        ("args = [\"-y\", \"pkg\",\n\n[servers.b]\ncommand = \"x\"\n", "list", "]"),
        ("args = [\"-y\", \"pkg\"\ndeny = [\"x\"]\n", "list", "]"),
        ("args = [\n  \"-y\",\n  \"pkg\"\nenv = { A = \"b\" }\n", "list", "]"),
        ("args = [\"-y\",\n", "list", "]"),
        ("env = { A = \"b\"\n\n[servers.b]\ncommand = \"x\"\n", "table", "}"),
        ("cwd = \"\"\"/x\n\n[servers.b]\ncommand = \"x\"\n", "text", "\"\"\""),
    ] {
        let ran = check(&format!("{server}{rest}"));
        assert_eq!(ran.stderr.matches("error: ").count(), 1, "{ran}");
        let column = 1 + rest.find(['[', '{', '"']).expect("it is opened");
        for phrase in [
            &format!("c.toml:3:{column}"),
            &format!("error: this {name} is not closed"),
            &format!("help: close the {name} with `{close}`"),
        ] {
            assert!(ran.stderr.contains(phrase), "no {phrase:?}: {ran}");
        }
    }
    // A comma is missing, and the list is closed.
    let ran = check(&format!("{server}args = [\n  \"-y\"\n  \"pkg\"\n]\n"));
    assert!(ran.stderr.contains("missing comma") && ran.stderr.contains("c.toml:5:"), "{ran}");
}

#[test]
fn file_in_another_encoding_is_reported_with_its_place_and_the_command_that_converts_it() {
    let text = "[servers.a]\ncommand = \"x\"\n";
    let wide = |mark: &[u8], bytes: fn(u16) -> [u8; 2]| {
        [mark, &text.encode_utf16().flat_map(bytes).collect::<Vec<_>>()].concat()
    };
    for (bytes, encoding) in [
        (wide(b"\xff\xfe", u16::to_le_bytes), "UTF-16"),
        (wide(b"\xfe\xff", u16::to_be_bytes), "UTF-16"),
        (wide(b"", u16::to_le_bytes), "UTF-16LE"),
        (wide(b"", u16::to_be_bytes), "UTF-16BE"),
    ] {
        let help = format!("iconv -f {encoding} -t UTF-8");
        one_error("c.toml", bytes, "1:1", &["this file is UTF-16", &help]);
    }
    let latin = b"[servers.a]\n# \xc3\xa9t\xe9\ncommand = \"canary\xe9\"\n";
    one_error("c.toml", latin, "2:5", &["byte 0xe9 is not UTF-8", "iconv -f ISO-8859-1 -t UTF-8"]);
    let secret = check(&Place::new(), "c.toml", b"[servers.a]\nenv = { T = \"canary\xe9\" }\n").expect_code(2);
    assert!(secret.stderr.contains("c.toml:2:20") && !secret.stderr.contains("canary"), "{secret}");
}

#[test]
fn check_fails_where_no_server_can_start() {
    let place = Place::new();
    let (lost, undefined) = ("[servers.lost]\ncommand = 'no-such-program'\n", "[servers.u]\ncommand = '${NOWHERE}'\n");
    let ran = check(&place, "c.toml", format!("{lost}{undefined}")).expect_code(1);
    assert_eq!(ran.stdout, "2 servers: no server can start, 2 warnings\n", "{ran}");
    let runs = format!("[servers.runs]\ncommand = {}\n", quoted(SCRIPTED));
    let ran = check(&place, "c.toml", format!("{lost}{runs}")).expect_code(0);
    assert_eq!(ran.stdout, "2 servers: 1 server cannot start, 1 warning\n", "{ran}");
    check(&place, "c.toml", format!("{lost}[servers.far]\nurl = 'https://example.org/mcp'\n")).expect_code(0);
    check(&place, "c.toml", "").expect_code(0);
}
