//! Recorded and made traces, and names that a hostile server may choose.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const PYTHON_AND_GIT: &[u8] = include_bytes!("../../../tests/fixtures/traces/python-and-git.txt");
const NODE: &[u8] = include_bytes!("../../../tests/fixtures/traces/node.txt");

fn traced(lines: &[u8]) -> Observed {
    let mut tracer = Tracer::new(Limits::default());
    lines.split(|byte| *byte == b'\n').for_each(|line| tracer.line(line));
    tracer.finish()
}

/// A trace in which process 1 is a server that makes these calls.
fn of_server(calls: &[&str]) -> Observed {
    let lines: String = calls.iter().map(|call| format!("1  {call}\n")).collect();
    traced(format!("1  execve(\"/bin/server\", [\"server\"], 0x1 /* 2 vars */) = 0\n{lines}").as_bytes())
}

fn uses(observed: &Observed, path: &str) -> Vec<FileUse> {
    observed.files.get(Path::new(path)).into_iter().flatten().copied().collect()
}

#[test]
fn recorded_trace_of_python_and_git_is_read() {
    let observed = traced(PYTHON_AND_GIT);
    let programs: Vec<_> = observed.programs.iter().map(|path| path.display().to_string()).collect();
    assert_eq!(programs, ["/usr/bin/git", "/usr/bin/python3.11"]);
    // A name of the server with line feeds, quotes and the words of strace.
    let strange = "/srv/t/a\n3<-x> \"q\" <unfinished ...>";
    for (path, expected) in [
        ("/srv/t/h.py", &[FileUse::Looked, FileUse::Read][..]),
        ("/nope/id_rsa", &[FileUse::Missing]),
        ("/nope/7", &[FileUse::Missing]),
        ("/proc/1/mem", &[FileUse::Refused]),
        ("/nope/new", &[FileUse::WriteFailed]),
        ("/usr/new", &[FileUse::Wrote]),
        (strange, &[FileUse::Looked, FileUse::Wrote]),
        (&format!("{strange}/b> = 0"), &[FileUse::Wrote]),
        (&format!("{strange}/c"), &[FileUse::Wrote]),
        ("/etc/gitconfig", &[FileUse::Looked, FileUse::Read]),
        ("/srv/t/home/.gitconfig", &[FileUse::Missing]),
        ("/etc/shadow", &[]),
    ] {
        assert_eq!(uses(&observed, path), expected, "{path}");
    }
    assert_eq!(observed.hosts, BTreeSet::from(["api.example.com".to_owned()]));
    let connections: Vec<_> = observed.connections.iter().collect();
    let tcp = |text: &str| Endpoint::Tcp(text.parse().expect("an address"));
    let refused = Reach::Failed("ECONNREFUSED".to_owned());
    let missing = Reach::Failed("ENOENT".to_owned());
    assert_eq!(
        connections,
        [
            (&tcp("127.0.0.1:1"), &refused),
            (&tcp("127.0.0.1:41234"), &Reach::Reached),
            (&Endpoint::Udp("10.255.255.53:53".parse().expect("an address")), &Reach::Reached),
            (&Endpoint::Unix("/nope/agent \"x\"\n".into()), &missing),
            (&Endpoint::Unix("/var/run/nscd/socket".into()), &missing),
            (&Endpoint::Abstract("hidden \"x\"".to_owned()), &refused),
        ]
    );
    assert_eq!(observed.listeners, BTreeSet::from([tcp("127.0.0.1:41234")]));
    assert!(observed.attempts.is_empty() && !observed.is_cut);
}

#[test]
fn recorded_trace_of_node_is_read() {
    let observed = traced(NODE);
    assert_eq!(uses(&observed, "/srv/t/home/.ssh/id_rsa"), [FileUse::Missing]);
    assert!(uses(&observed, "/srv/t/note.txt").contains(&FileUse::Wrote));
    let hosts: Vec<_> = observed.hosts.iter().map(String::as_str).collect();
    assert_eq!(hosts, ["c-ares.example.org", "registry.example.net"]);
}

