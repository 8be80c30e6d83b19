//! Networks whose results hang on roundings: norms of two values that are nearly equal make large differences of small ones.

use super::*;

const WIDTH: usize = 128;
const LAYERS: usize = 6;

/// Layers of a product, a norm over a batch of two and a ReLU; the mean of the last comes out.
fn task() -> Task {
    let mut graph = Graph::new("g");
    let mut x = graph.input("x", DType::F32, [2, WIDTH as i64]);
    let weight = |graph: &mut Graph, i: usize| {
        let size = WIDTH as i64;
        graph.input(&format!("w{i}"), DType::F32, [size, size])
    };
    let weights: Vec<ValueId> = (0..LAYERS).map(|i| weight(&mut graph, i)).collect();
    for w in weights {
        let y = graph.matmul(x, w).unwrap();
        let mean = graph.mean(y, &[0], true).unwrap();
        let apart = graph.sub(y, mean).unwrap();
        let square = graph.mul(apart, apart).unwrap();
        let variance = graph.mean(square, &[0], true).unwrap();
        let variance = graph.add(variance, 1e-5).unwrap();
        let scale = graph.rsqrt(variance).unwrap();
        let y = graph.mul(apart, scale).unwrap();
        x = graph.relu(y).unwrap();
    }
    let mean = graph.mean(x, &[0], true).unwrap();
    graph.output(mean);
    Task::new("t", graph)
}

fn inputs(rng: &mut ChaCha8Rng) -> Vec<Tensor> {
    let row = normal(rng, WIDTH, 1.0);
    let near = normal(rng, WIDTH, 1e-4);
    let other: Vec<f64> = row.iter().zip(&near).map(|(x, d)| x + d).collect();
    let mut inputs = vec![tensor(DType::F32, [2, WIDTH], &[row, other].concat())];
    let scale = (WIDTH as f64).sqrt().recip();
    inputs.extend((0..LAYERS).map(|_| {
        let w = normal(rng, WIDTH * WIDTH, scale);
        tensor(DType::F32, [WIDTH, WIDTH], &w)
    }));
    inputs
}

/// The output in single precision.
fn computed(inputs: &[Tensor], order: Order) -> Vec<f32> {
    let mut x: Vec<f32> = inputs[0].as_slice::<f32>().unwrap().to_vec();
    for w in &inputs[1..] {
        let w = w.as_slice::<f32>().unwrap();
        let column = |c: usize| -> Vec<f32> { w.iter().skip(c).step_by(WIDTH).copied().collect() };
        let columns: Vec<Vec<f32>> = (0..WIDTH).map(column).collect();
        let product = |row: &[f32]| -> Vec<f32> { columns.iter().map(|c| dot(row, c, order)).collect() };
        let (a, b) = (product(&x[..WIDTH]), product(&x[WIDTH..]));
        let mean: Vec<f32> = a.iter().zip(&b).map(|(a, b)| (a + b) * 0.5).collect();
        let scale = |i: usize| {
            let (a, b): (f32, f32) = (a[i] - mean[i], b[i] - mean[i]);
            ((a * a + b * b) * 0.5 + 1e-5).sqrt().recip()
        };
        let norm = |y: &[f32]| -> Vec<f32> {
            (0..WIDTH)
                .map(|i| ((y[i] - mean[i]) * scale(i)).max(0.0))
                .collect()
        };
        x = [norm(&a), norm(&b)].concat();
    }
    (0..WIDTH).map(|i| (x[i] + x[WIDTH + i]) * 0.5).collect()
}

#[test]
fn results_that_hang_on_roundings_pass_in_any_order_and_others_do_not() {
    let task = task();
    let mut chaotic = 0;
    for seed in 0..24 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let inputs = inputs(&mut rng);
        let exact = wide(&task, &inputs);
        for order in ORDERS {
            let values = of_f32(&computed(&inputs, order));
            let far = values.iter().zip(&exact).filter(|(y, e)| (*y - *e).abs() > 1e-3);
            chaotic += usize::from(far.count() > 0);
            let output = tensor(DType::F32, [1, WIDTH], &values);
            assert_eq!(
                judge(&task, &inputs, output, seed),
                None,
                "{order:?}, seed {seed}"
            );
        }
        // No rounding makes so much of a norm.
        let output: Vec<f64> = exact.iter().map(|e| e + 8.0).collect();
        let output = tensor(DType::F32, [1, WIDTH], &output);
        assert!(judge(&task, &inputs, output, seed).is_some(), "seed {seed}");
    }
    assert!(chaotic > 0);
}

