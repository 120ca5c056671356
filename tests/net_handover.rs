//! The way of values from other threads into a core, in every mode of the driver.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test stops at the first surprise"
)]

mod cores;

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use baton::net::{handover, task};
use cores::{on_each_core, until};

#[test]
fn values_of_several_threads_arrive_in_their_order_and_then_the_end() {
    on_each_core(|mode| async move {
        const EACH: u32 = 2_000;
        let (sender, receiver) = handover::channel::<(usize, u32)>(8).unwrap();
        let threads: Vec<_> = (0..3)
            .map(|thread| {
                let sender = sender.clone();
                std::thread::spawn(move || {
                    for n in 0..EACH {
                        while sender.send((thread, n)).is_err() {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        drop(sender);
        let mut inlet = receiver.open().unwrap();
        let mut next = [0; 3];
        while let Some((thread, n)) = inlet.next().await.unwrap() {
            assert_eq!(n, next[thread], "{}", mode.name());
            next[thread] += 1;
        }
        assert_eq!(next, [EACH; 3], "{}", mode.name());
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
}

#[test]
fn a_value_wakes_a_core_that_waits() {
    on_each_core(|mode| async move {
        let (sender, receiver) = handover::channel::<u32>(8).unwrap();
        let sent = std::thread::spawn(move || {
            for n in 0..20 {
                std::thread::sleep(Duration::from_millis(2));
                sender.send(n).unwrap();
            }
        });
        let sum = Rc::new(Cell::new(0));
        let (mut inlet, sum_of) = (receiver.open().unwrap(), Rc::clone(&sum));
        let taking = async move {
            while let Some(n) = inlet.next().await.unwrap() {
                sum_of.set(sum_of.get() + n);
            }
            sum_of.set(sum_of.get() + 1_000);
        };
        task::spawn(taking, |text| panic!("{text}"));
        until(&format!("all taken on {}", mode.name()), || sum.get() == 1_190).await;
        sent.join().unwrap();
    });
}

#[test]
fn a_way_takes_no_more_than_it_holds() {
    on_each_core(|_| async {
        let (sender, receiver) = handover::channel(2).unwrap();
        assert_eq!([1, 2, 3, 4].map(|n| sender.send(n)), [Ok(()), Ok(()), Err(3), Err(4)]);
        assert_eq!(sender.waiting(), 2);
        let mut inlet = receiver.open().unwrap();
        assert_eq!(inlet.next().await.unwrap(), Some(1));
        assert_eq!((sender.waiting(), sender.send(5)), (1, Ok(())));
        drop(sender.clone());
        assert_eq!(inlet.next().await.unwrap(), Some(2));
        assert_eq!(inlet.next().await.unwrap(), Some(5));
        drop(inlet);
        assert_eq!((sender.send(6), sender.waiting()), (Err(6), 0));
    });
}

#[test]
fn what_is_left_when_the_senders_go_is_taken() {
    on_each_core(|_| async {
        let (sender, receiver) = handover::channel(4).unwrap();
        sender.send("a").unwrap();
        sender.send("b").unwrap();
        drop(sender);
        let mut inlet = receiver.open().unwrap();
        assert_eq!(inlet.next().await.unwrap(), Some("a"));
        assert_eq!(inlet.next().await.unwrap(), Some("b"));
        assert_eq!(inlet.next().await.unwrap(), None);
        assert_eq!(inlet.next().await.unwrap(), None);
    });
}
