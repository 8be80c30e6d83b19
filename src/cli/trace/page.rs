//! A run as a page of HTML that needs nothing but itself.

use akg::history::{History, passed, reply, short};
use akg::store::ExchangeRecord;
use akg::{Error, Result, Store};
use minijinja::{Environment, UndefinedBehavior};
use serde::Serialize;

use super::tree::{Row, rows};
use super::{date, proposal, summary, verdict};
use crate::cli::chat_log::{Line, said};

const TEMPLATE: &str = include_str!("page.html");

/// Extents of the figure, in pixels.
const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 160.0;

/// The page of a run.
pub(super) fn page(history: &History, store: &impl Store) -> Result<String> {
    let steps = rows(history)
        .iter()
        .map(|row| Step::new(history, row, store))
        .collect::<Result<Vec<_>>>()?;
    let view = View {
        run: &history.run,
        key: short(history.run.key),
        date: date(history.run.at),
        summary: summary(history),
        usage: history.usage(),
        exchanges: history.exchanges.len(),
        figure: Figure::new(history),
        steps,
        width: WIDTH,
        height: HEIGHT,
    };
    let mut environment = Environment::new();
    // Records leave out what they do not have.
    environment.set_undefined_behavior(UndefinedBehavior::SemiStrict);
    // The name's ending decides that texts are escaped.
    let page = environment.render_named_str("page.html", TEMPLATE, minijinja::value::Serde(view));
    page.map_err(|e| Error::unexpected("cannot write the page of the run").caused_by(e))
}

#[derive(Debug, Serialize)]
struct View<'a> {
    run: &'a akg::store::RunRecord,
    key: String,
    date: String,
    summary: String,
    usage: akg::chat::Usage,
    exchanges: usize,
    figure: Option<Figure>,
    steps: Vec<Step<'a>>,
    width: f64,
    height: f64,
}

#[derive(Debug, Serialize)]
struct Step<'a> {
    record: &'a akg::store::StepRecord,
    /// `pass`, `fail` or `none`.
    class: &'static str,
    best: bool,
    lead: String,
    below: String,
    verdict: String,
    proposal: Option<String>,
    exchanges: Vec<Exchange<'a>>,
}

impl<'a> Step<'a> {
    fn new(history: &'a History, row: &Row<'a>, store: &impl Store) -> Result<Self> {
        let step = row.step;
        let exchanges = history.exchanges_of(step);
        Ok(Self {
            record: step,
            class: match (&step.failure, passed(step)) {
                (Some(_), _) => "fail",
                (None, true) => "pass",
                (None, false) => "none",
            },
            best: history.best().is_some_and(|best| best.number == step.number),
            lead: row.lead.clone(),
            below: row.below.clone(),
            verdict: verdict(step),
            proposal: proposal(step, store)?,
            exchanges: exchanges
                .map(|exchange| Exchange::new(history, exchange))
                .collect(),
        })
    }
}

#[derive(Debug, Serialize)]
struct Exchange<'a> {
    number: usize,
    role: &'a str,
    model: &'a str,
    seconds: f64,
    usage: Option<akg::chat::Usage>,
    said: Vec<Line>,
}

impl<'a> Exchange<'a> {
    fn new(history: &History, exchange: &'a ExchangeRecord) -> Self {
        Self {
            number: exchange.number,
            role: &exchange.role,
            model: &exchange.model,
            seconds: exchange.seconds,
            usage: reply(exchange).and_then(|reply| reply.usage),
            said: said(history, exchange),
        }
    }
}

/// Speedup over the steps of a run.
#[derive(Debug, Serialize)]
struct Figure {
    points: Vec<Point>,
    /// The best so far, as the points of a line.
    best: String,
    /// The height of 1x, if it is within.
    one: Option<f64>,
    most: f64,
}

#[derive(Debug, Serialize)]
struct Point {
    number: usize,
    x: f64,
    /// `None` for a step without a candidate that passed and was compared.
    y: Option<f64>,
    about: String,
}

impl Figure {
    /// `None` if nothing was compared.
    fn new(history: &History) -> Option<Self> {
        let speed = |step: &akg::store::StepRecord| step.speedup.filter(|_| passed(step));
        let most = history.steps.iter().filter_map(speed).reduce(f64::max)?.max(1.0) * 1.1;
        let last = history.steps.last().map_or(1, |step| step.number.max(1)) as f64;
        let x = |number: usize| WIDTH * number as f64 / last;
        let y = |speedup: f64| HEIGHT * (1.0 - speedup / most);
        let (mut best, mut line) = (None, Vec::new());
        for step in &history.steps {
            if let Some(speedup) = speed(step) {
                let before = best.replace(best.map_or(speedup, |b: f64| b.max(speedup)));
                line.extend(before.map(|before| format!("{:.1},{:.1}", x(step.number), y(before))));
            }
            line.extend(best.map(|best| format!("{:.1},{:.1}", x(step.number), y(best))));
        }
        let points = history.steps.iter().map(|step| Point {
            number: step.number,
            x: x(step.number),
            y: speed(step).map(y),
            about: format!("step {}: {}", step.number, verdict(step)),
        });
        Some(Self {
            points: points.collect(),
            best: line.join(" "),
            one: (most >= 1.0).then(|| y(1.0)),
            most,
        })
    }
}
