//! Tables of profiles: what they say, what they refuse, what several files make of them.

use super::*;
use crate::config::Profile;
use crate::list_kind::ListKind;
use crate::naming::Naming;

const SERVERS: &str = "[servers.files]\ncommand = 'x'\n[servers.git]\ncommand = 'x'\ndeny = ['push']\n";

fn profiles(text: &str) -> Vec<Arc<Profile>> {
    load_text("/c.toml", &format!("{SERVERS}{text}")).unwrap_or_else(|error| panic!("{error}")).config.profiles
}

fn check_profile(text: &str, expected: &[&str]) {
    check(&format!("{SERVERS}{text}"), expected);
}

#[test]
fn the_default_profile_is_always_there_and_first() {
    for text in ["", "[daemon]\nnaming = '{tool}'"] {
        let found = profiles(text);
        assert_eq!(found.len(), 1);
        assert!(&*found[0].name == "default" && found[0].is_whole());
    }
    let found = profiles("[profiles.a]\n[profiles.b]\n[profiles.default]\nservers = ['git']\n[profiles.c]");
    assert_eq!(found.iter().map(|profile| &*profile.name).collect::<Vec<_>>(), ["default", "a", "b", "c"]);
    assert_eq!(found.iter().map(|profile| profile.is_whole()).collect::<Vec<_>>(), [false, true, true, true]);
}

#[test]
fn a_profile_has_every_key_of_its_table() {
    let found = profiles(
        "[daemon]\nnaming = '{tool}'\n[profiles.plain]\n[profiles.p]\nservers = ['git']\nallow = ['*/*']\n\
         deny = ['git/log']\nprompts.deny = ['*/x']\nresources.allow = ['git/file:///a/*']\nexpose = ['tools', 'resources']\n\
         naming = 'mcp__{server}__{tool}'\nallow_uids = [1001, 7, 7]",
    );
    let [_, plain, profile] = &found[..] else { panic!("{found:?}") };
    assert_eq!((plain.naming, profile.naming), (Naming::Bare, Naming::McpPrefixed));
    assert_eq!(profile.allow_uids.iter().copied().collect::<Vec<_>>(), [7, 1001]);
    let config = load_text("/c.toml", SERVERS).expect("fine").config;
    assert!(profile.policy(&config.servers[0]).is_none());
    let policy = profile.policy(&config.servers[1]).expect("it is in the profile");
    for (kind, key, permitted) in [
        (ListKind::Tools, "status", true),
        (ListKind::Tools, "log", false),
        (ListKind::Tools, "push", false),
        (ListKind::Prompts, "y", false),
        (ListKind::Resources, "file:///a/b", true),
        (ListKind::Resources, "file:///b", false),
    ] {
        assert_eq!(policy.permits(kind, key, None), permitted, "{key}");
    }
    let reading = profiles("[profiles.p]\ntools.read_only = true").remove(1);
    assert!(!reading.policy(&config.servers[0]).expect("in it").permits(ListKind::Tools, "a", None));
}

#[test]
fn directories_are_absolute_and_of_one_profile() {
    let found = profiles(
        "[profiles.p]\ndirectories = ['~/work/', '${HOME}', '/a/./b//c', '/a/b/c']\n[profiles.default]\ndirectories = ['/a']",
    );
    let of = |index: usize| found[index].directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>();
    assert_eq!(of(0), ["/a"]);
    let home = "/home/u";
    assert_eq!(of(1), [&format!("{home}/work"), home, "/a/b/c", "/a/b/c"]);
    check_profile(
        "[profiles.p]\ndirectories = ['work', '/a/../b', 7]",
        &[
            "7:16 each item of `directories` must be an absolute path | begin it with `/`, `~/` or a variable…",
            "7:24 each item of `directories` must be written without `..` | …",
            "7:35 …",
        ],
    );
    check_profile(
        "[profiles.p]\ndirectories = ['/a']\n[profiles.q]\ndirectories = ['/b', '/a/.']",
        &["9:22 the profiles `p` and `q` both have `/a` | …remove it from the other"],
    );
}

