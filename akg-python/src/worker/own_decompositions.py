"""Decompositions that PyTorch lacks, or has in terms that a functional graph of ATen's operators cannot hold."""

import torch

aten = torch.ops.aten
prims = torch.ops.prims

OWN = {}


def of(*ops):
    """Registers a function as the decomposition of operators."""

    def register(function):
        for op in ops:
            OWN[op] = function
        return function

    return register


@of(prims.convert_element_type.default)
def convert_element_type(a, dtype):
    return aten._to_copy(a, dtype=dtype)


@of(prims.iota.default)
def iota(length, *, start, step, dtype, device, requires_grad):
    return aten.arange.start_step(start, start + length * step, step, dtype=dtype, device=device)


@of(aten.signbit.default)
def signbit(self):
    if not self.dtype.is_floating_point:
        return self < 0
    # The reciprocal of a zero has its sign.
    return (self < 0) | ((self == 0) & (self.reciprocal() < 0))


@of(aten.copysign.Tensor, aten.copysign.Scalar)
def copysign(self, other):
    sign = signbit(other if isinstance(other, torch.Tensor) else torch.full_like(self, other))
    magnitude = self.abs()
    return torch.where(sign, -magnitude, magnitude)


@of(aten.fmax.default)
def fmax(self, other):
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, torch.maximum(self, other)))


@of(aten.fmin.default)
def fmin(self, other):
    return torch.where(self.isnan(), other, torch.where(other.isnan(), self, torch.minimum(self, other)))


@of(aten.hypot.default)
def hypot(self, other):
    # Squares of large and small numbers leave the range of their type; those of ratios do not.
    a, b = self.abs(), other.abs()
    large, small = torch.maximum(a, b), torch.minimum(a, b)
    ratio = torch.where((large == 0) | large.isinf(), 0.0, small / large)
    return large * (1 + ratio * ratio).sqrt()


@of(aten.__lshift__.Scalar, aten.__lshift__.Tensor, aten.bitwise_left_shift.Tensor, aten.bitwise_left_shift.Tensor_Scalar)
def shift_left(self, other):
    return shifted(self, other, lambda x, factor: x * factor)


@of(aten.__rshift__.Scalar, aten.__rshift__.Tensor, aten.bitwise_right_shift.Tensor, aten.bitwise_right_shift.Tensor_Scalar)
def shift_right(self, other):
    return shifted(self, other, lambda x, factor: torch.div(x, factor, rounding_mode="floor"))


def shifted(x, count, step):
    """`step` by 2, 4, 16, and so on, for each bit that `count` has: such factors are numbers of the type."""
    bits = torch.iinfo(x.dtype).bits.bit_length() - 1
    for bit in range(bits):
        factor = 1 << (1 << bit)
        if isinstance(count, torch.Tensor):
            x = torch.where((count & (1 << bit)) != 0, step(x, factor), x)
        elif int(count) >> bit & 1:
            x = step(x, factor)
    return x


@of(aten._cdist_forward.default, aten.cdist.default)
def cdist(x1, x2, p=2.0, compute_mode=None):
    difference = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    return torch.linalg.vector_norm(difference, p, dim=-1)


@of(aten._pdist_forward.default, aten.pdist.default)
def pdist(self, p=2.0):
    distances = cdist(self, self, p)
    return torch.cat([distances[row, row + 1 :] for row in range(self.shape[0])])


@of(aten.bilinear.default)
def bilinear(input1, input2, weight, bias=None):
    outputs, width1, width2 = weight.shape
    left = input1.reshape(-1, width1) @ weight.permute(1, 0, 2).reshape(width1, outputs * width2)
    product = left.reshape(-1, outputs, width2) * input2.reshape(-1, 1, width2)
    result = product.sum(-1).reshape(*input1.shape[:-1], outputs)
    return result if bias is None else result + bias


@of(aten.one_hot.default)
def one_hot(self, num_classes=-1):
    if num_classes < 0:
        raise NotImplementedError("the number of classes follows from values")
    classes = torch.arange(num_classes, device=self.device)
    return (self.unsqueeze(-1) == classes).to(torch.int64)


@of(aten.empty.memory_format)
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    # Whatever reads it before it is written reads anything.
    return aten.full(size, 0, dtype=dtype or torch.get_default_dtype(), device=device)


def moved_last(function):
    """A function of rows along the last dimension as one of rows along `dim`."""

    def along(self, dim, *arguments):
        if self.dim() == 0:
            results = function(self.reshape(1), *arguments)
            return tuple(result.reshape(()) for result in results)
        results = function(self.movedim(dim, -1), *arguments)
        return tuple(result.movedim(-1, dim) for result in results)

    return along


