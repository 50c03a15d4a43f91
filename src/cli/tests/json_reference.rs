//! docs/internals/json.md describes the types that `--json` prints. `UPDATE_JSON_REFERENCE=1 cargo test --lib cli::tests::json_reference::` writes it.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

use crate::admin::report::{LineReport, ReloadReport, Report};
use crate::calls::report::CallReport;
use crate::cli::{
    add, approve, bugreport, changes, check, client_changes, control, doctor, import, lock, login, reject, reload,
    remove, restart, service, setup, tools, top, try_server,
};
use crate::tap::report::TapLine;

const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/internals/json.md");
/// Everything after this line is generated.
const MARKER: &str = "<!-- Generated from the doc comments of the report types. -->\n";

/// Every object that commands print, with the heading of its section.
fn sections() -> [(&'static str, Value); 26] {
    [
        ("mcpd status", schema::<Report>()),
        ("mcpd top", schema::<top::model::TopModel>()),
        ("mcpd tools", schema::<tools::JsonReport<'static>>()),
        ("mcpd tools --budget", schema::<tools::budget::JsonReport>()),
        ("mcpd calls", schema::<CallReport>()),
        ("mcpd logs", schema::<LineReport>()),
        ("mcpd tap", schema::<TapLine<'static>>()),
        ("mcpd restart, enable, disable", schema::<control::JsonReport<'static>>()),
        ("mcpd restart without a server", schema::<restart::JsonReport<'static>>()),
        ("mcpd diff", schema::<changes::JsonReport<'static>>()),
        ("mcpd approve", schema::<approve::JsonReport<'static>>()),
        ("mcpd reject", schema::<reject::JsonReport<'static>>()),
        ("mcpd reload", schema::<ReloadReport>()),
        ("mcpd reload --log-level", schema::<reload::JsonLogFilter>()),
        ("mcpd check", schema::<check::JsonReport<'static>>()),
        ("mcpd add", schema::<add::JsonReport<'static>>()),
        ("mcpd try", schema::<try_server::JsonReport<'static>>()),
        ("mcpd remove", schema::<remove::JsonReport<'static>>()),
        ("mcpd import", schema::<import::JsonReport>()),
        ("mcpd lock", schema::<lock::JsonReport<'static>>()),
        ("mcpd link, unlink", schema::<client_changes::JsonReport<'static>>()),
        ("mcpd setup", schema::<setup::report::JsonReport>()),
        ("mcpd doctor", schema::<doctor::page::JsonReport<'static>>()),
        ("mcpd bugreport", schema::<bugreport::JsonReport<'static>>()),
        ("mcpd login", schema::<login::list::JsonReport>()),
        ("mcpd service status", schema::<service::status::JsonReport>()),
    ]
}

/// The schema of `T` as it is printed.
fn schema<T: JsonSchema>() -> Value {
    SchemaSettings::default().for_serialize().into_generator().into_root_schema_for::<T>().to_value()
}

/// The doc comment of `schema`, for a bullet with `indent`.
fn description(schema: &Value, indent: &str) -> String {
    let text = schema["description"].as_str().unwrap_or_else(|| panic!("no doc comment: {schema}"));
    assert!(!text.contains("[`"), "this is printed outside of rustdoc, and has no links there: {text}");
    text.replace('\n', &format!("\n{indent}")).replace(&format!("\n{indent}\n"), "\n\n")
}

/// Renders one section, and collects the types whose values are words.
struct Section<'a> {
    definitions: &'a Value,
    words: &'a mut BTreeMap<String, Value>,
    text: String,
}

impl Section<'_> {
    /// The name of `schema`'s type for people. An object is appended to `objects` with its path.
    fn type_name(&mut self, schema: &Value, path: &str, objects: &mut Vec<(String, Value)>) -> String {
        if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().expect("a name");
            let definition = &self.definitions[name];
            if definition["type"] == "object" {
                objects.push((path.to_owned(), definition.clone()));
                return "object".to_owned();
            }
            self.words.insert(name.to_owned(), definition.clone());
            return format!("[{name}](#{})", name.to_lowercase());
        }
        // An `Option` is the type or null, which is never printed.
        if let Some(alternatives) = schema["anyOf"].as_array() {
            return self.type_name(&alternatives[0], path, objects);
        }
        let name = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
        match name.unwrap_or_else(|| panic!("{path} has a type that is not described yet: {schema}")) {
            "array" => format!("list of {}", self.type_name(&schema["items"], &format!("{path}[]"), objects)),
            name => name.to_owned(),
        }
    }

    fn members(&mut self, schema: &Value, path: &str) {
        let mut objects = Vec::new();
        let required = schema["required"].as_array().map_or(&[][..], Vec::as_slice);
        for (name, member) in schema["properties"].as_object().expect("an object") {
            let shown = self.type_name(member, &format!("{path}.{name}"), &mut objects);
            let optional = if required.iter().any(|one| one == name) { "" } else { ", optional" };
            let text = description(member, "  ");
            writeln!(self.text, "- `{name}` ({shown}{optional}): {text}").expect("a string");
        }
        for (path, object) in objects {
            write!(self.text, "\n### `{path}`\n\n{}\n\n", description(&object, "")).expect("a string");
            self.members(&object, &path);
        }
    }
}

fn reference() -> String {
    let mut words = BTreeMap::new();
    let mut page = String::new();
    for (heading, schema) in sections() {
        let mut section = Section { definitions: &schema["$defs"], words: &mut words, text: String::new() };
        section.members(&schema, "");
        let about = description(&schema, "");
        write!(page, "\n## {heading}\n\n{about}\n\n- `format` (integer): 1\n{}", section.text).expect("a string");
    }
    page += "\n## Words\n";
    for (name, schema) in words {
        write!(page, "\n### {name}\n\n{}\n\n", description(&schema, "")).expect("a string");
        for word in schema["oneOf"].as_array().expect("words with a doc comment each") {
            writeln!(page, "- `{}`: {}", word["const"].as_str().expect("a word"), description(word, "  "))
                .expect("a string");
        }
    }
    page
}

#[test]
fn reference_describes_every_printed_type() {
    let page = fs::read_to_string(FILE).expect("docs/internals/json.md");
    let (introduction, _) = page.split_once(MARKER).expect("the marker of the generated part");
    let expected = format!("{introduction}{MARKER}{}", reference());
    if std::env::var_os("UPDATE_JSON_REFERENCE").is_some() {
        return fs::write(FILE, expected).expect("docs/internals/json.md is written");
    }
    let missing: Vec<_> = expected.lines().filter(|line| !page.lines().any(|known| known == *line)).collect();
    assert!(
        page == expected,
        "docs/internals/json.md differs from the report types. Missing:\n{}\nRun `UPDATE_JSON_REFERENCE=1 cargo test --lib cli::tests::json_reference::`.",
        missing.join("\n")
    );
}
