"""Looks around while it is imported, and fails if it gets anywhere."""

import os
import socket

import torch

HERE = os.path.dirname(os.path.abspath(__file__))


def written(path):
    with open(path, "w") as file:
        file.write("hostile")


ATTEMPTS = {
    "write beside the module": lambda: written(os.path.join(HERE, "written")),
    "write to the home directory": lambda: written(os.path.expanduser("~/akg-hostile-module")),
    "write to /tmp": lambda: written("/tmp/akg-hostile-module"),
    "change the worker's own files": lambda: written(os.path.abspath(__import__("akg_worker").__file__)),
    "list the home directory": lambda: os.listdir(os.path.expanduser("~")),
    "read a file beside the module that is no Python": lambda: open(os.path.join(HERE, "..", "import.rs")).read(),
    "read the users": lambda: open("/etc/passwd").read(),
    "make a socket": lambda: socket.socket(),
    "change the mode of the module": lambda: os.chmod(__file__, 0o777),
}

escaped = []
for name, attempt in ATTEMPTS.items():
    try:
        attempt()
        escaped.append(name)
    except OSError:
        pass
if escaped:
    raise RuntimeError(f"escaped: {', '.join(escaped)}")
# What an honest module may do.
written("scratch")


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(2, 3)]


def get_init_inputs():
    return []
