//! The arguments of a tool, from its input schema. Covers the part of JSON Schema that tools use.
//!
//! Pure. Unknown constructs accept any value; the server validates them.

use serde_json::{Map, Value};

/// Maximum length of a chain of `$ref`.
const MAX_REFS: usize = 8;

/// The arguments of a tool.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// Required ones first, each part sorted by name.
    pub(super) arguments: Vec<Argument>,
    pub(super) other_arguments: OtherArguments,
}

/// Arguments that the schema does not list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum OtherArguments {
    #[default]
    Allowed,
    /// The schema does not mention them.
    Unspecified,
    Forbidden,
}

#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kinds: Vec<Kind>,
    /// The types of the items of an array.
    pub(super) items: Vec<Kind>,
    pub(super) is_required: bool,
    /// The allowed values; empty if any value of the types is allowed.
    pub(super) choices: Vec<Value>,
    pub(super) default: Option<Value>,
    pub(super) description: String,
}

/// A JSON type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Text,
    Number,
    Integer,
    Boolean,
    Array,
    Object,
    Null,
}

impl Kind {
    const ALL: [(&'static str, Self); 7] = [
        ("string", Self::Text),
        ("number", Self::Number),
        ("integer", Self::Integer),
        ("boolean", Self::Boolean),
        ("array", Self::Array),
        ("object", Self::Object),
        ("null", Self::Null),
    ];

    /// The name in a schema.
    fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

impl Schema {
    /// Reads `inputSchema` (MCP 2025-11-25, `server/tools`, "Tool").
    pub(super) fn parse(schema: &Value) -> Self {
        let properties = schema["properties"].as_object();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let argument =
            |(name, property): (&String, &Value)| Argument::parse(name, property, schema, required.contains(&&**name));
        let mut arguments: Vec<_> = properties.into_iter().flatten().map(argument).collect();
        arguments.sort_by_key(|one| !one.is_required);
        let other_arguments = match &schema["additionalProperties"] {
            Value::Bool(false) => OtherArguments::Forbidden,
            Value::Bool(true) | Value::Object(_) => OtherArguments::Allowed,
            _ if properties.is_none_or(Map::is_empty) => OtherArguments::Allowed,
            _ => OtherArguments::Unspecified,
        };
        Self { arguments, other_arguments }
    }

    pub(super) fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|one| one.name == name)
    }
}

impl Argument {
    fn parse(name: &str, property: &Value, root: &Value, is_required: bool) -> Self {
        let whole = resolve(property, root);
        // A member beside `$ref` overrides that of the referenced schema.
        let member = |key: &str| property.get(key).or_else(|| whole.get(key));
        let mut kinds = Vec::new();
        collect_kinds(whole, root, &mut kinds, MAX_REFS);
        let mut items = Vec::new();
        let list =
            alternatives(whole).iter().map(|one| resolve(one, root)).chain([whole]).find_map(|one| one.get("items"));
        list.inspect(|list| collect_kinds(resolve(list, root), root, &mut items, MAX_REFS));
        Self {
            name: name.to_owned(),
            kinds,
            items,
            is_required,
            choices: choices(whole, root),
            default: member("default").cloned(),
            description: member("description").and_then(Value::as_str).unwrap_or_default().to_owned(),
        }
    }

    /// Its types, such as `array of string|null`.
    pub(super) fn type_words(&self) -> String {
        let words = |kinds: &[Kind]| kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join("|");
        match (&*self.kinds, &*self.items) {
            ([], _) => "any".to_owned(),
            (kinds, []) => words(kinds),
            (kinds, items) => words(kinds).replace("array", &format!("array of {}", words(items))),
        }
    }
}

/// Follows `$ref` within `root`.
fn resolve<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MAX_REFS {
        let Some(path) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) else { break };
        let Some(next) = root.pointer(path) else { break };
        schema = next;
    }
    schema
}

fn alternatives(schema: &Value) -> &[Value] {
    ["anyOf", "oneOf"].into_iter().find_map(|key| schema[key].as_array()).map_or(&[], Vec::as_slice)
}

