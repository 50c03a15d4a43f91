//! The notifications that a modern client requests with one `subscriptions/listen`.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`, "Notification Filter" and "Acknowledgment"; extension
//! `io.modelcontextprotocol/tasks`, "Task Status Notifications".

use std::collections::HashSet;

use bytes::Bytes;

use super::meta;
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::members::{members, text};

/// Maximum number of resources, and of tasks, in one subscription. A legacy agent has the same limit.
pub const MAX_TOPICS: usize = 1000;
/// Maximum size of their raw URIs, or of the raw ids of the tasks, in bytes.
pub const MAX_BYTES: usize = 256 << 10;

/// The requested notifications. Unknown kinds are ignored, so they are not acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Changes of the list of tools.
    pub tools: bool,
    /// Changes of the list of prompts.
    pub prompts: bool,
    /// Changes of the list of resources.
    pub resources: bool,
    /// Changes of these resources: each URI as text and raw, without duplicates.
    pub uris: Vec<(Bytes, Bytes)>,
    /// The status of these tasks: each id as text and raw, without duplicates.
    pub tasks: Vec<(Bytes, Bytes)>,
}

impl Filter {
    /// Reads the params of a `subscriptions/listen` or of its acknowledgement.
    ///
    /// # Errors
    /// What is wrong with them, for a person.
    pub fn read(params: &Bytes) -> Result<Self, &'static str> {
        let [filter] = members(params, ["notifications"]).map_err(|_| "the params are malformed")?;
        let filter = filter.ok_or("`notifications` is missing")?;
        let names =
            ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"];
        let [tools, prompts, resources, uris, tasks] =
            members(&filter, names).map_err(|_| "`notifications` is malformed")?;
        Ok(Self {
            tools: flag(tools.as_ref())?,
            prompts: flag(prompts.as_ref())?,
            resources: flag(resources.as_ref())?,
            uris: texts(uris.as_ref()).ok_or("`resourceSubscriptions` is no list of at most 1000 URIs")?,
            tasks: texts(tasks.as_ref()).ok_or("`taskIds` is no list of at most 1000 ids")?,
        })
    }

    /// The raw value of `notifications`.
    #[must_use]
    pub fn to_json(&self) -> String {
        let flags = [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| format!(r#""{name}":true"#));
        let lists = [(&self.uris, "resourceSubscriptions"), (&self.tasks, "taskIds")];
        let lists = lists.into_iter().filter(|(list, _)| !list.is_empty()).map(|(list, name)| {
            let raw: Vec<_> = list.iter().map(|(_, raw)| String::from_utf8_lossy(raw)).collect();
            format!(r#""{name}":[{}]"#, raw.join(","))
        });
        format!("{{{}}}", flags.chain(lists).collect::<Vec<_>>().join(","))
    }

    /// The raw params of a `subscriptions/listen` for these notifications, with these members of `_meta`.
    #[must_use]
    pub fn listen(&self, meta_members: &str) -> String {
        format!(r#"{{"_meta":{{{meta_members}}},"notifications":{}}}"#, self.to_json())
    }

    /// The line that acknowledges the `subscriptions/listen` with the raw `id` for these notifications.
    #[must_use]
    pub fn acknowledgement(&self, id: &[u8]) -> Bytes {
        let id = String::from_utf8_lossy(id);
        let params = self.listen(&format!(r#""{}":{id}"#, meta::SUBSCRIPTION));
        let method = "notifications/subscriptions/acknowledged";
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n").into()
    }
}

/// The result that ends the `subscriptions/listen` with the raw `id`.
///
/// Source: MCP 2026-07-28, `schema`, `SubscriptionsListenResult`.
#[must_use]
pub fn end(id: &[u8]) -> String {
    format!(r#"{{"resultType":"complete","_meta":{{"{}":{}}}}}"#, meta::SUBSCRIPTION, String::from_utf8_lossy(id))
}

fn flag(raw: Option<&Bytes>) -> Result<bool, &'static str> {
    match raw.map(|raw| &raw[..]) {
        Some(b"true") => Ok(true),
        None | Some(b"false" | b"null") => Ok(false),
        Some(_) => Err("a kind of notification is neither `true` nor `false`"),
    }
}

/// The elements of a raw list of strings, as text and raw, each once.
fn texts(raw: Option<&Bytes>) -> Option<Vec<(Bytes, Bytes)>> {
    let Some(raw) = raw.filter(|raw| raw[..] != b"null"[..]) else { return Some(Vec::new()) };
    let all = elements(raw, MAX_TOPICS).filter(|all| all.iter().map(Bytes::len).sum::<usize>() <= MAX_BYTES)?;
    let mut seen = HashSet::new();
    let all: Vec<_> = all.into_iter().map(|raw| Some((text(&raw)?, raw))).collect::<Option<_>>()?;
    // Copied, because they outlive the line by far.
    let once = all.into_iter().filter(|(text, _)| seen.insert(text.clone()));
    Some(once.map(|(text, raw)| (Bytes::copy_from_slice(&text), Bytes::copy_from_slice(&raw))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::{Message, parse};

    fn read(params: &str) -> Result<Filter, &'static str> {
        Filter::read(&Bytes::copy_from_slice(params.as_bytes()))
    }

    fn pair(text: &'static str, raw: &'static str) -> (Bytes, Bytes) {
        (Bytes::from_static(text.as_bytes()), Bytes::from_static(raw.as_bytes()))
    }

    #[test]
    fn filter_has_the_requested_notifications() {
        assert_eq!(read(r#"{"notifications":{}}"#), Ok(Filter::default()));
        let filter = Filter {
            tools: true,
            uris: vec![pair("a://b", r#""a:\/\/b""#), pair("c", r#""c""#)],
            tasks: vec![pair("t", r#""t""#)],
            ..Filter::default()
        };
        let params = r#"{"_meta":{},"notifications":{"toolsListChanged":true,"promptsListChanged":false,"vendor":true,
            "resourceSubscriptions":["a:\/\/b" ,"c","a://b"],"taskIds":["t"],"resourcesListChanged":null}}"#;
        assert_eq!(read(params), Ok(filter.clone()));
        let written = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:\/\/b","c"],"taskIds":["t"]}"#;
        assert_eq!(filter.to_json(), written);
        assert_eq!(read(&filter.listen(r#""a":1"#)), Ok(filter.clone()));
        assert_eq!(Filter::default().listen(r#""a":1"#), r#"{"_meta":{"a":1},"notifications":{}}"#);
        let Ok(Message::Notification { method, params }) = parse(&filter.acknowledgement(b"\"7\"")) else {
            panic!("a notification")
        };
        assert_eq!(&method[..], b"notifications/subscriptions/acknowledged");
        let expected =
            format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":"7"}},"notifications":{written}}}"#);
        assert_eq!(params, Some(Bytes::from(expected)));
        assert_eq!(end(b"7"), r#"{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":7}}"#);
    }

    #[test]
    fn malformed_filter_is_refused_with_the_reason() {
        let many = |count: usize, uri: &str| {
            format!(r#"{{"notifications":{{"resourceSubscriptions":[{}]}}}}"#, vec![uri; count].join(","))
        };
        assert_eq!(read(&many(MAX_TOPICS, r#""a""#)).map(|filter| filter.uris.len()), Ok(1));
        let too_many = "`resourceSubscriptions` is no list of at most 1000 URIs";
        for (params, why) in [
            ("[]".to_owned(), "the params are malformed"),
            ("{}".to_owned(), "`notifications` is missing"),
            (r#"{"notifications":[]}"#.to_owned(), "`notifications` is malformed"),
            (
                r#"{"notifications":{"toolsListChanged":1}}"#.to_owned(),
                "a kind of notification is neither `true` nor `false`",
            ),
            (r#"{"notifications":{"taskIds":"t"}}"#.to_owned(), "`taskIds` is no list of at most 1000 ids"),
            (many(1, "7"), too_many),
            (many(MAX_TOPICS + 1, r#""a""#), too_many),
            (many(3, &format!("\"{}\"", "a".repeat(MAX_BYTES / 3))), too_many),
        ] {
            assert_eq!(read(&params), Err(why), "{params:.80}");
        }
    }
}
