//! What an import would write, as tables.

mod property;

use std::collections::BTreeSet;

use super::*;
use crate::config::interpolate::tests::table::Table;
use crate::config::load;

/// What importing `files` into the configuration of a person makes of it: its text, its files, and what became of each server.
fn import(
    config: &str,
    rest: &[(&str, &str)],
    files: &[(&str, &str)],
    rename: bool,
) -> (String, Vec<String>, Vec<Outcome>) {
    let mut rows = vec![("~", "/h"), ("HOME", "/h"), ("/h/.config/mcpd/config.toml", config)];
    rows.extend(rest);
    let sources = Table::from_rows(&rows);
    let configured = load(&[], &sources).unwrap_or_else(|error| panic!("{error}")).config.servers;
    let mut plan = Plan::new(config, &configured, Path::new("/h/.config/mcpd/secrets"), &sources);
    let mut outcomes = Vec::new();
    for (path, text) in files {
        let found = foreign(Path::new(path), text, &sources);
        outcomes.extend(found.servers.iter().map(|server| {
            match plan.add(server, ImportChoices { rename, projects: false }) {
                Outcome::Added { name, .. } => added(&name),
                other => other,
            }
        }));
    }
    let (text, files) = plan.finish();
    let shown = |file: &SecretFile| match &file.content {
        Content::Known(content) => format!("{} = {content:?}", file.path.display()),
        Content::Prompt(prompt) => format!("{} ? {}", file.path.display(), prompt.text),
    };
    (text, files.iter().map(shown).collect(), outcomes)
}

fn added(name: &str) -> Outcome {
    Outcome::Added { name: name.to_owned(), obstacle: None }
}

fn known(name: &str) -> Outcome {
    Outcome::Known(name.to_owned())
}

#[test]
fn a_server_is_added_at_the_end_and_nothing_else_changes() {
    let config = "# mine\n[servers.a]\ncommand = 'x' # first\n";
    let json =
        r#"{"mcpServers": {"b c": {"command": "npx", "args": ["-y", "p"], "env": {"A": "1"}, "timeout": 5000}}}"#;
    let (text, files, outcomes) = import(config, &[], &[("/c.json", json)], false);
    assert_eq!(outcomes, [added("b-c")]);
    assert!(files.is_empty());
    let expected =
        "\n[servers.b-c]\ncommand = \"npx\"\nargs = [\"-y\", \"p\"]\nenv = { A = \"1\" }\ncall_timeout = \"5s\"\n";
    assert_eq!(text, format!("{config}{expected}"));
}

#[test]
fn empty_env_and_args_are_not_written() {
    let json =
        r#"{"mcpServers": {"a": {"command": "x", "args": [], "env": {}}, "b": {"url": "https://x/", "headers": {}}}}"#;
    let (text, _, outcomes) = import("", &[], &[("/c.json", json)], false);
    assert_eq!(outcomes, [added("a"), added("b")]);
    assert_eq!(text, "[servers.a]\ncommand = \"x\"\n\n[servers.b]\nurl = \"https://x/\"\n");
}

#[test]
fn entry_that_points_a_client_at_mcpd_is_neither_imported_nor_warned_about() {
    let json = r#"{"mcpServers": {"mcpd": {"command": "/usr/bin/mcpd", "args": ["connect"]}}}"#;
    let found = foreign(Path::new("/c.json"), json, &Table::from_rows(&[("~", "/h")]));
    assert!(found.servers.is_empty() && found.warnings.is_empty() && found.errors.is_empty());
    let pointers: Vec<_> = found.pointers.iter().map(|pointer| (&*pointer.name, &pointer.words[..])).collect();
    assert_eq!(pointers.len(), 1);
    assert_eq!(pointers[0].1, ["/usr/bin/mcpd", "connect"]);
    assert_eq!(found.pointers[0].table, ["mcpServers"]);
}

