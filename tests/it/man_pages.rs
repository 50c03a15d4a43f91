//! Manual pages: one for each command, without formatter warnings.

use std::fs;
use std::path::PathBuf;
use std::rc::Rc;

use crate::support::{Place, run, skipped};

/// The directory of the written pages, and its files, sorted.
fn pages(place: &Rc<Place>) -> (PathBuf, Vec<PathBuf>) {
    let pages = place.path("share/man1");
    let ran = run(place.command(env!("CARGO_BIN_EXE_manual-pages")).arg(&pages)).expect_code(0);
    assert_eq!(ran.stderr, "");
    let mut files: Vec<_> =
        fs::read_dir(&pages).expect("it was made").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    (pages, files)
}

#[test]
fn each_command_has_a_manual_page_and_the_main_page_lists_it() {
    let place = Place::new();
    let (pages, files) = pages(&place);
    let first = fs::read_to_string(pages.join("mcpd.1")).expect("that of mcpd is there");
    for heading in ["NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"] {
        assert!(
            first.contains(&format!(".SH {heading}\n")) || first.contains(&format!(".SH \"{heading}\"\n")),
            "{heading}"
        );
    }
    for file in files {
        let name = file.file_name().and_then(|name| name.to_str()).expect("text");
        let page = fs::read_to_string(&file).expect("a page");
        assert!(page.is_ascii() && page.contains("EXIT STATUS"), "{name}");
        let title = name.trim_end_matches(".1").replace('-', "\\-");
        assert!(
            name == "mcpd.1" || name.matches('-').count() > 1 || first.contains(&title),
            "{name} is not in mcpd(1)"
        );
    }
}

#[test]
fn manual_pages_have_no_formatter_warnings() {
    let place = Place::new();
    let is_there =
        |program: &str| run(place.command("sh").args(["-c", &format!("command -v {program}")])).code == Some(0);
    if !is_there("groff") {
        return skipped("groff is not installed");
    }
    for path in pages(&place).1 {
        let ran = run(place.command("groff").args(["-man", "-ww", "-z"]).arg(&path));
        assert!(ran.code == Some(0) && ran.stdout.is_empty() && ran.stderr.is_empty(), "{}: {ran}", path.display());
    }
}
