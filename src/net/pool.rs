//! Idle keep-alive connections to one upstream, on one core.

use std::collections::VecDeque;
use std::time::Duration;

use super::io::Connection;
use crate::time::MonoTime;

/// Idle connections, the one used last first: it is the least likely to be closed by the server meanwhile.
pub struct Pool {
    /// With the time it became idle, oldest first.
    idle: VecDeque<(Connection, MonoTime)>,
    size: usize,
    idle_max: Duration,
}

impl Pool {
    /// Keeps at most `size` connections, each for at most `idle_max`.
    pub fn new(size: usize, idle_max: Duration) -> Self {
        Self { idle: VecDeque::new(), size, idle_max }
    }

    /// Takes in a connection whose last response has been read to its end. Closes it instead if it has unread bytes or
    /// has ended; closes the oldest one when the pool is full.
    pub fn put(&mut self, connection: Connection, now: MonoTime) {
        if self.size == 0 || !connection.is_quiet() {
            return;
        }
        while self.idle.len() >= self.size {
            self.idle.pop_front();
        }
        self.idle.push_back((connection, now));
    }

    /// An idle connection that the server has not closed, as far as this side can know: its close may be on its way.
    pub fn take(&mut self, now: MonoTime) -> Option<Connection> {
        while let Some((connection, since)) = self.idle.pop_back() {
            if now.since(since) >= self.idle_max {
                // All others are older.
                self.idle.clear();
                return None;
            }
            if connection.is_quiet() {
                return Some(connection);
            }
        }
        None
    }

    /// Closes what is too old or was ended by the server; says how many. To be called about once a second.
    pub fn sweep(&mut self, now: MonoTime) -> usize {
        let before = self.idle.len();
        let idle_max = self.idle_max;
        self.idle.retain(|(connection, since)| now.since(*since) < idle_max && connection.is_quiet());
        if self.idle.is_empty() {
            self.idle = VecDeque::new();
        }
        before - self.idle.len()
    }

    pub fn len(&self) -> usize {
        self.idle.len()
    }

    pub fn is_empty(&self) -> bool {
        self.idle.is_empty()
    }
}
