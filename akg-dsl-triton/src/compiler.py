"""Compiles Triton kernels ahead of time, without a device, and checks the syntax of modules.

Every call runs in a process of its own, forked from this one, which has imported Triton: a compiler that crashes or a
module that changes Triton takes nothing else with it.
"""

import ast
import base64
import importlib.util
import inspect
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import traceback

# Bytes of an error message at most.
LONGEST_MESSAGE = 8 << 10


class Rejected(Exception):
    """What is wrong with the module, for its author."""


def answer(arguments):
    """`{"build": {...}}` or `{"check": {...}}`: `{"ok": ...}`, or `{"failed": message}` if the module is at fault."""
    reader, writer = os.pipe()
    errors = tempfile.TemporaryFile()
    child = os.fork()
    if child == 0:
        os.close(reader)
        os.dup2(errors.fileno(), 2)
        status = 1
        try:
            with os.fdopen(writer, "wb") as out:
                out.write(json.dumps(work(arguments)).encode())
            status = 0
        finally:
            os._exit(status)
    os.close(writer)
    with os.fdopen(reader, "rb") as source:
        reply = source.read()
    _, status = os.waitpid(child, 0)
    if status == 0 and reply:
        return json.loads(reply)
    errors.seek(0)
    said = errors.read()[-LONGEST_MESSAGE:].decode(errors="replace").strip()
    return {"failed": f"the compiler ended with status {os.waitstatus_to_exitcode(status)} and no result: {said}"}


def work(arguments):
    ((name, request),) = arguments.items()
    folder = tempfile.mkdtemp()
    try:
        return {"ok": {"build": build, "check": check}[name](request, folder)}
    except Rejected as error:
        return {"failed": str(error)}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def line_of(error, path):
    """The line of the module at `path` that raised `error`, if one did."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    return frames[-1].lineno if frames else None


def load(text, folder):
    path = os.path.join(folder, "kernels.py")
    with open(path, "w") as file:
        file.write(text)
    spec = importlib.util.spec_from_file_location("kernels", path)
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except SyntaxError as error:
        raise Rejected(f"line {error.lineno}: {error.msg}: {(error.text or '').strip()}") from error
    except BaseException as error:
        raise Rejected(f"line {line_of(error, path)}: {type(error).__name__}: {error}") from error
    return module


def build(request, folder):
    import triton

    triton.knobs.cache.dir = os.path.join(folder, "cache")
    if request["target"]["backend"] == "cuda":
        leave_out_unused_variables()
    module = load(request["text"], folder)
    launch = getattr(module, "LAUNCH", {})
    return [build_kernel(module, kernel, launch.get(kernel["name"], {}), request) for kernel in request["kernels"]]


def leave_out_unused_variables():
    """From now on, machine code has no variables that nothing refers to: libdevice leaves the names of its options behind, and
    variables in a device's memory are state."""
    from triton.backends.nvidia.compiler import CUDABackend

    is_static = isinstance(inspect.getattr_static(CUDABackend, "make_ptx"), staticmethod)
    make = CUDABackend.make_ptx

    def make_ptx(*arguments, **options):
        return without_unused(make(*arguments, **options))

    CUDABackend.make_ptx = staticmethod(make_ptx) if is_static else make_ptx


# A variable in the memory of a device, which only its module sees.
VARIABLE = re.compile(r"^\.global [^;=]*?([\w$]+)(?:\[\d*\])?(?: *= *[^;]*)?;\n?", re.MULTILINE)


def without_unused(text):
    """PTX without the variables that are named only where they are defined."""
    names = re.findall(r"[\w$]+", text)
    return VARIABLE.sub(lambda found: "" if names.count(found[1]) == 1 else found[0], text)


def build_kernel(module, kernel, options, request):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource
    from triton.compiler import compile as compile_source
    from triton.compiler.errors import CompilationError
    from triton.runtime.jit import JITFunction

    name = kernel["name"]
    function = getattr(module, name, None)
    if not isinstance(function, JITFunction):
        raise Rejected(f"there is no kernel `{name}`: define it with `@triton.jit`")
    options = dict(options)
    descriptors = options.pop("descriptors", {})
    signature, constants, attributes = {}, {}, {}
    given = [*kernel["tensors"], *({"type": "i64"} for _ in range(kernel["dims"]))]
    for number, parameter in enumerate(function.params):
        if number < len(given):
            argument = given[number]
            described = descriptors.get(parameter.name)
            if described is not None:
                block = list(described["block_shape"])
                signature[parameter.name] = f"tensordesc<{argument['type'].removeprefix('*')}{block}>"
                continue
            signature[parameter.name] = argument["type"]
            if argument.get("align", 0) % 16 == 0 and argument["type"].startswith("*"):
                attributes[(number,)] = [["tt.divisibility", 16]]
        elif parameter.default is not inspect.Parameter.empty:
            signature[parameter.name] = "constexpr"
            constants[parameter.name] = parameter.default
        else:
            raise Rejected(
                f"kernel `{name}` has a parameter `{parameter.name}` after its {len(kernel['tensors'])} tensors and "
                f"{kernel['dims']} dims: give it a default value"
            )
    if len(function.params) < len(given):
        raise Rejected(f"kernel `{name}` has {len(function.params)} parameters, but is launched with {len(given)}")
    target = request["target"]
    arch = int(target["arch"]) if target["arch"].isdigit() else target["arch"]
    # Arithmetic is what the text says, rounded operator by operator.
    options = {"enable_fp_fusion": False, **options}
    if kernel["cooperative"]:
        options["launch_cooperative_grid"] = True
    try:
        source = ASTSource(fn=function, signature=signature, constexprs=constants, attrs=attributes)
        binary = compile_source(source, target=GPUTarget(target["backend"], arch, target["warp"]), options=options)
    except CompilationError as error:
        # The error has the place in the function that it is about, the innermost one of those that call each other.
        while isinstance(error.__cause__, CompilationError):
            error = error.__cause__
        place = ""
        if hasattr(error.node, "lineno"):
            first = first_line(request["text"], error.src)
            place = f"line {first + error.node.lineno - 1}: " if first else ""
        cause = "" if error.__cause__ is None else f" ({error.__cause__})"
        raise Rejected(f"kernel `{name}`, {place}{error}{cause}"[:LONGEST_MESSAGE]) from error
    except Exception as error:
        raise Rejected(f"kernel `{name}`: {type(error).__name__}: {error}"[:LONGEST_MESSAGE]) from error
    return describe(name, binary, target, descriptors, list(signature))


