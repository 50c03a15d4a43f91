//! The effective configuration, with the place of each value.

use super::*;
use crate::config::show;

fn shown(rows: &[(&str, &str)], files: &[&str]) -> String {
    let mut sources =
        Table::from([("~", "/home/u"), ("NAME", "value"), ("TOKEN", "hunter2"), ("/secret", "hunter2\n")]);
    rows.iter().for_each(|(name, text)| sources.insert(name, text));
    let files: Vec<_> = files.iter().map(PathBuf::from).collect();
    show(&load(&files, &sources).unwrap_or_else(|error| panic!("{error}")))
}

fn check_line(shown: &str, line: &str) {
    assert!(shown.lines().any(|found| found.trim() == line), "no {line:?} in\n{shown}");
}

#[test]
fn each_value_has_the_place_that_says_it() {
    let shown = shown(
        &[
            (
                "/1.toml",
                "[daemon]\nmax_message = '2MiB'\nwatch = false\n[defaults]\npass_env = ['A']\ndeny = ['x', 'y']\n[servers.a]\n\
                 command = '~/bin/x'\nargs = ['-y', '${NAME}']\nallow = ['r*']\ndeny = ['rm']\ncall_timeout = '90s'\n\
                 tool_timeouts = { 'slow_*' = '10m' }\nprompts.deny = ['p']\n[profiles.p]\nservers = ['a']\ndeny = ['*/w*']",
            ),
            (
                "/2.toml",
                "[daemon]\nmax_message = '3MiB'\n[defaults]\npass_env = ['B']\n[servers.a]\nallow = ['*d']\ndeny = ['wd']\n",
            ),
            ("MCPD_WATCH", "true"),
        ],
        &["/1.toml", "/2.toml"],
    );
    for line in [
        "naming = \"{server}__{tool}\" # default",
        "max_message = \"3MiB\" # /2.toml:2",
        "first_list_wait = \"5s\" # default",
        "watch = true # MCPD_WATCH",
        "sharing = \"shared\" # default",
        "\"A\", # /1.toml:5",
        "\"B\", # /2.toml:4",
        "deny = [\"x\", \"y\"] # /1.toml:6",
        "[servers.a] # /1.toml:7",
        "command = \"~/bin/x\" # /1.toml:8",
        "args = [\"-y\", \"${NAME}\"] # /1.toml:9",
        "allow = [\"r*\"] # /1.toml:10",
        "# and of these only [\"*d\"] # /2.toml:6",
        "\"rm\", # /1.toml:11",
        "\"wd\", # /2.toml:7",
        "call_timeout = \"1m 30s\" # /1.toml:12",
        "[servers.a.tool_timeouts]",
        "\"slow_*\" = \"10m\" # /1.toml:13",
        "[servers.a.prompts]",
        "deny = [\"p\"] # /1.toml:14",
        "[profiles.p] # /1.toml:15",
        "servers = [\"a\"] # /1.toml:16",
        "deny = [\"*/w*\"] # /1.toml:17",
    ] {
        check_line(&shown, line);
    }
}

