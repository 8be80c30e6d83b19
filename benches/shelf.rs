//! How long a look at a shelf of ten thousand articles takes: by their embeddings, by words, and the whole search.
//!
//! `cargo bench --bench shelf`
#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark")]

use akg::digest::Digest;
use akg::knowledge::{Embedding, Knowledge as _, KnowledgeExt as _, Query, pages::pages};
use akg::sqlite::SqliteStore;
use criterion::{Criterion, criterion_group, criterion_main};
use rand::{Rng, RngExt as _, SeedableRng as _};
use rand_chacha::ChaCha8Rng;

const ARTICLES: u32 = 10_000;

/// Entries of an embedding, as large models have them.
const ENTRIES: usize = 1536;

fn embedding(rng: &mut impl Rng) -> Embedding {
    Embedding {
        embedder: "random".to_owned(),
        vector: (0..ENTRIES).map(|_| rng.random_range(-1.0..1.0)).collect(),
    }
}

fn look(criterion: &mut Criterion) {
    let place = tempfile::tempdir().unwrap();
    let shelf = SqliteStore::open(&place.path().join("store.sqlite")).unwrap();
    let mut rng = ChaCha8Rng::seed_from_u64(0);
    let pages = pages().unwrap();
    for (number, page) in (0..ARTICLES).zip(pages.iter().cycle()) {
        let mut article = page.clone();
        article.card.key = Digest::of(&number.to_le_bytes());
        article.embedding = Some(embedding(&mut rng));
        shelf.shelve(&article).unwrap();
    }
    let asked = embedding(&mut rng);
    let words = ["mask", "load"].map(str::to_owned);
    let mut query = Query::default().with_text(words.join(" "));
    query.embedding = Some(asked.clone());
    let mut group = criterion.benchmark_group("shelf");
    group.sample_size(20);
    group.bench_function("near", |bencher| bencher.iter(|| shelf.near(&asked).unwrap()));
    group.bench_function("matches", |bencher| {
        bencher.iter(|| shelf.matches(&words).unwrap())
    });
    group.bench_function("search", |bencher| bencher.iter(|| shelf.search(&query).unwrap()));
    group.finish();
}

criterion_group!(benches, look);
criterion_main!(benches);
