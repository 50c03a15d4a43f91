//! `mcpd edit`: only a valid edit is saved, and it is applied.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::support::{MCPD, Place, Ran, SCRIPTED, Server, Setup, Terminal, quoted, run, skipped};

const VALID: &str = "[servers.a] # mine\ncommand = 'true'\n";

/// A place whose user has this configuration.
fn configured_place(text: &str) -> (Rc<Place>, PathBuf) {
    let place = Place::new();
    let path = place.write_user_config(text);
    (place, path)
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).expect("text")
}

/// A program that edits `$1` by these shell commands. `$n` is the number of the run, and each run keeps what it was shown in `shown-N`.
fn editor(place: &Place, script: &str) -> String {
    let count = quoted(place.path("runs"));
    let shown = quoted(place.path("shown"));
    let text = format!("#!/bin/sh\nset -e\necho x >> {count}\nn=$(wc -l < {count})\ncp \"$1\" {shown}-$n\n{script}\n");
    place.write_program("editor", text).display().to_string()
}

/// Runs `mcpd edit` with an editor of this script.
fn edit(place: &Place, script: &str, args: &[&str]) -> Ran {
    let editor = editor(place, script);
    run(place.command(MCPD).env("EDITOR", editor).arg("--runtime-dir").arg(place.runtime_dir()).arg("edit").args(args))
}

#[test]
fn valid_edit_is_saved_in_place_and_applied() {
    let (place, path) = configured_place("");
    let real = place.write("dotfiles.toml", Server::named("first").toml(&place));
    fs::set_permissions(&real, Permissions::from_mode(0o640)).expect("the test's own");
    fs::remove_file(&path).expect("it is there");
    symlink("../../dotfiles.toml", &path).expect("a link");
    let before = fs::metadata(&real).expect("it is there");
    let daemon = Setup::new().without_config().start_in(&place);
    let pid = daemon.server_pid("first");
    let added = format!(
        "printf '[servers.x]\\ncommand = \"%s\"\\nargs = [\"--bare\", \"--tool\", \"one\"]\\n' '{SCRIPTED}' >> \"$1\""
    );
    let ran = edit(&place, &added, &[]).expect_code(0);
    assert_eq!(ran.stdout, "kept         first\nadded        x\nx: agents see 1 tool: x__one\n");
    assert_eq!(ran.stderr, format!("mcpd: saved {}\n", path.display()));
    let after = fs::metadata(&real).expect("it is there");
    assert!(path.is_symlink() && read(&real).contains("[servers.x]"));
    assert_eq!((after.mode(), after.uid(), after.gid()), (before.mode(), before.uid(), before.gid()));
    assert_eq!(daemon.server_pid("first"), pid);
    let ran = edit(&place, "printf '[servers.y]\\ncommand = \"no-such\"\\n' >> \"$1\"", &[]).expect_code(1);
    assert!(ran.stdout.contains("not started  y: command `no-such` not found"), "{ran}");
    let ran = edit(&place, "printf '# end\\n' >> \"$1\"", &["--no-reload"]).expect_code(0);
    assert!(ran.stderr.ends_with("run `mcpd reload` to apply the change to the running daemon\n"), "{ran}");
}

#[test]
fn mistakes_are_shown_at_their_lines_until_they_are_mended_and_never_saved() {
    let (place, path) = configured_place(VALID);
    let script = "case $n in\n1) printf '[servers.b]\\ncomand = \"y\"\\nlog_arguments = 3\\n' >> \"$1\";;\n\
                  2) sed -i 's/comand/command/' \"$1\";;\n*) sed -i 's/= 3/= true/' \"$1\";;\nesac";
    let ran = edit(&place, script, &[]).expect_code(0);
    assert!(ran.stderr.contains("config.toml:4:1") && ran.stderr.contains("saved"), "{ran}");
    let shown = read(&place.path("shown-2"));
    let lines: Vec<_> = shown.lines().collect();
    let at = lines.iter().position(|line| line.starts_with("comand")).expect("the line of the mistake");
    assert!(lines[at - 1].starts_with("#mcpd! ") && shown.contains("#mcpd! unknown key `comand`"), "{shown}");
    let third = read(&place.path("shown-3"));
    assert!(
        !third.contains("unknown key") && third.contains("#mcpd! `log_arguments` must be true or false\n"),
        "{third}"
    );
    assert_eq!(read(&path), format!("{VALID}[servers.b]\ncommand = \"y\"\nlog_arguments = true\n"));
    assert_eq!(fs::read_dir(place.path("tmp")).expect("a directory").count(), 0, "no copy is left");
}

