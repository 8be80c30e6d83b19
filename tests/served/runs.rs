//! Runs in which a model writes a kernel and another repairs it.

use std::sync::Arc;
use std::time::Duration;

use akg::backend::Limits;
use akg::coder::{Coder, ModelCoder};
use akg::fixer::{Fixer, ModelFixer};
use akg::llm::{Budget, Config, ModelConfig, Models};
use akg::session::Outcome;
use akg::store::{
    Answer, CandidateRecord, ExchangeRecord, MemoryStore, RunRecord, StepRecord, Store, StoreExt as _,
};
use akg::verdict::FailureKind::WrongValues;
use akg::verify::Judge;
use akg::{ErrorKind, Result, Role as _, Session, blocking};

use crate::Way;
use crate::install::{KEY, Server};
use crate::kernel::task;
use crate::scripts::{INPUT, OUTPUT, model, troubled};

/// Prices of a million tokens, and of one reply.
const PRICES: [f64; 2] = [1.0, 10.0];
const REPLY_COSTS: f64 = (INPUT as f64 * PRICES[0] + OUTPUT as f64 * PRICES[1]) / 1e6;

/// A run with what it may spend.
struct Trial<'s> {
    way: Way,
    run: &'static str,
    server: &'s Server,
    budget: Budget,
    time: Duration,
    store: Arc<dyn Store>,
}

impl<'s> Trial<'s> {
    fn new(way: Way, run: &'static str, server: &'s Server) -> Self {
        Self {
            way,
            run,
            server,
            budget: Budget::default(),
            time: Duration::from_secs(600),
            store: Arc::new(MemoryStore::new()),
        }
    }

    fn models(&self) -> Models {
        let named = |role: &str| {
            let model = Some(model(self.way, self.run, role));
            let config = ModelConfig {
                model,
                ..ModelConfig::default()
            };
            (role.to_owned(), config)
        };
        Models::new(Config {
            all: ModelConfig {
                base_url: Some(format!("http://{}/v1", self.server.address)),
                key: Some(KEY.into()),
                stream: Some(self.way.streams),
                timeout: Some(8.0),
                retries: Some(3),
                price_input: Some(PRICES[0]),
                price_output: Some(PRICES[1]),
                ..ModelConfig::default()
            },
            roles: [named(Coder::NAME), named(Fixer::NAME)].into(),
            budget: self.budget,
            ..Config::default()
        })
        .unwrap()
    }

    fn run(&self, models: &Models) -> Result<Outcome> {
        let registry = akg::registry();
        let mut limits = Limits::default();
        limits.time = Duration::from_secs(60);
        let session = Session::new(registry.dsl("cpp")?, registry.backend("cpu")?)
            .with_timing(None)
            .with_verifier(Judge::standard(0, None, &limits))
            .with_budget(self.time)
            .with_coder(ModelCoder::new(models.role(Coder::NAME)?)?)
            .with_fixer(ModelFixer::new(models.role(Fixer::NAME)?)?)
            .with_store(self.store.clone());
        blocking::run(&session, &task())
    }

    /// How often each model was asked.
    fn asked(&self) -> [usize; 2] {
        let requests = self.server.requests();
        [Coder::NAME, Fixer::NAME].map(|role| {
            let model = model(self.way, self.run, role);
            // The proxy names its models with who serves them.
            let is = |name: &str| name == model || name.ends_with(&format!("/{model}"));
            requests
                .iter()
                .filter(|r| r["model"].as_str().is_some_and(is))
                .count()
        })
    }

    fn exchanges(&self) -> Vec<ExchangeRecord> {
        self.store.all(None).unwrap()
    }

    /// Every attempt is in the store, with its step; and the run says how it ended.
    fn everything_is_kept(&self, outcome: &Outcome) {
        for attempt in &outcome.attempts {
            let candidate: CandidateRecord = self.store.load(attempt.key).unwrap().unwrap();
            assert!(self.store.blob(candidate.source).unwrap().is_some());
        }
        let runs: Vec<RunRecord> = self.store.all(None).unwrap();
        assert_eq!(runs.len(), 1);
        assert_eq!(runs[0].stopped.as_deref(), Some(outcome.stopped.as_str()));
        let steps: Vec<StepRecord> = self.store.all(Some(runs[0].key)).unwrap();
        let candidates: Vec<_> = steps.iter().filter_map(|step| step.candidate).collect();
        let attempts: Vec<_> = outcome.attempts.iter().map(|attempt| attempt.key).collect();
        assert_eq!(candidates, attempts);
    }
}

