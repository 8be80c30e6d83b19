"""Layers and distances in terms of products, sums and rows."""

import math

import torch

from akg_worker.decompositions.ordering import least_of
from akg_worker.decompositions.registry import aten, is_integral, of


@of(aten._cdist_forward.default, aten.cdist.default)
def cdist(x1, x2, p=2.0, compute_mode=None):
    difference = (x1.unsqueeze(-2) - x2.unsqueeze(-3)).abs()
    if difference.shape[-1] == 0:
        return difference.sum(-1)
    if math.isinf(p):
        # PyTorch's maximum passes over NaN here.
        return torch.where(difference >= 0, difference, 0.0).amax(-1)
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


@of(aten._int_mm.default)
def integer_product(self, mat2):
    return self.to(torch.int32) @ mat2.to(torch.int32)


@of(aten.one_hot.default)
def one_hot(self, num_classes=-1):
    if num_classes < 0:
        raise NotImplementedError("the number of classes follows from values")
    classes = torch.arange(num_classes, device=self.device)
    return (self.unsqueeze(-1) == classes).to(torch.int64)


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


@of(aten.addbmm.default)
def addbmm(self, batch1, batch2, *, beta=1, alpha=1):
    # One product of matrices as long as all together.
    batches, rows, inner = batch1.shape
    product = batch1.permute(1, 0, 2).reshape(rows, batches * inner) @ batch2.reshape(batches * inner, batch2.shape[-1])
    if not self.is_floating_point():
        alpha, beta = int(alpha), int(beta)
    product = product if alpha == 1 else product * alpha
    # Nothing of `self` gets through if it does not count, not even NaN.
    return product if beta == 0 else product + (self if beta == 1 else self * beta)


@of(aten.rrelu.default)
def rrelu(self, lower=0.125, upper=0.3333333333333333, training=False, generator=None):
    slope = lower + (upper - lower) * torch.rand_like(self) if training else (lower + upper) / 2
    return torch.where(self > 0 if not training else self >= 0, self, self * slope)


@of(aten.bernoulli.p)
def bernoulli(self, p, *, generator=None):
    return (torch.rand_like(self) < p).to(self.dtype)


@of(aten.bernoulli.default)
def bernoulli_of_each(self, *, generator=None):
    return bernoulli(self, self)


@of(aten.embedding_renorm.default)
def embedding_renorm(self, indices, max_norm, norm_type):
    named = (torch.arange(self.shape[0], device=self.device).unsqueeze(-1) == indices.reshape(-1)).any(-1)
    norm = torch.linalg.vector_norm(self, norm_type, dim=-1)
    scale = torch.where(named & (norm > max_norm), max_norm / (norm + 1e-7), 1.0)
    return (self * scale.unsqueeze(-1)).to(self.dtype)


@of(aten._safe_softmax.default)
def safe_softmax(self, dim, dtype=None):
    x = self.to(dtype or self.dtype)
    nothing = (x == -float("inf")).all(dim, keepdim=True)
    return torch.where(nothing, 0.0, torch.softmax(x, dim)).to(x.dtype)


