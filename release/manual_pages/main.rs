//! `manual-pages DIR`: writes a manual page for each command, from the text of `--help` and from `pages`.
//!
//! Run it when packaging: `cargo run --locked --features manual-pages --bin manual-pages -- DIR`. It fails if an example is not a
//! valid command line.

mod pages;

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use self::pages::{ENVIRONMENT, EXIT_CODES, FILES, OTHER_FILES, examples};

fn main() -> Result<(), Box<dyn Error>> {
    let directory = std::env::args_os().nth(1).map(PathBuf::from).ok_or("usage: manual-pages DIR")?;
    let mut program = mcpd::command_line().disable_help_subcommand(true);
    program.build();
    check_examples(&program)?;
    write(&program, &directory)?;
    Ok(())
}

/// # Errors
/// If a command of the program has no example, or an example is not a valid command line of its page.
fn check_examples(program: &Command) -> Result<(), Box<dyn Error>> {
    for page in program.get_subcommands().filter(|one| !one.is_hide_set()).chain([program]) {
        if examples(title(page)).is_empty() {
            return Err(format!("{} has no example", title(page)).into());
        }
        for (line, _) in examples(title(page)) {
            let words = line.trim_start_matches("source <(").trim_end_matches(')').replace('\'', "");
            let words: Vec<_> = words.split(" > ").next().unwrap_or_default().split(' ').collect();
            program.clone().try_get_matches_from(&words)?;
            if page.get_name() != "mcpd" && page.get_name() != words[1] {
                return Err(format!("{} has an example of another command: {line}", title(page)).into());
            }
        }
    }
    Ok(())
}

fn write(program: &Command, directory: &Path) -> io::Result<()> {
    std::fs::create_dir_all(directory)?;
    let mut pending = vec![(program, None)];
    while let Some((command, parent)) = pending.pop() {
        let name = title(command);
        std::fs::write(directory.join(format!("{name}.1")), page(command, parent)?)?;
        pending.extend(command.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| (one, Some(command))));
    }
    Ok(())
}

/// Such as `mcpd-serve`.
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

fn page(command: &Command, parent: Option<&Command>) -> io::Result<Vec<u8>> {
    let version = concat!("mcpd ", env!("CARGO_PKG_VERSION"));
    // roff drops an empty argument.
    let man = Man::new(command.clone()).title(title(command)).date(" ").source(version).manual("mcpd Manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let has_commands = command.get_subcommands().any(|one| !one.is_hide_set());
    if has_commands {
        let mut heading = Roff::new();
        heading.control("SH", ["COMMANDS"]);
        heading.to_writer(&mut text)?;
        commands(command).to_writer(&mut text)?;
    }
    sections(command, parent).to_writer(&mut text)?;
    Ok(ascii(&String::from_utf8_lossy(&text)))
}

/// The subcommands, each with the title of its page.
fn commands(command: &Command) -> Roff {
    let mut roff = Roff::new();
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        roff.control("TP", []).text([bold(title(one)), roman("(1)")]);
        roff.text([roman(one.get_about().map(ToString::to_string).unwrap_or_default())]);
    }
    roff
}

/// The sections that `--help` does not have.
fn sections(command: &Command, parent: Option<&Command>) -> Roff {
    let mut roff = Roff::new();
    let mut table = |heading: &str, rows: &[(&str, &str)]| {
        roff.control("SH", [heading]);
        for (term, meaning) in rows {
            roff.control("TP", []).text([bold(*term)]).text([roman(*meaning)]);
        }
    };
    table("EXIT STATUS", &EXIT_CODES);
    match parent {
        None => {
            table("ENVIRONMENT", &ENVIRONMENT);
            table("FILES", &[&FILES[..], &OTHER_FILES[..]].concat());
        }
        Some(_) => table("FILES", &FILES),
    }
    let examples = examples(title(command));
    if !examples.is_empty() {
        table("EXAMPLES", examples);
    }
    roff.control("SH", ["SEE ALSO"]);
    match parent {
        Some(parent) => roff.text([bold(title(parent)), roman("(1)")]),
        None => roff.text([bold("systemd.unit"), roman("(5), "), bold("journalctl"), roman("(1)")]),
    };
    roff
}

/// Escapes other characters by their code points (groff_char(7)), because not every formatter reads UTF-8.
fn ascii(text: &str) -> Vec<u8> {
    let escaped = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    text.chars().map(escaped).collect::<String>().into_bytes()
}
