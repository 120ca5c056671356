//! The bugs that `tests/planted/run.py` plants still have their place in the sources.

use std::collections::BTreeSet;

const BUGS_MIN: usize = 10;

#[test]
fn every_bug_has_its_place() {
    let bugs: toml::Table = include_str!("planted/bugs.toml").parse().unwrap();
    let bugs = bugs["bug"].as_array().unwrap();
    let mut names = BTreeSet::new();
    for bug in bugs {
        let said = |key: &str| bug[key].as_str().unwrap();
        let source = std::fs::read_to_string(said("file")).unwrap();
        assert_eq!(source.matches(said("find")).count(), 1, "{}: {}", said("name"), said("file"));
        assert_ne!(said("find"), said("put"), "{}", said("name"));
        names.insert(said("name"));
    }
    assert!(names.len() == bugs.len() && bugs.len() >= BUGS_MIN, "{} bugs of different names", names.len());
}
