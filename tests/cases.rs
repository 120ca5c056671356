//! Inputs that broke other proxies, run through the real binary: `tests/cases/*.jsonl`.
//!
//! `CASE=F01,R22` runs those alone and shows what the proxy logged.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise; blocking is its way to wait"
)]

#[path = "cases/drive.rs"]
mod drive;
#[path = "cases/judge.rs"]
mod judge;
#[path = "cases/model.rs"]
mod model;
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Instant;

use model::Case;

/// What a case may require, and why it is not there.
const NOT_BUILT: [(&str, &str); 1] = [("anthropic", "upstreams speak the OpenAI protocol only")];

/// Proxies that run at once: more would make the clocks of a two-core machine lie.
const AT_ONCE: usize = 8;

#[test]
fn every_case_is_answered_as_it_should() {
    let started = Instant::now();
    let wanted = std::env::var("CASE").ok();
    let is_wanted = |id: &str| wanted.as_ref().is_none_or(|w| w.split(',').any(|w| w == id));
    let cases: Vec<Case> = model::all().into_iter().filter(|c| is_wanted(&c.id)).collect();
    let (skipped, cases): (Vec<_>, Vec<_>) = cases.into_iter().partition(|c| why_not(c).is_some());
    let failures = run_all(&cases, wanted.is_some());
    for case in &skipped {
        println!("not built: {} {}: {}", case.id, case.title, why_not(case).unwrap_or_default());
    }
    let (total, failed) = (cases.len() + skipped.len(), failures.len());
    let passed = cases.len() - failed;
    let took = started.elapsed();
    println!("{total} cases: {passed} passed, {failed} failed, {} not built; {took:.1?}", skipped.len());
    assert!(total > 0, "no case is named {wanted:?}");
    assert!(failures.is_empty(), "{failed} of {total} cases failed:\n{}", failures.join("\n"));
}

fn why_not(case: &Case) -> Option<&'static str> {
    let needed = case.requires.as_deref()?;
    Some(
        NOT_BUILT
            .iter()
            .find(|(name, _)| *name == needed)
            .map_or_else(|| panic!("requires {needed}?"), |r| r.1),
    )
}

/// Runs them, some at a time; one line for each that failed.
fn run_all(cases: &[Case], verbose: bool) -> Vec<String> {
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..AT_ONCE.min(cases.len()) {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let failure = run_one(case, verbose);
                    failures.lock().unwrap().extend(failure);
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    failures
}

fn run_one(case: &Case, verbose: bool) -> Option<String> {
    let seen = match catch_unwind(AssertUnwindSafe(|| drive::run(case))) {
        Ok(seen) => seen,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("panicked");
            return Some(format!("{} {}: {text}", case.id, case.title));
        }
    };
    let failures = judge::judge(case, &seen);
    if verbose {
        println!("--- {}: baton said:\n{}---", case.id, seen.logs);
    }
    (!failures.is_empty()).then(|| format!("{} {}: {}", case.id, case.title, failures.join("; ")))
}
