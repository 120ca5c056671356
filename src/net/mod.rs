//! Effects of one core: the clock, the I/O driver it runs on, its tasks.

pub mod clock;
pub mod driver;
pub mod task;
