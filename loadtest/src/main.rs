//! Load and fault harness; it takes Baton's scripted upstream from `baton::demo`.

fn main() {}
