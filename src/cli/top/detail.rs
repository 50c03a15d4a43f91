//! Draws one server of `mcpd top`: its problems with the remedy, load, memory, sandbox, last lines on stderr, last calls, instances and tools. Pure.

use anstream::adapter::strip_str;

use super::model::{RowKey, TopModel};
use super::view::{
    CallTable, NO_TOOL, calls_of, cpu, dash, load, memory, percentage, running_table, size, state, tool_table,
};
use crate::admin::CpuMeter;
use crate::admin::report::{InstanceReport, LineReport, ServerReport};
use crate::cli::calls::format_duration;
use crate::cli::status;
use crate::cli::style::{Cell, Column, OutputStyle, Tone};
use crate::cli::text::{TimeFormat, count, local_time, one_line, short_duration, wrap};

/// Rows of the tables of calls and tools.
const ROWS: usize = 5;
/// Minimum number of lines for stderr.
const MIN_STDERR_LINES: usize = 5;
/// Columns of the names of values.
const LABELS: usize = 13;

/// What is shown of a server.
pub(super) struct Detail<'d> {
    pub(super) key: &'d RowKey,
    /// Of this server alone.
    pub(super) model: &'d TopModel,
    /// Absent if it is not configured.
    pub(super) server: Option<&'d ServerReport>,
    pub(super) cpu: &'d CpuMeter,
    pub(super) stderr: Stderr<'d>,
}

pub(super) enum Stderr<'d> {
    /// Oldest first.
    Lines(Vec<&'d LineReport>),
    /// Why there are none.
    Nothing(String),
}

impl Detail<'_> {
    /// The text. Of stderr it has as many lines as fit into `height`, and a few if nothing does.
    pub(super) fn draw(&self, call_table: CallTable, style: OutputStyle, height: usize) -> String {
        let mut parts = vec![self.head(style)];
        parts.extend(self.server.map(|server| problems(server, style)).filter(|text| !text.is_empty()));
        parts.push(self.figures(style));
        let running = &self.model.running[..self.model.running.len().min(ROWS)];
        if !running.is_empty() && call_table != CallTable::Running {
            parts.push(running_table(running, style));
        }
        let calls = calls_of(self.model, call_table, ROWS, style);
        let used = parts.iter().chain(&calls).map(|part| part.lines().count() + 1).sum::<usize>() + 1;
        let lines = height.saturating_sub(used).max(MIN_STDERR_LINES);
        parts.extend(self.server.is_some().then(|| self.stderr(lines, style)));
        parts.extend(calls);
        let instances = self.server.map(|server| self.instances(server, style));
        parts.extend(instances.filter(|table| !table.is_empty()));
        let tools = &self.model.tools[..self.model.tools.len().min(ROWS)];
        parts.extend((!tools.is_empty()).then(|| tool_table(tools, style)));
        parts.join("\n")
    }

    fn head(&self, style: OutputStyle) -> String {
        let name = one_line(self.key.as_deref().unwrap_or(NO_TOOL));
        let mut facts = vec![name.clone()];
        match self.server {
            Some(server) => {
                facts.push(server.state.to_string());
                facts.extend(server.uptime_ms.map(|ms| format!("up {}", short_duration(ms))));
                facts.extend(server.pid.map(|pid| format!("pid {pid}")));
                facts.extend(server.remote.as_ref().map(|remote| one_line(&remote.origin)));
                facts.extend(status::versions(server).map(|versions| format!("MCP {versions}")));
                facts.extend(server.software.as_deref().map(one_line));
            }
            None if self.key.is_some() => facts.push("not configured any more".to_owned()),
            None => facts.push("calls of tools that do not exist".to_owned()),
        }
        wrap(&facts.join(" · "), 0, 2, style.width()).replacen(&name, &style.paint(Tone::Head, &name), 1) + "\n"
    }

    fn figures(&self, style: OutputStyle) -> String {
        let stats = &self.model.stats;
        let percentiles = [("P50", stats.p50_ms), ("P95", stats.p95_ms), ("P99", stats.p99_ms)];
        let percentiles =
            percentiles.iter().filter_map(|(name, ms)| Some(format!("{name} {}", format_duration((*ms)?))));
        let mut all = vec![(format!("last {}", short_duration(self.model.window_ms)), load(self.model))];
        all.push(("duration".to_owned(), percentiles.collect::<Vec<_>>().join(" · ")));
        if let Some(server) = self.server {
            let of_server = [
                ("memory", memory_text(server)),
                ("CPU", self.cpu_text(server)),
                ("instances", instances_text(server)),
                ("sandbox", sandbox_text(server)),
                ("offers", offers_text(server)),
                ("since start", total_text(server)),
            ];
            all.extend(of_server.map(|(label, text)| (label.to_owned(), text)));
        }
        let line = |(label, text): (String, String)| {
            let text = wrap(&text, LABELS, LABELS, style.width());
            format!("{}{text}\n", style.paint(Tone::Faint, &format!("{label:LABELS$}")))
        };
        all.into_iter().filter(|(_, text)| !text.is_empty()).map(line).collect()
    }

    fn cpu_text(&self, server: &ServerReport) -> String {
        let Some(usage) = server.usage else { return String::new() };
        let now = self.cpu.of_server(server).map_or_else(|| "–".to_owned(), percentage);
        format!("{now} of one core · {} in total", short_duration(usage.cpu_ms))
    }

    fn stderr(&self, most: usize, style: OutputStyle) -> String {
        let heading = style.paint(Tone::Head, "STDERR") + "\n";
        match &self.stderr {
            Stderr::Nothing(why) => heading + &style.paint(Tone::Faint, &wrap(why, 0, 2, style.width())) + "\n",
            Stderr::Lines(lines) => {
                let has_instances = self.server.is_some_and(|server| !server.instances.is_empty());
                let shown = lines[lines.len().saturating_sub(most)..].iter();
                let text: String = shown.map(|line| stderr_line(line, has_instances, style)).collect();
                let lines: Vec<_> = text.split_inclusive('\n').collect();
                heading + &lines[lines.len().saturating_sub(most)..].concat()
            }
        }
    }

    fn instances(&self, server: &ServerReport, style: OutputStyle) -> String {
        const COLUMNS: [Column; 10] = [
            Column::text("INSTANCE").min_width(20),
            Column::text("STATE"),
            Column::number("PID").drop_rank(3),
            Column::number("UP").drop_rank(4),
            Column::number("MEMORY"),
            Column::number("CPU"),
            Column::number("CALLS").drop_rank(1),
            Column::number("IN FLIGHT").drop_rank(5),
            Column::number("ERRORS").drop_rank(2),
            Column::number("RESTARTS").drop_rank(6),
        ];
        if server.instances.is_empty() {
            return String::new();
        }
        let row = |one: &InstanceReport| {
            [
                one.purpose.as_str().into(),
                state(Some(one.state)),
                one.pid.map_or_else(dash, |pid| pid.to_string().into()),
                one.uptime_ms.map_or_else(dash, |ms| short_duration(ms).into()),
                memory(one.usage.map(|usage| usage.memory_bytes)),
                cpu(self.cpu.of_instance(&server.name, one)),
                one.calls.to_string().into(),
                one.in_flight.to_string().into(),
                Cell::new(if one.errors > 0 { Tone::Bad } else { Tone::Plain }, one.errors.to_string()),
                one.restarts.to_string().into(),
            ]
        };
        style.fit_table(&COLUMNS, server.instances.iter().map(row).collect())
    }
}

