//! The forms of `${…}` as a table.

pub(crate) mod table;

use self::table::Table;
use super::super::CommandOutputs;
use super::*;

fn table() -> Table {
    Table::from([
        ("NAME", "value"),
        ("EMPTY", ""),
        ("NESTED", "${NAME}"),
        ("file", "a variable of that name"),
        ("~", "/home/u"),
        ("/etc/token", "secret\n"),
        ("/etc/two", "a\n\n"),
        ("/etc/dos", "a\r\n"),
        ("/etc/dos-two", "a\r\n\r\n"),
        ("/etc/return", "a\r"),
        ("/etc/nul", "a\0b"),
        ("/etc/empty", "\n"),
        ("/home/u/token", "from home"),
        ("CREDENTIALS_DIRECTORY", "/run/creds"),
        ("/run/creds/db", "from systemd\n"),
    ])
}

fn check(text: &str, expected: &str) {
    let filled = Template::parse(text).expect("well-formed").interpolate(&table(), &mut Secrets::default());
    assert_eq!(filled.as_deref(), Ok(expected), "{text:?}");
}

fn check_undefined(text: &str, expected: &str) {
    let undefined =
        Template::parse(text).expect("well-formed").interpolate(&table(), &mut Secrets::default()).expect_err(text);
    assert_eq!(undefined.to_string(), expected);
}

fn check_malformed(text: &str, expected: &str) {
    let malformed = Template::parse(text).expect_err(text);
    assert!(malformed.message.contains(expected), "{text:?}: {malformed:?}");
    assert!(!malformed.help.is_empty());
}

#[test]
fn variables_are_filled_in() {
    check("${NAME}", "value");
    check("a ${NAME} b${env:NAME}", "a value bvalue");
    check("${NAME:-other}", "value");
    check("${EMPTY:-other}", "other");
    check("${NONE:-other}", "other");
    check("${NONE:-}", "");
    check("${NONE:-a:-b $x}", "a:-b $x");
    check("${env:NONE:-other}", "other");
    check("${env:-other}", "other");
    check("${file}", "a variable of that name");
    check("${file:-x}", "a variable of that name");
}

#[test]
fn what_is_filled_in_is_not_looked_at_again() {
    check("${NESTED}", "${NAME}");
}

#[test]
fn a_dollar_alone_is_literal() {
    for text in ["", "$", "$$", "a$b", "$NAME", "$(x)", "100 $", "}{", "é$é", "$ {NAME}"] {
        check(text, text);
    }
    check("$${NAME}", "${NAME}");
    check("$${", "${");
    check("$$${NAME}", "$${NAME}");
    check("$$x${NAME}", "$$xvalue");
}

#[test]
fn files_and_credentials_lose_one_line_break() {
    check("${file:/etc/token}", "secret");
    check("${file:/etc/two}", "a\n");
    check("${file:/etc/dos}", "a");
    check("${file:/etc/dos-two}", "a\r\n");
    check("${file:/etc/return}", "a\r");
    check("${file:~/token}", "from home");
    check("Bearer ${cred:db}", "Bearer from systemd");
}

#[test]
fn what_is_missing_is_named() {
    check_undefined(
        "${NONE}",
        "environment variable `NONE` is not set in mcpd's environment: write `${NONE:-DEFAULT}` for a default",
    );
    check_undefined("${file:/none}", "`${file:/none}` cannot be used: /none: there is none");
    check_undefined("${cred:none}", "`${cred:none}` cannot be used: /run/creds/none: there is none");
    check_undefined(
        "${file:/etc/nul}",
        "`${file:/etc/nul}` cannot be used: /etc/nul: it contains a NUL character, which arguments and variables cannot contain",
    );
    let bare = Table::default();
    let undefined = |text: &str| {
        Template::parse_path(text).expect("well-formed").interpolate(&bare, &mut Secrets::default()).expect_err(text)
    };
    assert_eq!(undefined("~/x"), UnusableValue::Home);
    assert_eq!(undefined("${file:~/x}"), UnusableValue::Home);
    assert_eq!(undefined("${cred:db}"), UnusableValue::Credential("db".to_owned()));
}

#[test]
fn empty_value_is_an_error_unless_an_empty_default_allows_it() {
    check_undefined(
        "${EMPTY}",
        "environment variable `EMPTY` is empty: set it, or write `${EMPTY:-}` to allow an empty value",
    );
    check("${EMPTY:-}", "");
    check_undefined("Bearer ${file:/etc/empty}", "`${file:/etc/empty}` cannot be used: /etc/empty: it is empty");
}

#[test]
fn what_came_from_files_and_credentials_is_noted() {
    let mut secrets = Secrets::default();
    for text in ["a ${file:/etc/token} b ${NAME}", "${cred:db}"] {
        Template::parse(text).expect("well-formed").interpolate(&table(), &mut secrets).expect("defined");
    }
    assert_eq!(secrets.masked("secret value from systemd"), "… value …");
}

#[test]
fn references_are_distinguished_from_possible_secrets() {
    for (text, expected) in [
        ("hunter2", "…"),
        ("", ""),
        ("Bearer ${cred:x}", "…${cred:x}"),
        ("${A:-hunter2}${env:B}", "${A:-…}${B}"),
        ("$${x}${file:~/t}", "…${file:~/t}"),
        ("${agent:cwd}", "${agent:cwd}"),
    ] {
        let template = Template::parse(text).expect("well-formed");
        assert_eq!((template.references().as_str(), template.source()), (expected, text));
        assert!(!format!("{template:?}").contains("hunter2"));
    }
}

