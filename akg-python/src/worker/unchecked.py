"""Functions of PyTorch that look at values only to refuse or to warn, without that: a graph cannot decide on values."""

import math

import torch
from torch.nn import functional
from torch.overrides import TorchFunctionMode


def cov(input, *, correction=1, fweights=None, aweights=None):
    rows = input.reshape(1, -1) if input.dim() < 2 else input
    weights = [each for each in (fweights, aweights) if each is not None]
    weight = math.prod(weights[1:], start=weights[0]) if weights else None
    if weight is None:
        mean, norm = rows.sum(1) / rows.shape[1], max(rows.shape[1] - correction, 0)
    else:
        total = weight.sum()
        mean = (rows * weight).sum(1) / total
        if aweights is None or correction == 0:
            norm = total - correction
        else:
            norm = total - correction * (weight * aweights).sum() / total
        norm = norm.clamp(min=0)
    rows = rows - mean.unsqueeze(1)
    product = rows @ (rows if weight is None else rows * weight).t()
    return (product / norm).squeeze()


def corrcoef(input):
    product = cov(input)
    if product.dim() == 0:
        return product / product
    deviation = product.diagonal().sqrt()
    return (product / deviation.unsqueeze(1) / deviation.unsqueeze(0)).clamp(-1, 1)


def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    if not isinstance(var, torch.Tensor):
        var = var * torch.ones_like(input)
    if var.shape != input.shape and var.shape == input.shape[:-1]:
        var = var.unsqueeze(-1)
    var = var.clamp(min=eps)
    loss = 0.5 * (var.log() + (input - target) ** 2 / var)
    if full:
        loss = loss + 0.5 * math.log(2 * math.pi)
    return {"mean": loss.mean, "sum": loss.sum}.get(reduction, lambda: loss)()


UNCHECKED = {
    torch.cov: cov,
    torch.Tensor.cov: cov,
    torch.corrcoef: corrcoef,
    torch.Tensor.corrcoef: corrcoef,
    functional.gaussian_nll_loss: gaussian_nll_loss,
}


class Unchecked(TorchFunctionMode):
    """While this lasts, these functions check no values."""

    def __torch_function__(self, function, types, arguments=(), keywords=None):
        function = UNCHECKED.get(function, function)
        return function(*arguments, **(keywords or {}))
