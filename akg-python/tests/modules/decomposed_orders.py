import torch
from torch import nn


class Model(nn.Module):
    def forward(self, x, ties, i):
        sorts = *x.sort(), *ties.sort(dim=0, descending=True, stable=True), ties.argsort(stable=True), *x.topk(3, dim=0)
        places = *x.kthvalue(2), *x.median(0), x.median(), *ties.cummax(1), *x.cummin(0), x.logcumsumexp(-1)
        found = torch.searchsorted(x[0].sort()[0], x), torch.bucketize(x, x[1].sort()[0], right=True), x.histc(5, -2, 2)
        put = x.index_put((i, i), x[0, :3]), x.index_put((i,), x[:3], accumulate=True), x.index_copy(1, i, x[:, :3])
        added = x.index_add(0, i, x[1:4], alpha=2), x.index_fill(1, i, 3.0), x.put(i, x[0, :3]), x[i, i + 1]
        wide = i.unsqueeze(1).expand(3, 6)
        scattered = x.scatter(0, wide, 2.5), x.scatter(0, wide, x[1:4]), x.scatter_add(0, wide, x[1:4])
        reduced = [x.scatter_reduce(0, wide, x[1:4], how) for how in ("sum", "prod", "mean", "amax", "amin")]
        alone = x.scatter_reduce(0, wide, x[1:4], "amax", include_self=False)
        masked = x.masked_scatter(x > 0, x.flip(0)), nn.functional.embedding_bag(i, x, torch.tensor([0, 2]), mode="sum")
        return (*sorts, *places, *found, *put, *added, *scattered, *reduced, alone, *masked)


def get_inputs():
    return [torch.randn(5, 6), torch.randint(0, 3, (4, 7)), torch.tensor([0, 4, 1])]


def get_init_inputs():
    return []
