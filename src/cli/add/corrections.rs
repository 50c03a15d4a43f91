//! Corrections of common mistakes in the arguments of `mcpd add`: a URL without its scheme, options of mcpd after the command.
//!
//! Pure.

use url::{Host, Url};

use crate::config::command_line::without_secrets;
use crate::config::fitted_name;
use crate::known_clients::shell_word;

/// Host labels that do not identify a service.
const GENERIC_LABELS: [&str; 4] = ["api", "mcp", "server", "www"];
/// Options whose value may be a secret.
const SECRET_OPTIONS: [&str; 4] = ["--env", "-e", "--header", "-H"];
const END_OF_OPTIONS: &str = "--";

/// Completes `word` if it is most likely a URL without its scheme, such as `localhost:3000/mcp`. A word without a port needs a path,
/// and a host that is unlikely to be a project's directory.
pub(in crate::cli) fn url_without_scheme(word: &str) -> Option<String> {
    if word.contains("://")
        || word.starts_with(['/', '.', '~', '$', '-', '@', '%'])
        || word.contains(char::is_whitespace)
    {
        return None;
    }
    let end = word.find(['/', '?', '#']).unwrap_or(word.len());
    let (authority, path) = word.split_at(end);
    let port = authority.rsplit_once(':').map(|(_, port)| port);
    let has_port = port.is_some_and(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    let url = Url::parse(&format!("https://{word}")).ok().filter(|url| url.username().is_empty())?;
    let (is_here, is_host) = match url.host()? {
        Host::Ipv4(address) => (address.is_loopback(), true),
        Host::Ipv6(address) => (address.is_loopback(), true),
        Host::Domain(name) if name == "localhost" || name.ends_with(".localhost") => (true, true),
        Host::Domain(name) => (false, name.contains('.')),
    };
    let scheme = if is_here { "http" } else { "https" };
    (has_port || is_host && !path.is_empty()).then(|| format!("{scheme}://{word}"))
}

/// The correction of a first word that is certainly no command: JSON, or an npm package.
pub(super) fn not_a_command(name: &str, words: &[String]) -> Option<String> {
    let first = words.first()?;
    if first.starts_with('{') {
        return Some("this is JSON: save it to a file, and run `mcpd import FILE`".to_owned());
    }
    let is_package = first.starts_with('@') && first.contains('/');
    is_package.then(|| {
        let line = without_secrets(words).join(" ");
        format!("`{}` is an npm package: `mcpd add {name} npx -y {line}`", first.escape_debug())
    })
}

/// Derives a server name from the host of `url`.
pub(in crate::cli) fn name_for(url: &str) -> String {
    let url = Url::parse(url).ok();
    let labels: Vec<_> = match url.as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) if name != "localhost" => name.split('.').collect(),
        _ => return "local".to_owned(),
    };
    let below_top = if labels.len() > 1 { &labels[..labels.len() - 1] } else { &labels[..] };
    let label = below_top.iter().find(|label| !GENERIC_LABELS.contains(label)).or(below_top.first());
    fitted_name(label.copied().unwrap_or_default(), "server")
}

/// `url` for printing: without its query, which may contain a secret.
pub(in crate::cli) fn without_query(url: &str) -> String {
    let cut = url.find(['?', '#']).map_or_else(|| url.to_owned(), |end| format!("{}…", &url[..end]));
    without_secrets(&[cut]).concat()
}

/// Whether `--` precedes the command, which is the last `command` words of `line`.
pub(in crate::cli) fn is_escaped(line: &[String], command: usize) -> bool {
    let before = line.len().checked_sub(command + 1);
    before.is_some_and(|at| line[at] == END_OF_OPTIONS)
}

/// Options of `mcpd add` that were written after the command.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct OptionCorrection {
    /// The options in order, without values.
    pub(super) options: Vec<String>,
    /// The command line with these options before the name, for printing.
    pub(super) corrected: String,
}

/// Finds options of `mcpd add` after the command. `line` is the whole command line; its last `command` words are the command.
/// `takes_value` returns whether an option of `mcpd add` takes a value, and `None` for any other word.
pub(super) fn misplaced_options(
    line: &[String],
    command: usize,
    takes_value: impl Fn(&str) -> Option<bool>,
) -> Option<OptionCorrection> {
    let (before, words) = line.split_at(line.len().checked_sub(command)?);
    // Everything after `--` belongs to the command.
    if words.is_empty() || is_escaped(line, command) {
        return None;
    }
    let (mut options, mut moved, mut remaining) = (Vec::new(), Vec::new(), vec![words[0].clone()]);
    let mut rest = words[1..].iter();
    while let Some(word) = rest.next() {
        let (option, value) = word.split_once('=').map_or((&**word, None), |(option, value)| (option, Some(value)));
        match takes_value(option).filter(|takes_value| *takes_value || value.is_none()) {
            _ if word == END_OF_OPTIONS => {
                remaining.push(word.clone());
                remaining.extend(rest.by_ref().cloned());
            }
            Some(takes_value) => {
                options.push(option.to_owned());
                moved.push(word.clone());
                let values = usize::from(takes_value && value.is_none());
                moved.extend(rest.by_ref().take(values).cloned());
            }
            None => remaining.push(word.clone()),
        }
    }
    let add = before.iter().position(|word| word == "add")? + 1;
    let words: Vec<_> = [&before[1..add], &moved, &before[add..], &remaining].concat();
    (!options.is_empty()).then(|| OptionCorrection { options, corrected: format!("mcpd {}", shell_line(&words)) })
}

