"""Operators that are differentiated as what they are composed of, where PyTorch has a gradient without a decomposition."""

import torch
from torch._decomp import decomposition_table

from akg_worker.decompositions.layers import bilinear, embedding_bag, pdist, rrelu
from akg_worker.decompositions.registry import aten
from akg_worker.decompositions.resample import grid_sampler_3d


def weight_norm(v, g, dim=0):
    return v * (g / torch.norm_except_dim(v, 2, dim))


def embedding_bag_of(weight, indices, offsets, scale_grad_by_freq=False, mode=0, sparse=False, *rest):
    if scale_grad_by_freq:
        raise NotImplementedError("gradients that are scaled by the frequency of an index")
    return embedding_bag(weight, indices, offsets, scale_grad_by_freq, mode, sparse, *rest)


def grid_sampler(input, grid, interpolation_mode, padding_mode, align_corners):
    result = grid_sampler_3d(input, grid, interpolation_mode, padding_mode, align_corners)
    if interpolation_mode != 1:
        return result
    # The nearest points do not change with the grid, whose gradient is zero and not missing.
    return torch.where(torch.zeros_like(result, dtype=torch.bool), grid.sum(), result)


def multilabel_margin_loss(self, target, reduction=1):
    return decomposition_table[aten.multilabel_margin_loss_forward.default](self, target, reduction)[0]


COMPOSED = {
    aten._weight_norm.default: weight_norm,
    aten.bilinear.default: bilinear,
    aten.embedding_bag.default: embedding_bag_of,
    aten.embedding_bag.padding_idx: embedding_bag_of,
    aten.grid_sampler.default: grid_sampler,
    aten.grid_sampler_2d.default: grid_sampler,
    aten.grid_sampler_3d.default: grid_sampler,
    aten.multi_margin_loss.default: decomposition_table[aten.multi_margin_loss.default],
    aten.multilabel_margin_loss.default: multilabel_margin_loss,
    aten.pdist.default: pdist,
    aten.rrelu.default: rrelu,
}
