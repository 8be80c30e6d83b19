//! What Nsight Compute prints for `--csv --page raw`: a line of names, a line of units, a line for each kernel; around them
//! the tool's remarks, which begin with `==`.

use std::collections::BTreeMap;

use akg_core::profile::Counters;

/// What the names of reasons to wait begin and end with.
const STALL: (&str, &str) = ("smsp__average_warps_issue_stalled_", "_per_issue_active.ratio");

/// The metric of a reason to wait.
pub(super) fn stall_metric(reason: &str) -> String {
    let (prefix, suffix) = STALL;
    format!("{prefix}{reason}{suffix}")
}

/// The kernels and the values of their metrics, in seconds, bytes and plain numbers.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Table {
    rows: Vec<BTreeMap<String, f64>>,
}

impl Table {
    /// Reads the tool's output.
    ///
    /// # Errors
    /// What is wrong with it, for people: the tool's own remark if it made one.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let mut lines = text.lines().filter(|line| line.starts_with('"'));
        let (Some(names), Some(units)) = (lines.next().map(fields), lines.next().map(fields)) else {
            let mut remarks = text.lines().filter(|line| line.starts_with("==ERROR=="));
            let remark = remarks.next().or_else(|| text.lines().last());
            return Err(remark.unwrap_or("it printed nothing").trim().to_owned());
        };
        if names.first().is_none_or(|name| name != "ID") || units.first().is_none_or(|unit| !unit.is_empty())
        {
            return Err("its output has no line of names with a line of units below".to_owned());
        }
        let row = |line: &str| {
            let values = fields(line);
            let cells = names.iter().zip(&units).zip(values);
            cells
                .filter_map(|((name, unit), value)| Some((name.clone(), number(&value)? * scale(unit))))
                .collect()
        };
        let rows: Vec<_> = lines.map(row).collect();
        if rows.is_empty() {
            return Err("it saw no kernel".to_owned());
        }
        Ok(Self { rows })
    }

    /// The counters of each kernel, in the order of their launches.
    pub(super) fn counters(&self) -> Vec<Counters> {
        self.rows.iter().map(counters).collect()
    }
}

fn counters(row: &BTreeMap<String, f64>) -> Counters {
    let value = |name: &str| row.get(name).copied();
    let part = |name: &str| Some((value(name)? / 100.0).clamp(0.0, 1.0));
    let (prefix, suffix) = STALL;
    let stalls = row.iter().filter_map(|(name, warps)| {
        let reason = name.strip_prefix(prefix)?.strip_suffix(suffix)?;
        Some((reason.to_owned(), *warps))
    });
    Counters {
        seconds: value("gpu__time_duration.sum"),
        read_bytes: value("dram__bytes_read.sum"),
        written_bytes: value("dram__bytes_write.sum"),
        cache_bytes: value("lts__t_bytes.sum"),
        memory: part("dram__throughput.avg.pct_of_peak_sustained_elapsed"),
        cache: part("lts__throughput.avg.pct_of_peak_sustained_elapsed"),
        tensor: part("sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active"),
        issue: part("smsp__issue_active.avg.pct_of_peak_sustained_active"),
        occupancy: part("sm__warps_active.avg.pct_of_peak_sustained_active"),
        stalls: stalls.collect(),
    }
}

/// The fields of a line, all of which are quoted; a quote in one is doubled.
fn fields(line: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if quoted && rest.peek() == Some(&'"') => {
                rest.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            c => field.push(c),
        }
    }
    fields.push(field);
    fields
}

/// A number with commas between thousands; `None` for texts such as `n/a`.
fn number(text: &str) -> Option<f64> {
    let number: f64 = text.replace(',', "").parse().ok()?;
    number.is_finite().then_some(number)
}

/// What one of a unit is in seconds or bytes; 1 for everything else.
fn scale(unit: &str) -> f64 {
    match unit {
        "ns" | "nsecond" => 1e-9,
        "us" | "usecond" => 1e-6,
        "ms" | "msecond" => 1e-3,
        "Kbyte" => 1e3,
        "Mbyte" => 1e6,
        "Gbyte" => 1e9,
        "Tbyte" => 1e12,
        _ => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The form of Nsight Compute 2025 with `--csv --page raw --print-units base`.
    const PRINTED: &str = include_str!("../../tests/ncu/two_kernels.csv");

    #[test]
    fn counters_are_read_in_base_units() {
        let counters = Table::parse(PRINTED).unwrap().counters();
        let [copy, product] = counters.as_slice() else {
            panic!("{counters:?}");
        };
        assert_eq!(copy.seconds, Some(62_944e-9));
        assert_eq!(copy.read_bytes, Some(134_226_432.0));
        assert_eq!(copy.written_bytes, Some(118_653_952.0));
        assert_eq!(copy.memory, Some(84.12 / 100.0));
        assert_eq!(copy.tensor, Some(0.0));
        assert_eq!(copy.stalls["long_scoreboard"], 31.75);
        // What the device does not count is `n/a`.
        assert!(!copy.stalls.contains_key("gmma"));
        assert_eq!(product.tensor, Some(71.34 / 100.0));
        assert_eq!(product.occupancy, Some(12.47 / 100.0));
        assert_eq!(product.stalls["gmma"], 1.5);
    }

    #[test]
    fn units_with_prefixes_are_the_same_amounts() {
        let pretty = PRINTED
            .replace("\"ns\"", "\"us\"")
            .replace("\"62,944\"", "\"62.944\"");
        assert_eq!(
            Table::parse(&pretty).unwrap().counters()[0].seconds,
            Some(62.944e-6)
        );
    }

    #[test]
    fn the_tools_own_words_say_what_went_wrong() {
        let cases = [
            (
                "==PROF== Connected to process 7 (/usr/bin/akg)\n==ERROR== ERR_NVGPUCTRPERM - The user does not have \
                 permission\n",
                "ERR_NVGPUCTRPERM",
            ),
            (
                "==WARNING== No kernels were profiled.\n",
                "No kernels were profiled",
            ),
            ("", "nothing"),
            ("\"ID\",\"Name\"\n\"\",\"\"\n", "no kernel"),
            ("\"a\",\"b\"\n\"1\",\"2\"\n", "no line of names"),
        ];
        for (text, expected) in cases {
            let why = Table::parse(text).unwrap_err();
            assert!(why.contains(expected), "{why}");
        }
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "(==PROF==[a-z ]{0,9}\n)?(\"[a-z,\"]{0,9}\",?\n?){0,9}") {
            if let Ok(table) = Table::parse(&text) {
                proptest::prop_assert!(!table.counters().is_empty());
            }
        }
    }
}
