"""Sorts, ranks, medians and cumulative extremes: what goes where follows from counting."""

import builtins

import torch

from akg_worker.decompositions.registry import aten, of


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


# Longer rows are sorted by a network: comparing all pairs takes memory that grows with the square of the length.
LONGEST_BY_PAIRS = 512


@moved_last
def sorted_rows(x, count, descending):
    """The first `count` elements of sorted rows, and their places; equal elements keep their order."""
    length = x.shape[-1]
    if isinstance(length, int) and length > LONGEST_BY_PAIRS:
        places = network_places(x, descending).narrow(-1, 0, count)
        return x.gather(-1, places), places
    # The number of elements before each says where it goes.
    place = torch.arange(length, device=x.device)
    before, equal = goes_before(x.unsqueeze(-2), x.unsqueeze(-1), descending)
    earlier = place < place.unsqueeze(-1)
    rank = (before | (equal & earlier)).sum(-1)
    goes_to = rank.unsqueeze(-2) == torch.arange(count, device=x.device).unsqueeze(-1)
    places = torch.where(goes_to, place, 0).sum(-1)
    return x.gather(-1, places), places


def network_places(x, descending):
    """The places of the elements of rows in sorted order, by a bitonic network over pairs of an element and a number.

    The numbers differ within a row, so that they decide between equal elements. NaN is infinity with a number beyond those
    of the infinities, or before them if the order is descending. What fills a row up to a power of two comes last.
    """
    length = x.shape[-1]
    stages = (length - 1).bit_length()
    full = 1 << stages
    nan = is_nan(x)
    key = torch.where(nan, float("inf"), x) if x.is_floating_point() else x
    late = ~nan if descending else nan
    place = torch.arange(length, device=x.device)
    number = torch.where(late, place + full, place)
    if full > length:
        rest = [*x.shape[:-1], full - length]
        filled = full_of(rest, least_of(x.dtype, 1 if descending else -1), x)
        numbers = torch.arange(full + length, 2 * full, device=x.device).expand(rest)
        key, number = torch.cat([key, filled], -1), torch.cat([number, numbers], -1)
    is_first = torch.arange(2, device=x.device).unsqueeze(-1) == 0
    for merged in range(stages):
        for half in range(merged, -1, -1):
            # The first step of a merge compares a block with its mirror image, so that all blocks have one direction.
            mirrored = [-2, -1] if half == merged else [-2]
            blocks = [*x.shape[:-1], full >> (half + 1), 2, 1 << half]
            key, number = key.reshape(blocks), number.reshape(blocks)
            other_key, other_number = key.flip(mirrored), number.flip(mirrored)
            before = key > other_key if descending else key < other_key
            stays = (before | ((key == other_key) & (number < other_number))) == is_first
            key = torch.where(stays, key, other_key)
            number = torch.where(stays, number, other_number)
    return number.reshape([*x.shape[:-1], full])[..., :length] % full


def full_of(shape, value, like):
    return torch.full(shape, value, dtype=like.dtype, device=like.device)


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
    return of_all(median, self)


