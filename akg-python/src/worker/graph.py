"""From an exported program to akg's graph JSON."""

import base64
import ctypes
import math
import operator
import re

import torch
from torch.export.graph_signature import InputKind, OutputKind

from akg_worker.complex import concerns, has_rule
from akg_worker.decompositions.registry import applies
from akg_worker.errors import CallError, line_of
from akg_worker.recurrent import STAND_INS
from akg_worker.tensors import dtype_name, span

# Parameters that say where and how a tensor is stored, not what it holds.
PLACEMENT = ("Device", "Layout", "MemoryFormat", "Generator")


def to_graph(exported, name, path, sizes):
    """The graph, for each of its inputs where its content comes from, and for each operator its first place beside `path`.

    A source is `{"attribute": "conv.weight"}`, a path below the model, `{"argument": 0}`, a position among the flattened
    arguments of `forward`, or `{"seed": {}}`: an integer that the module does not take, from which all chance follows.
    """
    return Converter(exported, name, path, sizes).convert()


class Converter:
    def __init__(self, exported, name, path, sizes):
        self._path = path
        self._places = {}
        self._sizes = sizes
        self._exported = exported
        self._name = name
        self._names = {}  # FX node -> value name, or a list of names for several results
        self._taken = set()
        self._inputs, self._constants, self._nodes = [], [], []
        self._sources = {}
        self._seed = None  # the name of the input from which chance follows
        self._drawn = 0  # random numbers that the nodes so far take

    def convert(self):
        signature = self._exported.graph_signature
        mutated = {spec.target for spec in signature.output_specs if spec.kind in MUTATIONS}
        fx_nodes = list(self._exported.graph.nodes)
        placeholders = [node for node in fx_nodes if node.op == "placeholder"]
        argument = 0
        for node, spec in zip(placeholders, signature.input_specs):
            self._at(node, self._placeholder, node, spec, argument, mutated)
            argument += spec.kind == InputKind.USER_INPUT
        for node in fx_nodes:
            if node.op == "call_function":
                self._at(node, self._call, node)
            elif node.op == "get_attr":
                self._constant(node, attribute(self._exported.graph_module, node.target), node.target)
        return self._finish(self._outputs(signature, fx_nodes[-1].args[0]))

    def _placeholder(self, node, spec, argument, mutated):
        value = node.meta.get("val")
        if not isinstance(value, torch.Tensor):
            return  # a Python number: export has written it into the nodes that use it
        if spec.kind == InputKind.CONSTANT_TENSOR:
            self._constant(node, self._exported.constants[spec.target], spec.target)
            return
        if spec.kind == InputKind.USER_INPUT:
            name, source = self._fresh(spec.arg.name), {"argument": argument}
            kind = "state" if spec.arg.name in mutated else "activation"
        elif spec.kind in (InputKind.PARAMETER, InputKind.BUFFER):
            name, source = self._fresh(spec.target), {"attribute": spec.target}
            kind = "state" if spec.target in mutated else "weight"
        else:
            raise CallError("unsupported", f"the module takes an input of kind {spec.kind}")
        self._names[node] = name
        self._sources[name] = source
        result = self._type_of(value)
        layout = layout_of(value) if kind == "activation" else None
        if layout is None:
            self._inputs.append({"name": name, **result, "kind": kind})
            return
        storage = {"dtype": result["dtype"], "shape": [span(layout)]}
        self._inputs.append({"name": name, **storage, "kind": kind, "layout": layout})
        args = {"self": name, "size": layout["shape"], "stride": layout["strides"]}
        tensor = self._names[node] = self._fresh(f"{name}_tensor")
        self._nodes.append({"op": "aten.as_strided.default", "args": args, "outputs": [tensor], "types": [result]})

    def _constant(self, node, tensor, target):
        if not isinstance(tensor, torch.Tensor):
            return  # a submodule of a higher-order operator, which is reported where it is called
        name = self._names[node] = self._fresh(target)
        self._constants.append({"name": name, **self._type_of(tensor), "data": encode(tensor)})

    def _at(self, node, convert, *arguments):
        """Converts a node, with the user's line in what goes wrong and in what comes of it; that of an input is where it is
        read first."""
        nodes = [node, *node.users]
        place = next(filter(None, (line_of(n.meta.get("stack_trace"), self._path) for n in nodes)), None)
        before = len(self._nodes)
        try:
            convert(*arguments)
        except CallError as error:
            if place:
                error.context.setdefault("at", place)
            raise
        for made in self._nodes[before:]:
            if place:
                self._places.setdefault(made["op"], place)

    def _call(self, node):
        if node.target is GETITEM:
            source, index = node.args
            self._names[node] = self._names[source][index]
            return
        alias = identity(node)
        if alias is not None:
            self._names[node] = self._names[alias]
            return
        value = node.meta.get("val")
        if isinstance(value, SIZES) or node.target in CHECKS:
            return  # what reads it has the value as an expression
        if node.target is aten.broadcast_tensors.default:
            # Each result depends on its own operand alone.
            self._names[node] = [self._expanded(*pair) for pair in zip(node.args[0], value)]
            return
        several = isinstance(value, (list, tuple))
        if several:
            names = [self._fresh(name) for name in result_names(node, len(value))]
            self._names[node] = names
        else:
            names = [self._fresh(node.name)] if isinstance(value, torch.Tensor) else []
            self._names[node] = names[0] if names else None
        types = [self._type_of(result) for result in (value if several else [value][: len(names)])]
        op, args = self._arguments(node)
        if op in CLAMPS and any(isinstance(bound, torch.SymInt) for bound in map(value_of, node.args)):
            # Bounds of open sizes are tensors.
            op, args = CLAMPS[op], {"self": args["self"], **self._bounds(args)}
        if node.target is aten.slice.Tensor and args.get("step", 1) == 1:
            op, args = self._narrowed(op, args, value_of(node.args[0]).shape, value.shape)
        if node.target is EVAL_BATCH_NORM:
            # The statistics that it returns too are empty.
            for name, kind in zip(names[1:], types[1:]):
                self._nodes.append({"op": "aten.full.default", "args": empty_of(kind), "outputs": [name], "types": [kind]})
            op, args = "aten.batch_norm.default", {**args, "training": False, "cudnn_enabled": False}
            names, types = names[:1], types[:1]
        if node.target is TRAINING_BATCH_NORM:
            # Export says f32 of running statistics in a half type, which keep their type.
            types[3:] = [self._type_of(given.meta["val"]) for given in node.args[3:5]]
        if is_by_chance(node, args):
            names, types = names[:1], types[:1]
            op, args = self._seeded(op, value[0] if several else value, args)
        self._nodes.append({"op": op, "args": args, "outputs": names, "types": types})

    def _expanded(self, operand, value):
        """The name of an operand in the shape of `value`."""
        given, wanted = self._type_of(operand.meta["val"]), self._type_of(value)
        if given == wanted:
            return self._names[operand]
        name = self._fresh(operand.name)
        args = {"self": self._names[operand], "size": wanted["shape"]}
        self._nodes.append({"op": "aten.expand.default", "args": args, "outputs": [name], "types": [wanted]})
        return name

    def _seeded(self, op, value, args):
        """An operator with its chance as an operand, and with numbers that no other takes."""
        if self._seed is None:
            self._seed = self._fresh("seed")
            self._sources[self._seed] = {"seed": {}}
            self._inputs.append({"name": self._seed, "dtype": "i64", "shape": [], "kind": "activation"})
        chance = {"seed": self._seed, "offset": self._drawn}
        seeded, each = SEEDED[op]
        if not isinstance(value.numel(), int):
            raise CallError("unsupported", "random numbers of an open size")
        self._drawn += each * value.numel()
        if "input" in args:
            return seeded, {"input": args["input"], "p": args["p"], **chance}
        return seeded, {"size": list(value.shape), "dtype": dtype_name(value.dtype), **chance}

    def _arguments(self, node):
        """The operator's name and its arguments by the schema's names; what equals its default is left out."""
        target = node.target
        if not isinstance(target, torch._ops.OpOverload):
            return str(target), {}
        target = canonical(target, node)
        given = {}
        for at, parameter in enumerate(target._schema.arguments):
            if at < len(node.args):
                given[parameter] = node.args[at]
            elif parameter.name in node.kwargs:
                given[parameter] = node.kwargs[parameter.name]
        args = {}
        for parameter, value in given.items():
            kind = str(parameter.real_type)
            placed = any(word in kind for word in PLACEMENT) or parameter.name == "pin_memory"
            default = parameter.has_default_value() and same(parameter.default_value, value)
            if not placed and not default:
                args[parameter.name] = self._value(value, kind)
        return str(target), args

    def _value(self, value, kind):
        if isinstance(value, torch.fx.Node) and value in self._names:
            return self._names[value]
        value = value_of(value)
        if isinstance(value, torch.SymInt):
            return self._sizes.value(value)
        if isinstance(value, torch.SymFloat):
            return self._real(self._sizes.real(value), kind)
        if isinstance(value, (list, tuple)):
            return [self._value(item, kind) for item in value]
        if isinstance(value, torch.dtype):
            return dtype_name(value)
        if isinstance(value, (bool, str)) or value is None:
            return value
        if isinstance(value, (int, float)):
            if "Tensor" in kind:
                return self._number(value)
            return value if math.isfinite(value) else str(float(value))
        raise CallError("unsupported", f"an argument of type {type(value).__name__} ({value})")

    def _number(self, value):
        """A 0-d constant for a Python number that stands where the schema has a tensor."""
        tensor = torch.tensor(value)
        name = self._fresh("number")
        self._constants.append({"name": name, **self._type_of(tensor), "data": encode(tensor)})
        return name

    def _bounds(self, args):
        """The bounds of a clamp as 0-d tensors."""
        given = {name: args[name] for name in ("min", "max") if args.get(name) is not None}
        return {name: self._of_size(bound, "i64") if isinstance(bound, str) else self._number(bound) for name, bound in given.items()}

    def _narrowed(self, op, args, whole, shape):
        """A slice of an open extent as one whose length is given: PyTorch knows that it is inside."""
        dim, start = args.get("dim", 0), args.get("start", 0)
        extent, length = self._sizes.value(whole[dim]), self._sizes.value(shape[dim])
        if length == extent or isinstance(extent, int) and isinstance(length, int):
            return op, args
        if isinstance(start, int) and start < 0:
            start = f"({extent} - {-start})"
        return "aten.narrow.default", {"self": args["self"], "dim": dim, "start": start or 0, "length": length}

    def _of_size(self, value, dtype):
        """The name of a 0-d tensor with the value of an open size."""
        zero = self._number(0 if dtype == "i64" else 0.0)
        name, kind = self._fresh("size"), {"dtype": dtype, "shape": []}
        args = {"self": zero, "other": value}
        self._nodes.append({"op": "aten.add.Scalar", "args": args, "outputs": [name], "types": [kind]})
        return name

    def _real(self, expression, kind):
        """A number, or a 0-d tensor for one that open sizes decide, where the schema has a tensor."""
        if expression.is_number:
            return self._value(float(expression), kind)
        if "Tensor" not in kind:
            raise CallError("unsupported", f"the argument `{expression}` of an open size, where only tensors may depend on it")
        return self._computed(expression)

    def _computed(self, expression):
        """The name of a 0-d tensor with the value of an expression of open sizes."""
        if expression.is_integer:
            return self._of_size(self._sizes.text(expression), "f32")
        if expression.is_number:
            return self._number(float(expression))
        if expression.is_Pow and expression.exp.is_number:
            op, args = "pow.Tensor_Scalar", {"self": self._computed(expression.base), "exponent": float(expression.exp)}
        elif expression.is_Add or expression.is_Mul:
            first, rest = map(self._computed, expression.as_two_terms())
            op, args = "add.Tensor" if expression.is_Add else "mul.Tensor", {"self": first, "other": rest}
        else:
            raise CallError("unsupported", f"`forward` computes `{expression}` from open sizes, which has no operator")
        name = self._fresh("size")
        types = [{"dtype": "f32", "shape": []}]
        self._nodes.append({"op": f"aten.{op}", "args": args, "outputs": [name], "types": types})
        return name

    def _outputs(self, signature, results):
        plain, updates = [], []
        inputs = {tuple(s.items()): name for name, s in self._sources.items() if "seed" not in s}
        arguments = [s.arg.name for s in signature.input_specs if s.kind == InputKind.USER_INPUT]
        for result, spec in zip(results, signature.output_specs):
            if spec.kind == OutputKind.USER_OUTPUT:
                if isinstance(result, torch.fx.Node):
                    plain.append({"value": self._names[result]})
            elif spec.kind == OutputKind.BUFFER_MUTATION:
                state = inputs[("attribute", spec.target),]
                updates.append({"value": self._names[result], "updates": state})
            elif spec.kind == OutputKind.USER_INPUT_MUTATION:
                state = inputs[("argument", arguments.index(spec.target)),]
                updates.append({"value": self._names[result], "updates": state})
            else:
                raise CallError("unsupported", f"the module has an output of kind {spec.kind}")
        if not plain:
            raise CallError("invalid-input", "`forward` returns no tensor")
        return plain + updates

    def _finish(self, outputs):
        """Drops what no output needs, except the arguments of `forward`, which belong to the contract."""
        needed = {output["value"] for output in outputs} | {output.get("updates") for output in outputs}
        nodes = []
        for node in reversed(self._nodes):
            if needed.intersection(node["outputs"]):
                needed.update(names_in(node["args"]))
                nodes.append(node)
        inputs = [i for i in self._inputs if i["name"] in needed or "argument" in self._sources[i["name"]]]
        graph = {
            "akg_graph": 1,
            "name": self._name,
            "inputs": inputs,
            "constants": [constant for constant in self._constants if constant["name"] in needed],
            "nodes": nodes[::-1],
            "outputs": outputs,
        }
        used = {node["op"] for node in nodes}
        places = {op: place for op, place in self._places.items() if op in used}
        return graph, {i["name"]: self._sources[i["name"]] for i in inputs}, places

    def _type_of(self, tensor):
        return type_of(tensor, self._sizes.value)

    def _fresh(self, wish):
        base = re.sub(r"\W", "_", wish)
        base = f"_{base}" if base[:1].isdigit() else base
        name, count = base, 1
        while name in self._taken:
            name, count = f"{base}_{count}", count + 1
        self._taken.add(name)
        return name


