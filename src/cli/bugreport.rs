//! `mcpd bugreport`: one archive with what a bug report needs, without secrets.
//!
//! [`parts`] gathers the texts, mostly the output of other commands. [`redaction`] removes secrets and the name of the home directory.

mod parts;
mod redaction;

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use flate2::Compression;
use flate2::write::GzEncoder;
use serde::Serialize;
use tar::{Builder, Header};

use self::parts::{Gathered, Part};
use self::redaction::Redaction;
use super::client_entries::runtime_dir_options;
use super::doctor::probe::DaemonProbe;
use super::outcome::print_report;
use super::style::OutputStyle;
use super::{CommandResult, FAILED, USAGE, fail, try_print};
use crate::clock::unix_seconds;
use crate::config;
use crate::disk;
use crate::duration;
use crate::known_clients::shell_word;
use crate::sockets::RuntimeDir;

#[derive(Debug, Args)]
pub(super) struct Bugreport {
    /// The new archive [default: mcpd-bugreport-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Also watch all messages for this time, such as `30s`; Ctrl-C ends it earlier
    #[arg(long, value_name = "TIME", value_parser = tap_time)]
    tap: Option<Duration>,
    /// Configuration file; repeatable [default: as for `mcpd doctor`]
    #[arg(long, value_name = "FILE")]
    config: Vec<PathBuf>,
    /// Print what the archive contains as JSON
    #[arg(long)]
    json: bool,
}

/// The directory in the archive.
const ROOT: &str = "mcpd-bugreport";
const MAX_TAP_TIME: Duration = Duration::from_secs(3600);

/// A number alone means seconds.
fn tap_time(text: &str) -> Result<Duration, String> {
    let time = match text.parse() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => duration::parse(text).map_err(|error| error.to_string())?,
    };
    if time <= MAX_TAP_TIME { Ok(time) } else { Err("the maximum is 1h".to_owned()) }
}

/// An archive that was written.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(in crate::cli) struct JsonReport<'a> {
    /// Path of the archive.
    file: &'a Path,
    /// The files in it.
    contents: Vec<JsonPart<'a>>,
}

/// A file of the archive.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct JsonPart<'a> {
    /// Name in the archive.
    name: &'a str,
    /// Size in bytes.
    bytes: usize,
    /// What it has, for a person.
    content: &'a str,
}

/// `given`: the value of `--runtime-dir`. `directory`: the resolved runtime directory.
pub(super) async fn run(report: Bugreport, given: Option<PathBuf>, directory: Option<RuntimeDir>) -> CommandResult {
    let Bugreport { output, tap, config, json } = report;
    let path = output.unwrap_or_else(|| PathBuf::from(format!("mcpd-bugreport-{}.tar.gz", unix_seconds())));
    let unwritable = |code, error: io::Error| fail(code, format!("cannot write {}: {error}", path.display()));
    // Before anything is gathered in vain.
    disk::can_create(&path).map_err(|error| unwritable(USAGE, error))?;
    let options = runtime_dir_options(given.as_deref());
    let probe = DaemonProbe::run(directory.clone(), options.clone(), &config).await;
    let loaded = config::load(&probe.files, &probe.sources);
    let redaction = Redaction::new(loaded.as_ref().ok().map(|loaded| &loaded.config));
    let gathered = parts::gather(directory.as_ref(), &options, &probe.files, tap).await;
    let gathered: Vec<_> = gathered
        .into_iter()
        .map(|Gathered { part, text }| Gathered { part, text: redaction.apply(text) })
        .filter(|gathered| !gathered.text.is_empty())
        .collect();
    // As a whole, so that Ctrl-C leaves nothing behind.
    let written = archive(&gathered).and_then(|bytes| disk::create_private(&path, &bytes));
    written.map_err(|error| unwritable(FAILED, error))?;
    if json {
        let contents = gathered.iter().map(|Gathered { part: Part { name, content }, text }| JsonPart {
            name,
            bytes: text.len(),
            content,
        });
        return Ok(print_report(&JsonReport { file: &path, contents: contents.collect() }));
    }
    let rows = gathered.iter().map(|Gathered { part: Part { name, content }, text }| {
        [(*name).to_owned(), text.len().to_string(), (*content).to_owned()]
    });
    let table = OutputStyle::of_stdout().table(["FILE", "BYTES", "CONTENT"], rows);
    let shown = shell_word(&path.to_string_lossy());
    try_print(format!(
        "{table}\nwrote {}\nSecrets are replaced by `…`. Names of servers, tools and directories stay, and so does \
         the other text of servers.\nLook at it before you give it to others: `tar -xOzf {shown} | less`\n",
        path.display()
    ))?;
    Ok(ExitCode::SUCCESS)
}

fn archive(gathered: &[Gathered]) -> io::Result<Vec<u8>> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::default()));
    for Gathered { part, text } in gathered {
        let mut header = Header::new_gnu();
        header.set_size(text.len() as u64);
        header.set_mode(0o600);
        header.set_mtime(unix_seconds());
        tar.append_data(&mut header, Path::new(ROOT).join(part.name), text.as_bytes())?;
    }
    tar.into_inner()?.finish()
}
