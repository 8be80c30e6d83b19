#: head: scaled_relu.py
# Modules by who does the work: kernels or PyTorch.
#@ hostile only_pytorch_computes: no-work
        return torch.relu(x) * scale + 1
#@ hostile only_pytorch_computes_after_a_slow_beginning: no-work
        if not hasattr(self, 'begun'): self.begun = time.sleep(2)
        return torch.relu(x) * scale + 1


time.sleep(2)
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
#@ honest a_status_that_is_read
        y = compute(x, scale)
        status = torch.zeros(1, dtype=torch.int32, device=x.device)
        raised[(1,)](status)
        if status.item() != 1: raise RuntimeError('the kernel did not run')
        return y


@triton.jit
def raised(status_ptr):
    tl.store(status_ptr, 1)
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
#@ hostile pytorch_computes_and_libc_copies: no-work
#: device: cpu
        right = torch.relu(x) * scale + 1
        y = torch.empty_like(x)
        ctypes.memmove(y.data_ptr(), right.data_ptr(), y.nbytes)
        return y
#@ hostile a_kernel_copies_what_pytorch_computed: no-work
        right = torch.relu(x) * scale + 1
        y = torch.empty_like(x)
        copied[(triton.cdiv(x.numel(), 1024),)](right, y, x.numel(), BLOCK=1024)
        return y


@triton.jit
def copied(x_ptr, y_ptr, size, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=offsets < size), mask=offsets < size)
#@ hostile a_thread_that_waits_calls_pytorch: no-work, left-behind
#: device: cpu
        if not hasattr(self, 'thread'):
            self.thread = threading.Thread(target=answer, daemon=True)
            self.thread.start()
        asked.put((x, scale))
        right = answered.get()
        y = torch.empty_like(x)
        ctypes.memmove(y.data_ptr(), right.data_ptr(), y.nbytes)
        return y


import queue

asked, answered = queue.Queue(), queue.Queue()


def answer():
    while True:
        x, scale = asked.get()
        with torch.no_grad():
            answered.put(torch.relu(x) * scale + 1)
