import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolution = nn.Conv2d(2, 4, 3, padding=1)
        self.head = nn.Linear(4, 3)

    def forward(self, x):
        batch, _, height, width = x.shape
        y = F.relu(self.convolution(x))
        y = F.interpolate(y, scale_factor=2, mode="bilinear", align_corners=False)
        left, right = y.chunk(2, dim=3)
        blocks = left.reshape(batch, 4, height // 2, 4, width)
        return self.head(F.adaptive_avg_pool2d(right, 1).flatten(1)), blocks.amax(3)


def get_inputs():
    return [torch.randn(2, 2, 6, 8)]


def get_init_inputs():
    return []
