//! Tasks of imported modules, whose own tensors Python makes when they are asked for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use akg_core::error::Result;
use akg_core::task::{Capture, Generator, Task};
use akg_core::tensor::Tensor;

use crate::calls::Seeds;
use crate::import::{self, ImportedModule};
use crate::python::Python;

/// A Python that several tasks ask for their tensors, one after the other.
pub type SharedPython = Arc<Mutex<Python>>;

/// Waits until nobody else asks that Python. A panic elsewhere leaves nothing half done in it.
pub fn lock(python: &SharedPython) -> MutexGuard<'_, Python> {
    python.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Debug)]
struct ModuleTensors {
    module: ImportedModule,
    python: SharedPython,
}

impl Capture for ModuleTensors {
    fn capture(&self, positions: &[usize], seed: u64) -> Result<Vec<Tensor>> {
        let seeds = Seeds {
            weights: seed,
            inputs: seed,
        };
        lock(&self.python).materialize_some(&self.module, positions, seeds)
    }
}

impl ImportedModule {
    /// The task to compute what the module computes, on inputs as `get_inputs` makes them and with the module's own weights, for
    /// which the task asks `python` when it is judged.
    pub fn task(&self, name: impl Into<String>, python: &SharedPython) -> Task {
        let mut task = Task::new(name, self.graph.clone());
        let inputs = self.inputs.iter();
        task.contract.generators = inputs.map(|input| input.generator.clone().into()).collect();
        task.capture = Some(Arc::new(ModuleTensors {
            module: self.clone(),
            python: Arc::clone(python),
        }));
        task
    }
}

impl From<import::Generator> for Generator {
    fn from(generator: import::Generator) -> Self {
        match generator {
            import::Generator::Uniform01 => Self::Uniform01,
            import::Generator::Normal => Self::Normal,
            import::Generator::Randint { low, high } => Self::Integers { lo: low, hi: high },
            import::Generator::Captured => Self::Captured,
        }
    }
}
