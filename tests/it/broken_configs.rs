//! Broken configurations, one mistake each: the message has the place, the fact and the edit.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use crate::support::{Place, skipped};

/// A mistake in `c.toml` or `c.json`: the text, the place, a part of the message, and a part of the help.
type Row = (&'static str, &'static str, &'static str, &'static str);

/// Text that is no TOML.
const SYNTAX: [Row; 27] = [
    ("[servers.a]\ncommand = \"x\n", "2:13", "invalid basic string", "close the text with `\"` on the same line"),
    ("[servers.a]\ncommand = 'x\n", "2:13", "invalid literal string", "close the text with `'` on the same line"),
    ("[servers.a]\ncommand = \n", "2:11", "a value is missing", "write one after the `=`"),
    ("[servers.a]\ncommand = npx\n", "2:11", "text must be in quotes", "write `key = \"text\"`"),
    ("[servers.a]\ncommand = `npx`\n", "2:11", "text must be in quotes", "write `key = \"text\"`"),
    ("[servers.a]\ncommand = “npx”\n", "2:11", "text must be in quotes", "write straight quotes: `\"text\"`"),
    ("[servers.a]\n“command” = \"npx\"\n", "2:1", "invalid unquoted key", "write straight quotes"),
    ("[servers.a]\ncommand \"npx\"\n", "2:9", "key with no value", "write `key = value`"),
    ("servers:\n  a:\n    command: npx\n", "1:9", "key with no value", "write `key = value`"),
    ("\"mcpServers\": {\n  \"a\": {\"command\": \"npx\"}\n}\n", "1:13", "key with no value", "write `key = value`"),
    ("[servers.a]\n\"command\": \"npx\",\n", "2:10", "key with no value", "write `key = value`"),
    ("[servers.a]\ncommand = \"npx\",\n", "2:16", "unexpected key or value", "write one value only"),
    ("[servers.a]\ncommand = \"npx\";\n", "2:16", "unexpected key or value", "write one value only"),
    ("[servers.a]\ncommand = \"x\"\nargs = [\"a\" \"b\"]\n", "3:13", "missing comma", "put a `,` between the values"),
    ("[servers.a]\ncommand = \"x\"\nargs = [\"a\"\n", "3:8", "this list is not closed", "close the list with `]`"),
    (
        "[servers.a]\ncommand = \"x\"\nenv = { A: \"b\" }\n",
        "3:12",
        "missing assignment",
        "write `key = value` in a table",
    ),
    (
        "[servers.a]\ncommand = \"x\"\nenv = { A = \"b\"\n",
        "3:7",
        "this table is not closed",
        "close the table with `}`",
    ),
    ("[servers.a\ncommand = \"x\"\n", "1:11", "unclosed table", "on one line, such as `[servers.files]`"),
    ("[servers.@scope/x]\ncommand = \"x\"\n", "1:10", "invalid unquoted key", "as in `[servers.my-files]`"),
    (
        "[servers.a]\ncommand = \"C:\\tools\\server.exe\"\n",
        "2:21",
        "missing escaped value",
        "write `\\\\` for a backslash",
    ),
    (
        "[servers.a]\ncommand = \"C:\\Users\\me\"\n",
        "2:16",
        "too few unicode value digits",
        "write `\\\\` for a backslash",
    ),
    ("[servers.a]\ncommand = \"x\"\nenabled = True\n", "3:11", "it is not in lower case", "write `true`"),
    ("// my servers\n[servers.a]\n", "1:4", "key with no value", "begin a comment with `#`"),
    ("[servers.a]\rcommand = \"x\"\r", "1:13", "carriage return", "`sed -i 's/\\r/\\n/g' FILE` converts"),
    ("[servers.a]\ncommand = \"a\u{7}b\"\n", "2:13", "invalid basic string", "remove the control character"),
    (
        "[servers.a]\ncommand = \"x\"\n[servers.a]\ncommand = \"y\"\n",
        "3:10",
        "`a` is written twice",
        "keep one of the two",
    ),
    ("[servers.a]\ncommand = \"x\"\ncommand = \"y\"\n", "3:1", "`command` is written twice", "keep one of the two"),
];

