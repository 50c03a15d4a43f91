//! Images of containers: their digests, which only the client of the containers knows.

use std::io::Read;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use super::{InstalledPackage, Launch, UnknownVersion};
use crate::config::interpolate::{Process, Sources};
use crate::config::known_commands::PackageWord;
use crate::printable;

/// Until the client has to answer. A local daemon takes milliseconds.
const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of an answer that are read.
const MAX_ANSWER: u64 = 1 << 20;
/// Characters of a client's error that are shown.
const MAX_SHOWN: usize = 200;

/// The digest with which a registry has the image. The client runs with the server's environment.
pub(super) fn digest(launch: &Launch<'_>, word: &PackageWord) -> Result<InstalledPackage, UnknownVersion> {
    let unknown = |reason: String| UnknownVersion::NoImage(printable::excerpt(&reason, MAX_SHOWN));
    let program = match launch.command.contains('/') {
        true => Some(launch.directory(launch.command)),
        false => Process.on_path_from(launch.cwd, launch.command, launch.env.get("PATH").map_or("", String::as_str)),
    };
    let program = program.ok_or_else(|| unknown(format!("`{}` is not found", launch.command)))?;
    let mut client = Command::new(program);
    client.args(["image", "inspect", "--format", "{{json .RepoDigests}}", "--", &word.text]);
    client.env_clear().envs(launch.env).current_dir("/");
    let answer = answer(client).map_err(unknown)?;
    let digests: Vec<String> = serde_json::from_str(answer.trim()).unwrap_or_default();
    let digests: Vec<_> = digests.iter().filter_map(|one| one.split_once('@')).collect();
    // An image may be known by several names.
    let is_it = |(name, _): &&(&str, &str)| *name == word.name || name.ends_with(&format!("/{}", word.name));
    let found = digests.iter().find(is_it).or(digests.first());
    let (_, digest) = found.ok_or(UnknownVersion::LocalImage)?;
    let version = (*digest).to_owned();
    Ok(InstalledPackage { name: word.name.clone(), integrity: Some(version.clone()), version })
}

/// What the client prints.
///
/// # Errors
/// The line with which it failed.
fn answer(mut client: Command) -> Result<String, String> {
    client.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = client.spawn().map_err(|error| error.to_string())?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let (sender, answers) = sync_channel(2);
    let read = |stream: Option<Box<dyn Read + Send>>, is_answer: bool| {
        let sender = sender.clone();
        thread::spawn(move || {
            let mut text = Vec::new();
            let _ = stream.map(|stream| stream.take(MAX_ANSWER).read_to_end(&mut text));
            let _ = sender.send((is_answer, String::from_utf8_lossy(&text).into_owned()));
        })
    };
    read(stdout.map(|stream| Box::new(stream) as _), true);
    read(stderr.map(|stream| Box::new(stream) as _), false);
    let (mut answer, mut error) = (String::new(), String::new());
    for _ in 0..2 {
        match answers.recv_timeout(TIMEOUT) {
            Ok((true, text)) => answer = text,
            Ok((false, text)) => error = text,
            Err(_) => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("no answer within {}", crate::duration::format(TIMEOUT)));
            }
        }
    }
    let status = child.wait().map_err(|error| error.to_string())?;
    match status.success() {
        true => Ok(answer),
        false => Err(error.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed").trim().to_owned()),
    }
}
