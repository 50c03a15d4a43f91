//! What our own format refuses: keys, types, values.

use super::*;

#[test]
fn unknown_keys_are_errors_with_a_suggestion() {
    check(
        "[servers.a]\ncomand = 'x'\ncommand = 'x'",
        &["2:1 unknown key `comand` in `[servers.a]` | did you mean `command`?"],
    );
    check("[demon]\n", &["1:2 unknown key `demon` in the file | did you mean `daemon`?"]);
    check("[mcp_server.a]\ncommand = 'x'", &["1:2 unknown key `mcp_server` in the file | did you mean `servers`?"]);
    check("[servers.a]\ncommand='x'\nenvironment = {}", &["3:1 unknown key `environment`… | did you mean `env`?"]);
    check("[servers.a]\ncommand='x'\nCommand='y'", &["3:1 unknown key `Command`… | did you mean `command`?"]);
    check(
        "[daemon]\nxyz = 1",
        &["2:1 unknown key `xyz` in `[daemon]` | write one of `naming`, …`max_message`, …`watch`"],
    );
    check("'' = 1", &["1:1 unknown key `` in the file | write one of `daemon`, `defaults`, `servers` or `profiles`"]);
}

#[test]
fn rules_of_exposure_are_as_strict_as_the_rest() {
    let ok = "[servers.a]\ncommand = 'x'\n";
    check(&format!("{ok}expose = ['tool']"), &["3:11 `tool` is not a value of `expose` | did you mean `tools`?"]);
    check(&format!("{ok}expose = 'tools'"), &["3:10 `expose` must be a list of strings | write `expose = ['tools']`"]);
    check(&format!("{ok}exposed = []"), &["3:1 unknown key `exposed` in `[servers.a]` | did you mean `expose`?"]);
    check(
        &format!("{ok}[servers.a.tools]\nreadonly = true\n[servers.a.prompts]\ndeny = ['[']\nalow = []"),
        &[
            "4:1 unknown key `readonly` in `[servers.a.tools]` | did you mean `read_only`?",
            "6:9 `[` is no pattern: … | …",
            "7:1 unknown key `alow` in `[servers.a.prompts]` | did you mean `allow`?",
        ],
    );
    check(&format!("{ok}tools.read_only = 'yes'"), &["3:19 `read_only` must be true or false | …`read_only = true`"]);
    check(&format!("{ok}resources = []"), &["3:13 `resources` must be a table | write `resources = { deny = […"]);
}