/// Why each candidate failed.
fn failures(outcome: &Outcome) -> Vec<Option<akg::verdict::FailureKind>> {
    let failures = outcome.attempts.iter().map(|a| a.verdict.failure.as_ref());
    failures.map(|failure| Some(failure?.kind)).collect()
}

/// Wrong code, and right code after two fixes, with all that servers do between.
pub(crate) fn two_fixes(way: Way, server: &Server) {
    let trial = Trial::new(way, "troubled", server);
    let models = trial.models();
    let outcome = trial.run(&models).unwrap();
    assert_eq!(failures(&outcome), [Some(WrongValues), Some(WrongValues), None]);
    assert!(outcome.best().is_some());
    trial.everything_is_kept(&outcome);
    // Every answer was asked for, and one that was no answer again.
    let scripts = troubled(way).map(|answers| answers.len());
    assert_eq!(trial.asked(), scripts);
    // A kernel, an edit, a call of a tool that there is not, another edit.
    let exchanges = trial.exchanges();
    let roles: Vec<&str> = exchanges.iter().map(|e| e.role.as_str()).collect();
    assert_eq!(roles, ["coder", "fixer", "fixer", "fixer"]);
    assert!(exchanges.iter().all(|e| matches!(e.answer, Answer::Reply(_))));
    let told = serde_json::to_string(&exchanges[3].request).unwrap();
    assert!(told.contains("There are no tools to call"), "{told}");
    let spent = models.account().spent();
    assert_eq!(
        (spent.calls, spent.usage.input, spent.usage.output),
        (4, 4 * INPUT, 4 * OUTPUT)
    );
    assert!((spent.money - 4.0 * REPLY_COSTS).abs() < 1e-9, "{}", spent.money);
    // Started again it asks nobody, and spends nothing.
    let models = trial.models();
    let again = trial.run(&models).unwrap();
    assert_eq!(failures(&again), failures(&outcome));
    assert!(again.attempts.iter().all(|attempt| attempt.recalled));
    assert_eq!((trial.asked(), models.account().spent().calls), (scripts, 0));
}

/// A server that does not come back ends the run, which keeps what there is.
pub(crate) fn stays_away(way: Way, server: &Server) {
    let trial = Trial::new(way, "away", server);
    let models = trial.models();
    let outcome = trial.run(&models).unwrap();
    assert_eq!(failures(&outcome), [Some(WrongValues)]);
    assert!(outcome.stopped.contains("500"), "{}", outcome.stopped);
    trial.everything_is_kept(&outcome);
    // Once, and three times again.
    assert_eq!(trial.asked(), [1, 4]);
    let [coder, fixer] = trial.exchanges().try_into().unwrap();
    assert!(matches!(coder.answer, Answer::Reply(_)));
    let Answer::Error { kind, .. } = fixer.answer else {
        panic!("{fixer:?}");
    };
    assert_eq!(kind, ErrorKind::Unavailable);
    assert_eq!(models.account().spent().usage.total(), INPUT + OUTPUT);
}

/// Who has spent what it may is refused, and what was repaired once stays.
pub(crate) fn tokens_and_money(way: Way, server: &Server) {
    let tokens = Budget {
        tokens: Some(INPUT + OUTPUT + 1),
        money: None,
    };
    let money = Budget {
        tokens: None,
        money: Some(1.5 * REPLY_COSTS),
    };
    for (run, budget) in [("tokens", tokens), ("money", money)] {
        let trial = Trial {
            budget,
            ..Trial::new(way, run, server)
        };
        let models = trial.models();
        let outcome = trial.run(&models).unwrap();
        assert_eq!(failures(&outcome), [Some(WrongValues); 2]);
        trial.everything_is_kept(&outcome);
        // A call that has begun is finished; the next one is not made.
        assert_eq!((trial.asked(), models.account().spent().calls), ([1, 1], 2));
        let Some(Answer::Error { kind, .. }) = trial.exchanges().pop().map(|e| e.answer) else {
            panic!("the last call was refused");
        };
        assert_eq!(kind, ErrorKind::BudgetSpent);
    }
}

/// When the time is over nobody is asked any more.
pub(crate) fn time(way: Way, server: &Server) {
    let trial = Trial {
        time: Duration::ZERO,
        ..Trial::new(way, "time", server)
    };
    let outcome = trial.run(&trial.models()).unwrap();
    assert_eq!(failures(&outcome), [Some(WrongValues)]);
    assert_eq!(outcome.stopped, "the budget is spent");
    trial.everything_is_kept(&outcome);
    assert_eq!(trial.asked(), [1, 0]);
}
