//! Notifications of modern servers arrive on a subscription stream, which is reopened when it ends.

use serde_json::json;

use super::beside;
use crate::support::http::{Answers, Behavior, Front};
use crate::support::{Agent, Daemon, Place, arguments, until};

const TOOLS: &str = "notifications/tools/list_changed";
const UPDATED: &str = "notifications/resources/updated";

/// How often the server was asked to tell of the resource.
fn listen_count(daemon: &Daemon) -> usize {
    let is_it = |line: &&String| line.contains("subscriptions/listen") && line.contains("x://1");
    daemon.journal("a").iter().filter(is_it).count()
}

/// Case I5.
#[test]
fn changes_reach_subscribers_after_the_stream_was_reopened() {
    for (answers, cut) in [(Answers::Events, false), (Answers::Json, false), (Answers::Json, true)] {
        let place = Place::new();
        let library = place.write("library.json", r#"{"resources":[{"uri":"x://1","name":"r"}]}"#);
        let flags = format!("--era modern --library {}", library.display());
        let front = Front::start(&place, "a", &flags, Behavior::stateless(answers));
        let daemon = beside(front.server(), &place);
        let mut agent = Agent::modern(&daemon, &json!({}));
        let (id, granted) = agent.listen(&json!({"toolsListChanged": true, "resourceSubscriptions": ["x://1"]}));
        assert_eq!(granted["resourceSubscriptions"], json!(["x://1"]));
        let mut other = Agent::modern(&daemon, &json!({}));
        for round in 0..2 {
            until("the server is listened to", || (listen_count(&daemon) > round).then_some(()));
            arguments(&other.call("a__touch", &json!({"uris": ["x://2", "x://1"]})));
            assert_eq!(agent.subscription_notification(&id, UPDATED)["uri"], "x://1", "{answers:?}");
            let tool = format!("fresh{round}");
            arguments(&other.call("a__mutate_tools", &json!({"add": [tool]})));
            agent.subscription_notification(&id, TOOLS);
            assert!(agent.tools().contains(&format!("a__{tool}")));
            agent.expect_quiet();
            if cut { front.cut_streams() } else { front.end_streams() }
        }
        other.expect_quiet();
        assert_eq!((&daemon.row("a")["restarts"], &daemon.row("a")["state"]), (&json!(0), &json!("ready")));
        agent.disconnect();
    }
}
