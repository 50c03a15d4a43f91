//! Checks of what all commands print.

mod command_lines;
mod json_reference;