@of(aten.nanmedian.dim)
def nanmedian(self, dim, keepdim=False):
    if self.dim() == 0:
        return self.clone(), torch.zeros_like(self, dtype=torch.int64)
    values, places = sorted_rows(self, dim, self.shape[dim], False)
    # NaN is the largest, so that the numbers come first. Where there is none, the first NaN is the median.
    numbers = (~is_nan(self)).sum(dim, keepdim=True)
    middle = ((numbers - 1) // 2).clamp(min=0)
    results = values.gather(dim, middle), places.gather(dim, middle)
    return results if keepdim else tuple(result.squeeze(dim) for result in results)


@of(aten.nanmedian.default)
def nanmedian_of_all(self):
    return of_all(nanmedian, self)


def of_all(median, self):
    if self.numel() == 0:
        nothing = float("nan") if self.is_floating_point() else torch.iinfo(self.dtype).min
        return torch.full([], nothing, dtype=self.dtype, device=self.device)
    return median(self.reshape(-1), 0)[0]


@of(aten.mode.default)
def mode(self, dim=-1, keepdim=False):
    if self.dim() == 0:
        return self.clone(), torch.zeros_like(self, dtype=torch.int64)
    x = self.movedim(dim, -1)
    place = torch.arange(x.shape[-1], device=x.device)
    equal = x.unsqueeze(-2) == x.unsqueeze(-1)
    # A NaN equals nothing, and counts as itself.
    count = equal.sum(-1).clamp(min=1)
    often = count == count.amax(-1, keepdim=True)
    # The least of the most frequent values: nothing that is as frequent goes before it. Of its places, the last one.
    before, _ = goes_before(x.unsqueeze(-2), x.unsqueeze(-1), False)
    least = often & ~(before & often.unsqueeze(-2)).any(-1)
    places = torch.where(least, place, -1).amax(-1, keepdim=True)
    results = x.gather(-1, places).movedim(-1, dim), places.movedim(-1, dim)
    return results if keepdim else tuple(result.squeeze(dim) for result in results)


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
    if dtype == torch.bool:
        return sign < 0
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
    return number_before(rows, self.unsqueeze(-1), right or side == "right", out_int32)


@of(aten.searchsorted.Scalar)
def searchsorted_of_number(sorted_sequence, self, *, out_int32=False, right=False, side=None, sorter=None):
    if sorter is not None:
        sorted_sequence = sorted_sequence.gather(-1, sorter)
    return number_before(sorted_sequence, self, right or side == "right", out_int32)


@of(aten.bucketize.Tensor)
def bucketize(self, boundaries, *, out_int32=False, right=False):
    return number_before(boundaries, self.unsqueeze(-1), right, out_int32)


@of(aten.bucketize.Scalar)
def bucketize_of_number(self, boundaries, *, out_int32=False, right=False):
    return number_before(boundaries, self, right, out_int32)


def number_before(rows, value, right, out_int32):
    """How many elements of sorted rows are less than a value; with `right`, not greater."""
    before = rows <= value if right else rows < value
    # Everything is less than NaN.
    before = before | (is_nan(value) if isinstance(value, torch.Tensor) else value != value)
    return before.sum(-1).to(torch.int32 if out_int32 else torch.int64)


@of(aten.nonzero_static.default)
def nonzero_static(self, *, size, fill_value=-1):
    if self.dim() == 0:
        return torch.full([size, 0], fill_value, dtype=torch.int64, device=self.device)
    # A place comes before the one asked for if no more nonzero elements than wanted stand at or before it.
    count = (self != 0).reshape(-1).to(torch.int64).cumsum(0)
    place = (count <= torch.arange(size, device=self.device).unsqueeze(-1)).sum(-1)
    columns, step = [], self.numel()
    for extent in self.shape:
        step = step // max(extent, 1)
        columns.append(place // max(step, 1) % max(extent, 1))
    return torch.where((place < self.numel()).unsqueeze(-1), torch.stack(columns, -1), fill_value)


@of(aten.histc.default)
def histc(self, bins=100, min=0, max=0):
    x = self.reshape(-1)
    if x.numel() == 0:
        return torch.zeros([bins], dtype=self.dtype, device=self.device)
    x = x.to(torch.float32) if x.dtype in (torch.bfloat16, torch.float16) else x
    low = torch.full_like(x[0], min) if min != max else x.amin()
    high = torch.full_like(x[0], max) if min != max else x.amax()
    low, high = torch.where(low == high, low - 1, low), torch.where(low == high, high + 1, high)
    place = ((x - low) / (high - low) * bins).floor().clamp(max=bins - 1)
    inside = (x >= low) & (x <= high)
    hits = (place == torch.arange(bins, device=x.device).unsqueeze(-1)) & inside
    return hits.sum(-1).to(self.dtype)


def inside_bins(x, edges):
    """A mask `[bins, elements]` of what falls between neighbours of the `edges`, the last of which is inside."""
    last = torch.arange(1, edges.shape[0], device=x.device).unsqueeze(-1) == edges.shape[0] - 1
    lower, upper = edges[:-1].unsqueeze(-1), edges[1:].unsqueeze(-1)
    return (x >= lower) & ((x < upper) | (last & (x == upper)))


def bin_edges(x, bins, limits):
    """The edges of bins of one width between two limits, which are the data's if there are none."""
    if limits is None and x.numel():
        low, high = x.amin(), x.amax()
    else:
        low, high = (torch.full([], end, dtype=x.dtype, device=x.device) for end in limits or (0.0, 1.0))
    low, high = torch.where(low == high, low - 0.5, low), torch.where(low == high, high + 0.5, high)
    step = (high - low) / bins
    number = torch.arange(bins + 1, device=x.device)
    # From both ends, as `linspace` does.
    from_low, from_high = low + step * number.to(x.dtype), high - step * (bins - number).to(x.dtype)
    return torch.where(number < (bins + 1) // 2, from_low, from_high)


def weighted_counts(points, edges, weight, density):
    """How often points `[elements, dims]` fall into each of the boxes between edges of each dimension, or how heavy they are."""
    inside = None
    for dim, of_dim in enumerate(edges):
        here = inside_bins(points[:, dim], of_dim)
        inside = here if inside is None else (inside.unsqueeze(1) & here).flatten(0, 1)
    hist = torch.where(inside, 1.0 if weight is None else weight.reshape(-1), 0.0).sum(-1).to(points.dtype)
    hist = hist.reshape([of_dim.shape[0] - 1 for of_dim in edges])
    if density:
        hist = hist / hist.sum()
        for dim, of_dim in enumerate(edges):
            width = of_dim[1:] - of_dim[:-1]
            hist = hist / width.reshape(-1, *[1] * (len(edges) - dim - 1))
    return hist


@of(aten.histogram.bins_tensor)
def histogram_of_edges(self, bins, *, weight=None, density=False):
    return weighted_counts(self.reshape(-1, 1), [bins], weight, density), bins.clone()


@of(aten.histogram.bin_ct)
def histogram(self, bins=100, *, range=None, weight=None, density=False):
    edges = bin_edges(self.reshape(-1), bins, range)
    return weighted_counts(self.reshape(-1, 1), [edges], weight, density), edges


@of(aten.histogramdd.TensorList_bins)
def histogramdd_of_edges(self, bins, range=None, weight=None, density=False):
    return weighted_counts(self.reshape(-1, self.shape[-1]), bins, weight, density), [edges.clone() for edges in bins]


@of(aten.histogramdd.default)
def histogramdd(self, bins, range=None, weight=None, density=False):
    points = self.reshape(-1, self.shape[-1])
    limits = [None] * len(bins) if range is None else [range[at : at + 2] for at in builtins.range(0, len(range), 2)]
    edges = [bin_edges(points[:, dim], *each) for dim, each in enumerate(zip(bins, limits))]
    return weighted_counts(points, edges, weight, density), edges


@of(aten.histogramdd.int_bins)
def histogramdd_of_number(self, bins, range=None, weight=None, density=False):
    return histogramdd(self, [bins] * self.shape[-1], range, weight, density)
