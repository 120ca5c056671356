//! Actors on a monoio core thread, on every driver that the kernel offers: what a core promises to its actors and to
//! its I/O.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, its helpers too"
)]

mod cores;
#[path = "cores/worker.rs"]
mod worker;

use std::{
    cell::RefCell,
    io::Write,
    net::{TcpListener, TcpStream},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    time::Duration,
};

use baton::{
    actor::turn::{self, Door},
    net::{
        clock,
        driver::{self, Io, RingMode},
        task,
    },
    time::MonoTime,
};
use cores::{STUCK, modes, on_each_core, until};
use monoio::io::AsyncReadRentExt;
use ractor::{ActorCell, ActorRef};
use worker::{Tally, Work, Worker, count_of, worker};

/// A thread that sends the time at which it did so, 50 ms after it was started.
fn sends_the_time_in_50_ms() -> (TcpStream, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let reader = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    reader.set_nonblocking(true).unwrap();
    let (mut writer, _) = listener.accept().unwrap();
    let thread = std::thread::spawn(move || {
        std::thread::park_timeout(Duration::from_millis(50));
        writer.write_all(&clock::now().as_nanos().to_be_bytes()).unwrap();
    });
    (reader, thread)
}

/// By how much reads due at 50 ms come late on this core: the best of five, since the machine has other work too.
async fn delay_of_a_read() -> Duration {
    let mut best = Duration::MAX;
    for _ in 0..5 {
        let (reader, thread) = sends_the_time_in_50_ms();
        let mut reader = monoio::net::TcpStream::from_std(reader).unwrap();
        let (read, bytes) = reader.read_exact(vec![0_u8; 8]).await;
        let read_at = clock::now();
        read.unwrap();
        thread.join().unwrap();
        let sent_at = MonoTime::from_nanos(u64::from_be_bytes(bytes.try_into().unwrap()));
        best = best.min(read_at.since(sent_at));
    }
    best
}

#[test]
fn actors_that_cast_without_end_delay_no_read() {
    on_each_core(|mode| async move {
        let (a, tally) = worker().await;
        let (b, _) = worker().await;
        let (bystander, served) = worker().await;
        turn::cast(&a, Work::PlayWith(b)).unwrap();
        let delay = delay_of_a_read().await;
        assert!(count_of(&tally.counted) > 1000, "they did not play");
        turn::cast(&bystander, Work::Count).unwrap();
        until("a cast to a third", || count_of(&served.counted) == 1).await;
        assert!(delay < Duration::from_millis(10), "{}: {delay:?}", mode.name());
    });
}

#[test]
fn mailboxes_that_stay_full_delay_no_read() {
    on_each_core(|mode| async move {
        let mut tallies = Vec::new();
        for _ in 0..64 {
            let (actor, tally) = worker().await;
            for _ in 0..500 {
                turn::cast(&actor, Work::Again).unwrap();
            }
            tallies.push(tally);
        }
        let delay = delay_of_a_read().await;
        until("every actor had turns", || tallies.iter().all(|tally| count_of(&tally.counted) > 500)).await;
        assert!(delay < Duration::from_millis(10), "{}: {delay:?}", mode.name());
    });
}

#[test]
fn another_thread_that_casts_without_end_delays_no_read() {
    on_each_core(|mode| async move {
        let (actor, tally) = worker().await;
        let (door, stop) = (turn::door().unwrap(), Arc::new(AtomicU64::new(0)));
        let stopped = Arc::clone(&stop);
        let flood = std::thread::spawn(move || {
            while stopped.load(Ordering::Relaxed) == 0 {
                turn::cast_from_afar(&door, &actor, Work::Count).unwrap();
                // One at a time, so that every one of them knocks, right after the core has handled the one before.
                while count_of(&tally.counted) == 0 && stopped.load(Ordering::Relaxed) == 0 {
                    std::hint::spin_loop();
                }
                tally.counted.store(0, Ordering::Relaxed);
            }
        });
        let delay = delay_of_a_read().await;
        stop.store(1, Ordering::Relaxed);
        flood.join().unwrap();
        assert!(delay < Duration::from_millis(10), "{}: {delay:?}", mode.name());
    });
}

