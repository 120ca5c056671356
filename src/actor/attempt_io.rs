//! The task of one attempt: connects, writes the request, reads, frames, and casts a batch a read to the `Stream`.
//!
//! Reading and writing go on together, so that an upstream which answers before it has read a large request is
//! heard. No operation is dropped: who wants the task to end shuts the socket down (`guard`).

use std::future::{Future, poll_fn};
use std::io;
use std::net;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use ractor::ActorRef;
use smallvec::smallvec;

use super::call::request_head;
use super::client::CreditRef;
use super::context;
use super::guard::{Guard, Mode};
use super::stream::StreamMsg;
use super::turn;
use super::upstream::UpstreamArgs;
use crate::exchange::{AttemptId, Fact, Facts, Fault, Intake};
use crate::net::clock;
use crate::net::task::within;
use crate::net::{Connection, Gather, connect, resolver, tls};

/// A pooled connection that ends within this time, without a byte, had been closed before the request was sent on it.
/// Later the upstream has had the request: that is a failure like any other. Arbitrary, above any round trip.
const STALE_MAX: Duration = Duration::from_secs(1);

/// Runs one attempt to its end.
pub async fn run(args: UpstreamArgs) {
    let (core, upstream) = (Rc::clone(&args.core), args.upstream);
    // Boxed: once the request is on its way the task should not go on carrying what led there.
    let Some(talk) = Box::pin(begin(args)).await else { return };
    let guard = Rc::clone(&talk.reporter.guard);
    let reusable = converse(talk, &core).await;
    guard.over();
    if let Some(connection) = reusable {
        core.pools[upstream].borrow_mut().put(connection, clock::now());
    }
}

/// A request that is ready to be written, and where its answer goes.
struct Talk {
    connection: Connection,
    /// The connection was used before.
    is_pooled: bool,
    request: Gather,
    /// How writing it ended.
    written: Option<io::Result<()>>,
    intake: Intake,
    reporter: Reporter,
}

/// None: there is no connection, which was reported, or it is not wanted any more.
async fn begin(args: UpstreamArgs) -> Option<Box<Talk>> {
    let core = Rc::clone(&args.core);
    let connected = connection(&args, &core).await;
    let UpstreamArgs { attempt, upstream, shape, body, call, stream, credit, guard, .. } = args;
    let reporter = Reporter { attempt, stream, credit, guard: Rc::clone(&guard) };
    let (connection, is_pooled) = match connected {
        Ok(connected) => connected,
        Err(fault) => {
            reporter.report(smallvec![Fact::Failed(fault)]);
            return None;
        }
    };
    if !guard.connected(connection.shutdown.clone()) {
        return None;
    }
    let mut request = Gather::new();
    let length = body.iter().map(Bytes::len).sum();
    request.push(request_head(&call, &core.shared.config.upstreams[upstream], length));
    request.push_all(body);
    let intake = Intake::new(shape, core.intake_limits());
    Some(Box::new(Talk { connection, is_pooled, request, written: None, intake, reporter }))
}

/// A pooled connection, or a new one; true: it was used before.
async fn connection(args: &UpstreamArgs, core: &context::Context) -> Result<(Connection, bool), Fault> {
    if !args.fresh
        && let Some(pooled) = core.pools[args.upstream].borrow_mut().take(clock::now())
    {
        return Ok((pooled, true));
    }
    // Boxed: once there is a connection the task should not go on carrying what dialling needs.
    let mut dialling = Box::pin(dial(args, core));
    let guard = &args.guard;
    poll_fn(|cx| {
        if guard.mode() != Mode::Live {
            return Poll::Ready(Err(Fault::ConnectFailed));
        }
        guard.keep_waiter(cx);
        dialling.as_mut().poll(cx)
    })
    .await
    .map(|connection| (connection, false))
}