SEEDED_DROPOUT, SEEDED_RAND, SEEDED_RANDN = (
    f"akg.seeded_{name}.default" for name in ("dropout", "rand", "randn")
)
# What stands for an operator by chance, and the random numbers that each element of its result takes.
SEEDED = {
    "aten.dropout.default": (SEEDED_DROPOUT, 1),
    "aten.native_dropout.default": (SEEDED_DROPOUT, 1),
    "aten.rand.default": (SEEDED_RAND, 1),
    "aten.rand_like.default": (SEEDED_RAND, 1),
    "aten.randn.default": (SEEDED_RANDN, 2),
    "aten.randn_like.default": (SEEDED_RANDN, 2),
}
MUTATIONS = (OutputKind.BUFFER_MUTATION, OutputKind.USER_INPUT_MUTATION)
GETITEM = operator.getitem
SIZES = (torch.SymInt, torch.SymFloat, torch.SymBool, bool, int, float)
aten = torch.ops.aten
# What a program checks of its sizes when it is called: the contract says it.
CHECKS = (
    aten._assert_scalar.default,
    aten._assert_tensor_metadata.default,
    aten._assert_async.default,
    aten._assert_async.msg,
    aten.sym_constrain_range_for_size.default,
)
EVAL_BATCH_NORM = aten._native_batch_norm_legit_no_training.default
TRAINING_BATCH_NORM = aten._native_batch_norm_legit_functional.default
CLAMPS = {f"aten.{name}.default": f"aten.{name}.Tensor" for name in ("clamp", "clamp_min", "clamp_max")}
DROPOUTS = (aten.dropout.default, aten.native_dropout.default)
COPIES = (
    aten.detach.default,
    aten.alias.default,
    aten.clone.default,
    aten.lift_fresh.default,
    aten.lift_fresh_copy.default,
    aten._to_copy.default,
)


