import torch
from torch import nn
from torch.nn.functional import linear, mse_loss


class Model(nn.Module):
    """Shows what autocast does: it makes the first result the second, leaves the third alone, and gives the fourth in
    float32."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x):
        weight, bias = self.linear.weight, self.linear.bias
        half = x.half()
        product = linear(half, weight.half(), bias.half())
        return self.linear(x), product, x * weight, mse_loss(half, product)


def get_inputs():
    return [torch.rand(8, 8)]


def get_init_inputs():
    return []