def is_nan(x):
    return x.isnan() if x.is_floating_point() else torch.zeros_like(x, dtype=torch.bool)


def goes_before(a, b, descending):
    """Two masks: `a` comes before `b` in an order in which NaN is the largest; they are equal."""
    first, second = (b, a) if descending else (a, b)
    first_nan, second_nan = is_nan(first), is_nan(second)
    before = (first < second) | (second_nan & ~first_nan)
    return before, (a == b) | (first_nan & second_nan)


@moved_last
def sorted_rows(x, count, descending):
    """The first `count` elements of sorted rows, and their places: the number of elements before each says where it goes."""
    length = x.shape[-1]
    place = torch.arange(length, device=x.device)
    before, equal = goes_before(x.unsqueeze(-2), x.unsqueeze(-1), descending)
    earlier = place < place.unsqueeze(-1)
    rank = (before | (equal & earlier)).sum(-1)
    goes_to = rank.unsqueeze(-2) == torch.arange(count, device=x.device).unsqueeze(-1)
    places = torch.where(goes_to, place, 0).sum(-1)
    return x.gather(-1, places), places


@of(aten.sort.default)
def sort(self, dim=-1, descending=False):
    return sorted_rows(self, dim, self.shape[dim] if self.dim() else 1, descending)


@of(aten.sort.stable)
def sort_stable(self, *, stable=None, dim=-1, descending=False):
    return sort(self, dim, descending)


@of(aten.topk.default)
def topk(self, k, dim=-1, largest=True, sorted=True):
    return sorted_rows(self, dim, k, largest)


@of(aten.kthvalue.default)
def kthvalue(self, k, dim=-1, keepdim=False):
    values, places = sorted_rows(self, dim, k, False)
    return kept(values, dim, k - 1, keepdim), kept(places, dim, k - 1, keepdim)


