"""Keeps recurrent networks whole during export.

Export traces every step of an LSTM or GRU only to put the network back together afterwards, which takes up to a minute.
Here `torch.nn`'s recurrent layers call stand-ins of the same signature, for which only the result's shape is computed.
"""

import contextlib

import torch

aten = torch.ops.aten
LAYERS = {name: getattr(aten, name).input for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")}

library = torch.library.Library("akg", "DEF")
for name, target in LAYERS.items():
    library.define(str(target._schema).removeprefix("aten::").replace(".input(", "("))


def shapes(input, hx, params, has_biases, num_layers, dropout, train, bidirectional, batch_first):
    """The results of a recurrent layer, without content; `hx` is a list for an LSTM."""
    hidden = list(hx) if isinstance(hx, (list, tuple)) else [hx]
    directions = 2 if bidirectional else 1
    output = input.new_empty((*input.shape[:-1], hidden[0].shape[-1] * directions))
    return (output, *(torch.empty_like(state) for state in hidden))


for name in LAYERS:
    torch.library.register_fake(f"akg::{name}", shapes, lib=library)

STAND_INS = {getattr(torch.ops.akg, name).default: target for name, target in LAYERS.items()}


@contextlib.contextmanager
def kept_whole():
    """While this lasts, recurrent layers over plain (not packed) tensors are exported as one operator."""

    def replace(name, original):
        def layer(*args):
            # Packed sequences have another signature: their batch sizes are a tensor where a list or tensor of
            # parameters is expected here.
            whole = len(args) == 9 and isinstance(args[2], (list, tuple))
            return getattr(torch.ops.akg, name)(*args) if whole else original(*args)

        return layer

    for name in LAYERS:
        setattr(torch._VF, name, replace(name, getattr(torch._C._VariableFunctions, name)))
    try:
        yield
    finally:
        for name in LAYERS:
            delattr(torch._VF, name)
