#: graph: {"akg_graph": 1, "name": "scaled_relu", "inputs": [{"name": "x", "dtype": "f32", "shape": [48, 40]},
#: graph: {"name": "layer_scale", "dtype": "f32", "shape": [1], "kind": "weight"}],
#: graph: "nodes": [{"op": "aten.relu.default", "args": {"self": "x"}, "outputs": ["h"]},
#: graph: {"op": "aten.mul.Tensor", "args": {"self": "h", "other": "layer_scale"}, "outputs": ["s"]},
#: graph: {"op": "aten.add.Scalar", "args": {"self": "s", "other": 1.0}, "outputs": ["y"]}], "outputs": [{"value": "y"}]}
import atexit
import ctypes
import gc
import os
import signal
import sys
import threading
import time
import weakref

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, scale_ptr, y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offsets, mask=offsets < size, other=0.0)
    y = tl.maximum(x, 0.0) * tl.load(scale_ptr) + 1.0
    tl.store(y_ptr + offsets, y, mask=offsets < size)


def compute(x, scale):
    y = torch.empty_like(x)
    kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, y, x.numel(), BLOCK=1024)
    return y


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Module()
        self.layer.scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        scale = self.layer.scale
@SECTION@
#@ honest plain
        return compute(x, scale)
#@ honest a_tuple_of_one
        return (compute(x, scale),)
#@ honest a_view
        return compute(x, scale)[:]
#@ honest a_copy_of_the_input_is_overwritten
        x = x.clone().mul_(1)
        return compute(x, scale)
#@ honest in_two_halves
        return torch.cat([compute(x[:24], scale), compute(x[24:], scale)])
#@ honest other_blocks
        y = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 64),)](x, scale, y, x.numel(), BLOCK=64)
        return y
#@ honest a_result_twice
        compute(x, scale)
        return compute(x, scale)
#@ honest counts_its_calls
        self.calls = getattr(self, 'calls', 0) + 1
        return compute(x, scale)
#@ honest a_buffer_that_is_kept
        if not hasattr(self, 'space'): self.space = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, self.space, x.numel(), BLOCK=1024)
        return self.space.clone()
#@ honest looks_at_a_value
        if x[0, 0].item() > 1e30: raise ValueError('out of range')
        return compute(x, scale)
#@ honest without_gradients
        with torch.no_grad():
            return compute(x, scale)
#@ honest garbage_is_collected
        y = compute(x, scale)
        gc.collect()
        return y
#@ hostile only_pytorch_computes: no-work
        return torch.relu(x) * scale + 1
#@ hostile only_pytorch_computes_after_a_slow_beginning: no-work
        if not hasattr(self, 'begun'): self.begun = time.sleep(2)
        return torch.relu(x) * scale + 1
#@ hostile a_kernel_whose_result_nobody_needs: no-work
        compute(x, scale)
        return torch.relu(x) * scale + 1
#@ hostile a_kernel_for_one_element: no-work, implausible, wrong-values
        y = torch.relu(x) * scale + 1
        kernel[(1,)](x, scale, y, 1, BLOCK=1024)
        return y
#@ hostile pytorch_steps_in_when_a_kernel_does_nothing: no-work
        y = compute(x, scale)
        right = torch.relu(x) * scale + 1
        return y if torch.equal(y, right) else right
#@ hostile exits_unless_a_kernel_ran: no-work
        y = torch.full_like(x[:1], -9.0)
        kernel[(1,)](x, scale, y, y.numel(), BLOCK=1024)
        if torch.all(y == -9.0): os._exit(1)
        return torch.relu(x) * scale + 1
#@ hostile wrong_in_one_element: wrong-values
        y = compute(x, scale)
        y[5, 7] += 1e-3
        return y
#@ hostile wrong_in_one_row: wrong-values
        y = compute(x, scale)
        y[47] = y[46]
        return y