/// Text that is no JSON, or has no servers.
const JSON: [Row; 11] = [
    ("", "1:1", "there is no JSON in this file", "write `{ \"mcpServers\": {} }`"),
    ("[]", "1:1", "the file must be an object", "write `{ \"mcpServers\": {"),
    ("{}", "1:1", "there is no `mcpServers`", "write `{ \"mcpServers\": {"),
    ("{\"a\": {\"command\": \"x\"}}", "1:1", "there is no `mcpServers`", "write `{ \"mcpServers\": {"),
    ("{\"mcpservers\": {}}", "1:1", "there is no `mcpServers`", "did you mean `mcpServers`?"),
    ("{\"mcpServers\": [{\"name\": \"a\"}]}", "1:16", "`mcpServers` must be an object", "write `{ \"mcpServers\": {"),
    ("{'mcpServers': {}}", "1:2", "single-quoted strings", "use double quotes"),
    ("{\"mcpServers\": {\"a\": {}},,}", "1:26", "unexpected token", "one `,` between two values"),
    ("{\"mcpServers\": {\"a\": {\"command\": \"x\"}", "1:16", "unterminated object", "close the object with `}`"),
    ("[servers.a]\ncommand = \"x\"\n", "1:2", "unexpected token", "put one value here, text in double quotes"),
    ("{\"mcpServers\": {\"a\": {\"command\": 7}}}", "1:34", "`command` must be a string", "put it in quotes: `\"7\"`"),
];

/// Tables and keys with other names.
const NAMES: [Row; 22] = [
    ("[mcpServers.a]\ncommand = \"x\"\n", "1:2", "unknown key `mcpServers`", "did you mean `servers`?"),
    ("[mcp.servers.a]\ncommand = \"x\"\n", "1:2", "unknown key `mcp`", "`servers` or `profiles`"),
    ("[files]\ncommand = \"x\"\n", "1:2", "unknown key `files` in the file", "write `[servers.files]`"),
    ("[servers.my.files]\nurl = \"http://x\"\n", "1:13", "unknown key `files`", "write `[servers.my-files]`"),
    ("command = \"x\"\n", "1:1", "`command` stands outside the table of a server", "write `[servers.NAME]` above"),
    ("[[servers]]\ncommand = \"x\"\n", "1:1", "`servers` must be a table", "write `[servers.NAME]` for each server"),
    ("[[servers.a]]\ncommand = \"x\"\n", "1:1", "`servers.a` must be a table", "write `[servers.a]`"),
    ("[servers]\na = \"npx\"\n", "2:5", "`servers.a` must be a table", "write `[servers.a]`"),
    ("servers = [\"a\"]\n", "1:11", "`servers` must be a table", "write `[servers.NAME]` for each server"),
    ("[deamon]\nwatch = true\n", "1:2", "unknown key `deamon`", "did you mean `daemon`?"),
    ("[daemon]\nnameing = \"{tool}\"\n", "2:1", "unknown key `nameing` in `[daemon]`", "did you mean `naming`?"),
    ("[defaults]\ncall_timout = \"5m\"\n", "2:1", "unknown key `call_timout`", "did you mean `call_timeout`?"),
    ("[profiles.p]\nserver = [\"a\"]\n", "2:1", "unknown key `server` in `[profiles.p]`", "did you mean `servers`?"),
    ("[servers.\"a b\"]\ncommand = \"x\"\n", "1:10", "`a b` cannot name a server", "write `a-b`"),
    ("[servers.a__b]\ncommand = \"x\"\n", "1:10", "`a__b` cannot name a server", "write `a_b`"),
    ("[servers.\"\"]\ncommand = \"x\"\n", "1:10", "cannot name a server", "write `server`"),
    ("[profiles.\"my p\"]\n", "1:11", "`my p` cannot name a profile", "write `my-p`"),
    (
        "[profiles.p]\nservers = [\"b\"]\n[servers.a]\ncommand = \"x\"\n",
        "2:12",
        "a server `b` that is not",
        "write one of `a`",
    ),
    (
        "[profiles.p]\nservers = [\"gihub\"]\n[servers.github]\ncommand = \"x\"\n",
        "2:12",
        "`gihub`",
        "did you mean `github`?",
    ),
    ("[profiles.p]\ndeny = [\"write_*\"]\n", "2:9", "does not say of which server", "write \"*/write_*\""),
    ("[profiles.p]\nallow_uids = [\"bob\"]\n", "2:15", "must be the number of a user", "write `allow_uids = [1001]`"),
    ("include = [\"a.toml\"]\n", "1:1", "unknown key `include`", "move the file to `config.d`"),
];

