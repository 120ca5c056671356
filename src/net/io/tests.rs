use super::*;

/// A read that brings `len` bytes, or as many as there is room for.
fn bring(buffer: &mut ReadBuffer, len: usize) -> (Bytes, usize) {
    let mut lent = buffer.lend();
    assert!(lent.is_empty());
    let room = lent.capacity();
    lent.resize(len.min(room), 1);
    (buffer.take_back(lent), room)
}

#[test]
fn a_buffer_grows_while_reads_fill_it_and_shrinks_when_one_does_not() {
    let mut buffer = ReadBuffer::default();
    let mut rooms = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..6 {
        let (bytes, room) = bring(&mut buffer, usize::MAX);
        rooms.push(room / 1024);
        kept.push(bytes);
    }
    assert_eq!(rooms, [4, 8, 16, 32, 64, 64]);
    assert_eq!(bring(&mut buffer, 40_000).0.len(), 40_000);
    assert_eq!(bring(&mut buffer, 10).1, READ_BYTES_MIN);
}

#[test]
fn small_reads_share_a_buffer_and_reuse_it_when_their_bytes_are_gone() {
    let mut buffer = ReadBuffer::default();
    let (first, _) = bring(&mut buffer, 300);
    let (second, room) = bring(&mut buffer, 300);
    assert_eq!(room, READ_BYTES_MIN - 300);
    assert_eq!(second.as_ptr() as usize - first.as_ptr() as usize, 300);
    let start = first.as_ptr();
    drop((first, second));
    for _ in 0..100 {
        let (bytes, _) = bring(&mut buffer, 300);
        let offset = (bytes.as_ptr() as usize).wrapping_sub(start as usize);
        assert!(offset < READ_BYTES_MIN, "the buffer was not reused");
    }
}
