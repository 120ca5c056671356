//! Between a `Stream` and its client's connection: what is to be written, and whether anybody is there to read it.
//!
//! The `Stream` holds the [`ClientPort`], the connection's task the [`ClientQueue`]. Both live on one core. What the
//! socket takes at once is written by the port, within the `Stream`'s own step: no other task wakes for a token. The
//! connection's task writes what the socket does not take, what must be encrypted, and ends the response.
//! A port that is dropped before the end was sent tells the task so: its `Stream` died.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::io;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

use bytes::{Bytes, BytesMut};
use ractor::ActorRef;
use send_wrapper::SendWrapper;
use smallvec::SmallVec;

use super::credit::Credit;
use super::reply::{Progress, Reply};
use super::stream::StreamMsg;
use super::turn;
use crate::exchange::{ClientHead, Slices};
use crate::net::{Gather, WriteHalf};

/// What is to be written next.
#[derive(Debug)]
pub enum ToClient {
    Head(Box<ClientHead>),
    Body(Slices),
    /// The body ends properly.
    Finish,
    /// The body is left unterminated and the connection closed.
    Abort,
    /// The `Stream` died without an end.
    Orphaned,
}

/// A connection's writing half and what it has still to write.
pub struct Writer {
    pub half: WriteHalf,
    pub out: Gather,
}

impl Writer {
    pub fn new(half: WriteHalf) -> Rc<RefCell<Self>> {
        Rc::new(RefCell::new(Self { half, out: Gather::new() }))
    }

    /// Writes all of `out`.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.half.poll_write(&mut self.out, cx)
    }
}

struct Shared {
    items: RefCell<SmallVec<[ToClient; 1]>>,
    reply: RefCell<Reply>,
    writer: Rc<RefCell<Writer>>,
    /// How far the response is, as encoded into the writer.
    progress: Cell<Progress>,
    /// Bytes of bodies that were given to the writer and are not known to be written.
    in_writer: Cell<usize>,
    /// A write failed.
    is_broken: Cell<bool>,
    task: RefCell<Option<Waker>>,
    stream: RefCell<Option<ActorRef<StreamMsg>>>,
    is_client_gone: Cell<bool>,
    has_ended: Cell<bool>,
    credit: Credit,
}

/// Makes the two ends of an exchange's way to its client.
pub fn channel(credit: Credit, reply: Reply, writer: Rc<RefCell<Writer>>) -> (ClientPort, ClientQueue) {
    let shared = Rc::new(Shared {
        items: RefCell::default(),
        reply: RefCell::new(reply),
        writer,
        progress: Cell::new(Progress::More),
        in_writer: Cell::new(0),
        is_broken: Cell::new(false),
        task: RefCell::default(),
        stream: RefCell::default(),
        is_client_gone: Cell::new(false),
        has_ended: Cell::new(false),
        credit,
    });
    let port = ClientPort { shared: SendWrapper::new(Rc::clone(&shared)) };
    (port, ClientQueue { shared })
}

/// The `Stream`'s end.
pub struct ClientPort {
    shared: SendWrapper<Rc<Shared>>,
}

impl ClientPort {
    /// From now on the client's leaving is told to `stream`. True if it has left already.
    pub fn attach(&self, stream: &ActorRef<StreamMsg>) -> bool {
        self.shared.stream.replace(Some(stream.clone()));
        self.shared.is_client_gone.get()
    }

    /// Takes the next item. It is on its way after [`Self::flush`].
    pub fn send(&self, item: ToClient) {
        if matches!(item, ToClient::Finish | ToClient::Abort) {
            self.shared.has_ended.set(true);
        }
        let item = match item {
            ToClient::Body(slices) if self.shared.is_writing() => ToClient::Body(detached(slices)),
            item => item,
        };
        self.shared.items.borrow_mut().push(item);
    }

    /// Has all that was sent written: what the socket takes at once is, when this returns.
    pub fn flush(&self) {
        let shared = &*self.shared;
        if shared.items.borrow().is_empty() {
            return;
        }
        if shared.is_writing() || !shared.writer.borrow().half.is_direct() {
            return shared.wake();
        }
        shared.encode();
        let written = {
            let Writer { half, out } = &mut *shared.writer.borrow_mut();
            half.write_now(out)
        };
        match written {
            // Whoever wants to know asks the credit.
            Ok(true) => drop(shared.written()),
            Ok(false) => shared.wake(),
            Err(_) => {
                shared.is_broken.set(true);
                shared.wake();
            }
        }
        if shared.progress.get() != Progress::More {
            shared.wake();
        }
    }

