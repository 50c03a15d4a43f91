//! JSON Schemas of tools. The TypeScript SDK compiles each `outputSchema` with Ajv when it lists tools, and one that does not compile
//! costs it the list.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use super::Problem;
use super::pattern::is_ecmascript;
use super::rules::{LEGACY_OUTPUT_SCHEMA, OUTPUT_SCHEMA};
use super::walk::{Fit, Judge, Step, Unfit};
use crate::era::Era;
use crate::jsonrpc::members::{Parts, elements, members, string};

/// The schemas below this depth are not compared with the rules.
const MAX_DEPTH: usize = 64;
/// How often the bytes of a schema are read, at most: a schema is read again for each one around it.
const MAX_READS: usize = 32;
/// Local references that are followed. Others are taken to lead to a part of the schema.
const MAX_REFERENCES: usize = 1000;
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

impl Judge {
    pub(super) fn input_type(&mut self, types: &Bytes) -> Fit {
        match string(types).as_deref() {
            Some("object") => Ok(()),
            // Arguments are always an object, so this means the same.
            _ if permits_object(types) => {
                self.replace(types, &b"\"object\""[..], Problem::Not("\"object\""));
                Ok(())
            }
            _ => self.unfit(Problem::Not("\"object\"")),
        }
    }

    pub(super) fn output_schema(&mut self, schema: &Bytes) -> Fit {
        let is_legacy = self.era == Era::Legacy;
        let shape = if is_legacy { LEGACY_OUTPUT_SCHEMA } else { OUTPUT_SCHEMA };
        // A tool can do without it, whatever is wrong in it.
        self.record(shape, schema).map_err(|unfit| Unfit { is_final: false, ..unfit })?;
        let dialect = members(schema, ["$schema"]).ok().and_then(|[dialect]| string(&dialect?));
        if dialect.is_some_and(|dialect| !is_known_dialect(&dialect)) {
            return self.unfit(Problem::Keyword("$schema"));
        }
        match Compiler::compile(schema, is_legacy) {
            Ok(()) => Ok(()),
            Err(keyword) => self.unfit(Problem::Keyword(keyword)),
        }
    }