#[test]
fn processes_of_mcpd_above_the_server_do_not_count() {
    let observed = traced(
        b"1  execve(\"/x/mcpd-reaper\", [\"mcpd-reaper\"], 0x1 /* 2 vars */) = 0\n\
          1  openat(AT_FDCWD</>, \"/own\", O_RDONLY) = 3</own>\n\
          1  vfork( <unfinished ...>\n\
          2  execve(\"/x/mcpd\", [\"mcpd-guard\"], 0x1 /* 2 vars */ <unfinished ...>\n\
          1  <... vfork resumed>) = 2\n\
          2  <... execve resumed>) = 0\n\
          2  openat(AT_FDCWD</>, \"/own2\", O_RDONLY) = 3</own2>\n\
          2  clone(child_stack=NULL, flags=CLONE_NEWPID|SIGCHLD) = 3\n\
          3  execve(\"/bin/absent\", [\"server\"], 0x1 /* 2 vars */) = -1 ENOENT (No such file or directory)\n\
          3  execve(\"/bin/server\", [\"server\"], 0x1 /* 2 vars */) = 0\n\
          3  openat(AT_FDCWD</>, \"/read\", O_RDONLY) = 3</read>\n\
          3  clone(child_stack=NULL, flags=SIGCHLD) = 2\n\
          4  execve(\"/x/mcpd\", [\"mcpd-guard\"], 0x1 /* 2 vars */) = 0\n\
          4  openat(AT_FDCWD</>, \"/disguised\", O_RDONLY) = 3</disguised>\n",
    );
    let files: Vec<_> = observed.files.keys().map(|path| path.display().to_string()).collect();
    assert_eq!(files, ["/bin/server", "/disguised", "/read", "/x/mcpd"]);
    assert!(observed.attempts.is_empty(), "the namespace is one of mcpd");
}

#[test]
fn execution_with_arguments_that_cannot_be_read_is_one_of_mcpd() {
    let observed = traced(
        b"1  execve(\"/x/mcpd-reaper\", [\"mcpd-reaper\"], 0x1 /* 2 vars */) = 0\n\
          2  execve(0x55d0, 0x55d1, 0x55d2) = 0\n\
          3  execve(\"/proc/self/fd/6\", [\"mcpd-sandboxed\"], 0x1 /* 2 vars */) = 0\n\
          3  execve(\"/bin/server\", [\"server\"], 0x1 /* 2 vars */) = 0\n",
    );
    assert_eq!(observed.programs, BTreeSet::from([PathBuf::from("/bin/server")]));
}