/// A sigmoid of sums times `steepness`: 0 or 1 but where a sum is nearly zero.
fn switches(steepness: f64) -> Task {
    super::task(DType::F32, &[[ROWS, DEPTH], [DEPTH, COLUMNS]], |graph, x| {
        let sums = graph.matmul(x[0], x[1]).unwrap();
        let sums = graph.mul(sums, steepness).unwrap();
        graph.sigmoid(sums).unwrap()
    })
}

/// Operands of which `count` sums are zero but for the rounding of their terms, one in a column.
fn balanced(rng: &mut ChaCha8Rng, count: usize) -> ([Tensor; 2], Vec<usize>) {
    let x = normal(rng, ROWS * DEPTH, 1.0);
    let mut w = normal(rng, DEPTH * COLUMNS, 1.0);
    let mut at = Vec::new();
    for column in 0..count {
        let row = rng.random_range(0..ROWS);
        let x = &x[row * DEPTH..(row + 1) * DEPTH];
        let sum: f64 = (0..DEPTH).map(|k| x[k] * w[k * COLUMNS + column]).sum();
        let part = sum / x.iter().map(|x| x * x).sum::<f64>();
        for (k, x) in x.iter().enumerate() {
            w[k * COLUMNS + column] -= part * x;
        }
        at.push(row * COLUMNS + column);
    }
    (
        [
            tensor(DType::F32, [ROWS, DEPTH], &x),
            tensor(DType::F32, [DEPTH, COLUMNS], &w),
        ],
        at,
    )
}

/// The output in single precision.
fn switched(inputs: &[Tensor; 2], steepness: f64, order: Order) -> Vec<f64> {
    let sigmoid = |sum: &f32| f64::from(((-sum * steepness as f32).exp() + 1.0).recip());
    multiplied(inputs, order).iter().map(sigmoid).collect()
}

#[test]
fn switches_that_roundings_throw_may_be_either_way_and_others_not() {
    for (steepness, count) in [(3e5, 1), (3e6, 1), (1e7, 1), (1e7, 4)] {
        let task = switches(steepness);
        let mut thrown = 0;
        for seed in 0..16 {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            let (inputs, at) = balanced(&mut rng, count);
            let exact = wide(&task, &inputs);
            let judged =
                |values: &[f64]| judge(&task, &inputs, tensor(DType::F32, [ROWS, COLUMNS], values), seed);
            for order in ORDERS {
                let mut values = switched(&inputs, steepness, order);
                thrown += usize::from(at.iter().any(|i| (values[*i] - exact[*i]).abs() > 0.1));
                assert_eq!(
                    judged(&values),
                    None,
                    "{order:?}, {steepness:e}, {count} of seed {seed}"
                );
                let elsewhere = at[0] + COLUMNS / 2;
                let other = (elsewhere + COLUMNS) % values.len();
                values[other] += 0.01;
                assert!(judged(&values).is_some(), "{order:?}, {steepness:e}, seed {seed}");
            }
            let mut values = exact.clone();
            values[at[0]] += 8.0;
            assert!(judged(&values).is_some(), "{steepness:e}, seed {seed}");
        }
        assert!(thrown > 0, "{steepness:e}");
    }
}

#[test]
fn comparisons_of_inputs_have_no_roundings_to_throw_them() {
    let step = super::task(DType::F32, &[[ROWS, COLUMNS]], |graph, x| {
        let is_large = graph.ge(x[0], 0.5).unwrap();
        let scaled = graph.mul(x[0], 1.3).unwrap();
        let zero = graph.mul(x[0], 0.0).unwrap();
        graph.where_(is_large, scaled, zero).unwrap()
    });
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    let mut values = normal(&mut rng, ROWS * COLUMNS, 1.0);
    values[77] = 0.5;
    let inputs = [tensor(DType::F32, [ROWS, COLUMNS], &values)];
    let judged = |values: &[f64]| judge(&step, &inputs, tensor(DType::F32, [ROWS, COLUMNS], values), 1);
    let mut output = wide(&step, &inputs);
    assert_eq!(judged(&output), None);
    output[77] = 0.0;
    assert!(judged(&output).is_some());
}
