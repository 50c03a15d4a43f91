//! Pin files: made by trust on first use, and refused where they cannot be trusted.

use std::os::unix::fs::symlink;

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// The text of a pin file, without the times of approval.
fn without_times(text: &str) -> String {
    let lines = text.lines().map(|line| match line.split_once(r#""approved":"#) {
        Some((before, after)) => format!("{before}{}", after.trim_start_matches(|char: char| char.is_ascii_digit())),
        None => line.to_owned(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

/// Case L4.
#[test]
fn first_definitions_are_trusted_with_warn_and_the_file_has_the_documented_format() {
    let place = approved();
    let documented = fs::read_to_string(pin_file(&place, "s")).expect("text");
    fs::remove_file(pin_file(&place, "s")).expect("it is there");
    let daemon = Setup::with(server(&place, "warn")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    expect_exposed(&mut agent, "s__");
    let written = until("the file is written", || fs::read_to_string(pin_file(&place, "s")).ok());
    let sorted = |text: &str| {
        let text = without_times(text).replace("},\n", "}\n");
        let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&written), sorted(&documented));
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let file = pin_file(&place, "s");
    assert_eq!((mode(&file), mode(file.parent().expect("a directory"))), (0o600, 0o700));
    assert!(daemon.row("s")["changes"].is_null(), "there is nothing to say");
    agent.disconnect();
}

/// Case L4.
#[test]
fn nothing_is_trusted_with_hold_and_nothing_written_with_follow() {
    for (rule, is_exposed) in [("hold", false), ("follow", true)] {
        let place = Place::new();
        offer(&place, GOOD);
        let daemon = Setup::with(server(&place, rule)).start_in(&place);
        let mut agent = Agent::ready(&daemon);
        let all = offered(&mut agent);
        assert_eq!((all.contains("s__read"), all.contains("s__write")), (is_exposed, is_exposed), "{rule}: {all}");
        assert_eq!(code_or_zero(&agent.call("s__read", &json!({}))), if is_exposed { 0 } else { -32602 });
        assert!(!pin_file(&place, "s").exists(), "{rule}");
        agent.disconnect();
    }
}

fn code_or_zero(answer: &Value) -> i64 {
    answer["error"]["code"].as_i64().unwrap_or(0)
}

/// The name of a server, the code of the report, and what is done to its pin file.
type Spoiled = (&'static str, &'static str, fn(&Path));

/// What stands in the place of a pin file, each with the code of the report.
const SPOILED: [Spoiled; 8] = [
    ("truncated", "malformed", |file| {
        let text = fs::read(file).expect("text");
        fs::write(file, &text[..text.len() - 20]).expect("the test's own");
    }),
    ("edited", "malformed", |file| {
        let text = fs::read_to_string(file).expect("text");
        fs::write(file, text.replacen("Stays.", "Stays!", 1)).expect("the test's own");
    }),
    ("foreign-name", "other_server", |file| {
        let text = fs::read_to_string(file).expect("text");
        fs::write(file, text.replacen("foreign-name", "other", 1)).expect("the test's own");
    }),
    ("group-writable", "writable_by_others", |file| set_mode(file, 0o660)),
    ("world-writable", "writable_by_others", |file| set_mode(file, 0o602)),
    ("fifo", "not_regular", |file| {
        fs::remove_file(file).expect("it is there");
        mknodat(CWD, file, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("a FIFO");
    }),
    ("link", "not_regular", |file| {
        fs::rename(file, file.with_extension("old")).expect("the test's own");
        symlink(file.with_extension("old"), file).expect("a link");
    }),
    ("directory", "not_regular", |file| {
        fs::remove_file(file).expect("it is there");
        DirBuilder::new().mode(0o700).create(file).expect("a directory");
    }),
];

fn set_mode(file: &Path, mode: u32) {
    fs::set_permissions(file, Permissions::from_mode(mode)).expect("the test's own");
}

fn spoiled(place: &Place, rule: &str) -> Setup {
    SPOILED.iter().fold(Setup::new(), |setup, (name, ..)| setup.server(listing(name, place, rule, "tools.json")))
}

/// Case L4.
#[test]
fn file_that_cannot_be_trusted_approves_nothing_and_is_never_replaced() {
    let place = Place::new();
    offer(&place, GOOD);
    for (name, _, spoil) in SPOILED {
        approve_lists(&place, name, &tools(GOOD), &Value::Null);
        spoil(&pin_file(&place, name));
    }
    let state = |name: &str| {
        let file = pin_file(&place, name);
        let text =
            fs::symlink_metadata(&file).is_ok_and(|found| found.is_file()).then(|| fs::read(&file).expect("text"));
        (fs::symlink_metadata(&file).expect("it is there").permissions().mode(), text)
    };
    let before: Vec<_> = SPOILED.iter().map(|(name, ..)| state(name)).collect();
    let daemon = spoiled(&place, "hold").start_in(&place);
    let expect_reported = |rule: &str| {
        let status = daemon.wait_status("reports all files", |status| {
            let rows = status["servers"].as_array().expect("servers").iter();
            rows.filter(|row| row["changes"]["rule"] == rule).count() == SPOILED.len()
        });
        for row in status["servers"].as_array().expect("servers") {
            let (_, code, _) = SPOILED.iter().find(|(name, ..)| row["name"] == *name).expect("one of them");
            assert_eq!(row["changes"]["file_problem_code"], *code, "{row}");
        }
    };
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools(), Vec::<String>::new(), "nothing counts as approved");
    expect_reported("hold");
    spoiled(&place, "warn").write(&place);
    daemon.client(&["reload"]).expect_code(0);
    until("nothing is compared", || (agent.tools().len() == SPOILED.len() * tools(GOOD).len()).then_some(()));
    expect_reported("warn");
    offer(&place, EVIL);
    for (name, ..) in SPOILED {
        arguments(&agent.call(&format!("{name}__burst_list_changed"), &json!({ "n": 1 })));
    }
    agent.disconnect();
    drop(daemon);
    assert!(SPOILED.iter().map(|(name, ..)| state(name)).eq(before), "none of them has changed");
}

/// Case L6.
#[test]
fn approval_that_is_withdrawn_in_the_file_ends_at_a_reload() {
    let place = approved();
    let daemon = held(&place);
    let mut agent = Agent::ready(&daemon);
    expect_exposed(&mut agent, "s__");
    let reload = || drop(daemon.client(&["reload"]).expect_code(0));
    approve_lists(&place, "s", &tools(GOOD)[1..], &json!({ "prompts": [{ "name": "stay" }] }));
    reload();
    agent.expect_notification(CHANGED);
    expect_withheld(&daemon, &mut agent, "s__");
    let file = pin_file(&place, "s");
    fs::write(&file, "{").expect("the test's own");
    reload();
    assert_eq!(agent.tools(), Vec::<String>::new());
    assert_eq!(daemon.row("s")["changes"]["file_problem_code"], "malformed");
    approve_all(&place, GOOD);
    reload();
    expect_exposed(&mut agent, "s__");
    fs::remove_file(&file).expect("it is there");
    reload();
    assert_eq!(agent.tools(), Vec::<String>::new());
    assert!(!file.exists());
    daemon.client(&["approve", "s", "read", "--yes"]).expect_code(0);
    assert_eq!(agent.tools(), ["s__read"], "nothing comes back with it");
    agent.disconnect();
}

/// Case L6.
#[test]
fn file_that_is_gone_at_a_reload_is_made_again_with_warn_alone() {
    let place = approved();
    let daemon = Setup::with(server(&place, "warn")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    expect_exposed(&mut agent, "s__");
    let file = pin_file(&place, "s");
    let reload = || drop(daemon.client(&["reload"]).expect_code(0));
    approve_lists(&place, "s", &tools(GOOD)[1..], &library(GOOD));
    reload();
    daemon.wait_row("s", "reports the tool", |row| row["changes"]["new"] == 1);
    fs::remove_file(&file).expect("it is there");
    reload();
    until("the file is written", || fs::read_to_string(&file).ok().filter(|text| text.contains(GOOD)));
    daemon.wait_row("s", "has nothing to report", |row| row["changes"].is_null());
    fs::remove_file(&file).expect("it is there");
    Setup::with(server(&place, "hold")).write(&place);
    reload();
    assert_eq!(agent.tools(), Vec::<String>::new(), "the rule of the reload counts");
    assert!(!file.exists());
    agent.disconnect();
}

/// Case L4.
#[test]
fn directory_that_cannot_be_written_costs_only_the_trust() {
    let place = Place::new();
    offer(&place, GOOD);
    fs::create_dir_all(place.path("home/.local/state/mcpd")).expect("the test's own");
    place.write("home/.local/state/mcpd/pins", "a file in the place of the directory");
    let daemon = Setup::with(server(&place, "warn")).start_in(&place);
    let mut agent = Agent::ready(&daemon);
    expect_exposed(&mut agent, "s__");
    daemon.wait_row("s", "says so", |row| row["changes"]["file_problem"].is_string());
    offer(&place, EVIL);
    announce(&mut agent, "s__");
    agent.expect_notification(CHANGED);
    agent.disconnect();
    assert_eq!(fs::read(place.path("home/.local/state/mcpd/pins")).expect("text").len(), 36);
}

/// Case L4.
#[test]
fn file_that_does_not_fit_on_the_disk_is_not_written_in_part() {
    let place = Place::new();
    let large = |description: &str| -> Vec<Value> {
        let many =
            (0..500).map(|number| tool(&format!("many_{number}"), &format!("{description} {}", "x".repeat(200))));
        tools(description).into_iter().chain(many).collect()
    };
    offer_tools(&place, "tools.json", &large(GOOD));
    // Longer than the log, and shorter than the pin file.
    let setup = Setup::with(listing("s", &place, "warn", "tools.json")).after_shell("ulimit -f 128");
    let daemon = setup.start_in(&place);
    let mut agent = Agent::ready(&daemon);
    assert_eq!(agent.tools().len(), large(GOOD).len());
    daemon.wait_row("s", "says so", |row| row["changes"]["file_problem_code"] == "unwritable");
    let directory = pin_file(&place, "s").parent().expect("a directory").to_owned();
    let left: Vec<_> =
        fs::read_dir(&directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    assert_eq!(left, Vec::<PathBuf>::new(), "nothing is left of the attempt");
    agent.disconnect();
}
