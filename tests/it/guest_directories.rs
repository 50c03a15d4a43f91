//! Directories that agents of other users state, and links in directories that any agent states.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{
    Agent, Daemon, NO_NAMESPACES, Place, Server, Setup, code, connect_as, kernel_has_landlock, quoted, result, skipped,
    system_has_namespaces,
};

const GUEST: u32 = 54_321;

fn at_files(place: &Place, name: &str) -> Server {
    let sandbox =
        format!("sandbox = {{ level = \"files\", write = [{}] }}", quoted(place.path(&format!("{name}.journal"))));
    Server::named(name).line(sandbox)
}

/// A daemon with a profile for the guest. `None` if the test may not act as another user.
fn for_guests(place: &std::rc::Rc<Place>, roots: &str, has_namespaces: bool) -> Option<Daemon> {
    if !rustix::process::geteuid().is_root() {
        skipped("only root can connect as somebody else");
        return None;
    }
    for directory in ["shared/project", "private"] {
        fs::create_dir_all(place.path(directory)).expect("a fresh directory");
    }
    let by_directory = |server: Server| server.line("sharing = \"workspace\"").env("WHERE", "${agent:cwd}");
    let mut setup = Setup::with(by_directory(at_files(place, "fenced")))
        .server(by_directory(Server::named("open")))
        .server(Server::named("own").line("sharing = \"session\""))
        .server(Server::named("one"))
        .head(&format!("[profiles.guests]\nallow_uids = [{GUEST}]\n{roots}"));
    if !has_namespaces {
        setup = setup.variable(NO_NAMESPACES, "1");
    }
    Some(setup.start_in(place))
}

fn guest(daemon: &Daemon, directory: &Path) -> Agent {
    let socket = daemon.profile_socket("guests");
    let mut agent = Agent::from_stream(connect_as(GUEST, &socket).expect("the mode lets it"));
    result(&agent.initialize_with("2025-11-25", &json!({}), &json!({"mcpd/cwd": directory})));
    agent
}

/// Where the server works for this agent, or why it does not.
fn place_of_work(agent: &mut Agent, server: &str) -> String {
    let answer = agent.call(&format!("{server}__cwd"), &json!({}));
    match &answer["error"] {
        Value::Null => result(&answer).to_string(),
        error => {
            assert_eq!(code(&answer), -31004, "{answer}");
            error["message"].as_str().expect("a message").to_owned()
        }
    }
}

/// Case K26.
#[test]
fn guest_chooses_directories_below_the_roots_of_its_profile_only() {
    if !system_has_namespaces() {
        return;
    }
    let place = Place::new();
    let roots = format!("workspace_roots = [{}]", quoted(place.path("shared")));
    let Some(daemon) = for_guests(&place, &roots, true) else { return };
    let project = place.path("shared/project");
    let mut agent = guest(&daemon, &project);
    assert!(place_of_work(&mut agent, "fenced").contains(project.to_str().expect("text")));
    let refused = place_of_work(&mut agent, "open");
    assert!(refused.contains("chooses its working directory, which needs `sandbox = \"files\"`"), "{refused}");
    for server in ["own", "one"] {
        let elsewhere = place_of_work(&mut agent, server);
        assert!(!elsewhere.contains("shared") && elsewhere.contains('/'), "{server}: {elsewhere}");
    }
    for directory in ["private", "shared/../private"] {
        let mut agent = guest(&daemon, &place.path(directory));
        let refused = place_of_work(&mut agent, "fenced");
        assert!(refused.contains("add `workspace_roots` with a directory above it to the profile"), "{refused}");
        assert!(!place_of_work(&mut agent, "one").contains("private"));
    }
    // Two users in one directory share no instance: each has its own restrictions.
    let mut own = Agent::working_in(&daemon, &project);
    assert!(place_of_work(&mut own, "open").contains("shared/project"));
    assert!(place_of_work(&mut own, "fenced").contains("shared/project"));
    let status = daemon.row("fenced");
    let works_there = |one: &&Value| one["purpose"].as_str().is_some_and(|purpose| purpose.ends_with("shared/project"));
    let there = status["instances"].as_array().expect("instances").iter().filter(works_there).count();
    assert_eq!(there, 2, "{status}");
}

/// Case K26.
#[test]
fn guest_chooses_no_directory_without_roots_or_without_namespaces() {
    let place = Place::new();
    let Some(daemon) = for_guests(&place, "", true) else { return };
    let refused = place_of_work(&mut guest(&daemon, &place.path("shared")), "fenced");
    assert!(refused.contains("may not choose this working directory"), "{refused}");
    drop(daemon);
    let place = Place::new();
    let roots = format!("workspace_roots = [{}]", quoted(place.path("shared")));
    let Some(daemon) = for_guests(&place, &roots, false) else { return };
    let refused = place_of_work(&mut guest(&daemon, &place.path("shared")), "fenced");
    assert!(refused.contains("this system permits no namespaces"), "{refused}");
}

/// Case K25.
#[test]
fn directory_of_an_agent_is_not_entered_by_a_link_that_others_can_replace() {
    if !kernel_has_landlock(3) {
        return skipped("the kernel cannot enforce level `files` without namespaces");
    }
    let place = Place::new();
    fs::create_dir_all(place.path("project/inner")).expect("a fresh directory");
    symlink("project", place.path("link")).expect("a fresh link");
    let by_session = |server: Server| server.line("sharing = \"session\"");
    let fenced = by_session(at_files(&place, "fenced")).line("cwd = \"${agent:cwd}\"");
    let setup = Setup::with(fenced).server(by_session(Server::named("open")));
    let daemon = setup.start_in(&place);
    let mut agent = Agent::working_in(&daemon, &place.path("project/inner"));
    assert!(place_of_work(&mut agent, "fenced").contains("project/inner"));
    let mut agent = Agent::working_in(&daemon, &place.path("link/inner"));
    let refused = place_of_work(&mut agent, "fenced");
    assert!(refused.contains("link`: state it without links"), "{refused}");
    assert!(place_of_work(&mut agent, "open").contains("project/inner"));
}
