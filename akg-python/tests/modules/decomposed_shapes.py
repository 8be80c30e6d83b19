import torch
import torch.nn.functional as F
from torch import nn


class Model(nn.Module):
    def forward(self, x, y, image):
        parts = x.diff(), x.diff(n=2, dim=0), x.new_ones(3, 2), x.new_full((2,), 1.5), torch.fill(x, 2.0), x.rot90()
        arranged = F.pixel_shuffle(image, 2), F.pixel_unshuffle(image, 2), F.channel_shuffle(image, 2), x.trace()
        repeated = x.repeat_interleave(3, dim=0), torch.meshgrid(x[0], y[0], indexing="ij")[1], torch.diag_embed(x)
        written = torch.slice_scatter(x, y[1:3], 0, 1, 3), torch.select_scatter(x, y[0], 0, 2), torch.vander(x[0], 3)
        resized = [
            F.interpolate(image, scale_factor=2),
            F.interpolate(image, size=(5, 9), mode="nearest-exact"),
            F.interpolate(image, scale_factor=1.5, mode="bilinear"),
            F.interpolate(image, size=(9, 7), mode="bicubic", align_corners=True),
            F.interpolate(image[0], scale_factor=2, mode="linear"),
        ]
        products = torch.kron(x, y), torch.tensordot(x, y, 2), torch.linalg.multi_dot([x, y, x]), torch.matrix_power(x, 3)
        strided = x.diagonal(1), torch.diagonal_scatter(x, y[0, :3], -1), x.as_strided((2, 3), (1, 2), 1)
        return (*strided, *parts, *arranged, *repeated, *written, *resized, *products)


def get_inputs():
    return [torch.randn(4, 4), torch.randn(4, 4), torch.randn(2, 8, 6, 4)]


def get_init_inputs():
    return []
