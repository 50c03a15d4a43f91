//! Which files are read, in which order, and what includes what.

use super::*;

/// The names of the servers, in order.
fn names(sources: &Table, files: &[&str]) -> Vec<String> {
    let files: Vec<_> = files.iter().map(PathBuf::from).collect();
    let loaded = load(&files, sources).unwrap_or_else(|error| panic!("{error}"));
    loaded.config.servers.iter().map(|server| server.name.to_string()).collect()
}

fn refused(sources: &Table, files: &[&str]) -> String {
    let files: Vec<_> = files.iter().map(PathBuf::from).collect();
    load(&files, sources).expect_err("refused").to_string()
}

#[test]
fn the_files_of_the_machine_the_user_and_those_beside_it_are_layers() {
    let sources = Table::from([
        ("~", "/h"),
        ("/etc/mcpd/config.toml", "daemon.max_starting = 1\nservers.machine.command = 'x'"),
        ("/h/.config/mcpd/config.toml", "daemon.max_starting = 2\nservers.user.command = 'x'"),
        ("/h/.config/mcpd/config.d/20.toml", "daemon.max_starting = 4\nservers.twenty.command = 'x'"),
        ("/h/.config/mcpd/config.d/10.toml", "daemon.max_starting = 3\nservers.ten.command = 'x'"),
        ("/h/.config/mcpd/config.d/.30.toml", "servers.hidden.command = 'x'"),
        ("/h/.config/mcpd/config.d/40.toml~", "servers.backup.command = 'x'"),
        ("/h/.config/mcpd/config.d/50.json", "no"),
        ("/alone.toml", "servers.alone.command = 'x'"),
    ]);
    assert_eq!(names(&sources, &[]), ["machine", "user", "ten", "twenty"]);
    let loaded = load(&[], &sources).expect("fine");
    assert_eq!((loaded.config.daemon.max_starting, loaded.files.len()), (4, 4));
    assert_eq!(names(&sources, &["/alone.toml"]), ["alone"]);
}

