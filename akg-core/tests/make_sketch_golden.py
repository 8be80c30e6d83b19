"""Writes tests/data/sketches/NAME.json: inputs and PyTorch's results in f64 for the sketches of the crate.

    python akg-core/tests/make_sketch_golden.py

Each file is a list of cases:
  dims       extents and integer parameters by name
  symbolic   those of them that may stay symbols when the sketch is elaborated
  knobs      knob points to try
  inputs     tensors {dtype, shape, data}, data being base64 of little-endian elements
  expected   the outputs, as f64
  tolerance  bound of the largest error in units of the output's rms, or of its row's rms if by_row
"""

import base64
import json
import pathlib

import torch
import torch.nn.functional as F

DIR = pathlib.Path(__file__).parent / "data" / "sketches"
NAMES = {torch.float16: "f16", torch.float32: "f32", torch.float64: "f64", torch.int32: "i32", torch.int64: "i64"}
F32, F16 = 4e-6, 4e-3


def randn(*shape, dtype=torch.float32, scale=1.0):
    return (torch.randn(shape, dtype=torch.float64, generator=RNG) * scale).to(dtype)


def pack(tensor):
    data = base64.b64encode(tensor.contiguous().numpy().tobytes()).decode()
    return {"dtype": NAMES[tensor.dtype], "shape": list(tensor.shape), "data": data}


def case(dims, inputs, expected, knobs, tolerance, symbolic=(), by_row=False):
    return {
        "dims": dims,
        "symbolic": list(symbolic),
        "knobs": knobs,
        "inputs": [pack(t) for t in inputs],
        "expected": [pack(expected.to(torch.float64))],
        "tolerance": tolerance,
        "by_row": by_row,
    }


def gemm_inputs(m, n, k, rows=None):
    x, w = randn(m, k), randn(n, k, scale=k**-0.5)
    if rows is not None:
        x = x * rows[:, None]
    return x, w


def gemm_tail():
    for m, n, k in [(37, 50, 70), (1, 65, 33), (64, 32, 64)]:
        x, w = gemm_inputs(m, n, k)
        b = randn(n)
        y = F.leaky_relu(x.double() @ w.double().T + b.double(), 0.01)
        knobs = [{}, {"BM": 16, "BN": 64, "BK": 16, "GROUP": 1}, {"BM": 64, "BN": 16, "BK": 64}]
        yield case({"M": m, "N": n, "K": k}, [x, w, b], y, knobs, F32, "MNK")


