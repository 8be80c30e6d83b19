"""Asks KernelBench's own static checker and its own evaluator about one file, as its scripts do.

Takes one argument, a JSON object: `root` is KernelBench's repository, `reference` the problem's file, `kernels` the file with
`ModelNew` (none to compare the reference with itself), `evaluate` whether to evaluate, `timing` whether with times. The last
line of the output is the answer, in JSON.
"""

import ctypes
import hashlib
import importlib
import importlib.machinery
import json
import os
import signal
import sys
import types

# Packages that KernelBench imports for other purposes, such as asking models, and of which evaluation needs no more than
# a class with fields.
UNNEEDED = ("dotenv", "litellm", "openai", "pydantic", "requests", "tqdm")

# Option of prctl(2): the signal that comes when the parent ends.
PR_SET_PDEATHSIG = 1


class Fields:
    def __init__(self, *_, **fields):
        self.__dict__.update(fields)


class StandIn(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Fields,), {})


class StandIns:
    """Finds the packages of `UNNEEDED` that are not installed."""

    used = []

    def find_spec(self, name, path=None, target=None):
        if name not in UNNEEDED:
            return None
        self.used.append(name)
        return importlib.machinery.ModuleSpec(name, self)

    def create_module(self, spec):
        return StandIn(spec.name)

    def exec_module(self, module):
        del module


def read(path):
    with open(path) as file:
        return file.read()


def evaluate(request, reference, kernels):
    import torch

    evaluator = importlib.import_module("kernelbench.eval")
    result = evaluator.eval_kernel_against_ref(
        original_model_src=reference,
        custom_model_src=kernels,
        num_correct_trials=5,
        num_perf_trials=100,
        measure_performance=request["timing"],
        backend="triton",
        precision=torch.float32,
        device=torch.device("cuda:0"),
    )
    if result is None:
        return {"trouble": "the evaluator gave no result and asks to be called again"}
    return {
        "compiled": result.compiled,
        "correct": result.correctness,
        "metadata": {key: value if isinstance(value, list) else str(value) for key, value in result.metadata.items()},
        "milliseconds": result.runtime if result.runtime > 0 else None,
        "reference_milliseconds": result.ref_runtime if result.ref_runtime > 0 else None,
        "versions": {"torch": torch.__version__, "triton": importlib.import_module("triton").__version__},
    }


def main(request):
    source = os.path.join(request["root"], "src")
    package = os.path.join(source, "kernelbench")
    sys.path.insert(0, source)
    stand_ins = StandIns()
    sys.meta_path.append(stand_ins)
    reference = read(request["reference"])
    # Nothing can pass that the reference itself does not.
    kernels = read(request["kernels"]) if request["kernels"] else reference + "\n\nModelNew = Model\n"
    answer = {
        "evaluator": {
            name: hashlib.sha256(read(os.path.join(package, name)).encode()).hexdigest()
            for name in ("eval.py", "kernel_static_checker.py", "timing.py")
        }
    }
    valid = True
    if request["kernels"]:
        checker = importlib.import_module("kernelbench.kernel_static_checker")
        valid, errors, warnings = checker.validate_kernel_static(kernels, backend="triton", precision="fp32")
        answer["static_check"] = {"errors": sorted(errors), "warnings": sorted(warnings)}
    if valid and request["evaluate"]:
        try:
            answer.update(evaluate(request, reference, kernels))
        except Exception as error:
            answer["trouble"] = f"{type(error).__name__}: {error}"
    answer["stand_ins"] = stand_ins.used
    return answer


if __name__ == "__main__":
    # An evaluation that nobody waits for any more would keep the device busy.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    print("\n" + json.dumps(main(json.loads(sys.argv[1]))), flush=True)
    # Whatever a module left running is of no interest any more.
    os._exit(0)
