//! The groups of an output whose errors are above what the class does in them.

use super::limits::Allowance;
use super::tally::{Group, Groups, Row, Tally};

/// A group whose error is above its limit.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Excess {
    pub(super) group: Group,
    /// The error is a root mean square; else it is the largest.
    pub(super) is_rms: bool,
    pub(super) error: f64,
    pub(super) limit: f64,
    /// The element with the largest error.
    pub(super) at: usize,
}

impl Excess {
    /// How many times its limit the error is.
    pub(super) fn times(&self) -> f64 {
        if self.limit > 0.0 {
            self.error / self.limit
        } else {
            f64::INFINITY
        }
    }
}

/// Elements of the yardstick in a band that its error is known from.
pub(super) const ENOUGH: u64 = 16;

/// Bands that the yardstick's error is taken to be alike in, where it has too few elements.
const NEAR: usize = 2;

/// A band is this many times the next one below.
const BAND_RATIO: f64 = 16.0;

/// The limits of a magnitude band.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct BandLimit {
    rms: f64,
    pub(super) max: f64,
}

/// The limits of all bands. A band of which the yardstick has few elements has those of the next one above or below: errors do not
/// grow where values get smaller, and no faster than values where they get larger.
pub(super) fn band_limits(yard: &Groups, allowance: Allowance) -> Vec<BandLimit> {
    let Allowance { floor, one } = allowance;
    let known = |band: usize| yard.bands.get(band).filter(|tally| tally.count >= ENOUGH);
    let limit = |band: usize| -> BandLimit {
        if let Some(tally) = known(band) {
            return BandLimit {
                rms: allowance.limit(tally),
                max: one * tally.max,
            };
        }
        let above = (1..=NEAR).find_map(|d| known(band + d).map(|tally| tally.max));
        let below = |d: usize| known(band.checked_sub(d)?).map(|tally| tally.max * BAND_RATIO.powi(d as i32));
        let near = above.or_else(|| (1..=NEAR).find_map(below)).unwrap_or(0.0);
        let own = yard.bands.get(band).map_or(0.0, |tally| tally.max);
        let max = one * near.max(own);
        BandLimit { rms: max, max }
    };
    let limits = (0..yard.bands.len()).map(limit);
    limits
        .map(|limit| BandLimit {
            rms: limit.rms.max(floor),
            max: limit.max.max(floor),
        })
        .collect()
}

/// The groups of `found` whose errors are above those of the yardstick by more than chance explains.
pub(super) fn excesses(found: &Groups, yard: &Groups, allowance: Allowance) -> Vec<Excess> {
    let floor = allowance.floor;
    let limits = band_limits(yard, allowance);
    let mut excesses = Vec::new();
    let mut test = |group: Group, tally: &Tally, is_rms: bool, limit: f64| {
        let error = if is_rms { tally.rms() } else { tally.max };
        if error > limit || error.is_nan() {
            excesses.push(Excess {
                group,
                is_rms,
                error,
                limit,
                at: tally.at,
            });
        }
    };
    for (i, (tally, limit)) in found.bands.iter().zip(&limits).enumerate() {
        test(Group::Band(i), tally, true, limit.rms);
        test(Group::Band(i), tally, false, limit.max);
    }
    let measured = |yard: &Tally| (yard.count > 0).then(|| allowance.limit(yard).max(floor));
    for (i, (tally, yard)) in found.columns.iter().zip(&yard.columns).enumerate() {
        let limit = measured(yard).unwrap_or(f64::INFINITY);
        test(Group::Column(i), tally, true, limit);
    }
    for (axis, (tallies, yards)) in found.axes.iter().zip(&yard.axes).enumerate() {
        for (i, (tally, yard)) in tallies.iter().zip(yards).enumerate() {
            let limit = measured(yard).unwrap_or(f64::INFINITY);
            test(Group::Axis(axis, i), tally, true, limit);
        }
    }
    let yards = YardRows::new(yard, allowance);
    for row in found.rows.iter().filter(|row| row.tally.max > 0.0) {
        test(
            Group::Row(row.number),
            &row.tally,
            true,
            yards.limit(row).max(floor),
        );
    }
    excesses
}

/// The yardstick's errors by row.
struct YardRows {
    /// In order.
    rows: Vec<Row>,
    /// The error of a row as a part of its magnitude, that nine rows in ten do not exceed.
    usual: f64,
    allowance: Allowance,
}

impl YardRows {
    fn new(yard: &Groups, allowance: Allowance) -> Self {
        let mut rows: Vec<Row> = yard.rows.clone();
        rows.sort_by_key(|row| row.number);
        rows.dedup_by(|next, row| {
            let same = next.number == row.number;
            if same {
                row.tally.merge(&next.tally);
                row.squares += next.squares;
            }
            same
        });
        let scaled = rows.iter().filter(|row| row.squares > 0.0);
        let mut parts: Vec<f64> = scaled.map(|row| row.tally.rms() / magnitude(row)).collect();
        parts.sort_by(f64::total_cmp);
        let usual = parts.get(parts.len() * 9 / 10).copied().unwrap_or(0.0);
        Self {
            rows,
            usual,
            allowance,
        }
    }

    fn limit(&self, row: &Row) -> f64 {
        match self.rows.binary_search_by_key(&row.number, |row| row.number) {
            Ok(at) => self
                .rows
                .get(at)
                .map_or(0.0, |row| self.allowance.limit(&row.tally)),
            Err(_) => self.allowance.one * self.usual * magnitude(row),
        }
    }
}

/// The root mean square of a row's values.
fn magnitude(row: &Row) -> f64 {
    (row.squares / row.tally.count.max(1) as f64).sqrt()
}
