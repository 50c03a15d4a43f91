//! What a server process inherits: environment, descriptors, signal mask, working directory and process group.

use std::fs;

use rustix::process::geteuid;
use serde_json::{Value, json};

use crate::support::{Agent, Daemon, Place, SCRIPTED, Server, Setup, field, quoted, result, run, until};

/// What an introspecting tool of the server `a` tells.
fn tool_result(daemon: &Daemon, tool: &str, arguments: &Value) -> Value {
    let answer = Agent::ready(daemon).call(&format!("a__{tool}"), arguments);
    result(&answer)["structuredContent"].clone()
}

/// Case H7.
#[test]
fn environment_of_a_server_is_a_short_list_and_the_configured_variables() {
    let server = Server::named("a").env("OWN", "${HOME}/x").line(r#"pass_env = ["PASSED"]"#);
    let strangers = ["GITHUB_TOKEN", "SSH_AUTH_SOCK", "NOTIFY_SOCKET", "LISTEN_FDS_X", "CREDENTIALS_DIRECTORY"];
    let setup = strangers.iter().fold(Setup::with(server), |setup, name| setup.variable(name, "leak"));
    let setup =
        setup.variable("PASSED", "yes").variable("LANG", "C.UTF-8").variable("LC_TIME", "C").variable("TZ", "UTC");
    let daemon = setup
        .variable("LOGNAME", "me")
        .variable("SHELL", "/bin/sh")
        .variable("TERM", "dumb")
        .variable("USER", "me")
        .start();
    let env = tool_result(&daemon, "env", &json!({}));
    let mut names: Vec<_> = env.as_object().expect("an object").keys().map(String::as_str).collect();
    names.sort_unstable();
    let expected = [
        "HOME",
        "LANG",
        "LC_TIME",
        "LOGNAME",
        "MCPD_TEST_TAG",
        "OWN",
        "PASSED",
        "PATH",
        "SHELL",
        "TERM",
        "TMPDIR",
        "TZ",
        "USER",
        "XDG_CONFIG_HOME",
    ];
    assert_eq!(names, expected);
    assert_eq!(env["OWN"], format!("{}/x", daemon.place().path("home").display()));
    assert_eq!(env["PASSED"], "yes");
}

#[test]
fn proxies_authorities_and_version_managers_of_the_user_reach_every_server() {
    let names = [
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "ALL_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "all_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "NODE_EXTRA_CA_CERTS",
        "REQUESTS_CA_BUNDLE",
        "CURL_CA_BUNDLE",
        "PIP_CERT",
        "NVM_DIR",
        "VOLTA_HOME",
    ];
    let setup = Setup::with(Server::named("a"));
    let daemon = names.iter().fold(setup, |setup, name| setup.variable(name, &format!("/of/{name}"))).start();
    let env = tool_result(&daemon, "env", &json!({}));
    for name in names {
        assert_eq!(env[name], format!("/of/{name}"), "{name}");
    }
}

#[test]
fn password_of_a_proxy_is_masked_where_a_server_cannot_be_started() {
    let server = Server::run_by("a", "/no/such/${HTTPS_PROXY}");
    let daemon = Setup::with(server).variable("HTTPS_PROXY", "http://me:hunter2-word@proxy:3128").start();
    let place = daemon.place();
    let status = until("its failure is reported", || {
        let shown = place.client(&["status"]).stdout;
        shown.contains("/no/such/").then_some(shown)
    });
    let tool_result = [status, place.client(&["status", "--json"]).stdout, daemon.log()].concat();
    assert!(tool_result.contains("…@proxy:3128") && !tool_result.contains("hunter2-word"), "{tool_result}");
}

/// Cases D7 and H8.
#[test]
fn server_has_three_descriptors_whatever_the_daemon_inherited() {
    let daemon = Setup::with(Server::named("a")).after_shell("exec 5</dev/null 9>/dev/null").start();
    assert_eq!(tool_result(&daemon, "fds", &json!({}))["value"], json!([0, 1, 2]));
}

/// Case H8.
#[test]
fn signal_mask_of_a_server_is_empty() {
    let place = Place::new();
    let status = place.path("status");
    // A Rust program ignores SIGPIPE by itself, so a shell looks first.
    let script = format!("cat /proc/self/status > {}; exec \"$0\" \"$@\"", quoted(&status));
    let server = Server::run_by("a", "sh").arg("-c").arg(script).arg(SCRIPTED);
    // As it is in the background of a shell, and under `nohup`.
    let daemon = Setup::with(server).after_shell("trap '' HUP INT QUIT").start_in(&place);
    let text = fs::read_to_string(status).expect("written before the server started");
    for set in ["SigBlk:\t", "SigIgn:\t"] {
        let mask = text.lines().find_map(|line| line.strip_prefix(set)).expect("a line");
        let mask = u64::from_str_radix(mask, 16).expect("a mask");
        // The C library keeps the two signals behind the standard ones to itself.
        assert_eq!(mask & 0x7fff_ffff, 0, "{set}{mask:x}");
    }
    assert_eq!(tool_result(&daemon, "sigmask", &json!({}))["blocked"], "0000000000000000");
}

#[test]
fn server_runs_in_the_home_directory_or_the_configured_one() {
    let home = Server::named("a").start();
    assert_eq!(tool_result(&home, "cwd", &json!({}))["value"], home.place().path("home").to_str().expect("text"));
    let there = Server::named("a").line("cwd = \"/proc/self/../..\"").start();
    assert_eq!(tool_result(&there, "cwd", &json!({}))["value"], "/");
}

#[test]
fn its_umask_is_the_one_the_daemon_was_started_with() {
    let daemon = Setup::with(Server::named("a")).after_shell("umask 027").start();
    assert_eq!(tool_result(&daemon, "umask", &json!({}))["value"], "0027");
}

/// Case H12.
#[test]
fn arguments_are_passed_verbatim_without_a_shell() {
    let awkward = ["$(touch pwned)", "`id`", "a b", "", "*", "; true", "--", "é\n\"quoted\"", "\\"];
    let server = awkward
        .iter()
        .fold(Server::named("a").arg("--bare"), |server, arg| server.arg("--tool").arg(format!("={arg}")));
    let daemon = Setup::with(server).start();
    let pid = daemon.server_pid("a");
    let cmdline = fs::read(format!("/proc/{pid}/cmdline")).expect("it runs");
    let args: Vec<_> = cmdline.split(|byte| *byte == 0).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect();
    for arg in awkward {
        assert!(args.contains(&format!("={arg}")), "{arg:?} in {args:?}");
    }
    assert_eq!(args[0], SCRIPTED);
}

/// Case H8.
#[test]
fn server_has_a_separate_process_group_and_no_terminal() {
    let daemon = Server::named("a").start();
    let group = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("it runs");
        let (_, rest) = stat.rsplit_once(") ").expect("a name in parentheses");
        rest.split(' ').nth(2).expect("a group").to_owned()
    };
    let pid = daemon.server_pid("a");
    assert_ne!(group(pid), group(daemon.pid()));
}

