//! What distinguishes sources.

use super::{
    Held, KnobValue, Launch, LaunchPlan, ModuleInterface, PlanTensor, Source, SourceForm, TensorRole,
};
use crate::digest::{Digest, Fields, Fingerprint};
use crate::expr::Expr;
use crate::graph::Layout;

impl Source {
    /// What distinguishes it from other sources of its DSL: the text and how it is launched. Its knobs are in the text.
    pub fn fingerprint(&self) -> Digest {
        Digest::of_fields(self)
    }
}

impl Fingerprint for Source {
    fn feed(&self, to: &mut Fields) {
        let Self {
            dsl: _,
            text,
            form,
            knobs: _,
        } = self;
        to.record("source", 1, &[("text", text), ("form", form)]);
    }
}

impl Fingerprint for SourceForm {
    fn feed(&self, to: &mut Fields) {
        match self {
            Self::Lowered { plan } => to.record("lowered", 1, &[("plan", plan)]),
            Self::Module { interface } => to.record("module", 1, &[("interface", interface)]),
        }
    }
}

impl Fingerprint for ModuleInterface {
    fn feed(&self, to: &mut Fields) {
        let Self {
            tensors,
            inputs,
            states,
            layouts,
        } = self;
        to.record(
            "interface",
            2,
            &[
                ("tensors", tensors),
                ("inputs", inputs),
                ("states", states),
                ("layouts", layouts),
            ],
        );
    }
}

impl Fingerprint for Layout {
    fn feed(&self, to: &mut Fields) {
        let Self { shape, strides } = self;
        to.record("layout", 1, &[("shape", shape), ("strides", strides)]);
    }
}

impl Fingerprint for LaunchPlan {
    fn feed(&self, to: &mut Fields) {
        let Self {
            dims,
            tensors,
            launches,
        } = self;
        to.record(
            "plan",
            1,
            &[("dims", dims), ("tensors", tensors), ("launches", launches)],
        );
    }
}

impl Fingerprint for PlanTensor {
    fn feed(&self, to: &mut Fields) {
        let Self {
            name,
            dtype,
            shape,
            role,
            align,
            holds,
            updates,
        } = self;
        let role = match role {
            TensorRole::Input => "input",
            TensorRole::Output => "output",
            TensorRole::Scratch => "scratch",
        };
        let dtype_name = dtype.name();
        let mut fields: Vec<(&str, &dyn Fingerprint)> = vec![
            ("name", name),
            ("dtype", &dtype_name),
            ("shape", shape),
            ("role", &role),
            ("align", align),
            ("holds", holds),
        ];
        // Plans that update nothing keep their digests.
        if updates.is_some() {
            fields.push(("updates", updates));
        }
        to.record("tensor", 1, &fields);
    }
}

impl Fingerprint for Held {
    fn feed(&self, to: &mut Fields) {
        match self {
            Self::Own(name) => to.record("own", 1, &[("name", name)]),
            Self::Rewritten { rewritten } => to.record("rewritten", 1, &[("name", rewritten)]),
        }
    }
}

impl Fingerprint for Launch {
    fn feed(&self, to: &mut Fields) {
        let Self {
            kernel,
            grid,
            tensors,
            cooperative,
            doc,
        } = self;
        to.record(
            "launch",
            1,
            &[
                ("kernel", kernel),
                ("grid", grid),
                ("tensors", tensors),
                ("cooperative", cooperative),
                ("doc", doc),
            ],
        );
    }
}

/// As it is printed: the text of an expression is part of the forms of graphs and sketches.
impl Fingerprint for Expr {
    fn feed(&self, to: &mut Fields) {
        self.to_string().feed(to);
    }
}

impl Fingerprint for KnobValue {
    fn feed(&self, to: &mut Fields) {
        match self {
            Self::Int(value) => value.feed(to),
            Self::DType(dtype) => dtype.name().feed(to),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;
    use crate::graph::Graph;
    use crate::target::Target;
    use crate::task::{Generator, SizeRange, Task};

    fn task() -> Task {
        let mut graph = Graph::new("double");
        let x = graph.input("x", DType::F32, [Expr::symbol("N"), Expr::constant(4)]);
        let y = graph.relu(x).unwrap();
        graph.output(y);
        let mut task = Task::new("t", graph);
        task.contract.generators = vec![Generator::Integers { lo: -3, hi: 9 }];
        task.contract.hints = [("N".into(), 64)].into();
        task.contract
            .ranges
            .insert("N".into(), SizeRange { lo: 1, hi: 100 });
        task
    }

    fn source() -> Source {
        let plan = LaunchPlan {
            dims: vec!["N".into()],
            tensors: PlanTensor::of(&task().graph),
            launches: vec![Launch {
                kernel: "k".into(),
                grid: vec![Expr::symbol("N")],
                tensors: vec![0, 1],
                cooperative: false,
                doc: String::new(),
            }],
        };
        Source {
            dsl: "cpp".into(),
            text: "void k();".into(),
            form: SourceForm::Lowered { plan },
            knobs: [("BM".into(), KnobValue::Int(8))].into(),
        }
    }

    /// Stores keep these: a change of code that changes them loses every record, and needs another version of the record.
    #[test]
    fn fingerprints_stay() {
        let mut target = Target::new("cpu", "x86_64");
        target.features.insert("avx2".into());
        let found = [
            task().fingerprint().unwrap().to_string(),
            target.fingerprint().to_string(),
            source().fingerprint().to_string(),
        ];
        let kept = [
            "583c57788726342de75e1cb8452b5578d59da7ff9eea57547bafa5458b6a4f1b",
            "5fd87829b98e6ffb7b24b123d7b58eac11f46a3633db3df459aee6818d6ddb9b",
            "121131d831d8cde2e1cc853533e82ddddbe6a4afe3dce6f91ff6239e66b27345",
        ];
        assert_eq!(found, kept);
    }

    #[test]
    fn what_does_not_matter_changes_nothing_and_all_else_does() {
        let mut same = task();
        same.name = "other".into();
        assert_eq!(same.fingerprint().unwrap(), task().fingerprint().unwrap());
        let changes: [fn(&mut Task); 4] = [
            |task| task.contract.special_values = true,
            |task| task.contract.hints = [("N".into(), 65)].into(),
            |task| task.contract.generators.clear(),
            |task| task.contract.ranges.clear(),
        ];
        for change in changes {
            let mut other = task();
            change(&mut other);
            assert_ne!(other.fingerprint().unwrap(), task().fingerprint().unwrap());
        }
        let mut other = source();
        other.knobs.clear();
        assert_eq!(other.fingerprint(), source().fingerprint());
        let SourceForm::Lowered { plan } = &mut other.form else {
            unreachable!()
        };
        plan.launches[0].cooperative = true;
        assert_ne!(other.fingerprint(), source().fingerprint());
    }
}
