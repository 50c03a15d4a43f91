//! Invalid configurations are refused as a whole, with place and correction, before any server is started.

use crate::support::{Agent, Place, Ran, SCRIPTED, Server, Setup, quoted};

/// A server that would leave a trace, then the text under test.
fn serve(place: &Place, text: &str) -> Ran {
    let journal = place.path("witness.journal");
    let witness =
        format!("[servers.witness]\ncommand = {}\nargs = [\"--journal\", {}]\n", quoted(SCRIPTED), quoted(journal));
    serve_only(place, "config.toml", &format!("{witness}{text}"))
}

fn serve_only(place: &Place, name: &str, text: &str) -> Ran {
    let file = place.write(name, text);
    place.client(&["serve", "--config", file.to_str().expect("text")])
}

/// Fails unless `text`, which starts at line 4, is refused at `position` of the file with all of `phrases`.
fn expect_refused(text: &str, position: &str, phrases: &[&str]) {
    let place = Place::new();
    let ran = serve(&place, text).expect_code(2);
    let start = format!("config.toml:{position}");
    assert!(ran.stderr.contains(&start), "no {start:?} for {text:?}: {ran}");
    for phrase in phrases {
        assert!(ran.stderr.contains(phrase), "no {phrase:?} for {text:?}: {ran}");
    }
    assert!(!place.path("witness.journal").exists(), "a server was started");
    assert!(!place.path("run/mcp.sock").exists(), "a socket was made");
}

/// Case G1.
#[test]
fn unknown_key_is_refused_with_the_key_that_was_meant() {
    expect_refused("[servers.a]\ncomand = \"x\"\n", "5:1", &["comand", "command"]);
    expect_refused("[servers.a]\ncommand = \"x\"\ndenny = []\n", "6:1", &["denny", "deny"]);
    expect_refused("[daemon]\nnamming = \"{tool}\"\n", "5:1", &["namming", "naming"]);
    expect_refused("[default]\ncall_timeout = \"1s\"\n", "4:2", &["default", "defaults"]);
    expect_refused("[defaults]\nhandshake_timeuot = \"1s\"\n", "5:1", &["handshake_timeout"]);
}

/// Case G1.
#[test]
fn value_of_the_wrong_type_is_refused_at_the_value() {
    expect_refused("[servers.a]\ncommand = 7\n", "5:11", &["command", "string"]);
    expect_refused("[servers.a]\ncommand = \"x\"\nargs = \"-y\"\n", "6:8", &["args", "list"]);
    expect_refused("[servers.a]\ncommand = \"x\"\nargs = [\"-y\", 7]\n", "6:15", &["string"]);
    expect_refused("[servers.a]\ncommand = \"x\"\nenv = { A = 1 }\n", "6:13", &["string"]);
    expect_refused("[servers.a]\ncommand = \"x\"\ndeny = \"write_*\"\n", "6:8", &["deny", "list"]);
    expect_refused("[servers]\na = \"x\"\n", "5:5", &["table"]);
}

#[test]
fn value_that_makes_no_sense_is_refused_at_the_value() {
    expect_refused("[servers.a]\ncommand = \"\"\n", "5:11", &["command"]);
    expect_refused("[servers.a]\ncommand = \"x\"\ncall_timeout = \"soon\"\n", "6:16", &["call_timeout"]);
    expect_refused("[servers.a]\ncommand = \"x\"\ndeny = [\"a\", \"[z\"]\n", "6:14", &["[z"]);
    expect_refused("[daemon]\nnaming = \"{tool}_{server}\"\n", "5:10", &["not a value of `naming`"]);
    expect_refused("[daemon]\nmax_message = \"much\"\n", "5:15", &["max_message"]);
    expect_refused("[defaults]\nmax_instances = 0\n", "5:17", &["max_instances"]);
}

#[test]
fn server_without_a_command_is_refused() {
    expect_refused("[servers.a]\nargs = []\n", "4:", &["command"]);
}

/// Case G5.
#[test]
fn server_name_that_breaks_the_rules_is_refused() {
    expect_refused("[servers.a__b]\ncommand = \"x\"\n", "4:10", &["a__b"]);
    expect_refused("[servers._a]\ncommand = \"x\"\n", "4:10", &["_a"]);
    expect_refused("[servers.\"a b\"]\ncommand = \"x\"\n", "4:10", &["a b"]);
}

/// Case G5.
#[test]
fn two_servers_of_one_name_are_refused() {
    expect_refused("[servers.a]\ncommand = \"x\"\n[servers.a]\ncommand = \"y\"\n", "6:", &["a"]);
    expect_refused("[servers.witness]\ncommand = \"x\"\n", "4:", &["witness"]);
}

/// Case G1.
#[test]
fn syntax_error_is_refused_at_its_place() {
    expect_refused("[servers.a\ncommand = \"x\"\n", "4:11", &[]);
    expect_refused("[servers.a]\ncommand = x\n", "5:11", &[]);
    expect_refused("[servers.a]\ncommand = \"x\n", "5:", &[]);
}

/// Case G1.
#[test]
fn file_that_cannot_be_read_is_named() {
    let place = Place::new();
    for name in ["no-such.toml", "tmp"] {
        let file = place.path(name);
        let ran = place.client(&["serve", "--config", file.to_str().expect("text")]).expect_code(2);
        assert!(ran.stderr.contains(file.to_str().expect("text")), "{ran}");
    }
}

