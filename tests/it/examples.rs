//! The library examples print what `docs/library.md` shows.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{Place, WAIT_LIMIT, run};

/// Beside the directory of the tests, where cargo has put them.
fn built(example: &str) -> PathBuf {
    let tests = std::env::current_exe().expect("the test's own path");
    tests.ancestors().nth(2).expect("a target directory").join("examples").join(example)
}

#[test]
fn every_example_prints_what_the_documentation_shows_and_leaves_no_process() {
    let documentation =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/library.md")).expect("text");
    let mut shown = 0;
    for block in documentation.split("```console\n$ cargo run -q --example ").skip(1) {
        let (example, rest) = block.split_once('\n').expect("a command and its output");
        let (output, _) = rest.split_once("```").expect("a block that ends");
        let place = Place::new();
        let ran = run(&mut place.command(built(example))).expect_code(0);
        assert_eq!(ran.stdout, output, "{example}: {ran}");
        place.expect_no_process(WAIT_LIMIT);
        shown += 1;
    }
    let examples = fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")).expect("a directory");
    assert_eq!(shown, examples.filter(|entry| entry.as_ref().is_ok_and(|entry| entry.path().is_file())).count());
}
