//! The report of `mcpd tools --budget` for people.

use toml_edit::Value;
use unicode_width::UnicodeWidthStr;

use super::{JsonReport, LimitReport, ProfileBudget, ServerBudget};
use crate::cli::style::{Cell, Column, OutputStyle, Tone};
use crate::cli::text::{count, join_limited, one_line, wrap};

/// Indent of what belongs to a limit.
const INDENT: &str = "    ";
/// Servers or tools that are named.
const MAX_NAMES: usize = 5;

pub(super) fn render(report: &JsonReport, style: OutputStyle) -> String {
    let mut parts: Vec<_> = report.profiles.iter().map(|profile| page(profile, style)).collect();
    if report.profiles.iter().flat_map(|profile| &profile.limits).any(|limit| !limit.allow.is_empty()) {
        let order = match report.calls {
            0 => "No calls are recorded yet, so `allow` has the cheapest tools.".to_owned(),
            calls => format!(
                "`allow` has the tools that were called most in {}, then the cheapest.",
                count(calls, "recorded call")
            ),
        };
        parts.push(wrap(&order, 0, 0, style.width()) + "\n");
    }
    parts.join("\n")
}

fn page(profile: &ProfileBudget, style: OutputStyle) -> String {
    let costs = [
        Some(count(profile.tools, "tool")),
        (profile.tokens > 0).then(|| format!("~{} tokens", profile.tokens)),
        (profile.instructions_bytes > 0)
            .then(|| format!("{} of instructions", count(profile.instructions_bytes, "byte"))),
    ];
    let costs: Vec<_> = costs.into_iter().flatten().collect();
    let mut text = format!("{} · {}\n", style.paint(Tone::Head, &profile.name), costs.join(" · "));
    if !profile.servers.is_empty() {
        text += &servers(&profile.servers, style);
    }
    for limit in profile.limits.iter().filter(|limit| limit.exceeded) {
        text += &exceeded(profile, limit, style);
    }
    let kept: Vec<_> = profile.limits.iter().filter(|limit| !limit.exceeded).map(title).collect();
    if !kept.is_empty() {
        text += &(style.paint(Tone::Good, "✓ ") + &wrap(&kept.join(", "), 2, 2, style.width()) + "\n");
    }
    text
}

fn servers(servers: &[ServerBudget], style: OutputStyle) -> String {
    let columns = [
        Column::text("SERVER").min_width(20),
        Column::number("TOOLS"),
        Column::number("TOKENS"),
        Column::number("INSTRUCTIONS").drop_rank(1),
    ];
    let row = |server: &ServerBudget| {
        let numbers =
            [server.tools, server.tokens, server.instructions_bytes].map(|number| Cell::from(number.to_string()));
        let [tools, tokens, instructions] = numbers;
        [Cell::from(server.name.as_str()), tools, tokens, instructions]
    };
    style.fit_table(&columns, servers.iter().map(row).collect())
}

/// The limit, and who has it.
fn title(limit: &LimitReport) -> String {
    let max = match limit.of {
        "tools" => count(limit.max, "tool"),
        "instructions" => format!("{} of instructions", count(limit.max, "byte")),
        _ => format!("{} of a description", count(limit.max, "byte")),
    };
    format!("{max} ({})", limit.clients.join(", "))
}

fn exceeded(profile: &ProfileBudget, limit: &LimitReport, style: OutputStyle) -> String {
    let mut snippet = String::new();
    let problem = match limit.of {
        "tools" => {
            snippet = format!("{INDENT}[profiles.{}]\n{}", profile.name, list("allow", &limit.allow, style));
            format!("{} too many. These fit, if you set them with `mcpd edit`:", limit.found - limit.max)
        }
        "instructions" => instructions(profile, limit),
        _ => {
            let names: Vec<_> = limit.over.iter().map(|name| one_line(name)).collect();
            format!("the client cuts the rest of {}.", join_limited(&names, MAX_NAMES))
        }
    };
    let text = wrap(&format!("{}: {problem}", title(limit)), 2, 2, style.width());
    style.paint(Tone::Bad, "✗ ") + &text + "\n" + &snippet
}