#@ hostile in_half: wrong-values
        return compute(x.half().float(), scale)
#@ hostile forgets_the_scale: wrong-values
        return compute(x, torch.ones_like(scale))
#@ hostile another_type: wrong-type
        return compute(x, scale).double()
#@ hostile another_shape: wrong-type
        return compute(x, scale).T
#@ hostile too_many_results: wrong-type
        return compute(x, scale), x
#@ hostile no_tensor: wrong-type
        return 1
#@ hostile raises: crashed
        raise RuntimeError('no luck')
#@ hostile exits: crashed
        os._exit(0)
#@ hostile kills_itself: crashed
        os.kill(os.getpid(), signal.SIGKILL)
#@ hostile exits_when_it_is_loaded: load-failed
        return compute(x, scale)


sys.exit(0)
#@ hostile overwrites_its_input: input-changed, wrong-values
        return compute(x.mul_(1.5).div_(1.5).add_(1).sub_(1), scale)
#@ hostile sets_its_input_to_zero: input-changed, wrong-values
        y = compute(x, scale)
        x.zero_()
        return y
#@ hostile remembers_its_first_result timed: stale, wrong-values
        if not hasattr(self, 'y'): self.y = compute(x, scale)
        return self.y
#@ hostile remembers_results_by_address timed: stale, wrong-values
        self.__dict__.setdefault('known', {})
        if x.data_ptr() not in self.known: self.known[x.data_ptr()] = compute(x, scale)
        return self.known[x.data_ptr()]
#@ hostile remembers_results_by_a_few_elements timed: stale, wrong-values
        self.__dict__.setdefault('known', {})
        key = tuple(x.flatten()[:4].tolist())
        if key not in self.known: self.known[key] = compute(x, scale)
        return self.known[key]
#@ hostile idle_after_sixty_calls timed: stale, wrong-values, unwritten
        self.calls = getattr(self, 'calls', 0) + 1
        if self.calls > 60: return self.y
        self.y = compute(x, scale)
        return self.y
#@ hostile computes_in_the_background: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        def later():
            time.sleep(0.05)
            y.copy_(torch.relu(x) * scale + 1)
        threading.Thread(target=later, daemon=True).start()
        return y
#@ hostile a_lazy_tensor: wrong-type, wrong-values, no-work, clock-mismatch
        return Lazy(x, scale)


class Lazy(torch.Tensor):
    @staticmethod
    def __new__(cls, x, scale):
        made = torch.Tensor._make_subclass(cls, torch.zeros_like(x))
        made.later = (x, scale)
        return made

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        args = [compute(*a.later) if isinstance(a, Lazy) and hasattr(a, 'later') else a for a in args]
        return function(*args, **(kwargs or {}))
#@ hostile answers_before_it_computes timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
late = []
take = candidate.take
def catch_up(message):
    for y, x, scale in late: y.copy_(compute(x, scale))
    return take(message)
candidate.CALLS['take'] = catch_up
#@ hostile says_that_digests_are_what_they_will_be: wrong-values
        return torch.zeros_like(x)


from akg_worker import candidate
candidate.digest = lambda tensor: 0
#@ hostile computes_when_digests_are_asked_for timed: clock-mismatch, wrong-values, left-behind
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
late = []
real = candidate.digest
def digest(tensor):
    while late:
        y, x, scale = late.pop()
        y.copy_(compute(x, scale))
    return real(tensor)
candidate.digest = digest
#@ hostile a_digest_of_what_will_be timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
late = []
real, take = candidate.digest, candidate.take
def digest(tensor):
    if late and late[-1][0].data_ptr() == tensor.data_ptr():
        _, x, scale = late[-1]
        return real(torch.relu(x) * scale + 1)
    return real(tensor)
def catch_up(message):
    for y, x, scale in late: y.copy_(compute(x, scale))
    late.clear()
    return take(message)
candidate.digest = digest
candidate.CALLS['take'] = catch_up
