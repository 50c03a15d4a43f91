//! Times for people have the local time zone. Programs get RFC 3339 in UTC.

use std::fs;

use serde_json::json;

use crate::support::{Agent, Place, Ran, Server, Setup, run};

/// A zone that no machine is in, and that needs no database.
const ZONE: &str = "XYZ-05:45";
const OFFSET: &str = "+05:45";

#[test]
fn times_are_local_for_people_and_utc_for_programs() {
    let place = Place::new();
    let config = Setup::with(Server::named("a")).write(&place);
    let daemon = Setup::new().config(config.clone()).start_in(&place);
    Agent::ready(&daemon).call("a__stderr", &json!({ "text": "a complaint" }));
    let in_zone = |args: &[&str]| -> Ran {
        let mut command = daemon.place().command(crate::support::MCPD);
        command.args(args).arg("--runtime-dir").arg(daemon.place().runtime_dir()).env("TZ", ZONE);
        run(&mut command).expect_code(0)
    };
    for command in ["calls", "logs"] {
        let json = in_zone(&[command, "--json"]).stdout;
        let json: serde_json::Value = serde_json::from_str(json.lines().next().expect("an entry")).expect("JSON");
        let utc = json["time"].as_str().expect("a time");
        assert!(utc.ends_with('Z'), "{utc}");
        let minutes = |time: &str| {
            let part = |range: std::ops::Range<usize>| time[range].parse::<u32>().expect("digits");
            part(11..13) * 60 + part(14..16)
        };
        let text = in_zone(&[command]).stdout;
        let line = text.lines().find(|line| line.starts_with("20")).expect("a line with a time");
        let local = line.split(' ').next().expect("a time");
        assert!(local.ends_with(OFFSET) && local[16..23] == utc[16..23], "{local} is {utc}");
        assert_eq!(minutes(local), (minutes(utc) + 5 * 60 + 45) % (24 * 60), "{local} is {utc}");
    }
    fs::write(config, "[servers.a\n").expect("the test's own");
    daemon.client(&["reload"]).expect_code(2);
    let status = in_zone(&["status"]).stdout;
    assert!(status.contains(&format!(" {OFFSET}; mcpd still uses the previous one")), "{status}");
    let report = in_zone(&["status", "--json"]).json();
    assert!(report["reload_refused"]["time"].as_str().is_some_and(|time| time.ends_with('Z')), "{report}");
}
