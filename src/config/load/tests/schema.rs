//! The JSON Schema says what the reader does: the same keys, the same defaults, the same ranges.

mod agrees;
mod validator;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value as Json, json};

use self::validator::Validator;
use super::example::{EXAMPLE, known_keys, shown};
use super::*;
use crate::config::SCHEMA;
use crate::config::tree::Value;

fn schema() -> Json {
    serde_json::from_str(SCHEMA).expect("JSON")
}

fn validator() -> Validator {
    Validator::new(schema())
}

/// What stands in for a number that is not whole; none of the format's is.
const HALF: f64 = 0.5;

fn json_of(value: &Value) -> Json {
    match value {
        Value::Table(entries) => {
            entries.iter().map(|entry| (entry.key.clone(), json_of(&entry.node.value))).collect::<Map<_, _>>().into()
        }
        Value::Array(items) => items.iter().map(|item| json_of(&item.value)).collect(),
        Value::String(text) => text.as_str().into(),
        Value::Integer(number) => (*number).into(),
        Value::Float => HALF.into(),
        Value::Bool(truth) => (*truth).into(),
        Value::Other(_) => Json::Null,
    }
}

/// What the schema is asked about a file.
fn instance(text: &str) -> Json {
    json_of(&crate::config::toml::parse(text).root.unwrap_or_else(|| panic!("a syntax error: {text}")).value)
}

/// What `value` is once its references into the schema are followed, its own members first.
fn resolved(schema: &Json, value: &Json) -> Map<String, Json> {
    let mut members = value.as_object().expect("an object").clone();
    while let Some(reference) = members.remove("$ref") {
        let to = reference.as_str().and_then(|text| text.strip_prefix('#')).expect("a reference into the schema");
        for (key, member) in schema.pointer(to).expect(to).as_object().expect("an object") {
            members.entry(key).or_insert_with(|| member.clone());
        }
    }
    members
}

/// The table of the schema that a complaint calls `name`, such as `[servers.a.tools]`.
fn table(schema: &Json, name: &str) -> Map<String, Json> {
    let path: Vec<_> = match name {
        "the file" => Vec::new(),
        _ => name.trim_matches(['[', ']']).split('.').collect(),
    };
    path.iter().fold(resolved(schema, schema), |table, key| {
        let property = table.get("properties").and_then(|properties| properties.get(key));
        resolved(schema, property.unwrap_or_else(|| &table["additionalProperties"]))
    })
}

/// The keys of a table with what the schema says of each.
fn properties(schema: &Json, name: &str) -> Vec<(String, Map<String, Json>)> {
    let table = table(schema, name);
    let properties = table["properties"].as_object().expect("an object");
    properties.iter().map(|(key, property)| (key.clone(), resolved(schema, property))).collect()
}

/// A value as TOML: JSON, but for its objects.
fn toml_of(value: &Json) -> String {
    match value {
        Json::Object(members) => {
            let members: Vec<_> = members.iter().map(|(key, value)| format!("{key:?} = {}", toml_of(value))).collect();
            format!("{{ {} }}", members.join(", "))
        }
        other => other.to_string(),
    }
}

#[test]
fn it_names_its_draft() {
    assert_eq!(schema()["$schema"], "https://json-schema.org/draft/2020-12/schema");
}

#[test]
fn it_has_the_keys_that_the_reader_knows_and_no_others() {
    let schema = schema();
    for (name, known) in known_keys() {
        let in_schema: BTreeSet<_> = properties(&schema, &name).into_iter().map(|(key, _)| key).collect();
        assert_eq!(in_schema, known, "{name}");
        assert_eq!(table(&schema, &name)["additionalProperties"], (name == "`servers`"), "{name}");
        for (key, property) in properties(&schema, &name) {
            assert!(
                property["description"].as_str().is_some_and(|text| text.ends_with(['.', '`', ']'])),
                "{name} {key}"
            );
        }
    }
}

/// The names of all properties below `schema`.
fn names(schema: &Json) -> BTreeSet<&str> {
    let members = schema.as_object().into_iter().flatten();
    let below = members.clone().map(|(_, member)| member).chain(schema.as_array().into_iter().flatten());
    let own = schema.get("properties").and_then(Json::as_object).into_iter().flatten();
    below.flat_map(names).chain(own.map(|(name, _)| name.as_str())).collect()
}

/// A key counts once, in however many tables it is. `daemon` and `defaults` are tables only.
#[test]
fn there_are_at_most_76_keys() {
    let schema = schema();
    let mut keys = names(&schema);
    assert!(keys.remove("daemon") && keys.remove("defaults"));
    assert!(keys.len() <= 76, "{} keys: {keys:?}", keys.len());
}

