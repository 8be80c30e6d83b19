//! Printing a syntax tree and parsing the text gives the same tree.

use akg_core::DType;
use akg_core::sketch::Sketch;
use akg_core::sketch::syntax::*;
use akg_core::task::Accuracy;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

fn name() -> impl Strategy<Value = Name> {
    let words = ["x", "BM", "acc", "step", "by", "i_2", "over", "align"];
    prop::sample::select(words.to_vec()).prop_map(|w| Name::new(w.to_owned(), 0..0))
}

fn ex(node: Expression) -> Ex {
    Ex::new(Box::new(node), 0..0)
}

fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        any::<f64>().prop_filter("nan equals nothing", |x| !x.is_nan()),
        Just(f64::INFINITY),
        Just(-0.5)
    ]
}

fn region(inner: impl Strategy<Value = Ex> + Clone) -> impl Strategy<Value = RegionSyntax> {
    prop_oneof![
        inner.clone().prop_map(RegionSyntax::At),
        (inner.clone(), inner.clone(), option::of(inner))
            .prop_map(|(start, len, step)| RegionSyntax::Range { start, len, step }),
    ]
}

fn expression() -> impl Strategy<Value = Ex> + Clone {
    let leaf = prop_oneof![
        (-1000i64..1000).prop_map(Expression::Int),
        float().prop_map(Expression::Float),
        name().prop_map(|n| Expression::Name(n.node)),
    ]
    .prop_map(ex);
    leaf.prop_recursive(5, 40, 4, |inner| {
        let operators = [
            "+", "-", "*", "/", "//", "%", "<", "<=", ">", ">=", "==", "!=", "&", "|", "^", "<<", ">>",
        ];
        let binary = (
            prop::sample::select(operators.to_vec()),
            inner.clone(),
            inner.clone(),
        );
        let full = (name(), vec(inner.clone(), 0..3), option::of(inner.clone()));
        let dot = (
            (inner.clone(), inner.clone(), option::of(inner.clone())),
            prop::sample::select(vec!["ieee", "tf32", "f16", "bf16"]),
            option::of(inner.clone()),
        );
        prop_oneof![
            (prop::sample::select(vec!['-', '!']), inner.clone()).prop_map(|(s, a)| Expression::Unary(s, a)),
            binary.prop_map(|(s, a, b)| Expression::Binary(s, a, b)),
            (name(), vec(inner.clone(), 0..4)).prop_map(|(f, a)| Expression::Call(f, a)),
            vec(inner.clone(), 0..4).prop_map(Expression::List),
            (inner.clone(), vec(any::<bool>(), 0..4)).prop_map(|(t, keeps)| Expression::Expand(t, keeps)),
            (name(), vec(region(inner.clone()), 0..3), option::of(inner))
                .prop_map(|(tensor, region, fill)| { Expression::Load { tensor, region, fill } }),
            full.prop_map(|(dtype, shape, value)| Expression::Full { dtype, shape, value }),
            dot.prop_map(|((a, b, init), method, promote)| Expression::Dot {
                a,
                b,
                init,
                method: Name::new(method.to_owned(), 0..0),
                promote
            }),
        ]
        .prop_map(ex)
    })
}

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["", "why", "  indented", "# twice", "ünïcode {"]).prop_map(str::to_owned)
}

fn statement() -> impl Strategy<Value = Spanned<Statement>> {
    let simple = prop_oneof![
        (name(), expression()).prop_map(|(name, value)| Statement::Assign { name, value }),
        (
            name(),
            vec(region(expression()), 0..3),
            expression(),
            any::<bool>()
        )
            .prop_map(|(tensor, region, value, atomic_add)| Statement::Store {
                tensor,
                region,
                value,
                atomic_add
            }),
        Just(Statement::Barrier),
        text().prop_map(Statement::Comment),
    ];
    let simple = simple.prop_map(|s| Spanned::new(s, 0..0));
    simple.prop_recursive(3, 12, 3, |inner| {
        let body = vec(inner.clone(), 0..3);
        let index = (name(), expression(), expression(), option::of(expression()))
            .prop_map(|(name, lo, hi, step)| LoopIndex { name, lo, hi, step });
        let combine = (vec((name(), name()), 0..3), body.clone())
            .prop_map(|(pairs, body)| CombineSyntax { pairs, body });
        let looped = (
            vec(index, 1..3),
            option::of(expression()),
            any::<bool>(),
            body.clone(),
            option::of(combine),
        );
        prop_oneof![
            looped.prop_map(|(indices, pipeline, unroll, body, combine)| Statement::For {
                indices,
                pipeline,
                unroll,
                body,
                combine
            }),
            (expression(), body.clone(), body).prop_map(|(condition, then, otherwise)| Statement::If {
                condition,
                then,
                otherwise
            }),
        ]
        .prop_map(|s| Spanned::new(s, 0..0))
    })
}

