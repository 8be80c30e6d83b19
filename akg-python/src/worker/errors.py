"""Errors that cross to the caller with a kind, a message and a place in the user's file."""

import errno
import linecache
import os
import re
import sys
import traceback


class CallError(Exception):
    """A failure that is understood: `kind` is one of akg's error kinds, `context` is shown beside the message."""

    def __init__(self, kind, message, **context):
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.context = {key: str(value) for key, value in context.items()}


def is_out_of_memory(error):
    text = str(error)
    return isinstance(error, MemoryError) or "can't allocate memory" in text or "not enough memory" in text


def first_line(error):
    """The exception's type and the first line of what it says, with those that the first only announces."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    name = type(error).__name__
    end = next((at for at, line in enumerate(lines) if not line.endswith(":")), len(lines))
    return f"{name}: {' '.join(lines[: end + 1])}" if lines else name


def place(error, path):
    """`file:line: source` of the innermost frame of `error` that lies in the file at `path`, if any does."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
    if not frames:
        return None
    line = frames[-1].lineno
    return f"{os.path.basename(path)}:{line}: {linecache.getline(path, line).strip()}"


def needs_device(error, where):
    """Whether code failed because it asks for a CUDA device where there is none: the error or the line says so."""
    torch = sys.modules.get("torch")
    return "cuda" in f"{error} {where}".lower() and torch is not None and not torch.cuda.is_available()


def no_device(what, **context):
    return CallError(
        "unsupported",
        f"{what} asks for a CUDA device, and there is none that PyTorch can use here; leave devices out of the module: "
        "akg moves its tensors to the device of the kernels",
        **context,
    )


FRAME = re.compile(r'File "([^"]+)", line (\d+)')


def line_of(stack, path):
    """`file:line: source` of the innermost frame of a printed stack that lies beside the file at `path`; None if none does."""
    directory = os.path.dirname(path)
    frames = [match for match in FRAME.findall(stack or "") if os.path.dirname(match[0]) == directory]
    if not frames:
        return None
    file, line = frames[-1][0], int(frames[-1][1])
    return f"{os.path.basename(file)}:{line}: {linecache.getline(file, line).strip()}"


def describe(error):
    """The JSON form of any exception; the traceback goes to standard error."""
    if isinstance(error, CallError):
        context = ", ".join(f"{key}: {value}" for key, value in error.context.items())
        return {"kind": error.kind, "message": f"{error.message} ({context})" if context else error.message}
    if is_out_of_memory(error):
        return {"kind": "out-of-resources", "message": f"out of memory: {first_line(error)}"}
    if isinstance(error, OSError):
        kind = "out-of-resources" if error.errno == errno.ENOSPC else "io"
        return {"kind": kind, "message": first_line(error)}
    return {"kind": "unexpected", "message": f"the Python worker raised {first_line(error)}"}
