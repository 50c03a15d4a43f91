//! Which files are read, and in which order.

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
        ("/etc/mcpd/config.toml", "daemon.max_message = '1MiB'\nservers.machine.command = 'x'"),
        ("/h/.config/mcpd/config.toml", "daemon.max_message = '2MiB'\nservers.user.command = 'x'"),
        ("/h/.config/mcpd/config.d/20.toml", "daemon.max_message = '4MiB'\nservers.twenty.command = 'x'"),
        ("/h/.config/mcpd/config.d/10.toml", "daemon.max_message = '3MiB'\nservers.ten.command = 'x'"),
        ("/h/.config/mcpd/config.d/.30.toml", "servers.hidden.command = 'x'"),
        ("/h/.config/mcpd/config.d/40.toml~", "servers.backup.command = 'x'"),
        ("/h/.config/mcpd/config.d/50.json", "no"),
        ("/alone.toml", "servers.alone.command = 'x'"),
    ]);
    assert_eq!(names(&sources, &[]), ["machine", "user", "ten", "twenty"]);
    let loaded = load(&[], &sources).expect("fine");
    assert_eq!((loaded.config.daemon.max_message_bytes, loaded.files.len()), (4 << 20, 4));
    assert_eq!(names(&sources, &["/alone.toml"]), ["alone"]);
}

#[test]
fn a_file_that_is_named_twice_is_read_once() {
    let sources = Table::from([("/c.toml", OK), ("/alias link", "/c.toml"), ("/alias", "")]);
    assert_eq!(names(&sources, &["/c.toml", "/alias", "/c.toml"]), ["a"]);
}

#[test]
fn files_are_bounded_in_number() {
    let files: Vec<_> = (0..300).map(|n| format!("/{n}.toml")).collect();
    let mut sources = Table::default();
    files.iter().for_each(|file| sources.insert(file, ""));
    let printed = refused(&sources, &files.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(printed.contains("cannot read /256.toml: there are more than 256 files of configuration"), "{printed}");
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
    }
}
