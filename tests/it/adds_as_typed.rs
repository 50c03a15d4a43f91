//! `mcpd add` takes a command or a URL as people type it, and shows what it has written.

use crate::support::{Place, SCRIPTED, quoted};

#[test]
fn command_that_is_not_found_is_added_with_a_warning() {
    let place = Place::new();
    let ran = place.mcpd(&["add", "x", "--", "no-such-program", "-v"]).expect_code(0);
    assert!(ran.stderr.contains("warning: command `no-such-program` is not found"), "{ran}");
    assert!(ran.stdout.contains("added x to "), "{ran}");
    place.mcpd(&["remove", "x"]).expect_code(0);
    let ran = place.mcpd(&["add", "x", "--", SCRIPTED]).expect_code(0);
    assert!(!ran.stderr.contains("warning"), "{ran}");
}

#[test]
fn server_is_added_as_people_type_it_and_what_was_written_is_shown() {
    let npx = "command = \"npx\"\nargs = [\"-y\", \"pkg\", \"--flag\"]\n";
    let url = "url = \"https://example.org/mcp\"\n";
    let tool = &format!("command = {}\n", quoted(SCRIPTED));
    for (typed, written) in [
        (&["npx", "-y", "pkg", "--flag"][..], npx),
        (&["--", "npx", "-y", "pkg", "--flag"], npx),
        (&["npx -y pkg --flag"], npx),
        (&["--", "npx -y pkg --flag"], npx),
        (&["--lazy", "npx", "-y", "pkg", "--flag"], &format!("{npx}start = \"lazy\"\n")),
        (&["cd /x && npx pkg"], "command = \"sh\"\nargs = [\"-c\", \"cd /x && npx pkg\"]\n"),
        (&["https://example.org/mcp"], url),
        (&["--", "https://example.org/mcp"], url),
        (&["--url", "https://example.org/mcp"], url),
        (&["--header", "X-A: b", "https://example.org/mcp"], &format!("{url}headers = {{ X-A = \"b\" }}\n")),
        (&[SCRIPTED], tool),
    ] {
        let place = Place::new();
        let ran = place.mcpd(&[&["add", "x"], typed].concat()).expect_code(0);
        let file = place.path("xdg-config/mcpd/config.toml");
        let expected = format!("[servers.x]\n{written}");
        assert_eq!(std::fs::read_to_string(&file).expect("text"), expected, "{typed:?}");
        assert_eq!(ran.stdout, format!("added x to {}:\n\n{expected}", file.display()), "{typed:?}");
    }
}

#[test]
fn what_is_shown_of_an_added_server_has_no_secret() {
    let place = Place::new();
    let ran = place.mcpd(&["add", "x", "--env", "API_TOKEN=canary-0123456789", SCRIPTED]).expect_code(0);
    assert!(ran.stdout.contains("API_TOKEN = \"${file:") && !format!("{ran}").contains("canary"), "{ran}");
}

#[test]
fn option_that_does_not_fit_the_kind_of_server_is_refused() {
    let place = Place::new();
    for (typed, reason) in [
        (&["--header", "A: b", "npx"][..], "`--header` cannot be used with a command"),
        (&["--ca-file", "x.pem", "npx"], "`--ca-file` cannot be used with a command"),
        (&["--env", "A=b", "https://example.org"], "`--env` cannot be used with a URL"),
        (&["--cwd", ".", "https://example.org"], "`--cwd` cannot be used with a URL"),
        (&["https://example.org", "--env", "A=b"], "options go before it"),
        (&["--nosuch", "npx"], "unexpected argument '--nosuch'"),
    ] {
        let ran = place.mcpd(&[&["add", "x"], typed].concat()).expect_code(2);
        assert!(ran.stderr.contains(reason) && ran.stdout.is_empty(), "{typed:?}: {ran}");
    }
    assert!(!place.path("xdg-config/mcpd").exists());
}
