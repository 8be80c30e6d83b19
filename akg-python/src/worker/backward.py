"""Gradients of a module: a forward pass followed by a backward pass, as one call.

The call takes a list of cotangents after the module's own arguments, one for each output that can be differentiated, in the
order of the outputs. It returns what the module returns, and a list of gradients: of the floating inputs, then of the
parameters that require one. A gradient that no output depends on is left out.
"""

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from akg_worker.structure import tensors_in
from akg_worker.tensors import DTYPES


def differentiate(model):
    """Makes each call of `model` compute its gradients, too."""
    # In the instance, so that paths of its tensors stay as they are.
    model.forward = ForwardBackward(model)


class ForwardBackward:
    """The `forward` of a model that also returns gradients."""

    def __init__(self, model):
        self._model = model
        self._forward = model.forward

    def compile(self):
        """Compiles the forward pass; the compiler derives the backward pass from it."""
        self._forward = torch.compile(self._forward)

    def __call__(self, *arguments):
        *given, cotangents = arguments
        leaves, tree = tree_flatten(given)
        with torch.enable_grad():
            leaves = [leaf.detach().requires_grad_() if is_floating(leaf) else leaf for leaf in leaves]
            returned = self._forward(*tree_unflatten(leaves, tree))
            results = [result for result in tensors_in(returned) if result.requires_grad]
            sources = [leaf for leaf in leaves if is_floating(leaf)]
            sources += [parameter for parameter in self._model.parameters() if parameter.requires_grad]
            gradients = torch.autograd.grad(results, sources, cotangents, allow_unused=True)
        return returned, [gradient for gradient in gradients if gradient is not None]


def is_floating(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def with_cotangents(arguments, types):
    """The arguments of a module followed by random cotangents of these types, if there are any."""
    if types is None:
        return arguments
    return (*arguments, [torch.randn(ty["shape"], dtype=DTYPES[ty["dtype"]]) for ty in types])