@of(aten._scaled_dot_product_flash_attention_for_cpu.default)
def attention(query, key, value, dropout_p=0.0, is_causal=False, *, attn_mask=None, scale=None):
    given = query.dtype
    wide = torch.float32 if given in (torch.bfloat16, torch.float16) else given
    query, key, value = query.to(wide), key.to(wide), value.to(wide)
    scores = query @ key.transpose(-2, -1) * (query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        rows = torch.arange(scores.shape[-2], device=scores.device).unsqueeze(-1)
        future = torch.arange(scores.shape[-1], device=scores.device) > rows
        scores = torch.where(future, -float("inf"), scores)
    if attn_mask is not None:
        added = torch.where(attn_mask, 0.0, -float("inf")) if attn_mask.dtype == torch.bool else attn_mask
        scores = scores + added.to(wide)
    result = safe_softmax(scores, -1) @ value
    return result.to(given), scores.logsumexp(-1)


# A matrix of a norm up to 2^14 is scaled far enough; exponentials of larger ones seldom are numbers.
SQUARINGS = 14
TERMS = 28


@of(aten.matrix_exp.default, aten.linalg_matrix_exp.default)
def matrix_exp(self):
    """Scales the matrix to a norm below 2, where Taylor's polynomial converges soon, and squares its exponential back."""
    if self.numel() == 0:
        return self.clone()
    x = self.to(torch.float32) if self.dtype in (torch.bfloat16, torch.float16) else self
    eye = torch.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    norm = x.abs().sum(-2).amax(-1)
    scale = torch.ones_like(norm)
    for power in range(SQUARINGS):
        scale = torch.where(norm >= 2.0 ** (power + 1), 2.0**-power * 0.5, scale)
    scale = scale.unsqueeze(-1).unsqueeze(-1)
    scaled = x * scale
    result = eye + scaled / TERMS
    for term in range(TERMS - 1, 0, -1):
        result = eye + scaled @ result / term
    for power in range(SQUARINGS):
        result = torch.where(scale < 2.0**-power, result @ result, result)
    return result.to(self.dtype)


@of("torch_nn._linear_cross_entropy_batch_chunked.default")
def linear_cross_entropy(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, label_smoothing, *rest):
    compute_gradients = rest[-3:]
    if any(compute_gradients):
        raise NotImplementedError("gradients of a loss in its forward pass")
    wide = torch.float32 if input.dtype in (torch.bfloat16, torch.float16) else input.dtype
    logits = torch.nn.functional.linear(input, linear_weight.to(input.dtype), linear_bias).to(wide)
    weight = None if weight is None else weight.to(wide)
    target = target.to(wide) if target.is_floating_point() else target
    loss = torch.nn.functional.cross_entropy(
        logits, target, weight, ignore_index=ignore_index, reduction=reduction, label_smoothing=label_smoothing
    )
    nothing = torch.zeros([0, 0], dtype=input.dtype, device=input.device)
    return loss.to(input.dtype), nothing, nothing.clone(), nothing.reshape(0)


@of("torch_nn._linear_cross_entropy_batch_chunked_no_reduction.default")
def linear_cross_entropy_of_each(input, linear_weight, target, linear_bias, weight, ignore_index, *rest):
    arguments = (input, linear_weight, target, linear_bias, weight, "none", ignore_index, 0.0)
    return linear_cross_entropy(*arguments, False, False, False)[0]


@of(aten._grouped_mm.default, "transformers.grouped_mm_fallback.default")
def grouped_mm(self, mat2, offs=None, bias=None, out_dtype=None):
    if self.dim() != 2 or mat2.dim() != 3 or offs is None or bias is not None:
        raise NotImplementedError("groups of columns")
    # Each row is multiplied by every group's matrix, and the product with its own stays.
    row = torch.arange(self.shape[0], device=self.device)
    group = (offs.unsqueeze(-1) <= row).sum(0)
    own = group == torch.arange(mat2.shape[0], device=self.device).unsqueeze(-1)
    result = torch.where(own.unsqueeze(-1), self @ mat2, 0.0).sum(0)
    return result if out_dtype is None else result.to(out_dtype)


@of(aten.triplet_margin_loss.default, where=is_integral)
def triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, reduction=1):
    def distance(a, b):
        # The small number makes the difference of integers floating.
        return torch.linalg.vector_norm(a - b + eps, p, dim=-1)

    wrong = distance(anchor, negative)
    if swap:
        wrong = torch.minimum(wrong, distance(positive, negative))
    loss = (margin + distance(anchor, positive) - wrong).clamp(min=0)
    return loss.mean() if reduction == 1 else loss.sum() if reduction == 2 else loss


def each(value, dims):
    """A parameter of each spatial dimension, of which PyTorch takes one for all too."""
    values = list(value) if isinstance(value, (list, tuple)) else [value]
    return values * dims if len(values) == 1 else values


def line(count, taps, stride, start, dilation, device):
    """The places `[count, taps]` that windows along one dimension read, the first from `start`."""
    first = torch.arange(count, device=device) * stride + start
    return first.unsqueeze(-1) + torch.arange(taps, device=device) * dilation