fn tensor() -> impl Strategy<Value = TensorSyntax> {
    (name(), name(), vec(expression(), 0..3)).prop_map(|(name, dtype, shape)| TensorSyntax {
        name,
        dtype,
        shape,
        updates: None,
    })
}

fn output() -> impl Strategy<Value = TensorSyntax> {
    (tensor(), option::of(name())).prop_map(|(tensor, updates)| TensorSyntax { updates, ..tensor })
}

fn item() -> impl Strategy<Value = Spanned<Item>> {
    let knob_value = prop_oneof![
        (-100i64..100).prop_map(|v| ex(Expression::Int(v))),
        prop::sample::select(DType::ALL.to_vec()).prop_map(|d| ex(Expression::Name(d.name().to_owned()))),
    ];
    let dtype = prop::sample::select(DType::ALL.to_vec());
    prop_oneof![
        (name(), option::of(dtype), option::of(expression())).prop_map(|(name, dtype, value)| Item::Param {
            name,
            dtype,
            value
        }),
        (name(), expression()).prop_map(|(name, value)| Item::Let { name, value }),
        (name(), vec(knob_value, 1..4), any::<bool>()).prop_map(|(name, values, hint)| Item::Knob {
            name,
            values,
            hint
        }),
        expression().prop_map(Item::Require),
        prop::sample::select(Accuracy::ALL.to_vec())
            .prop_map(|class| Item::Accuracy(Spanned::new(class, 0..0))),
        (tensor(), option::of(expression())).prop_map(|(tensor, align)| Item::Buffer { tensor, align }),
    ]
    .prop_map(|item| Spanned::new(item, 0..0))
}

fn kernel() -> impl Strategy<Value = Spanned<KernelSyntax>> {
    let template = (1..3usize).prop_flat_map(|n| (vec(name(), n), vec(vec(expression(), n), 1..3)));
    let template = template.prop_map(|(names, rows)| Template { names, rows });
    let head = (name(), option::of(template), vec((name(), expression()), 0..3));
    let tail = (
        option::of((name(), expression())),
        option::of(vec(name(), 0..3)),
        vec((name(), vec(expression(), 0..3)), 0..3),
        vec(statement(), 0..4),
        vec(text(), 0..2),
    );
    (head, tail).prop_map(
        |((name, template, grid), (grouped, cooperative, views, body, doc))| {
            let kernel = KernelSyntax {
                name,
                template,
                grid,
                grouped,
                cooperative,
                views,
                body,
                doc,
            };
            Spanned::new(kernel, 0..0)
        },
    )
}

fn tree() -> impl Strategy<Value = SketchTree> {
    let head = (
        name(),
        vec(tensor(), 0..3),
        vec(output(), 1..3),
        vec(text(), 0..2),
    );
    let comment = text().prop_map(|t| Spanned::new(Item::Comment(t), 0..0));
    // A comment directly above a kernel is the kernel's.
    let items = vec((option::of(comment), item()), 0..4);
    (head, items, vec(kernel(), 1..3)).prop_map(|((name, inputs, outputs, doc), items, kernels)| SketchTree {
        name,
        inputs,
        outputs,
        items: items
            .into_iter()
            .flat_map(|(comment, item)| comment.into_iter().chain([item]))
            .collect(),
        kernels,
        doc,
    })
}

proptest! {
    #[test]
    fn printing_parses_back(tree in tree()) {
        let text = Sketch::from(tree.clone()).to_string();
        match Sketch::parse(&text) {
            Ok(parsed) => prop_assert_eq!(parsed.tree(), &tree, "{}", text),
            Err(diagnostics) => prop_assert!(false, "{}\n{}", diagnostics.render(&text), text),
        }
    }
}
