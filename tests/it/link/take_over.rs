//! `--take-over` removes the servers that mcpd runs, and no others.

use std::fs;

use serde_json::json;

use super::{everything, mcpd, records};
use crate::support::{MCPD, Place, client_files, expect_same, tree};

fn configure(place: &Place, text: &str) {
    fs::create_dir_all(place.path("home/.config/mcpd")).expect("a fresh home");
    place.write("home/.config/mcpd/config.toml", text);
}

fn notes() -> String {
    format!("[servers.notes]\ncommand = '{MCPD}'\nargs = ['demo-server']\nsandbox = 'none'\n")
}

#[test]
fn equal_servers_go_from_every_client_and_come_back() {
    let place = everything();
    configure(&place, &notes());
    let before = tree(&place.path("home"));
    let ran = mcpd(&place, &["link", "--take-over", "--yes", "--json"]).expect_code(0);
    for file in ran.json()["files"].as_array().expect("a list") {
        let all: &[&str] = if file["client"] == "claude-code" { &["notes", "notes"] } else { &["notes"] };
        assert_eq!(file["taken_over"], json!(all), "{file}");
    }
    for file in client_files() {
        let text = fs::read_to_string(file.at(&place)).expect("text");
        assert!(!text.contains("demo-server") && text.contains("connect"), "{}: {text}", file.word);
    }
    let again = mcpd(&place, &["link", "--take-over", "--yes"]).expect_code(0);
    assert!(again.stdout.is_empty() && again.stderr.matches("is linked already").count() == 12, "{again}");
    mcpd(&place, &["unlink", "--yes"]).expect_code(0);
    assert!(records(&place).is_empty());
    fs::remove_dir_all(place.path("home/.local")).expect("mcpd made it");
    expect_same(&before, &tree(&place.path("home")));
}

#[test]
fn servers_come_back_into_a_file_that_the_user_has_changed() {
    for file in client_files() {
        let place = Place::new();
        let path = file.put(&place);
        configure(&place, &notes());
        let before = fs::read_to_string(&path).expect("text");
        mcpd(&place, &["link", file.word, "--take-over", "--yes"]).expect_code(0);
        let linked = fs::read_to_string(&path).expect("text");
        let edited = format!("{linked}\n");
        fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o644)).expect("one's own file");
        fs::write(&path, &edited).expect("one's own file");
        mcpd(&place, &["unlink", file.word, "--yes"]).expect_code(0);
        let after = fs::read_to_string(&path).expect("text");
        assert_eq!(after, format!("{before}\n"), "{}", file.word);
    }
}

#[test]
fn servers_that_mcpd_does_not_run_stay() {
    let place = Place::new();
    fs::create_dir(place.path("home/.cursor")).expect("a fresh home");
    let servers = json!({"mcpServers": {
        "equal": {"command": "a", "args": ["x"]},
        "other-arguments": {"command": "a", "args": ["y"]},
        "not-in-the-profile": {"command": "b"},
        "without-a-value": {"command": "c", "env": {"T": "${env:MCPD_NO_SUCH}"}},
    }});
    place.write("home/.cursor/mcp.json", servers.to_string());
    configure(
        &place,
        "[servers.equal]\ncommand = 'a'\nargs = ['x']\n[servers.other]\ncommand = 'b'\n[servers.without-a-value]\ncommand = 'c'\n\
         env = { T = '${MCPD_NO_SUCH}' }\n[profiles.work]\nservers = ['equal']\n",
    );
    mcpd(&place, &["link", "cursor", "--take-over", "--profile", "work", "--yes"]).expect_code(0);
    let text = fs::read_to_string(place.path("home/.cursor/mcp.json")).expect("text");
    for (name, stays) in
        [("\"equal\"", false), ("other-arguments", true), ("not-in-the-profile", true), ("without-a-value", true)]
    {
        assert_eq!(text.contains(name), stays, "{name}: {text}");
    }
}

#[test]
fn entry_takes_the_name_of_an_equal_server_only() {
    let place = Place::new();
    fs::create_dir(place.path("home/.cursor")).expect("a fresh home");
    let before = json!({"mcpServers": {"mcpd": {"command": "something-else"}}}).to_string();
    let path = place.write("home/.cursor/mcp.json", &before);
    let ran = mcpd(&place, &["link", "cursor", "--yes"]).expect_code(1);
    assert!(ran.stderr.contains("another server called `mcpd`"), "{ran}");
    configure(&place, "[servers.x]\ncommand = 'something-else'\n");
    mcpd(&place, &["link", "cursor", "--take-over", "--yes"]).expect_code(0);
    assert!(fs::read_to_string(&path).expect("text").contains("connect"));
    mcpd(&place, &["unlink", "cursor", "--yes"]).expect_code(0);
    assert_eq!(fs::read_to_string(&path).expect("text"), before);
}

#[test]
fn servers_in_the_other_files_of_a_client_are_taken_over() {
    let place = Place::new();
    configure(&place, &notes());
    fs::create_dir_all(place.path("home/.config/Code/User")).expect("a fresh home");
    let settings = format!(
        "{{\n  \"mcp\": {{ \"servers\": {{ \"notes\": {{ \"command\": \"{MCPD}\", \"args\": [\"demo-server\"] }} }} }}\n}}\n"
    );
    let path = place.write("home/.config/Code/User/settings.json", &settings);
    mcpd(&place, &["link", "vscode", "--take-over", "--yes"]).expect_code(0);
    assert!(!fs::read_to_string(&path).expect("text").contains("notes"));
    assert!(place.path("home/.config/Code/User/mcp.json").exists());
    assert_eq!(records(&place).len(), 2);
    mcpd(&place, &["unlink", "vscode", "--yes"]).expect_code(0);
    assert_eq!(fs::read_to_string(&path).expect("text"), settings);
    assert!(!place.path("home/.config/Code/User/mcp.json").exists());
}

#[test]
fn entry_per_server_takes_the_place_of_an_equal_server() {
    let place = everything();
    configure(&place, &notes());
    let files = |place: &Place| -> Vec<_> {
        client_files().iter().map(|file| fs::read_to_string(file.at(place)).expect("text")).collect()
    };
    let before = files(&place);
    let ran = mcpd(&place, &["link", "--each", "--yes"]).expect_code(1);
    assert_eq!(ran.stderr.matches("another server called `notes`").count(), 12, "{ran}");
    mcpd(&place, &["link", "--each", "--take-over", "--yes"]).expect_code(0);
    for text in files(&place) {
        assert!(!text.contains("demo-server") && text.contains("--server"), "{text}");
    }
    // The entries of the other kind go.
    mcpd(&place, &["link", "--take-over", "--yes"]).expect_code(0);
    for text in files(&place) {
        assert!(!text.contains("demo-server") && !text.contains("--server"), "{text}");
    }
    mcpd(&place, &["unlink", "--yes"]).expect_code(0);
    assert_eq!(files(&place), before);
    mcpd(&place, &["stop"]).expect_code(0);
}
