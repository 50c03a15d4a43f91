//! What a person should know of a server that is well: what of it agents do not see, and why.

use crate::admin::report::ServerReport;
use crate::policy::LONGEST_NAME;

/// A sentence for each thing, below the table. What policy hides is in the table.
pub(super) fn notes(server: &ServerReport) -> String {
    let mut text = String::new();
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