#[test]
fn what_is_there_is_not_added_again() {
    let config = "[servers.a]\ncommand = 'x'\ndeny = ['w*']\n[servers.b]\ncommand = 'y'\nenv = { T = '${file:~/t}' }\n";
    let json = r#"{"mcpServers": {"a": {"command": "x"}, "other": {"command": "x"}, "b": {"command": "y", "env": {"T": "ghs"}}}}"#;
    let (text, _, outcomes) = import(config, &[("/h/t", "ghs\n")], &[("/c.json", json)], false);
    assert_eq!(outcomes, [known("a"), known("a"), known("b")]);
    assert_eq!(text, config);
    let new = r#"{"mcpServers": {"n": {"command": "z"}, "m": {"command": "z"}}}"#;
    let (_, _, outcomes) = import("", &[], &[("/c.json", new), ("/d.json", new)], false);
    assert_eq!(outcomes, [added("n"), known("n"), known("n"), known("n")]);
}

#[test]
fn another_definition_of_a_name_stays_as_it_is() {
    let config = "[servers.a]\ncommand = 'x'\n";
    let json = r#"{"mcpServers": {"a": {"command": "y"}}}"#;
    let (text, _, outcomes) = import(config, &[], &[("/c.json", json)], false);
    assert_eq!(outcomes, [Outcome::Differs { name: "a".into(), free: "a-2".into() }]);
    assert_eq!(text, config);
    let (text, _, outcomes) = import(config, &[], &[("/c.json", json)], true);
    assert_eq!(outcomes, [added("a-2")]);
    assert_eq!(text, format!("{config}\n[servers.a-2]\ncommand = \"y\"\n"));
    assert_eq!(import(&text, &[], &[("/c.json", json)], true).2, [known("a-2")]);
}

#[test]
fn servers_of_one_name_in_several_files_get_numbers() {
    let file = |command: &str| format!(r#"{{"mcpServers": {{"a": {{"command": "{command}"}}}}}}"#);
    let (x, y) = (file("x"), file("y"));
    let files = [("/c.json", x.as_str()), ("/d.json", &y), ("/e.json", &x)];
    let (text, _, outcomes) = import("", &[], &files, false);
    assert_eq!(outcomes, [added("a"), added("a-2"), known("a")]);
    assert_eq!(text, "[servers.a]\ncommand = \"x\"\n\n[servers.a-2]\ncommand = \"y\"\n");
    assert_eq!(import(&text, &[], &files, false).2, [known("a"), known("a-2"), known("a")]);
    // An unanswered input names the file of its server.
    let json = r#"{"servers": {"a": {"command": "y", "env": {"KEY": "${input:key}"}}}}"#;
    let files = [("/c.json", x.as_str()), ("/p/.vscode/mcp.json", json)];
    let (text, _, outcomes) = import("", &[], &files, false);
    assert_eq!(outcomes, [added("a"), added("a-2")]);
    assert_eq!(import(&text, &[], &files, false).2, [known("a"), known("a-2")]);
}

#[test]
fn secret_beside_a_reference_is_moved_and_the_reference_stays() {
    let json = r#"{"mcpServers": {"a": {"command": "x", "args": ["--db", "postgres://u:hunter2@${HOST}/db"],
        "env": {"HEADERS": "{\"Authorization\": \"Bearer hunter22x\", \"Org\": \"${ORG:-none}\"}"}}}}"#;
    let (text, files, outcomes) = import("", &[], &[("/p.json", json)], false);
    assert_eq!(outcomes, [added("a")]);
    let directory = "/h/.config/mcpd/secrets";
    assert_eq!(
        files,
        [
            format!("{directory}/a.arg = \"postgres://u:hunter2@\\n\""),
            format!("{directory}/a.HEADERS = {:?}", "{\"Authorization\": \"Bearer hunter22x\", \"Org\": \"\n"),
        ]
    );
    for part in ["\"${file:~/.config/mcpd/secrets/a.arg}${HOST}/db\"", "a.HEADERS}${ORG:-none}"] {
        assert!(text.contains(part), "no {part} in {text}");
    }
}

