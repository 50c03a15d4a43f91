//! Runtime directories that are not private or not writable are refused with one clear line.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::process::Command;
use std::rc::Rc;

use crate::support::{Place, Ran, Server, Setup, run, skipped};

/// Serves in the place's runtime directory, as the shell finds it after `script`; it must not.
fn serve(place: &Rc<Place>, script: &str) -> Ran {
    let setup = Setup::with(Server::named("a")).after_shell(script);
    run(&mut setup.command(place))
}

/// Fails unless mcpd refused the directory in one line with these words, started nothing and used no
/// other directory.
#[track_caller]
fn expect_refusal(place: &Place, ran: Ran, words: &str) {
    let ran = ran.expect_code(1);
    let lines: Vec<_> = ran.stderr.lines().collect();
    let dir = place.runtime_dir();
    assert!(lines.len() == 1 && lines[0].contains(words) && lines[0].contains(dir.to_str().expect("text")), "{ran}");
    assert_eq!(fs::read_to_string(place.path("a.journal")).expect("the test made it"), "", "nothing was started");
    for elsewhere in ["tmp", "xdg-run"] {
        assert_eq!(fs::read_dir(place.path(elsewhere)).expect("a directory").count(), 0, "{elsewhere} was used");
    }
}

fn with_mode(mode: u32) -> Rc<Place> {
    let place = Place::new();
    fs::create_dir(place.runtime_dir()).expect("a fresh directory");
    fs::set_permissions(place.runtime_dir(), Permissions::from_mode(mode)).expect("one's own directory");
    place
}

/// Case D3.
#[test]
fn directory_that_others_may_enter_is_refused() {
    for mode in [0o777, 0o1777, 0o755, 0o710, 0o704] {
        let place = with_mode(mode);
        expect_refusal(&place, serve(&place, ":"), "open to others");
    }
}

/// Case D3.
#[test]
fn link_or_a_file_in_its_place_is_refused() {
    let place = Place::new();
    symlink(place.path("tmp"), place.runtime_dir()).expect("a fresh link");
    expect_refusal(&place, serve(&place, ":"), "is not a directory");
    let place = Place::new();
    place.write("run", "");
    expect_refusal(&place, serve(&place, ":"), "");
}

/// Case D3.
#[test]
fn directory_of_another_user_is_refused() {
    if !rustix::process::getuid().is_root() {
        return skipped("only root can give a directory away");
    }
    let place = with_mode(0o700);
    chown(place.runtime_dir(), Some(65_534), None).expect("root may");
    expect_refusal(&place, serve(&place, ":"), "belongs to user 65534");
}

/// Cases D3 and F5.
#[test]
fn directory_that_cannot_be_written_is_refused() {
    if run(Command::new("unshare").args(["--mount", "true"])).code != Some(0) {
        return skipped("no file system can be mounted");
    }
    for (options, words) in [("ro", "Read-only"), ("nr_inodes=1", "No space")] {
        let place = with_mode(0o700);
        let dir = place.runtime_dir();
        let mount = format!("mount -t tmpfs -o mode=700,{options} none {}", dir.display());
        let script = format!(r#"exec unshare --mount sh -c '{mount}; exec "$0" "$@"' "$0" "$@""#);
        expect_refusal(&place, serve(&place, &script), words);
    }
}
