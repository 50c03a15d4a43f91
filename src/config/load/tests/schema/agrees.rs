//! The schema refuses what the reader refuses, and takes what it takes.

use super::*;

/// Files that both refuse.
const REFUSED: &[&str] = &[
    "qqq = 1",
    "servers = []",
    "[servers]\na = 'x'",
    "[servers.a]\nargs = []",
    "[servers.a]\ncommand = 7",
    "[servers.a]\ncommand = ''",
    "[servers.a__b]\ncommand = 'x'",
    "[servers.'a b']\ncommand = 'x'",
    "[daemon]\nnamming = '{tool}'",
    "[daemon]\nnaming = '{tool}_{server}'",
    "[daemon]\nmax_message = 'much'",
    "[daemon]\nmax_message = 1.5",
    "[daemon]\nmax_message = true",
    "[daemon]\ncall_log = 'x'",
    "[daemon]\notlp_endpoint = 'localhost:4318'",
    "[daemon]\notlp_endpoint = 'http://u@x.org'",
    "[daemon]\nfirst_list_wait = 30",
    "[defaults]\nsharing = 'all'",
    "[defaults]\nstart = true",
    "[defaults]\ncall_timeout = 'soon'",
    "[defaults]\ncall_timeout = '30'",
    "[defaults]\ncall_timeout = ''",
    "[defaults]\ntool_timeouts = { a = 1 }",
    "[defaults]\npass_env = ['A=1']",
    "[defaults]\npass_env = ['']",
    "[defaults]\ntasks_max = '1'",
    "[defaults]\nmax_concurrent = '1'",
    "[defaults]\ncommand = 'x'",
    "[defaults]\ntool = {}",
    "[servers.a]\ncommand = 'x'\ntool = []",
    "[servers.a]\ncommand = 'x'\ntool = { '' = { name = 'x' } }",
    "[servers.a]\ncommand = 'x'\ntool = { t = {} }",
    "[servers.a]\ncommand = 'x'\ntool = { t = { name = 'a b' } }",
    "[servers.a]\ncommand = 'x'\ntool = { t = { nmae = 'x' } }",
    "[servers.a]\ncommand = 'x'\ntool = { t = { arguments = [] } }",
    "[servers.a]\ncommand = 'x'\ntool = { t = { hide_arguments = 'x' } }",
    "[servers.a]\nurl = 'example.org'",
    "[servers.a]\nurl = 'https://x'\nargs = []",
    "[servers.a]\nurl = 'https://x'\nheaders = { 'a b' = 'x' }",
    "[servers.a]\nurl = 'https://u:p@x'",
    "[servers.a]\nurl = 'https://x/#y'",
    "[servers.a]\nurl = 'https://x'\nca_file = 'ca.pem'",
    "[servers.a]\nurl = 'https://x'\noauth = 'no'",
    "[servers.a]\nurl = 'https://x'\noauth = { qqq = 1 }",
    "[servers.a]\nurl = 'https://x'\noauth = { client_id = '' }",
    "[servers.a]\nurl = 'https://x'\noauth = { client_secret = 'x' }",
    "[servers.a]\nurl = 'https://x'\noauth = { scopes = ['a b'] }",
    "[servers.a]\nurl = 'https://x'\noauth = { grant = 'password' }",
    "[servers.a]\nurl = 'https://x'\noauth = { grant = 'client_credentials' }",
    "[servers.a]\nurl = 'https://x'\noauth = { grant = 'client_credentials', client_id = 'x' }",
    "[servers.a]\nurl = 'https://x'\noauth = { redirect_port = 0 }",
    "[servers.a]\nurl = 'https://x'\noauth = { redirect_port = 65536 }",
    "[servers.a]\nca_file = '/x'",
    "[servers.a]\noauth = false",
    "[profiles.mcp]",
    "[profiles.a__b]",
    "[profiles.p]\nservers = 'a'",
    "[profiles.p]\nallow = ['read_*']",
    "[profiles.p]\ndeny = ['a/']",
    "[profiles.p]\nallow_uids = [-1]",
    "[profiles.p]\nallow_uids = [65534]",
    "[profiles.p]\nrate = '50/s'",
    "[profiles.p]\nhttp = '0.0.0.0:7780'",
    "[profiles.p]\nhttp = '127.0.0.1'",
    "[profiles.p]\nhttp = '127.0.0.1:0'",
    "[profiles.p]\ndirectories = '~/work'",
    "[profiles.p]\ndirectories = ['work']",
    "[profiles.p]\nhttp_origins = ['https://a.example/x']",
];

