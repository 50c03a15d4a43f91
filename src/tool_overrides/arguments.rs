//! The edit of a call: fixed arguments are added, and a call that has a fixed or hidden one is refused.
//!
//! A key that a server could read as the name of such an argument counts as the argument: with escapes, in another case, with a NUL after the
//! name, or with lone surrogates. So no spelling of a key reaches the server beside the fixed value.

use bytes::Bytes;

use super::ToolOverride;
use crate::jsonrpc::mcpd_error::Delivery;
use crate::jsonrpc::members::{Parts, may_be_read_as, members_of_parsed};
use crate::jsonrpc::message::RequestLine;
use crate::jsonrpc::reply::{ErrorObject, INVALID_PARAMS};
use crate::jsonrpc::splice::Change;

/// Why a call is refused. The text is for the agent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RefusedArguments {
    /// It is not certain what the arguments are.
    #[error("`params` is no object, or has `name` or `arguments` twice or in another case")]
    Unreadable,
    /// They are not an object.
    #[error("`arguments` is not an object")]
    NotAnObject,
    /// A fixed argument is among them.
    #[error("leave out the argument `{0}`: mcpd adds it to each call of this tool")]
    Fixed(Box<str>),
    /// A hidden argument is among them.
    #[error("leave out the argument `{0}`: the configuration of mcpd hides it")]
    Hidden(Box<str>),
}

impl RefusedArguments {
    /// The error for a call that was not sent to `server`.
    pub(crate) fn to_object(&self, server: &str) -> ErrorObject {
        ErrorObject::new(INVALID_PARAMS, self.to_string()).about_server(server).with_delivery(Delivery::NotSent)
    }
}