#[test]
fn secrets_are_moved_out() {
    let json = r#"{"mcpServers": {
        "a": {"command": "x", "env": {"GITHUB_TOKEN": "hunter22", "REF": "${TOKEN}", "MODE": "fast"},
              "args": ["--api-key", "s3cret99", "--token=s3cret98", "--verbose", "postgres://u:hunter2@db/x"]},
        "b": {"url": "https://x/?token=hunter2", "headers": {"Authorization": "Bearer abcdefgh1234", "X-Mode": "fast"}}}}"#;
    let (text, files, outcomes) = import("", &[], &[("/c.json", json)], false);
    assert_eq!(outcomes, [added("a"), added("b")]);
    let directory = "/h/.config/mcpd/secrets";
    assert_eq!(
        files,
        [
            format!("{directory}/a.api-key = \"s3cret99\\n\""),
            format!("{directory}/a.token = \"s3cret98\\n\""),
            format!("{directory}/a.arg = \"postgres://u:hunter2@db/x\\n\""),
            format!("{directory}/a.GITHUB_TOKEN = \"hunter22\\n\""),
            format!("{directory}/b.url = \"https://x/?token=hunter2\\n\""),
            format!("{directory}/b.Authorization = \"Bearer abcdefgh1234\\n\""),
        ]
    );
    for secret in ["hunter2", "s3cret", "abcdefgh"] {
        assert!(!text.contains(secret), "{text}");
    }
    for part in [
        "GITHUB_TOKEN = \"${file:~/.config/mcpd/secrets/a.GITHUB_TOKEN}\"",
        "REF = \"${TOKEN}\"",
        "MODE = \"fast\"",
        "\"--token=${file:~/.config/mcpd/secrets/a.token}\"",
        "X-Mode = \"fast\"",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    // With the files there, the same import finds nothing to do.
    let rows: Vec<_> = files.iter().map(|file| file.split_once(" = ").expect("a file")).collect();
    let rows: Vec<_> = rows.iter().map(|(path, text)| (*path, text.trim_matches('"').replace("\\n", "\n"))).collect();
    let rows: Vec<_> = rows.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let (again, files, outcomes) = import(&text, &rows, &[("/c.json", json)], false);
    assert_eq!((again, files), (text, Vec::new()));
    assert_eq!(outcomes, [known("a"), known("b")]);
}

#[test]
fn no_file_is_written_over() {
    let json = r#"{"mcpServers": {"a": {"command": "x", "env": {"TOKEN": "hunter22"}}}}"#;
    let path = "/h/.config/mcpd/secrets/a.TOKEN";
    let (text, files, _) = import("", &[(path, "older\n")], &[("/c.json", json)], false);
    assert_eq!(files, [format!("{path}.2 = \"hunter22\\n\"")]);
    assert!(text.contains("a.TOKEN.2}"), "{text}");
    let (text, files, _) = import("", &[(path, "hunter22\n")], &[("/c.json", json)], false);
    assert!(files.is_empty() && text.contains("a.TOKEN}"), "{text}");
}

#[test]
fn secrets_whose_names_differ_get_files_that_differ() {
    let long = "k".repeat(300);
    let ids = [
        "api-key",
        "api.key",
        "api key",
        "Api-Key",
        "-api-key",
        "",
        &format!("{long}1"),
        &format!("{long}2"),
        "é",
        "è",
    ];
    let env: Vec<_> = ids.iter().enumerate().map(|(at, id)| format!("\"V{at}\": \"${{input:{id}}}\"")).collect();
    let json = format!(r#"{{"servers": {{"a": {{"command": "x", "env": {{{}}}}}}}}}"#, env.join(", "));
    let (text, prompts, outcomes) = import("", &[], &[("/p/.vscode/mcp.json", &json)], false);
    assert_eq!(outcomes, [added("a")]);
    let paths: Vec<_> = prompts.iter().filter_map(|file| file.split_once(" ? ")).map(|(path, _)| path).collect();
    let different: BTreeSet<_> = paths.iter().map(|path| path.to_ascii_lowercase()).collect();
    assert_eq!((paths.len(), different.len()), (ids.len(), ids.len()), "{paths:#?}");
    for path in paths {
        let name = path.strip_prefix("/h/.config/mcpd/secrets/").expect("it is there");
        assert!(name.len() <= 200 && text.matches(&format!("/{name}}}")).count() == 1, "{name} in {text}");
    }
    let answered: Vec<_> =
        prompts.iter().filter_map(|file| file.split_once(" ? ")).map(|(path, _)| (path, "1\n")).collect();
    let again = import(&text, &answered, &[("/p/.vscode/mcp.json", &json)], false);
    assert_eq!((again.1.len(), again.2), (0, vec![known("a")]), "each keeps its file");
}

#[test]
fn secrets_of_names_alike_that_are_written_down_get_files_that_differ() {
    let json = r#"{"mcpServers": {
        "a": {"command": "y", "env": {"API_TOKEN": "hunter21", "api.token": "hunter22", "api_token": "hunter23"}},
        "A": {"command": "x", "args": ["--api-token", "hunter24", "--api-token=hunter25"], "env": {"K": "${input:api-token}"}}}}"#;
    let (_, files, outcomes) = import("", &[], &[("/c.json", json)], false);
    assert_eq!(outcomes, [added("a"), added("A")]);
    let paths: BTreeSet<_> =
        files.iter().map(|file| file.split(' ').next().expect("a path").to_ascii_lowercase()).collect();
    assert_eq!((files.len(), paths.len()), (6, 6), "{files:#?}");
}