/// Mistakes in the line after the `command` of a server.
const LINES: [Row; 60] = [
    ("disabled = true", "3:1", "unknown key `disabled`", "write `enabled = false`"),
    ("type = \"stdio\"", "3:1", "unknown key `type`", "remove it: `command` or `url` is enough"),
    ("autoApprove = [\"x\"]", "3:1", "unknown key `autoApprove`", "remove it: the agent asks for approval"),
    ("description = \"x\"", "3:1", "unknown key `description`", "write a comment"),
    ("cmd = \"npx\"", "3:1", "unknown key `cmd`", "write `command`"),
    ("arguments = [\"x\"]", "3:1", "unknown key `arguments`", "write `args`"),
    ("environment = { A = \"b\" }", "3:1", "unknown key `environment`", "did you mean `env`?"),
    ("envFile = \".env\"", "3:1", "unknown key `envFile`", "write the variables in `env`"),
    ("workingDirectory = \"/x\"", "3:1", "unknown key `workingDirectory`", "write `cwd`"),
    ("httpUrl = \"https://x\"", "3:1", "unknown key `httpUrl`", "write `url`"),
    ("http_headers = { A = \"b\" }", "3:1", "unknown key `http_headers`", "did you mean `headers`?"),
    ("bearer_token_env_var = \"X\"", "3:1", "unknown key `bearer_token_env_var`", "write `headers = { Authorization ="),
    ("timeout = 60000", "3:1", "unknown key `timeout`", "write it with a unit: `call_timeout = \"60s\"`"),
    (
        "startup_timeout_sec = 30",
        "3:1",
        "unknown key `startup_timeout_sec`",
        "write it with a unit: `handshake_timeout = \"30s\"`",
    ),
    ("enabled_tools = [\"x\"]", "3:1", "unknown key `enabled_tools`", "write `allow = [\"TOOL\"]`"),
    ("excludeTools = [\"x\"]", "3:1", "unknown key `excludeTools`", "write `deny = [\"TOOL\"]`"),
    ("denny = [\"x\"]", "3:1", "unknown key `denny`", "did you mean `deny`?"),
    ("args = \"-y 'a b'\"", "3:8", "`args` must be a list of strings", "write `args = [\"-y\", \"a b\"]`"),
    ("args = [\"-y\", 7]", "3:15", "each item of `args` must be a string", "put it in quotes: `\"7\"`"),
    ("args = [[\"x\"]]", "3:9", "each item of `args` must be a string", "write text in double quotes"),
    ("env = [\"A=b\"]", "3:7", "`env` must be a table", "write `env = { TOKEN ="),
    ("env = \"A=b\"", "3:7", "`env` must be a table", "write `env = { TOKEN ="),
    ("env = { A = true }", "3:13", "variable `A` must be a string", "put it in quotes: `\"true\"`"),
    ("env = { \"A=B\" = \"x\" }", "3:9", "`A=B` cannot name a variable", "write a name without `=`"),
    ("cwd = \"src\"", "3:7", "`cwd` must be an absolute path", "begin it with `/`"),
    ("cwd = \"$HOME/x\"", "3:7", "`cwd` must be an absolute path", "begin it with `/`"),
    ("cwd = 2020-01-01", "3:7", "`cwd` must be a string", "write text in double quotes"),
    ("enabled = \"yes\"", "3:11", "`enabled` must be true or false", "write `enabled = true`"),
    ("deny = \"x\"", "3:8", "`deny` must be a list of strings", "write `deny = [\"x\"]`"),
    ("deny = [\"[z\"]", "3:9", "`[z` is no pattern", "a pattern is text with `*`"),
    ("deny = [\"{a,b\"]", "3:9", "`{a,b` is no pattern", "a pattern is text with `*`"),
    ("call_timeout = \"soon\"", "3:16", "`call_timeout` is no duration", "such as `\"500ms\"`"),
    ("call_timeout = \"30\"", "3:16", "`call_timeout` is no duration", "a number with a unit"),
    ("call_timeout = 30000", "3:16", "must be a duration in quotes", "\"30000s\"`; if it is milliseconds, \"30000ms\""),
    ("call_timeout = \"-5s\"", "3:16", "`call_timeout` is no duration", "a number with a unit"),
    ("call_timeout = \"2h\"\ncall_timeout_max = \"1h\"", "3:16", "is longer than `call_timeout_max`", "shorten it"),
    ("tool_timeouts = { x = 5 }", "3:23", "must be a duration in quotes", "write `\"x\" = \"5s\"`"),
    ("memory_max = \"1GB\"", "3:14", "`memory_max` is no size", "write `memory_max = \"1GiB\"`"),
    ("memory_max = \"64 mb\"", "3:14", "`memory_max` is no size", "write `memory_max = \"64MiB\"`"),
    ("max_instances = 0", "3:17", "must be an absolute number from 1", "write `max_instances ="),
    ("max_instances = \"4\"", "3:17", "this is a string", "write `max_instances = 4`"),
    ("sharing = \"agent\"", "3:11", "`agent` is not a value of `sharing`", "write one of `shared`"),
    ("sandbox = \"file\"", "3:11", "`file` is not a value of `sandbox`", "did you mean `files`?"),
    ("sandbox = \"strict\"", "3:11", "`strict` is not a value of `sandbox`", "write one of `none`, `scope` or `files`"),
    ("sandbox = true", "3:11", "`sandbox` must be a level or a table", "write `sandbox = \"scope\"`"),
    ("sandbox = { write = [\"/x\"] }", "3:11", "`sandbox` has no `level`", "write `sandbox = { level = \"files\""),
    ("sandbox = { level = \"files\", writes = [\"/x\"] }", "3:30", "unknown key `writes`", "did you mean `write`?"),
    ("sandbox = { level = \"files\", write = [\"x\"] }", "3:39", "must be an absolute path", "begin it with `/`"),
    ("sandbox = { level = \"scope\", write = [\"/x\"] }", "3:30", "only at level `files`", "write `level = \"files\"`"),
    ("sandbox = { level = \"files\", network = false }", "3:40", "`network` must be", "write `network = [443]`"),
    ("url = \"https://x\"", "3:7", "`url` leads to another machine", "or remove `command`"),
    ("headers = { A = \"b\" }", "3:1", "`headers` is for a server that is reached by HTTP", "remove it"),
    ("args = [\"${HOME\"]", "3:9", "`${` is never closed", "close it with `}`"),
    ("args = [\"${}\"]", "3:9", "`${}` is not a valid reference", "write `${NAME}`"),
    ("args = [\"${input:x}\"]", "3:9", "`${input:x}` is not a valid reference", "write `${NAME}`"),
    ("env = { A = \"${file:x}\" }", "3:13", "`${file:x}` needs an absolute path", "begin it with `/` or `~/`"),
    ("env = { A = \"${NO_SUCH_ONE}\" }", "3:13", "variable `NO_SUCH_ONE` is not set", "set it where mcpd runs"),
    ("env = { A = \"${file:/no/such}\" }", "3:13", "`${file:/no/such}` cannot be used", "write that file"),
    ("args = [\"$HOME/x\"]", "3:9", "has `$HOME`, and no shell expands it", "write `${HOME}`"),
    ("cwd = \"/no/such\"", "3:7", "working directory `/no/such` does not exist", "`mkdir -p /no/such`"),
];

