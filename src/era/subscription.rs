//! The notifications that a modern client requests with one `subscriptions/listen`, and their translation. In the legacy era they belong to
//! a connection.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`, "Notification Filter" and "Acknowledgment"; extension
//! `io.modelcontextprotocol/tasks`, "Task Status Notifications".

use std::collections::HashSet;

use bytes::Bytes;

use super::meta;
use crate::jsonrpc::members::{elements, members, text};
use crate::jsonrpc::splice::{Change, cut_nested, with_first};

/// Maximum number of resources, and of tasks, in one subscription. A legacy agent has the same limit.
pub const MAX_TOPICS: usize = 1000;
/// Maximum size of their raw URIs, or of the raw ids of the tasks, in bytes.
pub const MAX_BYTES: usize = 256 << 10;

/// The requested notifications. Unknown kinds are ignored, so they are not acknowledged.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListenFilter {
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

impl ListenFilter {
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

/// The subscription that a notification is for, raw: the id of the `subscriptions/listen`.
#[must_use]
pub fn subscription(params: Option<&Bytes>) -> Option<Bytes> {
    let [meta] = members(params?, ["_meta"]).ok()?;
    let [id] = members(&meta?, [meta::SUBSCRIPTION]).ok()?;
    id
}

/// Adds the raw subscription `id` to a notification. `None` if `params` are no object; such a notification is dropped.
#[must_use]
pub fn for_subscription(line: &Bytes, params: Option<&Bytes>, id: &[u8]) -> Option<Change> {
    let member = format!(r#""{}":{}"#, meta::SUBSCRIPTION, String::from_utf8_lossy(id));
    let instead = |part: Bytes, text: String| Change { part, replacement: text.into() };
    let Some(params) = params else {
        let [null] = members(line, ["params"]).ok()?;
        return Some(match null {
            Some(null) => instead(null, format!(r#"{{"_meta":{{{member}}}}}"#)),
            None => with_first(line, &format!(r#""params":{{"_meta":{{{member}}}}}"#)),
        });
    };
    let [meta] = members(params, ["_meta"]).ok()?;
    let Some(meta) = meta else { return Some(with_first(params, &format!(r#""_meta":{{{member}}}"#))) };
    Some(match members(&meta, [meta::SUBSCRIPTION]) {
        Ok([Some(known)]) => instead(known, String::from_utf8_lossy(id).into_owned()),
        Ok([None]) => with_first(&meta, &member),
        Err(_) => instead(meta, format!("{{{member}}}")),
    })
}

/// Removes the subscription of a notification, and `_meta` if nothing else is in it.
#[must_use]
pub fn without_subscription(params: Option<&Bytes>) -> Vec<Change> {
    let leave_out = |params: &Bytes| cut_nested(params, [], ("_meta", meta::SUBSCRIPTION)).ok();
    params.and_then(leave_out).map(|cut| cut.changes).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::splice::applied;
    use crate::jsonrpc::{Message, parse};

    fn read(params: &str) -> Result<ListenFilter, &'static str> {
        ListenFilter::read(&Bytes::copy_from_slice(params.as_bytes()))
    }

    fn pair(text: &'static str, raw: &'static str) -> (Bytes, Bytes) {
        (Bytes::from_static(text.as_bytes()), Bytes::from_static(raw.as_bytes()))
    }

    #[test]
    fn filter_has_the_requested_notifications() {
        assert_eq!(read(r#"{"notifications":{}}"#), Ok(ListenFilter::default()));
        let filter = ListenFilter {
            tools: true,
            uris: vec![pair("a://b", r#""a:\/\/b""#), pair("c", r#""c""#)],
            tasks: vec![pair("t", r#""t""#)],
            ..ListenFilter::default()
        };
        let params = r#"{"_meta":{},"notifications":{"toolsListChanged":true,"promptsListChanged":false,"vendor":true,
            "resourceSubscriptions":["a:\/\/b" ,"c","a://b"],"taskIds":["t"],"resourcesListChanged":null}}"#;
        assert_eq!(read(params), Ok(filter.clone()));
        let written = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:\/\/b","c"],"taskIds":["t"]}"#;
        assert_eq!(filter.to_json(), written);
        assert_eq!(read(&filter.listen(r#""a":1"#)), Ok(filter.clone()));
        assert_eq!(ListenFilter::default().listen(r#""a":1"#), r#"{"_meta":{"a":1},"notifications":{}}"#);
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

    /// A line and its params.
    fn line(rest: &str) -> (Bytes, Option<Bytes>) {
        let line = Bytes::from(format!(r#"{{"jsonrpc":"2.0","method":"n"{rest}}}"#));
        match parse(&line) {
            Ok(Message::Notification { params, .. }) => (line, params),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_notification_says_for_which_subscription_it_is() {
        const KEY: &str = "io.modelcontextprotocol/subscriptionId";
        for (without, with) in [
            (r#","params":{"uri":"u"}"#, r#","params":{"_meta":{"KEY":"a-1"},"uri":"u"}"#),
            (r#","params":{}"#, r#","params":{"_meta":{"KEY":"a-1"}}"#),
            (r#","params":{"_meta":{"x":1.0},"uri":"u"}"#, r#","params":{"_meta":{"KEY":"a-1","x":1.0},"uri":"u"}"#),
        ] {
            let with = with.replace("KEY", KEY);
            let (before, params) = line(without);
            let change = for_subscription(&before, params.as_ref(), b"\"a-1\"").expect("an object");
            let after = Bytes::from(applied(&before, &[change]));
            assert_eq!(after, line(&with).0, "{without}");
            let (after, params) = line(&with);
            assert_eq!(subscription(params.as_ref()), Some(Bytes::from_static(b"\"a-1\"")));
            assert_eq!(applied(&after, &without_subscription(params.as_ref())), before.to_vec());
        }
        for (before, after) in [
            ("", r#"{"params":{"_meta":{"KEY":7}},"jsonrpc":"2.0","method":"n"}"#),
            (r#","params":null"#, r#"{"jsonrpc":"2.0","method":"n","params":{"_meta":{"KEY":7}}}"#),
            (r#","params":{"_meta":null}"#, r#"{"jsonrpc":"2.0","method":"n","params":{"_meta":{"KEY":7}}}"#),
            (
                r#","params":{"_meta":{"KEY":12,"x":1}}"#,
                r#"{"jsonrpc":"2.0","method":"n","params":{"_meta":{"KEY":7,"x":1}}}"#,
            ),
        ] {
            let (before, params) = line(&before.replace("KEY", KEY));
            let change = for_subscription(&before, params.as_ref(), b"7").expect("an object");
            assert_eq!(applied(&before, &[change]), after.replace("KEY", KEY).as_bytes());
        }
        let (array, params) = line(r#","params":[1]"#);
        assert_eq!(for_subscription(&array, params.as_ref(), b"7"), None);
    }

    #[test]
    fn one_that_is_for_none_stays_as_it_is() {
        for rest in ["", r#","params":{}"#, r#","params":[1]"#, r#","params":{"_meta":{}}"#, r#","params":{"_meta":7}"#]
        {
            let (_, params) = line(rest);
            assert_eq!(subscription(params.as_ref()), None, "{rest}");
            assert_eq!(without_subscription(params.as_ref()), Vec::new(), "{rest}");
        }
    }
}
