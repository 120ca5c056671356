//! `loadtest compare`: the same load through several proxies in turn, and what each of them took for it.
//!
//! Every measurement has a fresh process of the proxy on a core of its own; the upstream and the client share another
//! one. The proxies take turns within each repetition, so that whatever else the machine does falls on all of them
//! alike: ratios of one run mean something, figures of different runs little.

mod actors;
mod binary;
mod chart;
mod figures;
mod json;
mod measure;
mod memory;
mod place;
mod results;
mod table;
mod tls;
mod turn;
mod workload;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use baton::demo::StopSignal;
use tempfile::TempDir;

use crate::machine;
use crate::peers::{self, Installed, Process, Proxy, SELF, Session, Setting};

pub use actors::{ActorPairs, actor_pairs};
use place::Place;
use results::Results;
use tls::{Certificate, Held};
use workload::{Times, Workload};

/// What a shell reports for a program ended by Ctrl-C.
const INTERRUPTED: i32 = 130;
/// Of a proxy and an upstream, as seen; for the estimate alone.
const START_AND_STOP: Duration = Duration::from_millis(300);
/// So that streams opened over TLS are about as old as those of workload c when their memory is looked at.
const TLS_HOLD: Duration = Duration::from_secs(2);

/// Put the same load through several proxies in turn and set their figures side by side.
#[derive(clap::Args)]
pub struct Arguments {
    /// Short windows: under 4 minutes for everything.
    #[arg(long)]
    quick: bool,
    /// Only these proxies, e.g. nginx,relay,baton [default: all that are installed].
    #[arg(long, value_delimiter = ',', value_name = "LIST")]
    only: Vec<Proxy>,
    /// Only these workloads; d is c with 300 streams.
    #[arg(long, value_delimiter = ',', value_name = "LIST", default_values = ["a", "b", "c"])]
    workloads: Vec<Workload>,
    /// Repetitions; what is reported is their median [default: 5, or 3 with --quick].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=99))]
    reps: Option<u16>,
    /// Seconds of each measurement, after the warm-up [default: 10; with --quick 2, for c 3].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=600))]
    seconds: Option<u64>,
    /// Write every reading to this file.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw bars of CPU time and memory into this SVG file.
    #[arg(long, value_name = "FILE.svg")]
    chart: Option<PathBuf>,
    /// Measure this binary of Baton [default: the one beside this program, brought up to date with cargo].
    #[arg(long, value_name = "FILE")]
    baton: Option<PathBuf>,
    /// The proxies' core [default: the last one that this process may use].
    #[arg(long, value_name = "N")]
    proxy_core: Option<usize>,
    /// The core of the upstream and the client [default: the first one].
    #[arg(long, value_name = "N")]
    load_core: Option<usize>,
}

impl Arguments {
    fn repetitions(&self) -> u16 {
        self.reps.unwrap_or(if self.quick { 3 } else { 5 })
    }
}

