//! What our own format says.

use bytes::Bytes;

use super::*;
use crate::config::interpolate::UnusableValue;
use crate::config::{AgentDirectory, NamespaceUse};
use crate::list_kind::ListKind;

#[test]
fn an_empty_file_is_an_empty_daemon() {
    for text in ["", "\n", "# only a comment", "\u{feff}", "[servers]", "[daemon]\n[defaults]\n"] {
        let loaded = load_text("/c.toml", text).expect("fine");
        assert_eq!(loaded.config.daemon, DaemonConfig::default());
        assert!(loaded.config.servers.is_empty() && loaded.hint.is_none() && loaded.warnings.is_empty());
    }
}

#[test]
fn every_key_is_read() {
    let server = server(
        "[daemon]\nnaming = '{tool}'\n[defaults]\npass_env = ['B', 'A']\ncall_timeout = '1m'\n[servers.my-server]\n\
         command = '~/bin/${NAME}'\nargs = ['-y', '$${x}']\nenv = { T = '${TOKEN}', 'A.B' = '' }\n\
         pass_env = ['C', 'A']\ncwd = '~/n'\nroots = ['~/r', 'file:///${NAME}']\nallow = ['read_*']\ndeny = ['read_x']\nhandshake_timeout = '500ms'\n",
    );
    let launch = program(&server);
    assert_eq!(&*server.name, "my-server");
    assert_eq!(launch.command, "/home/u/bin/value");
    assert_eq!(launch.args, ["-y", "${x}"]);
    assert_eq!(launch.env["T"], "hunter2");
    assert_eq!(launch.env["A.B"], "");
    assert_eq!(launch.pass_env, ["A", "B", "C"]);
    assert_eq!(launch.cwd.as_deref(), Some(Path::new("/home/u/n")));
    assert_eq!(launch.roots, ["/home/u/r", "file:///value"]);
    let permits = |tool| server.policy.permits(ListKind::Tools, tool, None);
    assert!(permits("read_y") && !permits("read_x") && !permits("list"));
    assert_eq!(
        (server.settings.handshake_timeout, server.settings.call_timeout),
        (Duration::from_millis(500), Duration::from_secs(60))
    );
}

