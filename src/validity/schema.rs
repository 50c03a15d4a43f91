//! JSON Schemas of tools. The TypeScript SDK compiles each `outputSchema` with Ajv when it lists tools, and one that does not compile
//! costs it the list.

use bytes::Bytes;

use super::pattern::is_ecmascript;
use super::rules::{Elements, Type};
use super::walk::{Fit, Judge, Unfit, decoded, step};
use super::{Action, Problem};
use crate::era::Era;
use crate::jsonrpc::entries::{elements, entries};
use crate::jsonrpc::members::members;

/// The schemas below this depth are not compared with the rules.
const MAX_DEPTH: usize = 64;
/// Steps of one local reference.
const MAX_STEPS: usize = 64;

/// The value of a keyword.
#[derive(Clone, Copy)]
enum Keyword {
    Schema,
    /// Schemas by name.
    Schemas,
    Patterns,
    SchemaList,
    SchemaOrList,
    SchemaOrNames,
    Number,
    Flag,
    Array,
    Values,
    Text,
    Pattern,
    Types,
    Reference,
}

/// The keywords that Ajv compiles, with the values that it accepts.
const KEYWORDS: &[(&str, Keyword)] = &[
    ("type", Keyword::Types),
    ("properties", Keyword::Schemas),
    ("$defs", Keyword::Schemas),
    ("definitions", Keyword::Schemas),
    ("dependentSchemas", Keyword::Schemas),
    ("patternProperties", Keyword::Patterns),
    ("additionalProperties", Keyword::Schema),
    ("propertyNames", Keyword::Schema),
    ("contains", Keyword::Schema),
    ("not", Keyword::Schema),
    ("if", Keyword::Schema),
    ("then", Keyword::Schema),
    ("else", Keyword::Schema),
    ("items", Keyword::SchemaOrList),
    ("additionalItems", Keyword::Schema),
    ("dependencies", Keyword::SchemaOrNames),
    ("allOf", Keyword::SchemaList),
    ("anyOf", Keyword::SchemaList),
    ("oneOf", Keyword::SchemaList),
    ("required", Keyword::Array),
    ("enum", Keyword::Values),
    ("minimum", Keyword::Number),
    ("maximum", Keyword::Number),
    ("exclusiveMinimum", Keyword::Number),
    ("exclusiveMaximum", Keyword::Number),
    ("multipleOf", Keyword::Number),
    ("minLength", Keyword::Number),
    ("maxLength", Keyword::Number),
    ("minItems", Keyword::Number),
    ("maxItems", Keyword::Number),
    ("minProperties", Keyword::Number),
    ("maxProperties", Keyword::Number),
    ("uniqueItems", Keyword::Flag),
    ("pattern", Keyword::Pattern),
    ("format", Keyword::Text),
    ("$ref", Keyword::Reference),
];
const DIALECTS: [&str; 4] = [
    "json-schema.org/draft/2020-12/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft-06/schema",
];
const TYPES: [&str; 7] = ["string", "number", "integer", "boolean", "null", "object", "array"];

/// What the outermost schema has.
struct Root {
    has_type: bool,
    /// It has members that are not dropped.
    leaves_any: bool,
}