#[test]
fn what_a_turn_leaves_is_taken_up_after_its_rest() {
    on_each_core(|_| async {
        let (a, tally) = worker().await;
        let (b, _) = worker().await;
        turn::cast(&a, Work::PlayWith(b)).unwrap();
        monoio::time::sleep(Duration::from_millis(1)).await;
        // No knock from here on: only the rest's end can bring these forward, and never all at once.
        for _ in 0..10 {
            let before = count_of(&tally.counted);
            until("another turn", || count_of(&tally.counted) > before).await;
        }
    });
}

#[test]
fn every_cast_from_another_thread_arrives() {
    on_each_core(|_| async {
        let (actor, tally) = worker().await;
        let door = turn::door().unwrap();
        let counted = Arc::clone(&tally.counted);
        let sender = std::thread::spawn(move || {
            for nth in 1..=200 {
                turn::cast_from_afar(&door, &actor, Work::Count).unwrap();
                // Half of them to a core that is already at it, half to one that sleeps.
                while nth % 2 == 0 && count_of(&counted) < nth {
                    std::thread::yield_now();
                }
            }
        });
        until("200 of 200", || count_of(&tally.counted) == 200).await;
        sender.join().unwrap();
    });
}

#[test]
fn two_cores_cast_to_each_other() {
    for mode in modes() {
        let (here, there) =
            (mpsc::channel::<(Door, ActorRef<Work>)>(), mpsc::channel::<(Door, ActorRef<Work>)>());
        let core = |mine: mpsc::Sender<(Door, ActorRef<Work>)>,
                    theirs: mpsc::Receiver<(Door, ActorRef<Work>)>| {
            std::thread::spawn(move || {
                turn::block_on_core(mode, 256, || async move {
                    let (actor, tally) = worker().await;
                    mine.send((turn::door().unwrap(), actor)).unwrap();
                    let (door, other) = theirs.recv_timeout(STUCK).unwrap();
                    for _ in 0..100 {
                        turn::cast_from_afar(&door, &other, Work::Count).unwrap();
                    }
                    until("100 of 100", || count_of(&tally.counted) == 100).await;
                    // The other one may still be casting; it is told by its own count.
                    mine.send((door, other)).unwrap();
                    let _other_is_done = theirs.recv_timeout(STUCK);
                })
                .unwrap();
            })
        };
        let threads = [core(here.0, there.1), core(there.0, here.1)];
        for thread in threads {
            thread.join().unwrap();
        }
    }
}

#[test]
fn a_childs_panic_reaches_its_supervisor_and_the_core_lives_on() {
    on_each_core(|_| async {
        let (parent, parents) = worker().await;
        let childs = Tally::default();
        let (child, ended) = turn::spawn_linked(Worker, childs.clone(), parent.get_cell()).await.unwrap();
        turn::cast(&child, Work::Panic).unwrap();
        ended.await.unwrap();
        until("the supervisor is told", || count_of(&parents.failed) == 1).await;
        assert_eq!(count_of(&childs.dropped), 1, "a panicked actor's state is dropped");
        assert!(turn::cast(&child, Work::Count).is_err());
        turn::cast(&parent, Work::Count).unwrap();
        until("the parent works", || count_of(&parents.counted) == 1).await;
    });
}

