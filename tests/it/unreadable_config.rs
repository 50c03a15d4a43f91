//! Unusable configuration files are refused in bounded time and memory, with name and reason.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use rustix::fs::{CWD, Mode, mkfifoat};

use crate::support::{Agent, Place, Ran, SCRIPTED, Server, Setup, quoted, skipped};

fn serve(place: &Place, files: &[&Path]) -> Ran {
    let files = files.iter().flat_map(|file| ["--config", file.to_str().expect("text")]);
    // More memory than an idle daemon needs, and less than some of these files would take. The 10 s are CPU time.
    let mut command = place.command("sh");
    command.args(["-c", "ulimit -v 400000 -t 10; exec \"$@\"", "sh", crate::support::MCPD, "serve"]).args(files);
    let ran = crate::support::run(command.arg("--runtime-dir").arg(place.runtime_dir()));
    assert!(!place.path("run/mcp.sock").exists(), "a socket was made: {ran}");
    ran
}

fn expect_refused(place: &Place, file: &Path, reason: &str) {
    let ran = serve(place, &[file]).expect_code(2);
    assert!(ran.stderr.contains(file.to_str().expect("text")) && ran.stderr.contains(reason), "no {reason}: {ran}");
    assert!(ran.stderr.len() < 50_000 && ran.stdout.is_empty(), "{} bytes", ran.stderr.len());
}

/// Case G8.
#[test]
fn special_or_oversized_file_is_refused_at_once() {
    let place = Place::new();
    let fifo = place.path("fifo.toml");
    mkfifoat(CWD, &fifo, Mode::RWXU).expect("the test's own directory is writable");
    expect_refused(&place, &fifo, "no regular file");
    expect_refused(&place, &place.path("tmp"), "no regular file");
    expect_refused(&place, Path::new("/dev/zero"), "no regular file");
    let (one, other) = (place.path("one.toml"), place.path("other.toml"));
    symlink(&one, &other).and_then(|()| symlink(&other, &one)).expect("links");
    expect_refused(&place, &one, "symbolic links");
    let huge = place.path("huge.toml");
    File::create(&huge).and_then(|file| file.set_len(1 << 30)).expect("a file with a hole");
    expect_refused(&place, &huge, "larger than");
    let secret = place.write("secret.toml", "");
    fs::set_permissions(&secret, Permissions::from_mode(0o000)).expect("the test's own");
    match File::open(&secret) {
        Ok(_) => skipped("this user reads every file"),
        Err(_) => expect_refused(&place, &secret, "ermission denied"),
    }
}

/// Case G8.
#[test]
fn large_or_deeply_nested_file_is_refused_briefly() {
    let place = Place::new();
    let mebibyte = |unit: &str| unit.repeat((1 << 20) / unit.len());
    for (name, text, reason) in [
        ("keys.toml", mebibyte("[x]\n"), "x"),
        (
            "errors.toml",
            (0..20_000).map(|n| format!("unknown_key_{n} = \"{}\"\n", "x".repeat(30))).collect(),
            "unknown key",
        ),
        ("line.toml", format!("[servers.a]\ncommand = [\"{}\"]\n", mebibyte("x")), "command"),
        ("deep.toml", format!("a = {}", mebibyte("[")), "deep.toml:1:"),
        ("dots.toml", format!("{} = 1", mebibyte("a.") + "a"), "dots.toml:1:"),
        ("deep.json", mebibyte("["), "deep.json:1:"),
        ("tables.json", mebibyte("{\"mcpServers\":"), "tables.json:1:"),
        (
            "text.json",
            format!("{{\"mcpServers\": {{\"a\": {{\"command\": 7, \"args\": [\"{}\"]}}}}}}", mebibyte("x")),
            "command",
        ),
    ] {
        let file = place.write(name, text);
        expect_refused(&place, &file, reason);
    }
}

#[test]
fn configuration_of_a_mebibyte_that_holds_is_served() {
    let place = Place::new();
    let filler = format!("# {}\n", "x".repeat(97)).repeat((1 << 20) / 100);
    let file = place.write("large.toml", filler + &Server::named("s").flags("--bare --tool one").toml(&place));
    let daemon = Setup::new().config(file).start_in(&place);
    assert_eq!(Agent::ready(&daemon).tools(), ["s__one"]);
}

/// Case G5.
#[test]
fn server_defined_in_two_files_is_refused_with_both_places() {
    let place = Place::new();
    let journal = place.path("s.journal");
    let toml = format!("[servers.s]\ncommand = {}\nargs = [\"--journal\", {}]\n", quoted(SCRIPTED), quoted(&journal));
    let ours = [place.write("1.toml", &toml), place.write("2.toml", format!("\n\n{toml}"))];
    let theirs = place.write("3.json", "{\n  \"mcpServers\": { \"s\": { \"command\": \"true\" } }\n}");
    for (first, second, line) in [(&ours[0], &ours[1], 3), (&ours[0], &theirs, 2), (&theirs, &ours[1], 3)] {
        let ran = serve(&place, &[first, second]).expect_code(2);
        for place in [format!("{}:{line}:", second.display()), format!("{}:", first.display())] {
            assert!(ran.stderr.contains(&place), "no {place}: {ran}");
        }
        assert!(!journal.exists(), "a server was started");
    }
}

/// Case G7.
#[test]
fn missing_secret_fails_its_server_only_and_is_named() {
    let place = Place::new();
    let missing = place.path("no-such-file");
    let by_file = Server::named("file").env("T", &format!("${{file:{}}}", missing.display()));
    let by_cred = Server::named("cred").env("T", "${cred:no-such-credential}");
    let by_arg = Server::named("arg").arg("--server-name").arg("${NO_SUCH_VARIABLE_ANYWHERE}");
    let setup = [by_file, by_cred, by_arg].into_iter().fold(Setup::new(), Setup::server);
    let setup = setup.variable("CREDENTIALS_DIRECTORY", place.path("tmp").to_str().expect("text"));
    let daemon = setup.server(Server::named("good").flags("--bare --tool one")).start_in(&place);
    for (server, missing) in
        [("file", "no-such-file"), ("cred", "no-such-credential"), ("arg", "NO_SUCH_VARIABLE_ANYWHERE")]
    {
        let row = daemon.row(server);
        assert_eq!(row["state"], "failed");
        assert!(row["reason"].to_string().contains(missing), "{row}");
        assert!(daemon.journal(server).is_empty(), "{server} was started");
    }
    assert_eq!(Agent::ready(&daemon).tools(), ["good__one"]);
}
