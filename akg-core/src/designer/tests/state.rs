//! States that a call updates in place: an output stands in the place of its state, and only what changes is written.

use super::*;

/// The tasks of a graph whose states are updated, on devices of both kinds; in the designs, the outputs `in_place` stand in the
/// place of their states.
#[track_caller]
fn check_updates(in_place: &[usize], build: impl FnOnce(&mut Graph) -> Result<()>) {
    let mut g = Graph::new("update");
    build(&mut g).unwrap();
    let task = Task::new("update", g);
    let targets = [Target::new("cpu", "x86_64"), many_threads()];
    for target in &targets {
        let design = design(&task, target).unwrap();
        let program = design.sketch.elaborate(&design.knobs, &Bindings::new()).unwrap();
        let outputs = program.with_role(TensorRole::Output);
        let found: Vec<usize> = (0..)
            .zip(outputs)
            .filter_map(|(i, (_, t))| t.updates.map(|_| i))
            .collect();
        assert_eq!(found, in_place, "{}", design.sketch);
    }
    check_task(&targets, &task, 1e-5);
}

/// An update of `count` slices along `dim` of a state.
#[track_caller]
fn check_slices(dtype: DType, shape: &[i64], dim: usize, count: i64, turned: bool) {
    check_updates(&[0], |g| {
        let mut slices = shape.to_vec();
        slices[dim] = count;
        let cache = g.state("cache", dtype, shape.to_vec());
        let source = g.input("source", dtype, slices);
        let mut index = g.input("index", DType::I64, [count]);
        if turned {
            index = g.call("neg.default", [("self", index.into())])?[0];
        }
        let new = g.index_copy(cache, dim as i64, index, source)?;
        g.update(cache, new)
    });
}

#[test]
fn slices_are_written_where_an_index_names_them() {
    // The inputs' indices have the numbers 0 to 4, the longer ones each several times.
    for dim in 0..3 {
        for count in [1, 4, 11] {
            check_slices(F, &[8, 9, 10], dim, count, dim == 1);
        }
    }
    for dtype in [DType::F16, DType::BF16, DType::I64, DType::Bool] {
        for count in [1, 6] {
            check_slices(dtype, &[3, 7, 2], 1, count, false);
        }
    }
    check_slices(F, &[1, 2, 9, 1, 4], 2, 1, true);
    check_slices(F, &[5], 0, 7, false);
    check_slices(F, &[6, 1], 0, 1, false);
    check_slices(F, &[2, 6, 3], 1, 1100, true);
}

#[test]
fn keys_are_computed_and_the_updated_cache_is_read() {
    check_updates(&[0], |g| {
        let cache = g.state("cache", F, [2, 3, 8, 4]);
        let (x, index) = (g.input("x", F, [2, 3, 2, 4]), g.input("index", DType::I64, [2]));
        let keys = g.sigmoid(x)?;
        let new = g.index_copy(cache, 2, index, keys)?;
        let turned = g.transpose(new, 2, 3)?;
        let scores = g.matmul(x, turned)?;
        g.update(cache, new)?;
        let weights = g.softmax(scores, -1)?;
        g.output(weights);
        Ok(())
    });
}

#[test]
fn a_new_content_that_is_returned_twice_is_copied_once() {
    check_updates(&[0], |g| {
        let cache = g.state("cache", F, [8, 4]);
        let (rows, index) = (g.input("rows", F, [3, 4]), g.input("index", DType::I64, [3]));
        let new = g.index_copy(cache, 0, index, rows)?;
        g.update(cache, new)?;
        g.output(new);
        Ok(())
    });
}

#[test]
fn a_state_that_is_read_before_its_update_is_kept_apart() {
    check_updates(&[], |g| {
        let cache = g.state("cache", F, [8, 4]);
        let (rows, index) = (g.input("rows", F, [3, 4]), g.input("index", DType::I64, [3]));
        let old = g.exp(cache)?;
        let new = g.index_copy(cache, 0, index, rows)?;
        g.update(cache, new)?;
        g.output(old);
        Ok(())
    });
}

#[test]
fn two_states_are_updated_by_one_index() {
    check_updates(&[0, 1], |g| {
        let (keys, values) = (g.state("keys", F, [2, 6, 4]), g.state("values", F, [2, 6, 4]));
        let (k, v) = (g.input("k", F, [2, 2, 4]), g.input("v", F, [2, 2, 4]));
        let index = g.input("index", DType::I64, [2]);
        let new = g.index_copy(keys, 1, index, k)?;
        g.update(keys, new)?;
        let new = g.index_copy(values, 1, index, v)?;
        g.update(values, new)
    });
}
