//! The words of `mcpd try`: the server's, and the options of mcpd at the end.

use std::path::{Path, absolute};

use clap::{Args, Command, FromArgMatches};

use super::options::{TryOptions, TryServer};
use crate::cli::add::corrections::is_escaped;
use crate::config;
use crate::config::command_line::{command_line, is_url};
use crate::config::interpolate::{Process, Sources};
use crate::packages;

/// The options of mcpd that may begin those at the end. Hardly any server has one of these.
const AT_END: [&str; 2] = ["--keep", "--call"];

/// The words of the server, and all options of mcpd.
pub(super) struct TrailingOptions {
    pub(super) command: Vec<String>,
    pub(super) options: TryOptions,
}

/// What is tried.
#[derive(Debug)]
pub(super) enum Subject {
    Url(String),
    Command { command: String, args: Vec<String>, env: Vec<(String, String)> },
}

/// Takes the options of mcpd from the end of the command. `line` is the command line of this process.
pub(super) fn split(TryServer { options, command }: TryServer, line: &[String]) -> TrailingOptions {
    if is_escaped(line, command.len()) {
        return TrailingOptions { command, options };
    }
    let begins = |word: &String| {
        AT_END
            .iter()
            .any(|option| word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('=')))
    };
    let starts = command.iter().enumerate().skip(1).filter(|(_, word)| begins(word)).map(|(at, _)| at);
    for at in starts {
        if let Some(trailing) = parsed(&command[at..]) {
            let (command, options) = (command[..at].to_vec(), options.or(trailing));
            return TrailingOptions { command, options };
        }
    }
    TrailingOptions { command, options }
}

/// The words as options of mcpd. `None` if one of them is none.
fn parsed(words: &[String]) -> Option<TryOptions> {
    let parser = TryOptions::augment_args(Command::new("try").no_binary_name(true).disable_help_flag(true));
    TryOptions::from_arg_matches(&parser.try_get_matches_from(words).ok()?).ok()
}

impl TryOptions {
    /// These, and those of `trailing` over them.
    fn or(self, trailing: Self) -> Self {
        let mut all = trailing;
        if all.call.is_empty() {
            all.call = self.call;
        }
        all.env.splice(0..0, self.env);
        all.keep = all.keep.or(self.keep);
        all.timeout = all.timeout.or(self.timeout);
        all.edit.config = all.edit.config.or(self.edit.config);
        for (flag, earlier) in [
            (&mut all.weak, self.weak),
            (&mut all.no_network, self.no_network),
            (&mut all.yes, self.yes),
            (&mut all.edit.no_reload, self.edit.no_reload),
            (&mut all.edit.json, self.edit.json),
        ] {
            *flag |= earlier;
        }
        all
    }
}

impl Subject {
    pub(super) fn of(words: &[String], env: &[String]) -> Result<Self, String> {
        let env = variables(env)?;
        match words {
            [url] if is_url(url) && env.is_empty() => match config::url_complaint(url, false) {
                Some(complaint) => Err(format!("the URL {complaint}")),
                None => Ok(Self::Url(url.clone())),
            },
            [url, ..] if is_url(url) => Err("nothing may follow the URL, and it has no `--env`".to_owned()),
            words => {
                let line = <&[String; 1]>::try_from(words).ok().filter(|[line]| !Process.exists(Path::new(line)));
                let words = line.and_then(|[line]| command_line(line)).unwrap_or_else(|| words.to_vec());
                let Some((command, args)) = words.split_first() else { return Err("a command is missing".to_owned()) };
                let command = if command.contains('/') { whole(command) } else { command.clone() };
                Ok(Self::Command { args: absolute_paths(&command, args), command, env })
            }
        }
    }

    pub(super) fn command(&self) -> Option<(&str, &[String])> {
        match self {
            Self::Url(_) => None,
            Self::Command { command, args, .. } => Some((command, args)),
        }
    }
}

