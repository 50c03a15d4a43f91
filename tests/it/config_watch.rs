//! With `watch = true`, changed configuration files are reloaded.

use std::fs;
use std::os::unix::fs::symlink;
use std::rc::Rc;
use std::time::Duration;

use crate::reload::text;
use crate::support::{Daemon, Place, Server, Setup, poll};

fn watching(servers: &[&str], place: &Rc<Place>) -> String {
    let servers: Vec<_> = servers.iter().map(|name| Server::named(name)).collect();
    format!("[daemon]\nwatch = true\n{}", text(&servers, place))
}

fn wait_servers(daemon: &Daemon, names: &[&str]) {
    daemon.wait_status("shows the servers", |status| {
        let servers = status["servers"].as_array().expect("servers").iter();
        servers.map(|one| one["name"].as_str().expect("a name")).eq(names.iter().copied())
    });
}

fn write(place: &Place, name: &str, text: &str) {
    fs::write(place.path(name), text).expect("the test's own");
}

/// Case G2.
#[test]
fn changed_file_is_applied_if_it_is_valid() {
    let place = Place::new();
    let file = place.write("changing.toml", watching(&["a"], &place));
    let daemon = Setup::new().config(file.clone()).start_in(&place);
    let before = daemon.server_pid("a");
    write(&place, "changing.toml", &watching(&["a", "b"], &place));
    wait_servers(&daemon, &["a", "b"]);
    // As editors do it.
    write(&place, "changing.toml.new", &watching(&["a", "c"], &place));
    fs::rename(place.path("changing.toml.new"), &file).expect("the test's own");
    wait_servers(&daemon, &["a", "c"]);
    let half = watching(&["a", "d"], &place);
    write(&place, "changing.toml", &half[..half.len() / 2]);
    daemon.wait_status("shows what is wrong", |status| !status["reload_refused"].is_null());
    wait_servers(&daemon, &["a", "c"]);
    write(&place, "changing.toml", &half);
    wait_servers(&daemon, &["a", "d"]);
    // It has gone for a moment only.
    fs::remove_file(&file).expect("it is there");
    write(&place, "changing.toml", &watching(&["a", "e"], &place));
    wait_servers(&daemon, &["a", "e"]);
    assert_eq!(daemon.server_pid("a"), before);
}

#[test]
fn symbolic_link_and_its_target_are_watched() {
    let place = Place::new();
    for (directory, server) in [("one", "a"), ("two", "b")] {
        fs::create_dir(place.path(directory)).expect("a fresh directory");
        write(&place, &format!("{directory}/mcpd.toml"), &watching(&[server], &place));
    }
    symlink("one", place.path("current")).expect("the test's own");
    symlink("current/mcpd.toml", place.path("link.toml")).expect("the test's own");
    let daemon = Setup::new().config(place.path("link.toml")).start_in(&place);
    wait_servers(&daemon, &["a"]);
    write(&place, "one/mcpd.toml", &watching(&["a", "c"], &place));
    wait_servers(&daemon, &["a", "c"]);
    symlink("two", place.path("next")).expect("the test's own");
    fs::rename(place.path("next"), place.path("current")).expect("the test's own");
    wait_servers(&daemon, &["b"]);
    write(&place, "two/mcpd.toml", &watching(&["d"], &place));
    wait_servers(&daemon, &["d"]);
}

/// A daemon of the default files.
fn start_by_default_file(place: &Rc<Place>) -> Daemon {
    place.write_user_config(watching(&["a"], place));
    Setup::new().without_config().start_in(place)
}

#[test]
fn directory_is_watched_as_soon_as_it_is_created() {
    let place = Place::new();
    let daemon = start_by_default_file(&place);
    let servers = |name: &str| text(&[Server::named(name)], &place);
    fs::create_dir(place.path("xdg-config/mcpd/config.d")).expect("a fresh directory");
    write(&place, "xdg-config/mcpd/config.d/b.toml", &servers("b"));
    wait_servers(&daemon, &["a", "b"]);
    write(&place, "xdg-config/mcpd/config.d/c.toml", &servers("c"));
    wait_servers(&daemon, &["a", "b", "c"]);
    fs::remove_file(place.path("xdg-config/mcpd/config.d/b.toml")).expect("it is there");
    wait_servers(&daemon, &["a", "c"]);
}

#[test]
fn default_file_is_watched_before_it_exists() {
    let place = Place::new();
    fs::create_dir_all(place.path("xdg-config/mcpd/config.d")).expect("a fresh directory");
    write(&place, "xdg-config/mcpd/config.d/a.toml", &watching(&["a"], &place));
    let daemon = Setup::new().without_config().start_in(&place);
    write(&place, "xdg-config/mcpd/config.toml", &text(&[Server::named("b")], &place));
    wait_servers(&daemon, &["b", "a"]);
}

#[test]
fn replaced_directory_is_watched() {
    let place = Place::new();
    fs::create_dir(place.path("now")).expect("a fresh directory");
    write(&place, "now/mcpd.toml", &watching(&["a"], &place));
    let daemon = Setup::new().config(place.path("now/mcpd.toml")).start_in(&place);
    fs::remove_dir_all(place.path("now")).expect("it is there");
    fs::create_dir(place.path("now")).expect("it has gone");
    write(&place, "now/mcpd.toml", &watching(&["b"], &place));
    wait_servers(&daemon, &["b"]);
    write(&place, "now/mcpd.toml", &watching(&["c"], &place));
    wait_servers(&daemon, &["c"]);
    fs::create_dir(place.path("next")).expect("a fresh directory");
    write(&place, "next/mcpd.toml", &watching(&["d"], &place));
    fs::rename(place.path("now"), place.path("before")).expect("the test's own");
    fs::rename(place.path("next"), place.path("now")).expect("the test's own");
    wait_servers(&daemon, &["d"]);
    write(&place, "now/mcpd.toml", &watching(&["e"], &place));
    wait_servers(&daemon, &["e"]);
}

#[test]
fn refused_file_stays_watched() {
    let place = Place::new();
    fs::create_dir_all(place.path("xdg-config/mcpd/config.d")).expect("a fresh directory");
    let daemon = start_by_default_file(&place);
    write(&place, "xdg-config/mcpd/config.d/w.toml", "servers = 1\n");
    daemon.wait_status("shows what is wrong", |status| !status["reload_refused"].is_null());
    write(&place, "xdg-config/mcpd/config.d/w.toml", &text(&[Server::named("b")], &place));
    wait_servers(&daemon, &["a", "b"]);
}

#[test]
fn new_file_is_read_once() {
    let place = Place::new();
    fs::create_dir_all(place.path("xdg-config/mcpd/config.d")).expect("a fresh directory");
    let daemon = start_by_default_file(&place);
    write(&place, "xdg-config/mcpd/config.d/w.toml", &text(&[Server::named("w")], &place));
    wait_servers(&daemon, &["a", "w"]);
    poll(Duration::from_secs(1), || (daemon.log().matches("reloaded: ").count() > 1).then_some(()));
    assert_eq!(daemon.log().matches("reloaded: ").count(), 1, "{}", daemon.log());
}
