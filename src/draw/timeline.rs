//! The launches of a call, one below the other.

use akg_core::profile::{LaunchProfile, time};
use akg_core::{Profile, Result};
use embedded_graphics::text::Alignment;

use super::canvas::{BLACK, Canvas, GREY, LETTER, LINE, PALE};
use super::{color, cut};

/// Pixels of the whole picture, and of the margins beside the bars.
const WIDTH: i32 = 1200;
const NAMES: i32 = 200;
const LABELS: i32 = 240;
const TOP: i32 = 3 * LINE;

/// Pixels of a row and of the bar in it.
const ROW: i32 = 20;
const BAR: u32 = 14;

/// Rows at most. Of more launches, the longest are shown.
const MOST_ROWS: usize = 60;

/// Parts that the axis is cut into.
const TICKS: i32 = 4;

/// Draws the launches of a call as bars: when each runs, one after the other in the order of the plan, and in the color
/// of what holds it back. Each bar's label says its time, its part of the time and its bottleneck.
///
/// # Errors
/// If the picture cannot be encoded.
pub fn timeline(profile: &Profile) -> Result<Vec<u8>> {
    let mut begins = 0.0;
    let mut rows: Vec<(f64, &LaunchProfile)> = Vec::new();
    for launch in &profile.launches {
        rows.push((begins, launch));
        begins += launch.seconds;
    }
    let whole = begins;
    let mut longest: Vec<f64> = rows.iter().map(|(_, launch)| launch.seconds).collect();
    longest.sort_by(|a, b| b.total_cmp(a));
    let least = longest.get(MOST_ROWS - 1).copied().unwrap_or(0.0);
    rows.retain(|(_, launch)| launch.seconds >= least);
    rows.truncate(MOST_ROWS);
    let left_out = profile.launches.len() - rows.len();

    let height = TOP + ROW * rows.len() as i32 + 2 * LINE;
    let mut canvas = Canvas::new(WIDTH as u32, height as u32);
    let kind = if profile.measured { "measured" } else { "estimated" };
    let mut title = format!(
        "{} on {}: {} a call ({kind})",
        profile.name,
        profile.target.name,
        time(profile.seconds)
    );
    if left_out > 0 {
        title += &format!("; {left_out} shorter launches left out");
    }
    canvas.text(&title, (LETTER, LETTER), Alignment::Left, BLACK);
    let plot = f64::from(WIDTH - NAMES - LABELS);
    let x = |seconds: f64| {
        NAMES
            + if whole > 0.0 {
                (seconds / whole * plot).round() as i32
            } else {
                0
            }
    };
    for tick in 0..=TICKS {
        let seconds = whole * f64::from(tick) / f64::from(TICKS);
        canvas.line(((x(seconds), TOP), (x(seconds), height - 2 * LINE)), PALE, 1);
        let at = (x(seconds), height - 2 * LINE + 4);
        canvas.text(&time(seconds), at, Alignment::Center, GREY);
    }
    for (row, (begins, launch)) in rows.into_iter().enumerate() {
        let y = TOP + ROW * row as i32;
        let (from, to) = (x(begins), x(begins + launch.seconds));
        let bottleneck = launch.finding.bottleneck;
        let width = (to - from).max(1) as u32;
        canvas.bar((from, y + 3), (width, BAR), color(bottleneck));
        let name = cut(&launch.kernel, ((NAMES - 2 * LETTER) / LETTER) as usize);
        canvas.text(&name, (NAMES - LETTER, y + 4), Alignment::Right, BLACK);
        let label = format!(
            "{} {:.0} % {bottleneck}",
            time(launch.seconds),
            launch.share * 100.0
        );
        canvas.text(&label, (to + LETTER, y + 4), Alignment::Left, BLACK);
    }
    canvas.into_png()
}
