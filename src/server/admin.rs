//! The operator's side: `/metrics`, `/livez`, `/readyz`, `/status`, on a listener of its own on the control thread.
//!
//! HTTP is `monoio-http`'s. It has no limits, so they stand here: [`CONNECTIONS_MAX`] connections of one request
//! each, [`REQUEST_BYTES_MAX`] and [`CONNECTION_TIME_MAX`] for each of them. Nothing asks for a key: what is told
//! names routes and targets, never a URL, a key or what clients said.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::net;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CONNECTION, CONTENT_TYPE};
use http::{HeaderValue, Method, StatusCode};
use monoio::io::sink::Sink;
use monoio::io::stream::Stream;
use monoio::net::TcpStream;
use monoio_http::common::request::Request;
use monoio_http::common::response::Response;
use monoio_http::h1::codec::decoder::RequestDecoder;
use monoio_http::h1::codec::encoder::GenericEncoder;
use monoio_http::h1::payload::{FixedPayload, Payload};

use crate::actor::context::Shared;
use crate::error::push_json_string;
use crate::net::listener::{Listener, pause_after};
use crate::net::{clock, rent, task};
use crate::policy::cooldown;
use crate::telemetry::Limit;
use crate::time::MonoTime;

/// Open connections. A scraper and the probes of an orchestrator take a handful.
pub const CONNECTIONS_MAX: usize = 64;
/// Of a request, head and body. A scraper's head has some 300 bytes.
pub const REQUEST_BYTES_MAX: usize = 16 * 1024;
/// From the accept to the close, whatever the client does.
pub const CONNECTION_TIME_MAX: Duration = Duration::from_secs(5);

/// What the API tells of.
pub struct State {
    pub shared: Arc<Shared>,
    /// Open client connections, of all cores.
    pub connections: Arc<AtomicUsize>,
    pub connections_max: usize,
    pub started: MonoTime,
}

/// Accepts until the thread ends.
pub async fn run(mut listener: Listener, state: Rc<State>) {
    let open = Rc::new(Cell::new(0));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => match pause_after(&error) {
                None => return,
                Some(pause) => {
                    monoio::time::sleep(pause).await;
                    continue;
                }
            },
        };
        if open.get() >= CONNECTIONS_MAX {
            state.shared.telemetry.metrics.reached(Limit::AdminConnections);
            drop(stream);
            continue;
        }
        let seat = Seat::take(&open);
        let state = Rc::clone(&state);
        let serving = async move {
            let _seat = seat;
            serve(stream, &state).await;
        };
        task::spawn(serving, |text| tracing::error!("the admin API panicked: {text}"));
    }
}

/// One of the connections; given back on drop.
struct Seat(Rc<Cell<usize>>);

