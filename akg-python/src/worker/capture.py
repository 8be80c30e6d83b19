"""From a user's module to akg's graph: `torch.export` with as few real tensors as the module allows."""

import contextlib
import itertools
import json
import os
import sys
import time

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._pytree import tree_flatten

from akg_worker.complex import with_pairs
from akg_worker.decompose import decomposed
from akg_worker.errors import CallError, first_line, is_out_of_memory, needs_device, no_device, place
from akg_worker.graph import arguments_of, to_graph, unknown_operators
from akg_worker.guards import ranges
from akg_worker.held import Held
from akg_worker.joint import Joint, differentiable
from akg_worker.module import SEEDS, construct, load, make_inputs
from akg_worker.recurrent import kept_whole
from akg_worker.sizes import Sizes, dynamic_shapes
from akg_worker.structure import describe_arguments, returning_tensors
from akg_worker.unchecked import Unchecked


class Mode:
    """One way to build the model and its inputs for export: each `meta`, `fake` or `real`.

    `after` are the stages of an earlier mode's failure that make this one worth a try; None for any.
    """

    def __init__(self, name, model, inputs, after=None):
        self.name = name
        self.after = after
        self._kinds = (model, inputs)

    def contexts(self):
        """The contexts in which to build the model and the inputs."""
        fake = FakeTensorMode()
        make = {"meta": lambda: torch.device("meta"), "fake": lambda: fake, "real": contextlib.nullcontext}
        return [make[kind]() for kind in self._kinds]


# In the order of what they cost. Fake tensors keep the values of constants that `forward` makes on its input's device;
# real ones are for a constructor or a `get_inputs` that looks at values (`.item()`).
MODES = (
    Mode("meta", "meta", "meta"),
    Mode("fake", "fake", "fake"),
    Mode("real-model", "real", "fake", after=("model", "constants")),
    Mode("real", "real", "real", after=("inputs",)),
)


class CaptureError(Exception):
    """What stopped a capture, and at which stage: `model`, `inputs`, `export` or `constants`."""

    def __init__(self, stage, error):
        super().__init__(stage)
        self.stage = stage
        self.error = error


@contextlib.contextmanager
def stage(name):
    try:
        yield
    except CallError as error:
        raise CaptureError(name, error) from error


def import_module(message, progress):
    """The graph of a module, how its inputs are made, and what it took."""
    start = time.monotonic()
    halvings = message["halvings"]
    progress("loading the module")
    module = load(message["path"])
    shrinks = [shrink_of(module, halvings, only) for only in (False, True)] if halvings else [None]
    failure = None
    for mode, shrink in itertools.product(MODES, shrinks):
        if failure and mode.after and failure.stage not in mode.after:
            continue
        progress(f"exporting ({mode.name})")
        try:
            captured = capture(module, mode, shrink, message["open"], set(message["operators"]), message["backward"])
        except CaptureError as error:
            failure = error
            continue
        graph, sources, places = to_graph(captured.program, message["name"], message["path"], captured.sizes)
        for source in sources.values():
            if "attribute" in source:
                source["attribute"] = captured.held.path(source["attribute"])
        inputs = [describe_input(name, source, captured.observer, captured.leaves) for name, source in sources.items()]
        return {
            "graph": json.dumps(graph, allow_nan=False),
            "inputs": inputs,
            "ranges": ranges(captured.program, captured.sizes, message["open"]),
            "call": captured.call,
            "places": places,
            "decomposed": captured.decomposed,
            "unknown": captured.unknown,
            "cotangents": captured.cotangents,
            "beside": beside(message["path"]),
            "torch": torch.__version__,
            "mode": mode.name,
            "shrink": shrink,
            "seconds": round(time.monotonic() - start, 3),
        }
    raise failure.error


def shrink_of(module, halvings, only_first):
    with torch.device("meta"):
        leaves = tree_flatten(make_inputs(module)[0])[0]
    first = next((leaf for leaf in leaves if isinstance(leaf, torch.Tensor)), None)
    if first is None or first.dim() == 0 or first.shape[0] >> halvings == 0:
        raise CallError("unsupported", f"the leading dimension of the first input cannot be halved {halvings} times")
    return {"halvings": halvings, "leading": first.shape[0], "only_first": only_first}


def beside(path):
    """The files of the modules that were imported from where the user's module is."""
    directory = os.path.join(os.path.dirname(path), "")
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    return sorted(file for file in files if file and file != path and file.startswith(directory))


def describe_input(name, source, observer, leaves):
    generator = {"kind": "captured"}
    if "seed" in source:
        generator = {"kind": "randint", "low": 0, "high": SEEDS}
    if "argument" in source:
        # Cotangents follow the module's own arguments.
        own = source["argument"] < len(leaves)
        generator = observer.generator(leaves[source["argument"]]) if own else {"kind": "normal"}
    return {"name": name, "source": source, "generator": generator}


