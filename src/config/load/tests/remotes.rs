//! Servers that are reached at a URL.

use super::*;
use crate::config::Remote;

fn remote(config: &ServerConfig) -> &Remote {
    match config.launch.as_ref().expect("defined") {
        Launch::Remote(remote) => remote,
        Launch::Program(_) => panic!("it is run"),
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
        assert!(!server.policy.permits(crate::kind::Kind::Tools, "write", None));
        let shown = format!("{server:?}");
        assert!(shown.contains("Authorization") && !shown.contains("hunter2") && !shown.contains("value"), "{shown}");
    }
}

#[test]
fn a_url_is_one_and_headers_are_fit_for_http() {
    let check = |text: &str, expected: &[&str]| check(&format!("[servers.a]\n{text}"), expected);
    for url in ["", "x", "http://", "ftp://x", "https://x y", "https://x\\ny", "HTTP://x"] {
        check(
            &format!("url = \"{url}\""),
            &["2:7 `url` must begin with `http://` or `https://` | write `url = \"http…"],
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
    check(
        "[servers.a]\ncommand = 'x'\nurl = 'http://x'",
        &["3:1 server `a` has both a `command` and a `url` | remove one of the two…"],
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
        ("url = '${NAME}'", "`url` does not begin with `http://` or `https://` once"),
        ("url = 'http://${NONE}'", "environment variable `NONE` is not set"),
        ("url = 'http://x'\nheaders = { A = '${LINES}' }", "`headers` has one with a control character once"),
    ] {
        let text = format!("[servers.a]\n{text}\n[servers.b]\ncommand = 'x'");
        let sources = Table::from([("NAME", "value"), ("LINES", "a\r\nb"), ("/c.toml", &text)]);
        let servers = load(&[PathBuf::from("/c.toml")], &sources).expect("the rest holds").config.servers;
        let error = servers[0].launch.as_ref().expect_err("unfit").to_string();
        assert!(error.starts_with(complaint), "{error}");
        assert!(servers[1].launch.is_ok());
    }
}
