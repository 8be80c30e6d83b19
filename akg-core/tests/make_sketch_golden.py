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
    expected = [expected] if isinstance(expected, torch.Tensor) else expected
    return {
        "dims": dims,
        "symbolic": list(symbolic),
        "knobs": knobs,
        "inputs": [pack(t) for t in inputs],
        "expected": [pack(t.to(torch.float64)) for t in expected],
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


def special(n):
    values = [0.0, 0.5, 1.5, 2.5, -0.5, -1.5, 1.0, -1.0, 1e-30, torch.inf, -torch.inf, torch.nan, 1000.0, -1000.0]
    return torch.cat([torch.tensor(values), randn(n - len(values), scale=2.0)])


def pow2_floor(x):
    exponent = torch.frexp(x.abs()).exponent - 1
    return torch.where(x.isfinite() & (x != 0), torch.ldexp(torch.ones_like(x), exponent), 1.0)


def floats():
    l = 100
    x, z = special(l), randn(l)
    x[60] = z[60]
    t, s = x.double(), z.double()
    functions = [torch.neg, torch.abs, torch.exp, torch.exp2, torch.expm1, torch.log, torch.log2, torch.log1p, torch.sqrt,
                 torch.rsqrt, torch.sin, torch.cos, torch.tanh, torch.erf, torch.sigmoid, torch.floor, torch.ceil,
                 torch.round, torch.trunc, torch.isnan, pow2_floor]
    u = torch.stack([f(t).double() for f in functions])
    v = torch.stack([t + s, t - s, t * s, t / s, torch.remainder(t, s), torch.minimum(t, s), torch.maximum(t, s),
                     torch.pow(t.abs(), s), t * 8, torch.where(t < s, t, s), (t != s).double(),
                     (~(t >= s) | (t == 0.5)).double()])
    # Results beyond f32 are infinite there.
    u, v = u.float().double(), v.float().double()
    yield case({"L": l}, [x, z], [u, v], [{}, {"BL": 16}, {"BL": 256}], 1e-5, "L", by_row=True)


def integers():
    l = 100
    x = torch.randint(-(2**31), 2**31, (l,), generator=RNG, dtype=torch.int32)
    x[:50] = torch.arange(-25, 25, dtype=torch.int32)
    z = torch.randint(-9, 9, (l,), generator=RNG, dtype=torch.int32)
    z[z == 0] = 5
    y = torch.stack([x + z, x - z, x * z, x.div(z, rounding_mode="floor"), torch.remainder(x, z), torch.minimum(x, z),
                     torch.maximum(x, z), x & z, x | z, x ^ z, x << (z & 7), x >> (z & 7), -x, ~x, z.abs()])
    w = torch.stack([x.long() * z.long(), x.to(torch.int8).long(), x.to(torch.uint8).long() + ((x > z) & (z > 0))])
    yield case({"L": l}, [x, z], [y, w], [{}, {"BL": 16}, {"BL": 256}], 0, "L")


def types():
    x = torch.cat([randn(60), randn(20, scale=1e5).clamp(-6e4, 6e4), randn(18, scale=1e-6), torch.tensor([0.0, -2.5])])
    h, b = x.half(), x.bfloat16()
    e = torch.stack([(x.view(torch.int32) ^ 4194304).view(torch.float32), (h * h + h).float(), (b * b + b).float()])
    expected = [h, b, x.double() ** 2 + 1, x.int(), x.bool(), x.view(torch.int32), e]
    yield case({"L": len(x)}, [x], expected, [{}, {"BL": 16}, {"BL": 256}], 0, "L")


def axes():
    for a, b, c in [(3, 5, 7), (4, 8, 16), (2, 6, 3)]:
        x = torch.randint(-4, 5, (a, b, c), generator=RNG).float() / 2
        g = min(b, c)
        i = torch.randperm(g, generator=RNG).int()
        t = x.double()
        # argmax and argmin of PyTorch do not say which of equals they take.
        at = torch.from_numpy(t.numpy().argmax(1))
        first = torch.from_numpy(t.numpy().argmin(0))
        before = torch.cat([torch.ones_like(t[:1]), t.cumprod(0)[:-1]])
        shift = torch.full_like(t, 7.0)
        shift[1:, :-1, 1:] = t[:-1, 1:, :-1]
        spread = torch.empty(a, g, dtype=torch.float64)
        spread[:, i.long()] = t[:, 0, :g]
        expected = [t.amax(1), t.amin(2), t.sum(0), t.prod(2), at, first, t.cumsum(1),
                    t.flip(2).cummax(2).values.flip(2), before, t.permute(2, 0, 1), t.flip(1), shift,
                    t[1, i.long()], spread]
        yield case({"A": a, "B": b, "C": c, "G": g}, [x, i], expected, [{}], 1e-6)


def dots():
    # Eighths of small integers: exact by every method.
    for m, n, k in [(20, 40, 70), (16, 33, 64)]:
        x, w = (torch.randint(-16, 17, shape, generator=RNG).float() / 8 for shape in [(m, k), (k, n)])
        y = x.double() @ w.double()
        yield case({"M": m, "N": n, "K": k}, [x, w], [y] * 6, [{}, {"BM": 32, "BN": 16, "BK": 64}], 0, "MNK")


ALL = [gemm_tail, gemm_split, gemm_splitk, softmax_fits, softmax_online, layernorm, conv2d, maxpool2d, cumsum, attention,
       rnn, embedding, argmax, bincount, floats, integers, types, axes, dots]

if __name__ == "__main__":
    for make in ALL:
        RNG = torch.Generator().manual_seed(0)
        text = json.dumps(list(make()), indent=1)
        (DIR / f"{make.__name__}.json").write_text(text + "\n")
