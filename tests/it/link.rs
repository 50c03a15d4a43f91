//! `mcpd link` writes mcpd's entry into the clients' own files, and `mcpd unlink` gives the files back.

mod claude;
mod failures;
mod secrets;
mod take_over;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use serde_json::{Value, json};

use crate::support::{
    MCPD, Place, Ran, Terminal, client_file, client_files, expect_same, mcpd_at_home, request, run, tree,
};

fn mcpd(place: &Place, args: &[&str]) -> Ran {
    run(&mut mcpd_at_home(place, args))
}

/// The records of links.
fn records(place: &Place) -> Vec<PathBuf> {
    let entries = fs::read_dir(place.path("home/.local/state/mcpd/links")).into_iter().flatten().flatten();
    let mut paths: Vec<_> = entries.map(|entry| entry.path()).filter(|path| !path.ends_with("lock")).collect();
    paths.sort();
    paths
}

/// A home directory with the files of all clients.
fn everything() -> Rc<Place> {
    let place = Place::new();
    client_files().iter().for_each(|file| drop(file.put(&place)));
    place
}

fn outcomes(ran: &Ran) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    let files = ran.json()["files"].as_array().expect("a list").clone();
    files.iter().map(|file| (text(&file["client"]), text(&file["outcome"]))).collect()
}

/// Case G9.
#[test]
fn every_client_is_linked_and_gets_its_bytes_back() {
    let place = everything();
    let home = place.path("home");
    let before = tree(&home);
    let ran = mcpd(&place, &["link", "--yes", "--json"]).expect_code(0);
    let expected: Vec<_> = client_files().iter().map(|file| (file.word.to_owned(), "written".to_owned())).collect();
    assert_eq!(outcomes(&ran), expected, "{ran}");
    for file in client_files() {
        let entry = file.entry(&place);
        assert!(Path::new(&entry.words[0]).is_absolute() && entry.words[1] == "connect", "{}", file.word);
        let text = fs::read_to_string(file.at(&place)).expect("text");
        assert!(text.contains("demo-server"), "{}: only `--take-over` removes servers", file.word);
    }
    assert!(place.path("home/.cursor/mcp.json").is_symlink());
    let mode = fs::metadata(place.path("home/.gemini/settings.json")).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o7777, 0o444);

    let linked = tree(&home);
    let ran = mcpd(&place, &["link", "--yes", "--json"]).expect_code(0);
    assert!(outcomes(&ran).iter().all(|(_, outcome)| outcome == "unchanged"), "{ran}");
    expect_same(&linked, &tree(&home));

    mcpd(&place, &["unlink", "--yes"]).expect_code(0);
    fs::remove_dir(place.path("home/.local/state/mcpd")).expect("nothing is left in it");
    fs::remove_dir(place.path("home/.local/state")).expect("nothing else");
    fs::remove_dir(place.path("home/.local")).expect("nothing else");
    expect_same(&before, &tree(&home));
}

#[test]
fn records_are_private_and_written_before_the_file() {
    let place = Place::new();
    let file = client_file("cursor");
    let path = file.put(&place);
    let before = fs::read(&path).expect("a file");
    mcpd(&place, &["link", "cursor", "--yes"]).expect_code(0);
    let [record] = &records(&place)[..] else { panic!("one record") };
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    assert_eq!((mode(record), mode(record.parent().expect("a directory"))), (0o600, 0o700));

    // As if mcpd had been killed after it wrote the record.
    fs::write(&path, &before).expect("one's own file");
    let ran = mcpd(&place, &["link", "cursor", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("is linked"), "{ran}");
    fs::write(&path, &before).expect("one's own file");
    mcpd(&place, &["unlink", "cursor", "--yes"]).expect_code(0);
    assert_eq!(fs::read(&path).expect("a file"), before);
    assert!(records(&place).is_empty());
}

#[test]
fn link_makes_a_missing_file_and_unlink_removes_it_with_its_directories() {
    for word in ["cursor", "codex", "goose", "zed"] {
        let place = Place::new();
        let file = client_file(word);
        mcpd(&place, &["link", word, "--yes"]).expect_code(0);
        assert_eq!(file.entry(&place).words[1], "connect", "{word}");
        mcpd(&place, &["unlink", word, "--yes"]).expect_code(0);
        let top = file
            .at(&place)
            .strip_prefix(place.path("home"))
            .expect("below")
            .components()
            .next()
            .expect("one")
            .as_os_str()
            .to_owned();
        assert!(!place.path("home").join(top).exists(), "{word}");
    }
}

/// Case G9.
#[test]
fn edits_by_the_user_between_link_and_unlink_stay() {
    for file in client_files() {
        let place = Place::new();
        let path = file.put(&place);
        let before = fs::read_to_string(&path).expect("text");
        mcpd(&place, &["link", file.word, "--yes"]).expect_code(0);
        let linked = fs::read_to_string(&path).expect("text");
        let edit = |text: &str| match file.word {
            "codex" | "goose" => text.replacen("# Mine.", "# Mine, and edited.", 1),
            _ => text.replacen("demo-server", "demo-server-2", 1),
        };
        let edited = edit(&linked);
        assert_ne!(edited, linked, "{}", file.word);
        fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).expect("one's own file");
        fs::write(&path, &edited).expect("one's own file");
        mcpd(&place, &["unlink", file.word, "--yes"]).expect_code(0);
        assert_eq!(fs::read_to_string(&path).expect("text"), edit(&before), "{}", file.word);
        assert!(records(&place).is_empty());
    }
}