class Captured:
    """A module as a functional program, and what was seen of it.

    `decomposed` names the operators that were replaced by others, `unknown` those that akg does not know and that could not be.
    `sizes` are those of its inputs, `cotangents` the types of those that it takes, or None if it has no backward pass, and `held` the
    tensors that it has beside its parameters and buffers.
    """

    def __init__(self, program, sizes, observer, leaves, call, decomposed, unknown, cotangents, held):
        self.program = program
        self.sizes = sizes
        self.observer = observer
        self.leaves = leaves
        self.call = call
        self.decomposed = decomposed
        self.unknown = unknown
        self.cotangents = cotangents
        self.held = held


def capture(module, mode, shrink, wishes, operators, backward=False):
    """Exports the module in one mode, with the sizes open that `wishes` names, in terms of `operators`. With `backward`, the
    program computes its gradients, too."""

    def unknown(graph):
        return unknown_operators(graph, operators)

    model_context, input_context = mode.contexts()
    with torch.no_grad():
        with stage("model"), model_context:
            model = construct(module)
        held = Held(model)
        with stage("inputs"), input_context:
            inputs, observer = make_inputs(module, shrink=shrink)
        leaves = tree_flatten(inputs)[0]
        forward, joint = held.following(model.forward), None
        # In the instance: what calls the model finds it there, whatever class it has.
        model.forward, results = returning_tensors(forward)
        with kept_whole(), Unchecked():
            with stage("export"), user_export(module.__file__), differentiable() if backward else torch.no_grad():
                shapes = dynamic_shapes(inputs, wishes) if wishes else None
                exported = export(model, inputs, shapes)
            if backward:
                with stage("constants"):
                    check_constants(exported)
                with stage("export"), user_export(module.__file__):
                    joint = Joint(exported, model, forward, inputs, module.__file__, unknown)
                    model.forward = forward = joint.forward()
                    with input_context:
                        inputs = (*inputs, joint.empty_cotangents())
                    exported = export(model, inputs, shapes and (*shapes, joint.dynamic_shapes()))
            with stage("export"), user_export(module.__file__):
                program, replaced, left = decomposed(exported, unknown)
                program = with_pairs(program, module.__file__)
    with stage("constants"):
        check_constants(program)
    structure = results["structure"]
    sizes = Sizes()
    sizes.name_arguments(arguments_of(program), wishes)
    if joint:
        joint.name_sizes(sizes, arguments_of(program), wishes)
        joint.name_gradients(program)
        structure = joint.structure(structure)
    call = {"arguments": describe_arguments(forward, inputs), "results": structure}
    return Captured(program, sizes, observer, leaves, call, replaced, left, joint and joint.cotangents, held)


def export(model, inputs, shapes):
    return torch.export.export(
        model, inputs, dynamic_shapes=shapes, strict=False, prefer_deferred_runtime_asserts_over_guards=bool(shapes)
    )


def check_constants(exported):
    for name in exported.graph_signature.lifted_tensor_constants:
        constant = exported.constants[name]
        if constant.is_meta or isinstance(constant, FakeTensor):
            raise CallError("unexpected", f"the value of the constant `{name}` was lost in export")


DATA_DEPENDENT = ("GuardOnDataDependentSymNode", "DataDependentOutputException", "DynamicOutputShapeException", "UserError")


@contextlib.contextmanager
def user_export(path):
    try:
        yield
    except CallError as error:
        where = place(error, path)
        if where:
            error.context.setdefault("at", where)
        raise
    except (Exception, SystemExit) as error:
        raise export_error(error, path) from error


def export_error(error, path):
    """What stopped an export, in the user's terms."""
    where = place(error, path)
    context = {"at": where} if where else {"file": path}
    if is_out_of_memory(error):
        return CallError("out-of-resources", f"out of memory while exporting: {first_line(error)}", **context)
    if needs_device(error, where):
        return no_device("`forward`", **context)
    causes = [error]
    while causes[-1].__cause__ or causes[-1].__context__:
        causes.append(causes[-1].__cause__ or causes[-1].__context__)
    names = [type(cause).__name__ for cause in causes]
    text = str(error)
    if "ConstraintViolationError" in names or "inferred ranges from model tracing" in text:
        reasons = [line.strip(" -.") for line in text.splitlines() if line.lstrip().startswith("- ")]
        return CallError("unsupported", f"`forward` does not work for all open sizes: {'; '.join(reasons)}", **context)
    if any(name in DATA_DEPENDENT for name in names) or "meta tensor" in text or "data-dependent" in text:
        return CallError(
            "unsupported",
            "`forward` decides on the values of tensors (data-dependent control flow or shapes), which a static "
            "graph cannot express; compute both sides and select with torch.where",
            **context,
        )
    return CallError("invalid-input", f"`forward` raised {first_line(error)}", **context)