    /// There is nobody to send to, and nothing more will be.
    pub fn close(&self) {
        self.shared.has_ended.set(true);
    }

    /// The exchange's credit, for whoever reads an upstream on its behalf.
    pub fn share_credit(&self) -> CreditRef {
        CreditRef(SendWrapper::new(Rc::clone(&self.shared)))
    }

    pub fn credit(&self) -> &Credit {
        &self.shared.credit
    }
}

impl Drop for ClientPort {
    fn drop(&mut self) {
        if !self.shared.has_ended.get() {
            self.shared.items.borrow_mut().push(ToClient::Orphaned);
            self.shared.wake();
        }
    }
}

/// An exchange's credit, shared.
#[derive(Clone)]
pub struct CreditRef(SendWrapper<Rc<Shared>>);

impl std::ops::Deref for CreditRef {
    type Target = Credit;

    fn deref(&self) -> &Credit {
        &self.0.credit
    }
}

/// Slices shorter than this that have to wait are copied, arbitrary: each may be all that holds on to a read buffer.
const DETACHED_BYTES: usize = 1024;

fn detached(slices: Slices) -> Slices {
    let len = slices.iter().map(Bytes::len).sum();
    if len >= DETACHED_BYTES {
        return slices;
    }
    let mut own = BytesMut::with_capacity(len);
    for slice in slices {
        own.extend_from_slice(&slice);
    }
    Slices::from_iter([own.freeze()])
}

impl Shared {
    /// What was encoded has not gone yet.
    fn is_writing(&self) -> bool {
        !self.writer.borrow().out.is_empty()
    }

    fn encode(&self) {
        let (mut reply, mut writer) = (self.reply.borrow_mut(), self.writer.borrow_mut());
        // Taken: a list that has grown is not kept.
        let (progress, bytes) = reply.encode(self.items.take().into_iter(), &mut writer.out);
        self.in_writer.set(self.in_writer.get() + bytes);
        if progress != Progress::More {
            self.progress.set(progress);
        }
    }

    /// The writer has written all it was given. True if that took the credit from full to not full.
    fn written(&self) -> bool {
        self.credit.release(self.in_writer.take())
    }

    fn wake(&self) {
        if let Some(task) = self.task.take() {
            task.wake();
        }
    }

    fn tell(&self, message: StreamMsg) {
        if let Some(stream) = &*self.stream.borrow() {
            // A stream that has ended needs no telling.
            let _ended = turn::cast(stream, message);
        }
    }
}

/// The end of the connection's task.
#[derive(Clone)]
pub struct ClientQueue {
    shared: Rc<Shared>,
}

impl ClientQueue {
    /// Waits for something that the task must do, and encodes all there is into the writer. May be dropped.
    pub async fn next(&self) {
        let shared = &*self.shared;
        poll_fn(|cx| {
            let has_work = shared.progress.get() != Progress::More
                || shared.is_broken.get()
                || shared.is_writing()
                || !shared.items.borrow().is_empty();
            if has_work {
                return Poll::Ready(());
            }
            shared.task.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
        shared.encode();
    }

    /// The writer has written all it was given.
    pub fn written(&self) {
        if self.shared.written() {
            self.shared.tell(StreamMsg::WindowOpen);
        }
    }

    /// A write by the port failed: the connection is of no use any more.
    pub fn is_broken(&self) -> bool {
        self.shared.is_broken.get()
    }

    pub fn progress(&self) -> Progress {
        self.shared.progress.get()
    }

    /// Whether the client may send a further request on the connection, and whether the end of that would look like
    /// the end of the body.
    pub fn ends(&self) -> (bool, bool) {
        let reply = self.shared.reply.borrow();
        (reply.keep_alive, reply.ends_with_connection())
    }

    /// The client is gone.
    pub fn client_gone(&self) {
        if !self.shared.is_client_gone.replace(true) {
            self.shared.tell(StreamMsg::ClientGone);
        }
    }

    /// Nobody will write any more: if the response has not ended, that is the client's leaving.
    pub fn client_gone_unless_ended(&self) {
        if !self.shared.has_ended.get() {
            self.client_gone();
        }
    }
}
