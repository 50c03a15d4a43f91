//! A hostile server tries to leave its sandbox.
//!
//! - `cases`: the table of attempts, with the expected outcome for each level and kernel.
//! - `scene`: a daemon with a hostile server, and what it must not reach.
//! - `accomplice`: another user, who uses what a hostile server leaves.
//!
//! `MCPD_TEST_LANDLOCK` makes the daemon use no more than an older kernel has. What the running kernel cannot do is skipped. Processes
//! that outlive their daemon are tests of their own, in `tests/it/reaper.rs`.

mod accomplice;
mod cases;
mod scene;
#[expect(dead_code, unused_imports, reason = "the harness of the black-box tests, of which this needs a part")]
#[path = "../it/support/mod.rs"]
mod support;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::{Value, json};

use self::cases::{Kernel, cases};
use self::scene::{Level, Scene};
use self::support::{
    Agent, NO_NAMESPACES, Place, SCRIPTED, Server, Setup, kernel_has_landlock, print_line, quoted, result, skipped,
    system_has_namespaces,
};

/// The versions of Landlock that the suite runs with.
const ABIS: [u8; 5] = [1, 2, 3, 5, 6];

fn without_namespaces(abis: &[u8]) -> impl Iterator<Item = Kernel> {
    abis.iter().map(|abi| Kernel { abi: *abi, has_namespaces: false })
}

/// Makes every attempt at this level on each kernel, and fails if an outcome is not the expected one.
fn run(level: Level, kernels: impl IntoIterator<Item = Kernel>) {
    let mut wrong = Vec::new();
    for kernel @ Kernel { abi, has_namespaces } in kernels {
        if !kernel_has_landlock(abi) {
            skipped(&format!("the kernel has no Landlock of version {abi}"));
            continue;
        }
        let mut scene = Scene::new(level, kernel);
        let (mut counts, mut open) = ([0; 3], BTreeSet::new());
        for case in &cases(&scene, level) {
            let outcome = scene.attempt(&case.arguments);
            if let Some(reason) = outcome.strip_prefix("skipped: ") {
                skipped(&format!("{}: {reason}", case.name));
                counts[2] += 1;
                continue;
            }
            let is_permitted = outcome == "permitted";
            counts[usize::from(is_permitted)] += 1;
            open.extend(case.access().filter(|_| is_permitted));
            let expected = case.expected(level, kernel);
            if expected.is_some_and(|expected| expected != is_permitted) && !scene::is_denied_by_yama(case, level) {
                wrong.push(format!("{level:?} on {kernel:?}: {}: {outcome}", case.name));
            }
        }
        let [denied, permitted, skipped] = counts;
        print_line(&format!("{level:?} on {kernel:?}: {denied} denied, {permitted} permitted, {skipped} skipped"));
        if level == Level::Files {
            let sandbox = &scene.daemon.row("hostile")["sandbox"];
            let reported: BTreeSet<_> =
                sandbox["not_enforced"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            assert_eq!(open, reported, "`mcpd status` names exactly what stays open on {kernel:?}");
        }
        scene.expect_forged_call(level == Level::None || abi < 2 && !has_namespaces);
    }
    assert!(wrong.is_empty(), "unexpected outcomes:\n{}", wrong.join("\n"));
}

/// Case K2.
#[test]
fn attempts_succeed_without_a_sandbox() {
    run(Level::None, without_namespaces(&ABIS[4..]));
}

/// Cases K1 and K22.
#[test]
fn server_at_level_scope_reaches_no_other_process() {
    run(Level::Scope, without_namespaces(&ABIS));
}

/// Cases K2, K22 and K24.
#[test]
fn server_at_level_files_reaches_nothing_that_it_was_not_given() {
    run(Level::Files, without_namespaces(&ABIS[2..]));
}

/// Cases K12, K22 and K24.
#[test]
fn server_with_namespaces_reaches_nothing_that_it_was_not_given() {
    if system_has_namespaces() {
        run(Level::Files, [1, 5, 6].map(|abi| Kernel { abi, has_namespaces: true }));
    }
}

/// Case K3.
#[test]
fn links_that_a_server_leaves_give_it_nothing_at_its_next_start() {
    if kernel_has_landlock(3) {
        leave_links(false);
    } else {
        skipped("the kernel cannot enforce level `files` without namespaces");
    }
    if system_has_namespaces() {
        leave_links(true);
    }
}

/// Case K25.
#[test]
fn paths_that_are_replaced_while_a_server_starts_give_it_nothing() {
    if kernel_has_landlock(3) {
        replace_paths(false);
    } else {
        skipped("the kernel cannot enforce level `files` without namespaces");
    }
    if system_has_namespaces() {
        replace_paths(true);
    }
}

fn replace_paths(has_namespaces: bool) {
    const STARTS: usize = 15;
    let place = Place::new();
    scene::write_home(&place);
    let key = place.path("home/.ssh/id_ed25519");
    let keys = key.parent().expect("a directory");
    for name in ["stated", "project/sub"] {
        fs::create_dir_all(place.path(name)).expect("a fresh directory");
        symlink(keys, place.path(&format!("{name}.link"))).expect("a fresh link");
    }
    // It leads to what the server can replace.
    symlink(place.path("project/sub"), place.path("configured")).expect("a fresh link");
    let at_files = |name: &str, paths: &[&Path]| {
        let journal = place.write(&format!("{name}.log"), "");
        let script = format!("exec {SCRIPTED} --tool attempt --journal {}", journal.display());
        let write = json!([journal, place.path("project")]);
        let read = json!([&[Path::new(SCRIPTED).parent().expect("a directory")], paths].concat());
        let sandbox = format!("sandbox = {{ level = \"files\", read = {read}, write = {write} }}");
        Server::run_by(name, "sh").arg("-c").arg(script).line(sandbox)
    };
    let configured = at_files("configured", &[&place.path("configured"), &place.path("project/sub")]);
    let mut setup = Setup::with(at_files("stated", &[]).line("sharing = \"session\"")).server(configured);
    if !has_namespaces {
        setup = setup.variable(NO_NAMESPACES, "1");
    }
    let daemon = setup.start_in(&place);
    let attempt = |agent: &mut Agent, server: &str, path: &Path| {
        let answer = agent.call(&format!("{server}__attempt"), &json!({"do": "read", "path": path}));
        let outcome = answer["result"]["structuredContent"]["value"].as_str().map(str::to_owned);
        outcome.unwrap_or_else(|| format!("denied: {}", answer["error"]))
    };
    let replaced = ["stated", "project/sub"].map(|name| [place.path(name), place.path(&format!("{name}.link"))]);
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let done = Done(&is_done);
        scope.spawn(|| {
            while !is_done.load(Ordering::Relaxed) {
                for [path, link] in &replaced {
                    renameat_with(CWD, path, CWD, link, RenameFlags::EXCHANGE).expect("both are there");
                }
            }
        });
        for _ in 0..STARTS {
            let mut agent = Agent::working_in(&daemon, &place.path("stated"));
            for (server, path) in [("stated", &*key), ("stated", Path::new("id_ed25519")), ("configured", &*key)] {
                let outcome = attempt(&mut agent, server, path);
                assert!(outcome.starts_with("denied: "), "{server} {}: {outcome}", path.display());
            }
            daemon.client(&["restart", "configured"]);
        }
        drop(done);
    });
}

