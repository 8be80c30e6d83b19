"""Imported for its effect: PyTorch's compiler finds out which vector instructions work here, and its cache keeps the answer."""

import contextlib

from torch._inductor.cpu_vec_isa import pick_vec_isa

# What fails here fails again where it is reported.
with contextlib.suppress(Exception):
    pick_vec_isa()
