//! Secrets, and what only looks like one, as tables.

use super::*;

#[test]
fn secret_names_are_distinguished_from_names_of_paths_and_numbers() {
    for name in [
        "GITHUB_TOKEN",
        "GITHUB_PERSONAL_ACCESS_TOKEN",
        "githubToken",
        "--token",
        "TOKEN2",
        "API_KEY",
        "OPENAI_APIKEY",
        "X-Api-Key",
        "--api-key",
        "AWS_SECRET_ACCESS_KEY",
        "DB_PASSWORD",
        "--password",
        "PGPASSWORD",
        "clientSecret",
        "Authorization",
        "GITLAB_PAT",
        "STRIPE_SECRET_KEY",
    ] {
        assert!(is_secret_name(name), "{name}");
    }
    for name in [
        "",
        "_",
        "TOKEN_FILE",
        "MAX_TOKENS",
        "TOKEN_LIMIT",
        "API_KEY_PATH",
        "SORT_KEY",
        "PUBLIC_KEY",
        "KEYBOARD",
        "MONKEY",
        "PATH",
        "COMPAT",
        "--keys",
        "AUTHOR",
        "SECRET_ID",
        "HOME",
    ] {
        assert!(!is_secret_name(name), "{name}");
    }
}

#[test]
fn secrets_are_distinguished_from_long_plain_text() {
    for value in [
        "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ",
        "sk-proj-4f9aKq2LmN8rTz7bVc3XyW1d",
        "xoxb-1234567890-abcdefghij",
        "AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY",
        "Bearer abcdefgh12345678",
        "bearer abcdefgh12345678",
        "postgres://me:hunter2@db.example.org/x",
        "-----BEGIN OPENSSH PRIVATE KEY-----\nabc",
        "q7Zt9LmX2bVw4RkP8sYdN3Fg",
    ] {
        assert!(is_secret_value(value), "{value}");
        assert!(is_secret("ANYTHING", value), "{value}");
    }
    for value in [
        "",
        "ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx",
        "sk-your-api-key-goes-in-here-please",
        "sk-learn",
        "Bearer <token>",
        "Bearer ${cred:search}",
        "Bearer of bad news and of good",
        "https://example.org/a/b?c=d",
        "https://me@example.org",
        "postgres://me:<password>@db/x",
        "/home/me/Documents/Some-Long-Directory-Name-2",
        "my-very-long-database-name-for-production-2",
        "@modelcontextprotocol/server-filesystem",
        "550e8400-e29b-41d4-a716-446655440000",
        "da39a3ee5e6b4b0d3255bfef95601890afd80709",
        "SomeVeryLongCamelCaseIdentifierOfNoSecret42",
        "2026-01-01T00:00:00.000Z",
    ] {
        assert!(!is_secret_value(value), "{value}");
    }
}

#[test]
fn secret_inside_of_a_longer_text_is_found() {
    for value in [
        r#"{"Authorization": "Bearer hunter22x", "Notion-Version": "2022-06-28"}"#,
        r#"{\"headers\":{\"X-Api-Key\":\"hunter22\"}}"#,
        r#"{"Authorization": "Basic hunter2", "Org": "${ORG}"}"#,
        "Server=tcp:db.example.org;User ID=sa;Password=hunter22;",
        "host=db user=me password=hunter22",
        "password: hunter22",
        "--dsn=postgres://me:hunter2@db/x",
        "postgres://me:hunter2@${HOST}/x",
        "postgres://me:hunt,er2@db/x",
        "a,redis://:hunter2@cache:6379",
        "https://x.example.org/s/q7Zt9LmX2bVw4RkP8sYdN3Fg/mcp",
        "https://ghp_16C7e42F292c6912E7710c838347Ae178B4a@example.org/x.git",
        "exec server --api-key hunter22",
        "API_KEY=hunter22 exec server",
        "--env=API_KEY=hunter22",
        "--key=hunter22",
        "KEY=hunter22",
        "${NAME:-ghp_16C7e42F292c6912E7710c838347Ae178B4a}",
    ] {
        assert!(is_secret_value(value), "{value}");
    }
    for value in [
        "Bearer authentication is required",
        r#"{"Authorization": "Bearer ${TOKEN}", "X-Api-Key": "<your key>"}"#,
        r#"{"token_file": "/run/secrets/token", "max_tokens": 100000, "key": "name"}"#,
        "TOKEN=$TOKEN exec server --api-key \"$API_KEY\"",
        "postgres://me:${PASSWORD}@db/x",
        "postgres://me:$PASSWORD@db/x",
        "host=db user=me sslmode=require",
        "--key=/etc/key.pem --port 12345678",
        "npx -y @example/token-server --sort key=name",
    ] {
        assert!(!is_secret_value(value), "{value}");
    }
}