@of(aten.median.dim)
def median(self, dim, keepdim=False):
    values, places = kthvalue(self, (self.shape[dim] + 1) // 2 if self.dim() else 1, dim, keepdim)
    nan = is_nan(self)
    found = nan.any(dim, keepdim)
    first = nan.to(torch.int64).argmax(dim, keepdim)
    return torch.where(found, float("nan"), values) if self.is_floating_point() else values, torch.where(found, first, places)


@of(aten.median.default)
def median_of_all(self):
    return median(self.reshape(-1), 0)[0]


def kept(x, dim, place, keepdim):
    if x.dim() == 0:
        return x
    x = x.narrow(dim, place, 1)
    return x if keepdim else x.squeeze(dim)


def seen(length, device):
    """A mask of the elements of a row that stand at or before each."""
    place = torch.arange(length, device=device)
    return place <= place.unsqueeze(-1)


def extremes_so_far(x, least, reduce):
    length = x.shape[-1]
    before = seen(length, x.device)
    row = x.unsqueeze(-2)
    extreme = reduce(torch.where(before, row, least), -1)
    wide = extreme.unsqueeze(-1)
    hit = before & ((row == wide) | (is_nan(row) & is_nan(wide)))
    place = torch.arange(length, device=x.device)
    return extreme, torch.where(hit, place, -1).amax(-1)


def least_of(dtype, sign):
    if dtype.is_floating_point:
        return -sign * float("inf")
    info = torch.iinfo(dtype)
    return info.min if sign > 0 else info.max


@of(aten.cummax.default)
def cummax(self, dim):
    return moved_last(lambda x: extremes_so_far(x, least_of(x.dtype, 1), torch.amax))(self, dim)


@of(aten.cummin.default)
def cummin(self, dim):
    return moved_last(lambda x: extremes_so_far(x, least_of(x.dtype, -1), torch.amin))(self, dim)


@of(aten.logcumsumexp.default)
def logcumsumexp(self, dim):
    def rows(x):
        row = torch.where(seen(x.shape[-1], x.device), x.unsqueeze(-2), -float("inf"))
        return (row.logsumexp(-1),)

    return moved_last(rows)(self, dim)[0]


@of(aten.searchsorted.Tensor)
def searchsorted(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    rows = sorted_sequence.unsqueeze(-2) if sorted_sequence.dim() > 1 else sorted_sequence
    value = self.unsqueeze(-1)
    before = rows <= value if right or side == "right" else rows < value
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


def flat_places(shape, indices):
    """Numbers of the rows that indices along the first dimensions name; negative ones count from the end."""
    number = None
    for extent, index in zip(shape, indices):
        index = torch.where(index < 0, index + extent, index)
        number = index if number is None else number * extent + index
    return number


@of(aten.index_put.default, aten._unsafe_index_put.default)
def index_put(self, indices, values, accumulate=False):
    named = [dim for dim, index in enumerate(indices) if index is not None]
    given = [index for index in indices if index is not None]
    if any(index.dtype in (torch.bool, torch.uint8) for index in given):
        (mask,) = given
        if values.numel() != 1 or accumulate or named != [0]:
            raise NotImplementedError("what a mask names depends on values")
        mask = mask.reshape(*mask.shape, *[1] * (self.dim() - mask.dim()))
        return torch.where(mask, values.reshape(()), self)
    others = [dim for dim in range(self.dim()) if dim not in named]
    order = named + others
    table = self.permute(order)
    rows = table.shape[: len(named)]
    rest = table.shape[len(named) :]
    picked = torch.broadcast_shapes(*[index.shape for index in given])
    number = flat_places(rows, given).expand(picked).reshape(-1)
    # Values have the dimensions of an indexing's result: those of the indices stand where the named ones did if these are
    # neighbours, else in front.
    first = named[0] if named == list(range(named[0], named[-1] + 1)) else 0
    result = [*rest[:first], *picked, *rest[first:]]
    values = values.expand(result).movedim(
        list(range(first, first + len(picked))), list(range(len(picked)))
    )
    put = put_rows(table.reshape(rows.numel(), -1), number, values.reshape(len_of(picked), -1), accumulate)
    back = [order.index(dim) for dim in range(self.dim())]
    return put.reshape(table.shape).permute(back)


def len_of(shape):
    return torch.Size(shape).numel()


def put_rows(table, number, values, accumulate):
    """`table [T, D]` with the rows of `values [J, D]` at the places `number [J]`, or added there; the last one stays."""
    named = number == torch.arange(table.shape[0], device=table.device).unsqueeze(-1)
    if accumulate:
        return table + torch.where(named.unsqueeze(-1), values, 0).sum(1).to(table.dtype)
    last = torch.where(named, torch.arange(number.shape[0], device=table.device), -1).amax(-1)
    return torch.where((last >= 0).unsqueeze(-1), values.index_select(0, last.clamp(min=0)), table)


@of(aten.put.default)
def put(self, index, source, accumulate=False):
    flat = index_put(self.reshape(-1), [index.reshape(-1)], source.reshape(-1), accumulate)
    return flat.reshape(self.shape)


@of(aten.masked_scatter.default)
def masked_scatter(self, mask, source):
    shape = torch.broadcast_shapes(self.shape, mask.shape)
    self, mask = self.expand(shape), mask.expand(shape)
    place = mask.reshape(-1).to(torch.int64).cumsum(0) - 1
    taken = source.reshape(-1).index_select(0, place.clamp(0, source.numel() - 1))
    return torch.where(mask, taken.reshape(shape), self)


def spread(self, dim, index, src):
    """Rows of `self` and of `src`, `[.., T]` and `[.., J]`, and a mask of the element that goes to each place, `[.., T, J]`."""
    rows = self.movedim(dim, -1)
    index = index.movedim(dim, -1)
    src = src.movedim(dim, -1)
    for other in range(rows.dim() - 1):
        src = src.narrow(other, 0, index.shape[other])
        if rows.shape[other] != index.shape[other]:
            raise NotImplementedError("an index that is smaller than the tensor")
    src = src.narrow(-1, 0, index.shape[-1])
    places = torch.arange(rows.shape[-1], device=self.device).unsqueeze(-1)
    return rows, src, index.unsqueeze(-2) == places


def scattered(function):
    """A function of rows, scattered rows and where they go, as one of tensors along `dim`."""

    def along(self, dim, index, src):
        if self.dim() == 0:
            return along(self.reshape(1), 0, index.reshape(1), src.reshape(1)).reshape(())
        return function(*spread(self, dim, index, src)).movedim(-1, dim)

    return along


@scattered
def put_elements(rows, src, goes):
    last = torch.where(goes, torch.arange(src.shape[-1], device=src.device), -1).amax(-1)
    return torch.where(last >= 0, src.gather(-1, last.clamp(min=0)), rows)


@of(aten.scatter.src)
def scatter(self, dim, index, src):
    return put_elements(self, dim, index, src)


@of(aten.scatter.value)
def scatter_value(self, dim, index, value):
    return put_elements(self, dim, index, torch.full_like(index, value, dtype=self.dtype))


@of(aten.scatter_add.default)
def scatter_add(self, dim, index, src):
    def add(rows, src, goes):
        return rows + torch.where(goes, src.unsqueeze(-2), 0).sum(-1).to(rows.dtype)

    return scattered(add)(self, dim, index, src)


@of(aten.scatter_reduce.two)
def scatter_reduce(self, dim, index, src, reduce, *, include_self=True):
    def combine(rows, src, goes):
        any_goes = goes.any(-1)
        src = src.unsqueeze(-2)
        if reduce in ("amax", "amin"):
            sign = 1 if reduce == "amax" else -1
            extreme, both = (torch.amax, torch.maximum) if sign > 0 else (torch.amin, torch.minimum)
            found = extreme(torch.where(goes, src, least_of(src.dtype, sign)), -1)
            return torch.where(any_goes, both(rows, found) if include_self else found, rows)
        if reduce == "prod":
            found = torch.where(goes, src, 1).prod(-1).to(rows.dtype)
            return torch.where(any_goes, rows * found if include_self else found, rows)
        total = torch.where(goes, src, 0).sum(-1).to(rows.dtype)
        total = rows + total if include_self else total
        if reduce == "mean":
            count = goes.sum(-1) + (1 if include_self else 0)
            total = total / count if rows.is_floating_point() else total.div(count, rounding_mode="floor").to(rows.dtype)
        return torch.where(any_goes, total, rows)

    return scattered(combine)(self, dim, index, src)


@of(aten._embedding_bag_forward_only.default, aten._embedding_bag.default)
def embedding_bag(
    weight,
    indices,
    offsets,
    scale_grad_by_freq=False,
    mode=0,
    sparse=False,
    per_sample_weights=None,
    include_last_offset=False,
    padding_idx=-1,
):
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    place = torch.arange(indices.shape[0], device=indices.device)
    number = (offsets[:bags].unsqueeze(-1) <= place).sum(0) - 1
    counted = indices != padding_idx
    inside = (number == torch.arange(bags, device=indices.device).unsqueeze(-1)) & counted
    rows = weight.index_select(0, indices)
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    inside = inside.unsqueeze(-1)
    if mode == 2:
        found = torch.where(inside, rows, -float("inf")).amax(1)
        result = torch.where(inside.any(1), found, 0.0)
    else:
        result = torch.where(inside, rows, 0.0).sum(1)
        if mode == 1:
            result = result / inside.sum(1).clamp(min=1)
    nothing = aten.full([0], 0, dtype=indices.dtype, device=indices.device)
    return result, nothing, nothing, nothing


@of(aten.histc.default)
def histc(self, bins=100, min=0, max=0):
    x = self.reshape(-1)
    low = torch.full_like(x[0], min) if min != max else x.amin()
    high = torch.full_like(x[0], max) if min != max else x.amax()
    low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    place = ((x - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    inside = (x >= low) & (x <= high)
    hits = (place == torch.arange(bins, device=x.device).unsqueeze(-1)) & inside
    return hits.sum(-1).to(self.dtype)


@of(aten.as_strided.default)
def as_strided(self, size, stride, storage_offset=None):
    place = torch.full(size, storage_offset or 0, dtype=torch.int64, device=self.device)
    for dim, (extent, step) in enumerate(zip(size, stride)):
        steps = torch.arange(extent, device=self.device) * step
        place = place + steps.reshape(-1, *[1] * (len(size) - dim - 1))
    return self.reshape(-1).index_select(0, place.reshape(-1)).reshape(size)


def along_diagonal(x, offset, dim1, dim2):
    """`x` with the two dimensions last, the length of the diagonal, and where it begins."""
    x = x.movedim((dim1, dim2), (-2, -1))
    row, column = max(-offset, 0), max(offset, 0)
    return x, max(min(x.shape[-2] - row, x.shape[-1] - column), 0), row, column


@of(aten.diagonal.default, aten.diagonal_copy.default)
def diagonal(self, offset=0, dim1=0, dim2=1):
    x, length, row, column = along_diagonal(self, offset, dim1, dim2)
    place = torch.arange(length, device=self.device)
    return x[..., place + row, place + column]


@of(aten.diagonal_scatter.default)
def diagonal_scatter(self, src, offset=0, dim1=0, dim2=1):
    x, length, row, column = along_diagonal(self, offset, dim1, dim2)
    rows = torch.arange(x.shape[-2], device=self.device)
    columns = torch.arange(x.shape[-1], device=self.device)
    on_diagonal = rows.unsqueeze(-1) + offset == columns
    values = src.index_select(-1, (rows - row).clamp(0, length - 1)).unsqueeze(-1)
    return torch.where(on_diagonal, values, x).movedim((-2, -1), (dim1, dim2))