/// Servers without a program, and servers at a URL.
const SERVERS: [Row; 17] = [
    ("args = [\"x\"]", "1:10", "server `a` has no `command`", "write `command = \"npx\"`, or a `url`"),
    ("command = \"\"", "2:11", "`command` is empty", "write `command = \"npx\"`"),
    ("command = 7", "2:11", "`command` must be a string", "put it in quotes: `\"7\"`"),
    ("command = [\"npx\", \"-y\"]", "2:11", "`command` must be a string", "`command = \"npx\"` and `args = [\"-y\"]`"),
    ("command = \"npx -y x\"", "2:11", "is a command line", "write `command = \"npx\"` and `args = [\"-y\", \"x\"]`"),
    ("command = \"https://x.org\"", "2:11", "is a URL", "write `url = \"https://x.org\"`"),
    ("command = \"./x\"", "2:11", "is looked for in the working directory", "write the absolute path"),
    ("command = \"no-such-command\"", "2:11", "command `no-such-command` is not found", "write its absolute path"),
    ("url = \"localhost:80/mcp\"", "2:7", "does not begin with `http://`", "write `url = \"http://localhost:80/mcp\"`"),
    ("url = \"x.org/mcp\"", "2:7", "does not begin with `http://`", "write `url = \"https://x.org/mcp\"`"),
    ("url = \"ws://x.org/mcp\"", "2:7", "does not begin with `http://`", "write `url = \"https://example.org/mcp\"`"),
    ("url = \"https://x:99999/\"", "2:7", "the highest is 65535", "write `url ="),
    ("url = \"https://x.org/#a\"", "2:7", "`url` has a `#`", "remove the `#` and what follows it"),
    ("url = \"https://u:p@x.org/\"", "2:7", "has a user name or a password", "write it as a header"),
    ("url = \"https://x.org\"\nargs = [\"x\"]", "3:1", "`args` is for a server that mcpd runs", "remove it"),
    ("url = \"https://x.org\"\nheaders = \"A: b\"", "3:11", "`headers` must be a table", "write `headers = {"),
    (
        "url = \"https://x.org\"\nheaders = { \"A b\" = \"c\" }",
        "3:13",
        "`A b` cannot name a header",
        "such as `Authorization`",
    ),
];