#[test]
fn programs_are_split_without_a_shell_and_run_later() {
    for (text, words) in [
        ("${cmd:op}", &["op"][..]),
        ("${cmd:op read 'op://a b/c' \"d}\" \\} $HOME *}", &["op", "read", "op://a b/c", "d}", "}", "$HOME", "*"]),
        ("${cmd:~/bin/x  -y}", &["~/bin/x", "-y"]),
        ("${cmd:sh -c 'echo {}; exit'}", &["sh", "-c", "echo {}; exit"]),
    ] {
        let template = Template::parse(text).expect("well-formed");
        let mut secrets = Secrets::default();
        let filled = template.interpolate(&table(), &mut secrets).expect("it is not run");
        assert!(filled.contains('\0') && secrets.masked(&filled) == "…", "{filled:?}");
        let commands: Vec<_> = template.commands().collect();
        assert_eq!(
            (commands[0].program(), commands[0].args()),
            (words[0], &words[1..].iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()[..])
        );
        let mut outputs = CommandOutputs::default();
        outputs.add(commands[0], "out".to_owned());
        assert_eq!(outputs.fill(&format!("a{filled}b{filled}")), "aoutbout");
    }
    check("$${cmd:op}", "${cmd:op}");
    check_malformed("${cmd:}", "needs a program");
    check_malformed("${cmd: }", "needs a program");
    check_malformed("${cmd:'' x}", "needs a program");
    check_malformed("${cmd:op 'x}", "has an open quote");
    check_malformed("${cmd:op", "never closed");
    check_malformed("${cmd:op ${NAME}}", "cannot contain another");
}

#[test]
fn programs_are_looked_for_and_shown_without_their_arguments() {
    let mut sources = table();
    [("PATH", "/bin"), ("/bin/op", ""), ("/bin/op mode", "755"), ("/home/u/op", ""), ("/home/u/op mode", "700")]
        .iter()
        .for_each(|(name, value)| sources.insert(name, value));
    for (text, missing) in [
        ("${cmd:op hunter2}", None),
        ("${cmd:~/op hunter2}", None),
        ("${cmd:/bin/op}", None),
        ("x ${cmd:opp hunter2}", Some("`${cmd:opp …}` has no value: `opp` is not found")),
        ("${cmd:/etc/token}", Some("`${cmd:/etc/token}` has no value: `/etc/token` is not found")),
    ] {
        let template = Template::parse(text).expect("well-formed");
        assert_eq!(template.undefined(&sources).map(|missing| missing.to_string()).as_deref(), missing);
        assert!(!format!("{:?}{}", template.commands().collect::<Vec<_>>(), template.references()).contains("hunter2"));
        assert!(template.names_secret());
    }
}

#[test]
fn a_path_may_begin_at_home() {
    let interpolate =
        |text: &str| Template::parse_path(text).expect("well-formed").interpolate(&table(), &mut Secrets::default());
    assert_eq!(interpolate("~/${NAME}/x"), Ok("/home/u/value/x".to_owned()));
    assert_eq!(interpolate("/a/~/b"), Ok("/a/~/b".to_owned()));
    assert_eq!(interpolate("~u/b"), Ok("~u/b".to_owned()));
}

#[test]
fn odd_references_are_refused() {
    check_malformed("${", "never closed");
    check_malformed("a ${NAME", "never closed");
    check_malformed("${}", "`${}` is not a valid reference");
    check_malformed("${1A}", "not a valid reference");
    check_malformed("${A B}", "not a valid reference");
    check_malformed("${A-b}", "not a valid reference");
    check_malformed("${é}", "not a valid reference");
    check_malformed("${:-x}", "not a valid reference");
    check_malformed("${input:token}", "not a valid reference");
    check_malformed("${A:-${B}}", "cannot contain another");
    check_malformed("${file:}", "absolute path");
    check_malformed("${file:token}", "absolute path");
    check_malformed("${cred:}", "needs the name of a credential");
    check_malformed("${cred:a/b}", "needs the name of a credential");
    check_malformed("${cred:..}", "needs the name of a credential");
    check_malformed("${agent:pid}", "is not a valid reference");
}

#[test]
fn a_syntax_error_counts_before_an_undefined_name() {
    check_malformed("${NONE} ${", "never closed");
}

#[test]
fn the_process_refuses_what_is_no_file_without_waiting() {
    let directory = tempfile::tempdir().expect("a directory");
    let fifo = directory.path().join("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).expect("a FIFO");
    for path in [fifo.as_path(), directory.path(), Path::new("/dev/null")] {
        let error = Process.read(path, 10).expect_err("refused");
        assert_eq!(error.to_string(), "it is no regular file", "{}", path.display());
    }
}

#[test]
fn the_process_bounds_what_it_reads() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("file");
    let read = |bytes: &[u8]| {
        std::fs::write(&path, bytes).expect("written");
        Process.read(&path, 10).map_err(|error| error.to_string())
    };
    assert_eq!(read(b"0123456789"), Ok("0123456789".to_owned()));
    assert_eq!(read(b"0123456789a"), Err("it is larger than 10 bytes".to_owned()));
    assert_eq!(read(b"a\n\xff"), Err("line 2, column 1: byte 0xff is not UTF-8".to_owned()));
    assert!(Process.read(Path::new("/proc/self/stat"), 10).is_err());
}
