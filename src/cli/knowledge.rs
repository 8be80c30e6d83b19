//! `akg knowledge`: what is known about writing kernels.

use std::path::PathBuf;
use std::process::ExitCode;

use akg::error::ErrorKind;
use akg::file::read_text;
use akg::knowledge::embed::{embed, understand};
use akg::knowledge::mine::learn;
use akg::knowledge::pages::{page, pages};
use akg::knowledge::{Card, Kind, Knowledge, KnowledgeExt as _, Problem, Query};
use akg::llm::Models;
use akg::sqlite::SqliteStore;
use akg::{Error, Result};
use clap::{Args, Subcommand, ValueEnum};
use futures::executor::block_on;

use super::progress::Progress;
use super::store::StoreArgs;
use super::task::{load, memory_budget, python};
use super::{PythonArgs, TaskArgs};

#[derive(Debug, Args)]
pub(super) struct KnowledgeArgs {
    #[command(subcommand)]
    action: Action,
    #[command(flatten)]
    store: StoreArgs,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Learns from what the store remembers: verified kernels, and failures with what mended them. Shelves the guides and
    /// hardware sheets, too.
    Build {
        /// Also shelves the pages (`*.md`) of this directory, which begin with front matter; see docs/knowledge.md.
        #[arg(long, value_name = "DIR")]
        pages: Option<PathBuf>,
    },
    /// Lists what is on the shelf.
    List(Filter),
    /// Finds what helps with a task, or has the words.
    Search(SearchArgs),
    /// Prints an article.
    Show {
        /// Its name, or the beginning of its key.
        article: String,
    },
}

