//! The numeric verifier.

use std::sync::Arc;

use async_trait::async_trait;

use super::captured;
use super::comparison::Comparison;
use super::hidden;
use super::inputs::{Distribution, make_inputs, unvaried};
use super::life::{Data, Life};
use super::sample::Extent;
use super::work::{Deadline, Operations, TaskWork};
use crate::backend::{Backend, Limits, Poison};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::error::Result;
use crate::expr::Bindings;
use crate::reference::Products;
use crate::target::Target;
use crate::task::Task;
use crate::tensor::Tensor;
use crate::verdict::{ErrorMeasure, Verdict};
use crate::verifier::{Candidate, Verifier};

/// Judges values: several distributions, seeds and, for symbolic dims, sizes against the f64 reference.
///
/// The first check has the contract's inputs for [`seed`](Self::seed); it comes later if the task's own code makes so much
/// that others are checked meanwhile. All others have inputs, and sizes, that follow from a [secret](Self::secret) drawn
/// when the candidate can no longer change. The second has the contract's inputs, too, and compares every byte of every
/// output. Each overwrites the inputs before at the same addresses. The others compare randomly chosen rows, as many as
/// [`sample_work`](Self::sample_work) is for, the first check twice as many. How many checks there are, and of how many
/// rows, follows from the task's operation count: the verdict says how many they were.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct NumericVerifier {
    /// The seed of the first check.
    pub seed: u64,
    /// What the inputs of all other checks follow from; drawn anew for each candidate if `None`. Verdicts name the seeds
    /// that they rest on.
    pub secret: Option<u64>,
    /// What the inputs of each check look like, most telling first.
    pub distributions: Vec<Distribution>,
    /// After the first five checks and all sizes, no further one begins once those before make up this much work.
    pub work: Operations,
    /// How often the distributions are gone through, with new seeds each time, if that is less than a quarter of
    /// [`work`](Self::work).
    pub rounds: u32,
    /// Work of the reference for each check after the first, and for each yardstick.
    pub sample_work: Operations,
    /// Limits on each run of the candidate.
    pub limits: Limits,
}

impl Default for NumericVerifier {
    fn default() -> Self {
        Self {
            seed: 0,
            secret: None,
            distributions: vec![
                Distribution::Contract,
                Distribution::Contract,
                Distribution::Thresholds,
                Distribution::Rows,
                Distribution::OneSided,
                Distribution::Signed,
                Distribution::Extremes,
                Distribution::Ties,
                Distribution::Zeros,
                Distribution::Columns,
                Distribution::Extremes,
                Distribution::Thresholds,
                Distribution::Constant,
                Distribution::Extremes,
                Distribution::Offset,
                Distribution::IllConditioned,
                Distribution::Apart,
                Distribution::Large,
                Distribution::Tiny,
            ],
            work: Operations::of_milliseconds(4000),
            rounds: 2,
            sample_work: Operations::of_milliseconds(300),
            limits: Limits::default(),
        }
    }
}

/// Checks that every candidate gets, however much work they are.
const ALWAYS: usize = 5;

/// The data of a check.
struct DataSet {
    distribution: Distribution,
    seed: u64,
    dims: Bindings,
    /// Whether every byte is compared, however much work that is.
    whole: bool,
    /// Whether it is of the second round or a later one.
    again: bool,
}

impl NumericVerifier {
    /// The largest error of outputs that somebody else computed from `inputs`; `None` if they are wrong under any
    /// tolerance. `products` may make the reference's large [matrix products](Backend::products).
    pub fn measure(
        &self,
        task: &Task,
        inputs: &[Tensor],
        outputs: &[Tensor],
        products: Option<Arc<dyn Products>>,
        seed: u64,
    ) -> Result<Option<ErrorMeasure>> {
        let comparison = Comparison::returned(task, inputs, outputs, products, seed);
        let (checks, _) = comparison.judge(&Extent {
            work: Some(self.sample_work),
            yardstick: Operations::default(),
            first: None,
        })?;
        Ok(checks.into_iter().map(|c| c.error).reduce(ErrorMeasure::larger))
    }

    /// The task, if the inputs of its first check are worth being made beside other work.
    fn ahead(&self, task: &Task) -> Result<Option<Task>> {
        match self.distributions.first() {
            Some(Distribution::Contract) => captured::ahead(task, self.seed),
            _ => Ok(None),
        }
    }

    /// The data sets in order.
    fn data_sets(&self, task: &Task, secret: u64) -> Vec<DataSet> {
        let hints = &task.contract.hints;
        let mut sets: Vec<DataSet> = Vec::new();
        let special = task.contract.special_values.then_some(Distribution::Special);
        let round: Vec<_> = self.distributions.iter().copied().chain(special).collect();
        let count = round.len() * self.rounds.max(1) as usize;
        for (i, distribution) in round.iter().copied().cycle().take(count).enumerate() {
            sets.push(DataSet {
                distribution,
                seed: if i == 0 {
                    self.seed
                } else {
                    hidden::seed(secret, i as u64)
                },
                dims: hints.clone(),
                whole: i == 1,
                again: i >= round.len(),
            });
        }
        // With a single set there is no other to compare in full.
        if let [only] = sets.as_mut_slice() {
            only.whole = true;
        }
        let sizes = hidden::sizes(task, secret).into_iter().enumerate();
        // Small sizes are cheap: they come before the distributions that the budget may cut.
        let at = sets.len().min(ALWAYS);
        let sized = sizes.map(|(i, dims)| DataSet {
            distribution: Distribution::Signed,
            seed: hidden::seed(secret, 1000 + i as u64),
            dims,
            whole: true,
            again: false,
        });
        let far = hidden::far_sizes(task, secret).sizes.into_iter().enumerate();
        let far = far.map(|(i, dims)| DataSet {
            distribution: Distribution::Signed,
            seed: hidden::seed(secret, 2000 + i as u64),
            dims,
            whole: false,
            again: false,
        });
        sets.splice(at..at, sized.chain(far).collect::<Vec<_>>());
        sets
    }
}