fn collect_kinds(schema: &Value, root: &Value, kinds: &mut Vec<Kind>, steps: usize) {
    let named = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one.as_str()],
        _ => schema["enum"].as_array().into_iter().flatten().map(type_name).collect(),
    };
    for (_, kind) in named.iter().filter_map(|word| Kind::ALL.into_iter().find(|(known, _)| known == word)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if steps > 0 {
        alternatives(schema).iter().for_each(|one| collect_kinds(resolve(one, root), root, kinds, steps - 1));
    }
}

/// The type of a value, as named in schemas.
fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The allowed values; empty if an alternative allows others.
fn choices(schema: &Value, root: &Value) -> Vec<Value> {
    let of = |schema: &Value| match (schema["enum"].as_array(), schema.get("const")) {
        (Some(all), _) => Some(all.clone()),
        (None, Some(one)) => Some(vec![one.clone()]),
        (None, None) if schema["type"] == "null" => Some(vec![Value::Null]),
        (None, None) => None,
    };
    let each = alternatives(schema).iter().map(|one| of(resolve(one, root)));
    of(schema).unwrap_or_else(|| each.collect::<Option<Vec<_>>>().unwrap_or_default().concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn argument(property: &Value) -> Argument {
        let schema = json!({
            "properties": { "x": property },
            "$defs": { "Level": { "enum": ["low", "high"], "type": "string", "description": "how much" } },
        });
        Schema::parse(&schema).arguments.remove(0)
    }

    #[test]
    fn types_are_read_from_every_schema_construct() {
        for (schema, expected) in [
            (json!({ "type": "string" }), "string"),
            (json!({ "type": ["integer", "null"] }), "integer|null"),
            (json!({ "anyOf": [{ "type": "boolean" }, { "type": "null" }] }), "boolean|null"),
            (json!({ "type": "array", "items": { "type": "number" } }), "array of number"),
            (
                json!({ "anyOf": [{ "type": "array", "items": { "type": "string" } }, { "type": "null" }] }),
                "array of string|null",
            ),
            (json!({ "$ref": "#/$defs/Level" }), "string"),
            (json!({ "type": "array", "items": { "$ref": "#/$defs/Level" } }), "array of string"),
            (json!({ "enum": ["a", null] }), "string|null"),
            (json!({ "$ref": "#/$defs/Missing" }), "any"),
            (json!({ "$ref": "https://example.org" }), "any"),
            (json!(true), "any"),
            (json!({}), "any"),
        ] {
            assert_eq!(argument(&schema).type_words(), expected, "{schema}");
        }
    }

    #[test]
    fn choices_are_listed_only_if_no_other_value_is_allowed() {
        for (schema, expected) in [
            (json!({ "enum": ["a", 1] }), vec![json!("a"), json!(1)]),
            (json!({ "const": true }), vec![json!(true)]),
            (json!({ "$ref": "#/$defs/Level" }), vec![json!("low"), json!("high")]),
            (
                json!({ "anyOf": [{ "$ref": "#/$defs/Level" }, { "type": "null" }] }),
                vec![json!("low"), json!("high"), Value::Null],
            ),
            (json!({ "anyOf": [{ "const": "a" }, { "type": "string" }] }), vec![]),
            (json!({ "type": "string" }), vec![]),
        ] {
            assert_eq!(argument(&schema).choices, expected, "{schema}");
        }
        assert_eq!(argument(&json!({ "$ref": "#/$defs/Level" })).description, "how much");
        assert_eq!(argument(&json!({ "$ref": "#/$defs/Level", "description": "other" })).description, "other");
    }

    #[test]
    fn required_arguments_come_first_and_other_arguments_follow_the_schema() {
        let properties = json!({ "a": {}, "b": {}, "c": {} });
        let parsed = Schema::parse(&json!({ "properties": properties, "required": ["c", 7] }));
        assert_eq!(parsed.arguments.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["c", "a", "b"]);
        for (schema, expected) in [
            (json!({ "properties": properties }), OtherArguments::Unspecified),
            (json!({ "properties": properties, "additionalProperties": false }), OtherArguments::Forbidden),
            (
                json!({ "properties": properties, "additionalProperties": { "type": "string" } }),
                OtherArguments::Allowed,
            ),
            (json!({ "type": "object" }), OtherArguments::Allowed),
            (json!({ "additionalProperties": false }), OtherArguments::Forbidden),
            (Value::Null, OtherArguments::Allowed),
        ] {
            assert_eq!(Schema::parse(&schema).other_arguments, expected, "{schema}");
        }
    }
}
