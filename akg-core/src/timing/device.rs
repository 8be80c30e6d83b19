//! What a device says of itself while sides are timed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::outcome::Disturbance;
use super::statistics::median;
use crate::error::Result;

/// What a device says of itself at one instant; what it does not say is missing.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    /// The clock of its cores, in MHz.
    pub clock: Option<f64>,
    /// The clock of its memory, in MHz.
    pub memory_clock: Option<f64>,
    /// Its temperature, in degrees Celsius.
    pub temperature: Option<f64>,
    /// The power it draws, in watts.
    pub power: Option<f64>,
    /// What keeps its clocks from being higher.
    pub limits: Vec<ClockLimit>,
}

/// What keeps a device's clocks from being higher.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum ClockLimit {
    /// There was nothing to do.
    Idle,
    /// Somebody has set them.
    Setting,
    /// More would draw more power than the device may: usual under load.
    PowerCap,
    /// Those of another device, which they follow.
    Peer,
    /// The device's software, because it is hot.
    SoftwareThermal,
    /// The device itself, because it is too hot.
    HardwareThermal,
    /// Its supply, which cannot give the power.
    PowerBrake,
    /// The device itself, for its protection.
    HardwareSlowdown,
}

impl ClockLimit {
    /// The name in reports.
    pub const fn name(self) -> &'static str {
        match self {
            ClockLimit::Idle => "idle",
            ClockLimit::Setting => "setting",
            ClockLimit::PowerCap => "power-cap",
            ClockLimit::Peer => "peer",
            ClockLimit::SoftwareThermal => "software-thermal",
            ClockLimit::HardwareThermal => "hardware-thermal",
            ClockLimit::PowerBrake => "power-brake",
            ClockLimit::HardwareSlowdown => "hardware-slowdown",
        }
    }

    /// Whether times say nothing of a device in order: it protects itself, which the work alone does not bring about.
    pub const fn is_emergency(self) -> bool {
        match self {
            ClockLimit::Idle | ClockLimit::Setting | ClockLimit::PowerCap | ClockLimit::Peer => false,
            ClockLimit::SoftwareThermal
            | ClockLimit::HardwareThermal
            | ClockLimit::PowerBrake
            | ClockLimit::HardwareSlowdown => true,
        }
    }
}

/// What a device said of itself in a contest, asked after the executions of each side in each round.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Readings {
    /// How often it answered.
    pub count: u32,
    /// The clock of its cores, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock: Option<Span>,
    /// The clock of its memory, in MHz.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_clock: Option<Span>,
    /// Its temperature, in degrees Celsius.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<Span>,
    /// The power it drew, in watts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub power: Option<Span>,
    /// What kept its clocks from being higher, in how many readings.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<ClockLimit, u32>,
    /// Why it could not be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gap: Option<String>,
}

/// What a quantity was over a contest.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Span {
    /// At least.
    pub low: f64,
    /// In the middle.
    pub median: f64,
    /// At most.
    pub high: f64,
}

impl Span {
    /// Of no values there is none.
    fn of(values: impl Iterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.collect();
        Some(Self {
            low: values.iter().copied().reduce(f64::min)?,
            median: median(&values)?,
            high: values.iter().copied().reduce(f64::max)?,
        })
    }
}

impl Readings {
    /// Sums answers up; `None` if the device was not asked.
    pub(super) fn of(answers: &[Result<Reading>]) -> Option<Self> {
        let readings = || answers.iter().flatten();
        let span = |of: fn(&Reading) -> Option<f64>| Span::of(readings().filter_map(of));
        let mut limits = BTreeMap::new();
        for limit in readings().flat_map(|reading| &reading.limits) {
            *limits.entry(*limit).or_default() += 1;
        }
        let gap = answers.iter().find_map(|answer| answer.as_ref().err());
        (!answers.is_empty()).then(|| Self {
            count: readings().count() as u32,
            clock: span(|reading| reading.clock),
            memory_clock: span(|reading| reading.memory_clock),
            temperature: span(|reading| reading.temperature),
            power: span(|reading| reading.power),
            limits,
            gap: gap.map(|error| error.message().to_owned()),
        })
    }

    /// What disturbs a contest, of a device that was looked at for instants only: an emergency in one of them is no
    /// accident.
    pub(super) fn disturbances(&self) -> impl Iterator<Item = Disturbance> {
        let limits = self.limits.iter().filter(|(limit, _)| limit.is_emergency());
        limits.map(|(limit, readings)| Disturbance::Slowdown {
            limit: *limit,
            readings: *readings,
            of: self.count,
        })
    }
}
