"""Entry point of akg's Python worker: answers calls that arrive as frames on standard input.

A frame is a little-endian u32 length and that many bytes of JSON. A request is
`{"version", "id", "call": {NAME: {...}}}`; its answer is `{"id", "ok": {...}}` or `{"id", "error": {"kind", "message"}}`,
and any number of `{"id", "progress": text}` may come before it.

The calls `fork` and `end` are for a process that is a template (template.py). With `fork` come three descriptors, on
which the copy goes on as its standard input, output and error.

The modules named as arguments are imported before the first request is read.
"""

import contextlib
import functools
import gc
import importlib
import importlib.util
import json
import os
import socket
import struct
import sys
import tempfile
import traceback
import warnings

from akg_worker.errors import CallError, describe
from akg_worker.template import Template

VERSION = 1

# Descriptors at most that the system sends together.
MOST_FILES = 253

# No other directory can be written, and the user's name may be hidden.
os.environ["XDG_CACHE_HOME"] = os.environ["TRITON_HOME"] = tempfile.gettempdir()
os.environ.setdefault("USER", "akg")


class Channel:
    """The caller, on a socket and a pipe."""

    def __init__(self, input, output):
        self._input = socket.socket(fileno=input)
        self._output = os.fdopen(output, "wb")
        self._files = []

    @classmethod
    def standard(cls):
        """On standard input and output, moved away from the descriptors that user code can reach by name."""
        channel = cls(os.dup(0), os.dup(1))
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
        os.dup2(2, 1)
        return channel

    def close(self):
        self._input.close()
        self._output.close()

    def take_files(self):
        """The files that came with the last message, for whoever takes them to close."""
        files, self._files = self._files, []
        return files

    def close_files(self):
        for file in self.take_files():
            os.close(file)

    def receive(self):
        """The next message, or None when the caller has gone."""
        header = self._read(4)
        if len(header) < 4:
            return None
        (length,) = struct.unpack("<I", header)
        body = self._read(length)
        return self._resolve(json.loads(body)) if len(body) == length else None

    def _read(self, length):
        """So many bytes, or fewer at the end; keeps the files that come with them."""
        read = bytearray()
        while len(read) < length:
            size = min(length - len(read), 1 << 20)
            more, files, _, _ = socket.recv_fds(self._input, size, MOST_FILES, socket.MSG_CMSG_CLOEXEC)
            self._files += files
            if not more:
                break
            read += more
        return bytes(read)

    def _resolve(self, value):
        """Gives a path to everything that names a file by its position among those that came with the message."""
        if isinstance(value, list):
            return [self._resolve(v) for v in value]
        if not isinstance(value, dict):
            return value
        value = {name: self._resolve(v) for name, v in value.items()}
        if "file" in value and "offset" in value:
            value["path"] = f"/proc/self/fd/{self._files[value['file']]}"
        return value

    def send(self, message):
        body = json.dumps(message, allow_nan=False).encode()
        self._output.write(struct.pack("<I", len(body)) + body)
        self._output.flush()


template = Template()


@functools.cache
def script(path):
    """The module in the file at `path`."""
    spec = importlib.util.spec_from_file_location(os.path.basename(path).removesuffix(".py"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def answer(name, arguments, progress):
    """Runs one call."""
    if name == "ready":
        return {}
    if name == "import":
        from akg_worker.capture import import_module

        return import_module(arguments, progress)
    if name == "materialize":
        from akg_worker.module import materialize

        return materialize(arguments)
    if name == "evaluate":
        from akg_worker.replay import evaluate

        return evaluate(arguments)
    if name in ("prepare", "bind", "outputs", "settle", "execute"):
        from akg_worker import baseline

        return getattr(baseline, name)(arguments)
    if name == "candidate":
        from akg_worker import candidate

        ((name, arguments),) = arguments.items()
        return candidate.CALLS[name](arguments)
    if name == "apply":
        from akg_worker.function import apply

        return apply(arguments)
    if name == "answer":
        return script(arguments["path"]).answer(arguments["arguments"])
    if name == "end":
        return template.end(arguments["seconds"])
    raise CallError("protocol", f"unknown call `{name}`")


def go_on_as_copy(channel):
    """The channel of a process that is a copy from now on."""
    input, output, errors = channel.take_files()
    channel.close()
    os.dup2(errors, 2)
    os.dup2(errors, 1)
    os.close(errors)
    return Channel(input, output)


def serve(channel):
    while (message := channel.receive()) is not None:
        number = message["id"]
        try:
            if message["version"] != VERSION:
                raise CallError("protocol", f"this worker speaks version {VERSION}, not {message['version']}")
            ((name, arguments),) = message["call"].items()
            if name == "fork":
                if template.fork():
                    channel = go_on_as_copy(channel)
                    continue
                ok = {}
            else:
                ok = answer(name, arguments, lambda text: channel.send({"id": number, "progress": text}))
            reply = {"id": number, "ok": ok}
        except BaseException as error:  # user code may raise anything, SystemExit included
            traceback.print_exc()
            reply = {"id": number, "error": describe(error)}
        channel.close_files()
        channel.send(reply)


def main():
    channel = Channel.standard()
    # Standard error is kept for what explains a crash.
    warnings.simplefilter("ignore")
    # What is loaded here stays: looking for garbage in it would take a third of the time, and go on with every call.
    gc.disable()
    for module in sys.argv[1:]:
        # The call that needs it says what is wrong with it.
        with contextlib.suppress(Exception):
            importlib.import_module(module)
    gc.freeze()
    gc.enable()
    serve(channel)


if __name__ == "__main__":
    main()