/// Ends the other thread, also if the test fails.
struct Done<'d>(&'d AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn leave_links(has_namespaces: bool) {
    let place = Place::new();
    scene::write_home(&place);
    fs::create_dir_all(place.path("project/data")).expect("a fresh directory");
    // The shell is an interpreter, so mcpd looks for a script among the arguments.
    let journal = place.write("journal", "");
    let script = format!("exec {SCRIPTED} --tool attempt --journal {}", journal.display());
    let sandbox = json!({"read": [Path::new(SCRIPTED).parent(), place.path("project/data")], "write": [journal]});
    let server = Server::run_by("hostile", "sh").arg("-c").arg(script).arg("notes");
    let server = server
        .line(format!("cwd = {}", quoted(place.path("project"))))
        .line(format!("sandbox = {{ level = \"files\", read = {}, write = {} }}", sandbox["read"], sandbox["write"]));
    let mut setup = Setup::with(server);
    if !has_namespaces {
        setup = setup.variable(NO_NAMESPACES, "1");
    }
    let daemon = setup.start_in(&place);
    let mut agent = Agent::ready(&daemon);
    let mut attempt = |arguments: &Value| {
        let answer = agent.call("hostile__attempt", arguments);
        result(&answer)["structuredContent"]["value"].as_str().expect("a text").to_owned()
    };
    let key = place.path("home/.ssh/id_ed25519");
    let private = place.path("home/.local/state/mcpd/servers/hostile");
    let (keys, home, tmp) = (key.parent().expect("a directory").display(), place.path("home"), private.join("tmp"));
    let script = format!("ln -s {} notes && rm -r data && ln -s {keys} data", key.display());
    assert_eq!(attempt(&json!({"do": "run", "argv": ["sh", "-c", script]})), "permitted");
    daemon.client(&["restart", "hostile"]).expect_code(0);
    for path in [key.clone(), place.path("project/notes"), place.path("project/data/id_ed25519")] {
        let outcome = attempt(&json!({"do": "read", "path": path}));
        assert!(outcome.starts_with("denied: "), "{}: {outcome}", path.display());
    }
    // mcpd clears the directory for temporary files at each start.
    let script = format!("rm -r {0} && ln -s {1} {0}", tmp.display(), home.display());
    assert_eq!(attempt(&json!({"do": "run", "argv": ["sh", "-c", script]})), "permitted");
    daemon.client(&["restart", "hostile"]);
    // With namespaces the link may lead to an empty directory.
    if !has_namespaces {
        daemon.wait_row("hostile", "does not start", |row| row["state"] == "backoff" || row["state"] == "failed");
    }
    assert!(key.exists(), "mcpd followed a link of the server");
}
