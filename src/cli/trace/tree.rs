//! The tree of a run's steps.

use std::collections::BTreeMap;

use akg::history::History;
use akg::store::StepRecord;

use super::verdict;

/// Characters of a line of evidence that are shown.
const LINE: usize = 140;

/// A step with its place in the tree.
pub(super) struct Row<'a> {
    pub(super) step: &'a StepRecord,
    /// What is drawn before its line.
    pub(super) lead: String,
    /// What is drawn before further lines of it.
    pub(super) below: String,
}

/// The steps in the order in which the tree is drawn. The last of a step's children goes on in its column, so that a long
/// line of improvements does not move to the right; only branches do.
pub(super) fn rows(history: &History) -> Vec<Row<'_>> {
    let mut children: BTreeMap<Option<usize>, Vec<&StepRecord>> = BTreeMap::new();
    for step in &history.steps {
        let parent = history.parent(step).map(|parent| parent.number);
        children.entry(parent).or_default().push(step);
    }
    let none = Vec::new();
    let of = |number| children.get(&number).unwrap_or(&none);
    let mut rows = Vec::new();
    // The next to be drawn is last: the step, what leads to it, and its column.
    let mut open: Vec<(&StepRecord, String, String)> = of(None)
        .iter()
        .rev()
        .map(|step| (*step, String::new(), String::new()))
        .collect();
    while let Some((step, lead, column)) = open.pop() {
        let below = of(Some(step.number));
        if let Some((last, branches)) = below.split_last() {
            open.push((last, column.clone(), column.clone()));
            for branch in branches.iter().rev() {
                open.push((branch, format!("{column}├─"), format!("{column}│ ")));
            }
        }
        let bar = if below.is_empty() { "  " } else { "│ " };
        rows.push(Row {
            step,
            lead,
            below: format!("{column}{bar}"),
        });
    }
    rows
}

/// The tree as text.
pub(super) fn text(history: &History) -> String {
    let best = history.best().map(|step| step.number);
    let mut text = String::new();
    for Row { step, lead, below } in rows(history) {
        if history.parent(step).is_none() && !text.is_empty() {
            text.push('\n');
        }
        let mark = if best == Some(step.number) {
            ", the best"
        } else {
            ""
        };
        text += &format!(
            "{lead}● {} {} ({}): {}{mark}\n",
            step.number,
            step.role,
            step.agent,
            verdict(step)
        );
        for line in notes(history, step) {
            text += &format!("{below}{line}\n");
        }
    }
    text
}

/// What is said about a step under its line.
fn notes(history: &History, step: &StepRecord) -> Vec<String> {
    let mut notes: Vec<String> = step.why.lines().map(str::to_owned).collect();
    if let Some((_, others)) = step
        .parents
        .split_first()
        .filter(|(_, others)| !others.is_empty())
    {
        let others: Vec<String> = others.iter().map(ToString::to_string).collect();
        notes.push(format!("with step {}", others.join(", ")));
    }
    if let Some(failure) = &step.failure {
        let first = failure.evidence.lines().find(|line| !line.trim().is_empty());
        notes.extend(first.map(cut));
    }
    for shown in &step.retrieved {
        notes.push(format!("shown: {} {}, {}", shown.kind, shown.name, shown.why));
    }
    let asked = history.exchanges_of(step).count();
    if asked > 0 {
        let plural = if asked == 1 { "" } else { "s" };
        notes.push(format!("{asked} exchange{plural} with a model"));
    }
    notes
}

/// A line that is not too long.
fn cut(line: &str) -> String {
    let mut short: String = line.chars().take(LINE).collect();
    if short.len() < line.len() {
        short.push('…');
    }
    short
}

#[cfg(test)]
mod tests {
    use akg::Digest;
    use akg::store::RunRecord;

    use super::*;

    fn step(run: Digest, number: usize, parents: &[usize]) -> StepRecord {
        let json = serde_json::json!({
            "run": run, "number": number, "parents": parents, "role": "r", "agent": "a", "at": 0,
        });
        serde_json::from_value(json).unwrap()
    }

    #[test]
    fn branches_are_indented_and_lines_go_straight_on() {
        let key = Digest::of(b"run");
        let run: RunRecord = serde_json::from_value(serde_json::json!({
            "key": key, "task": key, "name": "n", "dsl": "cpp", "device": "d", "agents": "a", "at": 0,
        }))
        .unwrap();
        let parents: [&[usize]; 8] = [&[], &[0], &[1], &[1], &[2], &[3, 4], &[], &[9]];
        let steps = parents
            .iter()
            .zip(0..)
            .map(|(parents, number)| step(key, number, parents));
        let history = History {
            run,
            steps: steps.collect(),
            exchanges: Vec::new(),
        };
        let drawn = text(&history);
        let lines: Vec<String> = drawn
            .lines()
            .map(|l| l.replace(" r (a): no candidate", ""))
            .collect();
        let wanted = [
            "● 0",
            "● 1",
            "├─● 2",
            "│ ● 4",
            "● 3",
            "● 5",
            "  with step 4",
            "",
            "● 6",
            "",
            "● 7",
        ];
        assert_eq!(lines, wanted);
    }
}