def first_line(text, function):
    """The line of `text` at which the text of a function begins."""
    at = text.find(function.strip()) if function else -1
    return text.count("\n", 0, at) + 1 if at >= 0 else None


def describe(name, binary, target, descriptors, parameters):
    meta = binary.metadata
    kind = "cubin" if target["backend"] == "cuda" else "hsaco"
    code = binary.asm[kind]
    boxes = []
    found = iter(getattr(meta, "tensordesc_meta", None) or [])
    for parameter in parameters:
        if parameter in descriptors:
            box = next(found)
            boxes.append(
                {
                    "parameter": parameters.index(parameter),
                    "shape": list(descriptors[parameter]["shape"]),
                    "block": list(box["block_size"]),
                    "swizzle": box["swizzle"],
                    "padded": bool(box.get("fp4_padded", False)),
                }
            )
    return {
        "kernel": name,
        "symbol": meta.name,
        "threads": meta.num_warps * target["warp"],
        "cluster": getattr(meta, "num_ctas", 1),
        "shared": meta.shared,
        "scratch": [
            [getattr(meta, f"{which}_scratch_size", 0) or 0, getattr(meta, f"{which}_scratch_align", 1) or 1]
            for which in ("global", "profile")
        ],
        "boxes": boxes,
        **resources(binary, code, target),
        "code": base64.b64encode(code).decode(),
    }


def resources(binary, code, target):
    """Registers of a thread and bytes that it spills, as far as the toolchain says."""
    if target["backend"] == "cuda":
        tool = os.path.join(os.path.dirname(sys.modules["triton"].__file__), "backends/nvidia/bin/cuobjdump")
        with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
            file.write(code)
            file.flush()
            said = subprocess.run([tool, "-res-usage", file.name], capture_output=True, text=True, check=False).stdout
        # What is spilled lies in the frame on the stack: `LOCAL` is for what has no frame.
        registers, spilled = re.search(r"REG:(\d+)", said), re.search(r"\bSTACK:(\d+)", said)
    else:
        assembly = binary.asm.get("amdgcn", "")
        registers = re.search(r"\.vgpr_count:\s+(\d+)", assembly)
        spilled = re.search(r"\.private_segment_fixed_size:\s+(\d+)", assembly)
    return {
        "registers": int(registers[1]) if registers else None,
        "spilled": int(spilled[1]) if spilled else None,
    }


def check(request, _):
    """Places in the text that break a rule: `[{"line", "column", "message"}]`."""
    try:
        tree = ast.parse(request["text"])
    except SyntaxError as error:
        return [{"line": error.lineno or 1, "column": error.offset or 1, "message": error.msg}]
    found = []

    def report(node, message):
        found.append({"line": node.lineno, "column": node.col_offset + 1, "message": message})

    allowed = set(request["imports"])
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "."]
        else:
            modules = []
        for module in modules:
            if module.split(".")[0] not in allowed:
                report(node, f"`{module}` cannot be imported: kernels need no more than {', '.join(sorted(allowed))}")
        if isinstance(node, ast.Name) and node.id in request["forbidden"]:
            report(node, f"`{node.id}` has no place in a kernel")
        if isinstance(node, (ast.Try, ast.AsyncFunctionDef, ast.Global, ast.Nonlocal)):
            report(node, f"`{type(node).__name__.lower()}` has no place in a kernel")
    kernels = {}
    for node in tree.body:
        if isinstance(node, ast.FunctionDef):
            decorators = [ast.unparse(d) for d in node.decorator_list]
            if "triton.jit" in decorators or "jit" in decorators:
                kernels[node.name] = node
            else:
                report(node, f"`{node.name}` is no kernel: functions are decorated with `@triton.jit`")
        elif not isinstance(node, (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)):
            report(node, "a module of kernels has imports, constants and functions alone")
    for kernel in request["kernels"]:
        function = kernels.get(kernel["name"])
        if function is None:
            message = f"the launch plan starts kernel `{kernel['name']}`, but the text has none: define it with `@triton.jit`"
            found.append({"line": 1, "column": 1, "message": message})
            continue
        parameters = function.args.args
        required = len(parameters) - len(function.args.defaults)
        given = len(kernel["tensors"]) + kernel["dims"]
        if len(parameters) < given:
            report(function, f"`{kernel['name']}` has {len(parameters)} parameters, but is launched with {given}")
        elif required > given:
            report(parameters[given], f"`{parameters[given].arg}` has no default value, and nothing is given for it")
    return found
