//! The table on the terminal.

use akg::python::Variant;
use akg::timing::Claim;

use super::record::{Against, Record, SideRecord, Times};
use super::summary::{Group, Summary};

/// The heading of the rows.
pub(super) fn heading() -> String {
    format!(
        "{:<7} {:<28} {:<12} {:<12} {:>8} {:>17} {:>9} {:>9} {:>7} {:<8} {:>5} {:>6}",
        "problem", "name", "family", "status", "error", "ms", "eager", "compiled", "ratio", "", "tried", "s"
    )
}

/// One problem.
pub(super) fn row(record: &Record) -> String {
    let candidate = record.side("candidate");
    let family = record.family.map_or("", |f| f.name());
    let error = candidate.and_then(|c| c.error).map(|e| format!("{:.0e}", e.rms));
    let mine = candidate.and_then(|c| c.warm).map(|t| {
        let spread = if t.median > 0.0 {
            100.0 * t.spread / t.median
        } else {
            0.0
        };
        format!("{} ±{spread:>2.0} %", milliseconds(&t))
    });
    let theirs = |variant: Variant| {
        let side = record.side(variant.name());
        side.map(|s| s.warm.map_or_else(|| "fails".to_owned(), |t| milliseconds(&t)))
            .unwrap_or_default()
    };
    let warm = record.warm.as_ref();
    let ratio = warm.map(|w| format!("{:.2}x", w.ratio));
    // `*`: the problem is so small that caches decide.
    let small = if record.work.speed_counts || warm.is_none() {
        ""
    } else {
        "*"
    };
    format!(
        "{:<7} {:<28.28} {family:<12} {:<12} {:>8} {:>17} {:>9} {:>9} {:>7} {:<8} {:>5} {:>6.1}",
        record.problem,
        record.name,
        record.status,
        error.unwrap_or_default(),
        mine.unwrap_or_default(),
        theirs(Variant::Eager),
        theirs(Variant::Compiled),
        ratio.unwrap_or_default(),
        format!("{}{small}", warm.map_or("", claim)),
        record.candidates,
        record.seconds,
    )
}

/// What may be said of a comparison.
pub(super) fn claim(against: &Against) -> &'static str {
    match against.claim {
        Some(Claim::Faster) => "win",
        Some(Claim::Noise) => "parity",
        Some(Claim::Slower) => "loss",
        None => "unclear",
    }
}

fn milliseconds(times: &Times) -> String {
    match 1e3 * times.median {
        ms if ms >= 100.0 => format!("{ms:.0}"),
        ms if ms >= 1.0 => format!("{ms:.2}"),
        ms => format!("{ms:.4}"),
    }
}

/// A time with its spread, for `summary.md`.
pub(super) fn time(side: Option<&SideRecord>) -> String {
    let times = side.and_then(|s| s.warm);
    times.map_or_else(String::new, |t| {
        format!(
            "{} ± {:.1} %",
            milliseconds(&t),
            100.0 * t.spread / t.median.max(f64::MIN_POSITIVE)
        )
    })
}

/// A group in one line.
pub(super) fn group(group: &Group) -> String {
    let mut text = format!("{} of {} verified", group.verified, group.problems);
    if let (Some(geomean), Some(median), Some(lowest)) = (group.geomean, group.median, group.lowest) {
        text.push_str(&format!(
            "; {} compared: geomean {geomean:.3}x, median {median:.3}x, lowest {lowest:.3}x; {} wins, {} parity, {} losses, \
             {} unclear",
            group.compared, group.wins, group.parity, group.losses, group.unclear
        ));
    }
    text
}

/// How a run stands, in a few words.
pub(super) fn standing(summary: &Summary) -> String {
    let all = &summary.all;
    let geomean = all
        .geomean
        .map_or_else(String::new, |g| format!(", geomean {g:.2}x"));
    format!(
        "{} verified, {} failed{geomean}",
        all.verified,
        all.problems - all.verified
    )
}

/// The end of the table.
pub(super) fn lines(summary: &Summary) -> Vec<String> {
    let mut lines = vec![format!("all: {}", group(&summary.all))];
    if summary.counting.problems < summary.all.problems {
        lines.push(format!("where speed counts: {}", group(&summary.counting)));
    }
    for (family, of_family) in &summary.families {
        lines.push(format!("  {family}: {}", group(of_family)));
    }
    for (what, problems) in [("lost", &summary.lost), ("unclear", &summary.unclear)] {
        for named in problems {
            let ratio = named.ratio.unwrap_or_default();
            let rival = named.rival.as_deref().unwrap_or_default();
            lines.push(format!(
                "{what}: {} {}, {ratio:.3}x {rival}",
                named.problem, named.name
            ));
        }
    }
    for named in &summary.failed {
        lines.push(format!(
            "failed: {} {}, {}",
            named.problem, named.name, named.status
        ));
    }
    lines
}
