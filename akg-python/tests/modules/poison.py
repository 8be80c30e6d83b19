"""Changes all that later imports in the same process would need, and leaves a process, files and a limit behind."""

import atexit
import builtins
import os
import resource
import subprocess
import sys

import torch

subprocess.Popen(["sleep", "1000"], start_new_session=True)
with open("left", "w") as file:
    file.write("left")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
torch.set_default_dtype(torch.float64)
for name in ("relu", "softmax", "rand"):
    setattr(torch, name, None)
torch.nn.Module.__call__ = None
torch.export.export = lambda *_, **__: None
for name in [name for name in sys.modules if name.startswith("akg_worker")]:
    sys.modules[name] = None
sys.path.clear()
os.environ.clear()
os.chdir("/")
os.umask(0o777)
atexit.register(lambda: os.kill(os.getppid(), 9))
builtins.open = builtins.len = None


class Model(torch.nn.Module):
    def forward(self, x):
        return x


def get_inputs():
    return []


def get_init_inputs():
    return []
