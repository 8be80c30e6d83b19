//! `results.json` and `summary.md`. The JSON form is documented in `docs/bench.md`.

use std::fmt::Write as _;

use akg::python::{Environment, Variant};
use akg::{Accuracy, Result, Target};
use serde::Serialize;

use super::copy::{Copy, Share};
use super::folder::{Folder, Settings, to_json};
use super::record::{Against, Record, SideRecord};
use super::summary::{Group, Groups, Summary};
use super::table;

/// The version of the JSON form.
const SCHEMA: u32 = 1;

/// Everything that a run found.
#[derive(Debug, Serialize)]
pub(super) struct Results {
    schema: u32,
    benchmark: &'static str,
    /// The command of the last part of the run.
    command: String,
    /// When the last part of the run began.
    date: String,
    versions: Versions,
    device: Target,
    settings: Settings,
    /// Problems that were chosen, finished or not.
    chosen: usize,
    /// What a copy reaches, and how near memory-bound kernels come to it.
    #[serde(skip_serializing_if = "Option::is_none")]
    copy: Option<Copy>,
    #[serde(skip_serializing_if = "Option::is_none")]
    copy_share: Option<Share>,
    summary: Summary,
    problems: Vec<Record>,
}

/// What took part.
#[derive(Debug, Serialize)]
struct Versions {
    akg: &'static str,
    judge: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    python: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    torch: Option<String>,
}

impl Results {
    /// The results of a run that begins now.
    pub(super) fn new(
        settings: Settings,
        device: Target,
        python: Option<&Environment>,
        chosen: usize,
    ) -> Self {
        let command: Vec<_> = std::env::args_os()
            .map(|a| a.to_string_lossy().into_owned())
            .collect();
        Self {
            schema: SCHEMA,
            benchmark: "kernelbench",
            command: command.join(" "),
            date: jiff::Timestamp::now().to_string(),
            versions: Versions {
                akg: env!("CARGO_PKG_VERSION"),
                judge: akg::verdict::JUDGE_VERSION,
                python: python.map(|e| e.python_version().to_owned()),
                torch: python.map(|e| e.torch_version().to_owned()),
            },
            device,
            settings,
            chosen,
            copy: None,
            copy_share: None,
            summary: Summary::of(&[]),
            problems: Vec::new(),
        }
    }

    /// Takes another record.
    pub(super) fn push(&mut self, record: Record) {
        let number = |r: &Record| {
            let mut parts = r.problem.split('-').map(|n| n.parse::<u32>().ok());
            (parts.next().flatten(), parts.next().flatten())
        };
        let at = self.problems.partition_point(|r| number(r) < number(&record));
        self.problems.insert(at, record);
        self.summary = Summary::of(&self.problems);
        self.copy_share = self.share();
    }

    /// Takes what a copy on the device reaches.
    pub(super) fn set_copy(&mut self, copy: Copy) {
        self.copy = Some(copy);
        self.copy_share = self.share();
    }

    fn share(&self) -> Option<Share> {
        Share::of(&self.problems, self.copy.as_ref()?)
    }

    /// The device that the results are of.
    pub(super) fn device(&self) -> &Target {
        &self.device
    }

    /// What is to be said of memory-bound kernels.
    pub(super) fn copy_line(&self) -> Option<String> {
        let (copy, share) = (self.copy.as_ref()?, self.copy_share.as_ref()?);
        Some(format!(
            "memory-bound: {} kernels move their bytes at {:.2} of what a copy reaches ({:.0} GB/s), lowest {:.2} ({})",
            share.problems,
            share.geomean,
            copy.bandwidth / 1e9,
            share.lowest,
            share.lowest_problem
        ))
    }

    /// What all records say together.
    pub(super) fn summary(&self) -> &Summary {
        &self.summary
    }

    /// How many problems are finished.
    pub(super) fn finished(&self) -> usize {
        self.problems.len()
    }

    /// Whether every chosen problem is finished.
    pub(super) fn complete(&self) -> bool {
        self.finished() == self.chosen
    }

    /// Writes both files.
    pub(super) fn save(&self, folder: &Folder) -> Result<()> {
        folder.write("results.json", &to_json(self)?)?;
        folder.write("summary.md", &self.markdown())
    }

