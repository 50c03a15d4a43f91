//! What cannot be linked stays as it is, and the others are linked.

use std::fs;
use std::thread;

use rustix::process::getuid;

use super::{mcpd, outcomes, records};
use crate::support::{MCPD, Place, client_file, expect_same, mcpd_at_home, run, skipped, tree};

/// Case G10.
#[test]
fn file_that_cannot_be_parsed_is_named_with_the_place_and_the_others_are_linked() {
    let place = Place::new();
    for word in ["cursor", "codex", "goose"] {
        fs::create_dir_all(client_file(word).at(&place).parent().expect("a directory")).expect("a fresh home");
    }
    client_file("zed").put(&place);
    place.write("home/.cursor/mcp.json", "{\n  \"mcpServers\": {\n");
    place.write("home/.codex/config.toml", "model = \n");
    place.write("home/.config/goose/config.yaml", "extensions: [\n");
    let before = tree(&place.path("home"));
    let ran = mcpd(&place, &["link", "--yes", "--json"]).expect_code(1);
    let expected = [("codex", "failed"), ("cursor", "failed"), ("goose", "failed"), ("zed", "written")];
    let mut found = outcomes(&ran);
    found.sort();
    assert_eq!(found, expected.map(|(word, outcome)| (word.to_owned(), outcome.to_owned())), "{ran}");
    assert!(ran.stderr.contains("mcp.json: line ") && ran.stderr.contains("config.toml: line 1, column "), "{ran}");
    mcpd(&place, &["unlink", "--yes"]).expect_code(0);
    fs::remove_dir_all(place.path("home/.local")).expect("mcpd made it");
    expect_same(&before, &tree(&place.path("home")));
}

#[test]
fn linked_file_that_cannot_be_parsed_any_more_keeps_its_record() {
    let place = Place::new();
    let path = client_file("zed").put(&place);
    mcpd(&place, &["link", "zed", "--yes"]).expect_code(0);
    fs::write(&path, "{").expect("one's own file");
    let ran = mcpd(&place, &["unlink", "zed", "--yes"]).expect_code(1);
    assert!(ran.stderr.contains("settings.json: line 1"), "{ran}");
    assert_eq!((records(&place).len(), fs::read_to_string(&path).expect("text")), (1, "{".to_owned()));
}

/// Case G10.
#[test]
fn unreadable_record_prevents_only_the_unlink_of_its_client() {
    let place = Place::new();
    for word in ["cursor", "zed"] {
        client_file(word).put(&place);
    }
    mcpd(&place, &["link", "cursor", "zed", "--yes"]).expect_code(0);
    let of_cursor = records(&place).into_iter().find(|path| path.to_string_lossy().contains("/cursor-"));
    let of_cursor = of_cursor.expect("a record");
    let unlinked = |kind: &str| {
        let ran = mcpd(&place, &["unlink", "--yes", "--json"]).expect_code(1);
        assert!(ran.stderr.contains("without this file, `mcpd unlink cursor` removes"), "{kind}: {ran}");
        outcomes(&ran)
    };
    fs::write(&of_cursor, "nothing").expect("one's own file");
    let expected = [("cursor", "failed"), ("zed", "written")];
    assert_eq!(unlinked("text"), expected.map(|(word, outcome)| (word.to_owned(), outcome.to_owned())));
    // Reading it would block.
    fs::remove_file(&of_cursor).expect("a file");
    run(place.command("mkfifo").arg(&of_cursor)).expect_code(0);
    assert_eq!(unlinked("FIFO"), [("cursor".to_owned(), "failed".to_owned())]);
    fs::remove_file(&of_cursor).expect("a FIFO");
    mcpd(&place, &["unlink", "cursor", "--yes"]).expect_code(0);
    let text = fs::read_to_string(client_file("cursor").at(&place)).expect("text");
    assert!(!text.contains("connect"), "{text}");
}

/// Case G10.
#[test]
fn directory_that_cannot_be_written_gets_the_entry_to_add_by_hand() {
    if !getuid().is_root() {
        return skipped("only root can become another user");
    }
    let place = Place::new();
    let path = client_file("zed").put(&place);
    let before = fs::read(&path).expect("a file");
    let directory = path.parent().expect("a directory").to_owned();
    let mut command = place.command("chown");
    run(command.args(["-R", "65534"]).arg(place.path("home"))).expect_code(0);
    run(place.command("chown").arg("65534").arg(place.path("xdg-run"))).expect_code(0);
    run(place.command("chmod").arg("755").arg(place.path(""))).expect_code(0);
    fs::set_permissions(&directory, std::os::unix::fs::PermissionsExt::from_mode(0o555)).expect("root may");
    let link = mcpd_at_home(&place, &["link", "zed", "--yes"]);
    let mut command = place.command("setpriv");
    command.args(["--reuid=65534", "--clear-groups", MCPD]).args(link.get_args()).env_remove("XDG_CONFIG_HOME");
    let ran = run(&mut command);
    if ran.stderr.contains("setpriv:") {
        return skipped("mcpd cannot be run as another user here");
    }
    let ran = ran.expect_code(1);
    assert!(ran.stderr.contains("Permission denied") && ran.stderr.contains("add this by hand:"), "{ran}");
    assert!(ran.stderr.contains("\"context_servers\""), "{ran}");
    assert_eq!(fs::read(&path).expect("a file"), before);
    assert!(records(&place).is_empty());
}

#[test]
fn two_links_at_once_leave_one_entry_and_one_record() {
    let place = Place::new();
    let file = client_file("cursor");
    let path = file.put(&place);
    let before = fs::read(&path).expect("a file");
    let commands: Vec<_> = (0..8).map(|_| mcpd_at_home(&place, &["link", "cursor", "--yes"])).collect();
    let runs: Vec<_> = commands.into_iter().map(|mut command| thread::spawn(move || run(&mut command))).collect();
    for ran in runs.into_iter().map(|ran| ran.join().expect("no panic")) {
        let is_late = ran.code == Some(1) && ran.stderr.contains("was changed by another program");
        assert!(ran.code == Some(0) || is_late, "{ran}");
    }
    let text = fs::read_to_string(&path).expect("text");
    assert_eq!((text.matches("\"mcpd\"").count(), records(&place).len()), (1, 1), "{text}");
    mcpd(&place, &["unlink", "cursor", "--yes"]).expect_code(0);
    assert_eq!(fs::read(&path).expect("a file"), before);
}
