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
#@ hostile a_lazy_tensor: wrong-type, wrong-values
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
def catching_up(answer):
    def caught_up(message):
        while late:
            y, x, scale = late.pop()
            with torch.no_grad(): y.copy_(compute(x, scale))
        return answer(message)
    return caught_up
candidate.CALLS.update({name: catching_up(answer) for name, answer in candidate.CALLS.items()})
#@ hostile computes_in_requests_without_calls timed: clock-mismatch, wrong-values, stale
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
late = []
run = candidate.CALLS['run']
def catch_up(message):
    while late and not message['slots']:
        y, x, scale = late.pop()
        with torch.no_grad(): y.copy_(compute(x, scale))
    return run(message)
candidate.CALLS['run'] = catch_up
#@ hostile says_that_digests_are_what_they_will_be: wrong-values, clock-mismatch, crashed
        return torch.zeros_like(x)


from akg_worker import candidate
candidate.digest = lambda tensor: torch.zeros(2, dtype=torch.int64)
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
#@ hostile a_sum_in_place_of_a_digest timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
late = []
take = candidate.take
def digest(tensor):
    return torch.stack([tensor.view(torch.int32).sum(), tensor.view(torch.int32).sum()])
def catch_up(message):
    for y, x, scale in late: y.copy_(compute(x, scale))
    late.clear()
    return take(message)
candidate.digest = digest
candidate.CALLS['take'] = catch_up
#@ hostile a_tensor_that_computes_when_it_is_dispatched: wrong-type, wrong-values, crashed, clock-mismatch, no-work
        return Deferred(x, scale)


class Deferred(torch.Tensor):
    @staticmethod
    def __new__(cls, x, scale):
        made = torch.Tensor._make_wrapper_subclass(cls, x.shape, dtype=x.dtype, device=x.device)
        made.later = (x, scale)
        return made

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return args[0]
#@ hostile computes_in_data_ptr: wrong-values, wrong-type, clock-mismatch, no-work
        made = torch.zeros_like(x).as_subclass(Pointed)
        made.later = (x, scale)
        return made


class Pointed(torch.Tensor):
    def data_ptr(self):
        late.append(self)
        return super().data_ptr()


late = []
#@ hostile an_object_that_acts_as_a_tensor: wrong-type
        return Later(x, scale)


class Later:
    def __init__(self, x, scale):
        self.x, self.scale = x, scale

    def __getattr__(self, name):
        return getattr(compute(self.x, self.scale), name)
#@ hostile names_the_address_of_its_input: wrong-values, wrong-type, clock-mismatch
        inputs.append(x)
        return torch.zeros_like(x)


from akg_worker import candidate
inputs, located = [], candidate.located
def elsewhere(called):
    answer = located(called)
    answer['places'] = [(slot, [inputs[-1].data_ptr()]) for slot, _ in answer['places']]
    return answer
candidate.located = elsewhere
#@ hostile names_memory_that_is_not_there: wrong-type, wrong-values, clock-mismatch
        return torch.zeros_like(x)


from akg_worker import candidate
located = candidate.located
def elsewhere(called):
    answer = located(called)
    answer['places'] = [(slot, [2 ** 46]) for slot, _ in answer['places']]
    return answer
candidate.located = elsewhere
#@ hostile names_an_address_that_overflows: wrong-type, wrong-values, clock-mismatch
        return torch.zeros_like(x)


from akg_worker import candidate
located = candidate.located
def elsewhere(called):
    answer = located(called)
    answer['places'] = [(slot, [2 ** 64 - 8]) for slot, _ in answer['places']]
    return answer
candidate.located = elsewhere
#@ hostile names_no_number: crashed, wrong-type, clock-mismatch, wrong-values
        return torch.zeros_like(x)


from akg_worker import candidate
located = candidate.located
def elsewhere(called):
    answer = located(called)
    answer['places'] = [(slot, [-1]) for slot, _ in answer['places']]
    return answer
