//! `mcpd add`: the accepted forms of commands and URLs, and the lines that it writes.

use crate::support::{MCPD, Place, SCRIPTED, Terminal, quoted};

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
fn add_accepts_the_forms_that_people_type_and_prints_what_it_wrote() {
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
        (&["-H", "X-A: b", "https://example.org/mcp"], &format!("{url}headers = {{ X-A = \"b\" }}\n")),
        (&["--transport", "http", "https://example.org/mcp"], url),
        (&["-t", "sse", "https://example.org/mcp"], url),
        (&["--transport=stdio", "--", SCRIPTED], tool),
        (&["-e", "MODE=value", "--", SCRIPTED], &format!("{tool}env = {{ MODE = \"value\" }}\n")),
        (&["-y", SCRIPTED], &format!("{tool}sandbox = \"files\"\n")),
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
fn option_of_add_behind_the_command_is_passed_to_it_with_a_note() {
    for (typed, note) in [
        (&["x", "npx", "pkg", "--no-reload"][..], Some(("`--no-reload`", "mcpd add --no-reload x npx pkg"))),
        (
            &["--lazy", "x", "npx", "--cwd", "/", "--json"],
            Some(("`--cwd` and `--json`", "mcpd add --cwd / --json --lazy x npx")),
        ),
        (&["x", "npx", "--env", "T=canary", "pkg"], Some(("`--env`", "mcpd add --env 'T=…' x npx pkg"))),
        (&["x", "--", "npx", "pkg", "--no-reload"], None),
        (&["x", "npx", "pkg", "--flag"], None),
        (&["x", "npx", "pkg", "--config", "f"], None),
        (&["x", "npx pkg --no-reload"], None),
    ] {
        let place = Place::new();
        let ran = place.mcpd(&[&["add"], typed].concat()).expect_code(0);
        let Some((options, line)) = note else {
            assert!(!ran.stderr.contains("passed on to the server"), "{typed:?}: {ran}");
            continue;
        };
        let note = format!("note: {options} after the command: passed on to the server");
        assert!(ran.stderr.contains(&note), "{typed:?}: {ran}");
        assert!(ran.stderr.contains(&format!("\n  mcpd remove x\n  {line}\n")), "{typed:?}: {ran}");
        let written = std::fs::read_to_string(place.path("xdg-config/mcpd/config.toml")).expect("text");
        assert!(written.contains(options.split('`').nth(1).expect("an option")), "{written}");
    }
}

#[test]
fn url_without_scheme_is_refused_unless_it_names_a_program() {
    let place = Place::new();
    for (typed, url) in [
        (&["localhost:3000/mcp"][..], "http://localhost:3000/mcp"),
        (&["127.0.0.1:3000"], "http://127.0.0.1:3000"),
        (&["[::1]:3000/mcp"], "http://[::1]:3000/mcp"),
        (&["mcp.example.org/mcp"], "https://mcp.example.org/mcp"),
        (&["box:8080/mcp", "--header", "A: b"], "https://box:8080/mcp"),
    ] {
        let ran = place.mcpd(&[&["add", "x"], typed].concat()).expect_code(2);
        assert!(ran.stderr.contains(&format!("write `{url}`")) && ran.stdout.is_empty(), "{typed:?}: {ran}");
    }
    assert!(!place.path("xdg-config/mcpd").exists());
    std::fs::create_dir(place.path("bin.d")).expect("a fresh directory");
    std::os::unix::fs::symlink(SCRIPTED, place.path("bin.d/server")).expect("a link");
    place.mcpd(&["add", "there", "bin.d/server"]).expect_code(0);
    place.mcpd(&["add", "later", "--", "bin.d/other"]).expect_code(0);
}

#[test]
fn output_of_add_contains_no_secret() {
    let place = Place::new();
    let ran = place.mcpd(&["add", "-e", "API_TOKEN=canary-9876543210", "y", "--", SCRIPTED]).expect_code(0);
    assert!(ran.stdout.contains("API_TOKEN = \"${file:") && !format!("{ran}").contains("canary"), "{ran}");
    let ran = place.mcpd(&["add", "x", "--env", "API_TOKEN=canary-0123456789", SCRIPTED]).expect_code(0);
    assert!(ran.stdout.contains("API_TOKEN = \"${file:") && !format!("{ran}").contains("canary"), "{ran}");
}

#[test]
fn options_may_stand_before_the_name_as_in_other_programs() {
    let place = Place::new();
    place.mcpd(&["add", "--transport", "http", "x", "https://example.org/mcp"]).expect_code(0);
    place.mcpd(&["add", "-e", "A=1", "-e", "B=2", "y", "--", SCRIPTED]).expect_code(0);
    let text = std::fs::read_to_string(place.path("xdg-config/mcpd/config.toml")).expect("text");
    assert!(text.contains("url = \"https://example.org/mcp\"") && text.contains("{ A = \"1\", B = \"2\" }"), "{text}");
}

#[test]
fn option_that_does_not_fit_the_kind_of_server_is_refused() {
    let place = Place::new();
    for (typed, reason) in [
        (&["--header", "A: b", "npx"][..], "`--header` cannot be used with a command"),
        (&["--ca-file", "x.pem", "npx"], "`--ca-file` cannot be used with a command"),
        (&["--env", "A=b", "https://example.org"], "`--env` cannot be used with a URL"),
        (&["--cwd", ".", "https://example.org"], "`--cwd` cannot be used with a URL"),
        (&["https://example.org", "--env", "A=b"], "write options of mcpd before it"),
        (&["--transport", "http", "npx"], "a URL is missing"),
        (&["--transport", "stdio", "https://example.org"], "a command is missing"),
        (&["--nosuch", "npx"], "unexpected argument '--nosuch'"),
    ] {
        let ran = place.mcpd(&[&["add", "x"], typed].concat()).expect_code(2);
        assert!(ran.stderr.contains(reason) && ran.stdout.is_empty(), "{typed:?}: {ran}");
    }
    assert!(!place.path("xdg-config/mcpd").exists());
}

#[test]
fn argument_that_is_a_file_here_is_noted_since_the_server_runs_elsewhere() {
    let place = Place::new();
    place.write("server.py", "");
    let whole = place.path("server.py");
    let ran = place.mcpd(&["add", "a", "python3", "server.py", "notes"]).expect_code(0);
    let note = format!("write `{}`, or add `--cwd .` before the name", whole.display());
    assert!(ran.stderr.contains("note: `server.py` is a file here") && ran.stderr.contains(&note), "{ran}");
    let whole = whole.to_str().expect("text");
    for args in
        [&["--cwd", ".", "b", "python3", "server.py"][..], &["c", "python3", whole], &["d", "python3", "other.py"]]
    {
        let ran = place.mcpd(&[&["add"], args].concat()).expect_code(0);
        assert!(!ran.stderr.contains("is a file here"), "{ran}");
    }
}

#[test]
fn sandbox_is_proposed_and_a_taken_name_is_refused_before_that() {
    let place = Place::new();
    let Some(terminal) = Terminal::open(&place, 240, 30) else { return };
    let line = format!("{} add memory npx -y @modelcontextprotocol/server-memory", quoted(MCPD));
    terminal.line(&line);
    terminal.wait("Restrict memory to the files it needs, by `sandbox = \"files\"`? [Y/n]");
    terminal.line("");
    terminal.wait("sandbox = \"files\"");
    terminal.line(&line);
    let screen = terminal.wait("there is a server `memory` already");
    assert_eq!(screen.matches("Restrict").count(), 1, "{screen}");
}
