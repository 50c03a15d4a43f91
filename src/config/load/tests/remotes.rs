//! Servers that are reached at a URL.

use super::*;
use crate::config::{OAuth, OAuthGrant, Remote, Replace};

fn remote(config: &ServerConfig) -> &Remote {
    match config.launch.as_ref().expect("defined") {
        Launch::Remote(remote) => remote,
        Launch::Program(_) | Launch::Served(..) => panic!("it is run"),
    }
}

#[test]
fn both_formats_have_a_url_and_headers() {
    for text in [
        "[servers.a]\nurl = 'https://${NAME}.org/mcp'\nheaders = { Authorization = 'Bearer ${TOKEN}', X-A = '' }\ndeny = ['w*']\n\
         call_timeout = '1m'",
        r#"{"mcpServers": {"a": {"url": "https://${NAME}.org/mcp", "deny": ["w*"],
            "headers": {"Authorization": "Bearer ${TOKEN}", "X-A": ""}}}}"#,
    ] {
        let server = server(text);
        let remote = remote(&server);
        assert_eq!(remote.url, "https://value.org/mcp");
        assert_eq!((&*remote.headers["Authorization"], &*remote.headers["X-A"]), ("Bearer hunter2", ""));
        assert!(!server.policy.permits(crate::list_kind::ListKind::Tools, "write", None));
        let shown = format!("{server:?}");
        assert!(shown.contains("Authorization") && !shown.contains("hunter2") && !shown.contains("value"), "{shown}");
    }
}

#[test]
fn a_url_is_one_and_headers_are_fit_for_http() {
    let check = |text: &str, expected: &[&str]| check(&format!("[servers.a]\n{text}"), expected);
    for (url, complaint) in [
        ("", "does not begin with `http://`, `https://` or `unix:`"),
        ("x", "does not begin with"),
        ("http://", "has no host"),
        ("ftp://x", "does not begin with"),
        ("HTTP://x", "does not begin with"),
        ("https://x y", "has a space or a control character"),
        ("https://x\\ny", "has a space or a control character"),
        ("https://x:y", "has an invalid port: the highest is 65535"),
    ] {
        check(&format!("url = \"{url}\""), &[&format!("2:7 `url` {complaint}… | write `url = \"http…")]);
    }
    check("url = 'https://x/#y'", &["2:7 `url` has a `#` | remove the `#` and what follows it"]);
    for url in ["https://u:p@x", "https://u@x/", "https://:p@x"] {
        check(
            &format!("url = '{url}'"),
            &["2:7 `url` has a user name or a password | write it as a header: `headers…"],
        );
    }
    check("url = 5", &["2:7 `url` must be a string | …"]);
    check(
        "url = 'http://x'\nheaders = { 'A B' = 'x', a = 'x', A = 'y', '' = 'x', B = \"x\\ny\", C = 5 }",
        &[
            "3:13 `A B` cannot name a header | …",
            "3:35 header `A` is there already | keep one of the two…",
            "3:44 `` cannot name a header | …",
            "3:58 header `B` holds a control character | …",
            "3:70 header `C` must be a string | …",
        ],
    );
    check("url = 'http://x'\nheaders = ['A: x']", &["3:11 `headers` must be a table | write `headers = { Auth…"]);
}

#[test]
fn a_server_is_either_run_or_reached() {
    check_file(
        "/c.json",
        r#"{"mcpServers": {"a": {"command": "x", "url": "http://x"}}}"#,
        &["1:39 server `a` has both a `command` and a `url` | remove one of them, or write the server in mcpd's TOML…"],
    );
    check(
        "[servers.a]\nurl = 'http://x'\nargs = []\nenv = {}\ncwd = '/'\npass_env = []\nroots = ['/x']",
        &[
            "3:1 `args` is for a server that mcpd runs, and this one has a `url` | remove it",
            "4:1 `env` is for …",
            "5:1 `cwd` is for …",
            "6:1 `pass_env` is for …",
        ],
    );
    check("[servers.a]\ncommand = 'x'\nheaders = {}", &["3:1 `headers` is for a server that is reached by HTTP… | …"]);
}

