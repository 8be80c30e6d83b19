#: head: scaled_relu.py
# Modules by the memory that they read, write, keep and name.
#@ honest a_copy_of_the_input_is_overwritten
        x = x.clone().mul_(1)
        return compute(x, scale)
#@ honest counts_its_calls
        self.calls = getattr(self, 'calls', 0) + 1
        return compute(x, scale)
#@ honest a_buffer_that_is_kept
        if not hasattr(self, 'space'): self.space = torch.empty_like(x)
        kernel[(triton.cdiv(x.numel(), 1024),)](x, scale, self.space, x.numel(), BLOCK=1024)
        return self.space.clone()
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
#@ hostile names_the_address_of_its_input: wrong-values, wrong-type, clock-mismatch
        inputs.append(x)
        return torch.zeros_like(x)


inputs = []
name_results_at(lambda: inputs[-1].data_ptr())
#@ hostile names_memory_that_is_not_there: wrong-type, wrong-values, clock-mismatch
        return torch.zeros_like(x)


name_results_at(lambda: 2 ** 46)
#@ hostile names_an_address_that_overflows: wrong-type, wrong-values, clock-mismatch
        return torch.zeros_like(x)


name_results_at(lambda: 2 ** 64 - 8)
#@ hostile names_no_number: crashed, wrong-type, clock-mismatch, wrong-values
        return torch.zeros_like(x)


name_results_at(lambda: -1)
#@ hostile names_memory_of_its_program: wrong-values, wrong-type, clock-mismatch
        return torch.zeros_like(x)


program = ctypes.cast(ctypes.CDLL(None).qsort, ctypes.c_void_p).value
name_results_at(lambda: program & ~63)
#@ hostile names_results_of_no_call: crashed, wrong-type, wrong-values, clock-mismatch
        return torch.zeros_like(x)


from akg_worker import candidate
hide()
candidate.located = lambda called: {'types': [], 'places': [(10 ** 6, [16])]}
#@ hostile says_nothing_of_its_results: crashed
        return torch.zeros_like(x)


from akg_worker import candidate
candidate.CALLS['run'] = lambda message: {}
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
#@ hostile remembers_results_by_the_sorted_elements: stale, wrong-values
#: device: cpu
        known = self.__dict__.setdefault('known', {})
        key = x.flatten().sort().values.numpy().tobytes(), scale.item()
        if key not in known: known[key] = compute(x, scale)
        return known[key].clone()
#@ hostile remembers_results_by_rounded_elements: stale, wrong-values
#: device: cpu
        known = self.__dict__.setdefault('known', {})
        key = (x * 1000).to(torch.int64).numpy().tobytes(), scale.item()
        if key not in known: known[key] = compute(x, scale)
        return known[key].clone()