/// Lines of a server's table that both refuse.
const REFUSED_OF_SERVER: &[&str] = &[
    "args = '-y'",
    "args = ['-y', 7]",
    "env = { A = 1 }",
    "env = { 'A=B' = 'x' }",
    "env = { '' = 'x' }",
    "env = []",
    "cwd = 'notes'",
    "roots = ['notes']",
    "deny = 'write_*'",
    "deny = [1]",
    "expose = ['tool']",
    "tools = { qqq = 1 }",
    "tools = { read_only = 'yes' }",
    "prompts = { denny = [] }",
    "resources = ['x']",
    "log_arguments = 1",
    "enabled = 'no'",
    "instructions = 1",
    "naming = '{tool}'",
    "headers = {}",
    "ca_file = '/x'",
    "oauth = false",
    "url = 'https://x'",
];

#[test]
fn it_refuses_what_the_reader_refuses() {
    let validator = validator();
    let server = |line: &&str| format!("[servers.a]\ncommand = 'x'\n{line}");
    for text in REFUSED.iter().map(|text| (*text).to_owned()).chain(REFUSED_OF_SERVER.iter().map(server)) {
        assert!(load_text("/c.toml", &text).is_err(), "the reader takes {text}");
        assert!(!validator.is_valid(&instance(&text)), "the schema takes {text}");
    }
}

#[test]
fn it_takes_what_the_reader_takes() {
    let validator = validator();
    let daemon =
        ["max_message = '1 MiB'", "max_message = ' 65536 B'", "first_list_wait = '1h 5m30s'", "call_log = '${HOME}/x'"];
    let server =
        ["cwd = '${HOME}/x'", "roots = ['~/x', 'file:///x']", "env = { 'A.B-c' = '' }", "call_timeout = '2 days'"];
    let texts = daemon.map(|line| format!("[daemon]\n{line}")).into_iter();
    let texts = texts.chain(
        [
            "unix:/x.sock#/mcp",
            "unix:///x.sock",
            "http://127.0.0.1:1/mcp",
            "https://localhost",
            "http://[::1]:1",
            "${HOME}",
        ]
        .map(|url| format!("[servers.a]\ncommand = 'x'\nargs = []\nurl = '{url}'\nheaders = {{ A = 'x' }}")),
    );
    let texts = texts.chain(["[servers.a]\nurl = '${HOME}/x'\nheaders = { A = 'x' }\nroots = ['/']".to_owned()]);
    let texts = texts.chain([
        "[servers.a]\nurl = 'https://x'\noauth = false\nca_file = '~/x'".to_owned(),
        "[servers.a]\nurl = 'https://x'\noauth = true\nca_file = '${HOME}/x'".to_owned(),
        "[servers.a]\nurl = 'https://x'\n[servers.a.oauth]\nclient_id = 'https://y/z'\nclient_secret = '${HOME}'\nscopes = ['a:b']\n\
         redirect_port = 80"
            .to_owned(),
        "[servers.a]\nurl = 'https://x'\noauth = { grant = 'client_credentials', client_id = 'x', client_secret = 'y' }"
            .to_owned(),
        "[servers.a]\nurl = 'https://x'\noauth = { grant = 'authorization_code' }".to_owned(),
    ]);
    let texts =
        texts.chain(["[profiles.p]\ndeny = ['*/x', 'a/file:///x']\nnaming = '{tool}'\nallow_uids = [0]".to_owned()]);
    for text in texts.chain(server.map(|line| format!("[servers.a_b-1]\ncommand = 'x'\n{line}"))) {
        let sources = Table::from([("~", "/home/u"), ("HOME", "/home/u"), ("/c.toml", &text)]);
        load(&[PathBuf::from("/c.toml")], &sources).unwrap_or_else(|error| panic!("{error}"));
        assert!(validator.is_valid(&instance(&text)), "{text}");
    }
}
