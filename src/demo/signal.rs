//! Being told to stop.

use std::io;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

/// Ctrl-C and SIGTERM, which from now on end nothing by themselves.
pub struct StopSignal(Signals);

impl StopSignal {
    /// # Errors
    /// The handlers could not be set up.
    pub fn catch() -> io::Result<Self> {
        Signals::new([SIGINT, SIGTERM]).map(Self)
    }

    /// Blocks until one of them comes, or has come since they are caught.
    pub fn wait(mut self) {
        let _which = self.0.forever().next();
    }
}