impl Judge {
    pub(super) fn input_schema(&mut self, schema: &Bytes) -> Fit {
        let Root { has_type, leaves_any } = self.root(schema, |judge, value| match decoded(value).as_deref() {
            Some("object") => Ok(()),
            // Arguments are always an object, so this means the same.
            _ if value[..] == *b"null" || permits_object(value) => {
                judge.replace(value, &b"\"object\""[..], Problem::Not("\"object\""));
                Ok(())
            }
            _ => judge.unfit(Problem::Not("\"object\"")),
        })?;
        if !has_type {
            self.insert(schema, br#""type":"object""#, leaves_any);
            let missing = self.at(".type", |judge| judge.unfit(Problem::Missing));
            self.note(missing.err().map(|unfit| unfit.path).unwrap_or_default(), Problem::Missing, Action::Replaced);
        }
        Ok(())
    }

    pub(super) fn output_schema(&mut self, schema: &Bytes) -> Fit {
        let is_legacy = self.era == Era::Legacy;
        let Root { has_type, .. } = self.root(schema, |judge, value| match decoded(value).as_deref() {
            Some("object") => Ok(()),
            _ if is_legacy => judge.unfit(Problem::TooNew),
            _ => Ok(()),
        })?;
        if is_legacy && !has_type {
            return self.unfit(Problem::TooNew);
        }
        let dialect = members(schema, ["$schema"]).ok().and_then(|[dialect]| decoded(&dialect?));
        if dialect.is_some_and(|dialect| !is_known_dialect(&dialect)) {
            return self.unfit(Problem::Keyword("$schema"));
        }
        let compiler = Compiler { root: schema, is_legacy };
        match compiler.check(schema, MAX_DEPTH) {
            Ok(()) => Ok(()),
            Err(keyword) => self.unfit(Problem::Keyword(keyword)),
        }
    }

    /// Judges the members of the outermost schema that validators know. `judge_type` judges its
    /// `type`.
    fn root(&mut self, schema: &Bytes, judge_type: impl Fn(&mut Self, &Bytes) -> Fit) -> Result<Root, Unfit> {
        let found = self.members(schema)?;
        let (mut dropped, mut has_type) = (vec![false; found.len()], false);
        for (index, (key, value)) in found.iter().enumerate() {
            let is_null = value[..] == *b"null";
            let fit = match decoded(key).as_deref() {
                Some("type") if has_type => {
                    let fit = self.at(".type", |judge| judge.unfit(Problem::Duplicate));
                    fit.map_err(|unfit| Unfit { is_final: true, ..unfit })?;
                    continue;
                }
                Some("type") => {
                    has_type = true;
                    self.at(".type", |judge| judge_type(judge, value))?;
                    continue;
                }
                Some("properties") if is_null => self.at(".properties", |judge| judge.unfit(Problem::Null)),
                Some("required") if is_null => self.at(".required", |judge| judge.unfit(Problem::Null)),
                Some("properties") => self.at(".properties", |judge| judge.properties(value)),
                Some("required") => self.at(".required", |judge| judge.list(&Type::Text, Elements::Optional, value)),
                Some("$schema") if !value.starts_with(b"\"") => {
                    self.at(".$schema", |judge| judge.unfit(Problem::Not("a text")))
                }
                _ => continue,
            };
            if let Err(unfit) = fit {
                if unfit.is_final {
                    return Err(unfit);
                }
                self.note(unfit.path, unfit.problem, Action::Dropped);
                dropped[index] = true;
            }
        }
        self.remove(schema, &found, &dropped);
        Ok(Root { has_type, leaves_any: dropped.contains(&false) })
    }

    /// A property has a schema. Validators for legacy agents accept only objects: `true` permits anything, `false` nothing.
    fn properties(&mut self, properties: &Bytes) -> Fit {
        for (key, value) in self.members(properties)? {
            let replacement = match &value[..] {
                [b'{', ..] => continue,
                b"true" | b"false" if self.era == Era::Modern => continue,
                b"true" => "{}",
                b"false" => r#"{"not":{}}"#,
                b"null" => "{}",
                _ => "",
            };
            self.at(&step(&key), |judge| {
                let problem = if value[..] == *b"null" { Problem::Null } else { Problem::Not("an object") };
                if replacement.is_empty() {
                    return judge.unfit(problem).map_err(|unfit| Unfit { is_final: true, ..unfit });
                }
                judge.replace(&value, replacement, problem);
                Ok(())
            })?;
        }
        Ok(())
    }
}

/// Whether the TypeScript SDK 2.x can validate with schemas of this dialect. It refuses each call of a tool with another one.
fn is_known_dialect(uri: &str) -> bool {
    let uri = uri.strip_suffix('#').unwrap_or(uri);
    let location = uri.strip_prefix("https://").or_else(|| uri.strip_prefix("http://"));
    location.is_some_and(|location| DIALECTS.contains(&location))
}

/// Whether a list of types includes objects.
fn permits_object(types: &Bytes) -> bool {
    elements(types, TYPES.len()).is_some_and(|all| all.iter().any(|one| decoded(one).as_deref() == Some("object")))
}

/// Decides whether Ajv can compile a schema. `Err` is the keyword with which it cannot.
struct Compiler<'a> {
    root: &'a Bytes,
    is_legacy: bool,
}

type Compiled = Result<(), &'static str>;