def identity(node):
    """The node whose value `node` repeats, if it only copies; a functional graph has no use for copies."""
    if node.target in COPIES:
        source = node.args[0]
    elif node.target is aten.copy.default:
        source = node.args[1]
    else:
        return None
    before, after = source.meta["val"], node.meta["val"]
    return source if before.dtype == after.dtype and before.shape == after.shape else None


def empty_of(kind):
    """The arguments of `full` for a tensor without elements."""
    return {"size": kind["shape"], "fill_value": 0, "dtype": kind["dtype"]}


def unknown_operators(graph, known):
    """The operators of an FX graph whose names are not in `known`, or not for the types of the graph, each once."""
    missing = []
    for node in graph.nodes:
        target = node.target
        if node.op != "call_function" or not isinstance(target, torch._ops.OpOverload) or target in missing:
            continue
        is_dropped = identity(node) is not None or target in CHECKS or isinstance(node.meta.get("val"), SIZES)
        is_rewritten = target is EVAL_BATCH_NORM or str(target) in SEEDED
        if concerns(node):
            is_known = has_rule(node)
        else:
            is_known = str(canonical(target, node)) in known and not applies(target, first_operand(node))
        if not is_dropped and not is_rewritten and not is_known:
            missing.append(target)
    return missing


def first_operand(node):
    """The value of the first argument of a call, given by place or by name; None if there is none."""
    return value_of(next(iter([*node.args, *node.kwargs.values()]), None))


