//! `mcpd tools TOOL`: description, arguments and an example call of one tool.

use std::iter;

use unicode_width::UnicodeWidthStr;

use super::super::tool_schema::{Argument, Kind, OtherArguments, Schema};
use super::Tool;
use super::table::MIN_TEXT_WIDTH;
use crate::cli::style::{OutputStyle, Tone};
use crate::cli::text::{lines, one_line, wrap};

/// `own` is the server's own name of a renamed tool, as SERVER/TOOL.
pub(super) fn render(tool: &Tool, own: Option<&str>) -> String {
    let style = OutputStyle::of_stdout();
    let schema = Schema::parse(&tool.definition["inputSchema"]);
    let mut text = format!("{} · ~{} tokens{}\n", style.paint(Tone::Head, &tool.name), tool.tokens(), hints(tool));
    text += &own.map(|own| format!("the server's own name: {}\n", one_line(own))).unwrap_or_default();
    let description = lines(tool.definition["description"].as_str().unwrap_or_default());
    if !description.trim().is_empty() {
        for line in description.trim().lines() {
            text += &(wrap(line, 0, 0, style.width()) + "\n");
        }
    }
    text.push('\n');
    if schema.arguments.is_empty() {
        text += "no arguments\n";
    } else {
        text += &style.table(["ARGUMENT", "TYPE", "REQUIRED", "DESCRIPTION"], rows(&schema, style));
        text += if schema.other_arguments == OtherArguments::Allowed {
            "Other arguments of any name are allowed.\n"
        } else {
            ""
        };
    }
    text + &format!("\nmcpd call {}{}\n", tool.name, example(&schema))
}

/// What the server declares about the tool (MCP 2025-11-25, `ToolAnnotations`, `ToolExecution`).
fn hints(tool: &Tool) -> String {
    let annotations = &tool.definition["annotations"];
    let reads = (annotations["readOnlyHint"] == true).then_some(" · declared read-only");
    let destroys = (annotations["destructiveHint"] == true && reads.is_none()).then_some(" · declared destructive");
    let task = (tool.definition["execution"]["taskSupport"] == "required").then_some(" · runs as a task");
    [reads, destroys, task].into_iter().flatten().collect()
}

/// A row for each argument. A long description continues in rows below.
fn rows(schema: &Schema, style: OutputStyle) -> Vec<[String; 4]> {
    let rows: Vec<_> = schema.arguments.iter().map(row).collect();
    let widest = |column: usize, heading: &str| {
        rows.iter().map(|row| row[column].width()).max().unwrap_or_default().max(heading.len()) + 2
    };
    let before = widest(0, "ARGUMENT") + widest(1, "TYPE") + widest(2, "REQUIRED");
    let room = style.width().map(|width| width.saturating_sub(before).max(MIN_TEXT_WIDTH));
    let split = |[name, kind, required, description]: [String; 4]| {
        let description = wrap(&description, 0, 0, room);
        let mut lines = description.lines().map(str::to_owned);
        let first = [name, kind, required, lines.next().unwrap_or_default()];
        let others = lines.map(|line| [String::new(), String::new(), String::new(), line]);
        iter::once(first).chain(others).collect::<Vec<_>>()
    };
    rows.into_iter().flat_map(split).collect()
}

fn row(argument: &Argument) -> [String; 4] {
    let required = if argument.is_required { "yes" } else { "no" };
    let choices: Vec<_> = argument.choices.iter().map(ToString::to_string).collect();
    let choices = (!choices.is_empty()).then(|| format!("one of {}", choices.join(", ")));
    let default = argument.default.as_ref().map(|value| format!("default {value}"));
    let description = argument.description.lines().map(str::trim).collect::<Vec<_>>().join(" ");
    let description = (!description.is_empty()).then_some(description);
    let parts: Vec<_> = [description, choices, default].into_iter().flatten().collect();
    [one_line(&argument.name), argument.type_words(), required.to_owned(), one_line(&parts.join("; "))]
}

/// Example values for the required arguments.
fn example(schema: &Schema) -> String {
    schema.arguments.iter().filter(|one| one.is_required).map(|one| format!(" {}", example_argument(one))).collect()
}

fn example_argument(argument: &Argument) -> String {
    let value = match (argument.choices.first(), argument.kinds.first()) {
        (Some(choice), _) => choice.as_str().map_or_else(|| choice.to_string(), str::to_owned),
        (None, Some(Kind::Number | Kind::Integer)) => "1".to_owned(),
        (None, Some(Kind::Boolean)) => "true".to_owned(),
        (None, Some(Kind::Object)) => "'{}'".to_owned(),
        (None, Some(Kind::Array)) => "'[]'".to_owned(),
        (None, Some(Kind::Null)) => "null".to_owned(),
        (None, Some(Kind::Text) | None) => argument.name.to_uppercase(),
    };
    one_line(&format!("{}={value}", argument.name))
}
