//! Actors on the cores: how they get their turn on a core thread, and their timers.

pub mod timers;
pub mod turn;

pub mod attempt_io;
pub mod budget;
pub mod call;
pub mod client;
pub mod context;
pub mod core;
pub mod credit;
pub mod guard;
pub mod health;
pub mod modes;
pub mod node;
pub mod observer;
pub mod reply;
pub mod status;
pub mod stream;
pub mod upstream;
