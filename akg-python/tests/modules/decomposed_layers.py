import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell = nn.GRUCell(4, 5)
        self.norm = nn.BatchNorm1d(4).eval()
        self.normed = nn.utils.parametrizations.weight_norm(nn.Linear(4, 3))
        self.mix = nn.Bilinear(4, 4, 3)

    def forward(self, x, y, state, index, image, grid):
        layers = self.cell(x, state), self.norm(x), self.normed(x), self.mix(x, y)
        distances = torch.cdist(x, y), torch.cdist(x, y, p=1.0), F.pdist(x), torch.dist(x, y), torch.renorm(x, 2, 0, 1.0)
        losses = F.nll_loss(x.log_softmax(1), index % 4), F.poisson_nll_loss(x, y.abs()), F.one_hot(index % 4, 4)
        hot = F.one_hot(index % 4, 4).to(torch.int8)
        losses = *losses, torch._int_mm(hot, hot.t())
        samples = F.grid_sample(image, grid, align_corners=False), F.unfold(image, 3, padding=1)
        nearest = F.grid_sample(image, grid, mode="nearest", padding_mode="border", align_corners=True)
        return (*layers, *distances, *losses, *samples, nearest)


def get_inputs():
    image, grid = torch.randn(2, 3, 6, 5), 2.4 * torch.rand(2, 4, 3, 2) - 1.2
    return [torch.randn(6, 4), torch.randn(6, 4), torch.randn(6, 5), torch.randint(0, 4, (6,)), image, grid]


def get_init_inputs():
    return []
