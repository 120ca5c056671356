//! What a client has sent and nobody has taken yet.
//!
//! One task per connection keeps a read pending for as long as the connection lives, in every phase, so that a
//! client that goes away is noticed at once; a read that was dropped might lose bytes, so it never is. Past
//! [`INBOX_BYTES`] it stops reading, and a FIN behind that shows only through writes.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::net;
use std::rc::Rc;
use std::task::{Poll, Waker};

use bytes::Bytes;

use crate::actor::client::ClientQueue;
use crate::config::HalfClose;
use crate::net::{ReadHalf, Shutdown};

/// Pipelined input that is kept.
pub const INBOX_BYTES: usize = 64 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The client has finished sending.
    Fin,
    /// The connection is no more.
    Reset,
}

pub struct Inbox {
    chunks: RefCell<VecDeque<Bytes>>,
    bytes: Cell<usize>,
    end: Cell<Option<End>>,
    /// What comes is thrown away: the connection is only kept open for the client to read an error.
    is_discarding: Cell<bool>,
    taker: RefCell<Option<Waker>>,
    reader: RefCell<Option<Waker>>,
    /// Who answers the request under way, to be told when the client goes.
    exchange: RefCell<Option<ClientQueue>>,
    half_close: HalfClose,
    shutdown: Shutdown,
}

impl Inbox {
    pub fn new(half_close: HalfClose, shutdown: Shutdown) -> Rc<Self> {
        Rc::new(Self {
            chunks: RefCell::default(),
            bytes: Cell::new(0),
            end: Cell::new(None),
            is_discarding: Cell::new(false),
            taker: RefCell::default(),
            reader: RefCell::default(),
            exchange: RefCell::default(),
            half_close,
            shutdown,
        })
    }

    /// The reading task: ends with the connection.
    pub async fn fill(self: Rc<Self>, mut read: ReadHalf) {
        loop {
            poll_fn(|cx| {
                if self.bytes.get() < INBOX_BYTES || self.is_discarding.get() {
                    return Poll::Ready(());
                }
                self.reader.replace(Some(cx.waker().clone()));
                Poll::Pending
            })
            .await;
            match read.read().await {
                Ok(chunk) if !chunk.is_empty() => self.push(chunk),
                Ok(_) => return self.ended(End::Fin),
                Err(_) => return self.ended(End::Reset),
            }
        }
    }

    /// The connection's task has ended: nothing will be taken any more, so the reading task must not wait for that.
    pub fn close(&self) {
        if let Some(exchange) = self.exchange.take() {
            exchange.client_gone_unless_ended();
        }
        self.throw_away();
    }

    fn throw_away(&self) {
        self.is_discarding.set(true);
        self.chunks.borrow_mut().clear();
        self.bytes.set(0);
        wake(&self.reader);
    }

    /// The reading task ended by a panic.
    pub fn broke(&self) {
        self.ended(End::Reset);
    }

    fn push(&self, chunk: Bytes) {
        if self.is_discarding.get() {
            return;
        }
        self.bytes.set(self.bytes.get() + chunk.len());
        self.chunks.borrow_mut().push_back(chunk);
        wake(&self.taker);
    }

    fn ended(&self, end: End) {
        self.end.set(Some(end));
        if self.is_client_gone()
            && let Some(exchange) = &*self.exchange.borrow()
        {
            exchange.client_gone();
            // A write that is stuck, or the next one, ends with an error.
            self.shutdown.shutdown(net::Shutdown::Both);
        }
        wake(&self.taker);
    }

    /// The next bytes, or None: the client has ended its side. May be dropped at any time.
    pub async fn take(&self) -> Option<Bytes> {
        poll_fn(|cx| {
            if let Some(chunk) = self.chunks.borrow_mut().pop_front() {
                self.bytes.set(self.bytes.get() - chunk.len());
                wake(&self.reader);
                return Poll::Ready(Some(chunk));
            }
            if self.end.get().is_some() {
                return Poll::Ready(None);
            }
            self.taker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await
    }

    /// Ready when the client has gone away. May be dropped at any time.
    pub async fn client_gone(&self) {
        poll_fn(|cx| {
            if self.is_client_gone() {
                return Poll::Ready(());
            }
            self.taker.replace(Some(cx.waker().clone()));
            Poll::Pending
        })
        .await;
    }

    /// A FIN means that the client is gone, unless it is served on.
    pub fn is_client_gone(&self) -> bool {
        match self.end.get() {
            Some(End::Reset) => true,
            Some(End::Fin) => self.half_close == HalfClose::Cancel,
            None => false,
        }
    }

    /// From now on, until [`Self::end_exchange`], `exchange` is told when the client goes.
    pub fn begin_exchange(&self, exchange: &ClientQueue) {
        if self.is_client_gone() {
            exchange.client_gone();
        }
        self.exchange.replace(Some(exchange.clone()));
    }

    pub fn end_exchange(&self) {
        self.exchange.take();
    }

    /// Throws away what is there and all that comes, and waits for the client's end.
    pub async fn discard(&self) {
        self.throw_away();
        while self.take().await.is_some() {}
    }
}

fn wake(waker: &RefCell<Option<Waker>>) {
    if let Some(waker) = waker.take() {
        waker.wake();
    }
}