#[test]
fn what_a_file_includes_is_read_once_just_below_it() {
    let sources = Table::from([
        ("~", "/h"),
        (
            "/d/c.toml",
            "include = ['sub/a.toml', '~/b.toml', '/clients/mcp.json']\ndaemon.max_starting = 2\nservers.c.command = 'x'",
        ),
        (
            "/d/sub/a.toml",
            "include = ['deep.toml']\ndaemon.max_starting = 7\ndaemon.call_history = 20\nservers.a.command = 'x'",
        ),
        ("/d/sub/deep.toml", "daemon.call_history = 30\nservers.deep.command = 'x'"),
        ("/h/b.toml", "include = ['/d/sub/deep.toml']\nservers.b.command = 'x'"),
        ("/clients/mcp.json", r#"{"mcpServers": {"j": {"command": "x"}}}"#),
    ]);
    assert_eq!(names(&sources, &["/d/c.toml"]), ["deep", "a", "b", "j", "c"]);
    let daemon = load(&[PathBuf::from("/d/c.toml")], &sources).expect("fine").config.daemon;
    assert_eq!((daemon.max_starting, daemon.calls.history), (2, 20));
    assert_eq!(names(&sources, &["/d/c.toml", "/h/b.toml", "/d/c.toml"]).len(), 5);
}

#[test]
fn a_file_that_cannot_be_included_is_an_error_at_its_place() {
    let check = |text: &str, expected: &str| {
        let sources = Table::from([
            ("/c.toml", text),
            ("/around.toml", "\ninclude = ['c.toml']"),
            ("/alias link", "/c.toml"),
            ("/alias", ""),
            ("/theirs.toml", ""),
            ("/theirs.toml owner", "7"),
            ("/bad.toml", "x = 1"),
            ("NOTHING", ""),
        ]);
        let printed = refused(&sources, &["/c.toml"]);
        assert!(printed.contains(expected), "{printed}");
    };
    check("include = ['none.toml']", "cannot read /none.toml: there is none\n --> /c.toml:1:12");
    check("include = ['c.toml']", "files include each other in a cycle: /c.toml → /c.toml");
    check("include = ['alias']", "in a cycle: /c.toml → /alias");
    check("include = ['around.toml']", "in a cycle: /c.toml → /around.toml → /c.toml");
    check("include = ['around.toml']", "--> /around.toml:2:12");
    check("include = ['theirs.toml']", "cannot read /theirs.toml: it belongs to user 7");
    check("include = ['bad.toml']", "--> /bad.toml:1:1");
    check("include = 'bad.toml'", "`include` must be a list of strings");
    check("include = [5]", "each item of `include` must be a string");
    check(
        "include = ['${NONE}']",
        "`include` cannot be filled in: environment variable `NONE` is not set in mcpd's environment: write `${NONE:-DEFAULT}` for a default",
    );
    check("include = ['${NOTHING:-}']", "`include` is empty");
    check("include = ['${file:/bad.toml}']", "`include` cannot come from a file or a credential");
    check("[servers.a]\ncommand = 'x'\ninclude = []", "unknown key `include`");
}

#[test]
fn included_files_are_bounded_in_depth_and_in_number() {
    let files: Vec<_> = (0..300).map(|n| format!("/{n}.toml")).collect();
    let next: Vec<_> = (1..=300).map(|n| format!("include = ['{n}.toml']")).collect();
    let mut sources = Table::default();
    for (file, text) in files.iter().zip(&next) {
        sources.insert(file, text);
    }
    let printed = refused(&sources, &["/0.toml"]);
    assert!(printed.contains("files include each other more than 8 deep\n --> /8.toml:1:12"), "{printed}");
    let all: Vec<_> = files.iter().map(|file| format!("'{file}'")).collect();
    let mut sources = Table::default();
    sources.insert("/c.toml", &format!("include = [{}]", all.join(", ")));
    files.iter().for_each(|file| sources.insert(file, ""));
    let printed = refused(&sources, &["/c.toml"]);
    assert!(printed.contains("cannot read /255.toml: there are more than 256 files of configuration"), "{printed}");
}

#[test]
fn a_file_that_others_could_have_written_is_refused() {
    for (row, value, complaint) in [
        ("/c.toml owner", "1001", "it belongs to user 1001"),
        ("/c.toml mode", "666", "everybody may write to it (mode 0666)"),
    ] {
        let sources = Table::from([("/c.toml", OK), (row, value)]);
        let printed = refused(&sources, &["/c.toml"]);
        assert!(printed.starts_with("error: cannot read /c.toml: ") && printed.contains(complaint), "{printed}");
    }
    let sources = Table::from([("/c.toml", OK), ("/c.toml owner", "0"), ("/c.toml mode", "644")]);
    assert_eq!(names(&sources, &["/c.toml"]), ["a"]);
}

#[test]
fn files_that_are_none_are_refused_where_they_are_looked_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = |name: &str| directory.path().join(name);
    std::os::unix::fs::symlink(path("loop"), path("loop")).expect("a link");
    rustix::fs::mkfifoat(rustix::fs::CWD, path("fifo"), rustix::fs::Mode::RUSR).expect("a FIFO");
    std::fs::create_dir(path("directory")).expect("a directory");
    std::fs::write(path("large"), vec![b'#'; 5 << 20]).expect("a file");
    for (name, complaint) in [
        ("loop", "Too many levels of symbolic links"),
        ("fifo", "it is no regular file"),
        ("directory", "it is no regular file"),
        ("large", "it is larger than 4194304 bytes"),
    ] {
        let error = load(&[path(name)], &Process).expect_err(name).to_string();
        assert!(error.contains(complaint), "{error}");
        std::fs::write(path("c.toml"), format!("include = ['{name}']")).expect("a file");
        let error = load(&[path("c.toml")], &Process).expect_err(name).to_string();
        assert!(error.contains(complaint) && error.contains("c.toml:1:12"), "{error}");
    }
}
