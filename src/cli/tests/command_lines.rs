//! Checks that every command line in the documentation and in the output of mcpd is valid.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use crate::cli::command_line;
use crate::known_clients::Client;

/// Texts that begin like a command and are none.
const MESSAGES: [&str; 1] = ["mcpd is already running"];
/// Words that end a command within a shell line.
const ENDS: [&str; 6] = ["|", "||", "&", "&&", ">", "<"];

/// Files below `directory` with this extension, without tests.
fn files(directory: &Path, extension: &str) -> Vec<PathBuf> {
    let (mut pending, mut found) = (vec![directory.to_owned()], Vec::new());
    while let Some(path) = pending.pop() {
        let is_test = path.file_name().is_some_and(|name| name == "tests" || name == "tests.rs");
        if path.is_dir() && !is_test {
            pending.extend(fs::read_dir(path).expect("a directory").map(|entry| entry.expect("an entry").path()));
        } else if path.extension().is_some_and(|name| name == extension) && !is_test {
            found.push(path);
        }
    }
    found
}

/// Commands between backticks on a line.
fn in_backticks(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2).filter(|text| text.starts_with("mcpd "))
}

/// The commands of a Markdown page: in backticks and in shell blocks.
fn of_page(text: &str) -> Vec<String> {
    let (mut found, mut prompt, mut is_block) = (Vec::new(), None, false);
    for line in text.lines() {
        if let Some(language) = line.trim_start().strip_prefix("```") {
            is_block = !is_block;
            // What stands below a prompt is output.
            let prompts = [("sh", ""), ("console", "$ ")];
            prompt = prompts.into_iter().find(|(name, _)| is_block && *name == language).map(|(_, prompt)| prompt);
        } else if let Some(prompt) = prompt {
            let Some(line) = line.strip_prefix(prompt) else { continue };
            found.extend(line.starts_with("mcpd ").then(|| line.to_owned()));
            found
                .extend(line.split_once(" # ").into_iter().flat_map(|(_, note)| in_backticks(note)).map(str::to_owned));
        } else if !is_block {
            found.extend(in_backticks(line).map(str::to_owned));
        }
    }
    found
}

/// The commands of a source file: in string literals and in doc comments, which are the text of `--help`.
fn of_source(text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let is_comment = |line: &&str| line.starts_with("//") && !line.starts_with("///");
    let mut found = Vec::new();
    for line in code.lines().map(str::trim_start).filter(|line| !is_comment(line)) {
        found.extend(in_backticks(line).map(str::to_owned));
        // `probe.mcpd` puts what it is given behind the name of the program.
        for part in [".mcpd(", ".mcpd_with_files("].iter().flat_map(|call| line.split(call).skip(1)) {
            let part = part.trim_start_matches('&').trim_start_matches("format!(");
            let words = part.starts_with('"').then(|| literals(part).swap_remove(0));
            found.extend(words.map(|words| format!("mcpd {words}")));
        }
        found.extend(literals(line).into_iter().filter(|text| text.starts_with("mcpd ") && is_command(text)));
    }
    found
}

/// The string literals on a line of source.
fn literals(line: &str) -> Vec<String> {
    // Escapes are replaced while the line is split at quotes.
    let (quote, backslash) = ("\u{1}", "\u{2}");
    let line = line.replace("\\\\", backslash).replace("\\\"", quote).replace("'\"'", "");
    let texts = line.split('"').skip(1).step_by(2);
    texts.map(|text| text.replace(quote, "\"").replace(backslash, "\\")).collect()
}

/// Whether a string literal is a command rather than a sentence about mcpd.
fn is_command(text: &str) -> bool {
    let program = command_line();
    let second = text.split(' ').nth(1).unwrap_or_default();
    program.find_subcommand(second).is_some() && !text.contains(": ") && !text.contains("{VERSION}")
}

/// The words of a command line, with `x` for each format argument; `None` if a shell cannot parse it.
fn words(line: &str) -> Option<Vec<String>> {
    let (mut filled, mut rest) = (String::new(), line);
    while let Some((before, after)) = rest.split_once('{').filter(|(before, _)| !before.ends_with(['$', '='])) {
        let Some((_, behind)) = after.split_once('}') else { break };
        filled += before;
        filled.push('x');
        rest = behind;
    }
    filled += rest;
    Some(shlex::split(&filled)?.into_iter().take_while(|word| !ENDS.contains(&word.as_str())).collect())
}