#[test]
fn each_kind_has_rules_of_its_own() {
    let server = server(
        "[servers.a]\ncommand = 'x'\ndeny = ['w*']\nexpose = ['tools', 'resources']\ntools.read_only = true\n\
         [servers.a.prompts]\nallow = ['p']\n[servers.a.resources]\nallow = ['file:*']\ndeny = ['*.key']",
    );
    let reading = Bytes::from_static(br#"{"annotations":{"readOnlyHint":true}}"#);
    for (kind, key, permitted) in [
        (ListKind::Tools, "r", true),
        (ListKind::Tools, "w", false),
        (ListKind::Prompts, "p", false),
        (ListKind::Resources, "file:///a", true),
        (ListKind::Resources, "file:///a.key", false),
        (ListKind::Templates, "file:///{+path}", true),
        (ListKind::Templates, "http://{host}", false),
    ] {
        assert_eq!(server.policy.permits(kind, key, Some(&reading)), permitted, "{kind:?} {key}");
    }
    assert!(!server.policy.permits(ListKind::Tools, "r", None));
}

#[test]
fn extensions_are_exposed_only_by_name_where_there_are_rules() {
    let exposed = |rules: &str| {
        let policy = server(&format!("[servers.a]\ncommand = 'x'\n{rules}")).policy;
        ["io.modelcontextprotocol/skills", "io.example/x"].map(|id| policy.permits_extension(id))
    };
    for rules in ["", "deny = []", "skills.deny = ['skill://x']"] {
        assert_eq!(exposed(rules), [true, true], "{rules}");
    }
    for rules in
        ["deny = ['x']", "allow = ['*']", "expose = ['tools']", "tools.read_only = true", "prompts.deny = ['x']"]
    {
        assert_eq!(exposed(rules), [false, false], "{rules}");
    }
    assert_eq!(exposed("expose = ['skills']\ndeny = ['x']"), [true, false]);
    assert_eq!(exposed("expose = ['io.example/x', 'io.modelcontextprotocol/skills']"), [true, true]);
}

#[test]
fn skill_rules_apply_to_everything_in_the_directory_of_a_skill() {
    let policy = server(
        "[servers.a]\ncommand = 'x'\n[servers.a.skills]\nallow = ['*/refunds', 'skill://git/SKILL.md']\ndeny = ['skill://acme/secret']",
    );
    for (uri, permitted) in [
        ("skill://refunds/SKILL.md", true),
        ("skill://acme/billing/refunds/examples/email.md", true),
        ("skill://git", true),
        ("skill://git/x/y.md", true),
        ("skill://gitx/SKILL.md", false),
        ("skill://other/SKILL.md", false),
        ("skill://acme/secret/refunds/SKILL.md", false),
        ("skill://refunds/../acme/secret/SKILL.md", false),
        ("file:///other", true),
    ] {
        let policy = &policy.policy;
        assert_eq!(policy.permits(ListKind::Resources, uri, None), permitted, "{uri}");
        assert_eq!(policy.permits(ListKind::Skills, uri, None), permitted && uri.starts_with("skill"), "{uri}");
    }
}

#[test]
fn resources_of_an_exposed_extension_are_exposed_with_it() {
    let policy = |rules: &str| server(&format!("[servers.a]\ncommand = 'x'\n{rules}")).policy;
    let permits = |rules: &str, uri: &str| policy(rules).permits(ListKind::Resources, uri, None);
    assert!(permits("expose = ['tools', 'skills']", "skill://a/SKILL.md"));
    assert!(!permits("expose = ['tools', 'skills']", "ui://a") && !permits("expose = ['skills']", "file:///a"));
    assert!(permits("expose = ['ui']", "ui://a") && !permits("expose = ['ui']\nresources.deny = ['ui:*']", "ui://a"));
}

#[test]
fn unset_timeouts_are_the_defaults() {
    let server = server(OK);
    assert_eq!(
        (server.settings.handshake_timeout, server.settings.call_timeout),
        (Duration::from_secs(30), Duration::from_secs(300))
    );
}

#[test]
fn each_tool_has_the_limit_of_the_first_pattern_that_matches_its_servers_own_first() {
    let (ms, minute) = (Duration::from_millis, Duration::from_secs(60));
    let server = server(
        "[defaults]\ntool_timeouts = { '*_long' = '9m', 'b*' = '7m' }\ncall_timeout = '1m'\n[servers.a]\ncommand='x'\n\
         [servers.a.tool_timeouts]\n'a_*' = '2m'\n'a_x' = '3m'\n'[c-e]' = '40ms'\n",
    );
    let silence = |tool| server.settings.call_limit(tool).progress_timeout;
    for (tool, expected) in [("a_x", 2), ("a_long", 2), ("b_long", 9), ("bx", 7), ("x", 1), ("A_x", 1)] {
        assert_eq!(silence(tool), expected * minute, "{tool}");
    }
    assert_eq!(silence("d"), ms(40));
    assert_eq!(server.settings.call_limit("d").total, 60 * minute);
    assert_eq!(server.settings.request_limit().progress_timeout, minute);
}

#[test]
fn the_hard_limit_is_above_all_and_where_nobody_has_set_it_shortens_none() {
    let limit = |text: &str, tool: &str| {
        let limit = server(&format!("{text}\n[servers.a]\ncommand = 'x'\ntool_timeouts = {{ t = '2h' }}"))
            .settings
            .call_limit(tool);
        (limit.progress_timeout.as_secs(), limit.total.as_secs())
    };
    assert_eq!(limit("", "t"), (7200, 7200));
    assert_eq!(limit("", "other"), (300, 7200));
    assert_eq!(limit("[defaults]\ncall_timeout = '3h'", "other"), (10800, 10800));
    assert_eq!(limit("[defaults]\ncall_timeout_max = '1m'", "t"), (60, 60));
    assert_eq!(limit("[defaults]\ncall_timeout_max = '1m'", "other"), (60, 60));
}

#[test]
fn servers_stay_in_file_order() {
    let loaded = load_text("/c.toml", "[servers.z]\ncommand='x'\n[servers.a]\ncommand='x'\n[servers.m]\ncommand='x'");
    let names: Vec<_> = loaded.expect("fine").config.servers.iter().map(|server| server.name.to_string()).collect();
    assert_eq!(names, ["z", "a", "m"]);
}

#[test]
fn sizes_are_bytes() {
    for (text, bytes) in
        [("65536", 65536), ("'64KiB'", 65536), ("'1 MiB'", 1 << 20), ("'1GiB'", 1 << 30), ("'70000'", 70000)]
    {
        let loaded = load_text("/c.toml", &format!("[daemon]\nmax_message = {text}")).expect(text);
        assert_eq!(loaded.config.daemon.max_message_bytes, bytes);
    }
}

#[test]
fn limits_of_a_server_come_before_those_of_all() {
    let limit = |max| Limit { max: Some(max), is_default: false };
    let defaults = (Limit { max: None, is_default: true }, Limit { max: Some(4096), is_default: true }, 100);
    for (text, expected) in [
        (format!("[defaults]\n{OK}"), defaults),
        (format!("[defaults]\nmemory_max = '1GiB'\ntasks_max = 64\n{OK}"), (limit(1 << 30), limit(64), 100)),
        (format!("[defaults]\nmemory_max = '1GiB'\n{OK}memory_max = '1024GiB'"), (limit(1 << 40), defaults.1, 100)),
        (format!("[defaults]\ntasks_max = 64\n{OK}tasks_max = 'none'"), (defaults.0, Limit::NONE, 100)),
        (
            format!("[defaults]\nmemory_max = 'none'\ncpu_weight = 7\n{OK}tasks_max = 4096"),
            (Limit::NONE, defaults.1, 7),
        ),
    ] {
        let settings = server(&text).settings;
        assert_eq!((settings.memory_max, settings.tasks_max, settings.cpu_weight), expected, "{text}");
    }
    check(
        "[defaults]\nmax_message = 'none'",
        &["2:15 `max_message` is no size: a number with `KiB`, `MiB` or `GiB` is one"],
    );
    check("[defaults]\nmemory_max = '1KiB'", &["2:14 `memory_max` must be from 1MiB to 1024GiB | …\"1GiB\"`"]);
    check(
        "[defaults]\ntasks_max = 0",
        &["2:13 `tasks_max` must be an absolute number from 1 to 4194304 | …`tasks_max = 4096`"],
    );
}

#[test]
fn number_of_concurrent_calls_is_read_and_bounded() {
    for (text, expected) in [
        (OK.to_owned(), None),
        (format!("[defaults]\nmax_concurrent = 256\n{OK}"), Some(256)),
        (format!("[defaults]\nmax_concurrent = 4\n{OK}max_concurrent = 1"), Some(1)),
    ] {
        assert_eq!(server(&text).settings.max_concurrent, expected, "{text}");
    }
    for wrong in [0, 257] {
        check(
            &format!("[defaults]\nmax_concurrent = {wrong}"),
            &["2:18 `max_concurrent` must be an absolute number from 1 to 256 | …`max_concurrent = 1`"],
        );
    }
}

#[test]
fn call_log_settings_are_read() {
    let loaded = load_text("/c.toml", &format!("[daemon]\ncall_log = '~/${{NAME}}.jsonl'\n{OK}log_arguments = true"))
        .expect("fine");
    assert_eq!(loaded.config.daemon.call_log.as_deref(), Some(Path::new("/home/u/value.jsonl")));
    assert!(loaded.config.servers[0].settings.log_arguments && !server(OK).settings.log_arguments);
    check("[daemon]\ncall_log = 'x'", &["2:12 `call_log` must be an absolute path | …, or begin it with `/`"]);
    check("[daemon]\ncall_log = ''", &["2:12 `call_log` is empty | …, or begin it with `/`"]);
    check(
        "[daemon]\ncall_log = '${file:/c.toml}'",
        &["2:12 `call_log` cannot come from a file or a credential | …, or begin it with `/`"],
    );
    check("[daemon]\ncall_log = '/${NONE}'", &["2:12 `call_log` cannot be filled in: …NONE… | …"]);
}

#[test]
fn endpoint_of_a_collector_is_a_url() {
    for (text, expected) in [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318"),
        ("https://${NAME}.example.org/otlp", "https://value.example.org/otlp"),
        ("unix:/run/otel.sock", "unix:/run/otel.sock"),
    ] {
        let loaded = load_text("/c.toml", &format!("[daemon]\notlp_endpoint = '{text}'")).expect("fine");
        assert_eq!(loaded.config.daemon.otlp_endpoint.as_deref(), Some(expected), "{text}");
    }
    let help = "write `otlp_endpoint = \"http://127.0.0.1:4318\"`";
    for (text, complaint) in [
        ("localhost:4318", "does not begin with `http://`, `https://` or `unix:`"),
        ("http://u:p@x.org", "has a user name or a password"),
        ("", "is empty"),
        ("http://${file:/c.toml}", "cannot come from a file or a credential"),
        ("http://${NONE}", "cannot be filled in: …NONE…"),
    ] {
        let text = format!("[daemon]\notlp_endpoint = '{text}'");
        check(&text, &[&format!("2:17 `otlp_endpoint` {complaint} | {help}")]);
    }
}

#[test]
fn programs_print_only_what_a_start_needs() {
    let help = "cannot have a `${cmd:…}` | use it in `args`, `env`, `url` or `headers`";
    check("[daemon]\ncall_log = '/${cmd:x}'", &[&format!("2:12 `call_log` {help}")]);
    check("[daemon]\notlp_endpoint = 'http://${cmd:x}'", &[&format!("2:17 `otlp_endpoint` {help}")]);
    let text = "[servers.a]\ncommand = '${cmd:x}'\ncwd = '/${cmd:x}'\nroots = ['/${cmd:x}']\nargs = ['${cmd:x']";
    let lines = ["2:11 `command`", "3:7 `cwd`", "4:10 `roots`"].map(|place| format!("{place} {help}"));
    check(text, &[&lines[0], &lines[1], &lines[2], "5:9 `${` is never closed | …"]);
    let text = "[servers.a]\nurl = 'https://x.org/?k=${cmd:x}'\nheaders = { A = '${cmd:x y}' }\nca_file = '/${cmd:x}'\n\
                oauth = { client_id = '${cmd:x}' }";
    check(text, &[&format!("4:11 `ca_file` {help}"), &format!("5:23 `client_id` {help}")]);
}

#[test]
fn launches_with_the_same_programs_are_equal_whatever_these_have_printed() {
    let text = |program: &str| {
        format!(
            "[servers.a]\nurl = 'https://x.org/?k=${{cmd:{program}}}'\nheaders = {{ A = '${{cmd:{program}}}' }}\n\
             [servers.b]\ncommand = 'x'\nargs = ['${{cmd:{program}}}']\nenv = {{ T = '-${{cmd:{program}}}' }}"
        )
    };
    let launches = |program: &str| -> Vec<Launch> {
        let loaded = load_text("/c.toml", &text(program)).expect("fine");
        loaded.config.servers.into_iter().map(|server| server.launch.expect("defined")).collect()
    };
    for (index, launch) in launches("p 1").into_iter().enumerate() {
        let mut outputs = CommandOutputs::default();
        outputs.add(&launch.commands()[0], "printed".to_owned());
        let started = launch.with_outputs(&outputs).expect("usable");
        if let Some(program) = started.program() {
            assert_eq!((&*program.args[0], &*program.env["T"]), ("printed", "-printed"));
            assert_eq!(program.secrets.masked("is printed"), "is …");
        }
        if let Some(remote) = started.remote() {
            remote.rotating.read_again(&outputs).expect("usable");
            assert_eq!((&*remote.url, &*remote.latest_headers()["A"]), ("https://x.org/?k=printed", "printed"));
            assert_eq!(remote.secrets.masked("is printed"), "is …");
        }
        assert_eq!(launches("p 1")[index], launch);
        assert_ne!(launches("p 2")[index], launch);
    }
}

#[test]
fn an_undefined_name_fails_its_server_alone() {
    let text = "[servers.a]\ncommand = 'x'\nenv = { T = '${NONE}' }\n[servers.b]\ncommand = 'x'\n[servers.c]\ncommand = '${E:-}'\n\
                [servers.d]\ncommand = 'x'\ncwd = '${NAME}'\n[servers.e]\ncommand = 'x'\nroots = ['${NAME}']";
    let loaded = load_text("/c.toml", text).expect("the rest holds");
    let launches: Vec<_> = loaded.config.servers.iter().map(|server| server.launch.as_ref().map(|_| ())).collect();
    assert_eq!(launches[0], Err(&UnusableValue::Variable("NONE".to_owned())));
    assert_eq!(launches[1], Ok(()));
    assert_eq!(launches[2].unwrap_err().to_string(), "`command` is empty after its `${…}` are expanded");
    assert_eq!(launches[3].unwrap_err().to_string(), "`cwd` is not an absolute path after its `${…}` are expanded");
    assert!(launches[4].unwrap_err().to_string().starts_with("`roots` has an entry that is neither an absolute path"));
}

#[test]
fn an_instance_for_a_directory_is_run_there() {
    let text = "[servers.a]\ncommand = 'x'\nargs = ['--root=${agent:cwd}/src', '$${agent:cwd}']\nsharing = 'workspace'";
    let config = server(text);
    let at = |directory| config.at(&directory).launch;
    let config_there = config.at(&AgentDirectory::Own("/p".into()));
    let launch = program(&config_there);
    assert_eq!(launch.args, ["--root=/p/src", "${agent:cwd}"]);
    assert_eq!(launch.cwd.as_deref(), Some(Path::new("/p")));
    assert_eq!(
        at(AgentDirectory::Unknown).expect_err("it is not known").to_string(),
        "`${agent:cwd}` has no value: the agent has to state its working directory in `_meta[\"mcpd/cwd\"]`"
    );
    for (more, directory, expected) in [
        ("", AgentDirectory::Refused, Some(UnusableValue::RefusedDirectory)),
        ("", AgentDirectory::Guest("/p".into()), Some(UnusableValue::GuestSandbox)),
        ("sandbox = 'files'", AgentDirectory::Guest("/p".into()), None),
    ] {
        let config = server(&format!("{text}\n{more}")).at(&directory);
        assert_eq!(config.launch.as_ref().err(), expected.as_ref(), "{directory:?}");
        assert_eq!(config.settings.sandbox.namespaces == NamespaceUse::Require, directory.path().is_some());
    }
    let by_session = server("[servers.a]\ncommand = 'x'\nsharing = 'session'");
    for directory in [AgentDirectory::Refused, AgentDirectory::Guest("/p".into())] {
        assert_eq!(program(&by_session.at(&directory)).cwd, None, "{directory:?}");
    }
    let below = server("[servers.a]\ncommand = 'x'\ncwd = '${agent:cwd}/sub'\nsharing = 'session'");
    assert_eq!(program(&below.at(&AgentDirectory::Own("/p".into()))).cwd.as_deref(), Some(Path::new("/p/sub")));
    let shared = server("[servers.a]\ncommand = '${agent:cwd}/x'");
    assert!(shared.launch.expect_err("for whom?").to_string().contains("needs `sharing = \"workspace\"`"));
}
