"""Writes samples of PyTorch's own test database as modules of one call each.

    python make_modules.py DIRECTORY [--most 20] [--seed 0] [--only NAME] [--count COUNT]

The database is `torch.testing._internal.common_methods_invocations.op_db`, which is imported without its test cases, and so
without the package `expecttest`. Each entry gets at most `--most` samples, of float32 first, then of bfloat16, int64 and bool
where it has them. A module is a file `ENTRY-TYPE-NUMBER.py` with `Model`, `get_inputs` and `get_init_inputs`, in a directory by the
entry's first letter; its tensors are inside, with their strides. Entries in `left_out.tsv` are left out for the reason given there; where a line has a regular expression,
only the samples that it finds in `TYPE-NUMBER (ARGUMENTS)`. `entries.tsv` in the directory lists every entry with its number of samples, or
why it has none. `--count 150` writes one sample each of 150 entries, drawn by the seed, of any of these types, all in one directory.
"""

import argparse
import ast
import base64
import collections
import functools
import inspect
import io
import math
import random
import re
import sys
import types
import unittest
from pathlib import Path

import torch

# The database's module defines test cases, too.
sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=unittest.TestCase))
from torch.testing._internal.common_methods_invocations import op_db

TYPES = {torch.float32: 8, torch.bfloat16: 4, torch.int64: 4, torch.bool: 4}

MODULE = '''"""{entry}: {type}, sample {number}."""

import base64
import io

import torch
{prelude}
TENSORS = torch.load(io.BytesIO(base64.b64decode("""
{tensors}
""")))


class Model(torch.nn.Module):
    def forward(self{parameters}):
        return ({call})({arguments})


def get_inputs():
    return TENSORS


def get_init_inputs():
    return []
'''


class Unwritable(Exception):
    """A call that has no text of its own."""


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("directory", type=Path)
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="")
    parser.add_argument("--count", type=int)
    wish = parser.parse_args()
    reasons = left_out()
    wish.directory.mkdir(parents=True, exist_ok=True)
    with (wish.directory / "entries.tsv").open("w") as entries:
        for name, operator in operators(wish, reasons):
            reason, pattern = reasons.get(name, (None, None))
            count = 0
            if reason is None or pattern:
                try:
                    count = write_samples(operator, name, wish, pattern)
                    reason = "" if count else "no sample of these types"
                except Unwritable as unwritable:
                    reason = f"cannot be written: {unwritable}"
            print(name, count, reason, sep="\t", file=entries)


def operators(wish, reasons):
    """The entries, each with its name."""
    found = [(".".join(part for part in (each.name, each.variant_test_name) if part), each) for each in op_db]
    found = [(name, each) for name, each in found if wish.only in name]
    if wish.count is None:
        return found
    found = [(name, each) for name, each in found if name not in reasons]
    return random.Random(wish.seed).sample(found, min(wish.count, len(found)))


def left_out():
    """The reason for each entry of which samples are left out, and which samples."""
    lines = Path(__file__).with_name("left_out.tsv").read_text().splitlines()
    fields = (line.split("\t") for line in lines if line and not line.startswith("#"))
    return {name: (reason, *pattern, None)[:2] for name, reason, *pattern in fields}


def write_samples(operator, name, wish, pattern):
    call = call_of(operator)
    # A function of the database itself comes along.
    prelude = "\n\n" + inspect.getsource(operator.op) + "\n" if call.isidentifier() else ""
    chosen = []
    rest = []
    for dtype, most in TYPES.items():
        if dtype not in operator.supported_dtypes("cpu"):
            continue
        torch.manual_seed(wish.seed)
        samples = list(enumerate(operator.sample_inputs("cpu", dtype)))
        picks = random.Random(f"{wish.seed} {name} {dtype}").sample(samples, len(samples))
        if pattern:
            picks = [pick for pick in picks if not re.search(pattern, f"{kind_of(dtype)}-{pick[0]} ({call_text(pick[1])[0]})")]
        chosen += [(dtype, *pick) for pick in picks[:most]]
        rest += [(dtype, *pick) for pick in picks[most:]]
    chosen = (chosen + rest)[: wish.most]
    if wish.count is not None:
        chosen = random.Random(f"{wish.seed} {name}").sample(chosen, min(1, len(chosen)))
    for dtype, number, sample in chosen:
        kind = kind_of(dtype)
        directory = wish.directory
        if wish.count is None:
            # Files beside a module belong to it: there may not be thousands.
            *space, short = name.split("nn.functional.")
            directory = directory / ("nn.functional" if space else "") / short[0].lower()
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"{name}-{kind}-{number}.py"
        path.write_text(module(name, kind, number, call, prelude, sample))
    return len(chosen)


