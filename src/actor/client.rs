//! Between a `Stream` and its client's connection: what is to be written, and whether anybody is there to read it.
//!
//! The `Stream` holds the [`ClientPort`], the connection's writer the [`ClientQueue`]. Both live on one core.
//! A port that is dropped before the end was sent tells the writer so: its `Stream` died.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;
use ractor::ActorRef;
use send_wrapper::SendWrapper;
use smallvec::SmallVec;

use super::credit::Credit;
use super::stream::StreamMsg;
use super::turn;
use crate::exchange::ClientHead;

/// What the connection's writer is to do next.
#[derive(Debug)]
pub enum ToClient {
    Head(Box<ClientHead>),
    Body(SmallVec<[Bytes; 4]>),
    /// The body ends properly.
    Finish,
    /// The body is left unterminated and the connection closed.
    Abort,
    /// The `Stream` died without an end.
    Orphaned,
}

struct Shared {
    items: RefCell<VecDeque<ToClient>>,
    writer: RefCell<Option<Waker>>,
    stream: RefCell<Option<ActorRef<StreamMsg>>>,
    is_client_gone: Cell<bool>,
    has_ended: Cell<bool>,
    credit: Rc<Credit>,
}

/// Makes the two ends of an exchange's way to its client.
pub fn channel(credit: Rc<Credit>) -> (ClientPort, ClientQueue) {
    let shared = Rc::new(Shared {
        items: RefCell::default(),
        writer: RefCell::default(),
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

    pub fn send(&self, item: ToClient) {
        if matches!(item, ToClient::Finish | ToClient::Abort) {
            self.shared.has_ended.set(true);
        }
        self.shared.push(item);
    }

    /// There is nobody to send to, and nothing more will be.
    pub fn close(&self) {
        self.shared.has_ended.set(true);
    }

    pub fn credit(&self) -> &Rc<Credit> {
        &self.shared.credit
    }
}

impl Drop for ClientPort {
    fn drop(&mut self) {
        if !self.shared.has_ended.get() {
            self.shared.push(ToClient::Orphaned);
        }
    }
}

impl Shared {
    fn push(&self, item: ToClient) {
        self.items.borrow_mut().push_back(item);
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    fn tell(&self, message: StreamMsg) {
        if let Some(stream) = &*self.stream.borrow() {
            // A stream that has ended needs no telling.
            let _ended = turn::cast(stream, message);
        }
    }
}

/// The writer's end.
pub struct ClientQueue {
    shared: Rc<Shared>,
}

impl ClientQueue {
    /// Waits for something to do, and takes all there is.
    pub async fn take(&self) -> VecDeque<ToClient> {
        poll_fn(|cx| {
            let mut items = self.shared.items.borrow_mut();
            if !items.is_empty() {
                return Poll::Ready(std::mem::take(&mut *items));
            }
            self.shared.writer.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// That many bytes of bodies were written.
    pub fn written(&self, bytes: usize) {
        if self.shared.credit.release(bytes) {
            self.shared.tell(StreamMsg::WindowOpen);
        }
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