#[test]
fn edit_that_stays_invalid_is_dropped() {
    let (place, path) = configured_place(VALID);
    let ran = edit(&place, "[ $n -gt 1 ] || printf '[servers.b\\n' >> \"$1\"", &[]).expect_code(2);
    assert!(ran.stderr.contains("mcpd: the edit is dropped, nothing is changed in"), "{ran}");
    assert_eq!((read(&path), read(&place.path("runs"))), (VALID.to_owned(), "x\nx\n".to_owned()));
}

#[test]
fn nothing_is_saved_without_a_change() {
    let (place, path) = configured_place(VALID);
    let daemon = Setup::new().without_config().start_in(&place);
    let before = fs::metadata(&path).expect("it is there").ino();
    for (script, code, says) in [
        ("true", 0, "mcpd: nothing is changed in"),
        ("echo '# x' >> \"$1\"; exit 3", 1, "failed: exit status: 3"),
        ("echo '# x' >> \"$1\"; kill -9 $$", 1, "failed: signal: 9"),
    ] {
        let ran = edit(&place, script, &[]).expect_code(code);
        assert!(ran.stderr.contains(says) && ran.stdout.is_empty(), "{ran}");
    }
    assert_eq!((fs::metadata(&path).expect("it is there").ino(), read(&path)), (before, VALID.to_owned()));
    assert!(!daemon.log().contains("reloaded"), "{}", daemon.log());
}

#[test]
fn new_file_begins_with_commented_examples() {
    let place = Place::new();
    edit(&place, "true", &[]).expect_code(0);
    assert!(!place.user_config().exists());
    let shown = read(&place.path("shown-1"));
    assert!(shown.lines().all(|line| line.is_empty() || line.starts_with('#')), "{shown}");
    edit(&place, "sed -i 's/^# \\[servers.search/[servers.search/; s/^# url/url/' \"$1\"", &[]).expect_code(0);
    assert!(read(&place.user_config()).contains("\n[servers.search]\nurl = \"https://example.org/mcp\"\n"));
    assert_eq!(fs::metadata(place.user_config()).expect("it is there").mode() & 0o7777, 0o600);
}

#[test]
fn change_by_another_program_is_not_overwritten() {
    let (place, path) = configured_place(VALID);
    let other = format!("printf '# a\\n' >> \"$1\"; printf '# b\\n' >> {}", quoted(&path));
    let ran = edit(&place, &other, &[]).expect_code(1);
    assert!(ran.stderr.contains("was changed by another program meanwhile"), "{ran}");
    assert_eq!(read(&path), format!("{VALID}# b\n"));
    let copy = ran.stderr.lines().find_map(|line| line.trim().strip_prefix("your text is in ")).expect("a copy");
    assert_eq!(read(Path::new(copy)), format!("{VALID}# a\n"));
}

#[test]
fn second_of_two_edits_at_once_keeps_its_text() {
    let (place, path) = configured_place(VALID);
    let inner = format!(
        "if [ $n = 1 ]; then printf '# outer\\n' >> \"$1\"; {} edit >&2; else printf '# inner\\n' >> \"$1\"; fi",
        quoted(MCPD)
    );
    let ran = edit(&place, &inner, &[]).expect_code(1);
    assert_eq!(read(&path), format!("{VALID}# inner\n"));
    let copy = ran.stderr.lines().find_map(|line| line.trim().strip_prefix("your text is in ")).expect("a copy");
    assert_eq!(read(Path::new(copy)), format!("{VALID}# outer\n"));
}

