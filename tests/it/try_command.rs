//! `mcpd try`: the receipt, and the server that `--keep` adds. `trial.rs` has hostile servers.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::support::{Agent, MCPD, Place, SCRIPTED, Setup, quoted, result, skipped, system_has_namespaces};

/// A server that runs `script` first, and a directory that its command line names.
struct Scene {
    place: std::rc::Rc<Place>,
    server: PathBuf,
    notes: PathBuf,
}

impl Scene {
    /// `None` if this system has no namespaces.
    fn new(script: &str) -> Option<Self> {
        if !system_has_namespaces() {
            return None;
        }
        let place = Place::new();
        let server = place.write_program("server/run", format!("#!/bin/sh\nprogram=$1\n{script}\nexec \"$program\"\n"));
        let notes = place.path("notes");
        fs::create_dir(&notes).expect("a fresh directory");
        place.write("notes/mine", "mine\n");
        Some(Self { place, server, notes })
    }

    /// The command line of the server, with more of its arguments.
    fn words<'a>(&'a self, more: &[&'a str]) -> Vec<&'a str> {
        let text = |path: &'a Path| path.to_str().expect("text");
        [&[text(&self.server), SCRIPTED, text(&self.notes)][..], more].concat()
    }

    fn tried(&self, before: &[&str], after: &[&str]) -> crate::support::Ran {
        self.place.mcpd(&[&["try"], before, &self.words(after)].concat())
    }

    fn config(&self) -> String {
        fs::read_to_string(self.place.user_config()).unwrap_or_default()
    }
}

fn has_strace() -> bool {
    let has = Command::new("strace").arg("-V").output().is_ok();
    if !has {
        skipped("there is no strace");
    }
    has
}

#[test]
fn kept_server_serves_at_exactly_its_grants_with_its_definitions_approved() {
    let Some(scene) = Scene::new("") else { return };
    let secret = scene.place.write("other", "secret\n");
    let ran = scene.tried(&["--yes"], &["--keep", "kept"]).expect_code(0);
    assert!(ran.stdout.contains("offers        "), "{ran}");
    assert!(ran.stderr.contains("kept kept in "), "{ran}");
    let config = scene.config();
    assert!(config.contains("changes = \"hold\"\n") && !config.contains("pass_env"), "{config}");
    assert!(config.contains(&format!("write = [{}]", quoted(&scene.notes))), "{config}");
    let daemon = Setup::new().config(scene.place.user_config()).start_in(&scene.place);
    let mut agent = Agent::ready(&daemon);
    let mut code = |script: String| {
        let answer = agent.call("kept__run", &json!({ "argv": ["sh", "-c", script] }));
        result(&answer)["structuredContent"]["code"].clone()
    };
    assert_eq!(code(format!("cat {0}/mine && echo new > {0}/new", scene.notes.display())), 0);
    assert_ne!(code(format!("cat {}", secret.display())), 0);
    assert!(scene.notes.join("new").exists());
}

#[test]
fn kept_arguments_are_the_texts_of_the_trial() {
    let Some(scene) = Scene::new("") else { return };
    let more = ["--env", "V=x${X"];
    let ran = scene.tried(&[&["--yes"], &more[..]].concat(), &["--x=${cmd:id}", "--keep", "kept"]).expect_code(0);
    assert!(ran.stderr.contains("kept kept in "), "{ran}");
    let config = scene.config();
    assert!(config.contains(r#""--x=$${cmd:id}""#) && config.contains(r#"V = "x$${X""#), "{config}");
}

#[test]
fn kept_version_is_the_installed_one_whatever_the_measured_run_writes() {
    let Some(scene) = Scene::new("") else { return };
    // The directory is that of `npx` for `some-server`.
    let script = "#!/bin/sh\nd=${npm_config_cache:-$HOME/.npm}/_npx/d2b3d3479376ddbf/node_modules/some-server\n\
                  v=1.0.0; test -e $d && v=2.0.0\nmkdir -p $d\n\
                  echo \"{\\\"name\\\": \\\"some-server\\\", \\\"version\\\": \\\"$v\\\"}\" > $d/package.json\nexec \"$3\"\n";
    let npx = scene.place.write_program("server/npx", script);
    let npx = npx.to_str().expect("text");
    let ran = scene.place.mcpd(&["try", "--yes", "--keep", "kept", npx, "-y", "some-server", SCRIPTED]).expect_code(0);
    assert!(ran.stderr.contains("with its version"), "{ran}");
    assert!(scene.config().contains("\"some-server@1.0.0\""), "{ran}");
}

#[test]
fn secret_is_never_granted() {
    let Some(scene) = Scene::new("") else { return };
    let ssh = scene.place.path("home/.ssh");
    fs::create_dir(&ssh).expect("a fresh directory");
    scene.place.write("home/.ssh/id_rsa", "secret\n");
    let link = scene.place.path("link");
    symlink(&ssh, &link).expect("a fresh link");
    let around = scene.place.path("home/../home/.ssh");
    for (name, path) in [("plain", ssh), ("linked", link), ("around", around)] {
        let ran = scene.tried(&["--yes"], &[path.to_str().expect("text"), "--keep", name]).expect_code(0);
        assert!(ran.stderr.contains("never granted: SSH keys"), "{name}: {ran}");
    }
    let config = scene.config();
    let sandboxes: Vec<_> = config.lines().filter(|line| line.starts_with("sandbox")).collect();
    assert_eq!(sandboxes.len(), 3, "{config}");
    for sandbox in sandboxes {
        assert!(!sandbox.contains("ssh") && !sandbox.contains("link") && sandbox.contains("notes"), "{sandbox}");
    }
}

#[test]
fn grant_says_which_secrets_are_in_its_directory() {
    let Some(scene) = Scene::new("") else { return };
    scene.place.write("notes/.env", "secret\n");
    let ran = scene.tried(&["--yes"], &["--keep", "kept"]).expect_code(0);
    assert!(ran.stderr.contains("; it contains .env\n"), "{ran}");
}

#[test]
fn receipt_names_secrets_that_the_server_missed_and_says_how_it_was_kept() {
    let Some(scene) = Scene::new("cat ~/.ssh/id_rsa").filter(|_| has_strace()) else { return };
    let ran = scene.tried(&["--json"], &["--keep", "kept", "--yes"]).expect_code(0);
    let receipt: Value = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {ran}"));
    assert_eq!(receipt["touched"]["missed"], json!([{ "path": "~/.ssh/id_rsa", "secret": "SSH keys" }]), "{receipt}");
    let warnings = receipt["warnings"].as_array().expect("a list");
    assert!(warnings.iter().any(|one| one["kind"] == "secret" && one["subject"] == "~/.ssh/id_rsa"), "{receipt}");
    let programs = receipt["touched"]["programs"].as_array().expect("a list");
    assert!(programs.contains(&json!(SCRIPTED)), "{receipt}");
    let is_own = |one: &Value| {
        one.as_str().is_some_and(|one| one.rsplit('/').next().is_some_and(|name| name.starts_with("mcpd")))
    };
    assert!(!programs.iter().any(is_own), "{receipt}");
    assert_eq!((&receipt["kept"]["name"], &receipt["kept"]["pinned"]), (&json!("kept"), &json!(false)));
    let approved = receipt["kept"]["approved"].as_u64().expect("a number");
    assert!(approved > 0 && receipt["offer"]["tools"].as_array().is_some_and(|tools| !tools.is_empty()), "{receipt}");
}

#[test]
fn tool_is_called_and_nothing_is_left() {
    let Some(scene) = Scene::new("") else { return };
    let script = format!("argv:=[\"sh\", \"-c\", \"echo hidden > {}/new\"]", scene.notes.display());
    let ran = scene.tried(&[], &["--call", "run", &script]).expect_code(0);
    assert!(ran.stdout.contains("\ncall          run\n"), "{ran}");
    assert!(!scene.notes.join("new").exists() && scene.config().is_empty());
    let ran = scene.tried(&[], &["--call", "no_such_tool"]).expect_code(1);
    assert!(ran.stdout.contains("no_such_tool"), "{ran}");
}

#[test]
fn name_that_is_taken_is_refused_before_anything_runs() {
    let Some(scene) = Scene::new("touch \"$2/ran\"") else { return };
    scene.place.write_user_config("[servers.kept]\ncommand = \"true\"\n");
    for (name, message) in [("kept", "there is a server `kept` already"), ("a__b", "cannot name a server")] {
        let ran = scene.tried(&["--keep", name], &[]).expect_code(2);
        assert!(ran.stderr.contains(message) && ran.stdout.is_empty(), "{ran}");
    }
    assert_eq!(scene.config(), "[servers.kept]\ncommand = \"true\"\n");
    assert!(!scene.place.path("home/.local/state/mcpd/trials").exists());
}

#[test]
fn server_is_not_kept_if_nobody_accepts_its_grants_or_it_fails() {
    let Some(scene) = Scene::new("") else { return };
    let ran = scene.tried(&["--keep", "kept"], &[]).expect_code(1);
    assert!(ran.stderr.contains("not kept: add `--yes`"), "{ran}");
    assert!(scene.config().is_empty());
    let Some(scene) = Scene::new("echo broken >&2; exit 3") else { return };
    let ran = scene.tried(&["--keep", "kept", "--yes"], &[]).expect_code(1);
    assert!(ran.stderr.contains("not kept: the server did not get ready") && ran.stdout.contains("broken"), "{ran}");
    assert!(scene.config().is_empty());
}

#[test]
fn struck_line_is_not_granted() {
    let Some(scene) = Scene::new("") else { return };
    let Some(terminal) = crate::support::Terminal::open(&scene.place, 120, 60) else { return };
    terminal.line(&format!("{MCPD} try {} --keep kept", scene.words(&[]).join(" ")));
    let screen = terminal.wait("numbers change marks");
    let change = screen.lines().find(|line| line.contains("  change ")).expect("a line");
    let number = change.split_whitespace().find(|word| word.parse::<usize>().is_ok());
    terminal.line(number.expect("a number"));
    terminal.wait("definitions approved");
    let config = scene.config();
    assert!(!config.contains("write = ") && config.contains(&*quoted(&scene.notes)), "{config}");
}
