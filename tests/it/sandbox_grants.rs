//! What a server at level `files` reaches of its installation, without an entry in `read` or `write`.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::json;

use crate::support::{Agent, Daemon, Place, SCRIPTED, Server, Setup, quoted, result, system_has_namespaces};

/// An interpreter that becomes the scripted server, and ignores its script.
fn interpreter(place: &Place, path: &str) {
    program(place, path, &format!("#!/bin/sh\nshift\nexec {SCRIPTED} \"$@\"\n"));
}

fn program(place: &Place, path: &str, text: &str) {
    place.write_program(path, text);
}

fn file(place: &Place, path: &str, text: &str) {
    fs::create_dir_all(place.path(path).parent().expect("a directory")).expect("a fresh directory");
    place.write(path, text);
}

fn link(place: &Place, path: &str, target: &str) {
    fs::create_dir_all(place.path(path).parent().expect("a directory")).expect("a fresh directory");
    symlink(target, place.path(path)).expect("a fresh link");
}

/// A server that `command` in `place` runs, with nothing granted but its journal and the scripted server.
fn granted(place: &Place, command: &str, more: &str) -> Server {
    let journal = place.write("a.journal", "");
    let path = std::env::var("PATH").expect("a search path");
    let path = format!("{}:{path}", place.path("tools/bin").display());
    let read = quoted(Path::new(SCRIPTED).parent().expect("a directory"));
    let sandbox = format!(
        "sandbox = {{ level = \"files\", namespaces = \"require\", read = [{read}], write = [{}] }}",
        quoted(&journal)
    );
    let server = Server::run_by("a", place.path(command)).flags("--journal").arg(journal);
    server.env("PATH", &path).line(sandbox).line(more)
}

/// Checks which of these paths in `place` exist for the server.
#[track_caller]
fn expect_reached(daemon: &Daemon, place: &Place, paths: &[(&str, bool)]) {
    let mut agent = Agent::ready(daemon);
    for (path, is_reached) in paths {
        let test = format!("test -e {}", place.path(path).display());
        let answer = agent.call("a__run", &json!({"argv": ["sh", "-c", test]}));
        let code = result(&answer)["structuredContent"]["code"].clone();
        assert_eq!(code == 0, *is_reached, "{path}: {answer}");
    }
}

/// Case K38.
#[test]
fn packages_of_a_program_in_node_modules_are_reached_through_links() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    interpreter(&place, "tools/bin/node");
    program(&place, "p/node_modules/@s/server/dist/index.js", "#!/usr/bin/env node\n");
    link(&place, "p/node_modules/.bin/server", "../@s/server/dist/index.js");
    link(&place, "p/node_modules/linked", "../../workspace/linked");
    link(&place, "p/node_modules/@s/scoped", "../../../workspace/scoped");
    for path in [
        "p/node_modules/@s/server/package.json",
        "p/node_modules/hoisted/index.js",
        "node_modules/outer/index.js",
        "workspace/linked/index.js",
        "workspace/scoped/index.js",
        "workspace/node_modules/of-linked/index.js",
        "workspace/other/index.js",
        "p/package.json",
        "p/.env",
    ] {
        file(&place, path, "{}");
    }
    let daemon = Setup::with(granted(&place, "p/node_modules/.bin/server", "")).start_in(&place);
    expect_reached(
        &daemon,
        &place,
        &[
            ("p/node_modules/@s/server/package.json", true),
            ("p/node_modules/hoisted/index.js", true),
            ("p/node_modules/linked/index.js", true),
            ("p/node_modules/@s/scoped/index.js", true),
            ("node_modules/outer/index.js", true),
            ("workspace/node_modules/of-linked/index.js", true),
            ("workspace/other/index.js", false),
            ("p/package.json", false),
            ("p/.env", false),
        ],
    );
}

/// Case K39.
#[test]
fn virtual_environment_is_reached_with_its_base_and_its_editable_packages() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    interpreter(&place, "pythons/3.1.4/bin/python3");
    link(&place, "pythons/3", "3.1.4");
    link(&place, "p/venv/bin/python", &place.path("pythons/3/bin/python3").display().to_string());
    program(&place, "p/venv/bin/server", &format!("#!{}\n", place.path("p/venv/bin/python").display()));
    let source = place.path("source/src").display().to_string();
    for (path, text) in [
        ("p/venv/pyvenv.cfg", format!("home = {}\n", place.path("pythons/3/bin").display())),
        ("p/venv/lib/python3/site-packages/editable.pth", format!("import x\n{source}\n")),
        ("source/src/package.py", String::new()),
        ("source/other.py", String::new()),
        ("pythons/3.1.4/lib/os.py", String::new()),
        ("p/.env", String::new()),
    ] {
        file(&place, path, &text);
    }
    let daemon = Setup::with(granted(&place, "p/venv/bin/server", "")).start_in(&place);
    expect_reached(
        &daemon,
        &place,
        &[
            ("p/venv/lib/python3/site-packages/editable.pth", true),
            ("pythons/3/lib/os.py", true),
            ("source/src/package.py", true),
            ("source/other.py", false),
            ("p/.env", false),
        ],
    );
}

/// Case K40.
#[test]
fn program_that_the_server_can_replace_gets_a_known_interpreter_and_nothing_else() {
    if !system_has_namespaces() {
        return;
    }
    for (interpreter_name, starts) in [("python3", true), ("other", false)] {
        let place = Place::new();
        let path = format!("installed/bin/{interpreter_name}");
        interpreter(&place, &path);
        file(&place, "installed/lib/os.py", "");
        file(&place, "p/notes", "");
        link(&place, "p/venv/bin/python", &place.path(&path).display().to_string());
        program(&place, "p/venv/bin/server", &format!("#!{}\n", place.path("p/venv/bin/python").display()));
        let cwd = format!("cwd = {}", quoted(place.path("p")));
        let setup = Setup::with(granted(&place, "p/venv/bin/server", &cwd));
        if starts {
            let daemon = setup.start_in(&place);
            expect_reached(&daemon, &place, &[("installed/lib/os.py", true), ("p/notes", true)]);
        } else {
            let daemon = setup.spawn_in(&place);
            daemon.wait_row("a", "does not start", |row| row["state"] != "ready" && row["last_error"].is_string());
        }
    }
}

/// Case K41.
#[test]
fn certificates_and_libraries_that_variables_name_are_reached_unless_that_opens_a_protected_directory() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    for path in ["certificates/own.pem", "certificates/other.pem", "library/x.py", "home/.bashrc"] {
        file(&place, path, "");
    }
    let text = |path: &str| place.path(path).display().to_string();
    program(&place, "tools/bin/server", &format!("#!/bin/sh\nexec {SCRIPTED} \"$@\"\n"));
    let server = granted(&place, "tools/bin/server", "")
        .env("MY_CERT_FILE", &text("certificates/own.pem"))
        .env("PYTHONPATH", &format!("{}:{}", text("library"), text("home")));
    let daemon = Setup::with(server).start_in(&place);
    expect_reached(
        &daemon,
        &place,
        &[
            ("certificates/own.pem", true),
            ("certificates/other.pem", false),
            ("library/x.py", true),
            ("home/.bashrc", false),
        ],
    );
}