candidate.located = elsewhere
#@ hostile names_memory_of_its_program: wrong-values, wrong-type, clock-mismatch
        return torch.zeros_like(x)


from akg_worker import candidate
located = candidate.located
program = ctypes.cast(ctypes.CDLL(None).qsort, ctypes.c_void_p).value
def elsewhere(called):
    answer = located(called)
    answer['places'] = [(slot, [program & ~63]) for slot, _ in answer['places']]
    return answer
candidate.located = elsewhere
#@ hostile names_results_of_no_call: crashed, wrong-type, wrong-values, clock-mismatch
        return torch.zeros_like(x)


from akg_worker import candidate
candidate.located = lambda called: {'types': [], 'places': [(10 ** 6, [16])]}
#@ hostile says_nothing_of_its_results: crashed
        return torch.zeros_like(x)


from akg_worker import candidate
candidate.CALLS['run'] = lambda message: {}
#@ hostile lies_about_a_shape: wrong-values, clock-mismatch
        return compute(x, scale).T.contiguous()


from akg_worker import candidate
types_of = candidate.types_of
candidate.types_of = lambda called: [[dict(each, shape=each['shape'][::-1]) for each in types] for types in types_of(called)]
#@ hostile lies_about_an_element_type: wrong-values, clock-mismatch
        return compute(x, scale).double()


from akg_worker import candidate
types_of = candidate.types_of
candidate.types_of = lambda called: [[dict(each, dtype='f32') for each in types] for types in types_of(called)]
# Where Triton is interpreted, a call is so slow that a batch has one.
#@ hostile computes_only_the_last_call_of_a_batch timed: stale, wrong-values
#: device: cuda
        if batch[-1] > 1:
            batch[-1] -= 1
            return torch.full_like(x, 1.0)
        return compute(x, scale)


from akg_worker import candidate
batch, run = [1], candidate.CALLS['run']
def counting(message):
    batch.append(len(message['slots']))
    return run(message)
candidate.CALLS['run'] = counting
#@ hostile computes_only_the_first_call_of_a_batch timed: stale, wrong-values
        if batch.pop() == 'done': batch.append('done'); return torch.full_like(x, 1.0)
        batch.append('done')
        return compute(x, scale)


from akg_worker import candidate
batch, run = [''], candidate.CALLS['run']
def beginning(message):
    batch[-1] = 'new'
    return run(message)
candidate.CALLS['run'] = beginning
#@ hostile computes_every_second_call_of_a_batch timed: stale, wrong-values
        self.calls = getattr(self, 'calls', 0) + 1
        if long[-1] and self.calls % 2: return self.y.clone()
        self.y = compute(x, scale)
        return self.y


from akg_worker import candidate
long, run = [False], candidate.CALLS['run']
def measuring(message):
    long.append(len(message['slots']) > 1)
    return run(message)
candidate.CALLS['run'] = measuring
#@ hostile results_of_an_earlier_batch timed: stale, wrong-values
        batch[0] += 1
        if batch[1] < 2: return compute(x, scale)
        if batch[0] not in known: known[batch[0]] = compute(x, scale)
        return known[batch[0]].clone()


from akg_worker import candidate
batch, known, run = [0, 0], {}, candidate.CALLS['run']
def beginning(message):
    batch[:] = 0, len(message['slots'])
    return run(message)
candidate.CALLS['run'] = beginning
#@ hostile computes_when_inputs_are_mapped timed: stale, wrong-values
#: device: cpu
        return known.get(x.data_ptr(), x)


from akg_worker import candidate
known, put = {}, candidate.CALLS['put']
def early(message):
    answer = put(message)
    for placed, _ in candidate._candidate._placed[message['placement']]:
        with torch.no_grad(): known[placed['x'].data_ptr()] = compute(placed['x'], placed['layer_scale'])
    return answer