    fn markdown(&self) -> String {
        let (device, versions) = (&self.device, &self.versions);
        let mut text = format!("# KernelBench on {}, {} cores\n\n", device.name, device.cores);
        let torch = versions
            .torch
            .as_ref()
            .map_or_else(String::new, |t| format!(", PyTorch {t}"));
        let cache = device.caches.last().map_or(0.0, |c| *c as f64 / (1 << 20) as f64);
        let mut line = |line: std::fmt::Arguments<'_>| {
            // Writing to a string does not fail.
            let _ = writeln!(text, "{line}");
        };
        line(format_args!(
            "{}: akg {}{torch}; last-level cache {cache:.1} MiB. `{}`\n",
            self.date, versions.akg, self.command
        ));
        line(format_args!(
            "{} of {} problems finished. Ratios are the warm time of {}, divided by the candidate's, measured in one contest. \
             Speed counts where inputs and outputs are at least 8 times the last-level cache; `*` marks where they are not.\n",
            self.problems.len(),
            self.chosen,
            match self.settings.accuracy {
                Accuracy::Fp32 => "the faster of PyTorch eager and `torch.compile`".to_owned(),
                class => format!("the fastest of PyTorch eager and `torch.compile`, in fp32 and in {class}"),
            }
        ));
        line(format_args!(
            "| | problems | verified | compared | geomean | median | lowest | wins | parity | losses | unclear |\n\
             |---|---|---|---|---|---|---|---|---|---|---|"
        ));
        let summary = &self.summary;
        for row in group_rows("", &summary.groups) {
            line(format_args!("{row}"));
        }
        for (precision, groups) in &summary.against {
            for row in group_rows(&format!("over PyTorch in {precision}: "), groups) {
                line(format_args!("{row}"));
            }
        }
        line(format_args!(""));
        if let Some(copies) = self.copy_line() {
            line(format_args!("- {copies}"));
        }
        for note in table::lines(summary)
            .iter()
            .filter(|l| NOTED.iter().any(|n| l.starts_with(n)))
        {
            line(format_args!("- {note}"));
        }
        let class = self.settings.accuracy;
        let heading = problem_heading(class);
        line(format_args!("\n{}", row(&heading)));
        line(format_args!("|{}", "---|".repeat(heading.len())));
        for record in &self.problems {
            line(format_args!("{}", row(&problem_cells(record, class))));
        }
        text
    }
}

/// Beginnings of the lines that name single problems.
const NOTED: [&str; 3] = ["lost", "unclear", "failed"];

fn group_rows(over: &str, groups: &Groups) -> Vec<String> {
    let whole = [("where speed counts", &groups.counting), ("all", &groups.all)];
    let families = groups
        .families
        .iter()
        .map(|(family, group)| (family.name(), group));
    let algebra = groups.algebra.iter();
    let algebra = algebra.flat_map(|a| [("rewritten by algebra", &a.rewritten), ("as given", &a.as_given)]);
    let rows = whole.into_iter().chain(algebra).chain(families);
    rows.map(|(name, group)| group_row(&format!("{over}{name}"), group))
        .collect()
}

fn group_row(name: &str, group: &Group) -> String {
    let ratio = |r: Option<f64>| r.map_or_else(String::new, |r| format!("{r:.3}x"));
    format!(
        "| {name} | {} | {} | {} | {} | {} | {} | {} | {} | {} | {} |",
        group.problems,
        group.verified,
        group.compared,
        ratio(group.geomean),
        ratio(group.median),
        ratio(group.lowest),
        group.wins,
        group.parity,
        group.losses,
        group.unclear
    )
}

fn row(cells: &[String]) -> String {
    format!("| {} |", cells.join(" | "))
}

/// The precisions of PyTorch over which ratios are shown beside that over the fastest of all.
fn beside(class: Accuracy) -> impl Iterator<Item = Accuracy> {
    let shown = class != Accuracy::Fp32;
    [Accuracy::Fp32, class].into_iter().filter(move |_| shown)
}

fn problem_heading(class: Accuracy) -> Vec<String> {
    let known = ["problem", "name", "family", "status", "part", "error, rms"];
    let mut cells: Vec<String> = known.map(str::to_owned).into();
    cells.push(format!("{}'s", Variant::Eager(class).name()));
    cells.push("candidate, ms".to_owned());
    let rivals = Variant::rivals(class).into_iter();
    cells.extend(rivals.map(|v| format!("{}, ms", v.name())));
    cells.extend(["ratio".to_owned(), String::new()]);
    cells.extend(beside(class).map(|precision| format!("over {precision}")));
    cells
}

fn problem_cells(record: &Record, class: Accuracy) -> Vec<String> {
    let mine = record.side("candidate");
    let eager = record.side(Variant::Eager(class).name());
    let error = |side: Option<&SideRecord>| {
        let error = side.and_then(|s| s.error);
        error.map_or_else(String::new, |e| format!("{:.1e}", e.rms))
    };
    let part = match &record.shrink {
        Some(shrink) => format!("1/{}", 1u64 << shrink.halvings.min(63)),
        None => "full".to_owned(),
    };
    let warm = record.warm.as_ref();
    let ratio = |against: Option<&Against>| against.map_or_else(String::new, |a| format!("{:.3}x", a.ratio));
    let small = if record.work.speed_counts { "" } else { " *" };
    let family = record.family.map_or("", |f| f.name());
    let mut cells = vec![
        record.problem.clone(),
        record.name.clone(),
        family.to_owned(),
        record.status.clone(),
        part,
        error(mine),
        error(eager),
        table::time(mine),
    ];
    let rivals = Variant::rivals(class).into_iter();
    cells.extend(rivals.map(|v| table::time(record.side(v.name()))));
    cells.push(ratio(warm));
    cells.push(warm.map_or_else(String::new, |w| format!("{}{small}", table::claim(w))));
    cells.extend(beside(class).map(|precision| ratio(record.warm_at(precision))));
    cells
}
