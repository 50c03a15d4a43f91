//! `mcpd add` and `mcpd remove` change only the necessary lines of a person's file.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::support::{Agent, MCPD, Place, SCRIPTED, Server, Setup, arguments, run};

const MINE: &str = "\
# What I use.
[daemon]
watch = false   # enough

[servers.files] # mine
command = 'true'
# args = []

# the end";

/// A place whose user has this configuration.
fn configured_place(text: &str) -> (Rc<Place>, PathBuf) {
    let place = Place::new();
    let path = place.write_user_config(text);
    fs::set_permissions(&path, Permissions::from_mode(0o600)).expect("the test's own");
    (place, path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

#[test]
fn server_is_added_to_a_file_that_was_not_there_and_serves() {
    let place = Place::new();
    let journal = place.path("journal");
    let added = place.mcpd(&[
        "add",
        "notes",
        "--env",
        "GREETING=${HOME}",
        "--cwd",
        ".",
        "--lazy",
        "--",
        SCRIPTED,
        "--journal",
        journal.to_str().expect("text"),
        "--tool",
        "a b; $(touch x) 'c' \"d\" `e` \\ * \u{e9}",
    ]);
    let path = place.user_config();
    let added = added.expect_code(0);
    let expected = format!("added notes to {}:\n\n{}", path.display(), read(&path));
    let next =
        "mcpd: no daemon runs: `mcpd start` applies the change, and so does the next client that runs `mcpd connect`\n";
    let notes = format!(
        "note: notes has sandbox `scope`, which protects no files: `{}` would open your home directory or a directory of mcpd\n{next}",
        place.path("").display().to_string().trim_end_matches('/')
    );
    assert_eq!((&*added.stdout, &*added.stderr), (&*expected, &*notes));
    assert_eq!((mode(&path), mode(path.parent().expect("a directory"))), (0o600, 0o700));
    assert!(read(&path).starts_with("[servers.notes]\ncommand = \""), "{}", read(&path));
    let cwd = place.path("home").parent().expect("the place").display().to_string();
    assert!(read(&path).contains(&format!("cwd = \"{cwd}\"\nstart = \"lazy\"\n")), "{}", read(&path));
    let daemon = Setup::new().config(path.clone()).start_in(&place);
    arguments(&Agent::ready(&daemon).call("notes__echo", &serde_json::json!({})));
    let ran = place.client(&["remove", "notes", "--no-reload"]).expect_code(0);
    assert_eq!(ran.stderr, "mcpd: run `mcpd reload` to apply the change to the running daemon\n");
    let run_dir = place.runtime_dir();
    let run_dir = run_dir.to_str().expect("text");
    let reloaded = place.mcpd(&["--runtime-dir", run_dir, "add", "other", "--", SCRIPTED]).expect_code(0);
    assert!(reloaded.stdout.contains("added        other\nremoved      notes\n"), "{reloaded}");
}

#[test]
fn add_then_remove_leaves_the_file_byte_for_byte_unchanged() {
    for text in ["", "\n", MINE, &MINE.replace('\n', "\r\n"), &format!("{MINE}\n"), &format!("\u{feff}{MINE}")] {
        let (place, path) = configured_place(text);
        place.mcpd(&["add", "x", "--env", "A=1", "--", "true", "-v"]).expect_code(0);
        assert!(read(&path).starts_with(text) && read(&path).contains("[servers.x]"), "{}", read(&path));
        place.mcpd(&["remove", "x"]).expect_code(0);
        assert_eq!(read(&path), text);
    }
}

#[test]
fn add_shows_exactly_the_lines_that_it_adds() {
    let variables = ["ONE", "TWO", "THREE"].map(|name| format!("{name}={}", "x y ".repeat(10)));
    let variables = variables.iter().flat_map(|pair| ["--env", pair]);
    let command: Vec<_> = ["add", "x"].into_iter().chain(variables).chain(["--", "true", "-v"]).collect();
    for text in
        ["", "\n", "\n\n", MINE, &MINE.replace('\n', "\r\n"), &format!("{MINE}\r\n"), &format!("\u{feff}{MINE}")]
    {
        let (place, path) = configured_place(text);
        let ran = place.mcpd(&command).expect_code(0);
        let written = read(&path);
        let block = &written[written.find("[servers.x]").expect("it is written")..].replace("\r\n", "\n");
        let expected = format!("added x to {}:\n\n{}\n", path.display(), block.trim_end());
        assert_eq!(ran.stdout, expected, "{text:?}");
    }
}

#[test]
fn secret_is_moved_to_a_file_that_only_its_owner_reads_and_reaches_the_server() {
    let (place, path) = configured_place("");
    let secret = "ghp_0123456789abcdefghijklmnopqrstuvwxyz";
    let env = format!("GITHUB_TOKEN={secret}");
    let journal = place.path("s.journal");
    let args =
        ["add", "s", "--env", &env, "--env", "PLAIN=x", "--", SCRIPTED, "--journal", journal.to_str().expect("text")];
    let added = place.mcpd(&args).expect_code(0);
    let file = path.with_file_name("secrets").join("s.GITHUB_TOKEN");
    assert!(added.stderr.starts_with(&format!("mcpd: a secret was moved to {}\n", file.display())), "{added}");
    assert_eq!((mode(&file), mode(file.parent().expect("a directory"))), (0o600, 0o700));
    assert!(!read(&path).contains(secret) && read(&path).contains("PLAIN = \"x\""), "{}", read(&path));
    let daemon = Setup::new().config(path.clone()).start_in(&place);
    let seen = Agent::ready(&daemon).call("s__env", &serde_json::json!({"name": "GITHUB_TOKEN"}));
    assert!(seen.to_string().contains(secret), "{seen}");
    let removed = place.mcpd(&["remove", "s"]).expect_code(0);
    assert!(
        removed.stderr.contains(&format!("a secret of s is left in {0}; to delete it: rm {0}\n", file.display())),
        "{removed}"
    );
}

#[test]
fn http_server_is_added_and_its_secrets_are_moved() {
    let (place, path) = configured_place(MINE);
    let secret = "Bearer canary-0123456789";
    let header = format!("Authorization: {secret}");
    let url = "https://example.org/mcp";
    let args =
        ["add", "far", "--url", url, "--header", &header, "--header", "X-Mode:fast", "--ca-file", "ca.pem", "--lazy"];
    let file = path.with_file_name("secrets").join("far.Authorization");
    let added = place.mcpd(&args).expect_code(0);
    assert!(added.stderr.starts_with(&format!("mcpd: a secret was moved to {}\n", file.display())), "{added}");
    assert_eq!((mode(&file), read(&file)), (0o600, format!("{secret}\n")));
    let written = read(&path);
    let here = place.path("home").parent().expect("the place").join("ca.pem");
    for part in [
        &*format!("\n[servers.far]\nurl = \"{url}\"\n"),
        "Authorization = \"${file:",
        "X-Mode = \"fast\"",
        &format!("ca_file = \"{}\"\nstart = \"lazy\"", here.display()),
    ] {
        assert!(written.contains(part) && written.starts_with(MINE), "no {part} in {written}");
    }
    place.mcpd(&["remove", "far"]).expect_code(0);
    assert_eq!(read(&path), MINE);
}

#[test]
fn edit_that_would_not_load_is_not_written() {
    let (place, path) = configured_place(MINE);
    let other = path.with_file_name("other.json");
    fs::write(&other, r#"{"mcpServers": {}}"#).expect("the test's own");
    let other = other.to_str().expect("text");
    for (args, expected) in [
        (&["add", "my files", "--", "true"][..], "write `my-files`"),
        (
            &["add", "files", "--", "true"],
            "there is a server `files` already: `mcpd remove files` first, or `mcpd edit`",
        ),
        (&["add", "x", "@scope/package", "dir"], "is an npm package: `mcpd add x npx -y @scope/package dir`"),
        (&["add", "x", "{\"command\": \"npx\"}"], "this is JSON: save it to a file, and run `mcpd import FILE`"),
        (&["add", "x", "npxx", "-y", "pkg"], "not added: command `npxx` is not found: did you mean `npx`?"),
        (&["add", "x", "no-such-program"], "not added: command `no-such-program` is not found\n  help: `--` before"),
        (&["add", "x", "--env", "A=1", "--env", "A=2", "--", "true"], "`--env A` is given twice"),
        (&["add", "x", "--env", "A", "--", "true"], "NAME=VALUE"),
        (&["add", "x", "--env", "=1", "--", "true"], "NAME=VALUE"),
        (&["add", "x", "--", "a\u{1}${file:"], "not added: the configuration would not be valid"),
        (&["add", "x"], "COMMAND"),
        (&["add", "x", "--url", "https://x", "--", "true"], "cannot be used with"),
        (&["add", "x", "--url", "https://x", "--env", "A=1"], "cannot be used with"),
        (&["add", "x", "--header", "A: 1", "--", "true"], "cannot be used with"),
        (&["add", "x", "--url", "https://x", "--header", "A"], "NAME: VALUE"),
        (&["add", "x", "--url", "https://x", "--header", "A: 1", "--header", "A: 2"], "`--header A` is given twice"),
        (&["add", "x", "--url", "https://x", "--header", "A: 1", "--header", "a: 2"], "header `a` is there already"),
        (&["add", "x", "--url", "https://u:p@x"], "has a user name or a password"),
        (&["add", "x", "--url", "x.org/mcp"], "does not begin with `http://` or `https://`"),
        (&["add", "x", "ftp://x.org/mcp"], "looks like a URL"),
        (&["add", "x", "HTTP://x.org/mcp"], "looks like a URL"),
        (&["add", "x", "https://"], "has no host"),
        (&["add", "x", "--config", other, "--", "true"], "has the format of another client"),
        (&["remove", "file"], "did you mean `files`?"),
        (&["remove", "zzz"], "there is no server `zzz`\n"),
    ] {
        let ran = place.mcpd(args).expect_code(2);
        assert!(ran.stderr.contains(expected) && ran.stdout.is_empty(), "{args:?}: {ran}");
        assert_eq!(read(&path), MINE);
    }
    fs::write(&path, "[servers.x\n").expect("the test's own");
    let ran = place.mcpd(&["add", "y", "--", "true"]).expect_code(2);
    assert!(ran.stderr.contains("it is not valid TOML; `mcpd check` shows the line"), "{ran}");
    assert_eq!(read(&path), "[servers.x\n");
    for args in
        [&["add", "y", "--config", "broken.toml", "--", "true"][..], &["remove", "y", "--config", "broken.toml"]]
    {
        place.write("broken.toml", "[servers.x\n");
        let ran = place.mcpd(args).expect_code(2);
        assert!(ran.stderr.contains("it is not valid TOML; `mcpd check broken.toml` shows the line"), "{ran}");
    }
}

#[test]
fn symlinked_file_is_edited_in_place_and_keeps_its_mode() {
    let (place, path) = configured_place("");
    let real = place.write("dotfiles.toml", MINE);
    fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("the test's own");
    fs::remove_file(&path).expect("it is there");
    symlink("../../dotfiles.toml", &path).expect("a link");
    place.mcpd(&["add", "x", "--", "true"]).expect_code(0);
    assert!(path.is_symlink() && read(&real).contains("[servers.x]"));
    assert_eq!(mode(&real), 0o640);
    assert!(
        fs::read_dir(place.path("xdg-config/mcpd")).expect("a directory").count() == 1,
        "nothing is left beside it"
    );
}

#[test]
fn full_disk_leaves_the_file_unchanged() {
    let (place, path) = configured_place(MINE);
    let mut command = place.command("sh");
    command.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" add x -- true", MCPD]);
    let ran = run(&mut command).expect_code(1);
    assert!(ran.stderr.contains("cannot write") && ran.stdout.is_empty(), "{ran}");
    assert_eq!(read(&path), MINE);
    assert_eq!(fs::read_dir(path.parent().expect("a directory")).expect("a directory").count(), 1);
}

#[test]
fn concurrent_edits_lose_nothing() {
    let (place, path) = configured_place("");
    let adding: Vec<_> = (0..12)
        .map(|n| {
            let mut command = place.command(MCPD);
            command.args(["add", &format!("s{n}"), "--", "true"]);
            command.stderr(std::process::Stdio::null()).stdout(std::process::Stdio::null());
            (n, command.spawn().expect("spawn"))
        })
        .collect();
    for (n, mut child) in adding {
        let added = child.wait().expect("one's own child").success();
        assert_eq!(read(&path).contains(&format!("[servers.s{n}]\n")), added, "{n}");
    }
    place.mcpd(&["add", "last", "--", "true"]).expect_code(0);
}

#[test]
fn server_is_removed_from_the_file_that_defines_it() {
    let (place, path) = configured_place(MINE);
    let more = path.with_file_name("config.d");
    fs::create_dir(&more).expect("a fresh directory");
    let file = more.join("work.toml");
    fs::write(&file, Server::named("work").toml(&place)).expect("the test's own");
    let removed = place.mcpd(&["remove", "work"]).expect_code(0);
    assert_eq!(removed.stdout, format!("removed work from {}\n", file.display()));
    assert_eq!((&*read(&file), &*read(&path)), ("", MINE));
    let unknown = place.mcpd(&["remove", "work"]).expect_code(2);
    assert!(unknown.stderr.contains("there is no server `work`"), "{unknown}");
}

#[test]
fn several_servers_are_removed_together_or_not_at_all() {
    let more = "[servers.a]\ncommand = 'true'\n\n[servers.b]\ncommand = 'true'\n";
    let (place, path) = configured_place(&format!("{more}\n[servers.c]\ncommand = 'true'\n"));
    let other = path.with_file_name("config.d");
    fs::create_dir(&other).expect("a fresh directory");
    let other = other.join("work.toml");
    fs::write(&other, "[servers.work]\ncommand = 'true'\n").expect("the test's own");
    let before = read(&path);
    let ran = place.mcpd(&["remove", "a", "wrok", "b"]).expect_code(2);
    assert!(ran.stderr.contains("did you mean `work`?") && ran.stdout.is_empty(), "{ran}");
    assert_eq!(read(&path), before);
    let ran = place.mcpd(&["remove", "a", "work", "b", "a"]).expect_code(0);
    let (path_, other_) = (path.display(), other.display());
    assert_eq!(ran.stdout, format!("removed a from {path_}\nremoved work from {other_}\nremoved b from {path_}\n"));
    assert_eq!((&*read(&path), &*read(&other)), ("[servers.c]\ncommand = 'true'\n", ""));
    let json = place.mcpd(&["remove", "c", "--json"]).expect_code(0).json();
    assert_eq!((&json["name"], &json["file"]), (&"c".into(), &path.to_str().expect("text").into()));
}

#[test]
fn server_that_another_file_narrows_is_not_removed() {
    let (place, path) = configured_place("[servers.a]\ncommand = 'true'\n");
    let more = path.with_file_name("config.d");
    fs::create_dir(&more).expect("a fresh directory");
    fs::write(more.join("narrow.toml"), "[servers.a]\ndeny = ['x']\n").expect("the test's own");
    let ran = place.mcpd(&["remove", "a"]).expect_code(2);
    assert!(ran.stderr.contains("not removed"), "{ran}");
    assert!(read(&path).contains("[servers.a]"));
}

#[test]
fn reload_of_an_added_server_is_about_that_server() {
    let (place, path) = configured_place("");
    fs::write(&path, Server::named("first").toml(&place)).expect("the test's own");
    let _daemon = Setup::new().config(path.clone()).start_in(&place);
    fs::write(&path, format!("{}[servers.broken]\ncommand = 'no-such-program'\n", Server::named("first").toml(&place)))
        .expect("the test's own");
    let run_dir = place.runtime_dir();
    let run_dir = run_dir.to_str().expect("text");
    let add = |name: &str, command: &str| {
        let mut line = vec!["--runtime-dir", run_dir, "add", name, "--", command];
        line.extend((command == SCRIPTED).then_some("--bare"));
        place.mcpd(&line)
    };
    let ran = add("works", SCRIPTED).expect_code(0);
    assert!(ran.stdout.contains("added        works\n") && !ran.stdout.contains("failed"), "{ran}");
    assert!(
        ran.stderr.contains("mcpd: also new or changed, and not started: broken; `mcpd status` shows why\n"),
        "{ran}"
    );
    let ran = add("lost", "no-such-server").expect_code(1);
    assert!(ran.stdout.contains("not started  lost: ") && !ran.stderr.contains("also new or changed"), "{ran}");
    fs::write(&path, format!("{}[servers.broken2]\ncommand = 'no-such-program'\n", read(&path)))
        .expect("the test's own");
    let ran = place.mcpd(&["--runtime-dir", run_dir, "remove", "works"]).expect_code(0);
    assert!(
        ran.stdout.starts_with("removed works from ")
            && ran.stderr.contains("also new or changed, and not started: broken2"),
        "{ran}"
    );
}

#[test]
fn referenced_server_is_not_removed() {
    let text = format!("{MINE}\n\n[profiles.work]\nservers = [\"files\"]\n");
    let (place, path) = configured_place(&text);
    let ran = place.mcpd(&["remove", "files"]).expect_code(2);
    assert!(ran.stderr.contains("not removed") && ran.stderr.contains("config.toml:"), "{ran}");
    assert_eq!(read(&path), text);
}
