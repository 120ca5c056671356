//! The ways from one core to the others, by which it hands on connections that are too much for it.
//!
//! A core ends when nothing can bring it a connection any more. The tasks of its listeners have its only outlets to
//! the other cores: when the last such task of all cores has ended, so have the ways, and what is still in them is
//! served first.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use super::registry::Place;
use crate::actor::status::Status;
use crate::net::handover::{self, Receiver, Sender};
use crate::policy::placement::place;

/// Connections that are on their way to one core, at most; past that the acceptor keeps them. A core takes all that
/// wait when its I/O has its turn, so this is a burst within a few milliseconds (arbitrary).
const WAITING_MAX: usize = 64;

/// A connection that was accepted and admitted on another core.
#[derive(Debug)]
pub struct Handed {
    pub socket: OwnedFd,
    pub peer: SocketAddr,
    pub place: Place,
}

/// One core's ways to the others.
#[derive(Clone)]
pub struct Outlets {
    own: usize,
    /// By the numbers of the cores; none to itself, and none at all where there is only one core.
    ways: Vec<Option<Sender<Handed>>>,
    /// Scratch.
    loads: Vec<usize>,
}

/// What one core has of the ways between all of them.
pub struct Ways {
    pub outlets: Outlets,
    /// What others hand over; None where there are no others.
    pub inlet: Option<Receiver<Handed>>,
}

/// Ways from every core to every other one, in the order of the cores.
///
/// # Errors
/// No sockets are to be had.
pub fn between(cores: usize) -> io::Result<Vec<Ways>> {
    if cores < 2 {
        let outlets = Outlets { own: 0, ways: Vec::new(), loads: Vec::new() };
        return Ok(vec![Ways { outlets, inlet: None }]);
    }
    let ends = (0..cores).map(|_| handover::channel(WAITING_MAX)).collect::<io::Result<Vec<_>>>()?;
    let (senders, inlets): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
    let from = |own: usize, inlet| {
        let ways =
            senders.iter().enumerate().map(|(to, sender)| (to != own).then(|| sender.clone())).collect();
        Ways { outlets: Outlets { own, ways, loads: Vec::with_capacity(cores) }, inlet: Some(inlet) }
    };
    Ok(inlets.into_iter().enumerate().map(|(own, inlet)| from(own, inlet)).collect())
}

impl Outlets {
    /// Where a connection goes that this core has just accepted and counts already; None: it stays.
    pub fn choose(&mut self, status: &Status) -> Option<&Sender<Handed>> {
        self.loads.clear();
        // What is on its way to a core is that core's already: a burst must not all go to the same one.
        let waiting = |way: &Option<Sender<Handed>>| way.as_ref().map_or(0, Sender::waiting);
        let loads = status.cores().iter().zip(&self.ways).map(|(core, way)| core.load() + waiting(way));
        self.loads.extend(loads);
        self.ways.get(place(self.own, &self.loads))?.as_ref()
    }
}
