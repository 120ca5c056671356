//! A stream relayed in memory, once, for callgrind: `benches/callgrind.sh` counts its instructions.
//!
//! `callgrind EVENTS READ`: so many events, in reads of so many bytes (0: an event a read). Without arguments, as in
//! `cargo bench`, a few events only show that it runs.

mod relay;
mod wire;

use baton::policy::ContinuationMode::Prefill;
use bytes::Bytes;

use relay::{Relay, plan};
use wire::{RESPONSE_HEAD, chunked, frame, reads};

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|argument| argument.parse::<usize>().ok());
    let (events, size) = (numbers.next().unwrap_or(10), numbers.next().unwrap_or(0));
    let body = chunked((0..events).map(numbered)).freeze();
    let size = if size == 0 { body.len() / events.max(1) } else { size };
    let reads = reads(&body, size.max(1));
    let mut relay = Relay::new(&plan(Prefill));
    relay.read(Bytes::from_static(RESPONSE_HEAD.as_bytes()));
    relay_all(&mut relay, reads);
    assert_eq!(relay.bytes, (0..events).map(|number| numbered(number).len()).sum::<usize>());
    println!("relayed {events} events, {} bytes in {} slices", relay.bytes, relay.slices);
}

/// What is counted, by its name: making the stream and checking it are not.
#[inline(never)]
fn relay_all(relay: &mut Relay, reads: Vec<Bytes>) {
    for read in reads {
        relay.read(read);
    }
}

/// All of one length.
fn numbered(number: usize) -> String {
    frame(number % 10_000)
}
