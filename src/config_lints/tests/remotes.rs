//! Of servers that are reached at a URL, and of programs that only do that.

use super::*;

#[test]
fn what_is_secret_is_not_to_travel_in_the_clear() {
    let server = |url: &str, rest: &str| format!("[servers.a]\nurl = '{url}'\n{rest}");
    let header = "headers = { X-Api-Key = '${file:~/key}', Accept-Language = 'en' }";
    let warned =
        "3:25 `X-Api-Key` looks like a secret, and goes to example.org without encryption | write an `https://`…";
    for (url, rest, expected) in [
        ("https://example.org/", header, None),
        ("http://localhost:9/", header, None),
        ("http://a.localhost/", header, None),
        ("http://127.8.0.1/", header, None),
        ("http://[::1]/", header, None),
        ("http://example.org/", "headers = { X-Mode = 'fast' }", None),
        ("http://example.org/", header, Some(warned)),
        (
            "http://10.0.0.1/",
            "headers = { Authorization = 'Bearer s3cr3tt0' }",
            Some("3:29 `Authorization` looks like…"),
        ),
        (
            "http://10.0.0.1/",
            "headers = { X = '${API_TOKEN:-x}' }",
            Some("3:17 `X` looks like a secret, and goes to 10…"),
        ),
        ("http://${SET}.org/", header, Some("3:25 `X-Api-Key` looks like a secret, and goes to another machine…")),
    ] {
        check(&server(url, rest), &[], &expected.into_iter().collect::<Vec<_>>());
    }
    check(&server("https://x/", "ca_file = '~/data'"), &[], &[]);
    for (path, shown) in [("~/none", "~/none"), ("/${SET}/${file:~/key}", "/${SET}/${file:~/key}")] {
        check(
            &server("https://x/", &format!("ca_file = '{path}'")),
            &[],
            &[&format!("3:11 `ca_file` {shown} does not exist, so the server cannot be reached | …")],
        );
    }
}

#[test]
fn port_of_the_other_scheme_is_reported() {
    let server = |url: &str| format!("[servers.a]\nurl = '{url}'\n");
    for (url, expected) in [
        ("https://x.org:80/mcp", Some("2:7 `https://` does not go with port 80, … | write `http://`, or another port")),
        ("http://x.org:443/mcp", Some("2:7 `http://` does not go with port 443, … | write `https://`…")),
        ("https://x.org:443/", None),
        ("http://127.0.0.1:80/", None),
        ("https://127.0.0.1:8080/", None),
    ] {
        check(&server(url), &[], &expected.into_iter().collect::<Vec<_>>());
    }
}

#[test]
fn a_program_that_only_reaches_a_url_is_not_needed() {
    let server = |command: &str, args: &str| format!("[servers.a]\ncommand = '{command}'\nargs = [{args}]\n");
    let rows = &[("/usr/bin/mcp-remote", ""), ("/usr/bin/mcp-remote mode", "755")];
    for (command, args, expected) in [
        ("x", "'-y', 'mcp-remote', 'https://x.org/mcp'", Some("`url = \"https://x.org/mcp\"` in place…")),
        ("x", "'mcp-remote@latest', 'https://x.org/mcp', '--header', 'A: b'", Some("`url = \"https://x.org/mcp\"`…")),
        ("mcp-remote", "'http://127.0.0.1:9/sse'", Some("`url = \"http://127.0.0.1:9/sse\"`…")),
        ("x", "'mcp-remote', 'https://x.org/?api_key=s3cr3tt0'", Some("`url = \"https://…\"`…")),
        ("x", "'mcp-remote', 'https://${SET}.org/mcp'", Some("`url = \"https://${SET}.org/mcp\"`…")),
        ("x", "'mcp-remote'", None),
        ("x", "'mcp-remote-files', 'https://x.org'", None),
        ("x", "'https://x.org'", None),
    ] {
        let expected = expected.map(|help| format!("2:11 `a` is run by `mcp-remote`, but mcpd… | write {help}"));
        let warnings: Vec<_> = warnings_of(rows, &server(command, args), &[])
            .into_iter()
            .filter(|warning| warning.starts_with("2:"))
            .collect();
        assert_eq!(warnings.len(), usize::from(expected.is_some()), "{args}: {warnings:?}");
        let parts = expected.iter().flat_map(|expected| expected.split('…'));
        assert!(parts.into_iter().all(|part| warnings[0].contains(part)), "{args}: {warnings:?}");
    }
}

#[test]
fn limits_are_for_servers_that_run_here() {
    let text = "[defaults]\nmemory_max = '1GiB'\n[servers.a]\nurl = 'https://x/mcp'\nmemory_max = '2GiB'\ntasks_max = 9\n\
                [servers.b]\ncommand = 'x'\ntasks_max = 9";
    let expected =
        ["5:14 `memory_max` limits nothing: server `a` runs elsewhere | remove it", "6:13 `tasks_max` limits nothing"];
    check(text, &[], &expected);
}
