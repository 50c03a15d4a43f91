//! Nearly valid lines of servers and agents.

use proptest::prelude::*;

use super::super::tests::{bytes, text};
use super::*;

/// The messages of a line, one per line; `~` before one without a version.
fn read(line: &str, sender: Sender) -> Option<String> {
    Some(match normalise(&bytes(line), sender)? {
        Normalised::Messages(all) => all.iter().map(|one| text(one)).collect::<Vec<_>>().join("\n"),
        Normalised::Unversioned(one) => format!("~{}", text(&one)),
    })
}

#[test]
fn nearly_valid_line_of_a_server_is_its_only_possible_message() {
    for (line, expected) in [
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null}"#, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
        (r#"{"jsonrpc":"2.0","error":null,"id":7,"result":null}"#, r#"{"jsonrpc":"2.0","id":7,"result":null}"#),
        (
            r#"{"jsonrpc":"2.0","id":7,"result":null,"error":{"code":1}}"#,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":1}}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","id":7,"method":null,"params":null,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        ),
        (r#"{"jsonrpc":"2.0","id":null,"method":"a","error":null}"#, r#"{"jsonrpc":"2.0","method":"a"}"#),
        (r#"{"jsonrpc":"2.0","method":"a","params":[ ]}"#, r#"{"jsonrpc":"2.0","method":"a","params":{}}"#),
        (r#"{"jsonrpc":"2.0","method":"a","params":null}"#, r#"{"jsonrpc":"2.0","method":"a"}"#),
        (r#"{"jsonrpc":"2.0","id":"7","result":[]}"#, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
        (r#"{"jsonrpc":"2.0","id":7.0,"result":{}}"#, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#),
        (r#"{"jsonrpc":"2.0","id":"7.00","error":{}}"#, r#"{"jsonrpc":"2.0","id":7,"error":{}}"#),
        (r#"{"id":7,"result":{}}"#, r#"~{"jsonrpc":"2.0","id":7,"result":{}}"#),
        (
            r#"{"jsonrpc":null,"id":"7","error":{"code":-1},"result":null}"#,
            r#"~{"jsonrpc":"2.0","id":7,"error":{"code":-1}}"#,
        ),
        ("\x1b]0;x\x07{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", r#"{"jsonrpc":"2.0","method":"a"}"#),
        (
            "\x1b[?25l\x1b(B \x1b=\x1bP1{}\x1b\\{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\x1b[0m",
            r#"{"jsonrpc":"2.0","method":"a"}"#,
        ),
        (
            r#"{"jsonrpc":"2.0","method":"a"}	{"jsonrpc":"2.0","id":"1","result":{},"error":null}"#,
            "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\n{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}",
        ),
    ] {
        assert_eq!(read(line, Sender::Server).as_deref(), Some(expected), "{line:?}");
        // A line that is a message comes here, too.
        if let Ok(message) = parse(&bytes(line)) {
            assert!(is_suspicious(&message, &bytes(line)), "{line:?}");
        }
    }
}

#[test]
fn ambiguous_or_foreign_line_stays_refused() {
    let many = r#"{"jsonrpc":"2.0","method":"a"}"#.repeat(MAX_PARTS + 1);
    for line in [
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":{"code":1}}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{},"Error":null}"#,
        "{\"jsonrpc\":\"2.0\",\r\"id\":7,\"result\":{},\"error\":null}",
        "{\"jsonrpc\":\"2.0\",\"method\":\"a\"}\r{\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
        r#"{"jsonrpc":"2.0","id":7,"error":null}"#,
        r#"{"jsonrpc":"2.0","id":null,"result":{}}"#,
        r#"{"jsonrpc":"1.0","id":7,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":7.5,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"07","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"x7","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":"7","method":"sampling/createMessage"}"#,
        r#"{"jsonrpc":"2.0","method":"a","params":[1]}"#,
        r#"{"id":7,"result":1}"#,
        r#"{"id":7,"result":{},"level":30}"#,
        r#"{"id":7,"error":{"code":"x"}}"#,
        r#"{"method":"notifications/message"}"#,
        r#"{"level":30,"msg":null}{"jsonrpc":"2.0","method":"a"}"#,
        r#"> {"jsonrpc":"2.0","method":"a"}"#,
        r#"{"jsonrpc":"2.0","method":"a"} {"jsonrpc":"2.0""#,
        "\x1b]0;{\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
        "\x1b]0;a\rb\x07{\"jsonrpc\":\"2.0\",\"method\":\"a\"}",
        "\x1b[0m",
        r#"[{"jsonrpc":"2.0","method":"a"}]"#,
        r#"{"jsonrpc":"2.0","id":7,"result":{}}"#,
        " {\"jsonrpc\":\"2.0\",\"method\":\"a\"}\t",
        &many,
        "",
    ] {
        assert_eq!(read(line, Sender::Server), None, "{line:?}");
    }
}

#[test]
fn only_handshakes_and_notifications_of_an_agent_are_mended() {
    for (line, expected) in [
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"notifications/x"}"#,
            Some(r#"{"jsonrpc":"2.0","method":"notifications/x"}"#),
        ),
        (
            r#"{"jsonrpc":"2.0","id":null,"method":"notifications/initialized","result":null}"#,
            Some(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{},"result":null,"error":null}"#,
            Some(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#),
        ),
        (r#"{"jsonrpc":"2.0","id":null,"method":"initialize","error":null}"#, None),
        (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, None),
        (r#"{"jsonrpc":"2.0","id":1,"method":"ping","error":null}"#, None),
        (r#"{"jsonrpc":"2.0","id":7,"result":{},"error":null}"#, None),
        (r#"{"jsonrpc":"2.0","id":"7","result":[]}"#, None),
        (r#"{"id":7,"result":{}}"#, None),
        (r#"{"jsonrpc":"2.0","method":"a"}{"jsonrpc":"2.0","method":"a"}"#, None),
        ("\x1b[0m{\"jsonrpc\":\"2.0\",\"method\":\"a\"}", None),
        (r#"{"jsonrpc":"2.0","id":null,"id":null,"method":"notifications/x"}"#, None),
    ] {
        assert_eq!(read(line, Sender::Agent).as_deref(), expected, "{line}");
    }
}

/// A member of the envelope.
fn member() -> impl Strategy<Value = String> {
    let key = prop_oneof![8 => prop::sample::select(ENVELOPE.to_vec()).prop_map(str::to_owned), 1 => Just("ID".to_owned()), 1 => Just("x".to_owned())];
    let values = ["null", "7", "\"7\"", "7.0", "\"2.0\"", "\"notifications/a\"", "{}", "[]", "{\"code\":1}"];
    (key, prop::sample::select(values.to_vec())).prop_map(|(key, value)| format!("\"{key}\":{value}"))
}

/// Members that a line may have, in any order.
fn object() -> impl Strategy<Value = String> {
    let chosen = prop::collection::vec(member(), 0..6);
    (prop::bool::ANY, chosen).prop_map(|(versioned, mut members)| {
        members.extend(versioned.then(|| "\"jsonrpc\":\"2.0\"".to_owned()));
        format!("{{{}}}", members.join(","))
    })
}

/// An object with blanks around it.
fn line() -> impl Strategy<Value = String> {
    let blanks = prop::sample::select(vec!["", " ", "\t"]);
    (blanks, object()).prop_map(|(blank, object)| format!("{blank}{object}{blank}"))
}

proptest! {
    #[test]
    fn reading_is_a_message_and_is_not_changed_again(line in line(), of_server in prop::bool::ANY) {
        let sender = if of_server { Sender::Server } else { Sender::Agent };
        let Some(found) = normalise(&bytes(&line), sender) else { return Ok(()) };
        let (Normalised::Messages(lines), is_unversioned) = (match found {
            Normalised::Unversioned(one) => (Normalised::Messages(vec![one]), true),
            messages => (messages, false),
        }) else { unreachable!() };
        prop_assert_eq!(lines.len(), 1);
        prop_assert_eq!(is_unversioned, of_server && (!line.contains("jsonrpc") || line.contains("\"jsonrpc\":null")));
        let message = parse(&lines[0]);
        prop_assert!(message.is_ok(), "{:?}", lines[0]);
        prop_assert_eq!(normalise(&lines[0], sender), None, "{:?}", lines[0]);
        // Members have one meaning: none twice, none in another case.
        let is_once = |name: &&str| line.matches(&format!("\"{name}\":")).count() <= 1;
        prop_assert!(!line.contains("\"ID\"") && ENVELOPE.iter().all(is_once));
        // A valid message changes only if it is suspicious. The params of a response mean nothing.
        if let Ok(message) = parse(&bytes(&line)) {
            let has_odd_params = matches!(message, Message::Response { .. }) && line.contains("\"params\":");
            prop_assert!(of_server && (has_odd_params || is_suspicious(&message, &bytes(&line))), "{}", line);
        }
    }

    #[test]
    fn lines_are_cut_only_into_whole_messages(parts in prop::collection::vec((object(), prop::sample::select(vec!["", " ", "\x1b[1;2m", "\x1b]0;t\x07", "x"])), 1..5)) {
        let line = parts.iter().flat_map(|(object, between)| [&object[..], between]).collect::<String>();
        if let Some(Normalised::Messages(messages)) = normalise(&bytes(&line), Sender::Server) {
            prop_assert_eq!(messages.len(), parts.len());
            prop_assert!(parts.iter().all(|(_, between)| *between != "x"));
            prop_assert!(messages.iter().all(|message| parse(message).is_ok()));
        }
    }
}