def gemm_split():
    for m, n, k in [(37, 50, 70), (5, 33, 130)]:
        # Rows of very different magnitude, one of them empty.
        rows = 2.0 ** torch.linspace(-30, 30, m)
        rows[m // 2] = 0
        x, w = gemm_inputs(m, n, k, rows)
        b = torch.zeros(n)
        y = x.double() @ w.double().T + b.double()
        knobs = [{}, {"BM": 16, "BN": 64, "BK": 64, "RB": 1, "SK": 256}]
        yield case({"M": m, "N": n, "K": k}, [x, w, b], y, knobs, F32, "MNK", by_row=True)


def gemm_splitk():
    for m, n, k in [(9, 20, 333), (17, 33, 64)]:
        x, w = gemm_inputs(m, n, k)
        knobs = [{}, {"PARTS": 8, "BK": 64, "BN": 16}, {"PARTS": 2, "BM": 32}]
        yield case({"M": m, "N": n, "K": k}, [x, w], x.double() @ w.double().T, knobs, F32, "MNK")


def softmax(knobs, symbolic):
    for r, l in [(5, 100), (3, 333), (1, 1)]:
        x = randn(r, l, scale=4.0)
        if l > 100:
            x[0, :300] = -torch.inf
            x[1] = -torch.inf
            x[2, 7] = torch.nan
        yield case({"R": r, "L": l}, [x], torch.softmax(x.double(), 1), knobs, F32, symbolic)


def softmax_fits():
    yield from softmax([{}, {"RB": 4}], "R")


def softmax_online():
    yield from softmax([{}, {"RB": 2, "BL": 64}, {"RB": 4, "BL": 1024}], "RL")


def layernorm():
    for r, l in [(5, 100), (3, 300), (2, 64)]:
        x, g, b = randn(r, l) * 3 + 7, randn(l), randn(l)
        y = F.layer_norm(x.double(), [l], g.double(), b.double(), 1e-5)
        knobs = [{}, {"RB": 2, "BL": 64}, {"RB": 4, "BL": 1024}]
        yield case({"R": r, "L": l}, [x, g, b], y, knobs, 2e-5, "RL")


def conv2d():
    for n, c, h, w, o, kh, kw, stride, pad, dil in [
        (2, 5, 11, 13, 7, 3, 3, (1, 1), (1, 1), (1, 1)),
        (1, 3, 14, 9, 33, 3, 2, (2, 1), (0, 2), (1, 2)),
        (1, 17, 6, 7, 4, 1, 1, (1, 2), (0, 0), (1, 1)),
    ]:
        x, k, b = randn(n, c, h, w), randn(o, c, kh, kw, scale=(c * kh * kw) ** -0.5), randn(o)
        y = F.conv2d(x.double(), k.double(), b.double(), stride, pad, dil)
        dims = dict(zip("N C H W O KH KW SH SW PH PW DH DW".split(), (n, c, h, w, o, kh, kw, *stride, *pad, *dil)))
        f32 = [{}, {"TH": 1, "TW": 16, "BO": 64, "BC": 32, "BW": 64}]
        yield case(dims, [x, k, b], y, f32, F32, "N")
        yield case(dims, [x, k, b], y, [{"CT": "f16", "TH": 8}], F16, "N")


def maxpool2d():
    for p, h, w, kernel, stride, pad, dil in [
        (4, 13, 17, (2, 2), (2, 2), (0, 0), (1, 1)),
        (3, 12, 11, (3, 3), (2, 1), (1, 1), (1, 1)),
        (2, 15, 14, (3, 2), (3, 2), (1, 1), (2, 3)),
    ]:
        x = randn(p, h, w)
        x[0, 3, 4] = torch.nan
        y = F.max_pool2d(x.double(), kernel, stride, pad, dil)
        dims = dict(zip("P H W KH KW SH SW PH PW DH DW".split(), (p, h, w, *kernel, *stride, *pad, *dil)))
        yield case(dims, [x], y, [{}, {"TH": 1, "TW": 8}, {"TH": 8, "TW": 64}], 0, "P")


def cumsum():
    for r, l in [(2, 1000), (3, 65), (1, 1)]:
        x = randn(r, l)
        knobs = [{}, {"BL": 64, "STEPS": 1, "BS": 16}, {"BL": 64, "STEPS": 4}]
        yield case({"R": r, "L": l}, [x], x.double().cumsum(1), knobs, F32, "RL")


def attention():
    for g, s, d in [(2, 50, 16), (1, 33, 24), (1, 64, 32)]:
        q, k, v = (randn(g, s, d, dtype=torch.float16) for _ in range(3))
        o = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)
        knobs = [{}, {"BM": 32, "BN": 16}, {"BM": 64, "BN": 64}]
        yield case({"G": g, "S": s, "D": d}, [q, k, v], o, knobs, F16, "GS")


def rnn():
    for t, b, h in [(4, 3, 40), (3, 2, 33)]:
        x, h0, w = randn(t, b, h), randn(b, h), randn(h, h, scale=h**-0.5)
        state, y = h0.double(), []
        for step in x.double():
            state = torch.tanh(step + state @ w.double().T)
            y.append(state)
        yield case({"T": t, "B": b, "H": h}, [x, h0, w], torch.stack(y), [{}, {"BH": 32}], 2e-5, "T")


def embedding():
    for t, v, d in [(13, 20, 70), (3, 5, 64)]:
        ids, table = torch.randint(0, v, (t,), generator=RNG), randn(v, d)
        y = F.embedding(ids, table).double()
        knobs = [{}, {"BT": 1, "BD": 32}, {"BT": 32, "BD": 256}]
        yield case({"T": t, "V": v, "D": d}, [ids, table], y, knobs, 0, "TVD")


def argmax():
    for r, l in [(5, 100), (3, 300)]:
        x = torch.randint(-9, 9, (r, l), generator=RNG).float()
        x[0, 60], x[0, 90] = torch.nan, torch.nan
        x[1] = -torch.inf
        yield case({"R": r, "L": l}, [x], torch.argmax(x, 1), [{}, {"RB": 8, "BL": 256}], 0, "RL")


def bincount():
    for l, bins in [(1000, 40), (64, 7)]:
        x = torch.randint(-3, bins + 3, (l,), generator=RNG, dtype=torch.int32)
        y = torch.bincount(x[(x >= 0) & (x < bins)], minlength=bins)
        yield case({"L": l, "BINS": bins}, [x], y, [{}, {"BL": 256, "BB": 256}], 0, "L")


ALL = [gemm_tail, gemm_split, gemm_splitk, softmax_fits, softmax_online, layernorm, conv2d, maxpool2d, cumsum, attention,
       rnn, embedding, argmax, bincount]

if __name__ == "__main__":
    for make in ALL:
        RNG = torch.Generator().manual_seed(0)
        text = json.dumps(list(make()), indent=1)
        (DIR / f"{make.__name__}.json").write_text(text + "\n")
