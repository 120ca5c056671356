//! A global allocator that counts what marked threads take, and can tell where.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The system's allocator, watched.
pub struct Counting;

/// What marked threads have asked for so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// New blocks.
    pub taken: u64,
    /// Blocks that grew or shrank.
    pub resized: u64,
    pub bytes: u64,
}

static TAKEN: AtomicU64 = AtomicU64::new(0);
static RESIZED: AtomicU64 = AtomicU64::new(0);
static BYTES: AtomicU64 = AtomicU64::new(0);
static TELLS_SITES: AtomicBool = AtomicBool::new(false);
static SITES: Mutex<Vec<Backtrace>> = Mutex::new(Vec::new());

/// Sites that are kept; what is more is counted only.
const SITES_MAX: usize = 20_000;

thread_local! {
    static IS_MARKED: Cell<bool> = const { Cell::new(false) };
    /// The counting itself allocates (backtraces).
    static IS_COUNTING: Cell<bool> = const { Cell::new(false) };
}

/// From here on the calling thread's allocations count.
pub fn mark_thread() {
    IS_MARKED.set(true);
}

pub fn counts() -> Counts {
    Counts {
        taken: TAKEN.load(Ordering::SeqCst),
        resized: RESIZED.load(Ordering::SeqCst),
        bytes: BYTES.load(Ordering::SeqCst),
    }
}

impl Counts {
    pub fn since(self, before: Self) -> Self {
        Self {
            taken: self.taken - before.taken,
            resized: self.resized - before.resized,
            bytes: self.bytes - before.bytes,
        }
    }
}

fn note(counter: &AtomicU64, bytes: usize) {
    if !IS_MARKED.get() || IS_COUNTING.replace(true) {
        return;
    }
    counter.fetch_add(1, Ordering::SeqCst);
    BYTES.fetch_add(bytes as u64, Ordering::SeqCst);
    if TELLS_SITES.load(Ordering::SeqCst) {
        let site = Backtrace::force_capture();
        if let Ok(mut sites) = SITES.lock()
            && sites.len() < SITES_MAX
        {
            sites.push(site);
        }
    }
    IS_COUNTING.set(false);
}

/// Notes where marked threads allocate while `run` runs: the calls of each site from the inside out, and how often.
pub fn sites_of(run: impl FnOnce()) -> BTreeMap<String, usize> {
    TELLS_SITES.store(true, Ordering::SeqCst);
    run();
    TELLS_SITES.store(false, Ordering::SeqCst);
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    let sites = SITES.lock().map(|mut sites| std::mem::take(&mut *sites)).unwrap_or_default();
    for site in sites {
        *found.entry(calls_of(&site.to_string())).or_default() += 1;
    }
    found
}

/// The calls of a backtrace in the project and in the libraries it stands on, innermost first, with their lines.
fn calls_of(backtrace: &str) -> String {
    const CALLS_MAX: usize = 9;
    let (mut calls, mut name) = (Vec::new(), "");
    for line in backtrace.lines().map(str::trim) {
        let Some(place) = line.strip_prefix("at ") else {
            name = line.split_once(": ").map_or(line, |(_, name)| name);
            continue;
        };
        let is_own = place.starts_with("./src");
        let library = place.split_once("/registry/src/").and_then(|(_, rest)| rest.split_once('/'));
        let shown = match library {
            _ if is_own => place,
            Some((_, rest)) => rest,
            None => continue,
        };
        calls.push(format!("{shown}  {name}"));
        if calls.len() == CALLS_MAX {
            break;
        }
    }
    calls.join("\n    ")
}

// SAFETY: every call goes to the system's allocator with what the caller gave; counting touches no block.
#[expect(unsafe_code, reason = "GlobalAlloc is an unsafe trait")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(&TAKEN, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(&TAKEN, layout.size());
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note(&RESIZED, size);
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) }
    }
}
