//! The receipt as a person reads it.

use std::fmt::Write;

use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{count, join_limited, malformed_item, one_line, short_duration};
use crate::printable;
use crate::receipt::report::{CallReport, Claim, FileGroup, OfferReport, Receipt, TouchedReport, Warning, WarningKind};

/// The width of the column of headings.
const HEADINGS: usize = 14;
/// The most values on one line.
const MAX_VALUES: usize = 8;
/// The most tools that are listed on a terminal.
const MAX_TOOLS: usize = 40;
/// Shorter times have tenths of a second.
const PRECISE_BELOW_MS: u64 = 10_000;

pub(super) fn render(receipt: &Receipt, style: OutputStyle) -> String {
    let mut page = Page { text: String::new(), style };
    page.line("command", &receipt.command.join(" "));
    if let Some(package) = &receipt.package {
        let integrity = package.integrity.as_ref().map(|integrity| format!(" ({integrity})")).unwrap_or_default();
        page.line("package", &format!("{} {}{integrity}", package.name, package.version));
    }
    if let Some(failure) = &receipt.failure {
        page.toned(Tone::Bad, "failed", failure);
        receipt.stderr.iter().for_each(|line| page.line("", line));
    }
    page.line("ran", &ran(receipt));
    if let Some(offer) = &receipt.offer {
        page.offer(offer);
    }
    match (&receipt.touched, &receipt.not_traced) {
        (Some(touched), _) => page.touched(touched),
        (None, why) => page.toned(
            Tone::Doubtful,
            "not traced",
            &format!(
                "{}, so the programs, files and hosts that it used are not known",
                why.as_deref().unwrap_or_default()
            ),
        ),
    }
    if let Some(offer) = &receipt.offer {
        page.tools(offer);
    }
    if !receipt.warnings.is_empty() {
        page.text.push('\n');
        receipt.warnings.iter().for_each(|one| page.toned(Tone::Doubtful, "warning", &warning(one)));
    }
    if let Some(call) = &receipt.call {
        page.call(call);
    }
    page.text
}

fn ran(receipt: &Receipt) -> String {
    let parts = [
        receipt.started_ms.map(|ms| format!("ready after {}", took(ms))),
        receipt.installed_ms.map(|ms| format!("{} to install", took(ms))),
        receipt.peak_memory.map(bytes),
        (receipt.processes > 0).then(|| processes(receipt.processes)),
        (!receipt.namespaces).then(|| "without namespaces".to_owned()),
    ];
    let parts: Vec<_> = parts.into_iter().flatten().collect();
    if parts.is_empty() { "not ready".to_owned() } else { parts.join(" · ") }
}

fn processes(number: usize) -> String {
    if number == 1 { "1 process".to_owned() } else { format!("{number} processes") }
}

/// A number of bytes for people.
pub(super) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["B", "KiB", "MiB", "GiB"];
    let unit = (0..UNITS.len()).rev().find(|unit| bytes >> (10 * unit) > 0).unwrap_or_default();
    format!("{} {}", bytes >> (10 * unit), UNITS[unit])
}

/// A duration in milliseconds, for people.
fn took(ms: u64) -> String {
    if ms < PRECISE_BELOW_MS { format!("{}.{} s", ms / 1000, ms % 1000 / 100) } else { short_duration(ms) }
}

struct Page {
    text: String,
    style: OutputStyle,
}

impl Page {
    fn line(&mut self, heading: &str, value: &str) {
        self.toned(Tone::Plain, heading, value);
    }

    fn toned(&mut self, tone: Tone, heading: &str, value: &str) {
        let heading = self.style.paint(Tone::Head, &format!("{heading:HEADINGS$}"));
        let value = self.style.paint(tone, &one_line(value));
        let _ = writeln!(self.text, "{heading}{value}");
    }

    /// One heading with a line for each value.
    fn list(&mut self, heading: &str, values: &[String]) {
        for (index, value) in values.iter().enumerate() {
            self.line(if index == 0 { heading } else { "" }, value);
        }
    }

