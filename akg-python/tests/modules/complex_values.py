import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(6, 4, dtype=torch.cfloat))
        self.register_buffer("table", torch.polar(torch.ones(8, 4), torch.randn(8, 4)))

    def forward(self, x, y, pairs):
        z, w = torch.complex(x, y), torch.view_as_complex(pairs)
        rotated = torch.view_as_real(z[:, :4].unsqueeze(1) * self.table)
        arithmetic = torch.view_as_real(z * z.conj() / (w[:, :6] + 2j) - 3 * z + (1 - 1j))
        quotient = torch.view_as_real((z / (z + 2)).reciprocal().sum(0))
        product = (z @ self.weight).abs()
        wave = torch.exp(z * -0.5j).imag
        parts = torch.cat([w.real.to(torch.cfloat), z], 1).transpose(0, 1)[1:].mean(1)
        chosen = torch.where(x > 0, z, torch.zeros_like(z)).angle()
        constant = (x[:, :2] * torch.tensor([1 + 2j, 3 - 1j])).real
        split = torch.view_as_real(torch.stack(torch.split(w, 3, 1)[::-1]))
        powers = torch.view_as_real(z**3 + torch.log(z) + torch.sqrt(w)), x.sum(0, dtype=torch.cfloat).imag
        kept = torch.zeros(5, 6, dtype=torch.cfloat)
        kept[:, 1:3] = z[:, 3:5]
        kept[torch.arange(2) * 2] = w[:2]
        kept = torch.view_as_real(torch.nn.functional.linear(kept, self.weight.mT))
        return *powers, kept, rotated, arithmetic, quotient, product, wave, torch.view_as_real(parts), chosen, constant, split


def get_inputs():
    return [torch.randn(5, 6), torch.randn(5, 6), torch.randn(5, 6, 2)]


def get_init_inputs():
    return []
