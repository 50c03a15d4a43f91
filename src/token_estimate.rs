//! What a tool costs an agent, in tokens of a model: a client gives the model each tool that is listed, in every conversation.
//!
//! Pure. An estimate, since every model has a tokenizer of its own: by the bytes of what clients pass on, which are the name, the
//! description and the schema of the arguments. The factor is from the lists of five servers, 50 tools, as `o200k_base` and
//! `cl100k_base` count them: a server is within 10 % of it, a single tool within 20 %.

use bytes::Bytes;

use crate::jsonrpc::members::{members, text};

/// Twenty-one bytes are five tokens, on the average.
const BYTES: usize = 21;
const TOKENS: usize = 5;
/// For what a client puts around each tool.
const AROUND: usize = 4;

/// What a tool costs that is listed as `definition`, under a name of `name` bytes.
#[must_use]
pub fn estimate(name: usize, definition: &Bytes) -> usize {
    of_bytes(name, passed_on(definition))
}

/// The same, where it is known how many bytes of the definition are [`passed_on`].
#[must_use]
pub fn of_bytes(name: usize, passed_on: usize) -> usize {
    AROUND + (name + passed_on) * TOKENS / BYTES
}

/// How many bytes of a tool's definition clients pass on beside its name.
#[must_use]
pub fn passed_on(definition: &Bytes) -> usize {
    let [description, schema] = members(definition, ["description", "inputSchema"]).unwrap_or_default();
    let description = description.and_then(|raw| text(&raw)).map_or(0, |text| text.len());
    description + schema.map_or(0, |raw| compact(&raw))
}

/// The length of JSON without the white space between its parts: clients write it anew.
fn compact(json: &[u8]) -> usize {
    let (mut length, mut in_string, mut escaped) = (0, false, false);
    for byte in json {
        length += usize::from(in_string || !byte.is_ascii_whitespace());
        in_string ^= *byte == b'"' && !escaped;
        escaped = in_string && *byte == b'\\' && !escaped;
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_clients_pass_on_counts_however_it_is_written() {
        let schema = r#"{"type":"object","properties":{"path":{"type":"string"}}}"#;
        for (definition, expected) in [
            (r#"{"name":"t"}"#.to_owned(), 4 + 10 * 5 / 21),
            (format!(r#"{{"name":"t","inputSchema":{schema}}}"#), 4 + (10 + schema.len()) * 5 / 21),
            (format!(r#"{{"inputSchema":{}}}"#, schema.replace(':', " :\t")), 4 + (10 + schema.len()) * 5 / 21),
            (format!(r#"{{"outputSchema":{schema},"annotations":{{}},"icons":[]}}"#), 4 + 10 * 5 / 21),
            (r#"{"description":"Zeigt \u00e4hnliches\nan"}"#.to_owned(), 4 + (10 + 19) * 5 / 21),
            ("[]".to_owned(), 4 + 10 * 5 / 21),
        ] {
            assert_eq!(estimate(10, &Bytes::from(definition.clone())), expected, "{definition}");
        }
    }

    #[test]
    fn white_space_in_a_string_stays() {
        for (json, length) in [("{ }", 2), (r#"{ "a b" : "c\" d" }"#, 15), (r#"["\\" , " "]"#, 10), ("", 0)] {
            assert_eq!(compact(json.as_bytes()), length, "{json}");
        }
    }
}