    fn offer(&mut self, offer: &OfferReport) {
        let software = offer.software.as_deref().map(|software| format!("{software}, ")).unwrap_or_default();
        self.line("server", &format!("{software}MCP {}", offer.protocol));
        if !offer.capabilities.is_empty() {
            self.line("capabilities", &offer.capabilities.join(", "));
        }
        let others = [(offer.prompts, "prompt"), (offer.resources, "resource"), (offer.templates, "template")];
        let others = others.into_iter().filter(|(number, _)| *number > 0).map(|(number, noun)| count(number, noun));
        let instructions = (offer.instructions_bytes > 0)
            .then(|| format!("{} of instructions", count(offer.instructions_bytes, "byte")));
        let tools = format!("{} for {}", count(offer.tools.len(), "tool"), count(offer.tokens, "token"));
        let all: Vec<_> = [tools].into_iter().chain(others).chain(instructions).collect();
        self.line("offers", &all.join(" · "));
    }

    fn touched(&mut self, touched: &TouchedReport) {
        let nothing = || vec!["nothing outside its own directories".to_owned()];
        self.list("programs", &touched.programs);
        self.list("installation", &groups(&touched.installation));
        let read = groups(&touched.read);
        self.list("read", &if read.is_empty() { nothing() } else { read });
        let missed: Vec<_> = touched
            .missed
            .iter()
            .map(|missed| {
                let secret = missed.secret.as_ref().map(|secret| format!(" ({secret})"));
                format!("{}{}", missed.path, secret.unwrap_or_default())
            })
            .collect();
        self.list("missed", &missed);
        let wrote = groups(&touched.wrote);
        self.list("wrote", &if wrote.is_empty() { nothing() } else { wrote });
        self.list("cannot write", &groups(&touched.refused_writes));
        let hosts = if touched.hosts.is_empty() { "none looked up".to_owned() } else { touched.hosts.join(", ") };
        self.line("hosts", &hosts);
        if !touched.install_hosts.is_empty() {
            self.line("to install", &touched.install_hosts.join(", "));
        }
        let connections: Vec<_> = touched
            .connections
            .iter()
            .map(|one| if one.result == "reached" { one.to.clone() } else { format!("{} ({})", one.to, one.result) })
            .collect();
        self.line(
            "connections",
            &if connections.is_empty() { "none".to_owned() } else { join_limited(&connections, MAX_VALUES) },
        );
        self.list("listened", &touched.listeners);
        self.line("variables", "cannot be seen; it had none of yours but those of `--env`");
        if touched.cut {
            self.toned(Tone::Bad, "incomplete", "the server has touched more than this receipt lists");
        }
    }

    fn tools(&mut self, offer: &OfferReport) {
        let limit = self.style.limit(MAX_TOOLS);
        let names: Vec<_> =
            offer.tools.iter().take(limit).map(|tool| format!("{} ({})", tool.name, tool.tokens)).collect();
        let more = offer.tools.len().saturating_sub(limit);
        let more = (more > 0).then(|| format!("… {more} more"));
        self.list("tools", &names.into_iter().chain(more).collect::<Vec<_>>());
    }

    fn call(&mut self, call: &CallReport) {
        self.text.push('\n');
        match &call.error {
            Some(error) => self.toned(Tone::Bad, "call", &format!("{}: {error}", call.tool)),
            None => self.line("call", &call.tool),
        }
        if let Some(text) = &call.text {
            let _ = writeln!(self.text, "{}", printable::lines(text));
        }
    }
}

fn groups(groups: &[FileGroup]) -> Vec<String> {
    let group = |FileGroup { directory, files, names }: &FileGroup| {
        let below = directory.trim_end_matches('/');
        match &names[..] {
            [name] => format!("{below}/{name}"),
            [] => format!("{below}/ ({})", count(*files, "file")),
            names => format!("{below}/: {}", names.join(", ")),
        }
    };
    groups.iter().map(group).collect()
}