/// DNS, TCP and TLS under the one connect limit.
async fn dial(args: &UpstreamArgs, core: &context::Context) -> Result<Connection, Fault> {
    /// With `connect = "0s"` the operating system gives up in its own time, after about two minutes.
    const NO_LIMIT: Duration = Duration::from_secs(300);
    let begun = clock::now();
    let limit = if args.connect_timeout.is_zero() { NO_LIMIT } else { args.connect_timeout };
    let upstream = &core.shared.config.upstreams[args.upstream];
    let name = upstream.name.as_str();
    let resolving = resolver::resolve(&upstream.base.host, upstream.base.port, begun);
    let addresses = match within(limit, resolving).await {
        Some(Ok(addresses)) => addresses,
        Some(Err(error)) => {
            tracing::error!(upstream = name, %error, "the upstream's name cannot be resolved: mend base_url or DNS");
            return Err(Fault::DnsFailed);
        }
        None => {
            tracing::error!(
                upstream = name,
                ?limit,
                "the upstream's name was not resolved in time: mend base_url or DNS"
            );
            return Err(Fault::DnsFailed);
        }
    };
    let left = limit.saturating_sub(clock::now().since(begun));
    let stream = connect::connect_by(&addresses, left).await.map_err(|error| {
        tracing::warn!(upstream = name, %error, "the upstream cannot be connected to");
        Fault::ConnectFailed
    })?;
    let Some(settings) = core.shared.tls[args.upstream].clone() else { return Ok(Connection::plain(stream)) };
    let left = limit.saturating_sub(clock::now().since(begun));
    match within(left, tls::client(stream, settings.config, settings.name)).await {
        Some(Ok(connection)) => Ok(connection),
        Some(Err(error)) if error.kind() == io::ErrorKind::InvalidData => {
            tracing::error!(upstream = name, %error, "TLS with the upstream failed: mend its tls settings or certificate");
            Err(Fault::TlsFailed)
        }
        Some(Err(error)) => {
            tracing::warn!(upstream = name, %error, "the upstream closed the connection during the TLS handshake");
            Err(Fault::ClosedEarly)
        }
        None => Err(Fault::ConnectFailed),
    }
}

/// Writes the request and reads the response. Some: the connection may carry another request.
async fn converse(mut talk: Box<Talk>, core: &context::Context) -> Option<Connection> {
    let Talk { connection, is_pooled, request, written, intake, reporter } = &mut *talk;
    let Connection { read, write, shutdown } = connection;
    let pending = core.shared.budget.lease(core.core);
    let begun = clock::now();
    while !intake.is_over() && reporter.guard.mode() != Mode::Cancelled {
        let arrived = {
            let mut reading = pin!(read.read());
            poll_fn(|cx| {
                if written.is_none()
                    && let Poll::Ready(result) = write.poll_write(request, cx)
                {
                    *written = Some(result);
                }
                // Nothing more is read while the client's window is full.
                ready!(reporter.poll_room(cx));
                reading.as_mut().poll(cx)
            })
            .await
        };
        if reporter.guard.mode() == Mode::Cancelled {
            break;
        }
        let mut facts = Facts::new();
        match arrived {
            Ok(chunk) if !chunk.is_empty() => {
                if let Some(observer) = &core.shared.observer {
                    observer.read(&chunk);
                }
                intake.feed(chunk, &mut facts);
            }
            ended => intake.end_of_input(ended.is_err(), &mut facts),
        }
        if *is_pooled
            && !intake.has_begun()
            && clock::now().since(begun) < STALE_MAX
            && let Some(Fact::Failed(fault @ Fault::ClosedEarly)) = facts.last_mut()
        {
            *fault = Fault::StaleConnection;
        }
        reporter.report(facts);
        pending.set(intake.pending_bytes());
        turn::take_if_many_wait();
    }
    if written.is_none() {
        // Half a request may be on the wire: nothing else may follow on this connection.
        shutdown.shutdown(net::Shutdown::Both);
        let _cut = write.write(request).await;
    }
    let is_clean = intake.may_reuse() && matches!(written, Some(Ok(())));
    (is_clean && reporter.guard.mode() != Mode::Cancelled).then_some(talk.connection)
}

/// The way from an attempt's task to its `Stream`.
struct Reporter {
    attempt: AttemptId,
    stream: ActorRef<StreamMsg>,
    credit: CreditRef,
    guard: Rc<Guard>,
}

impl Reporter {
    /// Casts what one read gave. Its bytes count as not yet written from now on.
    fn report(&self, facts: Facts) {
        if facts.is_empty() || self.guard.mode() != Mode::Live {
            return;
        }
        let bytes = facts.iter().map(bytes_of).sum();
        self.credit.charge(bytes);
        let message = StreamMsg::Upstream { attempt: self.attempt, facts, bytes };
        if turn::cast(&self.stream, message).is_err() {
            self.credit.release(bytes);
            self.guard.cancel();
        }
    }

    /// Ready while the client's window has room, or once the attempt is not wanted any more.
    fn poll_room(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.credit.is_full() || self.guard.mode() != Mode::Live {
            return Poll::Ready(());
        }
        self.guard.keep_waiter(cx);
        self.credit.poll_room(cx)
    }
}

/// What a fact holds of bodies.
fn bytes_of(fact: &Fact) -> usize {
    match fact {
        Fact::Frames(frames) => frames.iter().map(crate::sse::Frame::wire_len).sum(),
        Fact::Bytes(bytes) => bytes.len(),
        Fact::Head(_) | Fact::Ended | Fact::Failed(_) => 0,
    }
}
