"""The graph of a module's forward and backward pass.

An exported forward pass is executed with fake tensors under autograd, and what that executes is traced. The trace becomes
the module's `forward`, which is then exported like any other: see backward.py for what it takes and returns.
"""

import contextlib
import inspect

import torch
import torch.fx.traceback as traceback
from torch._guards import detect_fake_mode
from torch.export.graph_signature import InputKind, OutputKind
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._pytree import tree_flatten

from akg_worker.backward import is_floating
from akg_worker.decompose import composites
from akg_worker.decompositions.composed import COMPOSED
from akg_worker.errors import CallError, first_line, line_of
from akg_worker.graph import MUTATIONS, identity
from akg_worker.module import attribute
from akg_worker.recurrent import STAND_INS
from akg_worker.sizes import Sizes, example
from akg_worker.tensors import DTYPES, dtype_name

COTANGENTS = "cotangents"

# What autograd records for operators that nobody gave a derivative; its gradients would be missing without an error.
WITHOUT_DERIVATIVE = ("torch::autograd::WarnNotImplemented",)


class Joint:
    """The forward and backward pass of an exported model, as a function of the model's arguments and a list of cotangents.

    `cotangents` are the types of these, `outputs` is the number of tensors that the model returns, and `gradients` are the
    sources of what those that follow are gradients of.
    """

    def __init__(self, exported, model, forward, inputs, path, unknown):
        self._signature = signature(forward, inputs)
        traced = ForwardPass(exported, model)
        with tracing(traced, path):
            outputs = traced.outputs()
            made = traced.cotangents(outputs)
            self._graph = traced.graph(made, {})
            if composite := composites(self._graph.graph, unknown):
                self._graph = traced.graph(made, composite)
        self._model = model
        self._sources = traced.sources
        self._mutated = traced.mutated
        self.outputs = len(outputs)
        self.gradients = traced.found
        self.cotangents = [{"dtype": dtype_name(c.dtype), "shape": [example(size) for size in c.shape]} for c in made]
        self._shapes = [cotangent.shape for cotangent in made]
        self._arguments = traced.arguments

    def forward(self):
        """The function, with the names of its arguments."""

        # Export looks at the code of a function.
        def forward(*arguments):
            return self(*arguments)

        forward.__signature__ = self._signature
        return forward

    def __call__(self, *arguments):
        """Outputs and gradients, as tensors. What the module updates in place is updated."""
        leaves = tree_flatten(arguments)[0]
        values = [source.read(self._model, leaves) for source in self._sources]
        cotangents = leaves[len(leaves) - len(self.cotangents) :]
        with traceback.preserve_node_meta():
            results = torch.fx.Interpreter(self._graph).run(*values, *cotangents)
        count = self.outputs + len(self.gradients)
        for source, value in zip(self._mutated, results[count:]):
            source.read(self._model, leaves).copy_(value)
        return tuple(results[:count])

    def empty_cotangents(self):
        """Cotangents without content."""
        return [torch.empty(ty["shape"], dtype=DTYPES[ty["dtype"]]) for ty in self.cotangents]

    def dynamic_shapes(self):
        """The specification of the open sizes of cotangents."""
        dynamic = torch.export.Dim.DYNAMIC
        return [
            {dim: dynamic for dim, size in enumerate(shape) if not isinstance(size, int)} for shape in self._shapes
        ]

    def name_sizes(self, sizes, arguments, wishes):
        """Says which expressions the open sizes of cotangents are, which follow the others of `arguments`."""
        own = Sizes()
        own.name_arguments(self._arguments, wishes)
        for cotangent, shape in zip(arguments[len(arguments) - len(self._shapes) :], self._shapes):
            for found, size in zip(cotangent.shape, shape):
                if not isinstance(size, int):
                    sizes.name(found, own.of(size.node.expr), COTANGENTS)

    def structure(self, results):
        """The structure of what a call returns, by that of what the module returns."""
        count = len(self.gradients)
        return {"tuple": [results, {"list": [{"tensor": self.outputs + at} for at in range(count)]}]}

    def name_gradients(self, program):
        """Names the values of an exported program that are its gradients after what they are gradients of."""
        signature, (output,) = program.graph_signature, program.graph.find_nodes(op="output")
        # Of tied parameters, a program reads one.
        specs = zip(program.graph.find_nodes(op="placeholder"), signature.input_specs)
        read = [spec.target for node, spec in specs if node.users and spec.kind == InputKind.PARAMETER]
        names = {id(attribute(self._model, name)): name for name in read}
        kinds = [spec.kind for spec in signature.output_specs]
        results = [node for node, kind in zip(output.args[0], kinds) if kind == OutputKind.USER_OUTPUT]
        for node, source in zip(results[self.outputs :], self.gradients):
            while (copied := identity(node)) is not None:
                node = copied
            if node.op == "call_function" and not node.name.startswith("grad_"):
                tensor = None if source.is_argument else source.read(self._model, ())
                node.name = f"grad_{names.get(id(tensor), source.name)}"