impl Seat {
    fn take(open: &Rc<Cell<usize>>) -> Self {
        open.set(open.get() + 1);
        Self(Rc::clone(open))
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

async fn serve(stream: TcpStream, state: &State) {
    let (read, write, shutdown) = rent::split(stream, REQUEST_BYTES_MAX);
    let mut decoder: RequestDecoder<_> = RequestDecoder::new(read);
    let mut encoder = GenericEncoder::new(write);
    let talking = async {
        let response = match decoder.next().await {
            Some(Ok(request)) => answer(&request, state),
            Some(Err(error)) => {
                tracing::debug!(%error, "an admin request cannot be read");
                plain(StatusCode::BAD_REQUEST, "this is no request that is understood here\n")
            }
            None => return,
        };
        if encoder.send(response).await.is_ok() && Sink::<Response>::close(&mut encoder).await.is_ok() {
            // Closing with unread input would reset the connection and eat the response (RFC 9112, section 9.6).
            while let Some(Ok(_)) = decoder.next().await {}
        }
    };
    let (mut talking, mut late) = (pin!(talking), pin!(monoio::time::sleep(CONNECTION_TIME_MAX)));
    let mut is_late = false;
    poll_fn(|cx| {
        if !is_late && late.as_mut().poll(cx).is_ready() {
            is_late = true;
            // Its operations end, rather than being dropped.
            shutdown.shutdown(net::Shutdown::Both);
        }
        talking.as_mut().poll(cx)
    })
    .await;
}

fn answer(request: &Request, state: &State) -> Response {
    let path = request.uri().path();
    if !["/metrics", "/livez", "/readyz", "/status"].contains(&path) {
        return plain(StatusCode::NOT_FOUND, "there are /metrics, /livez, /readyz and /status\n");
    }
    if request.method() != Method::GET {
        // The answer to HEAD has no body (RFC 9110, section 9.3.2).
        let text = if request.method() == Method::HEAD { "" } else { "only GET is understood here\n" };
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
        response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET"));
        return response;
    }
    let status = &state.shared.status;
    match path {
        "/metrics" => {
            let metrics = &state.shared.telemetry.metrics;
            for (core, of_core) in status.cores().iter().enumerate() {
                metrics.open_streams(core, of_core.streams());
            }
            metrics.open_connections.set(state.connections.load(Ordering::Relaxed) as f64);
            metrics.buffered_bytes.set(state.shared.budget.used() as f64);
            for (target, health) in state.shared.health.states(clock::now()) {
                metrics.target_state(target, health);
            }
            with_type(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", metrics.render().into())
        }
        "/livez" => plain(StatusCode::OK, "ok\n"),
        "/readyz" if status.is_ready() => plain(StatusCode::OK, "ok\n"),
        "/readyz" if status.is_draining() => plain(StatusCode::SERVICE_UNAVAILABLE, "draining\n"),
        "/readyz" => plain(StatusCode::SERVICE_UNAVAILABLE, "no core listens\n"),
        _ => with_type(StatusCode::OK, "application/json", state.describe().into()),
    }
}

fn plain(status: StatusCode, text: &'static str) -> Response {
    with_type(status, "text/plain; charset=utf-8", Bytes::from_static(text.as_bytes()))
}

fn with_type(status: StatusCode, content_type: &'static str, body: Bytes) -> Response {
    let payload = if body.is_empty() { Payload::None } else { Payload::Fixed(FixedPayload::new(body)) };
    let mut response = Response::new(payload);
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    response
}

impl State {
    /// The JSON of `/status`.
    fn describe(&self) -> String {
        let Shared { config, status, budget, health, .. } = &*self.shared;
        let now = clock::now();
        let state = match (status.is_draining(), status.is_ready()) {
            (true, _) => "draining",
            (false, true) => "serving",
            (false, false) => "starting",
        };
        let mut out = format!(
            "{{\"version\":\"{}\",\"config_revision\":\"{}\",\"state\":\"{state}\",\"uptime_seconds\":{:.3},\
             \"open_connections\":{},\"connections_max\":{},\"open_streams\":{},\"buffered_bytes\":{},\"cores\":",
            env!("CARGO_PKG_VERSION"),
            config.revision,
            now.since(self.started).as_secs_f64(),
            self.connections.load(Ordering::Relaxed),
            self.connections_max,
            status.streams(),
            budget.used(),
        );
        push_list(&mut out, status.cores().iter().enumerate(), |out, (number, core)| {
            let (listeners, connections, streams) = (core.listeners(), core.connections(), core.streams());
            out.push_str(&format!(
                "{{\"core\":{number},\"listeners\":{listeners},\"open_connections\":{connections},\
                 \"open_streams\":{streams}}}"
            ));
        });
        out.push_str(",\"targets\":");
        push_list(&mut out, health.states(now), |out, (label, state)| {
            out.push_str("{\"target\":");
            push_json_string(out, label);
            out.push_str(&format!(",\"state\":\"{}\"", state.name()));
            if let cooldown::State::Open { left } = state {
                out.push_str(&format!(",\"for_ms\":{}", left.as_millis()));
            }
            out.push('}');
        });
        out.push_str(",\"routes\":");
        push_list(&mut out, config.routes.iter(), |out, route| {
            out.push_str("{\"route\":");
            push_json_string(out, &route.name);
            out.push_str(",\"targets\":");
            push_list(out, route.targets.iter(), |out, target| {
                push_json_string(out, &target.label);
            });
            out.push('}');
        });
        out.push_str("}\n");
        out
    }
}

fn push_list<T>(out: &mut String, items: impl Iterator<Item = T>, push: impl Fn(&mut String, T)) {
    out.push('[');
    for (at, item) in items.enumerate() {
        if at > 0 {
            out.push(',');
        }
        push(out, item);
    }
    out.push(']');
}