def value_of(argument):
    """The value of an argument, of which a node has an example."""
    return argument.meta.get("val") if isinstance(argument, torch.fx.Node) else argument


# ATen's second names for operators.
ALIASES = {
    "__and__": "bitwise_and",
    "__or__": "bitwise_or",
    "__xor__": "bitwise_xor",
    "absolute": "abs",
    "clip": "clamp",
    "divide": "div",
    "true_divide": "div",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "subtract": "sub",
}


def canonical(target, node):
    """The overload to record: ATen's for a stand-in, an alias's first name, `Scalar` where `other` is a number."""
    target = STAND_INS.get(target, target)
    name, overload = target._opname, target._overloadname
    name = ALIASES.get(name, name) if target.namespace == "aten" else name
    other = value_of(node.args[1]) if len(node.args) > 1 else None
    if overload == "Tensor" and isinstance(other, (bool, int, float, torch.SymInt)):
        overload = "Scalar"
    packet = getattr(getattr(torch.ops, target.namespace), name)
    if overload not in packet.overloads():
        return target
    found = getattr(packet, overload)
    same_names = [a.name for a in found._schema.arguments] == [a.name for a in target._schema.arguments]
    return found if same_names else target


def result_names(node, count):
    names = [f"{node.name}_{index}" for index in range(count)]
    for user in node.users:
        if user.target is GETITEM:
            names[user.args[1]] = user.name
    return names


