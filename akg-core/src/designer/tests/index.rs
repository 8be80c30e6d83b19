//! Elements that indices name, and those that change places.

use super::{F, check};
use crate::dtype::DType;
use crate::graph::Arg;

#[test]
fn indices_name_what_stands_along_a_dimension() {
    let shapes: [&[i64]; 3] = [&[7], &[3, 4], &[2, 1, 5]];
    for shape in shapes {
        check("embedding", |g| {
            let (table, index) = (
                g.input("table", F, [9, 6]),
                g.input("index", DType::I64, shape.to_vec()),
            );
            let args = [("weight", table.into()), ("indices", index.into())];
            g.call("embedding.default", args).map(|y| y[0])
        });
        for dim in 0..3 {
            check("index", |g| {
                let table = g.input("table", F, [8, 9, 10]);
                let index = g.input("index", DType::I64, shape.to_vec());
                let mut indices = vec![None; dim];
                indices.push(Some(index));
                let args: [(&str, Arg); 2] = [("self", table.into()), ("indices", indices.into())];
                g.call("index.Tensor", args).map(|y| y[0])
            });
        }
    }
    check("index_select", |g| {
        let (table, index) = (g.input("table", F, [4, 9, 3]), g.input("index", DType::I64, [11]));
        let args = [("self", table.into()), ("dim", 1.into()), ("index", index.into())];
        g.call("index_select.default", args).map(|y| y[0])
    });
}

#[test]
fn negative_indices_count_from_the_end() {
    check("index", |g| {
        let (table, index) = (g.input("table", F, [9, 6]), g.input("index", DType::I64, [5]));
        let index = g.call("neg.default", [("self", index.into())])?[0];
        let indices = vec![Some(index)];
        g.call(
            "index.Tensor",
            [("self", table.into()), ("indices", indices.into())],
        )
        .map(|y| y[0])
    });
}

fn ints(list: &[i64]) -> Arg {
    Arg::Ints(list.iter().map(|i| (*i).into()).collect())
}

#[test]
fn what_rolls_beyond_the_end_comes_first() {
    let rolls: [(&[i64], &[i64]); 4] = [(&[2], &[0]), (&[-3], &[1]), (&[1, -2], &[0, 2]), (&[6], &[0])];
    for (shifts, dims) in rolls {
        check("roll", |g| {
            let x = g.input("x", F, [6, 7, 5]);
            let args: [(&str, Arg); 3] = [("self", x.into()), ("shifts", ints(shifts)), ("dims", ints(dims))];
            let y = g.call("roll.default", args)?[0];
            g.relu(y)
        });
    }
}

#[test]
fn a_table_of_biases_is_added_to_scores() {
    check("biases", |g| {
        let (table, index) = (g.input("table", F, [9, 2]), g.input("index", DType::I64, [36]));
        let scores = g.input("scores", F, [4, 2, 6, 6]);
        let indices = vec![Some(index)];
        let args: [(&str, Arg); 2] = [("self", table.into()), ("indices", indices.into())];
        let biases = g.call("index.Tensor", args)?[0];
        let biases = g.reshape(biases, [6, 6, 2])?;
        let biases = g.permute(biases, &[2, 0, 1])?;
        let biases = g.sigmoid(biases)?;
        let y = g.add(scores, biases)?;
        g.softmax(y, -1)
    });
}

#[test]
fn heads_are_made_of_length_one() {
    check("lengths", |g| {
        let x = g.input("x", F, [2, 4, 12]);
        let w = g.input("w", F, [36, 12]);
        let y = g.call("linear.default", [("input", x.into()), ("weight", w.into())])?[0];
        let y = g.reshape(y, [2, 4, 3, 3, 4])?;
        let y = g.permute(y, &[2, 0, 3, 1, 4])?;
        let args: [(&str, Arg); 3] = [("self", y.into()), ("dim", 0.into()), ("index", 0.into())];
        let q = g.call("select.int", args)?[0];
        let args: [(&str, Arg); 4] = [
            ("self", q.into()),
            ("ord", 2.0.into()),
            ("dim", ints(&[-1])),
            ("keepdim", true.into()),
        ];
        let length = g.call("linalg_vector_norm.default", args)?[0];
        let args: [(&str, Arg); 2] = [("self", length.into()), ("min", 1e-12.into())];
        let length = g.call("clamp_min.default", args)?[0];
        g.div(q, length)
    });
}
