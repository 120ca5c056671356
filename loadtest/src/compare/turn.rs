//! One comparison at a time on a machine: two would measure each other.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::time::Duration;

use crate::peers::pause;

/// In the abstract namespace (unix(7)): the kernel forgets it with the process.
const NAME: &str = "baton-loadtest-compare";
const POLL: Duration = Duration::from_secs(1);

/// Waits until no other comparison runs. Others wait while the listener that comes back is open.
///
/// # Errors
/// There are no Unix sockets here.
pub fn wait() -> io::Result<UnixListener> {
    let address = SocketAddr::from_abstract_name(NAME)?;
    let mut told = false;
    loop {
        match UnixListener::bind_addr(&address) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                if !told {
                    eprintln!("waiting for another comparison on this machine to end");
                    told = true;
                }
                pause(POLL);
            }
            bound => return bound,
        }
    }
}
