"""Gradients of layers: of linear maps their transposes, of the others sums where the forward pass read."""

import torch

from akg_worker.decompositions.elementwise import working
from akg_worker.decompositions.registry import aten, of
from akg_worker.decompositions.resample import along_each, convolution_cubic, cubic, resampling, triangle


@of(aten._cdist_backward.default)
def cdist_backward(grad, x1, x2, p, cdist):
    if p == 0:
        return torch.zeros_like(x1)
    difference = x1.unsqueeze(-2) - x2.unsqueeze(-3)
    size, distance, grad = difference.abs(), cdist.unsqueeze(-1), grad.unsqueeze(-1)
    if p == float("inf"):
        part = torch.where(size == distance, difference.sign(), 0.0)
    elif p == 1:
        part = difference.sign()
    else:
        share = torch.where(distance == 0, 0.0, size / torch.where(distance == 0, 1.0, distance))
        part = torch.where(size == 0, 0.0, difference.sign() * share ** (p - 1))
    return (grad * part).sum(-2)


@of(aten.silu_backward.default)
def silu_backward(grad_output, self):
    x, grad = self.to(working(self.dtype)), grad_output.to(working(self.dtype))
    share = torch.sigmoid(x)
    return (grad * share * (1 + x * (1 - share))).to(self.dtype)


@of(aten._efficientzerotensor.default)
def zeros(size, dtype=None, layout=None, device=None, pin_memory=False):
    return torch.zeros(size, dtype=dtype, device=device)


@of(aten.hardshrink_backward.default, aten.softshrink_backward.default)
def shrink_backward(grad, self, lambd):
    return torch.where((self >= -lambd) & (self <= lambd), 0.0, grad)


