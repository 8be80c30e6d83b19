"""What writes to places that indices name: results are the same in every run."""

import torch

from akg_worker.decompositions.elementwise import working
from akg_worker.decompositions.ordering import least_of
from akg_worker.decompositions.registry import aten, of


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
        return put_by_mask(self, given, named, values, accumulate)
    if len(given) == 1 and not accumulate:
        return put_slices(self, named[0], given[0], values)
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


def put_slices(self, dim, index, values):
    """`self` with `values` where an index names places along `dim`: one operator, which may be done in place."""
    before, after = self.shape[:dim], self.shape[dim + 1 :]
    result = [*before, *index.shape, *after]
    if list(values.shape) != result:
        values = values.expand(result)
    if index.dim() != 1:
        values = values.reshape([*before, index.numel(), *after])
        index = index.reshape(-1)
    return aten.index_copy.default(self, dim, index.to(torch.int64), values)


def put_by_mask(self, given, named, values, accumulate):
    if len(given) > 1 or named != [0]:
        raise NotImplementedError("what a mask names beside others depends on values")
    mask = given[0].to(torch.bool)
    rest = self.shape[mask.dim() :]
    if values.dim() > len(rest) and values.shape[0] != 1:
        # One row for each place that the mask names, in their order.
        if values.shape[0] == 0:
            return self.clone()
        number = (mask.reshape(-1).to(torch.int64).cumsum(0) - 1).clamp(0, values.shape[0] - 1)
        values = values.index_select(0, number).expand(mask.numel(), *rest).reshape(self.shape)
    elif values.dim() > len(rest):
        values = values[0]
    mask = mask.reshape(*mask.shape, *[1] * len(rest))
    return torch.where(mask, self + values if accumulate else values, self).to(self.dtype)


def len_of(shape):
    return torch.Size(shape).numel()


def put_rows(table, number, values, accumulate):
    """`table [T, D]` with the rows of `values [J, D]` at the places `number [J]`, or added there; the last one stays."""
    if values.numel() == 0:
        return table.clone()
    named = number == torch.arange(table.shape[0], device=table.device).unsqueeze(-1)
    if accumulate:
        return table + torch.where(named.unsqueeze(-1), values, 0).sum(1).to(table.dtype)
    last = torch.where(named, torch.arange(number.shape[0], device=table.device), -1).amax(-1)
    return torch.where((last >= 0).unsqueeze(-1), values.index_select(0, last.clamp(min=0)), table)


@of(aten.put.default)
def put(self, index, source, accumulate=False):
    if index.numel() == 0:
        return self.clone()
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
    missing = []
    for other in range(rows.dim() - 1):
        src = src.narrow(other, 0, index.shape[other])
        missing = [0, rows.shape[other] - index.shape[other], *missing]
    src = src.narrow(-1, 0, index.shape[-1])
    if any(missing):
        # Rows that the index does not have get nothing: no place has the number -1.
        src = aten.constant_pad_nd(src, [0, 0, *missing])
        index = aten.constant_pad_nd(index, [0, 0, *missing], -1)
    places = torch.arange(rows.shape[-1], device=self.device).unsqueeze(-1)
    return rows, src, index.unsqueeze(-2) == places


def scattered(function):
    """A function of rows, scattered rows and where they go, as one of tensors along `dim`."""

    def along(self, dim, index, src):
        if self.numel() == 0 or index.numel() == 0:
            return self.clone()
        if self.dim() == 0:
            return along(self.reshape(1), 0, index.reshape(1), src.reshape(1)).reshape(())
        if index.dim() == 0:
            index, src = index.reshape(1), src.reshape(1)
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
    return scatter_reduce(self, dim, index, src, "sum")


@of(aten.scatter.reduce)
def scatter_with(self, dim, index, src, *, reduce):
    return scatter_reduce(self, dim, index, src, {"add": "sum", "multiply": "prod"}[reduce])


@of(aten.scatter.value_reduce)
def scatter_value_with(self, dim, index, value, *, reduce):
    return scatter_with(self, dim, index, torch.full_like(index, value, dtype=self.dtype), reduce=reduce)


@of(aten.scatter_reduce.two)
def scatter_reduce(self, dim, index, src, reduce, *, include_self=True):
    return scattered(lambda *rows: combined(*rows, reduce, include_self))(self, dim, index, src)