impl ToolOverride {
    /// Checks the raw `tools/call` in `line`, which was parsed.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn check(&self, line: &Bytes) -> Result<(), RefusedArguments> {
        self.change(line).map(drop)
    }

    /// The `tools/call` as the server gets it, but for its id and name.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn apply(&self, request: &RequestLine) -> Result<RequestLine, RefusedArguments> {
        let change = self.change(&request.line)?;
        Ok(change.map_or_else(|| request.clone(), |change| request.with_change(&change)))
    }

    fn change(&self, line: &Bytes) -> Result<Option<Change>, RefusedArguments> {
        if self.fixed.is_empty() && self.hidden.is_empty() {
            return Ok(None);
        }
        let params = members_of_parsed(line, ["params"]).ok().and_then(|[params]| params);
        let params = params.ok_or(RefusedArguments::Unreadable)?;
        let Ok([Some(name), arguments]) = members_of_parsed(&params, ["name", "arguments"]) else {
            return Err(RefusedArguments::Unreadable);
        };
        let is_null = |raw: &Bytes| raw[..] == b"null"[..];
        let (part, replacement) = match arguments {
            Some(arguments) if !is_null(&arguments) => {
                let has_any = self.check_arguments(&arguments)?;
                let comma = if has_any { "," } else { "" };
                (arguments.slice(..1), format!("{{{}{comma}", self.members))
            }
            Some(null) => (null, format!("{{{}}}", self.members)),
            None => (name.slice(name.len() - 1..), format!("\",\"arguments\":{{{}}}", self.members)),
        };
        Ok((!self.members.is_empty()).then(|| Change { part, replacement: replacement.into() }))
    }

    /// Whether the raw `arguments` have members.
    fn check_arguments(&self, arguments: &Bytes) -> Result<bool, RefusedArguments> {
        let parts = Parts::of_object(arguments).ok_or(RefusedArguments::NotAnObject)?;
        let unseen = self.unseen();
        let mut has_any = false;
        for (key, _) in parts {
            has_any = true;
            if let Some(name) = may_be_read_as(&key, &unseen) {
                let is_fixed = self.fixed.iter().any(|fixed| **fixed == *name);
                let refused = if is_fixed { RefusedArguments::Fixed } else { RefusedArguments::Hidden };
                return Err(refused(name.into()));
            }
        }
        Ok(has_any)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;
    use crate::jsonrpc::message::Rename;
    use crate::jsonrpc::{Message, parse};

    fn fixing() -> ToolOverride {
        ToolOverride::default().with_fixed("repo", r#""a/b""#).with_fixed("n", "1.50").with_hidden("debug")
    }

    /// A call whose params end with `rest`.
    fn call(rest: &str) -> RequestLine {
        let line = format!(
            r#"{{"id":7,"params":{{"_meta":{{"progressToken":"t"}},"name":"s__find"{rest},"x":1}},"jsonrpc":"2.0","method":"tools/call"}}"#
        );
        let line = Bytes::from(line);
        assert!(matches!(parse(&line), Ok(Message::Request { .. })), "{line:?}");
        let part = |text: &str| {
            let at = memchr::memmem::find(&line, text.as_bytes()).expect("a part");
            line.slice(at..at + text.len())
        };
        let rename = Rename { exposed: part(r#""s__find""#), server_name: Bytes::from_static(br#""search""#) };
        RequestLine { id: part("7"), rename: Some(rename), progress_token: Some(part(r#""t""#)), line: line.clone() }
    }

    fn sent(of_tool: &ToolOverride, rest: &str) -> Result<String, RefusedArguments> {
        let request = of_tool.apply(&call(rest))?;
        Ok(String::from_utf8(request.numbered(42, &[]).into()).expect("text"))
    }

    fn expected(rest: &str) -> String {
        format!(
            "{{\"id\":42,\"params\":{{\"_meta\":{{\"progressToken\":42}},\"name\":\"search\"{rest},\"x\":1}},\"jsonrpc\":\"2.0\",\"method\":\"tools/call\"}}\n"
        )
    }

    #[test]
    fn fixed_arguments_are_added_and_nothing_else_changes() {
        for (rest, changed) in [
            (r#","arguments":{}"#, r#","arguments":{"repo":"a/b","n":1.50}"#),
            (r#","arguments":{ }"#, r#","arguments":{"repo":"a/b","n":1.50 }"#),
            (r#","arguments": { "q" : "x" }"#, r#","arguments": {"repo":"a/b","n":1.50, "q" : "x" }"#),
            (r#","arguments":{"q":{"repo":1}}"#, r#","arguments":{"repo":"a/b","n":1.50,"q":{"repo":1}}"#),
            (r#","arguments":null"#, r#","arguments":{"repo":"a/b","n":1.50}"#),
            ("", r#","arguments":{"repo":"a/b","n":1.50}"#),
        ] {
            assert_eq!(sent(&fixing(), rest), Ok(expected(changed)), "{rest}");
        }
        let hiding = ToolOverride::default().with_hidden("debug");
        for rest in [r#","arguments":{"q":1}"#, r#","arguments":null"#, ""] {
            assert_eq!(sent(&hiding, rest), Ok(expected(rest)), "{rest}");
        }
        let renaming = ToolOverride::default().with_name("find".into());
        for rest in [r#","arguments":7"#, r#","arguments":{"a":1,"a":2}"#] {
            assert_eq!(sent(&renaming, rest), Ok(expected(rest)), "{rest}");
        }
    }

    #[test]
    fn no_spelling_of_a_fixed_or_hidden_argument_is_sent() {
        let fixed = || Err(RefusedArguments::Fixed("repo".into()));
        let hidden = || Err(RefusedArguments::Hidden("debug".into()));
        let sized = || Err(RefusedArguments::Hidden("größe".into()));
        let of_tool = fixing().with_hidden("größe");
        for (arguments, refused) in [
            (r#"{"repo":"c/d"}"#, fixed()),
            (r#"{"q":1,"repo":null}"#, fixed()),
            (r#"{"rep\u006f":1}"#, fixed()),
            (r#"{"\u0072\u0065\u0070\u006F":1}"#, fixed()),
            (r#"{"Repo":1}"#, fixed()),
            (r#"{"REPO":1}"#, fixed()),
            (r#"{"repo\u0000":1}"#, fixed()),
            (r#"{"repo\u0000x":1}"#, fixed()),
            (r#"{"repo\udc00":1}"#, fixed()),
            (r#"{"\ud800repo":1}"#, fixed()),
            (r#"{"GRÖSSE":1}"#, sized()),
            (r#"{"GRÖẞE":1}"#, sized()),
            (r#"{"debug":true}"#, hidden()),
            (r#"{"d\u0065bug":true}"#, hidden()),
            ("[]", Err(RefusedArguments::NotAnObject)),
            ("7", Err(RefusedArguments::NotAnObject)),
            (r#""{\"repo\":1}""#, Err(RefusedArguments::NotAnObject)),
        ] {
            assert_eq!(sent(&of_tool, &format!(r#","arguments":{arguments}"#)), refused, "{arguments}");
        }
        for rest in [
            r#","arguments":{},"arguments":{"repo":1}"#,
            r#","arguments":{},"\u0061rguments":{"repo":1}"#,
            r#","Arguments":{"repo":1}"#,
            r#","arguments\u0000x":{"repo":1}"#,
            r#","\ud800arguments":{"repo":1}"#,
            r#","arguments":{},"ARGUMENTS":{"repo":1}"#,
        ] {
            assert_eq!(sent(&fixing(), rest), Err(RefusedArguments::Unreadable), "{rest}");
        }
        let error = RefusedArguments::Fixed("repo".into()).to_object("git");
        assert!(error.code == -32602 && error.message.contains("`repo`"), "{error:?}");
        assert_eq!(error.data, Some(json!({"server": "git", "outcome": "not_sent"})));
    }

    #[test]
    fn deep_arguments_are_passed_on() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let text = sent(&fixing(), &format!(r#","arguments":{{"q":{deep}}}"#)).expect("sent");
        assert!(text.contains(r#""arguments":{"repo":"a/b","n":1.50,"q":[["#) && text.contains(&deep));
    }

    proptest! {
        #[test]
        fn server_reads_the_fixed_value_and_the_agents_others(
            keys in prop::collection::btree_map("[a-eR]{1,4}|repo|Repo|n|debug", 0..9i32, 0..5),
        ) {
            let arguments = json!(keys);
            let result = sent(&fixing(), &format!(r#","arguments":{arguments}"#));
            let is_refused = keys.keys().any(|key| {
                let key = key.to_ascii_lowercase();
                ["repo", "n", "debug"].contains(&&*key)
            });
            prop_assert_eq!(result.is_err(), is_refused);
            if let Ok(line) = result {
                let line: Value = serde_json::from_str(&line).expect("JSON");
                let mut expected = arguments;
                (expected["repo"], expected["n"]) = (json!("a/b"), json!(1.5));
                prop_assert_eq!(&line["params"]["arguments"], &expected);
            }
        }
    }
}
