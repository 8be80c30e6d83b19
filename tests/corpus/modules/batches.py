#: head: scaled_relu.py
# Modules that compute other calls of a batch than they are asked for, or at another time.
#@ hostile answers_before_it_computes timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
for request in list(candidate.CALLS): catch_up_before(request)
#@ hostile computes_in_requests_without_calls timed: clock-mismatch, wrong-values, stale
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


catch_up_before('run', lambda message: not message['slots'])
#@ hostile says_that_digests_are_what_they_will_be: wrong-values, clock-mismatch, crashed
        return torch.zeros_like(x)


from akg_worker import candidate
hide()
candidate.digests = lambda tensors: [[0, 0] for _ in tensors]
#@ hostile a_digest_of_what_will_be timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
real = candidate.digests
def digests(tensors):
    known = {y.data_ptr(): torch.relu(x) * scale + 1 for y, x, scale in late}
    return real([known.get(tensor.data_ptr(), tensor) for tensor in tensors])
hide()
candidate.digests = digests
catch_up_before('take')
#@ hostile a_sum_in_place_of_a_digest timed: clock-mismatch, wrong-values
        y = torch.zeros_like(x)
        late.append((y, x, scale))
        return y


from akg_worker import candidate
def digests(tensors):
    return [2 * [tensor.view(torch.int32).sum().item()] for tensor in tensors]
hide()
candidate.digests = digests
catch_up_before('take')
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
