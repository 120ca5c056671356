//! The results as bars, in SVG: one panel for each workload's CPU time, one for memory.

use std::fmt::Write;

use crate::peers::Proxy;

use super::figures::Kind;
use super::results::Results;
use super::table::heading;
use super::workload::Workload;

const WIDTH: f64 = 720.0;
const BARS_LEFT: f64 = 90.0;
const BARS_WIDTH: f64 = 500.0;
const BAR: f64 = 18.0;
const GAP: f64 = 6.0;
const TITLE: f64 = 34.0;
const MARGIN: f64 = 16.0;

/// Whose bar it is, and its length in the unit of the panel.
type Bar = (Proxy, f64);

/// `subtitle` says when and where.
pub fn svg(results: &Results, subtitle: &str) -> String {
    let panels = panels(results);
    let mut body = String::new();
    let mut top = MARGIN + TITLE;
    for (title, bars) in &panels {
        top = panel(&mut body, top, title, bars);
    }
    let height = top + MARGIN;
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
         height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"{MARGIN}\" y=\"{}\" fill=\"#555555\" font-size=\"12\">{}</text>\n{body}</svg>\n",
        MARGIN + 12.0,
        escape(subtitle),
    )
}

fn panels(results: &Results) -> Vec<(String, Vec<Bar>)> {
    let of = |workload: Workload, kind: Kind| {
        let bar = |proxy| Some((proxy, results.summary(workload, proxy, kind)?.median));
        let bars: Vec<Bar> = results.proxies(workload).into_iter().filter_map(bar).collect();
        (format!("{} — {}", heading(kind, workload, false), workload.title()), bars)
    };
    let kinds = |workload: Workload| {
        let charted =
            [Kind::Cpu, Kind::Memory].into_iter().filter(move |kind| workload.kinds().contains(kind));
        charted.map(move |kind| of(workload, kind))
    };
    results.workloads().into_iter().flat_map(kinds).filter(|(_, bars)| !bars.is_empty()).collect()
}

/// Draws one panel from `top` down and says where it ends.
fn panel(body: &mut String, top: f64, title: &str, bars: &[Bar]) -> f64 {
    let longest = bars.iter().map(|(_, value)| *value).fold(0.0, f64::max);
    // Writing to a String cannot fail.
    let _ = writeln!(
        body,
        "<text x=\"{MARGIN}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        top + 16.0,
        escape(title)
    );
    let mut y = top + TITLE - GAP;
    for (proxy, value) in bars {
        let width = if longest > 0.0 { (value / longest * BARS_WIDTH).max(1.0) } else { 1.0 };
        let colour = if *proxy == Proxy::Baton { "#d9480f" } else { "#8f9aa5" };
        let baseline = y + BAR - 5.0;
        let _ = writeln!(
            body,
            "<text x=\"{}\" y=\"{baseline}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{BARS_LEFT}\" y=\"{y}\" width=\"{width:.1}\" height=\"{BAR}\" fill=\"{colour}\"/>\
             <text x=\"{:.1}\" y=\"{baseline}\">{value:.2}</text>",
            BARS_LEFT - 8.0,
            proxy.name(),
            BARS_LEFT + width + 6.0,
        );
        y += BAR + GAP;
    }
    y + GAP
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use crate::compare::figures::Figures;

    use super::*;

    #[test]
    fn the_longest_bar_fills_its_panel_and_a_half_is_half_as_long() {
        let mut results = Results::default();
        for (proxy, cpu_us) in [(Proxy::Nginx, 2.0), (Proxy::Baton, 4.0)] {
            results.add(Workload::B, proxy, Figures { cpu_us: Some(cpu_us), ..Figures::default() });
        }
        let svg = svg(&results, "a < b");
        assert!(svg.contains("width=\"250.0\"") && svg.contains("width=\"500.0\""), "{svg}");
        assert!(svg.contains("a &lt; b") && !svg.contains("KB/stream"), "{svg}");
    }
}
