//! `MCPD_…` environment variables: keys of `[daemon]`, as the top layers.

use std::collections::HashMap;
use std::sync::Arc;

use ::config::{Environment, Source, ValueKind};

use super::super::diagnostic::{Medium, SourceFile};
use super::super::interpolate::Sources;
use super::super::layer::Layer;
use super::super::read::{Problems, read_variable};
use super::super::tree::Value;

const PREFIX: &str = "MCPD";

/// Reads each variable as a layer. Ignores empty variables.
pub(super) fn variables(sources: &dyn Sources) -> Vec<(Arc<SourceFile>, Layer, Problems)> {
    let mut found = Vec::new();
    let mut all = sources.variables(&format!("{PREFIX}_"));
    all.sort_unstable();
    for (name, text) in all {
        let Some((key, value)) = parse(&name, &text) else { continue };
        let file = Arc::new(SourceFile {
            path: name.into(),
            text,
            medium: Medium::Variable,
            hidden: Vec::new(),
            broken: false,
        });
        let (daemon, problems) = read_variable(&key, value, &file, sources);
        found.push((file, Layer { daemon, ..Layer::default() }, problems));
    }
    found
}

/// The key of a variable, and its value with the type that its text looks like.
fn parse(name: &str, text: &str) -> Option<(String, Value)> {
    let alone = HashMap::from([(name.to_owned(), text.to_owned())]);
    let environment = Environment::with_prefix(PREFIX).prefix_separator("_").ignore_empty(true).try_parsing(true);
    let (key, value) = environment.source(Some(alone)).collect().ok()?.into_iter().next()?;
    let value = match value.kind {
        ValueKind::Boolean(truth) => Value::Bool(truth),
        ValueKind::I64(number) => Value::Integer(number),
        ValueKind::Float(_) => Value::Float,
        _ => Value::String(text.to_owned()),
    };
    Some((key, value))
}
