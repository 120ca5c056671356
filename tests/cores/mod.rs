//! A core thread for a test, in every mode that the kernel offers. io_uring refused is a failure;
//! `BATON_TEST_DRIVER=epoll` says that it is meant to be missing.

use std::{future::Future, sync::mpsc, time::Duration};

use baton::{
    actor::turn,
    net::{
        clock,
        driver::{self, Refusal, RingMode},
    },
};

/// How long a core may take for a whole test before it counts as stuck.
pub const STUCK: Duration = Duration::from_secs(20);

/// Every mode to test, the best one last.
pub fn modes() -> Vec<RingMode> {
    if std::env::var("BATON_TEST_DRIVER").is_ok_and(|driver| driver == "epoll") {
        return vec![RingMode::Epoll];
    }
    let mut modes = vec![RingMode::Epoll, RingMode::Plain];
    driver::attempt(RingMode::Plain)
        .expect("io_uring is refused here; is that meant? BATON_TEST_DRIVER=epoll");
    match driver::attempt(RingMode::SingleIssuerDeferred) {
        Ok(()) => modes.push(RingMode::SingleIssuerDeferred),
        // EINVAL: a kernel before 6.1, which does not know the flags.
        Err(Refusal::Setup { source, .. }) if source.raw_os_error() == Some(22) => {}
        Err(refusal) => panic!("{refusal}"),
    }
    modes
}

/// Runs `main` on a core thread of each mode and hands back what it gave.
pub fn on_each_core<F>(main: impl Fn(RingMode) -> F + Send + Copy + 'static)
where
    F: Future<Output = ()> + 'static,
{
    for mode in modes() {
        let (done, is_done) = mpsc::channel();
        let core = std::thread::spawn(move || {
            turn::block_on_core(mode, 256, || main(mode)).expect("a runtime");
            let _ = done.send(());
        });
        match is_done.recv_timeout(STUCK) {
            Err(mpsc::RecvTimeoutError::Timeout) => panic!("{}: the core is stuck", mode.name()),
            _ => core.join().unwrap_or_else(|_| panic!("{}: the core thread panicked", mode.name())),
        }
    }
}

/// Waits until `is_true`, looking once a millisecond, so that nothing here disturbs the order of things.
pub async fn until(what: &str, is_true: impl Fn() -> bool) {
    let deadline = clock::now().after(Duration::from_secs(5));
    while !is_true() {
        assert!(clock::now() < deadline, "still not: {what}");
        monoio::time::sleep(Duration::from_millis(1)).await;
    }
}