def windows(x, reads, fill):
    """What windows over `[batch, channels, *spatial]` read, as `[batch, channels, taps, *counts]`.

    `reads` has for each spatial dimension the places `[count, taps]` and a mask of those that are inside.
    """
    dims = len(reads)
    for at, (place, inside) in enumerate(reads):
        dim = 2 + 2 * at
        inside = inside.reshape(*inside.shape, *[1] * (dims - at - 1))
        last = max(x.shape[dim] - 1, 0)
        x = x.index_select(dim, place.clamp(0, last).reshape(-1)).unflatten(dim, place.shape)
        x = torch.where(inside, x, fill)
    return taps_first(x, dims, 2)


def taps_first(x, dims, lead):
    """A tensor `[*lead, count, taps, count, taps, ...]` as `[*lead, taps, *counts]`, with one dimension of all taps."""
    counts, taps = list(range(lead, lead + 2 * dims, 2)), list(range(lead + 1, lead + 2 * dims, 2))
    return x.permute(*range(lead), *taps, *counts).flatten(lead, lead + dims - 1)


def batched(function):
    """A function of `[batch, channels, *spatial]` that takes, with `dims` spatial dimensions, one without a batch too."""

    def either(x, dims, *arguments):
        if x.dim() == dims + 2:
            return function(x, dims, *arguments)
        results = function(x.unsqueeze(0), dims, *arguments)
        return tuple(r.squeeze(0) for r in results) if isinstance(results, tuple) else results.squeeze(0)

    return either


