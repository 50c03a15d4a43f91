//! The edits of a tool's definition: its description, and arguments that disappear from its input schema.
//!
//! An argument disappears from `properties`, from `required`, and from the keywords about dependencies. Schemas behind `$ref` or within
//! `allOf` and the like stay as they are, since a part of them may be about other values.

use bytes::Bytes;

use super::{ToolOverride, quoted};
use crate::jsonrpc::members::{Parts, members, text};
use crate::jsonrpc::splice::{Change, applied, with_last, without};

/// Keywords that name arguments in lists, or as keys.
const DEPENDENCIES: [&str; 3] = ["dependentRequired", "dependentSchemas", "dependencies"];

impl ToolOverride {
    /// A raw definition as agents see it, but for its name.
    pub(crate) fn definition(&self, definition: &Bytes) -> Bytes {
        let mut changes = Vec::new();
        if let Ok([description, schema]) = members(definition, ["description", "inputSchema"]) {
            changes.extend(self.description.as_ref().map(|text| match description {
                Some(part) => Change { part, replacement: Bytes::copy_from_slice(text.as_bytes()) },
                None => with_last(definition, &format!("{}:{text}", quoted("description"))),
            }));
            changes.extend(schema.iter().flat_map(|schema| without_arguments(schema, &self.unseen())));
        }
        if changes.is_empty() { definition.clone() } else { applied(definition, &changes).into() }
    }

    /// A hidden argument without which the server refuses each call.
    pub(crate) fn missing_argument(&self, definition: &Bytes) -> Option<&str> {
        let [schema] = members(definition, ["inputSchema"]).ok()?;
        let [required] = members(&schema?, ["required"]).ok()?;
        let required: Vec<_> = Parts::of_array(&required?)?.filter_map(|(_, raw)| text(&raw)).collect();
        self.hidden.iter().map(|name| &**name).find(|name| required.iter().any(|other| *other == *name.as_bytes()))
    }
}

/// The changes of a raw schema, so that it does not mention these arguments.
fn without_arguments(schema: &Bytes, names: &[&str]) -> Vec<Change> {
    if names.is_empty() {
        return Vec::new();
    }
    let Ok([properties, required]) = members(schema, ["properties", "required"]) else { return Vec::new() };
    let dependencies = members(schema, DEPENDENCIES).unwrap_or_default();
    let mut changes: Vec<_> = required.and_then(|list| without_names(&list, names)).into_iter().collect();
    for object in dependencies.iter().flatten() {
        let lists = Parts::of_object(object).into_iter().flatten();
        let kept = lists.filter(|(key, _)| !is_one_of(key, names));
        changes.extend(kept.filter_map(|(_, list)| without_names(&list, names)));
    }
    let objects = properties.iter().chain(dependencies.iter().flatten());
    changes.extend(objects.flat_map(|object| without(object, names).unwrap_or_default()));
    changes
}

/// The change of a raw list of names, if it has any of `names`.
fn without_names(list: &Bytes, names: &[&str]) -> Option<Change> {
    let items: Vec<_> = Parts::of_array(list)?.map(|(_, raw)| raw).collect();
    let kept: Vec<_> = items.iter().filter(|raw| !is_one_of(raw, names)).map(|raw| &raw[..]).collect();
    let replacement = || [b"[", &kept.join(&b","[..])[..], b"]"].concat().into();
    (kept.len() < items.len()).then(|| Change { part: list.clone(), replacement: replacement() })
}

