use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use proptest::prelude::*;

use super::*;

/// What the kernel would read: the iovecs of all calls to come, as (address, length).
fn spans(gather: &Gather) -> Vec<(usize, usize)> {
    gather.iovecs().iter().map(|span| (span.iov_base as usize, span.iov_len)).collect()
}

#[test]
fn iovecs_lie_inside_the_buffers_pushed() {
    let buffers: Vec<Bytes> =
        (0..5u8).map(|fill| Bytes::from(vec![fill; 1000 + usize::from(fill)])).collect();
    let mut gather = Gather::new();
    gather.push_all(buffers.iter().cloned());
    gather.push(Bytes::new());
    assert_eq!(gather.len_bytes(), 5010);
    gather.advance(1500);
    let spans = spans(&gather);
    assert_eq!(spans.iter().map(|(_, len)| len).sum::<usize>(), 3510);
    for (start, len) in spans {
        let within = buffers.iter().any(|buffer| {
            let range = buffer.as_ptr() as usize..buffer.as_ptr() as usize + buffer.len();
            range.contains(&start) && start + len <= range.end
        });
        assert!(within);
    }
}

#[test]
fn neighbours_of_one_buffer_share_an_iovec() {
    let whole = Bytes::from((0..100u8).collect::<Vec<_>>());
    let cases: [(&str, Vec<Bytes>, usize); 4] = [
        ("side by side", vec![whole.slice(0..10), whole.slice(10..30), whole.slice(30..31)], 1),
        ("a gap", vec![whole.slice(0..10), whole.slice(11..30)], 2),
        ("backwards", vec![whole.slice(10..20), whole.slice(0..10)], 2),
        ("the same twice", vec![whole.slice(0..10), whole.slice(0..10)], 2),
    ];
    for (name, slices, want) in cases {
        let mut gather = Gather::new();
        gather.push_all(slices);
        assert_eq!(gather.iovecs().len(), want, "{name}");
    }
}

#[test]
fn written_slices_are_let_go_and_the_rest_stays_alive() {
    let whole = Bytes::from(vec![7; 30]);
    let mut gather = Gather::new();
    gather.push_all([whole.slice(0..10), whole.slice(10..20), whole.slice(20..30)]);
    gather.advance(15);
    assert_eq!(gather.slices.len() - gather.first_slice, 2);
    assert!(!whole.is_unique());
    gather.advance(15);
    assert!(gather.is_empty());
    assert!(whole.is_unique());
}

#[test]
fn one_call_has_no_more_iovecs_than_the_kernel_takes() {
    let mut gather = Gather::new();
    gather.push_all((0..IOVECS_MAX + 5).map(|_| Bytes::from(vec![0])));
    assert_eq!(gather.iovecs().len(), IOVECS_MAX);
    gather.advance(IOVECS_MAX);
    assert_eq!(gather.iovecs().len(), 5);
}

/// Slices that lie end to end share an iovec, and count all the same.
#[test]
fn an_emptied_list_that_grew_too_far_gives_its_memory_back() {
    let whole = Bytes::from(vec![7; 1000]);
    for (slices, is_kept) in [(SLICES_KEPT, true), (SLICES_KEPT + 1, false)] {
        let mut gather = Gather::new();
        gather.push_all((0..slices).map(|at| whole.slice(at..=at)));
        assert_eq!(gather.iovecs().len(), 1);
        gather.clear();
        assert_eq!(gather.slices.capacity() >= SLICES_KEPT, is_kept, "{slices}");
    }
}

/// What a writer would read of the iovecs, by way of a socket: the kernel dereferences them, not this test.
fn through_the_kernel(mut gather: Gather, steps: &[usize]) -> Vec<u8> {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let mut far = listener.accept().unwrap().0;
    let mut steps = steps.iter().cycle();
    while !gather.is_empty() {
        let step = *steps.next().unwrap();
        let peeked: Vec<u8> = gather.peek(step).iter().flat_map(|slice| slice.to_vec()).collect();
        near.write_all(&peeked).unwrap();
        gather.advance(peeked.len());
        // Iovecs and slices tell the same story.
        assert_eq!(spans(&gather).iter().map(|(_, len)| len).sum::<usize>(), gather.len_bytes());
        let first = gather.peek(1).first().map(|slice| slice.as_ptr() as usize);
        assert_eq!(spans(&gather).first().map(|(start, _)| *start), first);
    }
    drop(near);
    let mut got = Vec::new();
    far.read_to_end(&mut got).unwrap();
    got
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_short_writes_give_the_same_bytes(
        sizes in proptest::collection::vec((0usize..50, any::<bool>()), 0..40),
        steps in proptest::collection::vec(1usize..70, 1..8),
    ) {
        let total: usize = sizes.iter().map(|(size, _)| size).sum();
        let whole = Bytes::from((0..total).map(|at| (at % 251) as u8).collect::<Vec<_>>());
        let mut gather = Gather::new();
        let mut at = 0;
        for (size, own) in sizes {
            let part = whole.slice(at..at + size);
            at += size;
            gather.push(if own { Bytes::copy_from_slice(&part) } else { part });
        }
        prop_assert_eq!(through_the_kernel(gather, &steps), whole.to_vec());
    }
}
