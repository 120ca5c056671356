//! Waiting to be told to stop.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Blocks until Ctrl-C or SIGTERM.
///
/// # Errors
/// The handlers could not be set up.
pub fn wait_for_signal() -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let _which = signals.forever().next();
    Ok(())
}