#[test]
fn inputs_become_files_that_hold_the_answers() {
    let json = r#"{"inputs": [{"type": "promptString", "id": "api key", "description": "Your key", "password": true}],
        "servers": {"a": {"command": "x", "env": {"KEY": "${input:api key}", "B": "b ${input:other} ${userHome}"}}}}"#;
    let files = [("/p/.vscode/mcp.json", json)];
    let (text, prompts, outcomes) = import("", &[], &files, false);
    assert_eq!(outcomes, [added("a")]);
    let (directory, digest) = ("/h/.config/mcpd/secrets", "27ee1e5c778b58e1");
    assert_eq!(prompts, [format!("{directory}/a.api-key.{digest} ? Your key"), format!("{directory}/a.other ? other")]);
    let expected = format!("KEY = \"${{file:~/.config/mcpd/secrets/a.api-key.{digest}}}\"");
    assert!(text.contains(&expected), "{text}");
    assert!(text.contains("B = \"b ${file:~/.config/mcpd/secrets/a.other} ${HOME}\""), "{text}");
    assert_eq!(import(&text, &[], &files, false).2, [known("a")], "not answered yet");
    let path = format!("{directory}/a.api-key.{digest}");
    let answers = [(path.as_str(), "1\n"), ("/h/.config/mcpd/secrets/a.other", "2\n")];
    assert_eq!(import(&text, &answers, &files, false).2, [known("a")], "answered");
}

#[test]
fn only_untranslatable_keys_are_left_out() {
    let json = r#"{"mcpServers": {"a": {"command": "x", "args": ["${command:pick}"]}, "b": {"command": 5}, "c": {"command": "z"}}}"#;
    let (text, _, outcomes) = import("", &[], &[("/c.json", json)], false);
    let [Outcome::Impossible(reason), Outcome::Added { name, .. }] = &outcomes[..] else { panic!("{outcomes:?}") };
    assert!(reason.contains("${command:pick}") && name == "c");
    assert_eq!(text, "[servers.c]\ncommand = \"z\"\n");
    let found = foreign(Path::new("/c.json"), json, &Table::default());
    assert_eq!((found.servers.len(), found.errors.len()), (2, 1));
    for (text, is_about_servers, errors) in
        [("{", false, 1), ("{\"theme\": 1}", false, 0), ("{\"mcpServers\": {}}", true, 0)]
    {
        let found = foreign(Path::new("/c.json"), text, &Table::default());
        assert_eq!((found.is_about_servers, found.errors.len()), (is_about_servers, errors), "{text}");
    }
}

#[test]
fn what_is_written_means_what_was_meant() {
    let codex = "[mcp_servers.a]\ncommand = 'x'\nargs = ['${LITERAL} $${B}', \"q\\\"\\\\ \\n\"]\nenv_vars = ['P']\ncwd = '/w'\n\
                 enabled_tools = ['r', 'a*b']\nstartup_timeout_sec = 1.5\n[mcp_servers.a.env]\nA = '${X}'\n";
    let (text, _, _) = import("", &[], &[("/c.toml", codex)], false);
    let sources = Table::from([("/ours.toml", text.as_str()), ("/c.toml", codex), ("~", "/h")]);
    let [ours, theirs] = ["/ours.toml", "/c.toml"].map(|path| {
        let mut loaded = load(&[path.into()], &sources).unwrap_or_else(|error| panic!("{text}\n{error}"));
        loaded.config.servers.remove(0)
    });
    assert_eq!(ours.launch, theirs.launch);
    assert_eq!(ours.settings, theirs.settings);
    assert_eq!(format!("{:?}", ours.policy), format!("{:?}", theirs.policy));
}
