//! A file that does not parse keeps its secrets: what cannot be read cannot be told from a secret.

use super::*;

/// What no text that is printed may hold.
const CANARY: &str = "canary";

fn refused(path: &str, text: &str) {
    let error = load_text(path, text).expect_err(text);
    let descriptions: String = error.diagnostics().iter().map(describe).collect();
    let labels: String = error.diagnostics().iter().filter_map(|diagnostic| diagnostic.label.clone()).collect();
    let printed = format!("{error}\n{}\n{error:?}\n{descriptions}\n{labels}", error.render(true));
    assert!(!printed.contains(CANARY), "{text}\n{error}");
    assert!(printed.contains(&format!("{path}:")) && printed.contains('^'), "{error}");
}

#[test]
fn what_is_no_toml_is_not_printed() {
    for text in [
        "[servers.a.env]\nPASSWORD = canary\n",
        "[servers.a.env]\nPASSWORD = canary secret\n",
        "[servers.a.env]\nPASSWORD = ghp_canaryE42f292c6912E7710c838347Ae178B4a\n",
        "[servers.a.env]\nPASSWORD: \"canary\"\n",
        "[servers.a.env]\nPASSWORD \"canary\"\n",
        "[servers.a.env]\nPASSWORD canary\n",
        "[servers.a.env]\n\"PASSWORD = canary\n",
        "[servers.a.env]\nPASSWORD = \"canary\n",
        "[servers.a.env]\nPASSWORD = 'canary\n",
        "[servers.a.env]\nPASSWORD = \"\"\"canary\n",
        "[servers.a.env]\nPASSWORD = \"\"\"\ncanary = 1\n",
        "[servers.a.env]\nPASSWORD = \"\"\"\ncanary = \\q\n",
        "[servers.a.env]\nPASSWORD = '''\nx\ncanary = 1",
        "[servers.a.env]\nPASSWORD = canary\"\n",
        "[servers.a.env]\nPASSWORD = \"\\qcanary\"\n",
        "[servers.a.env]\nPASSWORD = \"x\" canary\n",
        "[servers.a.env]\nPASSWORD = 1canary\n",
        "[servers.a.env]\nPASSWORD = trcanary\n",
        "[servers.a.env]\nPASSWORD = \"canary1\"\nPASSWORD = \"canary2\"\n",
        "[servers.a.env]\n\"canary x\" = '1'\n\"canary x\" = '2'\n",
        "[servers.a]\nenv = { T = 'ghp_canaryE42f292c6912E7710c838347Ae178B4a'\n",
        "[servers.a]\nenv = { T = 'x', T = 'canary' }\n",
        "[servers.a]\nenv = { T = 'x' U = 'canary' }\n",
        "[servers.a]\nargs = [\n  '--token',\n  'canary\n]\n",
        "[servers.a]\nargs = [\n  '--token'\n  'canary'\n]\n",
        "[servers.a]\nargs = [\n  '--token',\n  canary,\n]\n",
        "[servers.a]\nargs = ['--token', canary]\n",
        "[servers.a]\nargs = ['--token' 'canary']\n",
        "[servers.a]\ncommand = 'x'\nPASSWORD: canary = 'x'\n",
        "[servers.a canary]\n",
        "# canary\n= canary\n",
        "canary",
    ] {
        refused("/c.toml", text);
    }
}

#[test]
fn what_is_no_json_is_not_printed() {
    for text in [
        r#"{"mcpServers": {"a": {"env": {"T": "canary}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": canary"}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": canary}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T" "canary"}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": "x" "U": "canary"}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": "x", "T": "canary"}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"canary x": "x", "canary x": "y"}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": 'canary'}}}}"#,
        r#"{"mcpServers": {"a": {"env": {"T": "\qcanary"}}}}"#,
        r#"{"mcpServers": {"a": {"args": ["--token" "canary"]}}}"#,
        "{\"mcpServers\": {\"a\": {\n\"env\": {\n\"T\" \"canary\"\n}}}}",
        "{\"mcpServers\": {\"a\": {\n\"env\": {\n\"T\": \"canary\n}}}}",
        "{\"mcpServers\": {\"a\": {\n\"env\": {\n\"T\": \"x\"\n\"U\": \"canary\"\n}}}}",
        "{\"mcpServers\": {\"a\": {\"args\": [\n\"--token\"\n\"canary\"\n]}}}",
        "{\"mcpServers\": {\"a\": {\"args\": [\n\"--token\",\ncanary\"\n]}}}",
        "{\"mcpServers\": {\"a\": {\"args\": [\n\"--header\"\n\"X: canary\"\n]}}}",
        "{} canary",
    ] {
        refused("/c.json", text);
    }
}

#[test]
fn what_is_left_of_a_line_tells_where_to_look() {
    for (text, expected) in [
        ("[servers.a.env]\nPASSWORD = hunter2\n", "\n2 | PASSWORD = *******\n  |            ^^^^^^^\n"),
        ("[servers.a\n", "\n1 | [servers.a\n"),
        ("[servers.a.env]\nPASSWORD: 'x'\n", "\n2 | PASSWORD: '**\n"),
    ] {
        let printed = load_text("/c.toml", text).expect_err("bad").to_string();
        assert!(printed.contains(expected), "{printed}");
    }
}
