"""A candidate that is a module: `ModelNew`, called on tensors that the judge chose.

The module's code shares this process and may do to it what it likes, so nothing that is said here can make a candidate pass.
The answer to `run` names addresses; the judge stops this process and reads what lies there before it goes on. What was not
computed by then is not there.
"""

import faulthandler
import inspect

import torch

from akg_worker import baseline, tensors
from akg_worker.digest import digests
from akg_worker.errors import CallError
from akg_worker.held import name_of
from akg_worker.held import places as held_places
from akg_worker.left_behind import LeftBehind
from akg_worker.module import Attributes, load, user_code
from akg_worker.structure import tensors_in

_begun, _candidate = None, None


def begin(message):
    """Makes the process ready for a module, and notes what it must leave as it is."""
    global _begun
    # Says where it died.
    faulthandler.enable()
    torch.set_num_threads(message["threads"])
    device = torch.device(message["device"])
    if device.type == "cuda":
        torch.cuda.init()
        torch.cuda.set_device(device.index or 0)
    watch = None
    if message["idle"]:
        from akg_worker import watch as watching

        watch = watching.Watch()
        watch.wrap_kernels()
    _begun = device, watch, LeftBehind(message["path"])
    return {}


def open_module(message):
    """Loads a module and constructs its class."""
    global _candidate
    _candidate = Candidate(message, *_begun)
    return _candidate.left()


def left(_):
    """Says what the module left behind."""
    return _candidate.left()


def put(message):
    """Maps the inputs of a placement, slot by slot. On a device they are copied, to the addresses that belong to the placement."""
    _candidate.put(message["placement"], message["slots"], message["fresh"], message["known"])
    return {}


def flush(message):
    """Empties the caches of a device. A candidate that leaves that out is measured with warm ones."""
    baseline.flush(message["bytes"], _candidate.device)
    return {}


def run(message):
    """Calls the module on these slots, and says where the results of all calls are."""
    with torch.no_grad():
        answer = _candidate.run(message["placement"], message["bind"], message["slots"])
        # The end of this block undoes it.
        _candidate.gradients |= torch.is_grad_enabled()
        return answer


def take(message):
    """Copies results of a device, and says where the copies are."""
    with torch.no_grad():
        return _candidate.take(message["slots"])


def trip(_):
    """Does nothing, for the judge to see what that takes."""
    return {}


CALLS = {
    "begin": begin,
    "open": open_module,
    "put": put,
    "flush": flush,
    "run": run,
    "take": take,
    "left": left,
    "trip": trip,
}


class WrongResults(Exception):
    """What a module returned are no tensors in dense memory."""