    /// A property has a schema. Validators for legacy agents accept only objects: `true` permits anything, `false` nothing.
    pub(super) fn properties(&mut self, properties: &Bytes) -> Fit {
        for (key, value) in self.members(properties)? {
            let replacement = match &value[..] {
                [b'{', ..] => continue,
                b"true" | b"false" if self.era == Era::Modern => continue,
                b"true" | b"null" => Some("{}"),
                b"false" => Some(r#"{"not":{}}"#),
                _ => None,
            };
            let name = string(&key).unwrap_or_default();
            let problem = if value[..] == *b"null" { Problem::Null } else { Problem::Not("an object") };
            let Some(replacement) = replacement else { return Err(self.fatal(Step::Member(&name), problem)) };
            self.at(Step::Member(&name), |judge| {
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
    elements(types, TYPES.len()).is_some_and(|all| all.iter().any(|one| string(one).as_deref() == Some("object")))
}

/// Decides whether Ajv can compile a schema. `Err` is the keyword with which it cannot.
struct Compiler {
    is_legacy: bool,
    /// A reference to an id or anchor is taken to lead to a part of the schema if it has any.
    has_anchor: bool,
    /// Bytes that it still reads. The rest of the schema is taken to be compilable.
    left: usize,
    /// The steps of local references, at most [`MAX_REFERENCES`].
    references: HashSet<Vec<String>>,
}

type Compiled = Result<(), &'static str>;

impl Compiler {
    fn compile(schema: &Bytes, is_legacy: bool) -> Compiled {
        let has = |key: &[u8]| memchr::memmem::find(schema, key).is_some();
        let has_anchor = has(b"\"$id\"") || has(b"\"$anchor\"") || has(b"\"$dynamicAnchor\"");
        let left = schema.len().saturating_mul(MAX_READS);
        let mut compiler = Self { is_legacy, has_anchor, left, references: HashSet::new() };
        compiler.check(schema, MAX_DEPTH)?;
        let references = std::mem::take(&mut compiler.references);
        let all_lead = compiler.all_lead(schema, &mut references.iter().map(Vec::as_slice));
        if all_lead { Ok(()) } else { Err("$ref") }
    }

    /// Whether these bytes may be read once more.
    fn reads(&mut self, bytes: &Bytes) -> bool {
        let left = self.left.checked_sub(bytes.len());
        self.left = left.unwrap_or(0);
        left.is_some()
    }

    fn check(&mut self, schema: &Bytes, depth: usize) -> Compiled {
        let Some(depth) = depth.checked_sub(1).filter(|_| self.reads(schema)) else { return Ok(()) };
        let (mut has_type, mut is_nullable) = (false, false);
        for (key, value) in Parts::of_object(schema).into_iter().flatten() {
            let Some(key) = string(&key) else { continue };
            has_type |= key == "type";
            is_nullable |= key == "nullable";
            if let Some((name, keyword)) = KEYWORDS.iter().find(|(name, _)| *name == key) {
                self.check_keyword(*keyword, &value, depth)
                    .map_err(|inner| if inner.is_empty() { name } else { inner })?;
            }
        }
        if self.is_legacy && is_nullable && !has_type { Err("nullable") } else { Ok(()) }
    }

    /// The error is empty if the value itself is unfit.
    fn check_keyword(&mut self, keyword: Keyword, value: &Bytes, depth: usize) -> Compiled {
        let fits_if = |fits: bool| if fits { Ok(()) } else { Err("") };
        let is_object = value.starts_with(b"{");
        let is_type = |one: &Bytes| string(one).is_some_and(|word| TYPES.contains(&&*word));
        let all = || Parts::of_array(value).ok_or("").map(|parts| parts.map(|(_, one)| one));
        let by_name = || Parts::of_object(value).ok_or("");
        match keyword {
            Keyword::SchemaOrList | Keyword::SchemaOrNames if value.starts_with(b"[") => {
                all()?.filter(|one| !one.starts_with(b"\"")).try_for_each(|one| self.schema(&one, depth))
            }
            Keyword::Schema | Keyword::SchemaOrList => self.schema(value, depth),
            Keyword::SchemaList => all()?.try_for_each(|one| self.schema(&one, depth)),
            Keyword::Schemas => by_name()?.try_for_each(|(_, one)| self.schema(&one, depth)),
            Keyword::Patterns => by_name()?.try_for_each(|(key, one)| {
                self.check_keyword(Keyword::Pattern, &key, depth)?;
                self.schema(&one, depth)
            }),
            Keyword::SchemaOrNames => fits_if(is_object),
            Keyword::Number => fits_if(value.first().is_some_and(|byte| *byte == b'-' || byte.is_ascii_digit())),
            Keyword::Flag => fits_if(matches!(&value[..], b"true" | b"false")),
            Keyword::Array => fits_if(value.starts_with(b"[")),
            Keyword::Values => fits_if(all()?.next().is_some()),
            Keyword::Text => fits_if(value.starts_with(b"\"") || is_object),
            Keyword::Pattern => fits_if(!self.is_legacy || string(value).is_some_and(|text| is_ecmascript(&text))),
            Keyword::Types => fits_if(is_type(value) || all().is_ok_and(|mut all| all.all(|one| is_type(&one)))),
            Keyword::Reference => fits_if(string(value).is_some_and(|to| self.refer(&to))),
        }
    }

    fn schema(&mut self, value: &Bytes, depth: usize) -> Compiled {
        match value.first() {
            Some(b'{') => self.check(value, depth),
            Some(b't' | b'f') => Ok(()),
            _ => Err(""),
        }
    }

    /// Keeps a reference for [`Self::all_lead`]. Returns whether it is local.
    fn refer(&mut self, reference: &str) -> bool {
        if !self.is_legacy || self.has_anchor || reference == "#" {
            return true;
        }
        let Some(pointer) = reference.strip_prefix("#/") else { return false };
        if self.references.len() < MAX_REFERENCES {
            let decoded = |step: &str| percent_decoded(step).replace("~1", "/").replace("~0", "~");
            let steps: Vec<_> = pointer.split('/').take(MAX_STEPS + 1).map(decoded).collect();
            if steps.len() > MAX_STEPS {
                return false;
            }
            self.references.insert(steps);
        }
        true
    }

    /// Whether all these steps lead to parts of `container`. Reads it once for all of them.
    fn all_lead(&mut self, container: &Bytes, references: &mut dyn Iterator<Item = &[String]>) -> bool {
        let mut by_step: HashMap<&str, Vec<&[String]>> = HashMap::new();
        for (first, rest) in references.filter_map(<[String]>::split_first) {
            by_step.entry(first).or_default().push(rest);
        }
        if by_step.is_empty() || !self.reads(container) {
            return true;
        }
        let parts = Parts::of_object(container).or_else(|| Parts::of_array(container));
        for (index, (key, value)) in parts.into_iter().flatten().enumerate() {
            let step = if key.is_empty() { Some(index.to_string()) } else { string(&key) };
            let rests = step.and_then(|step| by_step.remove(&*step));
            if rests.is_some_and(|rests| !self.all_lead(&value, &mut rests.into_iter())) {
                return false;
            }
        }
        by_step.is_empty()
    }
}

fn percent_decoded(text: &str) -> String {
    percent_encoding::percent_decode_str(text).decode_utf8_lossy().into_owned()
}
