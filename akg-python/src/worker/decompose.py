"""Replaces operators that akg does not know by others that compute the same.

akg's own decompositions come first, then PyTorch's: those of export, then all that are registered. An operator that akg
knows is not replaced, so that its rules see it whole. The exception is one that it knows for some types only, and that a
decomposition of its own covers for the others.
"""

import contextlib

import torch
from torch._decomp import decomposition_table
from torch._export.utils import _get_decomp_for_cia
from torch.export import default_decompositions

from akg_worker.decompositions import OWN

# A decomposition may use further operators that akg does not know. Chains are short.
ROUNDS = 12

IMPLICIT = "CompositeImplicitAutograd"


def decomposed(exported, unknown):
    """The program with the operators that `unknown` finds in a graph replaced, as far as there are decompositions.

    Returns the program, the names of the replaced operators, and the names of those that have no decomposition.
    """
    table, rejected = {}, set()
    program = exported.run_decompositions({})
    missing = left = unknown(program.graph)
    for _ in range(ROUNDS):
        found = {op: find(op) for op in left if op not in table and op not in rejected}
        found = {op: function for op, function in found.items() if function}
        if not found:
            break
        program = run(exported, table, found, rejected) or program
        left = unknown(program.graph)
    for op in missing:
        # What leads to operators that have no decomposition stays as the user called it.
        if op in table and any(other not in missing for other in left):
            others = {other: function for other, function in table.items() if other is not op}
            kept = exported.run_decompositions(others)
            if len(unknown(kept.graph)) <= len(left):
                program, table, left = kept, others, unknown(kept.graph)
    return program, [str(op) for op in missing if op not in left], [str(op) for op in left]


def run(exported, table, found, rejected):
    """Decomposes by what is in `table` and by what was found, which is added to it.

    Some decompositions write in place, which a functional graph cannot hold. If one fails, each is tried alone.
    """
    with contextlib.suppress(Exception):
        program = exported.run_decompositions({**table, **found})
        table.update(found)
        return program
    program = None
    for op, function in found.items():
        try:
            program = exported.run_decompositions({**table, op: function})
            table[op] = function
        except Exception:  # whatever it is, the operator stays and is named
            rejected.add(op)
    return program


def find(op):
    """A function that computes the same as `op`, or None."""
    if str(op) in OWN:
        return OWN[str(op)]
    for functions in (exports(), decomposition_table):
        if op in functions:
            return functions[op]
    with contextlib.suppress(Exception):
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), IMPLICIT):
            return _get_decomp_for_cia(op)
    return None


def composites(graph, unknown):
    """Decompositions, by operator, of what `unknown` finds in a graph and `torch.export` cannot replace: composite operators
    that also have a kernel of their own."""
    key = torch._C.DispatchKey.CompositeImplicitAutograd
    found = {}
    for op in unknown(graph):
        if torch._C._dispatch_has_kernel_for_dispatch_key(op.name(), IMPLICIT) or key in op.py_kernels:
            found[op] = find(op)
    return {op: function for op, function in found.items() if function}


_exports = None


def exports():
    """The decompositions of `torch.export`, which take a moment to collect."""
    global _exports
    if _exports is None:
        _exports = dict(default_decompositions().items())
    return _exports
