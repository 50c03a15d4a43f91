//! What a tool takes, by its input schema: the part of JSON Schema that tools use for their arguments.
//!
//! Pure. What is not understood here is anything, and the server looks itself.

use serde_json::{Map, Value};

/// Steps from one `$ref` to the next at most.
const MOST_STEPS: usize = 8;

/// The arguments of a tool.
#[derive(Debug, Default)]
pub(super) struct Schema {
    /// In the order of their names, those that are needed first.
    pub(super) arguments: Vec<Argument>,
    /// What it says of others.
    pub(super) others: Others,
}

/// What is said of arguments that are not listed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Others {
    /// They are welcome.
    #[default]
    Welcome,
    /// Nothing is said of them.
    Unmentioned,
    /// There are none.
    Refused,
}

/// One argument.
#[derive(Debug)]
pub(super) struct Argument {
    pub(super) name: String,
    pub(super) kinds: Vec<Kind>,
    /// What its items may be, if it is an array.
    pub(super) items: Vec<Kind>,
    pub(super) is_required: bool,
    /// The only values, if they are few.
    pub(super) choices: Vec<Value>,
    pub(super) default: Option<Value>,
    pub(super) description: String,
}

/// A type of JSON.
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

    /// As schemas call it.
    pub(super) fn word(self) -> &'static str {
        Self::ALL.into_iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

impl Schema {
    /// By what `tools/list` says of a tool (MCP 2025-11-25, `server/tools`, "Tool": `inputSchema`).
    pub(super) fn of(schema: &Value) -> Self {
        let properties = schema["properties"].as_object();
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let argument = |(name, said): (&String, &Value)| Argument::of(name, said, schema, required.contains(&&**name));
        let mut arguments: Vec<_> = properties.into_iter().flatten().map(argument).collect();
        arguments.sort_by_key(|one| !one.is_required);
        let others = match &schema["additionalProperties"] {
            Value::Bool(false) => Others::Refused,
            Value::Bool(true) | Value::Object(_) => Others::Welcome,
            _ if properties.is_none_or(Map::is_empty) => Others::Welcome,
            _ => Others::Unmentioned,
        };
        Self { arguments, others }
    }

    /// The argument of this name.
    pub(super) fn argument(&self, name: &str) -> Option<&Argument> {
        self.arguments.iter().find(|one| one.name == name)
    }
}

impl Argument {
    fn of(name: &str, said: &Value, root: &Value, is_required: bool) -> Self {
        let whole = resolved(said, root);
        // What stands beside a reference goes before what it leads to.
        let member = |key: &str| said.get(key).or_else(|| whole.get(key));
        let mut kinds = Vec::new();
        collect(whole, root, &mut kinds, MOST_STEPS);
        let mut items = Vec::new();
        let list =
            alternatives(whole).iter().map(|one| resolved(one, root)).chain([whole]).find_map(|one| one.get("items"));
        list.inspect(|list| collect(resolved(list, root), root, &mut items, MOST_STEPS));
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

    /// What it may be, in words.
    pub(super) fn type_words(&self) -> String {
        let words = |kinds: &[Kind]| kinds.iter().map(|kind| kind.word()).collect::<Vec<_>>().join("|");
        match (&*self.kinds, &*self.items) {
            ([], _) => "any".to_owned(),
            (kinds, []) => words(kinds),
            (kinds, items) => words(kinds).replace("array", &format!("array of {}", words(items))),
        }
    }
}

/// `schema`, or what its `$ref` leads to within `root`.
fn resolved<'a>(mut schema: &'a Value, root: &'a Value) -> &'a Value {
    for _ in 0..MOST_STEPS {
        let Some(path) = schema["$ref"].as_str().and_then(|path| path.strip_prefix('#')) else { break };
        let Some(next) = root.pointer(path) else { break };
        schema = next;
    }
    schema
}

fn alternatives(schema: &Value) -> &[Value] {
    ["anyOf", "oneOf"].into_iter().find_map(|key| schema[key].as_array()).map_or(&[], Vec::as_slice)
}

fn collect(schema: &Value, root: &Value, kinds: &mut Vec<Kind>, steps: usize) {
    let named = match &schema["type"] {
        Value::Array(all) => all.iter().filter_map(Value::as_str).collect(),
        Value::String(one) => vec![one.as_str()],
        _ => schema["enum"].as_array().into_iter().flatten().map(word_of).collect(),
    };
    for (_, kind) in named.iter().filter_map(|word| Kind::ALL.into_iter().find(|(known, _)| known == word)) {
        if !kinds.contains(&kind) {
            kinds.push(kind);
        }
    }
    if steps > 0 {
        alternatives(schema).iter().for_each(|one| collect(resolved(one, root), root, kinds, steps - 1));
    }
}

/// The type that a value has, as schemas call it.
fn word_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// The only values, unless one of several alternatives has others.
fn choices(schema: &Value, root: &Value) -> Vec<Value> {
    let of = |schema: &Value| match (schema["enum"].as_array(), schema.get("const")) {
        (Some(all), _) => Some(all.clone()),
        (None, Some(one)) => Some(vec![one.clone()]),
        (None, None) if schema["type"] == "null" => Some(vec![Value::Null]),
        (None, None) => None,
    };
    let each = alternatives(schema).iter().map(|one| of(resolved(one, root)));
    of(schema).unwrap_or_else(|| each.collect::<Option<Vec<_>>>().unwrap_or_default().concat())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn one(said: &Value) -> Argument {
        let schema = json!({
            "properties": { "x": said },
            "$defs": { "Level": { "enum": ["low", "high"], "type": "string", "description": "how much" } },
        });
        Schema::of(&schema).arguments.remove(0)
    }

    #[test]
    fn types_are_found_wherever_schemas_have_them() {
        for (said, expected) in [
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
            assert_eq!(one(&said).type_words(), expected, "{said}");
        }
    }

    #[test]
    fn choices_are_told_only_if_there_are_no_others() {
        for (said, expected) in [
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
            assert_eq!(one(&said).choices, expected, "{said}");
        }
        assert_eq!(one(&json!({ "$ref": "#/$defs/Level" })).description, "how much");
        assert_eq!(one(&json!({ "$ref": "#/$defs/Level", "description": "other" })).description, "other");
    }

    #[test]
    fn what_is_needed_comes_first_and_others_are_as_the_schema_has_it() {
        let properties = json!({ "a": {}, "b": {}, "c": {} });
        let schema = Schema::of(&json!({ "properties": properties, "required": ["c", 7] }));
        assert_eq!(schema.arguments.iter().map(|one| &*one.name).collect::<Vec<_>>(), ["c", "a", "b"]);
        for (said, others) in [
            (json!({ "properties": properties }), Others::Unmentioned),
            (json!({ "properties": properties, "additionalProperties": false }), Others::Refused),
            (json!({ "properties": properties, "additionalProperties": { "type": "string" } }), Others::Welcome),
            (json!({ "type": "object" }), Others::Welcome),
            (json!({ "additionalProperties": false }), Others::Refused),
            (Value::Null, Others::Welcome),
        ] {
            assert_eq!(Schema::of(&said).others, others, "{said}");
        }
    }
}
