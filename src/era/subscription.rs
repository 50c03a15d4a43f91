//! Which notifications a client of the modern era wants, on one `subscriptions/listen`.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`, "Notification Filter" and "Acknowledgment"; extension
//! `io.modelcontextprotocol/tasks`, "Task Status Notifications".

use std::collections::HashSet;

use bytes::Bytes;

use super::meta;
use crate::jsonrpc::entries::elements;
use crate::jsonrpc::members::{members, text};

/// Most resources, and most tasks, of one subscription: as many as one agent may have subscribed to in the legacy era.
pub const MOST: usize = 1000;
/// Most bytes of their URIs, or of the tasks' ids, as they are spelled.
pub const BYTES: usize = 256 << 10;

/// What is wanted. Kinds that are not known here are not wanted, and so not acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// That the list of tools has changed.
    pub tools: bool,
    /// That the list of prompts has changed.
    pub prompts: bool,
    /// That the list of resources has changed.
    pub resources: bool,
    /// That one of these resources has changed: each URI as text, and raw. None is there twice.
    pub uris: Vec<(Bytes, Bytes)>,
    /// How far one of these tasks is: each id as text, and raw. None is there twice.
    pub tasks: Vec<(Bytes, Bytes)>,
}

impl Filter {
    /// What the params of a `subscriptions/listen`, or of its acknowledgement, say.
    ///
    /// # Errors
    /// What is wrong with them, for a person.
    pub fn read(params: &Bytes) -> Result<Self, &'static str> {
        let [filter] = members(params, ["notifications"]).map_err(|_| "the params are malformed")?;
        let filter = filter.ok_or("`notifications` is missing")?;
        let wanted =
            ["toolsListChanged", "promptsListChanged", "resourcesListChanged", "resourceSubscriptions", "taskIds"];
        let [tools, prompts, resources, uris, tasks] =
            members(&filter, wanted).map_err(|_| "`notifications` is malformed")?;
        Ok(Self {
            tools: flag(tools.as_ref())?,
            prompts: flag(prompts.as_ref())?,
            resources: flag(resources.as_ref())?,
            uris: texts(uris.as_ref()).ok_or("`resourceSubscriptions` is no list of at most 1000 URIs")?,
            tasks: texts(tasks.as_ref()).ok_or("`taskIds` is no list of at most 1000 ids")?,
        })
    }

    /// As it stands in `notifications`, raw.
    #[must_use]
    pub fn written(&self) -> String {
        let flags = [
            (self.tools, "toolsListChanged"),
            (self.prompts, "promptsListChanged"),
            (self.resources, "resourcesListChanged"),
        ];
        let flags = flags.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, name)| format!(r#""{name}":true"#));
        let lists = [(&self.uris, "resourceSubscriptions"), (&self.tasks, "taskIds")];
        let lists = lists.into_iter().filter(|(list, _)| !list.is_empty()).map(|(list, name)| {
            let raw: Vec<_> = list.iter().map(|(_, raw)| String::from_utf8_lossy(raw)).collect();
            format!(r#""{name}":[{}]"#, raw.join(","))
        });
        format!("{{{}}}", flags.chain(lists).collect::<Vec<_>>().join(","))
    }

    /// The raw params of a `subscriptions/listen` that wants this, with these members of `_meta`.
    #[must_use]
    pub fn listen(&self, meta_members: &str) -> String {
        format!(r#"{{"_meta":{{{meta_members}}},"notifications":{}}}"#, self.written())
    }

    /// The line that says to the `subscriptions/listen` with the raw `id` that this is what it will hear of.
    #[must_use]
    pub fn acknowledgement(&self, id: &[u8]) -> Bytes {
        let id = String::from_utf8_lossy(id);
        let params = self.listen(&format!(r#""{}":{id}"#, meta::SUBSCRIPTION));
        let method = "notifications/subscriptions/acknowledged";
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{params}}}\n").into()
    }
}

/// The result that ends the `subscriptions/listen` with the raw `id`, as the server does before it goes.
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
    let all = elements(raw, MOST).filter(|all| all.iter().map(Bytes::len).sum::<usize>() <= BYTES)?;
    let mut seen = HashSet::new();
    let all: Vec<_> = all.into_iter().map(|raw| Some((text(&raw)?, raw))).collect::<Option<_>>()?;
    // Copied, for they outlive the line by far.
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
    fn a_client_hears_of_what_it_asked_for() {
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
        assert_eq!(filter.written(), written);
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
    fn what_cannot_be_subscribed_to_is_refused_and_says_why() {
        let many = |count: usize, uri: &str| {
            format!(r#"{{"notifications":{{"resourceSubscriptions":[{}]}}}}"#, vec![uri; count].join(","))
        };
        assert_eq!(read(&many(MOST, r#""a""#)).map(|filter| filter.uris.len()), Ok(1));
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
            (many(MOST + 1, r#""a""#), too_many),
            (many(3, &format!("\"{}\"", "a".repeat(BYTES / 3))), too_many),
        ] {
            assert_eq!(read(&params), Err(why), "{params:.80}");
        }
    }
}
