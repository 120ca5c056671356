//! Actors on the cores: how they get their turn on a core thread, and their timers.

pub mod timers;
pub mod turn;
