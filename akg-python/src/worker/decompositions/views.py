"""New tensors, and parts of tensors that strides or diagonals name."""

import itertools

import torch

from akg_worker.decompositions.registry import aten, of
from akg_worker.decompositions.scatter import put_rows


@of(aten.empty.memory_format)
def empty(size, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    # Whatever reads it before it is written reads anything.
    return aten.full(size, 0, dtype=dtype or torch.get_default_dtype(), device=device)


@of(aten.empty_strided.default, aten.empty_permuted.default)
def empty_strided(size, order, *, dtype=None, layout=None, device=None, pin_memory=None):
    return empty(size, dtype=dtype, device=device)


@of(aten.empty_like.default)
def empty_like(self, *, dtype=None, layout=None, device=None, pin_memory=None, memory_format=None):
    return empty(self.shape, dtype=dtype or self.dtype, device=device or self.device)


@of(aten.new_empty.default)
def new_empty(self, size, *, dtype=None, layout=None, device=None, pin_memory=None):
    return empty(size, dtype=dtype or self.dtype, device=device or self.device)


@of(aten.new_empty_strided.default)
def new_empty_strided(self, size, stride, *, dtype=None, layout=None, device=None, pin_memory=None):
    return new_empty(self, size, dtype=dtype, device=device)


def stored(self):
    """The elements of a tensor in the order of its storage, of which they must be all in one piece, and that order."""
    order = sorted(range(self.dim()), key=lambda dim: (-self.stride(dim), -self.shape[dim]))
    expected = 1
    for dim in reversed(order):
        if self.shape[dim] > 1 and self.stride(dim) != expected:
            raise NotImplementedError("a tensor that leaves out or repeats parts of its storage")
        expected *= self.shape[dim]
    return self.permute(order).reshape(-1), order


def strided_places(self, size, stride, offset):
    """Where each element of a view by strides lies in the storage, counted from the first element of `self`."""
    first = self.storage_offset()
    offset = 0 if offset is None else offset - first
    last = offset + sum((extent - 1) * step for extent, step in zip(size, stride))
    if 0 not in size and (offset < 0 or last >= self.numel()):
        raise NotImplementedError("a view of a part of the storage that the tensor does not have")
    place = torch.full(size, offset, dtype=torch.int64, device=self.device)
    for dim, (extent, step) in enumerate(zip(size, stride)):
        steps = torch.arange(extent, device=self.device) * step
        place = place + steps.reshape(-1, *[1] * (len(size) - dim - 1))
    return place.reshape(-1)


@of(aten.as_strided.default, aten.as_strided_copy.default)
def as_strided(self, size, stride, storage_offset=None):
    if 0 in size:
        return torch.zeros(size, dtype=self.dtype, device=self.device)
    return stored(self)[0].index_select(0, strided_places(self, size, stride, storage_offset)).reshape(size)


@of(aten.as_strided_scatter.default)
def as_strided_scatter(self, src, size, stride, storage_offset=None):
    if 0 in size or self.numel() == 0:
        return self.clone()
    flat, order = stored(self)
    place = strided_places(self, size, stride, storage_offset)
    values = src.expand(size).reshape(-1, 1)
    flat = put_rows(flat.reshape(-1, 1), place, values, False)
    back = [order.index(dim) for dim in range(self.dim())]
    return flat.reshape([self.shape[dim] for dim in order]).permute(back)


@of(aten.resize.default)
def resize(self, size, *, memory_format=None):
    """The first elements in another shape; what is added is not defined."""
    flat = stored(self)[0]
    count = torch.Size(size).numel()
    if count > flat.shape[0]:
        flat = aten.constant_pad_nd(flat, [0, count - flat.shape[0]])
    return flat.narrow(0, 0, count).reshape(size)


@of(aten.resize_as.default)
def resize_as(self, the_template, *, memory_format=None):
    return resize(self, the_template.shape)


@of(aten.combinations.default)
def combinations(self, r=2, with_replacement=False):
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    chosen = list(choose(range(self.shape[0]), r))
    if not chosen or r == 0:
        return torch.zeros([0 if r == 0 else len(chosen), *([] if r == 0 else [r])], dtype=self.dtype, device=self.device)
    return torch.stack([torch.stack([self[place] for place in places]) for places in chosen])


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