#[test]
fn link_with_other_options_replaces_the_entry_and_unlink_still_restores_the_bytes() {
    let place = Place::new();
    place.write_user_config("[profiles.work]\nservers = []\n");
    let file = client_file("vscode");
    let path = file.put(&place);
    let before = fs::read(&path).expect("a file");
    let link = |args: &[&str]| {
        let mut command = place.command(MCPD);
        run(command
            .args([&["link", "vscode", "--yes"], args].concat())
            .env("XDG_CONFIG_HOME", place.path("home/.config")))
    };
    link(&[]).expect_code(0);
    assert_eq!(file.entry(&place).words.len(), 2);
    link(&["--profile", "work"]).expect_code(0);
    assert_eq!(file.entry(&place).words[2..], ["--profile", "work"]);
    link(&["--http"]).expect_code(0);
    let text = fs::read_to_string(&path).expect("text");
    assert!(text.contains("unix://") && !text.contains("\"connect\""), "{text}");
    assert_eq!(records(&place).len(), 1);
    mcpd(&place, &["unlink", "vscode", "--yes"]).expect_code(0);
    assert_eq!(fs::read(&path).expect("a file"), before);
}

#[test]
fn entry_without_a_record_is_removed_alone() {
    let place = Place::new();
    let path = place.path("home/.cursor/mcp.json");
    fs::create_dir(path.parent().expect("a directory")).expect("a fresh home");
    fs::write(&path, "{\n  \"mcpServers\": {\n    \"mine\": { \"url\": \"https://a/\" },\n    \"gate\": { \"command\": \"mcpd\", \"args\": [\"connect\"] }\n  }\n}\n")
        .expect("one's own file");
    mcpd(&place, &["unlink", "cursor", "--yes"]).expect_code(0);
    let left = fs::read_to_string(&path).expect("text");
    assert_eq!(left, "{\n  \"mcpServers\": {\n    \"mine\": { \"url\": \"https://a/\" }\n  }\n}\n");
    let ran = mcpd(&place, &["unlink", "cursor", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("Cursor is not linked"), "{ran}");
    let ran = mcpd(&place, &["unlink", "--yes"]).expect_code(0);
    assert!(ran.stderr.contains("no client is linked"), "{ran}");
}

#[test]
fn dry_run_shows_the_difference_and_writes_nothing() {
    let place = Place::new();
    client_file("zed").put(&place);
    let before = tree(&place.path("home"));
    let ran = mcpd(&place, &["link", "zed", "--dry-run"]).expect_code(0);
    assert!(ran.stdout.starts_with("--- ") && ran.stdout.contains("\n+    \"mcpd\": {"), "{ran}");
    assert!(ran.stderr.contains("nothing is written"), "{ran}");
    let ran = mcpd(&place, &["link", "zed", "--dry-run", "--json"]).expect_code(0);
    let file = &ran.json()["files"][0];
    assert_eq!((&file["outcome"], &file["entries"]), (&json!("planned"), &json!(["mcpd"])), "{ran}");
    expect_same(&before, &tree(&place.path("home")));
}

#[test]
fn secrets_of_a_client_are_not_shown() {
    let place = Place::new();
    fs::create_dir(place.path("home/.cursor")).expect("a fresh home");
    let token = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    place.write(
        "home/.cursor/mcp.json",
        format!("{{\"mcpServers\": {{\"a\": {{\"command\": \"a\", \"env\": {{\"GITHUB_TOKEN\": \"{token}\"}}}}}}}}"),
    );
    let ran = mcpd(&place, &["link", "cursor", "--dry-run"]).expect_code(0);
    assert!(ran.stdout.contains("GITHUB_TOKEN") && !ran.stdout.contains(token), "{ran}");
}

#[test]
fn entry_with_a_url_has_the_token_which_is_not_shown() {
    let place = Place::new();
    fs::create_dir_all(place.path("home/.config/mcpd")).expect("a fresh home");
    place.write("home/.config/mcpd/config.toml", "[profiles.default]\nhttp = '127.0.0.1:7780'\n");
    for word in ["cursor", "codex", "goose"] {
        let path = client_file(word).put(&place);
        let before = fs::read_to_string(&path).expect("text");
        let ran = mcpd(&place, &["link", word, "--http", "--yes"]).expect_code(0);
        let token = mcpd(&place, &["token"]).expect_code(0).stdout.trim().to_owned();
        let linked = fs::read_to_string(&path).expect("text");
        assert!(linked.contains(&token) && !ran.stdout.contains(&token), "{word}: {ran}\n{linked}");
        fs::write(&path, format!("{linked}\n")).expect("one's own file");
        mcpd(&place, &["unlink", word, "--yes"]).expect_code(0);
        assert_eq!(fs::read_to_string(&path).expect("text"), format!("{before}\n"), "{word}");
    }
    let ran = mcpd(&place, &["link", "claude-desktop", "--http", "--yes"]).expect_code(1);
    assert!(ran.stderr.contains("Claude Desktop launches its servers"), "{ran}");
}

#[test]
fn nothing_is_written_without_a_yes() {
    let place = everything();
    let before = tree(&place.path("home"));
    let ran = mcpd(&place, &["link"]).expect_code(2);
    assert!(ran.stderr.contains("`--yes`") && ran.stdout.matches("\n+++ ").count() == 12, "{ran}");
    expect_same(&before, &tree(&place.path("home")));
}

#[test]
fn each_client_has_a_question_that_names_a_read_only_file() {
    let place = Place::new();
    for word in ["cursor", "gemini"] {
        client_file(word).put(&place);
    }
    let Some(terminal) = Terminal::open(&place, 200, 60) else { return };
    terminal.line("unset XDG_CONFIG_HOME; m link cursor gemini");
    terminal.wait("Link Cursor (");
    terminal.line("n");
    let screen = terminal.wait("Link Gemini CLI (");
    assert!(screen.contains(".gemini/settings.json, which is read-only)?"), "{screen}");
    terminal.line("y");
    terminal.wait("Gemini CLI is linked");
    let read = |word: &str| fs::read_to_string(client_file(word).at(&place)).expect("text");
    assert!(read("gemini").contains("connect") && !read("cursor").contains("connect"));
}

#[test]
fn file_of_a_project_is_linked_on_request() {
    let place = Place::new();
    fs::create_dir(place.path("work")).expect("a fresh place");
    let link = |args: &[&str]| run(mcpd_at_home(&place, args).current_dir(place.path("work")));
    link(&["link", "claude-code", "--project", "--yes"]).expect_code(0);
    let text = fs::read_to_string(place.path("work/.mcp.json")).expect("it was made");
    assert!(text.contains("connect") && !place.path("home/.claude.json").exists(), "{text}");
    let ran = link(&["link", "claude-desktop", "--project", "--yes"]).expect_code(2);
    assert!(ran.stderr.contains("has no file for a project"), "{ran}");
    link(&["unlink", "claude-code", "--yes"]).expect_code(0);
    assert!(!place.path("work/.mcp.json").exists());
}

#[test]
fn entry_of_each_client_finds_the_daemon_and_calls_a_tool() {
    let place = everything();
    let config = format!("[servers.notes]\ncommand = '{MCPD}'\nargs = ['demo-server']\nsandbox = 'none'\n");
    fs::create_dir_all(place.path("home/.config/mcpd")).expect("a fresh home");
    place.write("home/.config/mcpd/config.toml", config);
    mcpd(&place, &["start"]).expect_code(0);
    mcpd(&place, &["link", "--yes"]).expect_code(0);
    for file in client_files() {
        let answer = call_through(&place, &mut file.entry(&place).command(&place), "notes__echo");
        assert!(answer.contains("it works"), "{}: {answer}", file.word);
    }
    mcpd(&place, &["stop"]).expect_code(0);
}

/// Calls a tool of the demo server through the command of an entry, as a client does.
pub(crate) fn call_through(place: &Place, entry: &mut std::process::Command, tool: &str) -> String {
    use crate::support::{initialize, notification};
    let call = request(2, "tools/call", &json!({"name": tool, "arguments": {"text": "it works"}}));
    let messages = [initialize("2025-06-18"), notification("notifications/initialized", &Value::Null), call];
    let input: String = messages.iter().map(|message| format!("{message}\n")).collect();
    let input = place.write("input.jsonl", input);
    let mut command = place.command("sh");
    command.env_clear().envs(entry.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
        .current_dir("/")
        .args(["-c", "exec \"$@\" <\"$0\""])
        .arg(input)
        .arg(entry.get_program())
        .args(entry.get_args());
    let ran = run(&mut command);
    let answer = ran.stdout.lines().find(|line| line.contains("\"id\":2"));
    answer.map_or_else(|| ran.to_string(), str::to_owned)
}