#[test]
fn no_secret_is_shown() {
    let shown = shown(
        &[
            (
                "/1.toml",
                "[servers.a]\ncommand = '/${file:/secret}/x'\nargs = ['${file:/secret}', '--token=hunter2', '--api-key', 'hunter2', '-x', '${cmd:op hunter2}']\n\
                 env = { A = 'hunter2', B = 'Bearer ${file:/secret}', C = '${NONE:-hunter2}', D = '${TOKEN}', E = '' }\ncwd = '/${TOKEN}'\n\
                 [servers.b]\nurl = 'https://x.org/hunter2hunter2'\nheaders = { Authorization = 'Bearer hunter2' }\nca_file = '~/ca.pem'\n\
                 oauth = { client_id = 'me', client_secret = 'hunter2', scopes = ['a', 'b'], redirect_port = 80, grant = 'client_credentials' }\n\
                 [servers.d]\nurl = 'https://x.org/'\noauth = false",
            ),
            ("/2.json", r#"{"mcpServers": {"c": {"command": "x", "env": {"K": "hunter2"}}}}"#),
        ],
        &["/1.toml", "/2.json"],
    );
    assert!(!shown.contains("hunter2"), "{shown}");
    for line in [
        "command = \"/${file:/secret}/x\" # /1.toml:2",
        "args = [\"${file:/secret}\", \"…\", \"--api-key\", \"…\", \"-x\", \"${cmd:op …}\"] # /1.toml:3",
        "A = \"…\" # /1.toml:4",
        "B = \"…${file:/secret}\" # /1.toml:4",
        "C = \"${NONE:-…}\" # /1.toml:4",
        "D = \"${TOKEN}\" # /1.toml:4",
        "E = \"\" # /1.toml:4",
        "cwd = \"/${TOKEN}\" # /1.toml:5",
        "Authorization = \"…\" # /1.toml:8",
        "ca_file = \"~/ca.pem\" # /1.toml:9",
        "[servers.b.oauth]",
        "client_id = \"me\" # /1.toml:10",
        "client_secret = \"…\" # /1.toml:10",
        "scopes = [\"a\", \"b\"] # /1.toml:10",
        "redirect_port = 80 # /1.toml:10",
        "grant = \"client_credentials\" # /1.toml:10",
        "oauth = false # /1.toml:13",
        "K = \"…\" # /2.json:1",
    ] {
        check_line(&shown, line);
    }
}

#[test]
fn of_a_url_what_may_be_a_secret_is_not_shown() {
    for (written, expected) in [
        ("https://example.org/mcp", "https://example.org/mcp"),
        ("http://127.0.0.1:9/v1/sse", "http://127.0.0.1:9/v1/sse"),
        ("https://example.org", "https://example.org"),
        ("https://example.org/s/NDU2Zjg/mcp", "https://example.org/s/…/mcp"),
        ("https://example.org/mcp?key=hunter2", "https://example.org/mcp?…"),
        ("https://${HOST}/mcp", "https://${HOST}/mcp"),
    ] {
        let shown = shown(&[("/1.toml", &format!("[servers.a]\nurl = '{written}'"))], &["/1.toml"]);
        check_line(&shown, &format!("url = \"{expected}\" # /1.toml:2"));
    }
}

/// Every key of ours, none with its default.
const EVERYTHING: &str = r#"
[daemon]
naming = "{tool}"
max_message = "2MiB"
first_list_wait = "9s"
call_log = "/c"
idle_exit = "30m"
otlp_endpoint = "http://127.0.0.1:4318"
watch = true
[defaults]
sharing = "session"
start = "lazy"
era = "modern"
instructions = false
max_instances = 9
max_concurrent = 9
idle_timeout = "9s"
handshake_timeout = "9s"
call_timeout = "9s"
tool_timeouts = { "a b" = "8s", "c" = "7s" }
call_timeout_max = "99s"
health_interval = "9s"
health_timeout = "9s"
on_unhealthy = "report"
pass_env = ["A"]
deny = ["a\"b"]
memory_max = "2GiB"
tasks_max = 9
cpu_weight = 9
[servers.a]
command = "x"
args = ["${NAME}", "$${x}"]
env = { "A.B" = "${TOKEN}" }
pass_env = ["B"]
cwd = "~/x"
allow = ["a*"]
deny = ["ab"]
expose = ["tools", "prompts", "skills", "io.example/x"]
tools = { read_only = true }
prompts = { allow = ["p"], deny = ["q"] }
resources = { deny = ["r"] }
skills = { allow = ["*/s"], deny = ["skill://t"] }
tool = { t = { name = "n", description = "d", arguments = { a = 1 }, hide_arguments = ["b"] } }
sharing = "shared"
call_timeout = "8s"
roots = ["/r"]
memory_max = "none"
log_arguments = true
enabled = false
instructions = "Ask \"first\"."
agent = true
[servers.b]
url = "http://x"
headers = { A = "${TOKEN}" }
ca_file = "~/ca"
oauth = { client_id = "${NAME}", client_secret = "${TOKEN}", scopes = ["s", "t"], redirect_port = 9, grant = "authorization_code" }
[servers.c]
url = "http://y"
oauth = false
[profiles.p]
servers = ["a"]
allow = ["*/*"]
deny = ["a/b"]
expose = ["tools"]
tools = { read_only = true }
prompts = { allow = ["a/*"] }
resources = { deny = ["*/file:///x/*"] }
naming = "{tool}"
allow_uids = [7]
workspace_roots = ["/srv/shared"]
directories = ["~/work", "/srv/work"]
max_calls = 9
rate = 9
http = "127.0.0.1:7780"
http_origins = ["https://ui.example.com"]
"#;

#[test]
fn what_is_shown_says_the_same_when_it_is_read_again() {
    let first = shown(&[("/c.toml", EVERYTHING)], &["/c.toml"]);
    let second = shown(&[("/c.toml", &first)], &["/c.toml"]);
    let uncommented = |text: &str| -> Vec<String> {
        text.lines().map(|line| line.split(" # ").next().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(uncommented(&first), uncommented(&second), "{first}");
    let config = |text: &str| load_text("/c.toml", text).unwrap_or_else(|error| panic!("{error}\n{text}")).config;
    let (one, two) = (config(EVERYTHING), config(&first));
    assert_eq!((&one.daemon, &one.profiles), (&two.daemon, &two.profiles));
    for (one, two) in one.servers.iter().zip(&two.servers) {
        assert!(one.runs_like(two) && one.settings == two.settings, "{first}");
        assert_eq!(one.settings.log_arguments, two.settings.log_arguments);
    }
}

/// The reader itself says which keys it knows.
#[test]
fn every_key_is_shown() {
    let unknown = "qqq=1\n[daemon]\nqqq=1\n[defaults]\nqqq=1\n[servers.a]\ncommand='x'\nqqq=1\ntools.qqq=1\nprompts.qqq=1\nskills.qqq=1\ntool.t.qqq=1\n\
                   [profiles.p]\nqqq=1\ntools.qqq=1\nprompts.qqq=1\n";
    let shown = shown(&[("/c.toml", EVERYTHING)], &["/c.toml"]);
    let error = load_text("/c.toml", unknown).expect_err("unknown keys");
    let helps = error.diagnostics().iter().filter_map(|diagnostic| diagnostic.help.as_deref());
    let keys = helps.flat_map(|help| help.split('`').skip(1).step_by(2));
    let mut known = 0;
    for key in keys {
        let places =
            [format!("\n{key} = "), format!("[{key}]"), format!(".{key}]"), format!("\n[{key}."), format!(".{key}.")];
        assert!(places.iter().any(|place| shown.contains(place)), "{key} is not in\n{shown}");
        known += 1;
    }
    assert!(known > 60, "{known}");
}
