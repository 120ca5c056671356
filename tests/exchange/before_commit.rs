//! Before the commit: retries, fallbacks, and what the client gets when all is spent.

use baton::exchange::Fault;
use baton::policy::ContinuationMode::Prefill;
use serde_json::Value;

use crate::support::words::*;
use crate::support::{Setup, World};

fn three() -> Setup {
    Setup::stream(&[Prefill; 3])
}

fn alone() -> Setup {
    Setup::stream(&[Prefill])
}

fn body(code: &str) -> String {
    format!(r#"{{"error":{{"message":"no","type":"t","code":"{code}"}}}}"#)
}

/// Makes the attempt fail.
type Break = fn(&mut World, u32);

fn status(world: &mut World, id: u32, status: u16) {
    world.answer(id, status, "", &body("x"));
}

const AGAIN: &str = "retry at 0";
const NEXT: &str = "fallback at 1";
/// What goes wrong, what it is called, and what follows.
const FAILURES: [(&str, Break, &str, &str); 22] = [
    (
        "refused [B1]",
        |w, id| {
            w.fault(id, Fault::ConnectFailed);
        },
        "connect_failed",
        AGAIN,
    ),
    (
        "closed at once [B2]",
        |w, id| {
            w.fin(id);
        },
        "closed_early",
        AGAIN,
    ),
    (
        "reset at once [B2]",
        |w, id| {
            w.reset(id);
        },
        "closed_early",
        AGAIN,
    ),
    (
        "its task died [B18]",
        |w, id| {
            w.fault(id, Fault::Died);
        },
        "died",
        AGAIN,
    ),
    (
        "cut in the head [B4]",
        |w, id| {
            w.wire(id, "HTTP/1.1 2").fin(id);
        },
        "cut",
        AGAIN,
    ),
    (
        "cut behind the head [B4]",
        |w, id| {
            w.ok(id).fin(id);
        },
        "cut",
        AGAIN,
    ),
    (
        "cut behind the role [B4]",
        |w, id| {
            w.ok(id).send(id, role()).reset(id);
        },
        "cut",
        AGAIN,
    ),
    (
        "a bare [DONE], then cut [B4]",
        |w, id| {
            w.ok(id).send(id, role() + DONE).fin(id);
        },
        "cut",
        AGAIN,
    ),
    (
        "a bare [DONE], then open [B4]",
        |w, id| {
            w.ok(id).send(id, role() + DONE).advance(1_000);
        },
        "no_proper_end",
        AGAIN,
    ),
    (
        "empty [B15]",
        |w, id| {
            w.ok(id).send(id, DONE).end(id);
        },
        "empty_answer",
        AGAIN,
    ),
    ("500 [B8]", |w, id| status(w, id, 500), "status", AGAIN),
    ("529 [B8]", |w, id| status(w, id, 529), "status", AGAIN),
    ("429 [B6]", |w, id| status(w, id, 429), "status", AGAIN),
    (
        "in-band 503 [B16]",
        |w, id| {
            w.ok(id).send(id, error("503", "x"));
        },
        "in_band_error",
        AGAIN,
    ),
    (
        "an error as JSON [B16]",
        |w, id| {
            w.answer(id, 200, "", &body("server_error"));
        },
        "in_band_error",
        AGAIN,
    ),
    (
        "no HTTP [B12]",
        |w, id| {
            w.wire(id, "SSH-2.0-x\r\n");
        },
        "protocol_error",
        NEXT,
    ),
    (
        "a redirect [B12]",
        |w, id| {
            w.answer(id, 307, "Location: /x\r\n", "");
        },
        "protocol_error",
        NEXT,
    ),
    (
        "101 [B12]",
        |w, id| {
            w.wire(id, "HTTP/1.1 101 X\r\n\r\n");
        },
        "protocol_error",
        NEXT,
    ),
    (
        "a page of HTML [B12]",
        |w, id| {
            w.answer(id, 200, "", "<html>");
        },
        "protocol_error",
        NEXT,
    ),
    (
        "garbage [B13]",
        |w, id| {
            w.ok(id).send(id, "data: {\"a\n\ndata: {\"a\n\n");
        },
        "undecodable",
        NEXT,
    ),
    (
        "DNS [B17]",
        |w, id| {
            w.fault(id, Fault::DnsFailed);
        },
        "dns_failed",
        NEXT,
    ),
    (
        "TLS [B17]",
        |w, id| {
            w.fault(id, Fault::TlsFailed);
        },
        "tls_failed",
        NEXT,
    ),
];

#[test]
fn each_failure_is_retried_or_falls_back_as_the_table_says() {
    for (name, break_it, result, next) in FAILURES {
        let mut world = World::new(&three().with(|setup| setup.policy.retry.streaming_max_retries = 1));
        break_it(&mut world, 0);
        let opened = world.take().pop();
        assert_eq!(opened.as_deref(), Some(&*format!("open 1 {next}")), "{name}");
        assert_eq!(world.results(), [result], "{name}");
        if next == AGAIN {
            break_it(&mut world, 1);
            assert_eq!(world.attempts[&2].kind, "fallback", "{name}: one retry");
            break_it(&mut world, 2);
            assert_eq!(world.attempts[&3].kind, "fallback", "{name}: a fallback is not retried");
            assert_eq!(world.attempts[&3].target, 2, "{name}");
        }
    }
}

// [B5, D3]
#[test]
fn silence_goes_on_to_the_next_target_and_back_only_if_there_is_none() {
    let mut world = World::new(&three().with(|setup| setup.policy.retry.streaming_max_retries = 1));
    world.ok(0).advance(60_000);
    assert_eq!(world.take(), ["open 0 initial at 0", "close 0", "open 1 fallback at 1"]);
    let mut world = World::new(&alone().with(|setup| setup.policy.retry.streaming_max_retries = 1));
    world.advance(60_000);
    assert_eq!(world.take(), ["open 0 initial at 0", "close 0", "open 1 retry at 0"]);
    world.advance(60_000);
    assert_eq!(world.client.status(), Some(504));
    assert_eq!(world.client.json()["error"]["code"], "upstream_timeout");
}

// [B11, H5]
#[test]
fn the_requests_own_faults_are_forwarded_as_they_are() {
    for status in [400, 404, 408, 413, 422, 499] {
        let mut world = World::new(&three().with(|setup| setup.policy.retry.streaming_max_retries = 1));
        let fields =
            "Content-Type: application/json\r\nX-Ratelimit-Left: 1\r\nSet-Cookie: a\r\nX-Request-Id: u\r\n";
        world.answer(0, status, fields, &body("bad"));
        assert_eq!(world.client.status(), Some(status));
        assert_eq!(world.client.text_of_body(), body("bad"));
        assert_eq!(world.client.header("x-ratelimit-left").as_deref(), Some("1"));
        assert_eq!(world.client.header("set-cookie"), None);
        assert_eq!(world.client.head.as_ref().and_then(|head| head.served_by), Some(0));
        assert_eq!(world.attempts.len(), 1);
        assert!(world.attempts[&0].drain);
    }
}

// [B10, E11]
#[test]
fn what_speaks_of_batons_own_key_gets_a_body_of_ours() {
    for status in [401, 402, 403] {
        let mut world = World::new(&three());
        world.answer(0, status, "WWW-Authenticate: Bearer\r\n", r#"{"error":{"message":"bad key sk-123"}}"#);
        assert_eq!(world.client.status(), Some(status));
        assert_eq!(world.client.json()["error"]["code"], "upstream_auth_error");
        assert!(!world.client.text_of_body().contains("sk-123"));
        assert_eq!(world.attempts.len(), 1);
    }
}

// [B9]
#[test]
fn lists_of_the_route_make_more_fall_back() {
    let statuses = || three().with(|setup| setup.policy.fallback_on_statuses = vec![401, 404]);
    let codes =
        || three().with(|setup| setup.policy.fallback_on_codes = vec!["context_length_exceeded".to_owned()]);
    let long =
        r#"{"error":{"message":"no","type":"invalid_request_error","code":"Context_Length_Exceeded"}}"#;
    let cases: [(&str, Setup, u16, &str); 3] = [
        ("a rotated key", statuses(), 401, "{}"),
        ("a model that is gone", statuses(), 404, "{}"),
        ("too long for this one", codes(), 400, long),
    ];
    for (name, setup, status, body) in cases {
        let setup = setup.with(|setup| setup.policy.retry.streaming_max_retries = 1);
        let mut world = World::new(&setup);
        world.answer(0, status, "", body);
        assert_eq!(world.take().pop().as_deref(), Some("open 1 fallback at 1"), "{name}");
    }
}

#[test]
fn when_all_is_spent_the_last_upstream_answer_is_the_clients() {
    let mut world = World::new(&three());
    world
        .answer(0, 503, "", &body("first"))
        .answer(1, 500, "", &body("second"))
        .fault(2, Fault::ConnectFailed);
    assert_eq!(world.client.status(), Some(500));
    assert_eq!(world.client.text_of_body(), body("second"));
    assert_eq!(world.client.head.as_ref().and_then(|head| head.served_by), Some(1));
    assert_eq!(world.results(), ["status", "status", "connect_failed"]);
}

// [E9, E13, E14, E15]
#[test]
fn without_any_answer_the_failure_has_a_code_of_ours() {
    let cases: [(&str, Fault, u16, &str); 6] = [
        ("refused", Fault::ConnectFailed, 503, "upstream_unavailable"),
        ("DNS", Fault::DnsFailed, 503, "upstream_unavailable"),
        ("cut", Fault::ClosedEarly, 502, "upstream_failed"),
        ("no HTTP", Fault::Protocol("x".to_owned()), 502, "protocol_error"),
        ("too large", Fault::TooLarge, 502, "protocol_error"),
        ("died", Fault::Died, 500, "internal_error"),
    ];
    for (name, fault, status, code) in cases {
        let mut world = World::new(&alone());
        world.fault(0, fault);
        assert_eq!(world.client.status(), Some(status), "{name}");
        let error: Value = world.client.json();
        assert_eq!(error["error"]["code"], code, "{name}");
        assert_eq!(world.client.header("content-type").as_deref(), Some("application/json"));
    }
}

// [E13]
#[test]
fn an_error_that_is_no_json_gets_a_body_of_ours() {
    for page in ["<html>nginx</html>", ""] {
        let mut world = World::new(&alone());
        world.answer(0, 503, "Content-Type: text/html\r\n", page);
        assert_eq!(world.client.status(), Some(503));
        assert_eq!(world.client.header("content-type").as_deref(), Some("application/json"));
        assert_eq!(world.client.json()["error"]["code"], "upstream_failed");
    }
}

/// The head has said what matters: a body that is cut, too long or never ends changes nothing.
#[test]
fn an_error_status_counts_however_its_body_ends() {
    let head = "HTTP/1.1 400 X\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n";
    let part = r#"{"error":{"message":"no","code":"bad"#;
    let cases: [(&str, Break); 4] = [
        ("cut", |w, id| {
            w.fin(id);
        }),
        ("reset", |w, id| {
            w.reset(id);
        }),
        ("left open", |w, _| {
            w.advance(1_000);
        }),
        ("died", |w, id| {
            w.fault(id, Fault::Died);
        }),
    ];
    for (name, break_it) in cases {
        let mut world = World::new(&three());
        world.wire(0, head).wire(0, part);
        break_it(&mut world, 0);
        assert_eq!(world.client.status(), Some(400), "{name}");
        assert!(world.client.json()["error"]["message"].is_string(), "{name}");
        assert_eq!(world.attempts.len(), 1, "{name}");
    }
    let mut world = World::new(&three().with(|setup| setup.limits.response_body = 1_000));
    world.wire(0, "HTTP/1.1 404 X\r\n\r\n").wire(0, "x".repeat(1_001));
    assert_eq!(world.client.status(), Some(404));
}

// [B3]
#[test]
fn a_stale_connection_is_dialled_anew_once_and_free() {
    let setup = || three().with(|setup| setup.policy.retry.streaming_max_retries = 1);
    let mut world = World::new(&setup());
    world.fault(0, Fault::StaleConnection);
    assert_eq!(world.take(), ["open 0 initial at 0", "close 0", "open 1 initial at 0 fresh"]);
    world.answer(1, 500, "", &body("x"));
    assert_eq!(world.take().pop().as_deref(), Some("open 2 retry at 0 fresh"), "the retry is still there");
    world.answer(2, 500, "", &body("x"));
    assert_eq!(world.take().pop().as_deref(), Some("open 3 fallback at 1"), "another target, another pool");
    world.fault(3, Fault::StaleConnection);
    assert_eq!(world.take().pop().as_deref(), Some("open 4 fallback at 1 fresh"));
    world.fault(4, Fault::StaleConnection);
    assert_eq!(world.take().pop().as_deref(), Some("open 5 fallback at 2"), "once a target");
}

#[test]
fn fallbacks_and_retries_keep_to_their_limits() {
    let mut world = World::new(&three().with(|setup| setup.policy.max_fallbacks = 1));
    world.answer(0, 500, "", &body("x")).answer(1, 500, "", &body("x"));
    assert_eq!((world.attempts.len(), world.client.status()), (2, Some(500)));
    let mut world = World::new(&three().with(|setup| setup.policy.max_fallbacks = 0));
    world.fault(0, Fault::ConnectFailed);
    assert_eq!((world.attempts.len(), world.client.status()), (1, Some(503)));
}

#[test]
fn no_target_at_all_is_an_answer_too() {
    let world = World::new(&Setup::stream(&[]));
    assert_eq!(world.client.status(), Some(503));
}
