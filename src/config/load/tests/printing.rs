//! How complaints look, and what is never printed.

use super::*;

#[test]
fn all_errors_are_reported_at_once() {
    check(
        "[daemon]\nnaming = 5\nfoo = 1\n[defaults]\ncall_timeout = 'x'\n[servers.'a b']\nargs = 5\n[other]\n",
        &[
            "2:10 `naming`",
            "3:1 unknown key `foo`",
            "5:16 `call_timeout`",
            "6:10 `a b`",
            "7:8 `args`",
            "8:2 unknown key `other`",
        ],
    );
}

#[test]
fn columns_count_characters() {
    check("[servers.a]\r\ncommand = 'x'\r\nargs = ['é→', 5]\r\n", &["3:15 each item…"]);
    check("\u{feff}\tx = 1", &["1:2 unknown key `x`…"]);
    check_json("{\"mcpServers\": {\"a\": {\"args\": [\"é→\", 5], \"command\": \"x\"}}}", &["1:38 each item…"]);
    check_json("\u{feff}{}", &["1:1 there is no `mcpServers`…"]);
}

#[test]
fn complaints_are_bounded() {
    let wrong_keys: String = (0..100_000).map(|n| format!("k{n}=1\n")).collect();
    for text in [wrong_keys, "a=1\n".repeat(100_000)] {
        let error = load_text("/c.toml", &text).expect_err("bad");
        assert!((101..=202).contains(&error.diagnostics().len()));
        assert!(error.to_string().ends_with("error: only the first 100 errors are shown"));
    }
    let error = load_text("/c.toml", &format!("{} = 1", "k".repeat(1 << 20))).expect_err("bad");
    assert!(error.to_string().len() < 2000);
}

#[test]
fn no_secret_is_printed() {
    let server =
        server("[servers.a]\ncommand = '/${TOKEN}'\nargs = ['${TOKEN}']\nenv = { T = '${TOKEN}' }\ncwd = '/${TOKEN}'");
    assert!(!format!("{server:?}").contains("hunter2"));
    let error = load_text("/c.toml", "[servers.a]\ncommand = 'x'\nenv = { T = 'sécret', U = '${V}', W = 5 }\n")
        .expect_err("bad");
    let printed = error.to_string();
    assert!(!printed.contains("sécret") && printed.contains("U = '${V}', W = *"), "{printed}");
    assert!(!format!("{error:?}").contains("sécret"));
}

#[test]
fn a_complaint_is_printed_with_its_place_its_line_and_advice() {
    let error = load_text("/dir/c.toml", "[servers.a]\n\tcomand = 'é'\ncommand = 'x'\nargs = 'y'\n").expect_err("bad");
    let expected = "\
error: unknown key `comand` in `[servers.a]`
 --> /dir/c.toml:2:2
  |
2 |     comand = 'é'
  |     ^^^^^^
  |
  = help: did you mean `command`?

error: `args` must be a list of strings
 --> /dir/c.toml:4:8
  |
4 | args = 'y'
  |        ^^^ this is a string
  |
  = help: write `args = [\"y\"]`";
    assert_eq!(error.to_string(), expected);
    assert!(error.render(true).contains("\u{1b}["));
}

#[test]
fn a_very_long_line_is_not_shown() {
    let error = load_text("/c.toml", &"[".repeat(1 << 20)).expect_err("bad");
    assert_eq!(
        error.to_string().lines().next(),
        Some("error: unquoted keys cannot be empty, expected letters, numbers, `-`, `_`")
    );
    assert!(error.to_string().contains("/c.toml:1:3") && error.to_string().len() < 1000);
}

#[test]
fn a_file_name_cannot_move_the_cursor() {
    let printed = load_text("/\u{1b}[2J\n.toml", "x").expect_err("bad").to_string();
    assert!(!printed.contains('\u{1b}') && printed.contains(".toml:1:2"), "{printed}");
}
