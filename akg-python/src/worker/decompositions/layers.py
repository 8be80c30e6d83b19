"""Layers and distances in terms of products, sums and rows."""

import torch

from akg_worker.decompositions.registry import aten, of


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