#[derive(Debug, Args)]
struct Filter {
    /// Only articles of this kind; may be given several times.
    #[arg(long, value_enum)]
    kind: Vec<KindName>,
    /// Nothing that holds for another DSL only.
    #[arg(long)]
    dsl: Option<String>,
    /// Nothing that holds for another backend only.
    #[arg(long)]
    backend: Option<String>,
    /// Nothing that holds for another architecture only.
    #[arg(long)]
    arch: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum KindName {
    Kernel,
    Fix,
    Guide,
    Hardware,
}

impl KindName {
    fn kind(self) -> Kind {
        match self {
            KindName::Kernel => Kind::Kernel,
            KindName::Fix => Kind::Fix,
            KindName::Guide => Kind::Guide,
            KindName::Hardware => Kind::Hardware,
        }
    }
}

impl Filter {
    fn query(&self) -> Query {
        let mut query = Query::default();
        if !self.kind.is_empty() {
            query.kinds = self.kind.iter().map(|kind| kind.kind()).collect();
        }
        query.dsl.clone_from(&self.dsl);
        query.backend.clone_from(&self.backend);
        query.arch.clone_from(&self.arch);
        query
    }
}

#[derive(Debug, Args)]
struct SearchArgs {
    /// Words: an error message, the name of an operator.
    words: Vec<String>,
    /// The task that help is wanted with: a KernelBench-form `.py`, a graph `.json`, or `builtin:NAME`. What answers the
    /// same problem is left out.
    #[arg(long)]
    task: Option<String>,
    /// Also leave out what answers the same computation at other sizes.
    #[arg(long, requires = "task")]
    strict: bool,
    /// How many to find at most.
    #[arg(long, default_value_t = 5)]
    most: usize,
    #[command(flatten)]
    filter: Filter,
    #[command(flatten)]
    python: PythonArgs,
}

impl KnowledgeArgs {
    pub(super) fn run(self) -> Result<ExitCode> {
        let store = self.store.open()?;
        match self.action {
            Action::Build { pages } => build(&store, pages)?,
            Action::List(filter) => list(&store, &filter.query())?,
            Action::Search(args) => args.search(&store)?,
            Action::Show { article } => show(&store, &article)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

fn build(store: &SqliteStore, own: Option<PathBuf>) -> Result<()> {
    let mut articles = pages()?;
    if let Some(folder) = own {
        let trouble = |e| Error::io(format!("cannot read {}", folder.display()), e);
        for entry in std::fs::read_dir(&folder).map_err(trouble)? {
            let path = entry.map_err(trouble)?.path();
            if path.extension().is_some_and(|ending| ending == "md") {
                let text = read_text(&path)?;
                articles.push(page(&text).map_err(|e| e.with("file", path.display()))?);
            }
        }
    }
    for article in &articles {
        store.renew(article)?;
    }
    let learned = learn(store, store)?;
    println!(
        "kernels: {}, fixes: {}, pages: {}; taken off the shelf: {}",
        learned.kernels,
        learned.fixes,
        articles.len(),
        learned.withdrawn
    );
    if let Some(embedder) = Models::from_env()?.embedder()? {
        let embedded = block_on(embed(&*embedder, store))?;
        println!("embedded by {}: {embedded}", embedder.name());
    }
    Ok(())
}

fn list(store: &SqliteStore, query: &Query) -> Result<()> {
    let cards = store.cards(&query.kinds)?;
    if cards.is_empty() {
        println!("nothing yet: `akg knowledge build` learns from the store");
    }
    for card in cards.iter().filter(|card| query.admits(card)) {
        println!("{}", line(card));
    }
    Ok(())
}

/// A card in one line.
fn line(card: &Card) -> String {
    let mut text = format!("{} {} {}", short(card), card.kind.name(), card.name);
    let holds_for = [&card.dsl, &card.backend, &card.arch];
    let holds_for: Vec<&str> = holds_for.into_iter().filter_map(|name| name.as_deref()).collect();
    if !holds_for.is_empty() {
        text += &format!(" ({})", holds_for.join(", "));
    }
    if let Some(problem) = &card.problem {
        text += &format!(", {}", problem.features.family);
    }
    text
}

/// The digits of a key that are shown.
fn short(card: &Card) -> String {
    card.key.to_string().chars().take(8).collect()
}

impl SearchArgs {
    fn search(&self, store: &SqliteStore) -> Result<()> {
        let mut query = self
            .filter
            .query()
            .with_text(self.words.join(" "))
            .at_most(self.most);
        if let Some(name) = &self.task {
            query.problem = Some(self.problem(name)?);
            query.strict = self.strict;
        }
        if let Some(embedder) = Models::from_env()?.embedder()? {
            query.meaning.clone_from(&query.text);
            block_on(understand(&*embedder, std::slice::from_mut(&mut query)))?;
        }
        let found = store.search(&query)?;
        if found.is_empty() {
            println!("nothing was found");
        }
        for found in found {
            println!(
                "{:.2} {}\n     {}",
                found.score,
                line(&found.article.card),
                found.why
            );
        }
        Ok(())
    }

    fn problem(&self, task: &str) -> Result<Problem> {
        let progress = Progress::new(false);
        let args = TaskArgs {
            task: task.to_owned(),
            ..TaskArgs::default()
        };
        let config = self.python.config();
        let loaded = load(&args, memory_budget(), || python(&config, &progress), &progress)?;
        progress.done();
        Problem::of(&loaded.task)
    }
}

fn show(store: &SqliteStore, name: &str) -> Result<()> {
    let cards = store.cards(&Kind::ALL)?;
    let named = cards
        .iter()
        .filter(|card| card.name == name || card.key.to_string().starts_with(name));
    let mut articles = 0;
    for card in named.take(if name.is_empty() { 0 } else { usize::MAX }) {
        if let Some(article) = store.article(card.key)? {
            println!("{}\n\n{}", line(card), article.text());
            articles += 1;
        }
    }
    if articles == 0 {
        return Err(Error::new(
            ErrorKind::NotFound,
            format!("there is no article `{name}`; `akg knowledge list` lists them"),
        ));
    }
    Ok(())
}