/// Measures, prints the tables and writes the files asked for. Fails if there were errors in what was measured.
///
/// # Errors
/// A proxy that was asked for by name is not installed, something does not start, or a file cannot be written.
pub fn command(compare: &Arguments) -> crate::Result<ExitCode> {
    let (load_core, proxy_core) = pick_cores(compare)?;
    let _turn = turn::wait()?;
    let place = Place::here();
    let session = Arc::new(Session::remember());
    let directory = tempfile::Builder::new().prefix("baton-compare-").tempdir()?;
    end_on_signal(directory.path(), Arc::clone(&session))?;
    let installed = installed(compare, directory.path())?;
    machine::raise_descriptor_limit();
    machine::pin(Some(load_core))?;
    let bench = Bench { compare, installed: &installed, directory: &directory, load_core, proxy_core };
    if !peers::raise() {
        eprintln!("only root may take precedence over what else runs here, so that disturbs the figures");
    }
    let measured = bench.asides().and_then(|asides| Ok((asides, bench.run()?)));
    session.restore();
    let (asides, results) = measured?;
    let head = table::head(&place, &installed, usize::from(compare.repetitions()));
    print!("\n{head}{}{}", table::tables(&results), table::verdicts(&results, &asides));
    if let Some(file) = &compare.json {
        let document = json::document(&place, &installed, &results, &asides);
        fs::write(file, format!("{document:#}\n")).map_err(|error| at(file, &error))?;
    }
    if let Some(file) = &compare.chart {
        let subtitle = format!("{}, Linux {}, {}", place.date, place.kernel, place.cpu);
        fs::write(file, chart::svg(&results, &subtitle)).map_err(|error| at(file, &error))?;
    }
    Ok(if results.errors_of_all() == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn at(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// The proxies to be compared. One that is missing is an error only if it was asked for by name.
fn installed(compare: &Arguments, directory: &Path) -> io::Result<Vec<Installed>> {
    let all = compare.only.is_empty();
    let wanted = |proxy: &Proxy| all || compare.only.contains(proxy);
    let baton = match wanted(&Proxy::Baton) {
        true => binary::baton(compare.baton.as_deref(), directory)?,
        false => PathBuf::new(),
    };
    let mut found = Vec::new();
    for proxy in Proxy::ALL.into_iter().filter(wanted) {
        match peers::find(proxy, &baton) {
            Some(installed) => found.push(installed),
            None => {
                let missing = format!("{} is not installed: {}", proxy.name(), proxy.repair());
                if !all {
                    return Err(io::Error::new(io::ErrorKind::NotFound, missing));
                }
                eprintln!("{missing}");
            }
        }
    }
    Ok(found)
}

/// The core of the load and that of the proxies.
fn pick_cores(compare: &Arguments) -> io::Result<(usize, usize)> {
    let cores = peers::cores()?;
    let (Some(first), Some(last)) = (cores.first(), cores.last()) else {
        return Err(io::Error::other("this process may use no core"));
    };
    let (load, proxy) = (compare.load_core.unwrap_or(*first), compare.proxy_core.unwrap_or(*last));
    if load == proxy {
        return Err(io::Error::other(format!(
            "the proxy needs a core to itself, but core {load} is all there is; run on a machine with two, or pass \
             --load-core and --proxy-core"
        )));
    }
    Ok((load, proxy))
}

/// On Ctrl-C or SIGTERM: removes the directory, takes back the session's priority and exits. The kernel then kills the
/// children ([`peers::Process`]).
fn end_on_signal(directory: &Path, session: Arc<Session>) -> io::Result<()> {
    let signal = StopSignal::catch()?;
    let directory = directory.to_owned();
    let wait = move || {
        signal.wait();
        // What is left then is a few kilobytes in the directory for temporary files.
        let _ = fs::remove_dir_all(&directory);
        session.restore();
        std::process::exit(INTERRUPTED);
    };
    std::thread::Builder::new().name("compare-signals".to_owned()).spawn(wait)?;
    Ok(())
}

/// Memory that is measured once a run, in KB.
#[derive(Clone, Copy, Debug, Default)]
pub struct Asides {
    /// Two empty actors.
    pub pair_kb: Option<f64>,
    /// A stream of Baton whose client comes by TLS.
    pub baton_tls_kb: Option<f64>,
}

/// One run of the comparison.
struct Bench<'a> {
    compare: &'a Arguments,
    installed: &'a [Installed],
    directory: &'a TempDir,
    load_core: usize,
    proxy_core: usize,
}

impl Bench<'_> {
    /// Memory beside the tables, where workload c is measured at all.
    fn asides(&self) -> crate::Result<Asides> {
        if !self.compare.workloads.contains(&Workload::C) {
            return Ok(Asides::default());
        }
        let baton = self.installed.iter().find(|it| it.proxy == Proxy::Baton);
        Ok(Asides {
            pair_kb: Some(actors::pair_kb()?),
            baton_tls_kb: baton.map(|baton| self.tls_kb(baton)).transpose()?,
        })
    }

    fn tls_kb(&self, baton: &Installed) -> crate::Result<f64> {
        let directory = tempfile::tempdir_in(self.directory.path())?;
        let (_upstream, upstream) = self.upstream(directory.path())?;
        let certificate = Certificate::make(directory.path())?;
        let setting = Setting {
            upstream,
            core: self.proxy_core,
            directory: directory.path(),
            model: Workload::C.load().model(),
            tls: &certificate.setting,
        };
        let running = baton.start(&setting)?;
        let held = Held {
            address: running.address,
            id: running.id().unwrap_or_default(),
            certificate: &certificate,
        };
        held.kb_per_stream(Workload::C.connections(), Workload::C.load().model(), TLS_HOLD)
            .map_err(Into::into)
    }

    fn run(&self) -> crate::Result<Results> {
        let workloads: Vec<Workload> =
            Workload::ALL.into_iter().filter(|it| self.compare.workloads.contains(it)).collect();
        let (repetitions, proxies) = (self.compare.repetitions(), self.installed.len());
        let total = usize::from(repetitions) * workloads.len() * proxies;
        eprintln!("{total} measurements, about {} s", self.estimate(&workloads).as_secs());
        let mut results = Results::default();
        let mut done = 0;
        for repetition in 0..usize::from(repetitions) {
            for &workload in &workloads {
                // Each time another one begins, so that none is always behind the same one.
                for installed in self.installed.iter().cycle().skip(repetition % proxies.max(1)).take(proxies)
                {
                    let figures = self.measure(installed, workload)?;
                    done += 1;
                    let name = installed.proxy.name();
                    eprintln!(
                        "{done}/{total} {} {name:<8} {}",
                        workload.name(),
                        progress(&figures, workload)
                    );
                    results.add(workload, installed.proxy, figures);
                }
            }
        }
        Ok(results)
    }

    fn times(&self, workload: Workload) -> Times {
        workload.times(self.compare.quick, self.compare.seconds.map(Duration::from_secs))
    }

    /// How long all measurements of `workloads` take.
    fn estimate(&self, workloads: &[Workload]) -> Duration {
        let each = |&workload: &Workload| {
            let times = self.times(workload);
            times.warm_up + times.window + START_AND_STOP
        };
        let proxies = u32::try_from(self.installed.len()).unwrap_or(u32::MAX);
        workloads.iter().map(each).sum::<Duration>() * proxies * u32::from(self.compare.repetitions())
    }

    fn measure(&self, installed: &Installed, workload: Workload) -> crate::Result<figures::Figures> {
        let directory = tempfile::tempdir_in(self.directory.path())?;
        let (_upstream, upstream) = self.upstream(directory.path())?;
        let setting = Setting {
            upstream,
            core: self.proxy_core,
            directory: directory.path(),
            model: workload.load().model(),
            tls: "",
        };
        let running = installed.start(&setting)?;
        measure::measure(workload, self.times(workload), &running)
    }

    /// An upstream of its own for each measurement: nothing is left over from the one before.
    fn upstream(&self, directory: &Path) -> io::Result<(Process, SocketAddr)> {
        let address = peers::free_address()?;
        let arguments =
            ["upstream", "--events", "200", "--port", &address.port().to_string()].map(str::to_owned);
        let log = directory.join("upstream.log");
        let mut process = Process::start(Path::new(SELF), &arguments, self.load_core, &log)?;
        process.wait_for(address, &log)?;
        Ok((process, address))
    }
}

/// One line on what was just measured.
fn progress(figures: &figures::Figures, workload: Workload) -> String {
    let shown = workload.kinds().iter().filter_map(|kind| {
        Some(format!("{} {:.2}", table::heading(*kind, workload, false), kind.of(figures)?))
    });
    let mut line = shown.collect::<Vec<_>>().join("  ");
    if figures.errors > 0 {
        line.push_str(&format!("  ERRORS {}", figures.errors));
    }
    line
}