#[test]
fn invalid_profile_error_states_what_to_write() {
    check_profile(
        "[profiles.p]\nserver = []",
        &["7:1 unknown key `server` in `[profiles.p]` | did you mean `servers`?"],
    );
    check("profiles = 5", &["1:12 `profiles` must be a table | write `[profiles.NAME]`…"]);
    check("profiles.p = 5", &["1:14 `profiles.p` must be a table | write `[profiles.p]`…"]);
    check_profile("[profiles.mcp]", &["6:11 `mcp` cannot name a profile | …`mcp.sock` is the socket of…"]);
    check_profile("[profiles.admin]", &["6:11 `admin` cannot name a profile | …the operator's"]);
    check_profile("[profiles.'a b']", &["6:11 `a b` cannot name a profile | write `a-b`: …"]);
    check_profile(
        "[profiles.p]\nservers = ['flies', 'git', 'zzz']",
        &[
            "7:12 profile `p` has a server `flies` that is not configured | did you mean `files`?",
            "7:28 profile `p` has a server `zzz` that is not configured | write one of `files` or `git`",
        ],
    );
    check_profile(
        "[profiles.p]\ndeny = ['write_*', '', '/x', 'git/', '[/x', 'git/[']",
        &[
            "7:9 `write_*` does not say of which server… | write \"*/write_*\": …",
            "7:20 `` does not say… | write \"*/write_*\": …",
            "7:24 `/x` does not say… | write \"*/x\": …",
            "7:30 `git/` does not say… | write \"git/*\": …",
            "7:38 `[` is no pattern…",
            "7:45 `[` is no pattern…",
        ],
    );
    check_profile(
        "[profiles.p]\nprompts.deny = ['x']\nresources.alow = []",
        &[
            "7:17 `x` does not say of which server…",
            "8:11 unknown key `alow` in `[profiles.p.resources]` | did you mean `allow`?",
        ],
    );
    check_profile(
        "[profiles.p]\nexpose = ['tool']\ntools.read_only = 1",
        &["7:11 `tool` is not a value of `expose`…", "8:19 `read_only` must be true or false…"],
    );
    check_profile(
        "[profiles.p]\nnaming = 'tool'\nmax_calls = 0",
        &["7:10 `tool` is not a value of `naming`…", "8:13 …"],
    );
    check_profile(
        "[profiles.p]\nallow_uids = [-1, 'a', 4294967295, 65534, 1000]",
        &[
            "7:15 each item of `allow_uids` must be the number of a user | write `allow_uids = [1001]`",
            "7:19 each item…",
            "7:24 each item…",
            "7:36 65534 stands for every unknown user | have the agent run as a user of its own…",
        ],
    );
    check_profile(
        "[profiles.p]\nhttp = '192.168.0.2:80'",
        &["7:8 `http` must be 127.0.0.1 or [::1] with a port: mcpd serves no other address | write `http = …`"],
    );
    check_profile(
        "[profiles.p]\nhttp = '[::1]:80'\n[profiles.q]\nhttp = '127.0.0.1:80'\n[profiles.r]\nhttp = '[::1]:80'",
        &["11:8 profile `p` has the same address | give each profile a port of its own"],
    );
    check_profile("[profiles.p]\nallow_uids = 5", &["7:14 `allow_uids` must be a list of user ids | write …"]);
}

#[test]
fn more_profiles_than_there_may_be_are_refused() {
    let tables = |count: usize| (0..count).map(|n| format!("[profiles.p{n}]\n")).collect::<String>();
    assert_eq!(profiles(&tables(100)).len(), 101);
    check_profile(&tables(1000), &["106:11 there are more than 100 profiles | any number of agents can share one…"]);
}

#[test]
fn a_profile_may_name_servers_of_all_files_and_stands_in_one() {
    let client = r#"{"mcpServers": {"web": {"command": "x"}, "old": {"command": "x", "disabled": true}}}"#;
    let sources = Table::from([
        ("/1.toml", "[profiles.p]\nservers = ['files', 'web', 'old']"),
        ("/2.toml", SERVERS),
        ("/3.json", client),
        ("/4.toml", "\n[profiles.p]\nservers = ['git', 'x']"),
    ]);
    let load = |files: &[&str]| load(&files.iter().map(PathBuf::from).collect::<Vec<_>>(), &sources);
    let found = load(&["/1.toml", "/2.toml", "/3.json"]).unwrap_or_else(|error| panic!("{error}")).config.profiles;
    assert!(found[1].servers.as_ref().expect("named").contains("web"));
    let printed = load(&["/1.toml", "/3.json"]).expect_err("no `files`").to_string();
    assert!(printed.contains("/1.toml:2:12") && printed.contains("a server `files`"), "{printed}");
    let printed = load(&["/1.toml", "/2.toml", "/3.json", "/4.toml"]).expect_err("twice").to_string();
    assert!(printed.contains("profile `p` is configured twice") && printed.contains("/1.toml:1:11"), "{printed}");
}