impl Compiler<'_> {
    fn check(&self, schema: &Bytes, depth: usize) -> Compiled {
        let Some(depth) = depth.checked_sub(1) else { return Ok(()) };
        let Ok(found) = entries(schema, usize::MAX - 1) else { return Ok(()) };
        let has = |name: &str| found.iter().any(|(key, _)| decoded(key).as_deref() == Some(name));
        if self.is_legacy && has("nullable") && !has("type") {
            return Err("nullable");
        }
        for (key, value) in &found {
            let Some(key) = decoded(key) else { continue };
            if let Some((name, keyword)) = KEYWORDS.iter().find(|(name, _)| *name == key) {
                self.check_keyword(*keyword, value, depth)
                    .map_err(|inner| if inner.is_empty() { name } else { inner })?;
            }
        }
        Ok(())
    }

    /// The error is empty if the value itself is unfit.
    fn check_keyword(&self, keyword: Keyword, value: &Bytes, depth: usize) -> Compiled {
        let fits_if = |fits: bool| if fits { Ok(()) } else { Err("") };
        let is_object = value.starts_with(b"{");
        let all = || elements(value, usize::MAX).ok_or("");
        let by_name = || entries(value, usize::MAX - 1).map_err(|_| "");
        match keyword {
            Keyword::SchemaOrList | Keyword::SchemaOrNames if value.starts_with(b"[") => {
                all()?.iter().filter(|one| !one.starts_with(b"\"")).try_for_each(|one| self.schema(one, depth))
            }
            Keyword::Schema | Keyword::SchemaOrList => self.schema(value, depth),
            Keyword::SchemaList => all()?.iter().try_for_each(|one| self.schema(one, depth)),
            Keyword::Schemas => by_name()?.iter().try_for_each(|(_, one)| self.schema(one, depth)),
            Keyword::Patterns => by_name()?.iter().try_for_each(|(key, one)| {
                self.check_keyword(Keyword::Pattern, key, depth)?;
                self.schema(one, depth)
            }),
            Keyword::SchemaOrNames => fits_if(is_object),
            Keyword::Number => fits_if(value.first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit())),
            Keyword::Flag => fits_if(matches!(&value[..], b"true" | b"false")),
            Keyword::Array => fits_if(value.starts_with(b"[")),
            Keyword::Values => fits_if(!all()?.is_empty()),
            Keyword::Text => fits_if(value.starts_with(b"\"") || is_object),
            Keyword::Pattern => fits_if(!self.is_legacy || decoded(value).is_some_and(|text| is_ecmascript(&text))),
            Keyword::Types => {
                let is_type = |one: &Bytes| decoded(one).is_some_and(|word| TYPES.contains(&&*word));
                fits_if(is_type(value) || elements(value, usize::MAX).is_some_and(|all| all.iter().all(is_type)))
            }
            Keyword::Reference => fits_if(decoded(value).is_some_and(|to| !self.is_legacy || self.resolves(&to))),
        }
    }

    fn schema(&self, value: &Bytes, depth: usize) -> Compiled {
        match value.first() {
            Some(b'{') => self.check(value, depth),
            Some(b't' | b'f') => Ok(()),
            _ => Err(""),
        }
    }

    /// Whether a reference leads to a part of this schema. One to an id or anchor is taken to do so if the schema has any.
    fn resolves(&self, reference: &str) -> bool {
        let has = |key: &[u8]| memchr::memmem::find(self.root, key).is_some();
        if has(b"\"$id\"") || has(b"\"$anchor\"") || has(b"\"$dynamicAnchor\"") {
            return true;
        }
        let Some(pointer) = reference.strip_prefix('#') else { return false };
        let mut found = self.root.clone();
        if pointer.is_empty() {
            return true;
        }
        let Some(pointer) = pointer.strip_prefix('/') else { return false };
        for (count, part) in pointer.split('/').enumerate() {
            let part = percent_decoded(part).replace("~1", "/").replace("~0", "~");
            let next = if found.starts_with(b"[") {
                elements(&found, usize::MAX).and_then(|all| all.get(part.parse::<usize>().ok()?).cloned())
            } else {
                let is_it = |(key, _): &(Bytes, Bytes)| decoded(key).as_deref() == Some(&*part);
                entries(&found, usize::MAX - 1).ok().and_then(|all| all.into_iter().find(is_it)).map(|(_, value)| value)
            };
            let Some(next) = next.filter(|_| count < MAX_STEPS) else { return false };
            found = next;
        }
        true
    }
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