#[test]
fn a_panicking_task_tells_its_owner_and_the_core_lives_on() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("when dropped");
        }
    }
    on_each_core(|_| async {
        let told = Rc::new(RefCell::new(Vec::new()));
        let tell = |told: &Rc<RefCell<Vec<String>>>| {
            let told = Rc::clone(told);
            move |text| told.borrow_mut().push(text)
        };
        task::spawn(async { panic!("at once") }, tell(&told));
        task::spawn(
            async {
                monoio::time::sleep(Duration::from_millis(2)).await;
                panic!("{}", 2);
            },
            tell(&told),
        );
        task::spawn(async { drop(PanicsInDrop) }, tell(&told));
        task::spawn(async { panic!("and its handler too") }, |_| panic!("in the handler"));
        until("told thrice", || told.borrow().len() == 3).await;
        assert_eq!(*told.borrow(), ["at once", "when dropped", "2"]);
    });
}

#[test]
fn stop_and_kill_from_outside_a_turn_take_effect_at_once() {
    on_each_core(|_| async {
        let ends: [fn(&ActorCell); 4] = [
            |actor| turn::stop(actor, None),
            turn::kill,
            |actor| turn::stop_from_afar(&turn::door().unwrap(), actor, Some("enough".to_owned())),
            |actor| {
                let (door, actor) = (turn::door().unwrap(), actor.clone());
                std::thread::spawn(move || turn::kill_from_afar(&door, &actor)).join().unwrap();
            },
        ];
        for end in ends {
            let (actor, tally) = worker().await;
            monoio::time::sleep(Duration::from_millis(2)).await; // its first turn is over
            end(&actor.get_cell());
            until("ended", || count_of(&tally.dropped) == 1).await;
        }
    });
}

#[test]
fn handlers_start_tasks_and_actors() {
    on_each_core(|_| async {
        let (actor, tally) = worker().await;
        let (parent, counted) = (actor.clone(), Arc::clone(&tally.counted));
        let act = move || {
            task::spawn(
                async move {
                    let (child, _) =
                        turn::spawn_linked(Worker, Tally::default(), parent.get_cell()).await.unwrap();
                    let back = parent.clone();
                    let act = Box::new(move || turn::cast(&back, Work::Count).unwrap());
                    turn::cast(&child, Work::Run(act)).unwrap();
                },
                |text| panic!("{text}"),
            );
        };
        turn::cast(&actor, Work::Run(Box::new(act))).unwrap();
        until("the child's answer", || count_of(&counted) == 2).await;
    });
}

#[test]
fn actors_left_when_a_core_ends_are_dropped() {
    for mode in modes() {
        let tally = Tally::default();
        let given = tally.clone();
        std::thread::spawn(move || {
            turn::block_on_core(mode, 256, || async {
                turn::spawn_root(None, Worker, given).await.unwrap();
            })
            .unwrap();
            assert!(turn::door().is_none());
        })
        .join()
        .unwrap();
        assert_eq!(count_of(&tally.dropped), 1, "{}", mode.name());
    }
}

#[test]
fn a_core_holds_a_ring_exactly_when_its_mode_has_one() {
    let rings = || {
        let links = std::fs::read_dir("/proc/self/fd").unwrap();
        let targets = links.filter_map(|link| std::fs::read_link(link.unwrap().path()).ok());
        targets.filter(|target| target.as_os_str() == "anon_inode:[io_uring]").count()
    };
    // Other tests of this process hold rings too, so this one asks in a process of its own.
    if std::env::var_os("BATON_COUNT_RINGS").is_none() {
        let this = std::env::current_exe().unwrap();
        let name = "a_core_holds_a_ring_exactly_when_its_mode_has_one";
        let alone = std::process::Command::new(this)
            .args(["--exact", name, "--nocapture"])
            .env("BATON_COUNT_RINGS", "1")
            .status()
            .unwrap();
        assert!(alone.success());
        return;
    }
    on_each_core(move |mode| async move {
        assert_eq!(rings(), usize::from(mode != RingMode::Epoll), "{}", mode.name());
    });
    assert_eq!(rings(), 0, "a core that has ended gives its ring back");
    assert_eq!(driver::probe(Io::Epoll).unwrap().mode, RingMode::Epoll);
    if let [.., _, best] = modes()[..] {
        assert_eq!(driver::probe(Io::Auto).unwrap().mode, best);
    }
}
