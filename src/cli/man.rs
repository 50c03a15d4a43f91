//! `mcpd man`: a manual page for each command, made of what `--help` says and of what stands in `pages`.

mod pages;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{Args, Command, CommandFactory};
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use self::pages::{ENVIRONMENT, EXITS, FILES, examples};
use super::arguments::Arguments;
use super::{FAILED, fail, print};

/// Where the pages go.
#[derive(Debug, Args)]
pub(super) struct Pages {
    /// Write the page of each command there, `mcpd.1` and so on, rather than print that of `mcpd`
    #[arg(value_name = "DIR", value_hint = clap::ValueHint::DirPath)]
    directory: Option<PathBuf>,
}

pub(super) fn run(Pages { directory }: &Pages) -> ExitCode {
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let done = match directory {
        None => page(&program, None).map(print),
        Some(directory) => write(&program, directory)
            .map(|count| print(format!("wrote {count} pages to {}\n", directory.display())))
            .map_err(|error| io::Error::other(format!("{}: {error}", directory.display()))),
    };
    done.unwrap_or_else(|error| fail(FAILED, error))
}

/// Writes all pages, and tells how many they are.
fn write(program: &Command, directory: &Path) -> io::Result<usize> {
    std::fs::create_dir_all(directory)?;
    let mut waiting = vec![(program, None)];
    let mut count = 0;
    while let Some((command, above)) = waiting.pop() {
        let name = title(command);
        std::fs::write(directory.join(format!("{name}.1")), page(command, above)?)?;
        count += 1;
        waiting.extend(command.get_subcommands().filter(|one| !one.is_hide_set()).map(|one| (one, Some(command))));
    }
    Ok(count)
}

/// As `mcpd-serve`.
fn title(command: &Command) -> &str {
    command.get_display_name().unwrap_or_else(|| command.get_name())
}

/// The page of a command, which is one of those `above`.
fn page(command: &Command, above: Option<&Command>) -> io::Result<Vec<u8>> {
    let version = concat!("mcpd ", env!("CARGO_PKG_VERSION"));
    // An empty date would be no argument at all.
    let man = Man::new(command.clone()).title(title(command)).date(" ").source(version).manual("mcpd Manual");
    let mut text = Vec::new();
    man.render_title(&mut text)?;
    man.render_name_section(&mut text)?;
    man.render_synopsis_section(&mut text)?;
    man.render_description_section(&mut text)?;
    man.render_options_section(&mut text)?;
    let has_commands = command.get_subcommands().any(|one| !one.is_hide_set());
    if has_commands {
        let mut own = Roff::new();
        own.control("SH", ["COMMANDS"]);
        own.to_writer(&mut text)?;
        commands(command).to_writer(&mut text)?;
    }
    more(command, above).to_writer(&mut text)?;
    Ok(ascii(&String::from_utf8_lossy(&text)))
}

/// The pages of the commands that it has, each with what it is for.
fn commands(command: &Command) -> Roff {
    let mut roff = Roff::new();
    for one in command.get_subcommands().filter(|one| !one.is_hide_set()) {
        roff.control("TP", []).text([bold(title(one)), roman("(1)")]);
        roff.text([roman(one.get_about().map(ToString::to_string).unwrap_or_default())]);
    }
    roff
}

/// What `--help` does not say.
fn more(command: &Command, above: Option<&Command>) -> Roff {
    let mut roff = Roff::new();
    let mut table = |heading: &str, rows: &[(&str, &str)]| {
        roff.control("SH", [heading]);
        for (what, meaning) in rows {
            roff.control("TP", []).text([bold(*what)]).text([roman(*meaning)]);
        }
    };
    table("EXIT STATUS", &EXITS);
    if above.is_none() {
        table("ENVIRONMENT", &ENVIRONMENT);
        table("FILES", &FILES);
    }
    let examples = examples(title(command));
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
    }
    for (line, meaning) in examples {
        roff.control("TP", []).text([bold(*line)]).text([roman(*meaning)]);
    }
    roff.control("SH", ["SEE ALSO"]);
    match above {
        Some(above) => roff.text([bold(title(above)), roman("(1)")]),
        None => roff.text([bold("systemd.unit"), roman("(5), "), bold("journalctl"), roman("(1)")]),
    };
    roff
}

/// Other characters by their number (groff_char(7)): whether a formatter reads UTF-8 depends on how it is run.
fn ascii(text: &str) -> Vec<u8> {
    let escaped = |c: char| if c.is_ascii() { c.to_string() } else { format!("\\[u{:04X}]", u32::from(c)) };
    text.chars().map(escaped).collect::<String>().into_bytes()
}