@of(aten.convolution_backward.default)
def convolution_backward(
    grad_output,
    input,
    weight,
    bias_sizes,
    stride,
    padding,
    dilation,
    transposed,
    output_padding,
    groups,
    output_mask,
):
    dims = input.dim() - 2
    stride, padding, dilation = (list(each) * (dims if len(each) == 1 else 1) for each in (stride, padding, dilation))
    results = [None, None, None]
    if output_mask[0]:
        left_over = [0] * dims
        if not transposed:
            extents = zip(input.shape[2:], grad_output.shape[2:], weight.shape[2:], stride, padding, dilation)
            left_over = [i - ((o - 1) * s - 2 * p + d * (k - 1) + 1) for i, o, k, s, p, d in extents]
        arguments = (stride, padding, dilation, not transposed, left_over, groups)
        results[0] = aten.convolution(grad_output, weight, None, *arguments)
    if output_mask[1]:
        # A convolution over the batch, in which strides and dilations change places.
        read, written = (grad_output, input) if transposed else (input, grad_output)
        batch = read.shape[0]
        data = read.reshape(batch, groups, read.shape[1] // groups, *read.shape[2:]).transpose(0, 2)
        data = data.reshape(data.shape[0], groups * batch, *read.shape[2:])
        kernel = written.transpose(0, 1)
        found = aten.convolution(data, kernel, None, dilation, padding, stride, False, [0] * dims, groups)
        for dim, extent in enumerate(weight.shape[2:], 2):
            found = found.narrow(dim, 0, extent)
        results[1] = found.transpose(0, 1)
    if output_mask[2]:
        results[2] = grad_output.sum([0, *range(2, dims + 2)])
    return tuple(results)


def transposed_along_each(grad, matrices, dtype):
    return along_each(grad, [matrix.transpose(0, 1) for matrix in matrices]).to(dtype)


def choosing(places, length, like):
    """A matrix `[outputs, length]` that reads each output from one place."""
    at = torch.arange(length, device=like.device)
    return (places.unsqueeze(-1) == at).to(like.dtype)


def replication_backward(grad_output, self, padding):
    grad = grad_output.to(working(grad_output.dtype))
    matrices = []
    for pair, dim in enumerate(range(self.dim() - 1, self.dim() - 1 - len(padding) // 2, -1)):
        length = self.shape[dim]
        places = (torch.arange(grad.shape[dim], device=grad.device) - padding[2 * pair]).clamp(0, length - 1)
        matrices.insert(0, choosing(places, length, grad))
    return transposed_along_each(grad, matrices, grad_output.dtype)


of(
    aten.replication_pad1d_backward.default,
    aten.replication_pad2d_backward.default,
    aten.replication_pad3d_backward.default,
)(replication_backward)


def nearest_backward(offset):
    """The gradient of a resampling that takes the nearest point, by the part of a step at which it looks."""

    def backward(grad_output, output_size, input_size, *scales):
        grad = grad_output.to(working(grad_output.dtype))
        matrices = []
        for wanted, length, scale in zip(output_size, input_size[2:], scales or [None] * len(output_size)):
            step = 1 / scale if scale else length / wanted
            number = torch.arange(wanted, device=grad.device).to(grad.dtype)
            places = ((number + offset) * step).floor().to(torch.int64).clamp(max=length - 1)
            matrices.append(choosing(places, length, grad))
        return transposed_along_each(grad, matrices, grad_output.dtype)

    return backward


for dims in (1, 2, 3):
    of(getattr(aten, f"upsample_nearest{dims}d_backward").default)(nearest_backward(0.0))
    of(getattr(aten, f"_upsample_nearest_exact{dims}d_backward").default)(nearest_backward(0.5))


def antialiased_backward(kernel, radius):
    def backward(grad_output, output_size, input_size, align_corners, scales_h=None, scales_w=None):
        grad = grad_output.to(working(grad_output.dtype))
        matrices = [
            resampling(length, wanted, align_corners, scale, kernel, radius, grad)
            for length, wanted, scale in zip(input_size[2:], output_size, (scales_h, scales_w))
        ]
        return transposed_along_each(grad, matrices, grad_output.dtype)

    return backward


of(aten._upsample_bilinear2d_aa_backward.default)(antialiased_backward(triangle, 1))
of(aten._upsample_bicubic2d_aa_backward.default)(antialiased_backward(cubic, 2))


def interpolation(length, wanted, align_corners, scale, kernel, like):
    """The weights `[wanted, length]` of an interpolation between neighbours."""
    number = torch.arange(wanted, device=like.device).to(like.dtype)
    if align_corners:
        place = number * ((length - 1) / (wanted - 1) if wanted > 1 else 0.0)
    else:
        place = (number + 0.5) * (1 / scale if scale else length / wanted) - 0.5
        place = place.clamp(min=0) if kernel is triangle else place
    first = place.floor()
    matrix = 0
    for offset in (0, 1) if kernel is triangle else (-1, 0, 1, 2):
        read = (first + offset).clamp(0, length - 1).to(torch.int64)
        matrix = matrix + choosing(read, length, like) * kernel(place - first - offset).unsqueeze(-1)
    return matrix


def interpolation_backward(kernel):
    def backward(grad_output, output_size, input_size, align_corners, *scales):
        grad = grad_output.to(working(grad_output.dtype))
        scales = scales or [None] * len(output_size)
        extents = zip(input_size[2:], output_size, scales)
        matrices = [interpolation(length, wanted, align_corners, scale, kernel, grad) for length, wanted, scale in extents]
        return transposed_along_each(grad, matrices, grad_output.dtype)

    return backward


of(
    aten.upsample_linear1d_backward.default,
    aten.upsample_bilinear2d_backward.default,
    aten.upsample_trilinear3d_backward.default,
)(interpolation_backward(triangle))
of(aten.upsample_bicubic2d_backward.default)(interpolation_backward(convolution_cubic))


@of(aten.masked_scatter_backward.default)
def masked_scatter_backward(grad_output, mask, sizes):
    """The elements under the mask in a row, and zeros behind them."""
    count = torch.Size(sizes).numel()
    grad = grad_output.reshape(-1)
    mask = mask.expand(grad_output.shape).reshape(-1)
    place = torch.where(mask, mask.to(torch.int64).cumsum(0) - 1, -1)
    goes = place == torch.arange(count, device=grad.device).unsqueeze(-1)
    return torch.where(goes, grad, 0.0).sum(-1).to(grad.dtype).reshape(sizes)