class Candidate:
    def __init__(self, message, device, watch, left_behind):
        path, name = message["path"], message["class"]
        module = load(path, {name: "class"})
        initial = getattr(module, "get_init_inputs", list)
        with user_code("`get_init_inputs`", path):
            initial = initial()
        with torch.no_grad(), user_code(f"the constructor of `{name}`", path):
            model = getattr(module, name)(*initial)
            self._model = model.to(device) if isinstance(model, torch.nn.Module) else model
        if not callable(self._model):
            raise CallError("invalid-input", f"`{name}` must be a torch.nn.Module, or have a method `__call__`")
        left_behind.constructed()
        self._left_behind, self.gradients = left_behind, False
        self._path, self._name, self.device = path, name, device
        self._readable, self._watch = message["readable"], watch
        self._inputs, self._states, self._layouts = message["inputs"], message["states"], message["layouts"]
        self._attributes = Attributes(self._model)
        self._places = {name: place for name, place in places(self._model).items() if name in self._inputs}
        self._check_arguments()
        # The slots of each placement: their tensors, and what these are copies of.
        self._placed = {}
        # The same tensors as the module takes them.
        self._given = {}
        # The placement, the number of the bind, and the module's own tensors that slots do not share.
        self._bound, self._number, self._own = None, None, []
        # What calls since the last bind returned, by their slot; the slots by the addresses of that; and whether the module
        # returns the same memory again, so that results must be copied before the next call.
        self._results, self._slot_at, self._copies = {}, {}, False
        self._taken, self._last = [], []
        # Bytes that one call returned.
        self._returned = 0

    def _check_arguments(self):
        arguments = [name for name in self._inputs if name not in self._places]
        forward = getattr(self._model, "forward", self._model)
        try:
            inspect.signature(forward).bind(*arguments)
        except TypeError as error:
            own = ", ".join(places(self._model)) or "none"
            message = (
                f"`forward` of `{self._name}` is called with the inputs that are named like none of its tensors ({own}), in their "
                f"order: {', '.join(arguments) or 'none'}; but {error}"
            )
            raise CallError("invalid-input", message) from None
        except ValueError:
            pass  # it does not say what it takes

    def left(self):
        """What is not as it was before the module was loaded."""
        evidence = self._left_behind.evidence()
        if evidence is None and self.gradients:
            evidence = "the candidate left gradients enabled, with which it is called without them"
        return {"left": evidence}

    def put(self, placement, slots, fresh, known):
        if fresh:
            self._placed.clear()
            self._given.clear()
        self._number = None
        self._drop()
        # On the processor, the module gets the judge's memory, which the judge writes later. Slots share what has the same
        # place.
        files = tensors.Files(shared=self._readable)
        before = self._placed.get(placement, []) if known else []
        placed, made = [], {}
        for number, descriptors in enumerate(slots):
            pair = {}, {}
            for name, descriptor in zip(self._inputs, descriptors):
                key = name, descriptor["offset"]
                if key not in made:
                    given = files.tensor(descriptor)
                    if self._readable:
                        made[key] = given, None
                    elif before:
                        made[key] = before[number][0][name].copy_(given), given
                    else:
                        made[key] = given.to(self.device, copy=True), given
                pair[0][name], pair[1][name] = made[key]
            placed.append(pair)
        if self._readable:
            files.touch()
            # As long as there are as many slots, the memory of their results is used again.
            tensors.reserve(len(slots) * self._returned)
        self._placed[placement] = placed
        self._given[placement] = [
            {name: tensors.seen(tensor, self._layouts.get(name)) for name, tensor in slot.items()} for slot, _ in placed
        ]

    def run(self, placement, number, slots):
        if self._number != number:
            self._number = number
            self._bind(placement)
        try:
            return self._answer(slots)
        except WrongResults as error:
            return {"wrong": str(error)}

    def _answer(self, slots):
        if self._watch and slots:
            return self._watched(slots)
        for slot in slots:
            self._keep(slot, self._call(slot))
        if self._readable:
            return located([(slot, self._results[slot]) for slot in dict.fromkeys(slots)])
        # Without a call, what the last calls returned: the time of that is subtracted.
        self._last = list(dict.fromkeys(slots)) or self._last
        answer = self._committed(self._last)
        return answer if slots else {}

    def _committed(self, slots):
        """Digests of results on a device, and their types."""
        results = [(slot, self._results[slot]) for slot in slots]
        roots = iter(digests([result for _, each in results for result in each]))
        return {
            "types": types_of(results),
            "digests": [(slot, [next(roots) for _ in each]) for slot, each in results],
        }

    def _watched(self, slots):
        """One call of which the judge wants to know what its kernels write."""
        placed, _ = self._placed[self._bound][slots[-1]]
        given = list(placed.values()) + self._tensors()
        watch, self._watch = self._watch, None
        results = [dense(result) for result in watch.call(lambda: self._call(slots[-1]), given)]
        if watch.verdict:
            return {"idle": watch.verdict}
        self._results.update(dict.fromkeys(slots, results))
        each = list(dict.fromkeys(slots))
        answer = located([(slot, results) for slot in each]) if self._readable else self._committed(each)
        return {**answer, "share": watch.share}

    def _tensors(self):
        """The module's own tensors."""
        if not isinstance(self._model, torch.nn.Module):
            return []
        return [self._attributes.get(path) for path in places(self._model).values()]

    def _keep(self, slot, returned):
        """Keeps what a call returned until its slot is called again."""
        results = [dense(result) for result in returned]
        addresses = [result.data_ptr() for result in results]
        # Copies of what is overwritten already are wrong; the calls after these are right.
        self._copies = self._copies or any(self._slot_at.get(address, slot) != slot for address in addresses)
        if self._copies:
            results = [result.clone() for result in results]
        else:
            self._slot_at.update(dict.fromkeys(addresses, slot))
        self._results[slot] = results

    def _drop(self):
        for results in self._results.values():
            self._returned = sum(result.nbytes for result in results)
        self._results.clear()
        self._slot_at.clear()
        self._taken, self._last = [], []

    def _bind(self, placement):
        """Gives the module its own tensors. Those that differ between slots are given again with each call."""
        self._bound = placement
        self._drop()
        first, *others = [placed for placed, _ in self._placed[placement]]
        names = [name for name in self._places if name not in self._states]
        for name in names:
            self._attributes.set(self._places[name], first[name])
        self._own = [name for name in names if any(other[name] is not first[name] for other in others)]

    def _call(self, slot):
        placed = self._given[self._bound][slot]
        for name in self._own:
            self._attributes.set(self._places[name], placed[name])
        # Every call begins with the state that was given, which it may write to.
        states = {name: placed[name].clone() for name in self._states}
        for name in self._states:
            if name in self._places:
                self._attributes.set(self._places[name], states[name])
        arguments = [states.get(name, placed[name]) for name in self._inputs if name not in self._places]
        with user_code(f"`forward` of `{self._name}`", self._path):
            returned = self._model(*arguments)
        results = tensors_in(returned)
        for name in self._states:
            results.append(self._attributes.get(self._places[name]) if name in self._places else states[name])
        return results

    def take(self, slots):
        self._taken = [(slot, [result.cpu() for result in self._results[slot]]) for slot in slots]
        placed = [self._placed[self._bound][slot] for slot in slots]
        # Bytes: NaN is equal to itself. There is no second copy of what the judge's memory holds.
        changed = any(
            given[name] is not None and not torch.equal(octets(tensor.cpu()), octets(given[name]))
            for tensor_of, given in placed
            for name, tensor in tensor_of.items()
        )
        return {**located(self._taken), "changed": changed}