class Source:
    """Where a placeholder of an exported program has its tensor from."""

    def __init__(self, spec, argument, constants):
        self.is_argument = spec.kind == InputKind.USER_INPUT
        self.is_parameter = spec.kind == InputKind.PARAMETER
        self.name = spec.arg.name if self.is_argument else spec.target
        self._argument = argument
        self._constant = constants[spec.target] if spec.kind == InputKind.CONSTANT_TENSOR else None

    def read(self, model, leaves):
        if self._constant is not None:
            return self._constant
        return leaves[self._argument] if self.is_argument else attribute(model, self.name)


class ForwardPass:
    """An exported program as a function that autograd can differentiate.

    `values` are its fake inputs, `sources` where each has its content from, and `arguments` those that `forward` takes. `found`
    are the sources of the gradients, and `mutated` those of the tensors that the program updates.
    """

    def __init__(self, exported, model):
        self._exported = exported
        self._model = model
        self._placed = []  # for each placeholder its position in `values`, or its value if that is no tensor
        self.values, self.sources, self.found, self.arguments = [], [], [], []
        self.node = None
        placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
        positions = {}
        for node, spec in zip(placeholders, exported.graph_signature.input_specs):
            value = node.meta.get("val")
            if isinstance(value, torch.Tensor):
                source = Source(spec, len(self.arguments), exported.constants)
                # Tied parameters are one.
                key = spec.arg.name if source.is_argument else id(source.read(model, ()))
                if key not in positions:
                    positions[key] = len(self.values)
                    self.values.append(value)
                    self.sources.append(source)
                self._placed.append((positions[key], None))
            else:
                self._placed.append((None, value))
            if spec.kind == InputKind.USER_INPUT:
                self.arguments.append(value)
        self.fake_mode = detect_fake_mode(self.values)
        with torch.no_grad():
            functional = exported.run_decompositions({}).graph_signature
        updated = {spec.target for spec in functional.output_specs if spec.kind in MUTATIONS}
        self.mutated = [source for source in self.sources if source.name in updated]

    def outputs(self):
        """The tensors that the program returns, which say by `requires_grad` whether they can be differentiated."""
        return self._run(self._inputs(self.values))

    def cotangents(self, outputs):
        """Cotangents without content, as dense tensors like those of a call."""
        differentiable = [output.new_empty(output.shape) for output in outputs if output.requires_grad]
        if not differentiable:
            raise CallError("unsupported", "no output can be differentiated by an input or a parameter")
        return differentiable

    def graph(self, cotangents, decompositions):
        """The trace of both passes, in which operators are replaced by their decompositions."""
        # Of a method, `self` would count as an argument.
        both = make_fx(lambda *given: self.run(*given), decomposition_table=decompositions)(self.values, cotangents)
        both.graph.eliminate_dead_code()
        return both

    def run(self, values, cotangents):
        """Outputs, gradients, and what was updated."""
        inputs = self._inputs(values)
        outputs = self._run(inputs)
        wanted = self._wanted(inputs)
        differentiable = [output for output in outputs if output.requires_grad]
        by = [tensor for _, tensor in wanted]
        gradients = torch.autograd.grad(differentiable, by, cotangents, allow_unused=True)
        found = [(source, gradient) for (source, _), gradient in zip(wanted, gradients) if gradient is not None]
        if not found:
            raise CallError("unsupported", "no output depends on an input or a parameter")
        self.found = [source for source, _ in found]
        changed = [tensor for source, tensor in zip(self.sources, inputs) if source in self.mutated]
        return (*outputs, *(gradient for _, gradient in found), *changed)

    def _inputs(self, values):
        """The program's inputs: those by which it is differentiated, and copies of the others, which it may update."""
        inputs = []
        for source, value in zip(self.sources, values):
            if self._is_wanted(source, value):
                inputs.append(value.detach().requires_grad_())
            else:
                inputs.append(value.detach().clone())
        return inputs

    def _is_wanted(self, source, value):
        if source.is_parameter:
            return attribute(self._model, source.name).requires_grad
        return source.is_argument and is_floating(value)

    def _wanted(self, inputs):
        """The tensors by which the program is differentiated, with their sources: arguments, then parameters in the order of
        the model."""
        pairs = [pair for pair in zip(self.sources, inputs) if pair[1].requires_grad]
        by_parameter = {id(s.read(self._model, ())): (s, tensor) for s, tensor in pairs if s.is_parameter}
        ordered = [by_parameter.get(id(parameter)) for parameter in self._model.parameters()]
        return [pair for pair in pairs if pair[0].is_argument] + [pair for pair in ordered if pair]

    def _run(self, inputs):
        placed = [value if position is None else inputs[position] for position, value in self._placed]
        results = Interpreter(self, self._exported.graph_module).run(*placed, enable_io_processing=False)
        return [result for result in results if isinstance(result, torch.Tensor)]