#[test]
fn an_opened_file_is_the_one_that_the_descriptor_leads_to() {
    let observed = of_server(&[r#"openat(AT_FDCWD</srv>, "link", O_RDONLY|O_CLOEXEC) = 3</home/u/.ssh/id_rsa>"#]);
    assert_eq!(uses(&observed, "/home/u/.ssh/id_rsa"), [FileUse::Read]);
    assert_eq!(uses(&observed, "/srv/link"), []);
}

#[test]
fn links_of_proc_and_of_the_server_do_not_hide_a_path() {
    let start = "newfstatat(AT_FDCWD</srv/work>, \"x\", {}, 0) = 0";
    let missing = |path: &str| format!("openat(AT_FDCWD</srv/work>, \"{path}\", O_RDONLY) = -1 ENOENT (No such file)");
    let link = |target: &str, link: &str| format!("symlink(\"{target}\", \"{link}\") = 0");
    let key = "/home/u/.ssh/id_rsa";
    for (calls, expected) in [
        (vec![missing("/proc/self/root/home/u/.ssh/id_rsa")], key),
        (vec![missing("/proc/thread-self/root/proc/7/root/home/u/.ssh/id_rsa")], key),
        (vec![missing("/proc/self/task/7/root/home/u/.ssh/id_rsa")], key),
        (vec![missing("/proc/self/cwd/../../home/u/.ssh/id_rsa")], key),
        (vec![missing("/proc/self/x/root/home")], "/proc/self/x/root/home"),
        (
            vec![
                "chdir(\"/proc/self/root/home/u\") = 0".to_owned(),
                "access(\".ssh/id_rsa\", R_OK) = -1 ENOENT (No)".to_owned(),
            ],
            key,
        ),
        (vec![link("/home/u", "/tmp/l"), missing("/tmp/l/.ssh/id_rsa")], key),
        (vec![link("/proc/self/root/home", "/tmp/l"), link("l/u", "/tmp/m"), missing("/tmp/m/.ssh/id_rsa")], key),
        (vec![link("../../home", "l"), missing("l/../home/u/.ssh/id_rsa")], key),
        (vec![link("/loop", "/loop"), missing("/loop/x")], "/loop/x"),
    ] {
        let calls: Vec<_> = [start].into_iter().chain(calls.iter().map(String::as_str)).collect();
        assert_eq!(uses(&of_server(&calls), expected), [FileUse::Missing], "{calls:?}");
    }
    let calls = ["symlinkat(\"/home/u/.aws\", 4</tmp>, \"l\") = 0"];
    assert_eq!(uses(&of_server(&calls), "/home/u/.aws"), [FileUse::Linked]);
    assert_eq!(uses(&of_server(&calls), "/tmp/l"), [FileUse::Wrote]);
}

#[test]
fn relative_paths_follow_the_working_directory_of_their_process_and_its_threads() {
    let observed = traced(
        b"1  execve(\"/bin/server\", [\"server\"], 0x1 /* 2 vars */) = 0\n\
          1  openat(AT_FDCWD</srv>, \"a\", O_RDONLY) = 3</srv/a>\n\
          1  clone3({flags=CLONE_VM|CLONE_FS|CLONE_THREAD} => {parent_tid=[2]}, 88) = 2\n\
          2  chdir(\"b\") = 0\n\
          1  unlink(\"c\") = 0\n\
          1  vfork( <unfinished ...>\n\
          3  chdir(\"/tmp\") = 0\n\
          3  mkdir(\"d\", 0777) = 0\n\
          1  <... vfork resumed>) = 3\n\
          1  rename(\"e\", \"../f\") = 0\n\
          1  fchdir(3</opt>) = 0\n\
          2  rmdir(\"g\") = 0\n",
    );
    let wrote = observed.files.iter().filter(|(_, uses)| uses.contains(&FileUse::Wrote));
    let wrote: Vec<_> = wrote.map(|(path, _)| path.display().to_string()).collect();
    assert_eq!(wrote, ["/opt/g", "/srv/b/c", "/srv/b/e", "/srv/f", "/tmp/d"]);
}

#[test]
fn what_no_ordinary_server_does_is_recorded() {
    for (call, expected) in [
        ("ptrace(PTRACE_ATTACH, 7) = -1 EPERM (Operation not permitted)", Attempt::Trace),
        ("unshare(CLONE_NEWUSER) = -1 EPERM (Operation not permitted)", Attempt::Namespace),
        ("clone(child_stack=NULL, flags=CLONE_NEWUSER|SIGCHLD) = 4", Attempt::Namespace),
        ("kill(4, SIGKILL) = -1 EPERM (Operation not permitted)", Attempt::Signal),
        (r#"mount("a", "/b", "tmpfs", 0, NULL) = -1 EPERM (Operation not permitted)"#, Attempt::Mount),
        ("io_uring_setup(8, {}) = -1 ENOSYS (Function not implemented)", Attempt::IoUring),
    ] {
        assert_eq!(of_server(&[call]).attempts, BTreeSet::from([expected]), "{call}");
    }
    assert!(of_server(&["kill(4, SIGTERM) = 0", "clone(flags=SIGCHLD) = 4"]).attempts.is_empty());
}

#[test]
fn host_names_are_read_from_each_way_of_sending() {
    let question = r#""\0224\1\0\0\1\0\0\0\0\0\0\3abc\7example\3com\0\0\1\0\1""#;
    let to = r#"{sa_family=AF_INET, sin_port=htons(53), sin_addr=inet_addr("127.0.0.53")}"#;
    let elsewhere = to.replace("53)", "5353)");
    let socket = "socket(AF_INET, SOCK_DGRAM, IPPROTO_IP) = 3<socket:[9]>";
    for (calls, is_found) in [
        (vec![format!("sendto(3<socket:[9]>, {question}, 33, 0, {to}, 16) = 33")], true),
        (
            vec![
                format!("connect(3<socket:[9]>, {to}, 16) = 0"),
                format!("sendto(3<socket:[9]>, {question}, 33, 0, NULL, 0) = 33"),
            ],
            true,
        ),
        (vec![format!("sendto(3<socket:[9]>, {question}, 33, 0, {elsewhere}, 16) = 33")], false),
        (
            vec![format!(
                r#"sendmsg(3<socket:[9]>, {{msg_name={to}, msg_iov=[{{iov_base="\0224\1\0\0\1\0\0\0\0\0\0\3abc", iov_len=16}}, {{iov_base="\7example\3com\0\0\1\0\1", iov_len=17}}], msg_iovlen=2}}, 0) = 33"#
            )],
            true,
        ),
        // The answer of a server.
        (
            vec![format!(
                "sendto(3<socket:[9]>, {}, 33, 0, {to}, 16) = 33",
                question.replacen(r"\1\0\0\1", r"\201\0\0\1", 1)
            )],
            false,
        ),
    ] {
        let calls: Vec<_> = [socket].into_iter().chain(calls.iter().map(String::as_str)).collect();
        let observed = of_server(&calls);
        assert_eq!(observed.hosts.contains("abc.example.com"), is_found, "{calls:?}");
    }
    let stream = r#"{sa_family=AF_INET6, sin6_port=htons(53), sin6_flowinfo=htonl(0), inet_pton(AF_INET6, "::1", &sin6_addr), sin6_scope_id=0}"#;
    let observed = of_server(&[
        "socket(AF_INET6, SOCK_STREAM, IPPROTO_IP) = 3<socket:[9]>",
        &format!("connect(3<socket:[9]>, {stream}, 28) = -1 EINPROGRESS (Operation now in progress)"),
        r#"sendto(3<socket:[9]>, "\0\37\0224\1\0\0\1\0\0\0\0\0\0\3abc\3com\0\0\1\0\1", 33, 0, NULL, 0) = 33"#,
    ]);
    assert!(observed.hosts.contains("abc.com"));
    assert_eq!(observed.connections.get(&Endpoint::Tcp("[::1]:53".parse().expect("an address"))), Some(&Reach::Begun));
}

#[test]
fn sockets_of_datagrams_count_only_if_something_is_sent() {
    let address = r#"{sa_family=AF_INET, sin_port=htons(443), sin_addr=inet_addr("192.0.2.1")}"#;
    let socket = "socket(AF_INET, SOCK_DGRAM|SOCK_CLOEXEC, IPPROTO_IP) = 3<socket:[9]>";
    let connect = format!("connect(3<socket:[9]>, {address}, 16) = 0");
    assert!(of_server(&[socket, &connect]).connections.is_empty());
    let observed = of_server(&[socket, &connect, r#"sendto(3<socket:[9]>, "x", 1, 0, NULL, 0) = 1"#]);
    assert_eq!(
        observed.connections.keys().collect::<Vec<_>>(),
        [&Endpoint::Udp("192.0.2.1:443".parse().expect("an address"))]
    );
}

#[test]
fn everything_collected_is_bounded_and_says_so() {
    let limits = Limits { paths: 10, others: 10, live: 10 };
    let mut tracer = Tracer::new(limits);
    tracer.line(b"1  execve(\"/bin/server\", [\"server\"], 0x1) = 0");
    assert!(!tracer.observed.is_cut);
    for number in 2..100 {
        tracer.line(format!("{number}  openat(AT_FDCWD</>, \"/{number}\", O_RDONLY) = 3</{number}>").as_bytes());
        tracer.line(format!("{number}  execve(\"/bin/{number}\", [\"mcpd-guard\"], 0x1) = 0").as_bytes());
        tracer.line(format!("{number}  socket(AF_INET, SOCK_STREAM, IPPROTO_IP) = 3<socket:[{number}]>").as_bytes());
        tracer.line(
            format!("{number}  connect(3<socket:[{number}]>, {{sin_port=htons({number}), sin_addr=inet_addr(\"127.0.0.1\")}}, 16) = 0")
                .as_bytes(),
        );
        tracer.line(format!("{number}  clone(flags=SIGCHLD <unfinished ...>").as_bytes());
    }
    let observed = &tracer.observed;
    assert_eq!(
        (observed.files.len(), observed.programs.len(), observed.connections.len(), observed.is_cut),
        (10, 10, 10, true)
    );
    assert!(tracer.processes.len() <= 11 && tracer.sockets.len() <= 10 && tracer.unfinished.len() <= 10);
}

#[test]
fn a_program_is_seen_however_long_its_arguments_are_and_whichever_thread_executes_it() {
    let long = format!(
        "2  execve(\"/bin/git\", [\"{}\"], 0x1 <unfinished ...>\n2  <... execve resumed>) = 0",
        "x".repeat(100_000)
    );
    let thread = "3  execve(\"/bin/sh\", [\"sh\"], 0x1 <pid changed to 1 ...>\n1  +++ superseded by execve in pid 3 +++\n1  <... execve resumed>) = 0";
    for (lines, program) in [(long.as_str(), "/bin/git"), (thread, "/bin/sh")] {
        let text = format!("1  execve(\"/bin/server\", [\"server\"], 0x1) = 0\n{lines}");
        assert!(traced(text.as_bytes()).programs.contains(Path::new(program)), "{program}");
    }
}

/// `text` as strace writes it in quotes.
fn escaped(text: &[u8], in_brackets: bool) -> String {
    let mut escaped = String::new();
    for byte in text {
        match byte {
            b'\n' => escaped += "\\n",
            b'"' | b'\\' => escaped.extend(['\\', char::from(*byte)]),
            b'<' | b'>' if in_brackets => escaped += &format!("\\{byte:03o}"),
            b' '..=b'~' => escaped.push(char::from(*byte)),
            _ => escaped += &format!("\\{byte:03o}"),
        }
    }
    escaped
}

/// Texts that a server may choose, often with the syntax of strace in it.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let part = prop_oneof![
        prop::collection::vec(1..=255_u8, 0..8)
            .prop_map(|bytes| bytes.into_iter().filter(|byte| *byte != b'/').collect()),
        prop::sample::select(vec![
            " <unfinished ...>",
            "\n9  open(\"",
            "\", O_RDWR) = 3<",
            ">",
            "<... open resumed>",
            ") = -1 ENOENT (",
            "+++ exited with 0 +++",
            "sin_port=htons(53)",
            "AT_FDCWD<",
            "CLONE_NEWUSER",
            "\\",
            "\"",
            "...",
            "{iov_base=",
            ", [",
            "O_CREAT",
        ])
        .prop_map(|text: &str| text.as_bytes().to_vec()),
    ];
    prop::collection::vec(part, 1..6)
        .prop_map(|parts: Vec<Vec<u8>>| parts.concat())
        .prop_filter("a name", |name| !name.is_empty() && *name != b"." && *name != b"..")
}

proptest! {
    #[test]
    fn a_name_of_the_server_is_only_ever_a_name(name in hostile(), is_split: bool) {
        let (quoted, bracketed) = (escaped(&name, false), escaped(&name, true));
        let (before, after) = (format!("openat(AT_FDCWD</srv>, \"{quoted}\", O_RDONLY"), format!(") = 3</srv/{bracketed}>"));
        let opened = match is_split {
            true => vec![format!("{before} <unfinished ...>"), format!("<... openat resumed>{after}")],
            false => vec![format!("{before}{after}")],
        };
        let missing = format!("newfstatat(AT_FDCWD</srv>, \"/no/{quoted}\", 0x1, 0) = -1 ENOENT (No such file or directory)");
        let calls: Vec<_> = opened.iter().chain([&missing]).map(String::as_str).collect();
        let observed = of_server(&calls);
        let named = |base: &str| Path::new(base).join(path_of(name.clone()));
        let expected = BTreeMap::from([
            (PathBuf::from("/bin/server"), BTreeSet::from([FileUse::Read])),
            (named("/srv"), BTreeSet::from([FileUse::Read])),
            (named("/no"), BTreeSet::from([FileUse::Missing])),
        ]);
        prop_assert_eq!(&observed.files, &expected);
        prop_assert!(observed.attempts.is_empty() && observed.hosts.is_empty() && observed.connections.is_empty());
    }

    #[test]
    fn any_line_is_read_without_a_panic(
        lines in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 0..20),
        cuts in prop::collection::vec((0_usize..400, 0_usize..400), 0..20),
    ) {
        let mut tracer = Tracer::new(Limits { paths: 50, others: 5, live: 5 });
        for line in &lines {
            tracer.line(line);
        }
        let recorded: Vec<_> = PYTHON_AND_GIT.split(|byte| *byte == b'\n').chain(NODE.split(|byte| *byte == b'\n')).collect();
        for (at, cut) in cuts {
            let line = recorded[at % recorded.len()];
            tracer.line(&line[..cut.min(line.len())]);
            tracer.line(&line[line.len().saturating_sub(cut)..]);
        }
    }
}
