//! `mcpd skill`: a SKILL.md with which an agent that has a shell finds and calls tools, with no tool in its context.

use std::io::{IsTerminal, stdout};

use super::{CommandResult, print};

const SKILL: &str = include_str!("skill/SKILL.md");

pub(super) fn run() -> CommandResult {
    let code = print(SKILL);
    if stdout().is_terminal() {
        print_note!(
            "mcpd: save it as ~/.claude/skills/mcpd/SKILL.md for Claude Code, and as ~/.agents/skills/mcpd/SKILL.md for other agents"
        );
    }
    Ok(code)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::tokens_of;

    #[test]
    fn skill_costs_at_most_300_tokens() {
        let tokens = tokens_of(0, SKILL.len());
        assert!(tokens <= 300, "{tokens}");
    }
}
