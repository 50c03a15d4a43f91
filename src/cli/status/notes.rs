//! What a person should know of a server that is well: what of it agents do not see, and why.

use crate::admin::report::ServerReport;
use crate::cli::text::one_line;
use crate::policy::LONGEST_NAME;

/// Tools that are named; `--json` has them all.
const TOOLS: usize = 10;

/// A sentence for each thing, below the table. What policy hides is in the table.
pub(super) fn notes(server: &ServerReport) -> String {
    let mut text = String::new();
    if let Some(reason) = &server.change_failed {
        text += &format!("\n{}: goes on as it was before it was changed, for that failed: {reason}\n", server.name);
    }
    if !server.tools_off.is_empty() {
        let tools: Vec<_> = server.tools_off.iter().take(TOOLS).map(|tool| one_line(tool)).collect();
        let more = if server.tools_off.len() > TOOLS { ", …" } else { "" };
        text += &format!("\n{}: switched off: {}{more}\n", server.name, tools.join(", "));
    }
    if let count @ 1.. = server.names_unfit {
        let what = if count == 1 { "1 tool or prompt is" } else { &format!("{count} tools and prompts are") };
        text += &format!(
            "\n{}: {what} not listed: the name has control characters or marks of direction, or more than {LONGEST_NAME} \
             characters\n",
            server.name
        );
    }
    if let count @ 1.. = server.resources_shadowed {
        let what = if count == 1 { "1 resource is" } else { &format!("{count} resources are") };
        text +=
            &format!("\n{}: {what} read from a server before it, which has the same URI or template\n", server.name);
    }
    text
}
