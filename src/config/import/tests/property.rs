//! Whatever a client's file holds, what is imported of it is what it says.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

/// Text with what means something to somebody.
fn any_text() -> impl Strategy<Value = String> {
    let pieces = [
        "$",
        "${",
        "}",
        "$${",
        "${HOME}",
        "${env:HOME:-d}",
        "${NONE}",
        "${userHome}",
        "${workspaceFolder}",
        "$HOME",
        "a",
        "B7",
        " ",
        "\"",
        "'",
        "\\",
        "\n",
        "\t",
        "é",
        "=",
        "--token",
        "--api-key=",
        "ghp_c4n4ryC4N4RYc4n4ryC4N4RY",
        "~/",
        "./",
        "../",
        "/",
        "#",
        "[",
        "]",
        "\u{7f}",
        "\u{202e}",
    ];
    let piece = prop::sample::select(pieces.to_vec());
    prop::collection::vec(piece, 0..6).prop_map(|pieces| pieces.concat())
}

fn any_server() -> impl Strategy<Value = Value> {
    let texts = || prop::collection::vec(any_text(), 0..4);
    let pairs = prop::collection::btree_map(any_text(), any_text(), 0..3);
    (any_text(), texts(), pairs, texts(), texts()).prop_map(|(command, args, env, allowed, denied)| {
        json!({"command": command, "args": args, "env": env, "includeTools": allowed, "excludeTools": denied})
    })
}

proptest! {
    #[test]
    fn an_imported_server_is_run_as_its_client_runs_it(
        servers in prop::collection::btree_map(any_text(), any_server(), 1..4), gemini in any::<bool>(),
    ) {
        let path = if gemini { "/p/.gemini/settings.json" } else { "/p/.mcp.json" };
        // What cannot be read is left out of an import, and refuses a file that is loaded.
        let readable = servers.into_iter().filter(|(title, server)| {
            let text = json!({"mcpServers": {title: server}}).to_string();
            load(&[path.into()], &Table::from([("~", "/h"), ("HOME", "/h"), (path, text.as_str())])).is_ok()
        });
        let text = json!({"mcpServers": readable.collect::<serde_json::Map<_, _>>()}).to_string();
        let sources = Table::from([("~", "/h"), ("HOME", "/h"), (path, text.as_str())]);
        let theirs = load(&[path.into()], &sources).expect("each of them is fine").config.servers;
        let mut plan = Plan::new("", &[], Path::new("/s"), &sources);
        for server in foreign(Path::new(path), &text, &sources).servers {
            plan.add(&server, ImportChoices::default());
        }
        let (native, files) = plan.finish();

        let files: Vec<_> = files.iter().filter_map(|file| match &file.content {
            Content::Known(content) => Some((file.path.to_str()?, content.as_str())),
            Content::Prompt(_) => None,
        }).collect();
        let mut rows = vec![("~", "/h"), ("HOME", "/h"), ("/c.toml", native.as_str())];
        rows.extend(files);
        let native = load(&["/c.toml".into()], &Table::from_rows(&rows)).unwrap_or_else(|error| panic!("{native}\n{error}"));
        for native in native.config.servers {
            let theirs = theirs.iter().find(|theirs| theirs.name == native.name).expect("it came from there");
            match (&native.launch, &theirs.launch) {
                (Ok(native), Ok(theirs)) => prop_assert!(native.is_equivalent(theirs)),
                (native, theirs) => prop_assert_eq!(native.as_ref().err(), theirs.as_ref().err()),
            }
            prop_assert_eq!(native.settings, theirs.settings.clone());
        }
    }
}