fn variables(words: &[String]) -> Result<Vec<(String, String)>, String> {
    let pair = |word: &String| {
        let pair = word.split_once('=').filter(|(name, _)| !name.is_empty());
        let pair = pair.map(|(name, value)| (name.to_owned(), value.to_owned()));
        pair.ok_or_else(|| "the value of `--env` does not have the form NAME=VALUE".to_owned())
    };
    words.iter().map(pair).collect()
}

fn whole(path: &str) -> String {
    absolute(path).ok().and_then(|path| path.to_str().map(str::to_owned)).unwrap_or_else(|| path.to_owned())
}

/// The arguments with paths of this directory in full, because the server works in another one. Words of a runner stay.
fn absolute_paths(command: &str, args: &[String]) -> Vec<String> {
    let first = packages::package_of(command, args).map_or(0, |word| word.index + 1);
    let whole_path = |(at, arg): (usize, &String)| {
        let (option, value) = match arg.split_once('=') {
            Some((option, value)) if option.starts_with('-') => (&arg[..=option.len()], value),
            _ => ("", arg.as_str()),
        };
        let is_dotted = [".", ".."].contains(&value) || value.starts_with("./") || value.starts_with("../");
        let is_name = !value.is_empty() && !value.starts_with(['-', '/', '~', '$']);
        let is_path = at >= first && is_name && (is_dotted || Path::new(value).exists());
        if is_path { format!("{option}{}", whole(value)) } else { arg.clone() }
    };
    args.iter().enumerate().map(whole_path).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: TryServer,
    }

    fn split_line(text: &str) -> TrailingOptions {
        let line: Vec<_> = ["try"].into_iter().chain(text.split(' ')).map(str::to_owned).collect();
        split(Line::parse_from(&line).arguments, &line)
    }

    #[test]
    fn options_at_the_end_are_distinguished_from_arguments_of_the_server() {
        for (text, command, keep, call) in [
            ("npx -y pkg DIR --keep files", "npx -y pkg DIR", Some("files"), ""),
            ("npx -y pkg DIR --keep=files --yes", "npx -y pkg DIR", Some("files"), ""),
            ("--keep a npx -y pkg", "npx -y pkg", Some("a"), ""),
            ("npx pkg --call echo text=hi n:=1 --keep a", "npx pkg", Some("a"), "echo text=hi n:=1"),
            ("--call echo text=hi -- npx -y pkg", "npx -y pkg", None, "echo text=hi"),
            // What follows is no option of mcpd, so all of it belongs to the server.
            ("server --keep alive --port 1", "server --keep alive --port 1", None, ""),
            ("server --keep", "server --keep", None, ""),
            ("server --yes --json", "server --yes --json", None, ""),
            ("-- server --keep files", "server --keep files", None, ""),
        ] {
            let TrailingOptions { command: found, options } = split_line(text);
            assert_eq!(
                (found.join(" "), options.keep.as_deref(), options.call.join(" ")),
                (command.to_owned(), keep, call.to_owned()),
                "{text}"
            );
        }
        let both = split_line("--weak -e A=1 server --keep a -e B=2 --no-network").options;
        assert!(both.weak && both.no_network && !both.yes);
        assert_eq!(both.env, ["A=1", "B=2"]);
    }

    #[test]
    fn paths_of_this_directory_are_written_in_full() {
        let here = std::env::current_dir().expect("a directory");
        let whole = |path: &str| here.join(path).display().to_string();
        let args = ["-y", "src", "src", "--root=./src", "--x=src", "/usr", "absent", "~/src"].map(str::to_owned);
        let found = absolute_paths("npx", &args);
        let src = whole("src");
        assert_eq!(
            found,
            ["-y", "src", &src, &format!("--root={src}"), &format!("--x={src}"), "/usr", "absent", "~/src"]
        );
        assert_eq!(absolute_paths("server", &["src".to_owned()]), [src]);
    }
}