/// The problems of a server with the remedy, and the notes about it.
fn problems(server: &ServerReport, style: OutputStyle) -> String {
    let notes = status::server_notes(server, style);
    let notes = notes.iter().map(|note| wrap(&one_line(note), 0, 4, style.width()) + "\n");
    status::problem(server, style) + &notes.collect::<String>()
}

fn stderr_line(line: &LineReport, with_pid: bool, style: OutputStyle) -> String {
    let text = one_line(&strip_str(&line.text).to_string().replace('\t', "    "));
    let pid = if with_pid { format!(" [{}]", line.pid) } else { String::new() };
    let time = local_time(&line.time, TimeFormat::Clock) + &pid;
    let indent = time.len() + 1;
    format!("{} {}\n", style.paint(Tone::Faint, &time), wrap(&text, indent, indent, style.width()))
}

fn memory_text(server: &ServerReport) -> String {
    let limit = server.limits.as_ref().and_then(|limits| limits.memory_max);
    let limit =
        limit.map(|max| format!(" · at most {} of memory for each instance", size(max as u64))).unwrap_or_default();
    match server.usage {
        Some(usage) => {
            let processes = if usage.processes == 1 { "process" } else { "processes" };
            format!("{} in {} {processes}{limit}", size(usage.memory_bytes), usage.processes)
        }
        None if server.elsewhere().is_some() => "it runs elsewhere".to_owned(),
        None => "no process runs".to_owned(),
    }
}

fn instances_text(server: &ServerReport) -> String {
    match (server.instances.len(), server.max_instances) {
        (0, None) => String::new(),
        (all, None) => format!("{all}"),
        (all, Some(most)) => format!("{all} of at most {most}"),
    }
}

fn sandbox_text(server: &ServerReport) -> String {
    let Some(sandbox) = &server.sandbox else { return String::new() };
    let enforced: Vec<_> = sandbox.enforced.iter().map(ToString::to_string).collect();
    let enforced = if enforced.is_empty() { String::new() } else { format!(": restricts {}", enforced.join(", ")) };
    let unenforced = sandbox.unenforced_text().map(|text| format!(" · {text}")).unwrap_or_default();
    format!("{}{enforced}{unenforced}", sandbox.level.name())
}

fn offers_text(server: &ServerReport) -> String {
    let hidden = |hidden: usize| if hidden == 0 { String::new() } else { format!(" ({hidden} hidden)") };
    let of = |number: usize, noun: &str, denied: usize| count(number, noun) + &hidden(denied);
    let tokens = if server.tokens == 0 { String::new() } else { format!(", about {} tokens", server.tokens) };
    [
        of(server.tools_exposed, "tool", server.tools_denied) + &tokens,
        of(server.prompts_exposed, "prompt", server.prompts_denied),
        of(server.resources_exposed, "resource", server.resources_denied),
    ]
    .join(" · ")
}

fn total_text(server: &ServerReport) -> String {
    let ServerReport { calls, errors, restarts, restarts_last_hour, .. } = server;
    let recent = match restarts_last_hour {
        0 => String::new(),
        recent => format!(", {recent} after failures in the last hour"),
    };
    format!("{calls} calls, {errors} errors · {restarts} restarts{recent}")
}