@batched
def convolved(x, dims, weight, bias, stride, padding, dilation, groups, transposed=False, output_padding=0):
    """A convolution as one product of matrices: what its windows read, by the weights in rows.

    A transposed one reads, for each element of the result, the elements that the stride brings there.
    """
    kernel = weight.shape[2:]
    dilation, stride, output_padding = each(dilation, dims), each(stride, dims), each(output_padding, dims)
    spans = [d * (k - 1) for d, k in zip(dilation, kernel)]
    if padding == "same":
        sides = [(span // 2, span - span // 2) for span in spans]
    else:
        sides = [(p, p) for p in each(0 if padding == "valid" else padding, dims)]
    reads = []
    for at, (before, after) in enumerate(sides):
        size, span, step = x.shape[2 + at], spans[at], stride[at]
        if transposed:
            count = (size - 1) * step - before - after + span + output_padding[at] + 1
            reached = line(count, kernel[at], 1, before, -dilation[at], x.device)
            place = torch.div(reached, step, rounding_mode="floor")
            inside = (reached % step == 0) & (place >= 0) & (place < size)
        else:
            count = (size + before + after - span - 1) // step + 1
            place = line(count, kernel[at], step, -before, dilation[at], x.device)
            inside = (place >= 0) & (place < size)
        reads.append((place, inside))
    read = windows(x, reads, 0)
    batch, channels, taps, *counts = read.shape
    columns = read.reshape(batch, groups, channels // groups * taps, math.prod(counts))
    rows = weight.reshape(groups, weight.shape[0] // groups, weight.shape[1], taps)
    rows = rows.transpose(1, 2) if transposed else rows
    product = rows.flatten(2) @ columns
    result = product.reshape(batch, groups * rows.shape[1], *counts)
    return result if bias is None else result + bias.reshape(-1, *[1] * dims)


CONVOLUTIONS = [getattr(op, way) for op in (aten.conv1d, aten.conv2d, aten.conv3d) for way in ("default", "padding")]


@of(*CONVOLUTIONS, where=is_integral)
def conv(input, weight, bias=None, stride=1, padding=0, dilation=1, groups=1):
    return convolved(input, weight.dim() - 2, weight, bias, stride, padding, dilation, groups)


@of(aten.conv_transpose1d.default, aten.conv_transpose2d.input, aten.conv_transpose3d.input, where=is_integral)
def conv_transpose(input, weight, bias=None, stride=1, padding=0, output_padding=0, groups=1, dilation=1):
    return convolved(input, weight.dim() - 2, weight, bias, stride, padding, dilation, groups, True, output_padding)


@of(aten.convolution.default, where=is_integral)
def convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups):
    dims = weight.dim() - 2
    return convolved(input, dims, weight, bias, stride, padding, dilation, groups, transposed, output_padding)


def pool_counts(x, kernel, stride, padding, dilation, ceil_mode):
    """How many windows there are along each dimension; each begins inside the input or the padding before it."""
    counts = []
    for size, taps, step, side, spread in zip(x.shape[2:], kernel, stride, padding, dilation):
        room = size + 2 * side - spread * (taps - 1) - 1
        count = (room + (step - 1 if ceil_mode else 0)) // step + 1
        counts.append(count - 1 if ceil_mode and (count - 1) * step >= size + side else count)
    return counts


def pool_reads(x, dims, kernel, stride, padding, dilation, ceil_mode):
    """The places that the windows of a pool read, with masks, and the padding of each dimension."""
    kernel, padding, dilation = each(kernel, dims), each(padding, dims), each(dilation, dims)
    stride = each(stride, dims) if stride else kernel
    counts = pool_counts(x, kernel, stride, padding, dilation, ceil_mode)
    reads = []
    for size, *parameters, side, spread in zip(x.shape[2:], counts, kernel, stride, padding, dilation):
        place = line(*parameters, -side, spread, x.device)
        reads.append((place, (place >= 0) & (place < size)))
    return reads, padding


@batched
def averaged(x, dims, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override):
    reads, padding = pool_reads(x, dims, kernel, stride, padding, 1, ceil_mode)
    total = windows(x, reads, 0).sum(2, dtype=x.dtype)
    if divisor_override:
        return torch.div(total, divisor_override, rounding_mode="trunc")
    divisor = None
    for at, (place, inside) in enumerate(reads):
        # Padding counts up to its width behind the input, not beyond, where the last window may reach.
        counted = place < x.shape[2 + at] + padding[at] if count_include_pad else inside
        number = counted.sum(-1).reshape(-1, *[1] * (dims - at - 1))
        divisor = number if divisor is None else divisor * number
    return torch.div(total, divisor.clamp(min=1).to(x.dtype), rounding_mode="trunc")


@of(aten.avg_pool1d.default, where=is_integral)
def avg_pool1d(self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True):
    return averaged(self, 1, kernel_size, stride, padding, ceil_mode, count_include_pad, None)


@of(aten.avg_pool2d.default, where=is_integral)
def avg_pool2d(
    self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    return averaged(self, 2, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@of(aten.avg_pool3d.default, where=is_integral)
def avg_pool3d(
    self, kernel_size, stride=(), padding=0, ceil_mode=False, count_include_pad=True, divisor_override=None
):
    return averaged(self, 3, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override)


@batched
def greatest(x, dims, kernel, stride, padding, dilation, ceil_mode):
    """The greatest element of each window, and the first place in the input where it is."""
    reads, _ = pool_reads(x, dims, kernel, stride, padding, dilation, ceil_mode)
    read = windows(x, reads, least_of(x.dtype, 1))
    result = read.amax(2)
    number, valid = None, None
    for at, (place, inside) in enumerate(reads):
        if at == 0:
            number, valid = place, inside
        else:
            number = number.unsqueeze(-1).unsqueeze(-1) * x.shape[2 + at] + place
            valid = valid.unsqueeze(-1).unsqueeze(-1) & inside
    number, valid = taps_first(number, dims, 0), taps_first(valid, dims, 0)
    nowhere = math.prod(x.shape[2:])
    return result, torch.where((read == result.unsqueeze(2)) & valid, number, nowhere).amin(2)


def max_pool_of(dims, takes_places):
    """The decomposition of a maximum pool over some dimensions, with its places or without."""

    def pool(self, kernel_size, stride=(), padding=0, dilation=1, ceil_mode=False):
        results = greatest(self, dims, kernel_size, stride, padding, dilation, ceil_mode)
        return results if takes_places else results[0]

    return pool


of(aten.max_pool1d.default, where=is_integral)(max_pool_of(1, False))
of(aten.max_pool2d.default, where=is_integral)(max_pool_of(2, False))
of(aten.max_pool3d.default, where=is_integral)(max_pool_of(3, False))
of(aten.max_pool2d_with_indices.default, where=is_integral)(max_pool_of(2, True))
of(aten.max_pool3d_with_indices.default, where=is_integral)(max_pool_of(3, True))