fn warning(warning: &Warning) -> String {
    let subject = warning.subject.as_deref().unwrap_or_default();
    let detail = warning.detail.as_deref().unwrap_or_default();
    match warning.kind {
        WarningKind::Secret => format!("it looked for {subject}: {detail}"),
        WarningKind::Trace => "it tried to trace or read another process".to_owned(),
        WarningKind::Namespace => "it tried to create a namespace, as browsers do".to_owned(),
        WarningKind::Mount => "it tried to mount something".to_owned(),
        WarningKind::Signal => "it sent a signal to a process that is not its own".to_owned(),
        WarningKind::IoUring => "it tried to use io_uring, which no trace sees".to_owned(),
        WarningKind::Kernel => "it tried to use programs, keyrings or counters of the kernel".to_owned(),
        WarningKind::Invisible if subject.is_empty() => "its instructions have invisible characters".to_owned(),
        WarningKind::Invisible => format!("`{subject}` ({detail}) has invisible characters"),
        WarningKind::Claim => {
            let claim = match warning.claim {
                Some(Claim::NotDestructive) => "destroys nothing",
                _ => "only reads",
            };
            format!("tool `{subject}` claims that it {claim}, and its name says otherwise")
        }
        WarningKind::Malformed => warning.malformed.as_ref().map(malformed_item).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::receipt::report::{ConnectionReport, MissedFile, ToolCost};

    const EXPECTED: &str = "\
command       npx pkg
ran           ready after 1.2 s · 12s to install · 80 MiB · 2 processes
server        pkg 1.0, MCP 2025-06-18
capabilities  tools
offers        1 tool for 20 tokens · 1 prompt
programs      /usr/bin/node
read          /srv/notes/a\\u{202e}
              /srv/x/ (70 files)
missed        ~/.ssh/id_rsa (SSH keys)
wrote         nothing outside its own directories
hosts         a.example, b.example
connections   tcp 192.0.2.1:443 (ETIMEDOUT)
variables     cannot be seen; it had none of yours but those of `--env`
tools         echo (20)

call          echo
hi
";

    #[test]
    fn receipt_has_a_line_for_each_thing() {
        let group = |directory: &str, files, names: &[&str]| FileGroup {
            directory: directory.to_owned(),
            files,
            names: names.iter().map(|name| (*name).to_owned()).collect(),
        };
        let touched = TouchedReport {
            programs: vec!["/usr/bin/node".to_owned()],
            read: vec![group("/srv/notes", 1, &["a\u{202e}"]), group("/srv/x", 70, &[])],
            missed: vec![MissedFile { path: "~/.ssh/id_rsa".to_owned(), secret: Some("SSH keys".to_owned()) }],
            hosts: vec!["a.example".to_owned(), "b.example".to_owned()],
            connections: vec![ConnectionReport { to: "tcp 192.0.2.1:443".to_owned(), result: "ETIMEDOUT".to_owned() }],
            ..TouchedReport::default()
        };
        assert_eq!(render(&receipt(touched), OutputStyle::PLAIN), EXPECTED);
    }

    fn receipt(touched: TouchedReport) -> Receipt {
        Receipt {
            command: vec!["npx".to_owned(), "pkg".to_owned()],
            package: None,
            failure: None,
            stderr: Vec::new(),
            namespaces: true,
            installed_ms: Some(12_345),
            started_ms: Some(1_234),
            peak_memory: Some(80 << 20),
            processes: 2,
            not_traced: None,
            touched: Some(touched),
            offer: Some(OfferReport {
                software: Some("pkg 1.0".to_owned()),
                era: "legacy".to_owned(),
                protocol: "2025-06-18".to_owned(),
                capabilities: vec!["tools".to_owned()],
                tools: vec![ToolCost { name: "echo".to_owned(), tokens: 20 }],
                tokens: 20,
                prompts: 1,
                resources: 0,
                templates: 0,
                instructions_bytes: 0,
            }),
            warnings: Vec::new(),
            call: Some(CallReport { tool: "echo".to_owned(), text: Some("hi".to_owned()), error: None }),
        }
    }
}
