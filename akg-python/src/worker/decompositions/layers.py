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