#[test]
fn wrong_types_are_errors() {
    check("servers = 5", &["1:11 `servers` must be a table | write `[servers.NAME]`…"]);
    check("servers.a = 'npx'", &["1:13 `servers.a` must be a table | write `[servers.a]`…"]);
    check("[[servers]]\na = 1", &["1:1 `servers` must be a table | …"]);
    check("[servers.a]\ncommand = 5", &["2:11 `command` must be a string | put it in quotes: `\"5\"`"]);
    check("[servers.a]\ncommand = ['x']", &["2:11 `command` must be a string | write `command = \"x\"`"]);
    check(
        "[servers.a]\ncommand = 'x'\nargs = \"-y\"",
        &["3:8 `args` must be a list of strings | write `args = [\"-y\"]`"],
    );
    check(
        "[servers.a]\ncommand = 'x'\nargs = ['a', 8080]",
        &["3:14 each item of `args` must be a string | put it in quotes: `\"8080\"`"],
    );
    check("[servers.a]\ncommand = 'x'\nenv = ['A=1']", &["3:7 `env` must be a table | write `env = { TOKEN = …"]);
    check(
        "[servers.a]\ncommand = 'x'\n[servers.a.env]\nP = 1",
        &["4:5 variable `P` must be a string | put it in quotes: `\"…\"`"],
    );
    check(
        "[servers.a]\ncommand = 'x'\ncall_timeout = 30",
        &["3:16 `call_timeout` must be a duration in quotes | write `call_timeout = \"30s\"`"],
    );
    check(
        "[defaults]\ntool_timeouts = '10m'",
        &["2:17 `tool_timeouts` must be a table | write `tool_timeouts = { \"slow_*\" = \"10m\" }`"],
    );
    check(
        "[defaults]\ntool_timeouts = { 'slow_*' = 90 }",
        &["2:30 `\"slow_*\"` must be a duration in quotes | write `\"slow_*\" = \"90s\"`"],
    );
    check(
        "[servers.a]\ncommand = 'x'\nlog_arguments = 'yes'",
        &["3:17 `log_arguments` must be true or false | write `log_arguments = true`"],
    );
    check(
        "[servers.a]\ncommand = 'x'\ninstructions = ['x']",
        &["3:16 `instructions` must be true, false or a text | write `instructions = false`"],
    );
    check("[daemon]\ncall_log = 5", &["2:12 `call_log` must be a string | put it in quotes: `\"5\"`"]);
    check("[daemon]\nmax_message = []", &["2:15 `max_message` must be a size | write `max_message = \"10176KiB\"`"]);
    check("[daemon]\nnaming = true", &["2:10 `naming` must be a string | put it in quotes: `\"true\"`"]);
    check(
        "[daemon]\nmax_message = 1979-05-27",
        &["2:15 `max_message` must be a size | write `max_message = \"10176KiB\"`"],
    );
    check("[daemon]\nmax_message = 99999999999999999999", &["2:15 `max_message` must be a size | …"]);
    check(
        "[defaults]\nmax_instances = '5'",
        &["2:17 `max_instances` must be an absolute number from 1 to 1000 | write `max_instances = 5`"],
    );
}

#[test]
fn removed_key_is_an_error_that_states_what_applies_instead() {
    for (text, key, expected) in [
        (
            "include = ['more.toml']",
            "include",
            "1:1 unknown key `include` in the file | …`config.d`, or name it with `--config`",
        ),
        (
            "[daemon]\nmax_name_length = 60",
            "max_name_length",
            "2:1 … | remove it: it was removed in 0.2, and mcpd uses 53",
        ),
        ("[daemon]\nline_timeout = '2m'", "line_timeout", "2:1 … | …mcpd uses 1m"),
        ("[daemon]\nmax_starting = 8", "max_starting", "2:1 … | …mcpd starts 4 servers at a time"),
        ("[daemon]\ncall_history = 20", "call_history", "2:1 … | …mcpd remembers 1000 calls; `call_log` keeps more"),
        ("[daemon]\ncall_log_max = '1MiB'", "call_log_max", "2:1 … | …mcpd renames the file at 10MiB"),
        ("[defaults]\nbackoff_reset = '1s'", "backoff_reset", "2:1 … in `[defaults]` | …mcpd uses 10s"),
        ("[defaults]\nbroadcast_logs = true", "broadcast_logs", "2:1 … | …only to the agent that certainly caused it"),
        (
            "[servers.a]\ncommand = 'x'\nbackoff_reset = '1s'",
            "backoff_reset",
            "3:1 … in `[servers.a]` | …mcpd uses 10s",
        ),
        ("[profiles.p]\nmax_agents = 8", "max_agents", "2:1 … in `[profiles.p]` | …each guest may have 64 connections"),
        ("[profiles.p]\nmax_bytes = '1MiB'", "max_bytes", "2:1 … | …4 times `max_message`"),
    ] {
        check(text, &[&expected.replacen('…', &format!("unknown key `{key}`…"), usize::from(!expected.contains(key)))]);
    }
}

