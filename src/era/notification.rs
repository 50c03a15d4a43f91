//! Translation of notifications, which belong to a subscription in the modern era and to a connection in the legacy era.
//!
//! Source: MCP 2026-07-28, `basic/patterns/subscriptions`.

use bytes::Bytes;

use super::meta;
use crate::jsonrpc::members::members;
use crate::jsonrpc::object_edit::{cut_nested, with_first};
use crate::jsonrpc::splice::Change;

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
