//! What every shelf of knowledge must do.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::report::{Report, Tried, demand};
use crate::digest::Digest;
use crate::error::Result;
use crate::knowledge::{Article, Body, Card, Embedding, Kind, Knowledge, KnowledgeExt as _, Query};

/// Tries whether a shelf keeps the rules. `open` gives the same shelf, empty at first, through a new handle each time; one that
/// ends with its last handle gives the handle it has.
pub fn knowledge(open: &dyn Fn() -> Result<Arc<dyn Knowledge>>) -> Report {
    let mut report = Report::new("knowledge");
    let rules: [(&str, Rule); 8] = [
        ("articles come back", articles),
        ("what was never shelved is not there", absent),
        ("an article is replaced in its place", replacement),
        ("cards are those of the kinds, in order", cards),
        ("words find what has them", matches),
        ("words of others' languages are only words", odd_words),
        ("what means the like is near", nearness),
        ("what was withdrawn is gone", withdrawal),
    ];
    for (name, rule) in rules {
        report.add(name, rule(open));
    }
    report
}

type Open<'a> = &'a dyn Fn() -> Result<Arc<dyn Knowledge>>;
type Rule = fn(Open<'_>) -> Tried;

fn article(kind: Kind, name: &str, text: &str) -> Article {
    Article {
        card: Card {
            key: Digest::of(name.as_bytes()),
            kind,
            name: name.to_owned(),
            dsl: Some("cpp".to_owned()),
            backend: None,
            arch: None,
            problem: None,
            skeleton: None,
        },
        body: Body::Page {
            text: text.to_owned(),
        },
        embedding: Some(embedding("of articles", &[0.25, -1.0])),
    }
}

fn embedding(embedder: &str, vector: &[f32]) -> Embedding {
    Embedding {
        embedder: embedder.to_owned(),
        vector: vector.to_vec(),
    }
}

fn demand_equal<T: PartialEq + std::fmt::Debug>(got: T, wanted: T) -> Tried {
    demand(got == wanted, || format!("got {got:?}\nnot {wanted:?}"))
}

/// The names of the articles that have a word, best first.
fn named(shelf: &dyn Knowledge, words: &[&str]) -> Result<Vec<String>> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let mut found = shelf.matches(&words)?;
    found.sort_by(|a, b| b.1.total_cmp(&a.1));
    let names = found
        .into_iter()
        .map(|(key, _)| Ok(shelf.article(key)?.map(|article| article.card.name)));
    Ok(names.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn articles(open: Open<'_>) -> Tried {
    for (name, text) in [
        ("plain", "text"),
        ("empty", ""),
        ("odd 'name\"", "\u{1f9ea}; -- \n"),
    ] {
        let article = article(Kind::Guide, name, text);
        open()?.shelve(&article)?;
        demand_equal(open()?.article(article.card.key)?, Some(article))?;
    }
    Ok(())
}

fn absent(open: Open<'_>) -> Tried {
    let shelf = open()?;
    demand_equal(shelf.article(Digest::of(b"never shelved"))?, None)?;
    demand_equal(shelf.cards(&[])?, Vec::new())?;
    demand_equal(shelf.matches(&["nowhere".to_owned()])?, Vec::new())?;
    demand_equal(shelf.matches(&[])?, Vec::new())
}

fn replacement(open: Open<'_>) -> Tried {
    let shelf = open()?;
    let first = article(Kind::Fix, "replaced", "unreplacedword");
    let second = article(Kind::Fix, "stays", "other");
    shelf.shelve(&first)?;
    shelf.shelve(&second)?;
    let later = article(Kind::Fix, "replaced", "replacingword");
    shelf.shelve(&later)?;
    demand_equal(shelf.article(first.card.key)?, Some(later.clone()))?;
    demand_equal(named(&*shelf, &["unreplacedword"])?, Vec::new())?;
    demand_equal(named(&*shelf, &["replacingword"])?, vec!["replaced".to_owned()])?;
    demand_equal(shelf.cards(&[Kind::Fix])?, vec![later.card, second.card])
}

fn cards(open: Open<'_>) -> Tried {
    let shelf = open()?;
    let all: Vec<Article> = (0..20)
        .map(|i| {
            let kind = if i % 3 == 0 { Kind::Hardware } else { Kind::Kernel };
            article(kind, &format!("card {i}"), "")
        })
        .collect();
    for article in &all {
        shelf.shelve(article)?;
    }
    let of = |kinds: &[Kind]| {
        let wanted = all.iter().filter(|article| kinds.contains(&article.card.kind));
        wanted.map(|article| article.card.clone()).collect::<Vec<Card>>()
    };
    for kinds in [
        &[Kind::Hardware][..],
        &[Kind::Kernel],
        &[Kind::Kernel, Kind::Hardware],
    ] {
        demand_equal(open()?.cards(kinds)?, of(kinds))?;
    }
    Ok(())
}

fn matches(open: Open<'_>) -> Tried {
    let shelf = open()?;
    for (name, text) in [
        ("often", "zebra zebra zebra and nothing else"),
        ("once", "zebra and a few more words than there are in others"),
        (
            "zebra",
            "by its name, and a few more words than there are in others",
        ),
        ("neither", "horses"),
        ("rare", "zebra.quagga"),
    ] {
        shelf.shelve(&article(Kind::Guide, name, text))?;
    }
    let mut found = named(&*shelf, &["zebra"])?;
    let before =
        |a: &str, b: &str| found.iter().position(|name| name == a) < found.iter().position(|name| name == b);
    demand(before("often", "once") && before("zebra", "once"), || {
        format!("the order is {found:?}")
    })?;
    found.sort();
    demand_equal(
        found,
        ["often", "once", "rare", "zebra"].map(str::to_owned).to_vec(),
    )?;
    let rare = named(&*shelf, &["zebra", "quagga"])?;
    demand_equal(rare.first().map(String::as_str), Some("rare"))?;
    // The same through the ranking.
    let query = Query::default().with_text("QUAGGA!").at_most(1);
    let names: Vec<String> = shelf
        .search(&query)?
        .into_iter()
        .map(|found| found.article.card.name)
        .collect();
    demand_equal(names, vec!["rare".to_owned()])
}

fn odd_words(open: Open<'_>) -> Tried {
    let shelf = open()?;
    shelf.shelve(&article(Kind::Guide, "operators", "near and or not oddword"))?;
    for words in [&["not", "oddword"][..], &["or"], &["near", "and"]] {
        let found = named(&*shelf, words)?;
        demand(found.iter().any(|name| name == "operators"), || {
            format!("{words:?} finds {found:?}")
        })?;
    }
    Ok(())
}

/// How near articles are to an embedding, by name.
fn distances(shelf: &dyn Knowledge, asked: &Embedding) -> Result<BTreeMap<String, f64>> {
    let near = shelf.near(asked)?.into_iter();
    let named = near.map(|(key, near)| Ok(shelf.article(key)?.map(|article| (article.card.name, near))));
    Ok(named.collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

fn nearness(open: Open<'_>) -> Tried {
    let shelf = open()?;
    let with = |name: &str, embedding: Option<Embedding>| {
        let article = article(Kind::Guide, name, "");
        Article { embedding, ..article }
    };
    let (asked, of) = (embedding("near", &[3.0, 4.0, 0.0]), |vector| {
        Some(embedding("near", vector))
    });
    for article in [
        with("same", of(&[0.6, 0.8, 0.0])),
        with("aside", of(&[4.0, 3.0, 0.0])),
        with("across", of(&[0.0, 0.0, 7.0])),
        with("opposite", of(&[-3.0, -4.0, 0.0])),
        with("nowhere", of(&[0.0; 3])),
        with("shorter", of(&[3.0, 4.0])),
        with("another's", Some(embedding("far", &[3.0, 4.0, 0.0]))),
        with("none", None),
        with("withdrawn", of(&[3.0, 4.0, 0.0])),
    ] {
        shelf.shelve(&article)?;
        demand_equal(open()?.article(article.card.key)?, Some(article))?;
    }
    shelf.withdraw(Digest::of(b"withdrawn"))?;
    let wanted = [
        ("same", 1.0),
        ("aside", 0.96),
        ("across", 0.0),
        ("opposite", -1.0),
        ("nowhere", 0.0),
    ];
    let found = distances(&*open()?, &asked)?;
    let fits = |(name, near): &(&str, f64)| found.get(*name).is_some_and(|found| (found - near).abs() < 1e-6);
    demand(found.len() == wanted.len() && wanted.iter().all(fits), || {
        format!("{found:?} are near, not {wanted:?}")
    })?;
    demand_equal(distances(&*shelf, &embedding("near", &[]))?, BTreeMap::new())?;
    // A later article takes the place of the earlier, embedding and all.
    shelf.shelve(&with("same", of(&[0.0, 0.0, 1.0])))?;
    shelf.shelve(&with("aside", None))?;
    let found = distances(&*shelf, &asked)?;
    demand(
        found.get("same").is_some_and(|near| near.abs() < 1e-6) && !found.contains_key("aside"),
        || format!("after two were replaced, {found:?} are near"),
    )
}

fn withdrawal(open: Open<'_>) -> Tried {
    let shelf = open()?;
    let gone = article(Kind::Guide, "gone", "vanishingword");
    shelf.shelve(&gone)?;
    shelf.withdraw(gone.card.key)?;
    shelf.withdraw(gone.card.key)?;
    let shelf = open()?;
    demand_equal(shelf.article(gone.card.key)?, None)?;
    demand_equal(named(&*shelf, &["vanishingword"])?, Vec::new())?;
    demand(!shelf.cards(&[Kind::Guide])?.contains(&gone.card), || {
        "its card is still there".to_owned()
    })
}
