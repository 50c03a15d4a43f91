//! `mcpd man`: a manual page for each command, from the text of `--help` and from `pages`.

mod pages;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use self::pages::{ENVIRONMENT, EXIT_CODES, FILES, OTHER_FILES, examples};
use super::arguments::Arguments;
use super::{FAILED, fail, print};

#[derive(Debug, Args)]
pub(super) struct ManPages {
    /// Write the page of each command to this directory (`mcpd.1`, …) instead of printing the page of `mcpd`
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

pub(super) fn run(ManPages { directory }: &ManPages) -> ExitCode {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let result = match directory {
        None => page(&program, None).map(print),
        Some(directory) => write(&program, directory)
            .map(|count| print(format!("wrote {count} pages to {}\n", directory.display())))
            .map_err(|error| io::Error::other(format!("{}: {error}", directory.display()))),
    };
    result.unwrap_or_else(|error| fail(FAILED, error))
}

/// Writes all pages and returns their number.
fn write(program: &Command, directory: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(directory)?;
    let mut pending = vec![(program, None)];
    let mut count = 0;
    while let Some((command, parent)) = pending.pop() {
        let name = title(command);
        std::fs::write(directory.join(format!("{name}.1")), page(command, parent)?)?;
        count += 1;
        pending.extend(command.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| (one, Some(command))));
    }
    Ok(count)
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