def is_by_chance(node, args):
    """Whether a node's result, which is all that is used of it, depends on chance that a seed can decide."""
    if str(node.target) not in SEEDED:
        return False
    if node.target not in DROPOUTS:
        return True
    takes_mask = any(user.target is GETITEM and user.args[1] == 1 for user in node.users)
    return args["train"] is not False and 0 < args["p"] < 1 and not takes_mask


def same(default, value):
    """Whether an argument is its default; 1 and 1.0 differ because type promotion tells them apart."""
    listed = [list(v) if isinstance(v, (list, tuple)) else v for v in (default, value)]
    if isinstance(value, torch.fx.Node) or type(listed[0]) is not type(listed[1]):
        return False
    return listed[0] == listed[1] and not isinstance(value, torch.dtype)


def names_in(args):
    """Every string in the arguments: a superset of the values that they read."""
    for value in args.values():
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from (item for item in value if isinstance(item, str))


def layout_of(tensor):
    """The shape and strides of a tensor that is not dense and row-major; None for others, and for those with open sizes."""
    shape, strides = list(tensor.shape), list(tensor.stride())
    if not all(isinstance(size, int) for size in shape + strides) or tensor.is_contiguous() or 0 in shape:
        return None
    return {"shape": shape, "strides": strides}


def type_of(tensor, size):
    if not isinstance(tensor, torch.Tensor):
        raise CallError("unsupported", f"an operator returns {type(tensor).__name__} where a tensor is expected")
    shape = []
    for extent in tensor.shape:
        shape.append(size(extent))
    return {"dtype": dtype_name(tensor.dtype), "shape": shape}


def encode(tensor):
    dense = tensor.detach().contiguous()
    size = dense.numel() * dense.dtype.itemsize
    return base64.b64encode(ctypes.string_at(dense.data_ptr(), size) if size else b"").decode()


def arguments_of(exported):
    """The values of the flattened arguments of an exported program."""
    placeholders = exported.graph.find_nodes(op="placeholder")
    pairs = zip(placeholders, exported.graph_signature.input_specs)
    return [node.meta.get("val") for node, spec in pairs if spec.kind == InputKind.USER_INPUT]


def attribute(owner, path):
    for name in path.split("."):
        owner = getattr(owner, name)
    return owner
