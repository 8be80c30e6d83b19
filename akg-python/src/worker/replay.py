"""Runs akg's graphs with torch's own operators."""

import base64
import ctypes
import json

import torch

from akg_worker import tensors
from akg_worker.errors import CallError, describe, first_line
from akg_worker.graph import SEEDED_DROPOUT, SEEDED_RAND, SEEDED_RANDN

RANDOM = {SEEDED_RAND: "aten.rand.default", SEEDED_RANDN: "aten.randn.default"}
INDEX_COPY = "aten.index_copy.default"
# Values of graphs have no strides, so that what was a view may have to be a copy.
VIEWS = {"aten.view.default", "aten._unsafe_view.default"}


def evaluate(message):
    """Evaluates each job's graph over its inputs and writes its outputs to the job's slots.

    With `float64` every floating tensor and element type becomes f64 first. A job that fails does not stop the others.
    """
    files = tensors.Files()
    return {"jobs": [outcome(job, files, message["float64"]) for job in message["jobs"]]}


def outcome(job, files, float64):
    default = torch.get_default_dtype()
    try:
        # Operators that make floating values of integers make the default type.
        torch.set_default_dtype(torch.float64 if float64 else default)
        with torch.no_grad():
            replay = Replay(json.loads(job["graph"]), torch.float64 if float64 else None)
            results = replay({name: files.tensor(given) for name, given in job["inputs"].items()})
        named = zip(job["outputs"], replay.output_names, results)
        return {"ok": [tensors.write(slot, name, result) for slot, name, result in named]}
    except CallError as error:
        return {"error": describe(error)}
    finally:
        torch.set_default_dtype(default)


class Replay:
    """A graph as a function from a dictionary of inputs, which lie on `device`, to the list of outputs. All floating
    values are of the type `floating`, if that is given."""

    def __init__(self, graph, floating=None, device="cpu"):
        self._floating = floating
        self._device = device
        self._constants = {c["name"]: self._typed(decode(c)).to(device) for c in graph.get("constants", [])}
        self._steps = [self._step(node) for node in graph["nodes"]]
        self.output_names = [output["value"] for output in graph["outputs"]]

    def __call__(self, inputs):
        values = dict(self._constants)
        for name, tensor in inputs.items():
            values[name] = self._typed(tensor)
        for op, arguments, outputs in self._steps:
            positional, named = arguments(values)
            try:
                results = op(*positional, **named)
            except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError) as error:
                raise CallError("invalid-input", f"{op} raised {first_line(error)}", node=outputs) from error
            results = results if isinstance(results, (list, tuple)) else [results]
            values.update(zip(outputs, results))
        return [values[name] for name in self.output_names]

    def _typed(self, tensor):
        return tensor.to(self._floating) if self._floating and tensor.is_floating_point() else tensor

    def _step(self, node):
        # PyTorch's own draw other numbers than those of the seed.
        if node["op"] == SEEDED_DROPOUT:
            args = {"input": node["args"]["input"], "p": node["args"]["p"], "train": True}
            node = {**node, "op": "aten.dropout.default", "args": args}
        elif node["op"] in RANDOM:
            args = {name: given for name, given in node["args"].items() if name in ("size", "dtype")}
            node = {**node, "op": RANDOM[node["op"]], "args": args}
        elif node["op"] in VIEWS:
            args = {"self": node["args"]["self"], "shape": node["args"]["size"]}
            node = {**node, "op": "aten.reshape.default", "args": args}
        op = operator(node["op"])
        parameters = {parameter.name: parameter for parameter in op._schema.arguments}
        unknown = set(node["args"]) - set(parameters)
        if unknown:
            raise CallError("invalid-input", f"{node['op']} has no parameter {', '.join(sorted(unknown))}")

        def arguments(values):
            positional, named = [], {}
            for name, parameter in parameters.items():
                if name in node["args"]:
                    value = self._argument(node["args"][name], parameter, values)
                elif name == "device":
                    value = self._device
                elif parameter.has_default_value():
                    value = parameter.default_value
                else:
                    raise CallError("invalid-input", f"{node['op']} needs the argument `{name}`")
                if parameter.kwarg_only:
                    named[name] = value
                else:
                    positional.append(value)
            if node["op"] == INDEX_COPY:
                positional = from_front(*positional)
            return positional, named

        return op, arguments, node["outputs"]

    def _argument(self, given, parameter, values):
        kind = str(parameter.real_type)
        if given is None:
            return None
        if isinstance(given, list):
            return [self._argument(item, parameter, values) for item in given]
        if "Tensor" in kind:
            return values[given]
        if "ScalarType" in kind:
            dtype = tensors.DTYPES[given]
            return self._floating if self._floating and dtype.is_floating_point else dtype
        if isinstance(given, str) and "str" not in kind:
            return float(given)
        return given


def from_front(self, dim, index, source):
    """The arguments of an `index_copy` for PyTorch, which refuses negative numbers and other types: those of graphs count from
    the end."""
    extent = self.shape[dim] if self.dim() else 1
    return [self, dim, torch.where(index < 0, index + extent, index).to(torch.int64), source]


def operator(name):
    """The overload called `aten.NAME.OVERLOAD`."""
    namespace, packet, overload = name.split(".")
    try:
        return getattr(getattr(getattr(torch.ops, namespace), packet), overload)
    except AttributeError:
        raise CallError("unsupported", f"this torch ({torch.__version__}) has no operator {name}") from None


def decode(constant):
    data = base64.b64decode(constant["data"])
    tensor = torch.empty(constant["shape"], dtype=tensors.DTYPES[constant["dtype"]])
    if data:
        ctypes.memmove(tensor.data_ptr(), data, len(data))
    return tensor