/// Whether a word is a placeholder, such as SERVER.
fn is_placeholder(word: &str) -> bool {
    word.chars().all(|c| c == 'x') || word.chars().all(|c| c.is_ascii_uppercase() || c == '/')
}

/// The error of the program for the line; `None` if the line is valid.
fn refusal(line: &str) -> Option<String> {
    let Some(words) = words(line) else { return Some("a shell cannot parse it".to_owned()) };
    let [_, command, rest @ ..] = &words[..] else { return Some("there is no command".to_owned()) };
    // `mcpd help` is answered before the line is parsed.
    if is_placeholder(command) || command == "help" || MESSAGES.contains(&line) {
        return None;
    }
    let clients = words.windows(2).filter(|pair| ["--print", "import"].contains(&pair[0].as_str()));
    for client in clients.map(|pair| &pair[1]) {
        if !client.starts_with('-')
            && !is_placeholder(client)
            && !client.contains(['/', '.'])
            && Client::named(client).is_none()
        {
            return Some(format!("there is no client `{client}`"));
        }
    }
    let error = command_line().try_get_matches_from(&words).err()?;
    let is_name_alone = rest.iter().all(|word| word.chars().all(|c| c.is_ascii_lowercase()));
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => None,
        // A sentence names the command without its arguments.
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if is_name_alone =>
        {
            None
        }
        ErrorKind::InvalidValue if words.iter().any(|word| is_placeholder(word)) => None,
        _ => Some(error.to_string()),
    }
}

#[test]
fn every_printed_command_line_is_valid() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &PathBuf| fs::read_to_string(path).expect("text");
    let mut lines: Vec<(String, String)> = Vec::new();
    let mut add = |from: &str, found: Vec<String>| lines.extend(found.into_iter().map(|line| (from.to_owned(), line)));
    let pages = [
        files(&root.join("docs"), "md"),
        files(&root.join("examples"), "md"),
        files(&root.join("src"), "md"),
        vec![root.join("README.md")],
    ];
    for path in pages.iter().flatten() {
        add(&path.display().to_string(), of_page(&read(path)));
    }
    for path in files(&root.join("config"), "toml") {
        add(&path.display().to_string(), read(&path).lines().flat_map(in_backticks).map(str::to_owned).collect());
    }
    for path in files(&root.join("src"), "rs") {
        add(&path.display().to_string(), of_source(&read(&path)));
    }
    let mut program = command_line();
    program.build();
    for command in program.get_subcommands_mut() {
        let help = command.render_long_help().to_string();
        add("--help", help.lines().flat_map(in_backticks).map(str::to_owned).collect());
    }
    assert!(lines.len() > 150, "only {} are found", lines.len());
    let invalid: Vec<_> = lines.iter().filter_map(|(from, line)| Some((from, line, refusal(line)?))).collect();
    let shown: String = invalid.iter().map(|(from, line, why)| format!("{from}: {line}\n{why}\n")).collect();
    assert!(invalid.is_empty(), "{shown}");
}

#[test]
fn invalid_command_lines_are_found_in_every_kind_of_text() {
    for line in ["mcpd import claude-cod", "mcpd imprt", "mcpd status --wach", "mcpd connect --print emacs", "mcpd add"]
    {
        let found = [
            of_page(&format!("Use `{line}`.")),
            of_page(&format!("```console\n$ {line}\n```\n")),
            of_source(&format!("    let text = \"`{line}` does it\";\n")),
        ];
        for found in found {
            assert_eq!(found, [line]);
        }
        assert_eq!(refusal(line).is_none(), line == "mcpd add", "{line}");
    }
    assert_eq!(of_source("probe.mcpd(&format!(\"import {}\", client.word))"), ["mcpd import {}"]);
    assert!(refusal("mcpd import {}").is_none() && refusal("mcpd import {} --form").is_some());
}
