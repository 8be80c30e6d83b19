//! What the device's management library (NVML) says while candidates are timed: clocks, temperature, power, and what holds the
//! clocks back.

use std::ffi::OsStr;
use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use akg_core::error::{Error, ErrorKind, Result};
use akg_core::timing::{Clock, ClockLimit, Reading, Usage, Witness};
use nvml_wrapper::Nvml;
use nvml_wrapper::bitmasks::device::ThrottleReasons;
use nvml_wrapper::enum_wrappers::device::{Clock as Domain, TemperatureSensor};
use nvml_wrapper::error::NvmlError;

use crate::driver;

/// The library, which comes with the driver.
const LIBRARY: &str = "libnvidia-ml.so.1";

/// What keeps clocks from being higher, as the library calls it.
const LIMITS: [(ThrottleReasons, ClockLimit); 9] = [
    (ThrottleReasons::GPU_IDLE, ClockLimit::Idle),
    (ThrottleReasons::APPLICATIONS_CLOCKS_SETTING, ClockLimit::Setting),
    (ThrottleReasons::DISPLAY_CLOCK_SETTING, ClockLimit::Setting),
    (ThrottleReasons::SW_POWER_CAP, ClockLimit::PowerCap),
    (ThrottleReasons::SYNC_BOOST, ClockLimit::Peer),
    (ThrottleReasons::SW_THERMAL_SLOWDOWN, ClockLimit::SoftwareThermal),
    (ThrottleReasons::HW_THERMAL_SLOWDOWN, ClockLimit::HardwareThermal),
    (ThrottleReasons::HW_POWER_BRAKE_SLOWDOWN, ClockLimit::PowerBrake),
    (ThrottleReasons::HW_SLOWDOWN, ClockLimit::HardwareSlowdown),
];

/// The management library and a device, opened when they are first asked.
#[derive(Debug)]
pub(crate) struct Management {
    device: u32,
    opened: OnceLock<Result<Opened, String>>,
}

struct Opened {
    library: Nvml,
    /// Where the device is on the bus: driver and library both know it by that.
    bus: String,
}

impl fmt::Debug for Opened {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opened")
            .field("bus", &self.bus)
            .finish_non_exhaustive()
    }
}

impl Management {
    /// That of the device with this number in the driver's order.
    pub(crate) fn new(device: u32) -> Self {
        Self {
            device,
            opened: OnceLock::new(),
        }
    }

    fn opened(&self) -> Result<&Opened> {
        let opened = self.opened.get_or_init(|| Opened::new(LIBRARY, self.device));
        opened.as_ref().map_err(|why| {
            let message = format!("clocks, temperature and power are not watched: {why}");
            Error::new(ErrorKind::NotFound, message)
        })
    }
}

impl Opened {
    /// # Errors
    /// Why there is none, for people.
    fn new(library: &str, device: u32) -> Result<Self, String> {
        let refused =
            |error: NvmlError| format!("NVIDIA's management library {library} cannot be used: {error}");
        let library = Nvml::builder()
            .lib_path(OsStr::new(library))
            .init()
            .map_err(refused)?;
        let bus = driver::device(device)?.bus().map_err(|error| error.to_string())?;
        Ok(Self { library, bus })
    }

    fn read(&self) -> Result<Reading> {
        let device = self
            .library
            .device_by_pci_bus_id(self.bus.as_str())
            .map_err(|error| {
                let message = format!(
                    "NVIDIA's management library does not know the device {}: {error}",
                    self.bus
                );
                Error::unexpected(message)
            })?;
        let mut limits: Vec<ClockLimit> = Vec::new();
        // Not every device and driver says everything.
        if let Ok(reasons) = device.current_throttle_reasons() {
            let named = LIMITS.iter().filter(|(reason, _)| reasons.contains(*reason));
            limits.extend(named.map(|(_, limit)| limit));
            limits.dedup();
        }
        let clock = |domain| device.clock_info(domain).ok().map(f64::from);
        Ok(Reading {
            clock: clock(Domain::SM),
            memory_clock: clock(Domain::Memory),
            temperature: device.temperature(TemperatureSensor::Gpu).ok().map(f64::from),
            power: device
                .power_usage()
                .ok()
                .map(|milliwatts| f64::from(milliwatts) / 1e3),
            limits,
        })
    }
}

/// The time, and what the management library says. The host's processors say nothing of the device's speed, and nobody else
/// uses the device.
#[derive(Debug)]
pub(crate) struct Watch(Arc<Management>);

impl Watch {
    /// Opens the library, so that nobody waits for that while candidates are timed.
    pub(crate) fn new(management: Arc<Management>) -> Self {
        // Why it cannot be opened is told when it is asked.
        let _ = management.opened();
        Self(management)
    }
}

impl Witness for Watch {
    fn now(&self) -> Duration {
        Clock.now()
    }

    fn reference(&mut self) -> Duration {
        Clock.reference()
    }

    fn stolen(&mut self) -> Option<Duration> {
        Clock.stolen()
    }

    fn others(&mut self) -> Option<Usage> {
        Clock.others()
    }

    fn device(&mut self) -> Option<Result<Reading>> {
        Some(self.0.opened().and_then(Opened::read))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_the_library_it_says_so() {
        let management = Management::new(0);
        let absent = Opened::new("libnvidia-none.so.1", 0);
        management.opened.set(absent).unwrap();
        let error = Watch::new(Arc::new(management)).device().unwrap().unwrap_err();
        assert!(
            error.message().contains("libnvidia-none.so.1 cannot be used"),
            "{error}"
        );
    }
}
