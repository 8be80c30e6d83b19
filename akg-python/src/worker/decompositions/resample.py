"""Resampling and pooling of grids: separable filters as products of matrices, and windows by index."""

import itertools

import torch

from akg_worker.decompositions.elementwise import working
from akg_worker.decompositions.registry import aten, of
from akg_worker.decompositions.scatter import put_elements


def along_each(x, matrices):
    """Multiplies the last dimensions of `x` by a matrix `[out, in]` each."""
    for dim, matrix in enumerate(matrices, x.dim() - len(matrices)):
        x = (x.movedim(dim, -1) @ matrix.transpose(0, 1)).movedim(-1, dim)
    return x


def triangle(x):
    return (1 - x.abs()).clamp(min=0)


def cubic(x):
    """Keys's interpolation kernel with a = -1/2, as an antialiasing filter has it."""
    x = x.abs()
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return torch.where(x < 1, near, torch.where(x < 2, far, 0.0))


def resampling(length, wanted, align_corners, scale, kernel, radius, like):
    """The weights `[wanted, length]` of an antialiasing filter, which is stretched where the grid becomes coarser."""
    if align_corners:
        step = (length - 1) / (wanted - 1) if wanted > 1 else 0.0
    else:
        step = 1 / scale if scale else length / wanted
    stretch = max(step, 1.0)
    support = radius * stretch
    at = torch.arange(length, device=like.device).to(like.dtype)
    center = step * (torch.arange(wanted, device=like.device).to(like.dtype).unsqueeze(-1) + 0.5)
    first = (center - support + 0.5).trunc().clamp(min=0)
    end = (center + support + 0.5).trunc().clamp(max=length)
    weights = torch.where((at >= first) & (at < end), kernel((at - center + 0.5) / stretch), 0.0)
    return weights / weights.sum(-1, keepdim=True)


def antialiased(x, size, align_corners, scales, kernel, radius):
    like = x.to(working(x.dtype))
    pairs = zip(x.shape[-len(size) :], size, scales)
    matrices = [resampling(*extents, align_corners, scale, kernel, radius, like) for *extents, scale in pairs]
    # The last dimension first, as PyTorch does.
    return along_each(like, matrices).to(x.dtype)


def antialiased_by(kernel, radius):
    """The two overloads of an antialiased interpolation in two dimensions."""

    def by_size(self, output_size, align_corners, scales_h=None, scales_w=None):
        return antialiased(self, output_size, align_corners, (scales_h, scales_w), kernel, radius)

    def by_factors(input, output_size, align_corners, scale_factors=None):
        if output_size is None:
            output_size = [int(extent * factor) for extent, factor in zip(input.shape[-2:], scale_factors)]
        return by_size(input, output_size, align_corners, *(scale_factors or (None, None)))

    return by_size, by_factors


for packet, kernel, radius in ((aten._upsample_bilinear2d_aa, triangle, 1), (aten._upsample_bicubic2d_aa, cubic, 2)):
    by_size, by_factors = antialiased_by(kernel, radius)
    of(packet.default)(by_size)
    of(packet.vec)(by_factors)


def unpooled(self, indices, size):
    """Puts each element of a plane at the place that its index names, among zeros."""
    dims = len(size)
    planes = self.shape[: self.dim() - dims]
    places = torch.Size(size).numel()
    zeros = torch.zeros([*planes, places], dtype=self.dtype, device=self.device)
    if self.numel() == 0:
        return zeros.reshape([*planes, *size])
    return put_elements(zeros, -1, indices.flatten(-dims), self.flatten(-dims)).reshape([*planes, *size])


@of(aten.max_unpool2d.default)
def max_unpool2d(self, indices, output_size):
    return unpooled(self, indices, output_size)


@of(aten.max_unpool3d.default)
def max_unpool3d(self, indices, output_size, stride, padding):
    return unpooled(self, indices, output_size)


@of(aten.max_pool2d_with_indices_backward.default, aten.max_pool3d_with_indices_backward.default)
def max_pool_backward(grad_output, self, kernel_size, stride, padding, dilation, ceil_mode, indices):
    return added_back(grad_output, indices, self, len(kernel_size))