#[test]
fn bad_values_are_errors() {
    check("[servers.a]\ncommand = ''", &["2:11 `command` is empty | write `command = \"npx\"`"]);
    check("[servers.a]", &["1:10 server `a` has no `command` | write `command = \"npx\"`"]);
    check(
        "[daemon]\nnaming = '{server}_{tool}'",
        &["2:10 `{server}_{tool}` is not a value of `naming` | did you mean `{server}__{tool}`?"],
    );
    check("[defaults]\nsharing = 'sesion'", &["2:11 `sesion` is not a value of `sharing` | did you mean `session`?"]);
    check("[daemon]\nnaming = 'x'", &["2:10 `x` is not a value of `naming` | write one of `{server}__{tool}`, …"]);
    for count in ["0", "1001", "-1"] {
        check(
            &format!("[defaults]\nmax_instances = {count}"),
            &["2:17 `max_instances` must be an absolute number from 1 to 1000 | …"],
        );
    }
    for size in ["0", "-1", "65535", "'63KiB'", "'2GiB'", "1073741825"] {
        check(
            &format!("[daemon]\nmax_message = {size}"),
            &["2:15 `max_message` must be from 64KiB to 1GiB | …\"10176KiB\"`"],
        );
    }
    for size in ["''", "'16MB'", "'-1MiB'", "'MiB'", "'99999999999999999999'", "'99999999999999GiB'"] {
        check(&format!("[daemon]\nmax_message = {size}"), &["2:15 `max_message` is no size…"]);
    }
    check("[defaults]\ncall_timeout = '0s'", &["2:16 `call_timeout` must be longer than nothing | …`\"30s\"`…"]);
    check("[defaults]\ncall_timeout = '1000y'", &["2:16 `call_timeout` must be at most a year | …"]);
    check("[defaults]\ncall_timeout = 'soon'", &["2:16 `call_timeout` is no duration: … | …`\"30s\"`…"]);
    check(
        "[servers.a]\ncommand = 'x'\n[servers.a.tool_timeouts]\n'a[' = '1s'\nok = '0s'",
        &["4:1 `a[` is no pattern…", "5:6 `\"ok\"` must be longer than nothing | …"],
    );
    check(
        "[defaults]\ncall_timeout_max = '1m'\ncall_timeout = '61s'\ntool_timeouts = { a = '59s', b = '2m' }",
        &[
            "3:16 `call_timeout` is longer than `call_timeout_max` | shorten it, or raise `call_timeout_max`…",
            "4:34 `b` is longer than `call_timeout_max` | …",
        ],
    );
    check(
        "[defaults]\npass_env = ['A=1', '']",
        &["2:13 `A=1` cannot name a variable | …", "2:20 the name of a variable is empty | …"],
    );
    check(
        "[servers.a]\ncommand = 'x'\nenv = { '' = 'x', 'A=B' = 'x' }",
        &["3:9 the name…", "3:19 `A=B` cannot name a variable…"],
    );
    check(
        "[servers.a]\ncommand = 'x'\ndeny = ['ok', 'a[', '{a']",
        &["3:15 `a[` is no pattern…", "3:21 `{a` is no pattern…"],
    );
    check(
        "[servers.a]\ncommand = 'x'\ncwd = 'notes'",
        &["3:7 `cwd` must be an absolute path | write `cwd = \"~/some/directory\"`, or begin it with `/`"],
    );
    check(
        "[servers.a]\ncommand = 'x'\nroots = ['/ok', 'notes', 'http://x/']",
        &["3:17 a root must be an absolute path or a `file://` URI | begin…", "3:26 a root must be… | …"],
    );
    check("[servers.a]\ncommand = \"x\\u0000\"", &["2:11 `command` contains a NUL character | …"]);
    check("[servers.a]\ncommand = 'x'\nargs = ['ok', 'a ${']", &["3:15 `${` is never closed | …"]);
    check("[servers.a]\ncommand = 'x'\nargs = ['${agent:pid}']", &["3:9 `${agent:pid}` is not a valid reference…"]);
}

#[test]
fn server_names_follow_the_grammar() {
    let rule = "a name is letters A to Z, digits and `-`, with single `_` between them";
    for (name, fitted) in
        [("my server", "my-server"), ("a__b", "a_b"), ("_a_", "a"), ("@x/y", "x-y"), ("é", "server"), ("", "server")]
    {
        let expected = format!("1:10 `{name}` cannot name a server | write `{fitted}`: {rule}");
        check(&format!("[servers.'{name}']\ncommand = 'x'"), &[&expected]);
    }
}