/// Keys for which leaving them out says what no value does.
const WITHOUT_DEFAULT: &[(&str, &[&str])] = &[
    ("[daemon]", &["call_log", "idle_exit", "otlp_endpoint"]),
    ("[defaults]", &["max_concurrent", "max_message", "memory_max"]),
    ("[profiles.p.prompts]", &["allow"]),
    ("[profiles.p.resources]", &["allow"]),
    ("[profiles.p]", &["allow", "expose", "http", "max_calls", "max_message", "naming", "rate", "servers"]),
    ("[servers.a.oauth]", &["client_id", "client_secret", "grant", "redirect_port", "scopes"]),
    ("[servers.a.prompts]", &["allow"]),
    ("[servers.a.resources]", &["allow"]),
    ("[servers.a.skills]", &["allow"]),
    ("[servers.a.tool.t]", &["description", "name"]),
    (
        "[servers.a]",
        &[
            "allow",
            "ca_file",
            "command",
            "cwd",
            "expose",
            "max_concurrent",
            "max_message",
            "memory_max",
            "oauth",
            "url",
        ],
    ),
];

#[test]
fn its_defaults_are_those_of_the_reader() {
    let schema = schema();
    let mut without = BTreeMap::new();
    for name in known_keys().into_keys() {
        let keys = properties(&schema, &name).into_iter().filter(|(_, property)| !property.contains_key("default"));
        without.insert(name, keys.map(|(key, _)| key).collect::<BTreeSet<_>>());
    }
    without.retain(|_, keys| !keys.is_empty());
    let expected = WITHOUT_DEFAULT
        .iter()
        .map(|(name, keys)| ((*name).to_owned(), keys.iter().map(|key| (*key).to_owned()).collect::<BTreeSet<_>>()));
    assert_eq!(without, expected.collect());
    let defaults = |table: &str| {
        let all = properties(&schema, table).into_iter();
        let all = all.filter_map(|(key, property)| Some(format!("{key} = {}\n", toml_of(property.get("default")?))));
        all.collect::<String>()
    };
    let text = format!("[daemon]\n{}[defaults]\n{}", defaults("[daemon]"), defaults("[defaults]"));
    let loaded = load_text("/c.toml", &format!("{text}{OK}")).unwrap_or_else(|error| panic!("{text}\n{error}"));
    assert_eq!(loaded.config.daemon, DaemonConfig::default());
    let plain = server(OK);
    assert_eq!(loaded.config.servers[0].settings, plain.settings);
    let own = defaults("[servers.a]").replace("headers = {  }\n", "");
    let own = server(&format!("{OK}{own}"));
    assert_eq!(own.settings, plain.settings);
    assert!(own.launch == plain.launch);
    assert_eq!(format!("{:?}", own.policy), format!("{:?}", plain.policy));
    assert_eq!(own.settings.log_arguments, plain.settings.log_arguments);
}

#[test]
fn its_ranges_are_those_of_the_reader() {
    let (schema, validator) = (schema(), validator());
    let holds = |name: &str, key: &str, value: i64| {
        let text = format!("{name}\n{key} = {value}\n");
        let by_reader = load_text("/c.toml", &text).is_ok();
        assert_eq!(validator.is_valid(&instance(&text)), by_reader, "{text}");
        by_reader
    };
    let mut ranges = 0;
    for name in ["[daemon]", "[defaults]", "[profiles.p]"] {
        for (key, property) in properties(&schema, name) {
            let number = property.get("anyOf").map_or(json!(property), |ways| ways[0].clone());
            let (Some(least), Some(most)) = (number["minimum"].as_i64(), number["maximum"].as_i64()) else { continue };
            ranges += 1;
            assert!(holds(name, &key, least) && holds(name, &key, most), "{name} {key}");
            assert!(!holds(name, &key, least - 1) && !holds(name, &key, most + 1), "{name} {key}");
        }
    }
    assert_eq!(ranges, 9);
}

/// What stands in a page between a line "```toml" and the next "```".
fn blocks(page: &str) -> impl Iterator<Item = &str> {
    page.split("\n```toml\n").skip(1).filter_map(|rest| rest.split("\n```").next())
}

#[test]
fn every_example_of_the_documentation_follows_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let pages = std::fs::read_dir(root.join("docs")).expect("a directory").map(|page| page.expect("a page").path());
    let pages = pages.filter(|path| path.is_file());
    let mut texts = vec![EXAMPLE.to_owned(), shown()];
    // Of Cargo, and of Codex.
    let is_another = |text: &str| ["[dependencies]", "[mcp_servers."].iter().any(|table| text.contains(table));
    for page in pages.chain([root.join("README.md")]) {
        let page = std::fs::read_to_string(page).expect("text");
        texts.extend(blocks(&page).filter(|text| !is_another(text)).map(str::to_owned));
    }
    assert!(texts.len() > 3);
    let validator = validator();
    for text in texts {
        // A page about profiles need not configure the servers that they name.
        let servers = ["files", "git"].map(|name| format!("\n[servers.{name}]\ncommand = 'x'\n"));
        let missing = servers.iter().filter(|server| !text.contains(server.trim().split('\n').next().unwrap()));
        let text = text.clone() + &missing.map(String::as_str).collect::<String>();
        load_text("/c.toml", &text).unwrap_or_else(|error| panic!("{text}\n{error}"));
        if let Err(error) = validator.validate(&instance(&text)) {
            panic!("{text}\n{error}");
        }
    }
}