class Interpreter(torch.fx.Interpreter):
    """Runs a program, and gives the backward pass of each operator the place of the operator."""

    def __init__(self, forward_pass, program):
        super().__init__(program)
        self._forward_pass = forward_pass
        self._seen = set()

    def call_function(self, target, args, kwargs):
        target = STAND_INS.get(target, target)
        return super().call_function(COMPOSED.get(target, target), args, kwargs)

    def run_node(self, node):
        self._forward_pass.node = node
        result = super().run_node(node)
        stack = [node.meta["stack_trace"]] if node.meta.get("stack_trace") else []
        tensors = tree_flatten(result)[0] if node.op == "call_function" else []
        pending = [tensor.grad_fn for tensor in tensors if isinstance(tensor, torch.Tensor)]
        while pending:
            function = pending.pop()
            if function is None or function in self._seen:
                continue
            self._seen.add(function)
            if function.name() in WITHOUT_DERIVATIVE:
                raise CallError("unsupported", f"the operator {node.target} has no derivative in PyTorch")
            function.register_prehook(lambda _: traceback.set_stack_trace(stack))
            pending += [following for following, _ in function.next_functions]
        return result


@contextlib.contextmanager
def tracing(forward_pass, path):
    """Settings for the trace; attention is computed by its formula, whose parts have gradients on any device."""
    contexts = (
        forward_pass.fake_mode or contextlib.nullcontext(),
        torch.enable_grad(),
        sdpa_kernel(SDPBackend.MATH),
        traceback.preserve_node_meta(),
    )
    try:
        with contextlib.ExitStack() as stack:
            for context in contexts:
                stack.enter_context(context)
            yield
    except Exception as error:
        node = forward_pass.node
        place = node and line_of(node.meta.get("stack_trace"), path)
        context = {"at": place} if place else {}
        reason = error.message if isinstance(error, CallError) else first_line(error)
        raise CallError("unsupported", f"the gradients of `forward` cannot be computed: {reason}", **context) from error


@contextlib.contextmanager
def differentiable():
    """While this lasts, exports keep what autograd sees. Functions with gradients of their own are refused: an exported program
    has nothing of these."""
    function = torch.autograd.Function
    original = function.__dict__["apply"]

    def apply(cls, *args, **kwargs):
        if cls.__module__.split(".")[0] == "torch":
            return original.__get__(None, cls)(*args, **kwargs)
        raise CallError(
            "unsupported",
            f"`{cls.__name__}` is a torch.autograd.Function, whose own gradient an import does not see; write what it computes "
            "with PyTorch's operators",
        )

    function.apply = classmethod(apply)
    try:
        with torch.enable_grad():
            yield
    finally:
        function.apply = original


def signature(forward, inputs):
    """The signature of a call of `forward` with these arguments and cotangents."""
    own = inspect.signature(forward)
    names = []
    for name, value in own.bind(*inputs).arguments.items():
        several = own.parameters[name].kind == inspect.Parameter.VAR_POSITIONAL
        names += [f"{name}_{at}" for at in range(len(value))] if several else [name]
    cotangents = COTANGENTS
    while cotangents in names:
        cotangents += "_"
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Signature([inspect.Parameter(name, kind) for name in (*names, cotangents)])