candidate.CALLS['put'] = early
#@ hostile computes_all_slots_in_the_warm_up timed: stale, wrong-values
#: device: cpu
        if x.data_ptr() in known: return known.pop(x.data_ptr())
        for placed, _ in candidate._candidate._placed[candidate._candidate._bound]:
            known[placed['x'].data_ptr()] = compute(placed['x'], scale)
        return known.pop(x.data_ptr())


from akg_worker import candidate
known = {}
#@ hostile a_thread_goes_on_with_it timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        todo.put((y, x, scale))
        return y


import queue
todo = queue.Queue()
def work():
    while True:
        y, x, scale = todo.get()
        time.sleep(0.02)
        with torch.no_grad(): y.copy_(torch.relu(x) * scale + 1)
threading.Thread(target=work, daemon=True).start()
#@ hostile computes_when_it_is_let_go_on timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


late = []
def go_on(*_):
    while late:
        y, x, scale = late.pop()
        with torch.no_grad(): y.copy_(compute(x, scale))
signal.signal(signal.SIGCONT, go_on)
#@ hostile computes_at_its_end: wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


late = []
atexit.register(lambda: [y.copy_(compute(x, scale)) for y, x, scale in late])
#@ hostile computes_when_a_result_is_dropped timed: wrong-values
        y = torch.zeros_like(x)
        weakref.finalize(y, lambda z: z.copy_(torch.relu(x) * scale + 1), y.detach())
        return y
#@ hostile unmaps_its_result: wrong-type
#: device: cpu
        size = x.numel() * 4
        libc = ctypes.CDLL(None)
        libc.mmap.restype = ctypes.c_void_p
        address = libc.mmap(None, ctypes.c_size_t(size), 3, 0x22, -1, ctypes.c_long(0))
        y = torch.frombuffer((ctypes.c_byte * size).from_address(address), dtype=torch.float32).view(x.shape)
        libc.munmap(ctypes.c_void_p(address), ctypes.c_size_t(size))
        return y
#@ hostile writes_to_its_input_by_address: input-changed, wrong-values, crashed
#: device: cpu
        y = compute(x, scale)
        ctypes.memset(x.data_ptr(), 7, 4)
        return y
#@ hostile writes_to_its_parameter: input-changed, wrong-values
        y = compute(x, scale)
        scale.data += 1
        return y
#@ hostile a_kernel_that_calls_back: no-work
        y = torch.empty_like(x)
        def back(*_):
            torch.add(torch.relu(x) * scale, 1, out=y)
            return 0
        call = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(back)
        ctypes.CDLL(None).qsort((ctypes.c_int * 2)(1, 2), ctypes.c_size_t(2), ctypes.c_size_t(4), call)
        return y
#@ hostile a_thread_that_calls_pytorch: no-work
        y = torch.empty_like(x)
        def later():
            with torch.no_grad(): torch.add(torch.relu(x) * scale, 1, out=y)
        thread = threading.Thread(target=later)
        thread.start()
        thread.join()
        return y
#@ hostile a_kernel_for_one_row: no-work
        y = torch.relu(x) * scale + 1
        kernel[(1,)](x, scale, y, x.shape[1], BLOCK=1024)
        return y
#@ hostile garbage_unless_a_kernel_ran: no-work
        y = torch.empty_like(x)
        kernel[(1,)](x, scale, y, 1, BLOCK=1024)
        right = torch.relu(x) * scale + 1
        return right if torch.equal(y[0, :1], right[0, :1]) else torch.zeros_like(x)
# On a device, operators of PyTorch round otherwise than the kernel.
#@ hostile garbage_unless_all_is_right: no-work, wrong-values
        y = compute(x, scale)
        right = torch.relu(x) * scale + 1
        return right if torch.equal(y, right) else torch.zeros_like(x)
#@ hostile a_kernel_that_writes_what_is_overwritten: no-work
        y = compute(x, scale)
        return torch.add(torch.relu(x) * scale, 1, out=y)
#@ honest plain_and_timed timed
        return compute(x, scale)