def dense(result):
    """A result as a plain tensor whose elements lie in their order."""
    try:
        if type(result) is not torch.Tensor:
            with torch._C.DisableTorchFunctionSubclass():
                result = result.as_subclass(torch.Tensor)
        if result.is_neg():
            result = result.resolve_neg()
        return result if result.is_contiguous() else result.contiguous()
    except Exception as error:
        raise WrongResults(f"the module returned a tensor that is not in memory: {type(error).__name__}: {error}") from error


def located(called):
    """The addresses of the results of calls by their slot, and their types."""
    places = [(slot, [result.data_ptr() for result in results]) for slot, results in called]
    return {"types": types_of(called), "places": places}


def types_of(called):
    """The types of the results of calls, each list once."""
    types = {tuple((result.dtype, tuple(result.shape)) for result in results): None for _, results in called}
    try:
        return [[{"dtype": tensors.dtype_name(dtype), "shape": shape} for dtype, shape in each] for each in types]
    except CallError as error:
        raise WrongResults(str(error)) from error


def places(model):
    """The paths of a model's tensors, by the names that a graph has for them."""
    if not isinstance(model, torch.nn.Module):
        return {}
    paths = [path for path, _ in [*model.named_parameters(), *model.named_buffers()]]
    paths += [place.whole_path for place in held_places(model)]
    return {name_of(path): path for path in paths}


def octets(tensor):
    return tensor.detach().contiguous().reshape(-1).view(torch.uint8)