@of(aten.adaptive_max_pool2d_backward.default)
def adaptive_max_pool2d_backward(grad_output, self, indices):
    return added_back(grad_output, indices, self, 2)


@of(aten.adaptive_max_pool3d_backward.default)
def adaptive_max_pool3d_backward(grad_output, self, indices):
    return added_back(grad_output, indices, self, 3)


def added_back(grad, indices, self, dims):
    zeros = torch.zeros_like(self).flatten(-dims)
    if grad.numel() == 0:
        return zeros.reshape(self.shape)
    return aten.scatter_add(zeros, -1, indices.flatten(-dims), grad.flatten(-dims)).reshape(self.shape)


def starts(length, window, wanted, sample):
    """Where the windows of a fractional pool begin (B. Graham, 2014): at pseudo-random steps, and the last one at the end."""
    number = torch.arange(wanted, device=sample.device).to(sample.dtype)
    step = (length - window) / (wanted - 1) if wanted > 1 else 0.0
    sample = sample.unsqueeze(-1)
    begins = ((number + sample) * step).to(torch.int64) - (sample * step).to(torch.int64)
    return torch.where(number == wanted - 1, length - window, begins)


def fractional_max_pool(self, kernel_size, output_size, samples):
    """`samples [.., planes, dims]` are in the order of the dimensions."""
    dims = len(output_size)
    extents = self.shape[-dims:]
    number = None
    for dim, (length, window, wanted) in enumerate(zip(extents, kernel_size, output_size)):
        begins = starts(length, window, wanted, samples[..., dim])
        places = begins.unsqueeze(-1) + torch.arange(window, device=self.device)
        # [.., outputs.., windows..], of which this dimension has one each.
        shape = [1] * (2 * dims)
        shape[dim], shape[dims + dim] = wanted, window
        places = places.reshape(*samples.shape[:-1], *shape)
        number = places if number is None else number * length + places
    number = number.flatten(-dims)
    planes = self.reshape(*samples.shape[:-1], torch.Size(extents).numel())
    windows = planes.gather(-1, number.flatten(2)).reshape(number.shape)
    values, at = windows.max(-1)
    indices = number.gather(-1, at.unsqueeze(-1)).squeeze(-1)
    shape = [*self.shape[:-dims], *output_size]
    return values.reshape(shape), indices.reshape(shape)


@of(aten.fractional_max_pool2d.default)
def fractional_max_pool2d(self, kernel_size, output_size, random_samples):
    # The first sample is the width's.
    return fractional_max_pool(self, kernel_size, output_size, random_samples.flip(-1))


@of(aten.fractional_max_pool3d.default)
def fractional_max_pool3d(self, kernel_size, output_size, random_samples):
    return fractional_max_pool(self, kernel_size, output_size, random_samples)


def unnormalized(x, length, align_corners):
    """Coordinates in [-1, 1] as places of a grid."""
    return (x + 1) / 2 * (length - 1) if align_corners else ((x + 1) * length - 1) / 2


def reflected(x, length, align_corners):
    """Places that come back at the ends of a grid: at its outermost points, or half a step behind them."""
    low, high = (0.0, length - 1.0) if align_corners else (-0.5, length - 0.5)
    span = high - low
    if span == 0:
        return torch.zeros_like(x)
    x = (x - low).abs()
    turns = (x / span).floor()
    rest = x - turns * span
    odd = turns - 2 * (turns / 2).floor() == 1
    return torch.where(odd, span - rest, rest) + low


def padded(x, length, padding_mode, align_corners):
    """Places beside a grid as places in it: at its border, or reflected."""
    if padding_mode == 2:
        x = reflected(x, length, align_corners)
    return x.clamp(0, length - 1) if padding_mode else x


def taps(x, length, mode, padding_mode, align_corners):
    """The places along a dimension that an interpolation reads at coordinates, and how much each counts."""
    x = unnormalized(x, length, align_corners)
    if mode == 2:
        first = x.floor()
        step = x - first
        return [
            (padded(first + offset, length, padding_mode, align_corners), convolution_cubic(step - offset))
            for offset in (-1, 0, 1, 2)
        ]
    x = padded(x, length, padding_mode, align_corners)
    if mode == 1:
        return [(x.round(), None)]
    first = x.floor()
    return [(first, first + 1 - x), (first + 1, x - first)]