def kind_of(dtype):
    return str(dtype).removeprefix("torch.")


def call_text(sample):
    """The arguments of a call as a text, and its tensors."""
    tensors = []

    def text(value):
        if isinstance(value, torch.Tensor):
            tensors.append(value.detach())
            return f"t{len(tensors) - 1}"
        return literal(value, text)

    arguments = [text(sample.input), *(text(value) for value in sample.args)]
    arguments += [f"{name}={text(value)}" for name, value in sample.kwargs.items()]
    return ", ".join(arguments), tensors


def module(name, kind, number, call, prelude, sample):
    arguments, tensors = call_text(sample)
    written = io.BytesIO()
    torch.save(tensors, written)
    encoded = base64.b64encode(written.getvalue()).decode()
    lines = [encoded[start : start + 120] for start in range(0, len(encoded), 120)]
    return MODULE.format(
        entry=name,
        type=kind,
        number=number,
        tensors="\n".join(lines),
        parameters="".join(f", t{i}" for i in range(len(tensors))),
        call=call,
        prelude=prelude,
        arguments=arguments,
    )


def literal(value, text):
    match value:
        case bool() | int() | str() | complex() | None:
            return repr(value)
        case float():
            return repr(value) if math.isfinite(value) else f"float('{value}')"
        case torch.dtype() | torch.memory_format() | torch.layout():
            return str(value)
        case torch.device():
            return repr(str(value))
        case slice():
            return f"slice({text(value.start)}, {text(value.stop)}, {text(value.step)})"
        case tuple():
            return "(" + "".join(f"{text(each)}, " for each in value) + ")"
        case list():
            return "[" + ", ".join(text(each) for each in value) + "]"
        case dict():
            return "{" + ", ".join(f"{text(key)}: {text(each)}" for key, each in value.items()) + "}"
        case _ if value is Ellipsis:
            return "..."
    raise Unwritable(f"an argument is a {type(value).__name__}")


def call_of(operator):
    """The text of what an entry calls."""
    function = operator.op
    for root in ("torch", "torch.Tensor", "torch.nn.functional"):
        with_name = f"{root}.{operator.name}"
        if resolve(with_name) is function:
            return with_name
    name = getattr(function, "__qualname__", "")
    if "<lambda>" in name:
        return lambda_of(function)
    for root in ("torch", "torch.Tensor", "torch.nn.functional", "torch.linalg", "torch.special", "torch.fft", "torch._C._nn"):
        with_name = f"{root}.{getattr(function, '__name__', '')}"
        if resolve(with_name) is function:
            return with_name
    with_name = str(function)
    if with_name.startswith("aten.") and resolve(f"torch.ops.{with_name}") is not None:
        return f"torch.ops.{with_name}"
    if inspect.isfunction(function) and not function.__module__.startswith("torch.testing"):
        return f"__import__('{function.__module__}', fromlist=['_']).{name}"
    if inspect.isfunction(function) and not function.__code__.co_freevars:
        return name
    raise Unwritable(f"{function} is in no namespace")


def resolve(name):
    try:
        return functools.reduce(getattr, name.split(".")[1:], torch)
    except AttributeError:
        return None


def lambda_of(function):
    """The text of a lambda expression."""
    code = function.__code__
    source = Path(inspect.getsourcefile(function)).read_text()
    same = [
        node
        for node in lambdas(code.co_filename, source)
        if node.lineno == code.co_firstlineno and names_of(node) == (code.co_varnames, code.co_names)
    ]
    if code.co_freevars or not same:
        raise Unwritable("a lambda expression with variables from outside")
    return ast.unparse(Unseeded().visit(same[0]))


def names_of(node):
    code = compile(ast.Expression(node), "", "eval").co_consts[0]
    return code.co_varnames, code.co_names


class Unseeded(ast.NodeTransformer):
    """Calls a function itself where the database sets a seed first."""

    def visit_Call(self, node):
        self.generic_visit(node)
        if isinstance(node.func, ast.Name) and node.func.id == "wrapper_set_seed":
            return ast.Call(node.args[0], node.args[1:], node.keywords)
        return node


@functools.cache
def lambdas(_, source):
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Lambda)]


if __name__ == "__main__":
    main()
