//! Files, as they are found and left.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::config::edit::file::{ConfigFile, WriteError};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it is there").permissions().mode() & 0o7777
}

fn place() -> tempfile::TempDir {
    tempfile::tempdir().expect("a directory")
}

fn entries(directory: &Path) -> usize {
    fs::read_dir(directory).expect("a directory").count()
}

#[test]
fn a_new_file_and_its_directories_are_for_their_owner_only() {
    let place = place();
    let path = place.path().join("a/b/config.toml");
    let file = ConfigFile::open(&path).expect("no file is fine");
    assert_eq!((file.text(), file.path()), ("", &*path));
    file.write("x = 1\n").expect("written");
    assert_eq!(fs::read_to_string(&path).expect("text"), "x = 1\n");
    assert_eq!(
        [&place.path().join("a"), &place.path().join("a/b"), &path].map(|path| mode(path)),
        [0o700, 0o700, 0o600]
    );
    assert_eq!(entries(&place.path().join("a/b")), 1);
}

#[test]
fn a_file_keeps_its_mode_and_a_link_stays_a_link() {
    let place = place();
    let (real, link) = (place.path().join("dotfiles/mcpd.toml"), place.path().join("config.toml"));
    fs::create_dir(place.path().join("dotfiles")).expect("a directory");
    symlink("dotfiles/mcpd.toml", place.path().join("between")).expect("a link");
    symlink("between", &link).expect("a link");
    let edit = |text: &str| {
        let file = ConfigFile::open(&link).expect("readable");
        assert_eq!(file.path(), real);
        file.write(text).expect("written");
        assert_eq!(fs::read_to_string(&real).expect("text"), text);
        assert!(link.is_symlink() && place.path().join("between").is_symlink());
    };
    edit("a = 1\n");
    assert_eq!(mode(&real), 0o600);
    fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).expect("our own");
    edit("a = 2\n");
    assert_eq!(mode(&real), 0o640);
}

#[test]
fn what_somebody_else_wrote_is_not_written_over() {
    let place = place();
    let path = place.path().join("config.toml");
    let changed = |file: ConfigFile| matches!(file.write("mine"), Err(WriteError::Changed(at)) if at == path);
    let file = ConfigFile::open(&path).expect("no file is fine");
    fs::write(&path, "theirs").expect("written");
    assert!(changed(file));
    let file = ConfigFile::open(&path).expect("readable");
    fs::write(&path, "newer").expect("written");
    assert!(changed(file));
    let file = ConfigFile::open(&path).expect("readable");
    fs::remove_file(&path).expect("removed");
    assert!(changed(file));
    assert_eq!(entries(place.path()), 0);
}

#[test]
fn what_is_no_file_is_refused() {
    let place = place();
    let link = place.path().join("loop");
    symlink("loop", &link).expect("a link");
    let refused = |path: &Path| ConfigFile::open(path).expect_err("refused").to_string();
    assert!(refused(&link).contains("symbolic links"), "{}", refused(&link));
    assert_eq!(refused(place.path()), "it is no regular file");
    let path = place.path().join("latin1.toml");
    fs::write(&path, b"# \xe9").expect("written");
    assert_eq!(ConfigFile::open(&path).expect_err("refused").kind(), ErrorKind::InvalidData);
    let beneath = ConfigFile::open(&path.join("config.toml"));
    assert!(beneath.is_err() || beneath.is_ok_and(|file| file.write("").is_err()));
}
