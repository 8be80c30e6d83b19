//! Launches below the roofs of their device.

use akg_core::profile::{LaunchProfile, scaled, time};
use akg_core::{Profile, Result};
use embedded_graphics::text::Alignment;

use super::canvas::{BLACK, Canvas, GREY, LETTER, LINE, PALE};
use super::{color, cut};

/// Pixels of the plot and of the margins around it.
const PLOT: (i32, i32) = (900, 520);
const LEFT: i32 = 130;
const RIGHT: i32 = 60;
const TOP: i32 = 3 * LINE;
const BELOW: i32 = 3 * LINE;

/// Diameter of a launch's point.
const DOT: u32 = 11;

/// Launches at most that are listed below the plot, the longest.
const MOST_LISTED: usize = 24;

/// The decades that the axes have at least: of operations for each byte, and of rates below the highest roof.
const INTENSITIES: (f64, f64) = (-2.0, 4.0);
const RATES: f64 = 4.0;

/// Where values lie in the picture, on logarithmic axes.
struct Axes {
    /// Decades, from and to.
    x: (f64, f64),
    y: (f64, f64),
}

impl Axes {
    fn new(points: &[(f64, f64)], highest: f64) -> Self {
        let top = highest.max(1.0).log10().ceil();
        let mut axes = Self {
            x: INTENSITIES,
            y: (top - RATES, top),
        };
        for (intensity, rate) in points {
            axes.x.0 = axes.x.0.min(intensity.log10().floor());
            axes.x.1 = axes.x.1.max(intensity.log10().ceil());
            axes.y.0 = axes.y.0.min(rate.log10().floor());
            axes.y.1 = axes.y.1.max(rate.log10().ceil());
        }
        axes
    }

    /// The pixel of a point given by decades.
    fn at(&self, x: f64, y: f64) -> (i32, i32) {
        let part = |value: f64, (from, to): (f64, f64)| (value - from) / (to - from);
        (
            LEFT + (part(x, self.x) * f64::from(PLOT.0)).round() as i32,
            TOP + PLOT.1 - (part(y, self.y) * f64::from(PLOT.1)).round() as i32,
        )
    }

    /// The slope of the memory's bandwidth up to a roof, both in decades, as far as the plot shows it.
    fn slope(&self, bandwidth: f64, roof: f64) -> ((i32, i32), (i32, i32)) {
        let from = self.x.0.max(self.y.0 - bandwidth);
        let to = (roof - bandwidth).clamp(from, self.x.1.max(from));
        (self.at(from, from + bandwidth), self.at(to, to + bandwidth))
    }
}