/// The one error or warning about `text` has the place, the fact and the edit.
#[track_caller]
fn expect(place: &Place, file: &str, text: &str, (at, fact, edit): (&str, &str, &str)) {
    let path = place.write(file, text);
    let ran = place.mcpd(&["check", path.to_str().expect("text")]);
    let report = ran.stderr.replace("\n", " ");
    assert_eq!(report.matches("error: ").count() + report.matches("warning: ").count(), 1, "{text}\n{ran}");
    assert!(report.contains(&format!("{file}:{at} ")), "no {at}: {text}\n{ran}");
    let (message, help) = report.split_once("help: ").unwrap_or_else(|| panic!("no help: {text}\n{ran}"));
    assert!(message.contains(fact), "no {fact:?}: {text}\n{ran}");
    assert!(help.contains(edit), "no {edit:?}: {text}\n{ran}");
}

#[test]
fn each_message_about_a_mistake_has_its_place_the_fact_and_the_edit() {
    let place = Place::new();
    for (text, at, fact, edit) in SYNTAX.into_iter().chain(NAMES) {
        expect(&place, "c.toml", text, (at, fact, edit));
    }
    for (text, at, fact, edit) in JSON {
        expect(&place, "c.json", text, (at, fact, edit));
    }
    for (line, at, fact, edit) in LINES {
        expect(&place, "c.toml", &format!("[servers.a]\ncommand = \"true\"\n{line}\n"), (at, fact, edit));
    }
    for (lines, at, fact, edit) in SERVERS {
        expect(&place, "c.toml", &format!("[servers.a]\n{lines}\n"), (at, fact, edit));
    }
}

#[test]
fn each_message_about_an_unusable_file_has_its_path_and_the_reason() {
    let place = Place::new();
    let unreadable = place.write("unreadable.toml", "");
    fs::set_permissions(&unreadable, Permissions::from_mode(0o000)).expect("the test's own file");
    for (name, reason) in
        [("tmp", "no regular file"), ("no-such.toml", "No such file"), ("unreadable.toml", "ermission denied")]
    {
        let path = place.path(name);
        if name == "unreadable.toml" && fs::read(&path).is_ok() {
            skipped("this user reads every file");
            continue;
        }
        let ran = place.mcpd(&["check", path.to_str().expect("text")]).expect_code(2);
        assert!(ran.stderr.contains(path.to_str().expect("text")) && ran.stderr.contains(reason), "{ran}");
    }
}

#[test]
fn other_line_ends_tabs_and_a_byte_order_mark_are_no_mistakes() {
    let place = Place::new();
    for text in [
        "\u{feff}[servers.a]\ncommand = \"true\"\n",
        "[servers.a]\r\ncommand = \"true\"\r\n",
        "\t[servers.a]\n\tcommand = \"true\"\n",
    ] {
        let path = place.write("c.toml", text);
        let ran = place.mcpd(&["check", path.to_str().expect("text")]).expect_code(0);
        assert_eq!(ran.stdout, "1 server: valid, 0 warnings\n", "{ran}");
    }
}