def convolution_cubic(x):
    """Keys's interpolation kernel with a = -3/4."""
    x = x.abs()
    near = (1.25 * x - 2.25) * x * x + 1
    far = ((-0.75 * x + 3.75) * x - 6) * x + 3
    return torch.where(x <= 1, near, far)


@of(aten.grid_sampler_3d.default)
def grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners):
    batch, channels, *extents = input.shape
    given = input.dtype
    input, grid = input.to(working(given)), grid.to(working(given))
    # The last coordinate of the grid is the first dimension's.
    axes = [
        taps(grid[..., len(extents) - 1 - dim], length, interpolation_mode, padding_mode, align_corners)
        for dim, length in enumerate(extents)
    ]
    table = input.flatten(2)
    total = None
    for corner in itertools.product(*axes):
        number, weight, inside = 0, None, None
        for (place, share), length in zip(corner, extents):
            here = (place >= 0) & (place <= length - 1)
            inside = here if inside is None else inside & here
            number = number * length + torch.where(here, place, 0.0).to(torch.int64)
            if share is not None:
                weight = share if weight is None else weight * share
        flat = number.reshape(batch, 1, -1).expand(batch, channels, -1)
        found = table.gather(2, flat).reshape(batch, channels, *number.shape[1:])
        found = found if weight is None else found * weight.unsqueeze(1)
        found = torch.where(inside.unsqueeze(1), found, 0.0)
        total = found if total is None else total + found
    return total.to(given)


@of(aten.grid_sampler.default)
def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    sample = aten.grid_sampler_2d if input.dim() == 4 else aten.grid_sampler_3d
    return sample(input, grid, interpolation_mode, padding_mode, align_corners)


def shares(length, begins, ends, like, divisors):
    """The part that each element `[length]` has in each window's mean, `[windows, length]`."""
    at = torch.arange(length, device=like.device)
    inside = (at >= begins.unsqueeze(-1)) & (at < ends.unsqueeze(-1))
    return torch.where(inside, 1.0, 0.0).to(like.dtype) / divisors.to(like.dtype).unsqueeze(-1)


def avg_pool_backward(grad_output, self, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override):
    grad = grad_output.to(working(grad_output.dtype))
    matrices = []
    dims = len(kernel_size)
    stride = stride or kernel_size
    for dim, (window, step, pad) in enumerate(zip(kernel_size, stride, padding), self.dim() - dims):
        length = self.shape[dim]
        begins = torch.arange(grad.shape[dim], device=grad.device) * step - pad
        ends = (begins + window).clamp(max=length + pad)
        counted = ends - begins if count_include_pad else ends.clamp(max=length) - begins.clamp(min=0)
        counted = counted if divisor_override is None else torch.ones_like(counted)
        matrices.append(shares(length, begins, ends, grad, counted).transpose(0, 1))
    result = along_each(grad, matrices)
    result = result if divisor_override is None else result / divisor_override
    return result.to(grad_output.dtype)


of(aten.avg_pool2d_backward.default, aten.avg_pool3d_backward.default)(avg_pool_backward)


def adaptive_backward(dims):
    def backward(grad_output, self):
        grad = grad_output.to(working(grad_output.dtype))
        matrices = []
        for dim in range(self.dim() - dims, self.dim()):
            length, wanted = self.shape[dim], grad.shape[dim]
            number = torch.arange(wanted, device=grad.device)
            begins = (number * length).div(wanted, rounding_mode="floor")
            ends = ((number + 1) * length + wanted - 1).div(wanted, rounding_mode="floor")
            matrices.append(shares(length, begins, ends, grad, ends - begins).transpose(0, 1))
        return along_each(grad, matrices).to(grad_output.dtype)

    return backward


of(aten._adaptive_avg_pool2d_backward.default)(adaptive_backward(2))
of(aten._adaptive_avg_pool3d_backward.default)(adaptive_backward(3))
