//! The harness against its own upstream, as users run it: a second of load each, and every fault seen.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test stops at the first surprise")]

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

const LOADTEST: &str = env!("CARGO_BIN_EXE_loadtest");

struct Upstream {
    process: Child,
    url: String,
}

impl Upstream {
    fn start() -> Self {
        let mut command = Command::new(LOADTEST);
        command.args(["upstream", "--events", "20", "--event-bytes", "200"]).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let address = line.split_once("http://").unwrap().1.split('/').next().unwrap();
        Self { process, url: format!("http://{address}") }
    }

    fn run(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new(LOADTEST);
        command.args(["run", "--url", &self.url, "--warm-up", "0s", "--grace", "500ms"]).args(arguments);
        command.output().unwrap()
    }

    /// The report of a run, and whether the command was content with it.
    fn report(&self, arguments: &[&str]) -> (serde_json::Value, bool) {
        let file = tempfile::NamedTempFile::new().unwrap();
        let json = file.path().to_str().unwrap();
        let output = self.run(&[arguments, &["--json", json]].concat());
        let text = std::fs::read_to_string(file.path()).unwrap();
        let report = serde_json::from_str(&text);
        (report.unwrap_or_else(|error| panic!("{error}: {output:?}")), output.status.success())
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn right_answers_are_found_right() {
    let upstream = Upstream::start();
    let runs: [&[&str]; 6] = [
        &["-c", "4", "--requests", "50"],
        &["-c", "4", "--requests", "50", "--plain"],
        &["-c", "4", "--requests", "50", "--threads", "2"],
        &["-c", "50", "--requests", "50", "--model", "healthy,gap=5ms,events=10"],
        &["-c", "20", "--requests", "50", "--rate", "500"],
        &["-c", "1", "--requests", "50", "--model", "healthy,bytes=9000,batch=3"],
    ];
    for arguments in runs {
        let (report, content) = upstream.report(arguments);
        assert!(content, "{arguments:?}: {report}");
        assert_eq!(report["requests"], 50, "{arguments:?}");
        assert_eq!(report["errors"], serde_json::json!({}), "{arguments:?}");
        let events = if arguments.contains(&"healthy,gap=5ms,events=10") { 500 } else { 1000 };
        assert_eq!(report["events"], events, "{arguments:?}");
        assert!(report["added_latency_us"]["p50"].as_f64().unwrap() > 0.0, "{arguments:?}");
    }
}

#[test]
fn every_fault_is_seen_and_named() {
    let upstream = Upstream::start();
    let cases = [
        ("cut-after-5", "cut"),
        ("cut-fin-after-5", "cut"),
        ("stall-after-5", "timeout"),
        ("silent", "timeout"),
        ("garbage-after-5", "lost text"),
        ("error-after-5", "error frame: scripted"),
        ("refuse", "closed without an answer"),
        ("status-503", "status 503"),
        ("nonsense", "status 404"),
    ];
    for (model, want) in cases {
        let arguments = ["-c", "2", "--requests", "4", "--model", model, "--timeout", "300ms"];
        let (report, content) = upstream.report(&arguments);
        assert!(!content, "{model}");
        assert_eq!(report["errors"], serde_json::json!({ want: 4 }), "{model}");
        let allowed = upstream.run(&[&arguments[..], &["--allow-errors"]].concat());
        assert_eq!(allowed.status.success(), want != "lost text", "{model}");
    }
    let (report, _) =
        upstream.report(&["-c", "1", "--requests", "20", "--model", "every-10th-reset,gap=1ms"]);
    assert_eq!((&report["requests"], &report["errors"]), (&18.into(), &serde_json::json!({ "reset": 2 })));
}

#[test]
fn a_process_is_measured_along_and_a_picture_drawn() {
    let upstream = Upstream::start();
    let file = tempfile::NamedTempFile::new().unwrap();
    let (pid, plot) = (upstream.process.id().to_string(), file.path().to_str().unwrap());
    let arguments =
        ["-c", "10", "-d", "1s", "--model", "healthy,gap=10ms,events=5000", "--pid", &pid, "--plot", plot];
    let (report, content) = upstream.report(&arguments);
    assert!(content, "{report}");
    assert_eq!(report["streams_open"][1], 10);
    assert!(report["process"]["cpu_us_per_event"].as_f64().unwrap() > 0.0, "{report}");
    assert!(report["process"]["peak_memory_kb"].as_u64().unwrap() > 500, "{report}");
    assert!(std::fs::read_to_string(plot).unwrap().starts_with("<svg "));
}