#[test]
fn errors_of_other_files_do_not_prevent_an_edit() {
    let (place, path) = configured_place(VALID);
    fs::create_dir(place.path("xdg-config/mcpd/config.d")).expect("a fresh directory");
    place.write("xdg-config/mcpd/config.d/b.toml", "[servers.b]\ncomand = 'x'\n");
    let ran = edit(&place, "echo '# x' >> \"$1\"", &[]).expect_code(2);
    assert!(ran.stderr.contains("not applied: other files of the configuration have errors"), "{ran}");
    assert_eq!(read(&path), format!("{VALID}# x\n"));
    place.write("xdg-config/mcpd/config.d/b.toml", "[servers.b]\ncommand = 'x'\n");
    let ran = edit(&place, "[ $n -gt 3 ] || printf '[servers.b]\\ncommand = \"y\"\\n' >> \"$1\"", &[]).expect_code(2);
    assert!(ran.stderr.contains("configured twice") && read(&path) == format!("{VALID}# x\n"), "{ran}");
}

#[test]
fn editor_is_found_in_variables_then_on_the_path() {
    let (place, path) = configured_place(VALID);
    let script = place.write_program("split", "#!/bin/sh\nprintf '# %s|%s\\n' \"$#\" \"$1\" >> \"$2\"\n");
    place.write_program("bin/nano", "#!/bin/sh\necho '# nano' >> \"$1\"\n");
    let edit = |variables: &[(&str, &str)], path: &str| {
        run(place.command(MCPD).envs(variables.iter().copied()).env("PATH", path).arg("edit"))
    };
    let usual = std::env::var("PATH").expect("PATH is set");
    let bin = place.path("bin").display().to_string();
    let with_option = format!("{} 'an option'", script.display());
    edit(&[("VISUAL", &with_option), ("EDITOR", "no-such-editor")], &usual).expect_code(0);
    assert_eq!(read(&path), format!("{VALID}# 2|an option\n"));
    let ran = edit(&[("VISUAL", " "), ("EDITOR", "no-such-editor -x")], &usual).expect_code(1);
    assert!(ran.stderr.contains("the editor `no-such-editor` cannot be started"), "{ran}");
    let ran = edit(&[("EDITOR", "vi 'x")], &usual).expect_code(1);
    assert!(ran.stderr.contains("`EDITOR` has an open quote"), "{ran}");
    edit(&[], &bin).expect_code(0);
    assert!(read(&path).ends_with("# nano\n"));
    let ran = edit(&[], "/nonexistent").expect_code(1);
    assert!(
        ran.stderr.contains("no editor is found: set EDITOR, or install one of sensible-editor, nano, vi"),
        "{ran}"
    );
}

#[test]
fn terminal_offers_to_edit_again_or_to_drop() {
    let (place, path) = configured_place(VALID);
    let Some(terminal) = Terminal::open(&place, 100, 30) else { return };
    let editor = editor(
        &place,
        "[ $n -gt 2 ] && sed -i 's/comand/command/' \"$1\" || printf '[servers.b]\\ncomand = \"y\"\\n' > \"$1\"",
    );
    terminal.line(&format!("export EDITOR={}", quoted(&editor)));
    terminal.line("m edit");
    terminal.wait("Edit again? [Y/n]");
    terminal.line("n");
    terminal.wait("the edit is dropped");
    assert_eq!(read(&path), VALID);
    terminal.line("clear; m edit");
    terminal.wait("Edit again? [Y/n]");
    terminal.key("Enter");
    terminal.wait("mcpd: saved");
    assert_eq!(read(&path), "[servers.b]\ncommand = \"y\"\n");
}

#[test]
fn file_that_cannot_be_replaced_stays_and_a_copy_of_the_text_is_named() {
    if rustix::process::geteuid().is_root() {
        return skipped("root can write everywhere");
    }
    let (place, path) = configured_place(VALID);
    let directory = path.parent().expect("a directory");
    fs::set_permissions(directory, Permissions::from_mode(0o555)).expect("the test's own");
    for args in [&["add", "x", "--", "true"][..], &["remove", "a"], &["disable", "a", "--keep"]] {
        let ran = place.mcpd(args).expect_code(1);
        assert!(ran.stderr.contains("cannot write"), "{ran}");
    }
    let ran = edit(&place, "echo '# x' >> \"$1\"", &[]).expect_code(1);
    let copy = ran.stderr.lines().find_map(|line| line.trim().strip_prefix("your text is in ")).expect("a copy");
    assert_eq!((read(Path::new(copy)), read(&path)), (format!("{VALID}# x\n"), VALID.to_owned()));
    fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("the test's own");
}