fn instructions(profile: &ProfileBudget, limit: &LimitReport) -> String {
    let together = (limit.found > limit.max && profile.servers.len() > 1).then(|| {
        format!(
            "all servers together have {}. The first sentence of each comes first, and the client cuts the rest.",
            limit.found
        )
    });
    let alone = match limit.over.len() {
        0 => None,
        1 => Some(format!("{} alone has more.", limit.over[0])),
        _ => Some(format!("{} have more each.", join_limited(&limit.over, MAX_NAMES))),
    };
    let longest = profile.servers.iter().max_by_key(|server| server.instructions_bytes);
    let remedy = longest.map(|server| format!("Set shorter `instructions` in [servers.{}].", server.name));
    [together, alone, remedy].into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// A key with a list in TOML, in as many lines as a terminal needs.
fn list(key: &str, items: &[String], style: OutputStyle) -> String {
    let items: Vec<_> = items.iter().map(|item| Value::from(item.as_str()).to_string()).collect();
    let line = format!("{INDENT}{key} = [{}]\n", items.join(", "));
    let Some(width) = style.width().filter(|width| line.trim_end().width() > *width) else { return line };
    let mut text = format!("{INDENT}{key} = [");
    let mut used = width;
    for item in items {
        if used + item.width() + 2 > width {
            text += &format!("\n{INDENT}  ");
            used = INDENT.len() + 2;
        } else {
            text.push(' ');
            used += 1;
        }
        used += item.width() + 1;
        text += &(item + ",");
    }
    text + &format!("\n{INDENT}]\n")
}

#[cfg(test)]
mod tests {
    use toml_edit::{Array, DocumentMut};

    use super::*;

    fn limit(of: &'static str, max: usize, found: usize, clients: &[&str]) -> LimitReport {
        let clients = clients.iter().map(ToString::to_string).collect();
        LimitReport { clients, of, max, found, exceeded: found > max, allow: Vec::new(), over: Vec::new() }
    }

    fn report() -> JsonReport {
        let tools = ["create_or_update_file", "get_*", "list_*", "search_code", "search_issues"];
        let allow = ["files/*".to_owned()].into_iter().chain(tools.map(|tool| format!("github/{tool}"))).collect();
        let server = |name: &str, tools, tokens, instructions_bytes| ServerBudget {
            name: name.to_owned(),
            tools,
            tokens,
            instructions_bytes,
        };
        let whole = ProfileBudget {
            name: "default".to_owned(),
            tools: 52,
            tokens: 9800,
            instructions_bytes: 2500,
            servers: vec![server("files", 11, 1230, 300), server("github", 41, 8570, 2200)],
            limits: vec![
                LimitReport { allow, ..limit("tools", 40, 52, &["Cursor of early 2025"]) },
                limit("tools", 80, 52, &["Cursor before 2.4"]),
                limit("tools", 128, 52, &["VS Code", "Zed with models of OpenAI", "the OpenAI API"]),
                LimitReport { over: vec!["github".to_owned()], ..limit("instructions", 2048, 2500, &["Claude Code"]) },
                LimitReport {
                    over: vec!["github__x".to_owned()],
                    ..limit("description", 2048, 3000, &["Claude Code"])
                },
            ],
        };
        let servers = vec![server("files", 1, 90, 0)];
        let limits = vec![limit("tools", 40, 1, &["Cursor of early 2025"])];
        let narrow =
            ProfileBudget { name: "narrow".to_owned(), tools: 1, tokens: 90, instructions_bytes: 0, servers, limits };
        JsonReport { calls: 12, profiles: vec![whole, narrow] }
    }

    #[test]
    fn exceeded_limits_have_their_remedy_and_others_share_a_line() {
        let expected = "\
default · 52 tools · ~9800 tokens · 2500 bytes of instructions
SERVER  TOOLS  TOKENS  INSTRUCTIONS
files      11    1230           300
github     41    8570          2200
✗ 40 tools (Cursor of early 2025): 12 too many. These fit, if you set them with
  `mcpd edit`:
    [profiles.default]
    allow = [
      \"files/*\", \"github/create_or_update_file\", \"github/get_*\",
      \"github/list_*\", \"github/search_code\", \"github/search_issues\",
    ]
✗ 2048 bytes of instructions (Claude Code): all servers together have 2500. The
  first sentence of each comes first, and the client cuts the rest. github alone
  has more. Set shorter `instructions` in [servers.github].
✗ 2048 bytes of a description (Claude Code): the client cuts the rest of
  github__x.
✓ 80 tools (Cursor before 2.4), 128 tools (VS Code, Zed with models of OpenAI,
  the OpenAI API)

narrow · 1 tool · ~90 tokens
SERVER  TOOLS  TOKENS  INSTRUCTIONS
files       1      90             0
✓ 40 tools (Cursor of early 2025)

`allow` has the tools that were called most in 12 recorded calls, then the
cheapest.
";
        assert_eq!(render(&report(), OutputStyle::of_width(80)), expected);
    }

    #[test]
    fn a_pipe_has_the_list_on_one_line() {
        let text = render(&report(), OutputStyle::PLAIN);
        let line = text.lines().find(|line| line.trim_start().starts_with("allow")).expect("a list");
        let read: DocumentMut = line.parse().expect("TOML");
        assert_eq!(read["allow"].as_array().map(Array::len), Some(6), "{line}");
        assert!(!text.contains("No calls"), "{text}");
    }

    #[test]
    fn list_on_several_lines_is_the_same_list() {
        let items: Vec<String> = (0..40).map(|number| format!("server/tool_{}", number * 7919)).collect();
        for width in [1, 20, 40, 80, 10_000] {
            let text = list("allow", &items, OutputStyle::of_width(width));
            let read: DocumentMut = text.parse().expect("TOML");
            let read: Vec<_> = read["allow"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
            assert_eq!(read, items, "{width}");
            assert!(width < 40 || text.lines().all(|line| line.width() <= width), "{text}");
        }
    }
}