#[test]
fn guard_is_one_small_process_that_shows_no_secret_and_no_command() {
    let daemon = Server::named("a").env("TOKEN", "canary-1").start();
    let guard = daemon.guard_pid("a");
    let cmdline = String::from_utf8_lossy(&fs::read(format!("/proc/{guard}/cmdline")).expect("it runs")).into_owned();
    assert!(!cmdline.contains("canary") && !cmdline.contains(SCRIPTED), "{cmdline}");
    assert_eq!(field(guard, "Threads"), "1");
    assert_eq!(field(guard, "Name"), "mcpd-guard");
}

/// Case H11.
#[test]
fn memory_of_mcpd_is_hidden_from_other_processes_of_its_user() {
    let mut daemon = Server::named("a").start();
    let reaper = daemon.family().into_iter().find(|process| process.command.starts_with("mcpd-reaper"));
    for pid in [daemon.pid(), daemon.guard_pid("a"), reaper.expect("a reaper").pid] {
        // Only a capability of root permits access.
        let drops: &[&str] = if geteuid().is_root() { &["setpriv", "--bounding-set=-all"] } else { &["env"] };
        let read = |file: &str| {
            run(daemon
                .place()
                .command(drops[0])
                .args(&drops[1..])
                .arg("head")
                .arg("-c1")
                .arg(format!("/proc/{pid}/{file}")))
        };
        for file in ["environ", "mem", "maps"] {
            let ran = read(file);
            assert!(ran.code != Some(0) && ran.stderr.contains("ermission denied"), "{file} of {pid}: {ran}");
        }
        read("stat").expect_code(0);
        let limits = fs::read_to_string(format!("/proc/{pid}/limits")).expect("it runs");
        let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size"));
        assert_eq!(core.and_then(|line| line.split_whitespace().next()), Some("0"), "{limits}");
    }
}

/// Case H11.
#[test]
fn its_core_limit_is_the_one_the_daemon_was_started_with() {
    for limit in ["0", "64"] {
        let daemon = Setup::with(Server::named("a")).after_shell(&format!("ulimit -S -c {limit}")).start();
        let ran = tool_result(&daemon, "run", &json!({"argv": ["sh", "-c", "ulimit -S -c"]}));
        assert_eq!(ran["stdout"].as_str().map(str::trim), Some(limit), "{ran}");
    }
}
