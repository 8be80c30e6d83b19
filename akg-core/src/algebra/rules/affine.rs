//! Scales and shifts that linear layers and convolutions can take into their weights, and chains of them.
//!
//! Weights are prepared at every call, so these pay where a layer has many more results than weights.

use egg::Id;

use super::read::{LAYERS, SCALES, SHIFTS, layer, scaled, shifted};
use super::{Found, Kind, Rule};
use crate::algebra::site::{Site, arg};
use crate::graph::Arg;
use crate::task::Accuracy;

pub(super) const RULES: &[Rule] = &[
    Rule {
        name: "scale-of-scale",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "(x * a) * b = x * (a * b) for numbers",
        roots: SCALES,
        inner: SCALES,
        apply: |site, at| {
            let (product, b) = scaled(site, at.node)?;
            let (x, a) = scaled(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            let moderate = |v: f64| v.abs() > 1e-30 && v.abs() < 1e30;
            let reads = site.same(product, at.class(site)?) && moderate(a) && moderate(b) && moderate(a * b);
            reads.then(|| site.scale(x, a * b))?
        },
    },
    Rule {
        name: "shift-of-shift",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "(x + a) + b = x + (a + b) for numbers of the same sign",
        roots: SHIFTS,
        inner: SHIFTS,
        apply: |site, at| {
            let (sum, b) = shifted(site, at.node)?;
            let (x, a) = shifted(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            let reads = site.same(sum, at.class(site)?) && a * b > 0.0;
            reads.then(|| site.shift(x, a + b))?
        },
    },
    Rule {
        name: "scale-into-weights",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "c * layer(x, w, b) = layer(x, c * w, c * b) for a linear layer or convolution",
        roots: SCALES,
        inner: LAYERS,
        apply: |site, at| {
            let (_, by) = scaled(site, at.node)?;
            let layer = layer(site, at.inner)?;
            let mut args = vec![("weight", arg(site.scale(layer.weight, by)?))];
            if let Some(bias) = layer.bias {
                args.push(("bias", arg(site.scale(bias, by)?)));
            }
            site.again(at.inner, args)
        },
    },
    Rule {
        name: "channel-scale-into-weights",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "layer(x, w, b) * s = layer(x, w * s, b * s) if s differs only between channels",
        roots: &["mul.Tensor"],
        inner: LAYERS,
        apply: |site, at| {
            let layer = layer(site, at.inner)?;
            let scales = layer.vector(site, at.other()?)?;
            let spread = layer.over_weight(site, scales)?;
            let mut args = vec![("weight", arg(site.mul(layer.weight, spread)?))];
            if let Some(bias) = layer.bias {
                args.push(("bias", arg(site.mul(bias, scales)?)));
            }
            site.again(at.inner, args)
        },
    },
    Rule {
        name: "term-into-bias",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "layer(x, w, b) + s, - s = layer(x, w, b + s or b - s) if s differs only between channels",
        roots: &["add.Tensor", "sub.Tensor"],
        inner: LAYERS,
        apply: |site, at| {
            let layer = layer(site, at.inner)?;
            let is_sum = at.node.name() == "add.Tensor";
            if at.node.number("alpha")? != 1.0 || at.at == 1 && !is_sum {
                return None;
            }
            let term = layer.vector(site, at.other()?)?;
            let bias = match layer.bias {
                Some(bias) => site.call(at.node.name(), [("self", arg(bias)), ("other", arg(term))])?,
                None if is_sum => term,
                None => site.call("neg.default", [("self", arg(term))])?,
            };
            site.again(at.inner, [("bias", arg(bias))])
        },
    },
    Rule {
        name: "shift-into-bias",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "layer(x, w, b) + c = layer(x, w, b + c) for a number c",
        roots: SHIFTS,
        inner: LAYERS,
        apply: |site, at| {
            let (_, by) = shifted(site, at.node)?;
            let bias = layer(site, at.inner)?.bias?;
            let shifted = site.shift(bias, by)?;
            site.again(at.inner, [("bias", arg(shifted))])
        },
    },
    Rule {
        name: "normalisation-into-weights",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "a batch norm by given statistics after a convolution is a convolution with other weights",
        roots: &["batch_norm.default"],
        inner: LAYERS,
        apply: |site, at| {
            let layer = layer(site, at.inner)?;
            if at.at != 0 || at.node.flag("training") {
                return None;
            }
            let (mean, variance) = (at.node.operand("running_mean")?, at.node.operand("running_var")?);
            let guarded = site.shift(variance, at.node.number("eps")?)?;
            let mut scales = site.call("rsqrt.default", [("self", arg(guarded))])?;
            if let Some(weight) = at.node.operand("weight") {
                scales = site.mul(weight, scales)?;
            }
            let centred = match layer.bias {
                Some(bias) => site.call("sub.Tensor", [("self", arg(bias)), ("other", arg(mean))])?,
                None => site.call("neg.default", [("self", arg(mean))])?,
            };
            let mut bias = site.mul(centred, scales)?;
            if let Some(shift) = at.node.operand("bias") {
                bias = site.plus(bias, shift)?;
            }
            let spread = layer.over_weight(site, scales)?;
            let weight = site.mul(layer.weight, spread)?;
            site.again(at.inner, [("weight", arg(weight)), ("bias", arg(bias))])
        },
    },
    Rule {
        name: "bias-before-normalisation",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "an instance norm takes out the bias of the convolution before it",
        roots: &["instance_norm.default"],
        inner: LAYERS,
        apply: |site, at| {
            layer(site, at.inner)?.bias?;
            if at.at != 0 || !at.node.flag("use_input_stats") {
                return None;
            }
            let bare = site.again(at.inner, [("bias", Arg::None)])?;
            site.again(at.node, [("input", arg(bare))])
        },
    },
    Rule {
        name: "shift-before-normalisation",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "layer, group and instance norms of x + c are those of x, for a number c",
        roots: &[
            "layer_norm.default",
            "group_norm.default",
            "instance_norm.default",
        ],
        inner: SHIFTS,
        apply: |site, at| {
            let (x, _) = shifted(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            let stored = at.node.arg("use_input_stats").is_some() && !at.node.flag("use_input_stats");
            let own = at.at == 0 && !stored;
            own.then(|| site.again(at.node, [("input", arg(x))]))?
        },
    },
    Rule {
        name: "shift-before-softmax",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "softmax(x + c) = softmax(x), log_softmax(x + c) = log_softmax(x) for a number c",
        roots: &["softmax.int", "log_softmax.int"],
        inner: SHIFTS,
        apply: |site, at| {
            let (x, _) = shifted(site, at.inner).filter(|(x, _)| site.is_wide(*x))?;
            site.again(at.node, [("self", arg(x))])
        },
    },
    Rule {
        name: "product-with-own-sigmoid",
        kind: Kind::Reassociating(Accuracy::Fp32),
        statement: "x * sigmoid(x) = silu(x)",
        roots: &["mul.Tensor"],
        inner: &["sigmoid.default"],
        apply: |site, at| {
            let x = at.inner.operand("self").filter(|x| site.is_wide(*x))?;
            let own = site.same(x, at.other()?);
            own.then(|| site.call("silu.default", [("self", arg(x))]))?
        },
    },
];

impl Found<'_> {
    /// The class of the inner term.
    fn class(&self, site: &Site<'_>) -> Option<Id> {
        egg::Language::children(self.node)
            .get(self.at)
            .map(|id| site.classes.find(*id))
    }
}