#[test]
fn file_that_is_no_text_is_refused() {
    let place = Place::new();
    let file = place.write("config.toml", b"[servers.a]\ncommand = \"\xff\xfe\"\n");
    place.client(&["serve", "--config", file.to_str().expect("text")]).expect_code(2);
}

#[test]
fn json_of_another_client_is_refused_as_precisely() {
    let place = Place::new();
    for (text, position) in [
        ("{\n  \"mcpServers\": {\n    \"a\": { \"command\": 7 }\n  }\n}", "3:23"),
        ("{\n  \"mcpServers\": {\n    \"a\": { \"command\": \"\" }\n  }\n}", "3:23"),
        ("{\n  \"mcpServers\": []\n}", "2:17"),
        ("{\n  \"mcpServers\": {\n    oops oops\n", "3:"),
    ] {
        let ran = serve_only(&place, "mcp.json", text).expect_code(2);
        assert!(ran.stderr.contains(&format!("mcp.json:{position}")), "no {position} for {text}: {ran}");
    }
}

#[test]
fn json_of_another_client_is_served() {
    let place = Place::new();
    let file = place.write("mcp.json", format!(
        "{{ // a comment\n\"theme\": 1, \"mcpServers\": {{ \"a\": {{ \"command\": {}, \"args\": [\"--bare\", \"--tool\", \"echo\"], \"type\": \"stdio\" }}, }} }}",
        quoted(SCRIPTED)
    ));
    let daemon = Setup::new().config(file).start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["a__echo"]);
}

/// Case G7.
#[test]
fn undefined_variable_fails_its_server_alone() {
    let lost = Server::named("lost").env("TOKEN", "${NO_SUCH_VARIABLE_ANYWHERE}");
    let daemon = Setup::with(Server::named("good").flags("--bare --tool echo")).server(lost).start();
    let row = daemon.row("lost");
    assert_eq!(row["state"], "failed");
    assert!(row["reason"].to_string().contains("NO_SUCH_VARIABLE_ANYWHERE"), "{row}");
    assert_eq!(Agent::ready(&daemon).tools(), ["good__echo"]);
    assert!(daemon.journal("lost").is_empty(), "it was started");
}

#[test]
fn unreachable_url_takes_down_its_server_only_with_the_reason() {
    let remote = "[servers.far]\nurl = \"http://127.0.0.1:9/canary-1\"\nheaders = { Authorization = \"canary-2\" }\n";
    let near = Server::named("near").flags("--bare --tool echo");
    let daemon = Setup::with(near).head(remote).start();
    let row = daemon.row("far");
    assert!(row["last_error"].to_string().contains("cannot be reached: "), "{row}");
    assert_eq!(Agent::ready(&daemon).tools(), ["near__echo"]);
    assert!(!row.to_string().contains("canary") && !daemon.log().contains("canary"), "{row}");
}

#[test]
fn why_a_server_cannot_be_started_shows_no_secret() {
    let place = Place::new();
    let secret = place.write("secret", "canary\n");
    let reference = format!("${{file:{}}}", secret.display());
    let by_path = Server::run_by("path", format!("/nowhere/{reference}"));
    let by_name = Server::run_by("name", &reference);
    let by_cwd = Server::named("cwd").line(format!("cwd = {}", quoted(format!("/nowhere/{reference}"))));
    let by_search = Server::run_by("search", "no-such-command").env("PATH", &reference);
    let daemon =
        Setup::with(by_path).server(by_name).server(by_cwd).server(by_search).option("--log=trace").start_in(&place);
    for (name, reason) in [
        ("path", "command `/nowhere/…` does not exist"),
        ("name", "command `…` not found"),
        ("cwd", "working directory `/nowhere/…` does not exist"),
        ("search", "PATH searched: …"),
    ] {
        daemon.wait_row(name, &format!("says {reason}"), |row| row["last_error"].to_string().contains(reason));
    }
    assert!(!daemon.log().contains("canary"), "{}", daemon.log());
}

#[test]
fn daemon_without_any_file_is_empty_and_names_the_file_to_write() {
    let daemon = Setup::new().without_config().start();
    assert!(Agent::ready(&daemon).tools().is_empty());
    let expected = daemon.place().path("xdg-config/mcpd/config.toml");
    assert!(daemon.log().contains(expected.to_str().expect("text")), "{}", daemon.log());
}

#[test]
fn files_are_layered_in_the_given_order() {
    let place = Place::new();
    let table = |name: &str| {
        format!("[servers.{name}]\ncommand = {}\nargs = [\"--bare\", \"--tool\", \"t\"]\n", quoted(SCRIPTED))
    };
    let first = place.write("1.toml", format!("[daemon]\nnaming = \"{{tool}}\"\n{}", table("a")));
    let second = place.write("2.toml", format!("[daemon]\nnaming = \"mcp__{{server}}__{{tool}}\"\n{}", table("b")));
    let daemon = Setup::new().config(first).config(second).start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["mcp__a__t", "mcp__b__t"]);
}

#[test]
fn complaint_shows_no_secret_that_stands_on_its_line() {
    let place = Place::new();
    let ran = serve(&place, "[servers.a]\ncommand = \"x\"\nenv = { TOKEN = \"canary-1\", OTHER = 7 }\n").expect_code(2);
    assert!(ran.stderr.contains("config.toml:6:37") && !ran.stderr.contains("canary-1"), "{ran}");
}
