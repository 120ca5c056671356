//! One thread's run: warm-up, window, end.

use std::rc::Rc;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::Work;
use super::client::Client;
use super::process::{self, Samples};
use super::recorder::Recorder;
use crate::text::now_ns;

/// Between two looks at time-outs and limits.
const STEP: Duration = Duration::from_millis(50);
/// The longest that ending the connections may take.
const END_MAX: Duration = Duration::from_secs(5);

/// What a thread has measured.
pub struct Measured {
    pub recorder: Recorder,
    pub window_s: f64,
    pub streams_at_start: u64,
    pub streams_at_end: u64,
    pub unfinished: u64,
    pub own_cpu_ns: u64,
    pub process: Samples,
    /// Events of each step of the window: seconds since its start, events.
    pub course: Vec<(f64, u64)>,
}

/// Runs `work`, this thread's part, to its end. `leads`: it shows the progress and looks at the process.
///
/// # Errors
/// The process to be looked at is gone, or the URL is none.
pub async fn run(work: Work, begin_ns: u64, leads: bool) -> crate::Result<Measured> {
    let pid = work.pid.filter(|_| leads);
    let mut samples = Samples::default();
    if let Some(pid) = pid {
        samples.before = process::memory(pid)?;
    }
    let bar = bar(&work, leads);
    let client = Client::new(work, begin_ns)?;
    client.start();
    let mut course = Vec::new();
    let whole_warm_up = client.work.warm_up;
    until(&client, begin_ns, whole_warm_up, &bar, &mut course).await;

    if let Some(pid) = pid {
        samples.start = process::usage(pid)?;
    }
    let (own_start, start_ns) = (process::own_cpu_ns(), now_ns());
    let streams_at_start = client.streams.get();
    client.recorder.borrow_mut().measuring = true;
    until(&client, start_ns, client.work.window, &bar, &mut course).await;
    client.recorder.borrow_mut().measuring = false;
    let window_s = now_ns().saturating_sub(start_ns) as f64 / 1e9;
    let own_cpu_ns = process::own_cpu_ns() - own_start;
    let streams_at_end = client.streams.get();
    // A process that was told to stop may be gone by now: what is known of it then stands.
    if let Some(pid) = pid {
        samples.end = process::usage(pid).unwrap_or_default();
        samples.open = process::memory(pid).unwrap_or_default();
        samples.peak_kb = process::peak_kb(pid).unwrap_or_default();
    }
    bar.finish_and_clear();
    end(&client).await;
    let recorder = client.recorder.replace(Recorder::new()?);
    let unfinished = client.unfinished.get();
    Ok(Measured {
        recorder,
        window_s,
        streams_at_start,
        streams_at_end,
        unfinished,
        own_cpu_ns,
        process: samples,
        course,
    })
}

/// Waits until `length` after `from_ns`, or until all the answers that were asked for are there.
async fn until(
    client: &Rc<Client>,
    from_ns: u64,
    length: Duration,
    bar: &ProgressBar,
    course: &mut Vec<(f64, u64)>,
) {
    let end_ns = from_ns.saturating_add(u64::try_from(length.as_nanos()).unwrap_or(u64::MAX));
    let mut before = client.recorder.borrow().events;
    loop {
        let now = now_ns();
        if now >= end_ns || client.live.get() == 0 {
            return;
        }
        monoio::time::sleep(Duration::from_nanos(end_ns - now).min(STEP)).await;
        client.sweep();
        let recorder = client.recorder.borrow();
        if recorder.measuring {
            course.push((now_ns().saturating_sub(from_ns) as f64 / 1e9, recorder.events - before));
        }
        before = recorder.events;
        bar.inc(u64::try_from(STEP.as_millis()).unwrap_or_default());
        if !bar.is_hidden() {
            let errors: u64 = recorder.errors.values().sum();
            bar.set_message(format!("{} streams, {errors} errors", client.streams.get()));
        }
    }
}

/// Lets open answers end for a moment, then ends them.
async fn end(client: &Rc<Client>) {
    client.stopped.set(true);
    let wait = async |limit: Duration| {
        let mut waited = Duration::ZERO;
        while client.live.get() > 0 && waited < limit {
            monoio::time::sleep(STEP / 10).await;
            waited += STEP / 10;
        }
    };
    wait(client.work.grace).await;
    client.end();
    wait(END_MAX).await;
}

fn bar(work: &Work, leads: bool) -> ProgressBar {
    if !leads || !work.progress {
        return ProgressBar::hidden();
    }
    let length = u64::try_from((work.warm_up + work.window).as_millis()).unwrap_or(u64::MAX);
    let bar = ProgressBar::new(length);
    let style = ProgressStyle::with_template("{bar:30} {elapsed} {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