#[test]
fn a_url_that_is_none_once_it_is_filled_in_fails_its_server_alone() {
    for (text, complaint) in [
        ("url = '${NAME}'", "`url` does not begin with `http://`, `https://` or `unix:` after"),
        ("url = '${UNIX}'\noauth = { scopes = [] }", "`oauth` does not go with a Unix socket after"),
        ("command = 'x'\nurl = '${HTTP}'", "`url` leads to another machine, and the `command` of this"),
        ("url = 'http://${NAME}@x'", "`url` has a user name or a password after"),
        (
            "url = 'http://${NONE}'",
            "environment variable `NONE` is not set in mcpd's environment: write `${NONE:-DEFAULT}` for a default",
        ),
        ("url = 'http://x'\nheaders = { A = '${LINES}' }", "`headers` has one with a control character after"),
        ("url = 'http://x'\nca_file = '${NAME}'", "`ca_file` is not an absolute path after"),
        ("url = 'http://x'\noauth = { client_id = '${LINES}' }", "`oauth` has a `client_id` that is none after"),
    ] {
        let text = format!("[servers.a]\n{text}\n[servers.b]\ncommand = 'x'");
        let urls = [("UNIX", "unix:/x.sock"), ("HTTP", "http://x")];
        let sources = Table::from([("NAME", "value"), ("LINES", "a\r\nb"), ("/c.toml", &text), urls[0], urls[1]]);
        let servers = load(&[PathBuf::from("/c.toml")], &sources).expect("the rest holds").config.servers;
        let error = servers[0].launch.as_ref().expect_err("unfit").to_string();
        assert!(error.starts_with(complaint), "{error}");
        assert!(servers[1].launch.is_ok());
    }
}

#[test]
fn ca_file_and_oauth_are_keys_beside_the_url() {
    let text = "[servers.a]\nurl = 'https://x'\nca_file = '~/${NAME}.pem'\n\
        oauth = { client_id = '${NAME}', client_secret = '${TOKEN}', scopes = ['a', 'b:c'], redirect_port = 8080, \
        grant = 'client_credentials' }";
    let server = server(text);
    let remote = remote(&server);
    assert_eq!(remote.ca_file.as_deref(), Some(Path::new("/home/u/value.pem")));
    let OAuth::On(oauth) = &remote.oauth else { panic!("it is on") };
    assert_eq!((oauth.client_id.as_deref(), oauth.client_secret.as_deref()), (Some("value"), Some("hunter2")));
    assert_eq!((&*oauth.scopes, oauth.redirect_port), (&["a".to_owned(), "b:c".to_owned()][..], Some(8080)));
    assert_eq!(oauth.grant, Some(OAuthGrant::ClientCredentials));
    assert_eq!(remote.secrets.masked("a hunter2"), "a …");
    for (text, expected) in [("", OAuth::default()), ("oauth = true", OAuth::default()), ("oauth = false", OAuth::Off)]
    {
        let server = super::server(&format!("[servers.a]\nurl = 'https://x'\n{text}"));
        assert!(self::remote(&server).oauth == expected && self::remote(&server).ca_file.is_none(), "{text}");
    }
}

#[test]
fn what_goes_with_a_url_is_checked_where_it_stands() {
    let check = |text: &str, expected: &[&str]| check(&format!("[servers.a]\nurl = 'http://x'\n{text}"), expected);
    check("ca_file = 'x'", &["3:11 `ca_file` must be an absolute path | write `ca_file = \"~/…"]);
    check("oauth = 'no'", &["3:9 `oauth` must be a table, or false | write `oauth = { client_id = …"]);
    check(
        "oauth = { client = 'x' }",
        &["3:11 unknown key `client` in `[servers.a.oauth]` | did you mean `client_id`?"],
    );
    check("oauth = { client_secret = 'x' }", &["3:11 `client_secret` without a `client_id` | write the `client_id`…"]);
    let one_is_missing =
        ["3:11 `client_credentials` are a `client_id` and a `client_secret`, and one is missing | write both…"];
    check("oauth = { grant = 'client_credentials' }", &one_is_missing);
    check("oauth = { grant = 'client_credentials', client_id = 'x' }", &one_is_missing);
    check(
        "oauth = { grant = 'client_credential' }",
        &["3:19 `client_credential` is not a value of `grant` | did you mean…"],
    );
    check("oauth = { client_id = '' }", &["3:23 `client_id` is empty, or has… | …"]);
    check(
        "oauth = { scopes = ['a b', '', 'ä'] }",
        &["3:21 `a b` is no scope | write each…", "3:28 `` is…", "3:32 `ä` is…"],
    );
    check("oauth = { scopes = 'a' }", &["3:20 `scopes` must be a list of strings | write `scopes = ['a']`"]);
    check(
        "oauth = { redirect_port = 70000 }",
        &["3:27 `redirect_port` must be an absolute number from 1 to 65535 | …"],
    );
}

