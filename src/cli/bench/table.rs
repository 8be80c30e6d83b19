//! The table on the terminal.

use akg::Accuracy;
use akg::python::Variant;
use akg::timing::Claim;

use super::record::{Against, Record, SideRecord, Times};
use super::summary::{Group, Groups, Summary};

/// The heading of the rows of a run in this class.
pub(super) fn heading(class: Accuracy) -> String {
    let fp32 = if class == Accuracy::Fp32 { "" } else { "    fp32" };
    format!(
        "{:<7} {:<28} {:<12} {:<12} {:>8} {:>17} {:>9} {:>9}{fp32} {:>7} {:<8} {:>5} {:>6}",
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
    let ratio = |against: Option<&Against>| against.map_or_else(String::new, |a| format!("{:.2}x", a.ratio));
    let fp32 = match record.accuracy {
        Accuracy::Fp32 => String::new(),
        _ => format!(" {:>7}", ratio(record.warm_at(Accuracy::Fp32))),
    };
    // `*`: the problem is so small that caches decide.
    let small = if record.work.speed_counts || warm.is_none() {
        ""
    } else {
        "*"
    };
    format!(
        "{:<7} {:<28.28} {family:<12} {:<12} {:>8} {:>17} {:>9} {:>9}{fp32} {:>7} {:<8} {:>5} {:>6.1}",
        record.problem,
        record.name,
        record.status,
        error.unwrap_or_default(),
        mine.unwrap_or_default(),
        theirs(Variant::Eager(record.accuracy)),
        theirs(Variant::Compiled(record.accuracy)),
        ratio(warm),
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
    let all = &summary.groups.all;
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
    let mut lines = Vec::new();
    add_groups(&mut lines, "", &summary.groups);
    for (precision, groups) in &summary.against {
        add_groups(&mut lines, &format!("over PyTorch in {precision}, "), groups);
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

fn add_groups(lines: &mut Vec<String>, over: &str, groups: &Groups) {
    lines.push(format!("{over}all: {}", group(&groups.all)));
    if groups.counting.problems < groups.all.problems {
        lines.push(format!("{over}where speed counts: {}", group(&groups.counting)));
    }
    if let Some(algebra) = &groups.algebra {
        lines.push(format!(
            "{over}rewritten by algebra: {}",
            group(&algebra.rewritten)
        ));
        lines.push(format!("{over}as given: {}", group(&algebra.as_given)));
    }
    for (family, of_family) in &groups.families {
        lines.push(format!("  {family}: {}", group(of_family)));
    }
}