/// Draws each launch by its operations for each byte of memory traffic and its operations in a second, both on
/// logarithmic axes, below the device's roofs: memory bandwidth, and peak rates by element type. Points have the color of what holds the
/// launch back and the number of the launch, which is explained below the plot. Launches without operations have no point.
///
/// # Errors
/// If the picture cannot be encoded.
pub fn roofline(profile: &Profile) -> Result<Vec<u8>> {
    let target = &profile.target;
    let rate = |launch: &LaunchProfile| launch.work.ops() / launch.seconds;
    let point = |launch: &LaunchProfile| {
        let intensity = launch.intensity()?;
        (launch.seconds > 0.0).then(|| (intensity, rate(launch)))
    };
    let points: Vec<_> = profile.launches.iter().filter_map(point).collect();
    // One roof for each rate, under the names of all types that have it.
    let mut roofs: Vec<(f64, String)> = Vec::new();
    for (dtype, peak) in target.peak.iter().filter(|(_, peak)| **peak > 0.0) {
        match roofs.iter_mut().find(|(known, _)| known == peak) {
            Some((_, names)) => *names += &format!(", {dtype}"),
            None => roofs.push((*peak, dtype.to_string())),
        }
    }
    let highest = roofs.iter().map(|(peak, _)| *peak).fold(0.0, f64::max);
    let axes = Axes::new(&points, highest);

    let mut listed: Vec<(usize, &LaunchProfile)> = profile.launches.iter().enumerate().collect();
    listed.sort_by(|a, b| b.1.seconds.total_cmp(&a.1.seconds));
    listed.truncate(MOST_LISTED);
    let width = LEFT + PLOT.0 + RIGHT;
    let height = TOP + PLOT.1 + BELOW + LINE * listed.len() as i32 + LETTER;
    let mut canvas = Canvas::new(width as u32, height as u32);
    let title = format!("{} on {}", profile.name, target.name);
    canvas.text(&title, (LETTER, LETTER), Alignment::Left, BLACK);
    let caption = "op/s over op/byte of memory traffic";
    canvas.text(caption, (LEFT, LETTER + LINE), Alignment::Left, GREY);
    grid(&mut canvas, &axes);

    let bandwidth = target.bandwidth.max(0.0);
    for (peak, names) in &roofs {
        let roof = peak.log10();
        let ridge = if bandwidth > 0.0 {
            (roof - bandwidth.log10()).clamp(axes.x.0, axes.x.1)
        } else {
            axes.x.0
        };
        canvas.line((axes.at(ridge, roof), axes.at(axes.x.1, roof)), BLACK, 2);
        let (x, y) = axes.at(axes.x.1, roof);
        let label = format!("{names} {}", scaled(*peak, "op/s"));
        canvas.text(&label, (x - LETTER, y - LINE), Alignment::Right, BLACK);
    }
    if bandwidth > 0.0 {
        let roof = if highest > 0.0 { highest.log10() } else { axes.y.1 };
        let slope = axes.slope(bandwidth.log10(), roof);
        canvas.line(slope, BLACK, 2);
        let ((x0, y0), (x1, y1)) = slope;
        let middle = (i32::midpoint(x0, x1) - LETTER, i32::midpoint(y0, y1) - LINE);
        let label = format!("memory {}", scaled(bandwidth, "B/s"));
        canvas.text(&label, middle, Alignment::Right, BLACK);
    }
    for (number, launch) in profile.launches.iter().enumerate() {
        if let Some((intensity, rate)) = point(launch) {
            let (x, y) = axes.at(intensity.log10(), rate.log10());
            canvas.dot((x, y), DOT, color(launch.finding.bottleneck));
            let label = (number + 1).to_string();
            canvas.text(&label, (x + LETTER, y - LINE), Alignment::Left, BLACK);
        }
    }
    for (row, (number, launch)) in listed.into_iter().enumerate() {
        let y = TOP + PLOT.1 + BELOW + LINE * row as i32;
        let reached = match point(launch) {
            Some((intensity, rate)) => format!("{intensity:.2} op/B, {}", scaled(rate, "op/s")),
            None => "no operations counted".to_owned(),
        };
        let text = format!(
            "{:>3} {:<24} {:>10} {:>3.0} %  {:<8} {reached}",
            number + 1,
            cut(&launch.kernel, 24),
            time(launch.seconds),
            launch.share * 100.0,
            launch.finding.bottleneck.name(),
        );
        canvas.text(&text, (LETTER, y), Alignment::Left, BLACK);
    }
    canvas.into_png()
}

/// A line and a label for each decade.
fn grid(canvas: &mut Canvas, axes: &Axes) {
    let decades = |(from, to): (f64, f64)| from as i32..=to as i32;
    for decade in decades(axes.x) {
        let x = f64::from(decade);
        canvas.line((axes.at(x, axes.y.0), axes.at(x, axes.y.1)), PALE, 1);
        let (x, y) = axes.at(x, axes.y.0);
        let label = match decade {
            0.. => format!("{}", 10f64.powi(decade)),
            _ => format!("{:.*}", decade.unsigned_abs() as usize, 10f64.powi(decade)),
        };
        canvas.text(&label, (x, y + LETTER), Alignment::Center, GREY);
    }
    for decade in decades(axes.y) {
        let y = f64::from(decade);
        canvas.line((axes.at(axes.x.0, y), axes.at(axes.x.1, y)), PALE, 1);
        let (x, y) = axes.at(axes.x.0, y);
        let label = scaled(10f64.powi(decade), "op/s");
        canvas.text(&label, (x - LETTER, y - LINE / 2), Alignment::Right, GREY);
    }
}