#[test]
fn a_server_that_is_run_has_none_of_it() {
    for key in ["ca_file = '/x'", "oauth = false"] {
        let name = key.split(' ').next().unwrap();
        let expected =
            format!("3:1 `{name}` is for a server that is reached by HTTP, and this one has no `url` | remove it");
        check(&format!("[servers.a]\ncommand = 'x'\n{key}"), &[&expected]);
    }
}

#[test]
fn a_program_may_serve_a_url_of_this_machine() {
    let text = "[servers.a]\ncommand = 'x'\nargs = ['${TOKEN}']\nroots = ['/r']\nurl = 'http://localhost:1/mcp'\nheaders = { A = '${TOKEN}' }";
    let config = server(text);
    let Ok(launch @ Launch::Served(program, remote)) = &config.launch else { panic!("it has both") };
    assert_eq!((&*program.args[0], &*remote.headers["A"], &remote.oauth), ("hunter2", "hunter2", &OAuth::Off));
    assert_eq!(launch.roots(), ["/r"]);
    assert_eq!(config.settings.replace, Replace::StopFirst);
    let check = |text: &str, expected: &[&str]| check(&format!("[servers.a]\ncommand = 'x'\n{text}"), expected);
    check(
        "url = 'http://x/mcp'",
        &["3:7 `url` leads to another machine… | write `url = \"http://127.0.0.1:PORT/mcp\"`, or remove `command`"],
    );
    check(
        "url = 'http://[::1]/'\noauth = true",
        &["4:1 `oauth` is for a server elsewhere, and mcpd runs this one | remove it"],
    );
    check("url = 'http://[::1]/'\nroots = ['x']", &["4:10 a root must be… | …"]);
    check("url = 'http://[::1]/'\nsharing = 'session'", &["3:7 several instances cannot listen at one `url` | …"]);
    check("url = 'unix:${agent:cwd}/s'\nsharing = 'workspace'", &[]);
    let offline =
        "3:7 the `network` of its `sandbox` keeps the server from listening at this port | remove `network`, or…";
    check("url = 'http://[::1]/'\nsandbox = { level = 'files', network = 'none' }", &[offline]);
    check("url = 'http://[::1]/'\nsandbox = { level = 'scope', network = [443] }", &[offline]);
    let ports =
        "3:7 the `network` of its `sandbox` keeps the server from listening at a Unix socket | remove `network`, or…";
    check("url = 'unix:/srv/s'\nsandbox = { level = 'scope', network = [443] }", &[ports]);
    check("url = 'unix:/srv/s'\nsandbox = { level = 'scope', network = 'none' }", &[]);
    let unix =
        "3:7 its `sandbox` keeps the server from listening at a Unix socket | write `unix = true` in its `sandbox`";
    check("url = 'unix:/srv/s'\nsandbox = 'files'", &[unix]);
    check("url = 'unix:/srv/s'\nsandbox = { level = 'scope', unix = false }", &[unix]);
    check(
        "url = 'unix:/srv/d/s'\nsandbox = { level = 'files', unix = true }",
        &[
            "3:7 its `sandbox` keeps the server from making this socket | add the directory of the socket to `write` of its `sandbox`: `/srv/d`",
        ],
    );
    check(
        "url = 'unix:/srv/d/s'\nsandbox = { level = 'files', unix = true, network = 'none', write = ['/srv/d'] }",
        &[],
    );
}

#[test]
fn a_url_may_be_a_unix_socket() {
    let config = server("[servers.a]\nurl = 'unix:/run/${NAME}.sock#/mcp'\nheaders = { A = '${TOKEN}' }");
    let remote = remote(&config);
    assert_eq!((remote.shown_origin(), &remote.oauth), ("unix:/run/value.sock".to_owned(), &OAuth::Off));
    let check = |text: &str, expected: &[&str]| check(&format!("[servers.a]\n{text}"), expected);
    check(
        "url = 'unix:x.sock'",
        &["2:7 `url` has no absolute path… | write `url = \"unix:/run/user/1000/x.sock#/mcp\"`"],
    );
    check("url = 'unix:/x#mcp'", &["2:7 `url` has no `/` after its `#`… | …"]);
    check(
        "url = 'unix:/x'\noauth = {}",
        &["3:1 `oauth` is for a server elsewhere, and this one has a Unix socket | remove it"],
    );
}