fn is_one_of(raw: &Bytes, names: &[&str]) -> bool {
    text(raw).is_some_and(|text| names.iter().any(|name| name.as_bytes() == text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn definition(of_tool: &ToolOverride, definition: &str) -> String {
        let seen = of_tool.definition(&Bytes::copy_from_slice(definition.as_bytes()));
        String::from_utf8(seen.into()).expect("text")
    }

    #[test]
    fn description_is_replaced_or_added() {
        let of_tool = ToolOverride::default().with_description("Finds \"x\"");
        for (before, after) in [
            (
                r#"{"name":"a", "description" : "old","z":1.0}"#,
                r#"{"name":"a", "description" : "Finds \"x\"","z":1.0}"#,
            ),
            (r#"{"description":null,"name":"a"}"#, r#"{"description":"Finds \"x\"","name":"a"}"#),
            (r#"{"name":"a","title":"T" }"#, r#"{"name":"a","title":"T" ,"description":"Finds \"x\""}"#),
            (
                r#"{"name":"a","description":"b","description":"c"}"#,
                r#"{"name":"a","description":"b","description":"c"}"#,
            ),
        ] {
            assert_eq!(definition(&of_tool, before), after);
        }
    }

    #[test]
    fn arguments_disappear_from_the_schema() {
        let of_tool = ToolOverride::default().with_fixed("repo", "1").with_hidden("debug");
        for (before, after) in [
            (r#"{"properties":{"repo":{},"q":{ },"debug":{}}}"#, r#"{"properties":{"q":{ }}}"#),
            (r#"{"properties":{"rep\u006f":{}, "q":{}}}"#, r#"{"properties":{ "q":{}}}"#),
            (r#"{"properties":{"repo":{}},"required":["repo"]}"#, r#"{"properties":{},"required":[]}"#),
            (r#"{"required":["q", "repo","debug"],"x":1.0}"#, r#"{"required":["q"],"x":1.0}"#),
            (r#"{"required":["q"] }"#, r#"{"required":["q"] }"#),
            (
                r#"{"dependentRequired":{"repo":["q"],"q":["debug","r"],"r":["q"]}}"#,
                r#"{"dependentRequired":{"q":["r"],"r":["q"]}}"#,
            ),
            (r#"{"dependencies":{"q":["repo"],"debug":{}}}"#, r#"{"dependencies":{"q":[]}}"#),
            (r#"{"allOf":[{"required":["repo"]}],"$ref":"x"}"#, r#"{"allOf":[{"required":["repo"]}],"$ref":"x"}"#),
            (r#"{"properties":7,"required":"repo"}"#, r#"{"properties":7,"required":"repo"}"#),
            ("7", "7"),
        ] {
            let tool = |schema| format!(r#"{{"name":"a","inputSchema":{schema},"b":[]}}"#);
            assert_eq!(definition(&of_tool, &tool(before)), tool(after));
        }
    }

    #[test]
    fn hidden_argument_that_is_required_is_found() {
        let of_tool = ToolOverride::default().with_fixed("repo", "1").with_hidden("debug");
        for (schema, expected) in [
            (r#"{"required":["repo","q"]}"#, None),
            (r#"{"required":["repo","d\u0065bug"]}"#, Some("debug")),
            (r#"{"required":7}"#, None),
            ("7", None),
        ] {
            let tool = Bytes::from(format!(r#"{{"inputSchema":{schema}}}"#));
            assert_eq!(of_tool.missing_argument(&tool), expected, "{schema}");
        }
    }

    proptest! {
        #[test]
        fn all_but_the_arguments_stays(
            properties in prop::collection::btree_map("[a-d]", 0..9i32, 0..4),
            required in prop::collection::vec("[a-d]", 0..4),
            unseen in prop::collection::btree_set("[a-d]", 0..3),
        ) {
            let of_tool = unseen.iter().fold(ToolOverride::default(), |of_tool, name| of_tool.with_hidden(name));
            let tool = |properties: &Value, required: &Value| {
                json!({"name": "t", "inputSchema": {"type": "object", "properties": properties, "required": required}})
            };
            let seen = definition(&of_tool, &tool(&json!(properties), &json!(required)).to_string());
            let properties: std::collections::BTreeMap<_, _> =
                properties.into_iter().filter(|(name, _)| !unseen.contains(name)).collect();
            let required: Vec<_> = required.into_iter().filter(|name| !unseen.contains(name)).collect();
            let seen: Value = serde_json::from_str(&seen).expect("JSON");
            prop_assert_eq!(seen, tool(&json!(properties), &json!(required)));
        }
    }
}