#[test]
fn a_query_may_hold_a_secret() {
    for url in [
        "https://x.example.org/mcp?api_key=hunter22",
        "https://x.example.org/mcp?a=b&token=hunter22#top",
        "https://x.example.org?q=ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "https://x.example.org/?ghp_16C7e42F292c6912E7710c838347Ae178B4a",
        "https://x.example.org/?a=b#access_token=hunter22",
        "--url=https://x.example.org/?password=hunter22",
    ] {
        assert!(is_secret_value(url) && is_secret("ANYTHING", url), "{url}");
        assert_eq!(Vec::from_iter(in_arguments(&["serve", url])), [1], "{url}");
    }
    for url in [
        "https://x.example.org/?token=${TOKEN}",
        "https://x.example.org/?token=YOUR_TOKEN",
        "https://x.example.org/?token=",
        "https://x.example.org/?max_tokens=100000&sort_key=name&page=2",
        "https://x.example.org/token=hunter22",
        "is this a token?token=hunter22",
    ] {
        assert!(!is_secret_value(url), "{url}");
    }
    assert!(!is_secret_value(&"a://?b=".repeat(100_000)));
}

#[test]
fn what_is_called_a_secret_is_one_unless_it_cannot_be() {
    for value in ["hunter2", "correct horse battery staple", "0123456789abcdef0123456789abcdef"] {
        assert!(is_secret("DB_PASSWORD", value) && !is_secret("DB_NAME", value), "{value}");
    }
    for value in [
        "",
        "true",
        "x",
        "~/.secrets/db",
        "/run/secrets/db",
        "https://example.org",
        "<token>",
        "YOUR_TOKEN",
        "xxxxxxxx",
        "****",
    ] {
        assert!(!is_secret("DB_PASSWORD", value), "{value}");
    }
}

#[test]
fn an_argument_is_a_secret_by_its_option_or_by_itself() {
    for (args, expected) in [
        (&["--api-key", "hunter22", "x"][..], &[1][..]),
        (&["--token=hunter22"], &[0]),
        (&["-e", "DB_PASSWORD=hunter22"], &[1]),
        (&["--header", "Authorization: Bearer ${TOKEN}"], &[1]),
        (&["--password", "${PASSWORD}", "--user", "${USER}"], &[1]),
        (&["serve", "ghp_16C7e42F292c6912E7710c838347Ae178B4a"], &[1]),
        (&["postgres://me:hunter2@db/x"], &[0]),
        (&["--token", "--verbose"], &[]),
        (&["--token-file", "/run/secrets/token", "--max-tokens", "100000", "--sort-key", "name"], &[]),
        (&["-e", "GITHUB_TOKEN", "--key=/etc/key.pem", "--env=TOKEN=$TOKEN_HERE"], &[]),
        (&["--api-key", "YOUR_API_KEY", "-y", "@modelcontextprotocol/server-filesystem", "/home/me/notes"], &[]),
    ] {
        assert_eq!(Vec::from_iter(in_arguments(args)), expected, "{args:?}");
    }
}
