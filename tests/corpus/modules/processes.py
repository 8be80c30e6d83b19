#: head: scaled_relu.py
# Modules that end their process, or go on in it after they returned.
#@ hostile raises: crashed
        raise RuntimeError('no luck')
#@ hostile exits: crashed
        os._exit(0)
#@ hostile kills_itself: crashed
        os.kill(os.getpid(), signal.SIGKILL)
#@ hostile exits_when_it_is_loaded: load-failed
        return compute(x, scale)


sys.exit(0)
#@ hostile computes_in_the_background: clock-mismatch, wrong-values, left-behind
        y = torch.zeros_like(x)
        def later():
            time.sleep(0.05)
            y.copy_(torch.relu(x) * scale + 1)
        threading.Thread(target=later, daemon=True).start()
        return y
#@ hostile a_thread_goes_on_with_it timed: clock-mismatch, wrong-values, left-behind
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
#@ hostile computes_when_it_is_let_go_on timed: clock-mismatch, wrong-values, left-behind
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


late = []
def go_on(*_):
    while late:
        y, x, scale = late.pop()
        with torch.no_grad(): y.copy_(compute(x, scale))
signal.signal(signal.SIGCONT, go_on)
#@ hostile computes_at_its_end: wrong-values, left-behind
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


late = []
atexit.register(lambda: [y.copy_(compute(x, scale)) for y, x, scale in late])
#@ hostile computes_when_a_result_is_dropped timed: wrong-values
        y = torch.zeros_like(x)
        weakref.finalize(y, lambda z: z.copy_(torch.relu(x) * scale + 1), y.detach())
        return y
#@ hostile is_no_python: load-failed
        return compute(x, scale)


def
#@ hostile never_returns: timed-out
#: seconds: 15
        while True: pass
#@ hostile flushes_subnormal_numbers: left-behind
#: device: cpu
        torch.set_flush_denormal(True)
        return compute(x, scale)
#@ hostile another_default_type: left-behind
        y = compute(x, scale)
        torch.set_default_dtype(torch.float64)
        return y
#@ hostile replaces_a_function_of_pytorch: left-behind
        return compute(x, scale)


nn.functional.relu = lambda x, inplace=False: x
#@ hostile sets_a_variable: left-behind
        os.environ['OMP_NUM_THREADS'] = '1'
        return compute(x, scale)
#@ hostile draws_a_number: left-behind
        torch.rand(1)
        return compute(x, scale)
#@ hostile another_mask_of_file_modes: left-behind
        os.umask(0o77)
        return compute(x, scale)
#@ honest restores_what_it_changes
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        y = compute(x, scale)
        torch.set_num_threads(threads)
        return y
