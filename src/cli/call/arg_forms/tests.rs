//! Tables of argument forms and of errors.

use serde_json::json;

use super::*;

struct FixedTexts;

impl TextSource for FixedTexts {
    fn stdin(&self) -> Result<String, String> {
        Ok("{\"path\": \"from stdin\"}\n".to_owned())
    }

    fn file(&self, path: &str) -> Result<String, String> {
        if path == "notes" { Ok("line\n\"2\"".to_owned()) } else { Err(format!("{path}: not there")) }
    }
}

fn schema(additional: &Value) -> Schema {
    let mut schema = json!({
        "properties": {
            "path": { "type": "string" },
            "head": { "type": "integer" },
            "ratio": { "anyOf": [{ "type": "number" }, { "type": "null" }] },
            "deep": { "type": "boolean" },
            "names": { "type": "array", "items": { "type": "string" } },
            "sizes": { "type": "array", "items": { "type": "integer" } },
            "filter": { "type": "object" },
            "level": { "enum": ["low", "high", 3] },
            "either": { "type": ["string", "integer"] },
            "any": {},
        },
        "required": ["path"],
    });
    if !additional.is_null() {
        schema["additionalProperties"] = additional.clone();
    }
    Schema::parse(&schema)
}

fn convert_words(words: &[String], schema: &Schema) -> Result<String, String> {
    ArgForm::parse(words, &FixedTexts)?.convert(schema, &FixedTexts).map(|raw| raw.get().to_owned())
}

fn convert(words: &[&str], additional: &Value) -> Result<String, String> {
    let words: Vec<_> = words.iter().map(|word| (*word).to_owned()).collect();
    convert_words(&words, &schema(additional))
}

#[test]
fn each_form_is_converted_to_the_type_in_the_schema() {
    for (words, expected) in [
        (&["path=a b"][..], r#"{"path":"a b"}"#),
        (&["path="], r#"{"path":""}"#),
        (&["path=a=b", "head=3"], r#"{"path":"a=b","head":3}"#),
        (&["path=3"], r#"{"path":"3"}"#),
        (&["path=true", "deep=true"], r#"{"path":"true","deep":true}"#),
        (&["path=x", "ratio=1.10"], r#"{"path":"x","ratio":1.10}"#),
        (&["path=x", "ratio=null"], r#"{"path":"x","ratio":null}"#),
        (&["path=x", "names=a", "names=b c"], r#"{"path":"x","names":["a","b c"]}"#),
        (&["path=x", r#"names=["a"]"#], r#"{"path":"x","names":["a"]}"#),
        (&["path=x", "sizes=1", "sizes=[2,3]"], r#"{"path":"x","sizes":[1,2,3]}"#),
        (&["path=x", r#"filter={"a": 1.0}"#], r#"{"path":"x","filter":{"a": 1.0}}"#),
        (&["path=x", "level=low"], r#"{"path":"x","level":"low"}"#),
        (&["path=x", "level=3"], r#"{"path":"x","level":3}"#),
        (&["path=x", "either=7"], r#"{"path":"x","either":7}"#),
        (&["path=x", "either=seven"], r#"{"path":"x","either":"seven"}"#),
        (&["path=x", "any=7"], r#"{"path":"x","any":"7"}"#),
        (&["path=x", "any:=7"], r#"{"path":"x","any":7}"#),
        (&["path:=\"x\"", "head:=\"3\""], r#"{"path":"x","head":"3"}"#),
        (&["path=@notes"], r#"{"path":"line\n\"2\""}"#),
        (&["path=@@notes"], r#"{"path":"@notes"}"#),
        (&["path=a@b"], r#"{"path":"a@b"}"#),
        (&["-"], r#"{"path": "from stdin"}"#),
        (&[r#"{"path": "x", "n": 1.10}"#], r#"{"path": "x", "n": 1.10}"#),
        (&["path=x", "more:=1"], r#"{"path":"x","more":1}"#),
    ] {
        assert_eq!(convert(words, &Value::Null).as_deref(), Ok(expected), "{words:?}");
    }
    assert_eq!(convert(&["path=x", "more=1"], &json!(true)).as_deref(), Ok(r#"{"path":"x","more":"1"}"#));
}

#[test]
fn errors_name_the_valid_arguments_and_values() {
    let missing = "missing `path` (string)";
    for (words, additional, expected) in [
        (&[][..], Value::Null, missing),
        (&["head=3"], Value::Null, missing),
        (&["{}"], Value::Null, missing),
        (&["path=x", "haed=3"], Value::Null, "unknown argument `haed`: did you mean `head`?"),
        (&["path=x", "zzz=3"], Value::Null, "unknown argument `zzz`; its arguments are path, any, "),
        (&["path=x", "zzz:=3"], json!(false), "unknown argument `zzz`; its arguments are "),
        (&[r#"{"path":"x","haed":3}"#], json!(false), "unknown argument `haed`: did you mean `head`?"),
        (&["path=x", "head=1.5"], Value::Null, "`head` must be of type integer, not `1.5`"),
        (&["path=x", "head="], Value::Null, "`head` must be of type integer, not ``"),
        (&["path=x", "deep=yes"], Value::Null, "`deep` must be of type boolean, not `yes`"),
        (&["path=x", "sizes=a"], Value::Null, "`sizes` must be of type array of integer, not `a`"),
        (&["path=x", "filter=a"], Value::Null, "`filter` must be of type object, not `a`"),
        (&["path=x", "level=mid"], Value::Null, "`level` must be one of low, high, 3, not `mid`"),
        (&["path=x", "path=y"], Value::Null, "`path` is given 2 times, and only an array can be repeated"),
        (&["path=x", "head:=x"], Value::Null, "`head` is not JSON: "),
        (&["path=@gone"], Value::Null, "gone: not there"),
        (&["path=x", "deep"], Value::Null, "`deep` is not an argument: write `key=value`, "),
        (&["{not json"], Value::Null, "the arguments are not JSON: "),
        (&["word"], Value::Null, "`word` is not an argument: write `key=value`, "),
        (&["[1]"], Value::Null, "the arguments are not a JSON object, "),
    ] {
        let found = convert(words, &additional).expect_err("invalid arguments");
        assert!(found.starts_with(expected), "{words:?}: {found}");
    }
}

#[test]
fn a_tool_without_properties_takes_any_argument() {
    let words = ["a=1".to_owned(), "b:=[1]".to_owned()];
    let converted = convert_words(&words, &Schema::parse(&json!({ "type": "object" })));
    assert_eq!(converted.as_deref(), Ok(r#"{"a":"1","b":[1]}"#));
}
