//! Manual pages: one for each command, without formatter warnings.

use std::fs;

use crate::support::{Place, run, skipped};

#[test]
fn each_command_has_a_manual_page_and_the_main_page_lists_it() {
    let place = Place::new();
    let pages = place.path("share/man1");
    let ran = place.mcpd(&["man", pages.to_str().expect("text")]).expect_code(0);
    let mut names: Vec<_> = fs::read_dir(&pages).expect("it was made").map(|entry| entry.expect("an entry")).collect();
    names.sort_by_key(fs::DirEntry::file_name);
    assert!(ran.stdout.starts_with(&format!("wrote {} pages to ", names.len())), "{ran}");
    let first = fs::read_to_string(pages.join("mcpd.1")).expect("that of mcpd is there");
    assert_eq!(first, place.mcpd(&["man"]).expect_code(0).stdout, "it is the one that is printed");
    for heading in ["NAME", "SYNOPSIS", "COMMANDS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES", "SEE ALSO"] {
        assert!(
            first.contains(&format!(".SH {heading}\n")) || first.contains(&format!(".SH \"{heading}\"\n")),
            "{heading}"
        );
    }
    for entry in names {
        let name = entry.file_name().into_string().expect("text");
        let page = fs::read_to_string(entry.path()).expect("a page");
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
    let pages = place.path("man");
    place.mcpd(&["man", pages.to_str().expect("text")]).expect_code(0);
    let is_there =
        |program: &str| run(place.command("sh").args(["-c", &format!("command -v {program}")])).code == Some(0);
    if !is_there("groff") {
        return skipped("groff is not installed");
    }
    for entry in fs::read_dir(&pages).expect("it was made") {
        let path = entry.expect("an entry").path();
        let ran = run(place.command("groff").args(["-man", "-ww", "-z"]).arg(&path));
        assert!(ran.code == Some(0) && ran.stdout.is_empty() && ran.stderr.is_empty(), "{}: {ran}", path.display());
    }
}
