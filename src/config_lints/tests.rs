//! Warnings about configurations, as tables.

mod remotes;

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use super::*;
use crate::catalog::{Item, List};
use crate::config;
use crate::config::interpolate::tests::table::Table;
use crate::list_kind::ListKind;

/// Names of tools, of prompts, of resources, of templates, and of skills.
type ServerLists<'a> = [&'a [&'a str]; 5];

fn lists(offered: ServerLists<'_>) -> Lists {
    let item = |kind: ListKind, key: &str| {
        let json = Bytes::from(format!(r#"{{"{}":"{key}"}}"#, kind.key()));
        let start = json.len() - key.len() - 3;
        Item {
            key: key.into(),
            raw_key: json.slice(start..json.len() - 1),
            json,
            model_bytes: 0,
            validity: crate::validity::Validity::default(),
            fingerprint: crate::pins::Fingerprint::default(),
        }
    };
    Lists::from_fn(|kind| {
        let items = offered[kind as usize].iter().map(|key| item(kind, key)).collect();
        Arc::new(List { items, truncated: false, ..List::default() })
    })
}

/// The rows of the world beside the configuration.
const WORLD: [(&str, &str); 9] = [
    ("~", "/home/u"),
    ("PATH", "/bin:/usr/bin"),
    ("SET", "value"),
    ("/usr/bin/x", ""),
    ("/usr/bin/x mode", "755"),
    ("/home/u/data", ""),
    ("/home/u/key", "s3cret\n"),
    ("/home/u/open", "s3cret\n"),
    ("/home/u/open mode", "644"),
];

/// The warnings as `LINE:COLUMN message | help`.
fn warnings_of(rows: &[(&str, &str)], text: &str, known: &[(&str, ServerLists<'_>)]) -> Vec<String> {
    let table = WORLD.iter().chain(rows).chain([&("/c.toml", text)]).copied().collect::<Vec<_>>();
    let sources = Table::from_rows(&table);
    let loaded = config::load(&[PathBuf::from("/c.toml")], &sources).unwrap_or_else(|error| panic!("{error}"));
    let of = |server: &ServerConfig| known.iter().find(|(name, _)| *name == &*server.name).map(|(_, all)| lists(*all));
    let known = loaded.config.servers.iter().map(of).collect();
    let describe = |warning: &Diagnostic| {
        let (line, column) = warning.place();
        format!("{line}:{column} {} | {}", warning.message, warning.help.as_deref().unwrap_or_default())
    };
    advise(&loaded, &sources, known).iter().map(describe).collect()
}

/// Each expectation is the beginning of a warning, `…` standing for any text.
fn check(text: &str, known: &[(&str, ServerLists<'_>)], expected: &[&str]) {
    check_in(&[], text, known, expected);
}

fn check_in(rows: &[(&str, &str)], text: &str, known: &[(&str, ServerLists<'_>)], expected: &[&str]) {
    let warnings = warnings_of(rows, text, known);
    assert_eq!(warnings.len(), expected.len(), "{text}\n{warnings:#?}");
    for (warning, expected) in warnings.iter().zip(expected) {
        let mut rest = warning.as_str();
        for (index, part) in expected.split('…').enumerate() {
            let at = rest.find(part).filter(|at| index > 0 || *at == 0);
            rest =
                &rest[at.unwrap_or_else(|| panic!("{text}\nexpected {expected}\nfound    {warning}")) + part.len()..];
        }
    }
}

const NOTHING: ServerLists<'static> = [&[], &[], &[], &[], &[]];

#[test]
fn a_sound_configuration_is_left_alone() {
    check("", &[], &[]);
    check(
        "[servers.a]\ncommand = 'x'\nargs = ['-y', '${SET}']\nenv = { T = '${file:~/key}', U = 'plain' }\ndeny = ['w*']\n\
         [servers.b]\ncommand = 'x'\nenv = { Authorization = 'Bearer ${file:~/key}' }",
        &[("a", [&["write", "read"], &[], &[], &[], &[]])],
        &[],
    );
}

#[test]
fn a_command_has_to_be_a_program_where_the_server_looks_for_it() {
    let server = |rest: &str| format!("[servers.a]\n{rest}");
    for (rest, expected) in [
        ("command = 'x'", None),
        ("command = '/usr/bin/x'", None),
        (
            "command = 'none'",
            Some("2:11 command `none` is not found; PATH searched: /bin:/usr/bin | write its absolute path…"),
        ),
        ("command = 'data'", Some("2:11 command `data` is not found…")),
        ("command = 'x'\nenv = { PATH = '/bin' }", Some("2:11 command `x` is not found on the PATH of its `env` | …")),
        ("command = 'x'\nenv = { PATH = '/bin:/usr/bin' }", None),
        ("command = '/none'", Some("2:11 command `/none` does not exist | …")),
        ("command = '~/data'", Some("2:11 command `/home/u/data` cannot be executed | …")),
        (
            "command = './x'",
            Some("2:11 command `./x` is looked for in the working directory… | write the absolute path…"),
        ),
        ("command = '/opt/${file:~/key}'", Some("2:11 command `/opt/…` does not exist | …")),
        ("command = '${agent:cwd}/x'\nsharing = 'workspace'", None),
        ("command = 'x'\nenv = { PATH = '${agent:cwd}/bin' }\nsharing = 'workspace'", None),
    ] {
        check(&server(rest), &[], &expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn undefined_reference_is_reported_with_its_place() {
    check(
        "[servers.a]\ncommand = 'x'\nargs = ['${NONE}', '${SET}']\nenv = { A = '${file:~/none}', B = '${cred:c}', C = '${D:-d}' }\n\
         [servers.b]\ncommand = '${SET:-x}${E:-}'\nargs = ['${agent:cwd}']\n",
        &[],
        &[
            "3:9 server `a` cannot be started: environment variable `NONE` is not set… | …`mcpd reload --environment`…",
            "4:13 server `a` cannot be started: `${file:~/none}` cannot be used: /home/u/none: … | write that file, or name another",
            "4:35 server `a` cannot be started: `${cred:c}` has no value: …; add `LoadCredential=c:PATH` to its unit | the other servers are not affected",
            "5:10 server `b` cannot be started: `${agent:cwd}` needs `sharing = \"workspace\"`…",
        ],
    );
}

#[test]
fn a_credential_that_the_unit_does_not_have_is_to_be_given_to_it() {
    let text = "[servers.a]\ncommand = 'x'\nenv = { A = '${cred:c}', B = '${file:/none}' }\n";
    let expected = [
        "3:13 server `a` cannot be started: `${cred:c}` cannot be used: /run/c/c: … | add `LoadCredential=NAME:PATH` to the unit of mcpd",
        "3:30 server `a` cannot be started: `${file:/none}` cannot be used: /none: … | write that file, or name another",
    ];
    check_in(&[("CREDENTIALS_DIRECTORY", "/run/c")], text, &[], &expected);
}

#[test]
fn secret_readable_by_others_is_reported_with_the_readers() {
    let text = "[servers.a]\ncommand = 'x'\nenv = { TOKEN = 'hunter22', NAME = 'hunter22', T = '${file:~/open}' }\n";
    let of_file =
        "3:52 the secret in /home/u/open can be read by every user of this machine | write `chmod 600 '/home/u/open'`";
    for (rows, expected) in [
        (&[][..], &[of_file][..]),
        (
            &[("/c.toml mode", "644")],
            &["3:17 `TOKEN` looks like a secret, and this file can be read by every user… | move…", of_file],
        ),
        (
            &[("/c.toml mode", "640"), ("/c.toml group", "100")],
            &["3:17 `TOKEN` looks like a secret, and this file can be read by other users of its group | …", of_file],
        ),
        (&[("/home/u mode", "700")], &[]),
        (&[("/home/u mode", "750")], &[]),
        (&[("/home/u/open mode", "640")], &[]),
        (
            &[("/home/u/open mode", "640"), ("/home/u/open group", "100")],
            &["3:52 the secret in /home/u/open can be read by other users of its group | …"],
        ),
        (&[("/home/u/open mode", "640"), ("/home/u/open group", "100"), ("/home/u mode", "711")], &["3:52 …"]),
    ] {
        check_in(rows, text, &[], expected);
    }
    let remote = "[servers.a]\nurl = 'https://x/'\nheaders = { Authorization = 'Bearer hunter2222' }\n\
                  oauth = { client_id = 'me', client_secret = 'hunter2222' }\n";
    check_in(
        &[("/c.toml mode", "644")],
        remote,
        &[],
        &["3:29 `Authorization` looks like a secret…", "4:45 `client_secret` looks like a secret…"],
    );
}

#[test]
fn secret_in_an_argument_is_reported() {
    check(
        "[servers.a]\ncommand = 'x'\nargs = ['--api-key', 'hunter22', '--file', '${file:~/key}', '${cred:c}', '--name', '${SET}']\n\
         env = { CREDENTIALS_DIRECTORY = '/none' }",
        &[],
        &[
            "3:22 an argument of `a` is a secret, and the process list shows it | give it in `env`…",
            "3:44 an argument of `a` is a secret…",
            "3:61 server `a` cannot be started…",
            "3:61 an argument of `a` is a secret…",
        ],
    );
    let shown = warnings_of(&[], "[servers.a]\ncommand = 'x'\nargs = ['--token=canary-1']\n", &[]);
    assert!(shown.len() == 1 && !shown[0].contains("canary"), "{shown:?}");
}

#[test]
fn argument_that_only_a_shell_expands_is_reported() {
    let server = |command: &str, args: &str| format!("[servers.a]\ncommand = '{command}'\nargs = [{args}]\n");
    let (home, value) = ("write `${HOME}`, which mcpd expands", "write its value");
    for (args, found, help) in [
        ("'$HOME/x'", "$HOME", home),
        ("'$HOME'", "$HOME", home),
        ("'--dir=$HOME/x'", "$HOME", home),
        ("'type=bind,src=$HOME/x,dst=/x'", "$HOME", home),
        ("'$HOME/x:/x'", "$HOME", home),
        ("'~/x'", "~", home),
        ("'~'", "~", home),
        ("'--dir=~/x'", "~", home),
        ("'$(pwd)'", "$(…)", value),
        ("'$(pwd)/x'", "$(…)", value),
        ("'`pwd`'", "`…`", value),
        ("'%USERPROFILE%\\x'", "%USERPROFILE%", home),
        ("'$MY_DIR/x'", "$MY_DIR", "write `${MY_DIR}`, which mcpd expands"),
    ] {
        let expected = format!("3:9 an argument of `a` has `{found}`, and no shell expands it | {help}");
        check(&server("x", args), &[], &[&expected]);
        check(&server("x", &format!("'-c', {args}")), &[], &[]);
        check(&server("x", &format!("'bash', {args}")), &[], &[]);
    }
    for args in ["'${SET}/x'", "'$${HOME}'", "'host:~/x'", "'pa$$WORD'", "'$'", "'^a$'", "'$x'", "'%20'", "'a~/b'"] {
        check(&server("x", args), &[], &[]);
    }
}

#[test]
fn working_directory_that_does_not_exist_is_reported() {
    let server = |cwd: &str| format!("[servers.a]\ncommand = 'x'\ncwd = '{cwd}'\n");
    check(&server("/home/u/data"), &[], &[]);
    check(
        &server("~/no ne"),
        &[],
        &[
            "3:7 working directory `/home/u/no ne` does not exist, so `a` cannot be started | `mkdir -p '/home/u/no ne'`, or…",
        ],
    );
}

#[test]
fn script_whose_interpreter_cannot_be_found_is_reported() {
    let text = "[servers.a]\ncommand = '/s'\n[servers.b]\ncommand = 's'\nenv = { PATH = '/' }\n";
    for (script, interpreter) in [
        ("#!/usr/bin/env python3\r\nx\n", Some("python3")),
        ("#!/bin/sh\r\nx\n", Some("/bin/sh")),
        ("#!/bin/sh\nx\r\n", None),
        ("#!/usr/bin/perl -w\r\n", None),
        ("\u{7f}ELF\r\n", None),
    ] {
        let warning = interpreter.map(|interpreter| {
            format!("has a first line that ends with CRLF, so its interpreter `{interpreter}\\r` is not found | `sed -i 's/\\r$//' /s` converts it")
        });
        let expected: Vec<_> = warning
            .iter()
            .flat_map(|warning| [format!("2:11 command `/s` {warning}"), format!("4:11 command `s` {warning}")])
            .collect();
        let expected: Vec<_> = expected.iter().map(String::as_str).collect();
        check_in(&[("/s", script), ("/s mode", "755")], text, &[], &expected);
    }
}

#[test]
fn pattern_without_a_match_is_reported_with_the_available_names() {
    let offered: ServerLists<'_> =
        [&["read_file", "write_file"], &["review"], &["file:///a/b"], &["wiki://{page}"], &["skill://git/SKILL.md"]];
    let known = &[("a", offered)][..];
    let server = |rest: &str| format!("[servers.a]\ncommand = 'x'\n{rest}");
    for (rest, expected) in [
        ("deny = ['write_*', 'read_file']", None),
        ("deny = ['wirte_*']", Some("3:9 `wirte_*` matches none of the tools of `a` | did you mean `write_file`?")),
        ("allow = ['*', 'zzz']", Some("3:15 `zzz` matches none… | available: `read_file` and `write_file`")),
        ("tool_timeouts = { 'slow_*' = '9m' }", Some("3:30 `slow_*` matches none of the tools of `a`…")),
        ("deny = ['a__write_*']", Some("3:9 `a__write_*` matches none… | write `write_*`: …, without `a__`")),
        ("deny = ['mcp__a__write_*']", Some("3:9 `mcp__a__write_*` matches… | write `write_*`: …, without `mcp__a__`")),
        ("deny = ['*__write_*']", Some("3:9 `*__write_*` matches… | write `write_*`: …")),
        ("deny = ['a__delete_*']", Some("3:9 `a__delete_*` matches… | write `delete_*`: …, without `a__`")),
        ("deny = ['b__delete_*']", Some("3:9 `b__delete_*` matches… | available…")),
        ("prompts.deny = ['a__review']", Some("3:17 `a__review` matches none of the prompts… | write `review`: …")),
        ("prompts.deny = ['review', 'read_file']", Some("3:27 `read_file` matches none of the prompts of `a`…")),
        ("resources.deny = ['file:///a/*', 'wiki://*', 'FILE:///a/../a/b']", None),
        ("skills.deny = ['skill://unlisted']", None),
        ("resources.deny = ['file:///a/../b']", Some("3:19 `file:///a/../b` matches none of the resources…")),
    ] {
        check(&server(rest), known, &expected.into_iter().collect::<Vec<_>>());
        check(&server(rest), &[("a", NOTHING)], &[]);
    }
    for (rest, expected) in [
        ("deny = ['wirte_*', 'b__write', 'x__a__write', 'a__']\nresources.deny = ['a__x']", None),
        (
            "deny = ['a__write_*']",
            Some("3:9 `a__write_*` is a name that agents see | write `write_*`: …, without `a__`"),
        ),
        ("deny = ['mcp__a__write']", Some("3:9 `mcp__a__write` is a name… | write `write`: …, without `mcp__a__`")),
        ("prompts.deny = ['a__review']", Some("3:17 `a__review` is a name… | write `review`: …")),
        ("tool_timeouts = { 'a__slow' = '9m' }", Some("3:31 `a__slow` is a name… | write `slow`: …")),
    ] {
        check(&server(rest), &[], &expected.into_iter().collect::<Vec<_>>());
    }
    let defaults = "[defaults]\ntool_timeouts = { 'slow' = '9m', 'read_*' = '9m' }\n[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\n";
    check(defaults, known, &[]);
    let both = &[("a", offered), ("b", [&["slower"], &[], &[], &[], &[]])][..];
    check(defaults, both, &["2:28 `slow` matches none of the tools of `a` and `b` | did you mean `slower`?"]);
}

#[test]
fn overrides_that_the_list_of_the_server_contradicts_are_reported() {
    let known = &[("a", [&["search", "find"][..], &[], &[], &[], &[]])][..];
    let server = |rest: &str| format!("[servers.a]\ncommand = 'x'\n{rest}");
    for (rest, expected) in [
        ("tool = { search = { name = 'seek' } }", None),
        ("tool = { seerch = { name = 'seek' } }", Some("3:10 `a` has no tool `seerch` | did you mean `search`?")),
        ("tool = { a__search = { name = 'x' } }", Some("3:10 `a` has no tool `a__search` | did you mean `search`?")),
        ("tool = { zzz = { name = 'x' } }", Some("3:10 `a` has no tool `zzz` | available: `search` and `find`")),
        (
            "tool = { search = { name = 'find' } }",
            Some("3:10 agents do not see the tool `search` of `a`: the server itself has a tool `find` | give…"),
        ),
    ] {
        check(&server(rest), known, &expected.into_iter().collect::<Vec<_>>());
        check(&server(rest), &[("a", NOTHING)], &[]);
        check(&server(rest), &[], &[]);
    }
}

#[test]
fn patterns_of_profiles_are_checked_against_their_servers() {
    let known = &[("a", [&["read", "write"][..], &["p"], &[], &[], &[]]), ("b", [&["list"], &[], &[], &[], &[]])][..];
    let text = |rest: &str| format!("[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\n[profiles.p]\n{rest}\n");
    for (rest, expected) in [
        ("deny = ['*/read', 'b/l*', 'a/*']\nprompts.deny = ['a/p']", None),
        ("deny = ['c/*']", Some("6:9 `c` matches no server | available: `a` and `b`")),
        ("allow = ['b/read']", Some("6:10 `read` matches none of the tools of `b` | available: `list`")),
        ("allow = ['*/reed']", Some("6:10 `reed` matches none of the tools of `a` and `b` | did you mean `read`?")),
    ] {
        check(&text(rest), known, &expected.into_iter().collect::<Vec<_>>());
        check(
            &text(rest),
            &known[..0],
            &expected.filter(|warning| warning.contains("no server")).into_iter().collect::<Vec<_>>(),
        );
    }
}

#[test]
fn servers_that_guests_cannot_use_are_reported() {
    let text = |server: &str, profile: &str| {
        format!("[servers.a]\ncommand = 'x'\n{server}\n[servers.b]\ncommand = 'x'\n[profiles.p]\n{profile}\n")
    };
    let guests = "allow_uids = [7]";
    let with_roots = "allow_uids = [7]\nworkspace_roots = ['/srv']";
    let roots = "1:10 agents of other users cannot use `a`, which works in their directory | add `workspace_roots` to `[profiles.p]`…";
    let sandbox =
        "1:10 agents of other users cannot use `a`, which works in their directory | write `sandbox = \"files\"`…";
    for (server, profile, expected) in [
        ("sharing = 'workspace'", "", None),
        ("sharing = 'session'", guests, None),
        ("sharing = 'workspace'", guests, Some(roots)),
        ("sharing = 'session'\nargs = ['${agent:cwd}']", guests, Some(roots)),
        ("sharing = 'workspace'", with_roots, Some(sandbox)),
        ("sharing = 'workspace'\nsandbox = 'files'", with_roots, None),
        ("sharing = 'workspace'", "servers = ['b']\nallow_uids = [7]", None),
    ] {
        check(&text(server, profile), &[], &expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn changed_names_are_reported() {
    let two = |head: &str| format!("[daemon]\n{head}\n[servers.a]\ncommand = 'x'\n[servers.b]\ncommand = 'x'\n");
    let echo: ServerLists<'_> = [&["echo", "other"], &[], &["u:1"], &[], &[]];
    let same = &[("a", [&["echo"][..], &[], &["u:1"], &[], &[]]), ("b", echo)][..];
    check(&two(""), &[("a", echo), ("b", [&["echo"], &[], &[], &[], &[]])], &[]);
    check(
        &two("naming = '{tool}'"),
        same,
        &["5:10 some tools or prompts of `b` have a name of another server | agents see `b__echo`: …"],
    );
    check(&two(""), same, &["5:10 `b`: 1 resource is not listed: an earlier server has the same URI or template | …"]);
    let long = "x".repeat(60);
    let odd: &[&str] = &[&long, "a.b", "fine"];
    check(
        &two(""),
        &[("b", [odd, &[], &[], &[], &[]])],
        &["5:10 names of `b` are longer than 53 characters, or have others… | agents see `b__a_b_…` and `b__xxx…`: …"],
    );
}

#[test]
fn warnings_are_bounded_and_ordered() {
    let servers: String = (0..200).map(|n| format!("[servers.s{n}]\ncommand = 'none'\n")).collect();
    let warnings = warnings_of(&[], &servers, &[]);
    assert_eq!(warnings.len(), MAX_WARNINGS);
    assert!(warnings[0].starts_with("2:11") && warnings[99].starts_with("200:11"));
}