impl Fingerprint for Distribution {
    fn feed(&self, to: &mut Fields) {
        self.name().feed(to);
    }
}

impl Fingerprint for NumericVerifier {
    fn feed(&self, to: &mut Fields) {
        let Self {
            seed,
            secret,
            distributions,
            work,
            rounds,
            sample_work,
            limits,
        } = self;
        to.record(
            "numeric",
            1,
            &[
                ("seed", seed),
                ("secret", secret),
                ("distributions", distributions),
                ("work", work),
                ("rounds", rounds),
                ("sample_work", sample_work),
                ("limits", limits),
            ],
        );
    }
}

#[async_trait]
impl Verifier for NumericVerifier {
    fn name(&self) -> &str {
        "numeric"
    }

    fn identity(&self) -> Digest {
        Digest::of_fields(self)
    }

    fn prepare(&self, task: &Task) -> Result<Task> {
        Ok(self.ahead(task)?.unwrap_or_else(|| task.clone()))
    }

    async fn verify(
        &self,
        candidate: &Candidate,
        task: &Task,
        target: &Target,
        backend: &dyn Backend,
    ) -> Result<Verdict> {
        let mut verdict = Verdict::new(task.contract.accuracy);
        let deadline = Deadline::new(&self.limits);
        let limits = self.limits.for_task(task, target)?;
        let begun = Life::begin(
            candidate.artifact.clone(),
            &limits,
            deadline,
            backend,
            &mut verdict,
        )
        .await?;
        let mut life = match begun {
            Ok(life) => life,
            Err(failure) => {
                verdict.failure = Some(failure);
                return Ok(verdict);
            }
        };
        // Nothing that made the candidate, and nothing that it can read, has seen this.
        let secret = self.secret.unwrap_or_else(rand::random);
        let ahead = self.ahead(task)?;
        let mut sets = self.data_sets(task, secret);
        if let (Some(_), Some(first)) = (&ahead, sets.get_mut(..ALWAYS)) {
            // Others are checked meanwhile.
            first.rotate_left(1);
        }
        let ahead_is_slow = ahead.is_some();
        let task = ahead.as_ref().unwrap_or(task);
        let far = hidden::far_sizes(task, secret);
        let always = ALWAYS + hidden::sizes(task, secret).len() + far.sizes.len();
        verdict.gaps.extend(far.gaps);
        for (i, mut set) in sets.into_iter().enumerate() {
            if ahead_is_slow && set.whole && set.dims == task.contract.hints {
                // The task's code would have to make as much once more.
                set.distribution = Distribution::Signed;
            }
            let budget = if set.again { self.work.quarter() } else { self.work };
            if i >= always && verdict.work.operations > budget.0 {
                break;
            }
            let (distribution, seed, dims) = (set.distribution, set.seed, &set.dims);
            let inputs = make_inputs(task, backend, distribution, seed, dims)?;
            verdict.work.spend(TaskWork::new(task, dims)?.data());
            if distribution == Distribution::Contract && seed == self.seed {
                verdict.gaps.extend(unvaried(task, &inputs)?);
            }
            let data = Data {
                task,
                inputs: &inputs,
                dims,
                distribution,
                seed,
                about: "",
                poison: if i % 2 == 0 { Poison::Ones } else { Poison::Finite },
                placement: 0,
            };
            let extent = Extent {
                work: (!set.whole).then_some(if seed == self.seed {
                    Operations(self.sample_work.0.saturating_mul(2))
                } else {
                    self.sample_work
                }),
                yardstick: self.sample_work,
                first: None,
            };
            if let Err(failure) = life.check(&data, &extent, &mut verdict).await? {
                verdict.failure = Some(failure);
                break;
            }
        }
        Ok(verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Graph;

    #[test]
    fn every_byte_is_compared_on_the_contracts_own_data_of_a_secret() {
        let mut graph = Graph::new("g");
        let x = graph.input("x", DType::F32, [4]);
        graph.output(x);
        let task = Task::new("t", graph);
        let verifier = NumericVerifier::default();
        let sets = verifier.data_sets(&task, 7);
        let whole: Vec<&DataSet> = sets.iter().filter(|set| set.whole).collect();
        assert!(
            whole
                .iter()
                .any(|set| set.distribution == Distribution::Contract && set.seed != verifier.seed)
        );
        // The public seed gives the data of the first check and of no other.
        let public = sets.iter().filter(|set| set.seed == verifier.seed);
        assert_eq!(public.count(), 1);
        assert_ne!(
            verifier
                .data_sets(&task, 8)
                .iter()
                .map(|set| set.seed)
                .collect::<Vec<_>>(),
            sets.iter().map(|set| set.seed).collect::<Vec<_>>()
        );
    }
}
