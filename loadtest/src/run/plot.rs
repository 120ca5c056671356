//! A report as a picture: three latency curves by quantile and the events of the run's course, as SVG without scripts.

use std::fmt::Write as _;

use super::Report;

const WIDTH: f64 = 860.0;
const PANEL: f64 = 240.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 20.0;

/// Draws it.
pub fn svg(title: &str, report: &Report) -> String {
    let curves = [
        ("first token", "#1f77b4", &report.curves.first_token),
        ("added latency of an event", "#d62728", &report.curves.added_latency),
        ("between events", "#2ca02c", &report.curves.gap),
    ];
    let height = 2.0 * PANEL + 150.0;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"{LEFT}\" y=\"24\" \
         font-size=\"15\">{}</text>\n",
        escaped(title)
    );
    latencies(&mut out, 60.0, &curves);
    course(&mut out, PANEL + 120.0, &report.course);
    out.push_str("</svg>\n");
    out
}

/// Quantiles on an axis of nines, microseconds on a logarithmic one.
fn latencies(out: &mut String, top: f64, curves: &[(&str, &str, &Vec<(f64, f64)>)]) {
    let values = || curves.iter().flat_map(|(_, _, curve)| curve.iter().map(|(_, us)| us.max(1.0)));
    let low = values().fold(f64::INFINITY, f64::min).log10().floor().clamp(0.0, 9.0);
    let high = values().fold(1.0, f64::max).log10().ceil().max(low + 1.0);
    let y = |us: f64| top + PANEL * (1.0 - (us.max(1.0).log10() - low) / (high - low));
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * -(1.0 - at).log10() / 5.0;
    for decade in low as i32..=high as i32 {
        let us = 10_f64.powi(decade);
        line(out, LEFT, y(us), WIDTH - RIGHT, y(us));
        label(out, LEFT - 6.0, y(us) + 4.0, "end", &duration(us));
    }
    for (at, name) in
        [(0.0, "min"), (0.5, "p50"), (0.9, "p90"), (0.99, "p99"), (0.999, "p99.9"), (0.9999, "p99.99")]
    {
        line(out, x(at), top, x(at), top + PANEL);
        label(out, x(at), top + PANEL + 16.0, "middle", name);
    }
    for (index, (name, colour, curve)) in curves.iter().enumerate() {
        path(out, colour, curve.iter().map(|&(at, us)| (x(at), y(us))));
        let y = top + 16.0 + 16.0 * index as f64;
        let _infallible =
            writeln!(out, "<text x=\"{}\" y=\"{y}\" fill=\"{colour}\">{name}</text>", LEFT + 10.0);
    }
}

/// Events per second over the window.
fn course(out: &mut String, top: f64, course: &[(f64, f64)]) {
    let end = course.last().map_or(1.0, |(at, _)| at.max(0.001));
    let most = course.iter().map(|(_, rate)| *rate).fold(1.0, f64::max) * 1.05;
    let x = |at: f64| LEFT + (WIDTH - LEFT - RIGHT) * at / end;
    let y = |rate: f64| top + PANEL * (1.0 - rate / most);
    for quarter in 0..=4 {
        let share = f64::from(quarter) / 4.0;
        line(out, LEFT, y(most * share), WIDTH - RIGHT, y(most * share));
        label(out, LEFT - 6.0, y(most * share) + 4.0, "end", &format!("{:.0}", most * share));
        label(out, x(end * share), top + PANEL + 16.0, "middle", &format!("{:.1} s", end * share));
    }
    label(out, LEFT + 10.0, top + 16.0, "start", "events per second");
    path(out, "#1f77b4", course.iter().map(|&(at, rate)| (x(at), y(rate))));
}

fn path(out: &mut String, colour: &str, points: impl Iterator<Item = (f64, f64)>) {
    let points: Vec<String> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let points = points.join(" ");
    let _infallible = writeln!(
        out,
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>"
    );
}

fn line(out: &mut String, x1: f64, y1: f64, x2: f64, y2: f64) {
    let _infallible =
        writeln!(out, "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#ddd\"/>");
}

fn label(out: &mut String, x: f64, y: f64, anchor: &str, text: &str) {
    let text = escaped(text);
    let _infallible = writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

fn duration(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.0} µs"),
        us if us < 1e6 => format!("{:.0} ms", us / 1000.0),
        us => format!("{:.0} s", us / 1e6),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::report::Curves;

    #[test]
    fn a_picture_is_well_formed_even_of_nothing() {
        let full = Report {
            curves: Curves {
                added_latency: vec![(0.0, 3.0), (0.5, 8.0), (0.99999, 4e6)],
                ..Curves::default()
            },
            course: vec![(0.5, 1000.0), (1.0, 1200.0)],
            ..Report::default()
        };
        for report in [Report::default(), full] {
            let svg = svg("a < b & c", &report);
            assert!(
                svg.starts_with("<svg ") && svg.ends_with("</svg>\n") && svg.contains("a &lt; b &amp; c")
            );
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