def combined(rows, src, goes, reduce, include_self):
    src = src.unsqueeze(-2)
    if reduce in ("amax", "amin"):
        sign = 1 if reduce == "amax" else -1
        extreme, both = (torch.amax, torch.maximum) if sign > 0 else (torch.amin, torch.minimum)
        found = extreme(torch.where(goes, src, least_of(src.dtype, sign)), -1)
        found = both(rows, found) if include_self else found
    elif reduce == "prod":
        found = torch.where(goes, src, torch.ones_like(src)).prod(-1).to(rows.dtype)
        found = rows * found if include_self else found
    else:
        wide = working(rows.dtype)
        found = torch.where(goes, src, torch.zeros_like(src)).to(wide).sum(-1)
        found = rows.to(wide) + found if include_self else found
        if reduce == "mean":
            # Where nothing goes, the row stays.
            count = (goes.sum(-1) + (1 if include_self else 0)).clamp(min=1)
            found = found / count if rows.is_floating_point() else found.div(count, rounding_mode="floor")
        found = found.to(rows.dtype)
    return torch.where(goes.any(-1), found, rows)


@of(aten.index_reduce.default)
def index_reduce(self, dim, index, source, reduce, *, include_self=True):
    if self.dim() == 0:
        self, source = self.reshape(1), source.reshape(1)
        return index_reduce(self, 0, index, source, reduce, include_self=include_self).reshape(())
    places = index.reshape(-1, *[1] * (self.dim() - 1 - dim % self.dim())).expand(source.shape)
    return scatter_reduce(self, dim, places, source, reduce, include_self=include_self)


@of(aten.take.default)
def take(self, index):
    number = flat_places([self.numel()], [index.reshape(-1)])
    return self.reshape(-1).index_select(0, number).reshape(index.shape)


@of(aten.segment_reduce.default)
def segment_reduce(data, reduce, *, lengths=None, indices=None, offsets=None, axis=0, unsafe=False, initial=None):
    if lengths is None and offsets is None:
        raise NotImplementedError("segments by indices")
    if offsets is not None:
        ends, starts = offsets[..., 1:], offsets[..., :-1]
    else:
        ends = lengths.cumsum(-1)
        starts = ends - lengths
    # [.., segments, places]: the axis is the last dimension of the lengths.
    place = torch.arange(data.shape[axis], device=data.device)
    inside = (starts.unsqueeze(-1) <= place) & (place < ends.unsqueeze(-1))
    inside = inside.reshape(*inside.shape, *[1] * (data.dim() - axis - 1))
    rows = data.unsqueeze(axis)
    at = axis + 1
    # The length and the initial value decide what an empty segment becomes.
    if reduce in ("max", "min"):
        extreme, both = (torch.amax, torch.maximum) if reduce == "max" else (torch.amin, torch.minimum)
        least = -float("inf") if reduce == "max" else float("inf")
        found = extreme(torch.where(inside, rows, least), at)
        return found if initial is None else both(found, torch.full_like(found, initial))
    if reduce == "prod":
        found = torch.where(inside, rows, 1).prod(at)
        return found if initial is None else found * initial
    found = torch.where(inside, rows, 0).sum(at)
    found = found if initial is None else found + initial
    if reduce == "mean":
        count = inside.sum(at)
        nothing = (count == 0) if initial is None else torch.zeros_like(count, dtype=torch.bool)
        found = torch.where(nothing, float("nan"), found / count.clamp(min=1))
    return found


@of(aten.unfold_backward.default)
def unfold_backward(grad_in, input_sizes, dim, size, step):
    if not input_sizes:
        return grad_in.reshape(-1)[0]
    windows = torch.arange(grad_in.shape[dim], device=grad_in.device) * step
    place = (windows.unsqueeze(-1) + torch.arange(size, device=grad_in.device)).reshape(-1)
    rows = grad_in.movedim(dim, -2).flatten(-2)
    shape = list(rows.shape[:-1])
    zeros = torch.zeros([*shape, input_sizes[dim]], dtype=grad_in.dtype, device=grad_in.device)
    if rows.shape[-1] == 0:
        return zeros.movedim(-1, dim)
    return scatter_reduce(zeros, -1, place.expand(rows.shape), rows, "sum").movedim(-1, dim)
