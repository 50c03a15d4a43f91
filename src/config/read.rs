//! Reads the tree of one file into a layer. Collects every error of the file.
//!
//! - `reader` takes tables apart, `values` reads single values.
//! - `native` and `clients` read the two formats.
//! - `launch` reads commands, `remote` URLs, `policy` the rules, `profiles` the profiles.

mod clients;
mod launch;
mod native;
mod policy;
mod profiles;
mod reader;
mod remote;
mod sandbox;
mod tool_overrides;
mod values;

use std::sync::Arc;

pub(crate) use self::clients::Pointer;
pub(super) use self::clients::{TranslatedServer, has_servers, is_codex, pointers, translated};
pub(super) use self::policy::EXPOSED;
use self::reader::{Fields, Reader};
pub(super) use self::reader::{Format, Problems, suggestion};
pub(crate) use self::values::fitted_name;
use super::diagnostic::SourceFile;
use super::interpolate::Sources;
use super::layer::Layer;
use super::tree::{Entry, Node};

/// Reads the tree of one file.
pub(super) fn read(root: &Node, format: Format, file: &Arc<SourceFile>, sources: &dyn Sources) -> (Layer, Problems) {
    let mut reader = Reader::new(format, file, sources);
    let layer = match format {
        Format::Foreign(_) => reader.clients_file(root),
        Format::Native | Format::Variable => reader.native_file(root),
    };
    (layer, reader.problems)
}

/// The lists that a variable can set, with their tables.
pub(super) const LISTS: [&str; 2] = ["defaults.pass_env", "defaults.deny"];

/// Reads an `MCPD_…` variable that may set a key of `[daemon]`, or with `defaults.` before it, of `[defaults]`.
pub(super) fn read_variable(
    key: String,
    node: Node,
    file: &Arc<SourceFile>,
    sources: &dyn Sources,
) -> (Layer, Problems) {
    let mut reader = Reader::new(Format::Variable, file, sources);
    let (table, key) = match key.strip_prefix("defaults.") {
        Some(key) => ("DEFAULTS__", key.to_owned()),
        None => ("", key),
    };
    let entries = [Entry { key, key_span: 0..0, node }];
    let mut fields = Fields::new(table, &entries);
    let mut layer = Layer::default();
    match table {
        "" => layer.daemon = reader.daemon_keys(&mut fields),
        _ => layer.defaults = reader.defaults_keys(&mut fields),
    }
    reader.finish_variable(fields);
    (layer, reader.problems)
}