/// Quotes the words for a shell, with secrets masked.
fn shell_line(words: &[String]) -> String {
    let mut masked = Vec::new();
    let mut is_value = false;
    for word in words {
        let (option, value) = match word.split_once('=') {
            Some((option, value)) if SECRET_OPTIONS.contains(&option) => (Some(option), value),
            _ => (None, &**word),
        };
        masked.push(match (option, is_value) {
            (Some(option), _) => format!("{option}={}", masked_pair(value)),
            (None, true) => masked_pair(value),
            (None, false) => word.clone(),
        });
        is_value = SECRET_OPTIONS.contains(&&**word);
    }
    without_secrets(&masked).iter().map(|word| shell_word(word)).collect::<Vec<_>>().join(" ")
}

/// `NAME=VALUE` or `NAME: VALUE` without the value.
fn masked_pair(pair: &str) -> String {
    let end = pair.find(['=', ':']).map_or(0, |at| at + 1);
    format!("{}…", &pair[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_without_its_scheme_gets_http_on_this_machine_and_https_elsewhere() {
        for (word, url) in [
            ("localhost:3000/mcp", Some("http://localhost:3000/mcp")),
            ("localhost:3000", Some("http://localhost:3000")),
            ("localhost/mcp", Some("http://localhost/mcp")),
            ("127.0.0.1:80", Some("http://127.0.0.1:80")),
            ("[::1]:3000/mcp", Some("http://[::1]:3000/mcp")),
            ("app.localhost:1/x", Some("http://app.localhost:1/x")),
            ("mcp.example.org/mcp", Some("https://mcp.example.org/mcp")),
            ("mcp.example.org:8443", Some("https://mcp.example.org:8443")),
            ("box:8080/mcp", Some("https://box:8080/mcp")),
            ("10.0.0.7:8080/mcp", Some("https://10.0.0.7:8080/mcp")),
            ("https://example.org/mcp", None),
            ("npx", None),
            ("localhost", None),
            ("example.org", None),
            ("bin/server", None),
            ("./bin.d/server", None),
            ("~/a.b/c", None),
            ("/opt/a.b/c", None),
            ("npx:latest", None),
            ("a@b.org/x", None),
            ("cmd a.b/c", None),
            ("", None),
        ] {
            assert_eq!(url_without_scheme(word).as_deref(), url, "{word}");
        }
    }

    #[test]
    fn server_is_named_after_the_specific_label_of_its_host() {
        for (url, name) in [
            ("https://search.example.org/mcp", "search"),
            ("https://mcp.linear.app/sse", "linear"),
            ("https://www.example.org", "example"),
            ("https://example.org/mcp", "example"),
            ("https://mcp.org", "mcp"),
            ("https://box:8080/mcp", "box"),
            ("http://localhost:3000/mcp", "local"),
            ("http://127.0.0.1:3000", "local"),
            ("https://a__b.example.org", "a_b"),
        ] {
            assert_eq!(name_for(url), name, "{url}");
        }
    }

    fn corrected(line: &str) -> Option<(String, String)> {
        let line: Vec<_> = shlex::split(line).expect("a command line");
        let command = line.iter().rposition(|word| word == "npx").map(|at| line.len() - at).expect("a command");
        let takes_value = |option: &str| match option {
            "--no-reload" | "--json" => Some(false),
            "--ca-file" | "--env" | "--header" => Some(true),
            _ => None,
        };
        misplaced_options(&line, command, takes_value).map(|found| (found.options.join(" "), found.corrected))
    }

    #[test]
    fn options_after_the_command_are_found_and_moved_before_the_name() {
        for (line, expected) in [
            ("mcpd add x npx -y pkg", None),
            ("mcpd add x npx --no-reload", Some(("--no-reload", "mcpd add --no-reload x npx"))),
            ("mcpd add --lazy x npx -y pkg --json", Some(("--json", "mcpd add --json --lazy x npx -y pkg"))),
            ("mcpd add x npx --ca-file a.toml b", Some(("--ca-file", "mcpd add --ca-file a.toml x npx b"))),
            ("mcpd add x npx --ca-file=a.toml", Some(("--ca-file", "mcpd add --ca-file=a.toml x npx"))),
            ("mcpd add x npx --ca-file", Some(("--ca-file", "mcpd add --ca-file x npx"))),
            ("mcpd add x npx --no-reload=1", None),
            ("mcpd add x -- npx --no-reload", None),
            ("mcpd add x npx -- --no-reload", None),
            (
                "mcpd --runtime-dir /d add x npx --no-reload",
                Some(("--no-reload", "mcpd --runtime-dir /d add --no-reload x npx")),
            ),
            (
                "mcpd add x npx --env T=canary --no-reload --header 'A: canary'",
                Some(("--env --no-reload --header", "mcpd add --env 'T=…' --no-reload --header 'A:…' x npx")),
            ),
            ("mcpd add x npx --env=T=canary", Some(("--env", "mcpd add '--env=T=…' x npx"))),
        ] {
            let expected = expected.map(|(options, line)| (options.to_owned(), line.to_owned()));
            assert_eq!(corrected(line), expected, "{line}");
        }
    }
}
