//! A scenario's file.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Deserializer};

use crate::mock::Plan;
use crate::run::Work;

/// What is started, what load it gets, and what must come of it.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// What it is for, in a sentence or two.
    pub about: String,
    /// How many upstreams there are: `{up1}`, `{up2}`, ... in the config are their addresses.
    pub upstreams: usize,
    /// Baton's config; it is to listen on port 0.
    pub config: String,
    pub phases: Vec<Phase>,
    /// All of them must hold: `PHASE.LOAD.FIGURE <= NUMBER`.
    pub conditions: Vec<String>,
}

/// Loads at the same time.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    pub name: String,
    #[serde(deserialize_with = "duration")]
    pub warm_up: Duration,
    #[serde(deserialize_with = "duration")]
    pub window: Duration,
    /// After the window, for answers to end by themselves.
    #[serde(default, deserialize_with = "duration")]
    pub grace: Duration,
    /// So long after the phase's start Baton is told to stop (SIGTERM).
    #[serde(default, deserialize_with = "some_duration")]
    pub stop_after: Option<Duration>,
    pub loads: Vec<Load>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Load {
    pub name: String,
    /// A route of the config.
    pub model: String,
    pub connections: usize,
    /// Fewer connections, where the limit of open descriptors asks for it.
    #[serde(default)]
    pub fit_to_descriptors: bool,
    #[serde(default)]
    pub slow_readers: usize,
    #[serde(default)]
    pub plain: bool,
    #[serde(default)]
    pub rate: Option<f64>,
    #[serde(default)]
    pub requests: Option<u64>,
    /// Over which the connections are opened.
    #[serde(default, deserialize_with = "duration")]
    pub ramp_up: Duration,
    /// A connection that is refused does not try again.
    #[serde(default)]
    pub leave_when_refused: bool,
    /// The time between two events of a stream, for the figure `asked_events_per_s`.
    #[serde(default, deserialize_with = "some_duration")]
    pub gap: Option<Duration>,
}

fn duration<'de, D: Deserializer<'de>>(from: D) -> Result<Duration, D::Error> {
    let text = String::deserialize(from)?;
    humantime::parse_duration(&text).map_err(serde::de::Error::custom)
}

fn some_duration<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Duration>, D::Error> {
    duration(from).map(Some)
}

impl Scenario {
    /// Reads the file.
    ///
    /// # Errors
    /// It cannot be read, or is no scenario.
    pub fn read(path: &Path) -> crate::Result<Self> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        let scenario: Self = toml::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        if scenario.upstreams == 0 || scenario.phases.is_empty() || scenario.conditions.is_empty() {
            return Err(
                format!("{}: upstreams, phases and conditions must not be none", path.display()).into()
            );
        }
        Ok(scenario)
    }
}

impl Load {
    /// The work that this load is; whom to ask is not in it.
    pub fn work(&self, phase: &Phase) -> Work {
        Work {
            model: self.model.clone(),
            connections: self.connections,
            slow_readers: self.slow_readers,
            streamed: !self.plain,
            rate: self.rate,
            requests: self.requests,
            ramp_up: self.ramp_up,
            leave_when_refused: self.leave_when_refused,
            warm_up: phase.warm_up,
            window: phase.window,
            grace: phase.grace,
            events_per_stream_per_s: self.gap.and_then(|gap| Plan { gap, ..Plan::default() }.events_per_s()),
            ..Work::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scenario_of_the_project_can_be_read_and_its_config_loads() {
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("scenarios");
        let mut count = 0;
        for entry in std::fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let scenario = Scenario::read(&path).unwrap();
            let mut config = scenario.config.clone();
            for index in 1..=scenario.upstreams {
                config = config.replace(&format!("{{up{index}}}"), "127.0.0.1:1");
            }
            let sources = baton::config::Sources {
                env: &|_| None,
                read_file: &|_| Err(std::io::ErrorKind::NotFound.into()),
            };
            let config = baton::config::parse(&config, &sources);
            let config = config.unwrap_or_else(|errors| panic!("{}: {errors:?}", path.display()));
            for load in scenario.phases.iter().flat_map(|phase| &phase.loads) {
                assert!(config.route(&load.model).is_some(), "{}: no route {}", path.display(), load.model);
            }
            for (_, target) in
                config.routes.iter().flat_map(|route| route.targets.iter().map(move |t| (route, t)))
            {
                assert!(Plan::default().of(&target.model).is_ok(), "{}: {}", path.display(), target.model);
            }
            count += 1;
        }
        assert_eq!(count, 8);
    }
}
