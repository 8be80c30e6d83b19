//! Elements that indices name, and those that change places.

use super::{F, check, roll};
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

#[test]
fn what_rolls_beyond_the_end_comes_first() {
    let rolls: [(&[i64], &[i64]); 4] = [(&[2], &[0]), (&[-3], &[1]), (&[1, -2], &[0, 2]), (&[6], &[0])];
    for (shifts, dims) in rolls {
        check("roll", |g| {
            let x = g.input("x", F, [6, 7, 5]);
            let y = roll(g, x, shifts, dims)?;
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
