//! The keywords of JSON Schema 2020-12 that the configuration's schema uses. A keyword that is missing here fails the test.
//!
//! A complete validator would bring forty crates, with features for which most of mcpd's crates are compiled again. The interop
//! checks compare the schema with that of the draft.

use regex_lite::Regex;
use serde_json::{Map, Value as Json};

/// A schema whose references point into itself.
pub(super) struct Validator(Json);

impl Validator {
    pub(super) fn new(schema: Json) -> Self {
        Self(schema)
    }

    pub(super) fn is_valid(&self, instance: &Json) -> bool {
        self.validate(instance).is_ok()
    }

    /// # Errors
    /// The place of the first value that does not follow the schema, and the keyword that refuses it.
    pub(super) fn validate(&self, instance: &Json) -> Result<(), String> {
        self.check(&self.0, instance, "")
    }

    fn check(&self, schema: &Json, instance: &Json, at: &str) -> Result<(), String> {
        let keywords = match schema {
            Json::Bool(true) => return Ok(()),
            Json::Bool(false) => return Err(format!("{at}: false")),
            _ => schema.as_object().expect("a schema"),
        };
        for (keyword, value) in keywords {
            let follows = match instance {
                Json::Object(members) if is_of_objects(keyword) => {
                    self.check_members(keywords, keyword, value, members, at)?;
                    true
                }
                Json::Array(items) if keyword == "items" => {
                    for (index, item) in items.iter().enumerate() {
                        self.check(value, item, &format!("{at}/{index}"))?;
                    }
                    true
                }
                _ => self.follows(keywords, keyword, value, instance, at),
            };
            if !follows {
                return Err(format!("{at}: {keyword} {value}"));
            }
        }
        Ok(())
    }

    /// The keywords that look at a value as a whole.
    fn follows(&self, keywords: &Map<String, Json>, keyword: &str, value: &Json, instance: &Json, at: &str) -> bool {
        let is_valid = |schema: &Json| self.check(schema, instance, at).is_ok();
        let valid_ones = || value.as_array().expect("schemas").iter().filter(|schema| is_valid(schema)).count();
        match keyword {
            "$ref" => {
                let to = value.as_str().and_then(|text| text.strip_prefix('#')).expect("a reference into the schema");
                is_valid(self.0.pointer(to).expect(to))
            }
            "type" => match value {
                Json::Array(types) => types.iter().any(|one| is_of_type(one, instance)),
                one => is_of_type(one, instance),
            },
            "const" => instance == value,
            "enum" => value.as_array().expect("values").contains(instance),
            "anyOf" => valid_ones() > 0,
            "oneOf" => valid_ones() == 1,
            "not" => !is_valid(value),
            "if" => !is_valid(value) || is_valid(&keywords["then"]),
            "minimum" => instance.as_f64().is_none_or(|number| number >= value.as_f64().expect("a number")),
            "maximum" => instance.as_f64().is_none_or(|number| number <= value.as_f64().expect("a number")),
            "minLength" => {
                let length = instance.as_str().map(|text| text.chars().count() as u64);
                length.is_none_or(|length| length >= value.as_u64().expect("a length"))
            }
            "pattern" => {
                let pattern = Regex::new(value.as_str().expect("a pattern")).expect("a pattern");
                instance.as_str().is_none_or(|text| pattern.is_match(text))
            }
            "then" | "items" | "$schema" | "$defs" | "title" | "description" | "default" => true,
            other if is_of_objects(other) => true,
            other => panic!("the validator of this test does not know {other}"),
        }
    }

    fn check_members(
        &self,
        keywords: &Map<String, Json>,
        keyword: &str,
        value: &Json,
        members: &Map<String, Json>,
        at: &str,
    ) -> Result<(), String> {
        let refuse_unless = |holds: bool| if holds { Ok(()) } else { Err(format!("{at}: {keyword} {value}")) };
        let has_all = |names: &Json| {
            let mut names = names.as_array().expect("names").iter();
            names.all(|name| members.contains_key(name.as_str().expect("a name")))
        };
        match keyword {
            "properties" => {
                let properties = value.as_object().expect("schemas");
                let known = members.iter().filter_map(|(name, member)| Some((name, member, properties.get(name)?)));
                for (name, member, schema) in known {
                    self.check(schema, member, &format!("{at}/{name}"))?;
                }
                Ok(())
            }
            "additionalProperties" => {
                let properties = keywords.get("properties").and_then(Json::as_object);
                let is_known = |name: &str| properties.is_some_and(|properties| properties.contains_key(name));
                for (name, member) in members.iter().filter(|(name, _)| !is_known(name)) {
                    self.check(value, member, &format!("{at}/{name}"))?;
                }
                Ok(())
            }
            "propertyNames" => members
                .keys()
                .try_for_each(|name| self.check(value, &Json::from(name.as_str()), &format!("{at}/{name}"))),
            "required" => refuse_unless(has_all(value)),
            "dependentRequired" => {
                let mut dependents = value.as_object().expect("names").iter();
                refuse_unless(dependents.all(|(name, names)| !members.contains_key(name) || has_all(names)))
            }
            _ => refuse_unless(members.len() as u64 <= value.as_u64().expect("a number")),
        }
    }
}

fn is_of_objects(keyword: &str) -> bool {
    matches!(
        keyword,
        "properties" | "additionalProperties" | "propertyNames" | "required" | "dependentRequired" | "maxProperties"
    )
}

fn is_of_type(name: &Json, instance: &Json) -> bool {
    match name.as_str().expect("the name of a type") {
        "object" => instance.is_object(),
        "array" => instance.is_array(),
        "string" => instance.is_string(),
        "boolean" => instance.is_boolean(),
        "integer" => instance.is_i64() || instance.is_u64(),
        other => panic!("the validator of this test does not know the type {other}"),
    }
}