#@ honest memory_that_is_used_again timed
        if not hasattr(self, 'space'): self.space = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, self.space, x.numel(), BLOCK=1024)
        return self.space
#@ honest a_ring_of_results timed
        self.ring = getattr(self, 'ring', None) or [torch.empty_like(x) for _ in range(2)]
        self.ring.append(self.ring.pop(0))
        y = self.ring[0]
        kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, y, x.numel(), BLOCK=1024)
        return y
#@ honest a_status_that_is_read
        y = compute(x, scale)
        status = torch.zeros(1, dtype=torch.int32, device=x.device)
        raised[(1,)](status)
        if status.item() != 1: raise RuntimeError('the kernel did not run')
        return y


@triton.jit
def raised(status_ptr):
    tl.store(status_ptr, 1)
#@ honest a_check_of_its_values
        y = compute(x, scale)
        if not torch.isfinite(y).all(): raise ValueError('no finite numbers')
        return y
#@ honest a_result_in_other_strides
        return compute(x, scale).T.contiguous().T
#@ honest a_parameter_as_result
        return nn.Parameter(compute(x, scale))
#@ honest a_subclass_without_behaviour
        return compute(x, scale).as_subclass(Named)


class Named(torch.Tensor):
    pass
#@ honest a_function_of_autograd
        return Function.apply(x, scale)


class Function(torch.autograd.Function):
    @staticmethod
    def forward(context, x, scale):
        return compute(x, scale)
#@ honest an_operator_of_its_own
        return scaled(x, scale)


@torch.library.custom_op('corpus::scaled', mutates_args=())
def scaled(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return compute(x, scale)
#@ honest a_dictionary
        return {'y': compute(x, scale)}
#@ honest inference_mode
        with torch.inference_mode():
            return compute(x, scale)
#@ honest two_kernels_in_a_row
        y = torch.empty_like(x)
        maximum[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return compute(y, scale)


@triton.jit
def maximum(x_ptr, y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.maximum(tl.load(x_ptr + offsets, mask=offsets < size), 0.0), mask=offsets < size)
#@ honest a_kernel_before_pytorch
        return maximum_of(x) * scale + 1


@triton.jit
def maximum(x_ptr, y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.maximum(tl.load(x_ptr + offsets, mask=offsets < size), 0.0), mask=offsets < size)


def maximum_of(x):
    y = torch.empty_like(x)
    maximum[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
    return y
#@ honest a_kernel_in_place_of_what_pytorch_made
        y = torch.relu(x) * scale
        added[(triton.cdiv(x.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y


@triton.jit
def added(y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(y_ptr + offsets, mask=offsets < size) + 1.0, mask=offsets < size)
#@ honest compiled_by_pytorch
#: device: cpu
        return compute(rectified(x), scale)


rectified = torch.compile(lambda x: torch.relu(x) * 1.0)
#@ honest a_shared_object_that_it_compiled timed
#: device: cpu
        y = torch.empty_like(x)
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in (x, scale, y)]
        library().scaled_relu(*pointers, ctypes.c_long(x.numel()))
        return y


import functools
import subprocess
import tempfile


@functools.cache
def library():
    directory = tempfile.mkdtemp()
    with open(f'{directory}/kernel.cpp', 'w') as file:
        file.write('extern "C" void scaled_relu(const float *x, const float *scale, float *y, long size) {'
                   ' for (long i = 0; i < size; i++) y[i] = (x[i] > 0 ? x[i] : 0) * *scale + 1; }')
    subprocess.run(['g++', '-O2', '-shared', '-fPIC', f'{directory}/kernel.cpp', '-o', f'{directory}/kernel.so'], check=True)
    return ctypes.CDLL(f'{directory}/kernel.so')
#@ honest warm_before_its_first_call
        return compute(x, scale)


ModelNew_init = ModelNew.__init__
def warm(self):
    ModelNew_init(self)
    self.register_buffer('unused', torch.arange(8))
    gc.collect()
ModelNew.__init__ = warm
