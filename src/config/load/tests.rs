//! The whole way, from text to configuration or complaints, as tables.

mod broken;
mod clients;
mod dialects;
mod example;
mod files;
mod generated;
mod layers;
mod masking;
mod narrows;
mod native;
mod printing;
mod profiles;
mod refusals;
mod remotes;
mod sandbox;
mod schema;
mod shows;
mod syntax;
mod tools;
mod variables;

use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;

use super::super::diagnostic::Diagnostic;
use super::super::interpolate::Process;
use super::super::interpolate::tests::table::Table;
use super::super::{CommandOutputs, DaemonConfig, Launch, Limit, Program, ServerConfig};
use super::*;

fn load_text(path: &str, text: &str) -> Result<LoadedConfig, ConfigError> {
    let sources =
        Table::from([("~", "/home/u"), ("HOME", "/home/u"), ("NAME", "value"), ("TOKEN", "hunter2"), (path, text)]);
    load(&[PathBuf::from(path)], &sources)
}

fn describe(diagnostic: &Diagnostic) -> String {
    let (line, column) = diagnostic.place();
    let help = diagnostic.help.as_deref().unwrap_or_default();
    format!("{line}:{column} {} | {help}", diagnostic.message)
}

/// Every error in order: place and message, with ` | ` and its help appended; `…` stands for any text.
fn check_file(path: &str, text: &str, expected: &[&str]) {
    let found: Vec<_> = match load_text(path, text) {
        Ok(_) => Vec::new(),
        Err(error) => error.diagnostics().iter().map(describe).collect(),
    };
    assert_eq!(found.len(), expected.len(), "{text:.200}\n{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        let mut rest = found.as_str();
        for part in expected.split('…') {
            let at = rest.find(part).unwrap_or_else(|| panic!("{text:.200}\nexpected {expected}\nfound    {found}"));
            rest = &rest[at + part.len()..];
        }
        assert!(found.starts_with(expected.split('…').next().unwrap()), "expected {expected}\nfound    {found}");
    }
}

fn check(text: &str, expected: &[&str]) {
    check_file("/c.toml", text, expected);
}

fn check_json(text: &str, expected: &[&str]) {
    check_file("/c.json", text, expected);
}

fn check_warnings(text: &str, expected: &[&str]) {
    let loaded = load_text("/c.json", text).unwrap_or_else(|error| panic!("{error}"));
    let found: Vec<_> = loaded.warnings.iter().map(describe).collect();
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, expected) in found.iter().zip(expected) {
        assert!(found.starts_with(expected), "expected {expected}\nfound    {found}");
    }
}

fn server(text: &str) -> ServerConfig {
    let path = if text.starts_with('{') { "/c.json" } else { "/c.toml" };
    let loaded = load_text(path, text).unwrap_or_else(|error| panic!("{error}"));
    loaded.config.servers.into_iter().next().expect("a server")
}

fn program(config: &ServerConfig) -> &Program {
    config.launch.as_ref().ok().and_then(Launch::program).expect("a program that is defined")
}

const OK: &str = "[servers.a]\ncommand = 'x'\n";
