"""Imported for its effect: PyTorch's compiler knows which vector instructions work here.

It finds out by building a library for each set of them and loading that in a process of its own. Its cache keeps the
libraries, but not that they could be loaded, which takes some versions of PyTorch half a minute. So that is kept beside
them if all instructions that the processor has work.
"""

import contextlib
import os
from pathlib import Path

from torch._inductor import config
from torch._inductor.cpu_vec_isa import valid_vec_isa_list

ALL_WORK = Path(os.environ["TORCHINDUCTOR_CACHE_DIR"], "all-vector-instructions-work")


def _names(instructions):
    return [str(each) for each in instructions]


# What fails here fails again where it is reported.
with contextlib.suppress(Exception):
    if ALL_WORK.exists():
        config.cpp.vec_isa_ok = True
    else:
        found = _names(valid_vec_isa_list())
        with config.patch("cpp.vec_isa_ok", True):
            supported = _names(valid_vec_isa_list.__wrapped__())
        if found == supported:
            ALL_WORK.touch()
