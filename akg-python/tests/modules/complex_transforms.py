import torch
from torch import fft, nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.filter = nn.Parameter(torch.randn(14, 8, 2))
        self.register_buffer("window", torch.hann_window(32))

    def forward(self, x, image, long, kernel):
        mixed = fft.fft(fft.fft(x, dim=-1), dim=-2).real
        spectrum = fft.rfft2(image, norm="ortho") * torch.view_as_complex(self.filter)
        filtered = fft.irfft2(spectrum, s=(14, 14), norm="ortho")
        convolved = fft.irfft(fft.rfft(x, n=100) * fft.rfft(kernel, n=100), n=100)[..., :50]
        odd = fft.irfft(fft.rfft(x[..., :49]), n=49)
        steps = torch.stft(long, 32, 8, window=self.window, return_complex=True)
        again = torch.istft(steps, 32, 8, window=self.window, length=1200)
        turned = torch.view_as_real(fft.ifft(fft.fft(long) * 1j))
        real = fft.irfft(fft.rfft(long), n=1200)
        shifted = fft.fftshift(fft.fft(x)).abs()
        return mixed, filtered, convolved, odd, steps.abs(), again, turned, real, shifted, fft.hfft(fft.ihfft(x), n=50)


def get_inputs():
    return [torch.randn(3, 5, 50), torch.randn(2, 14, 14), torch.randn(2, 1200), torch.randn(5, 50)]


def get_init_inputs():
    return []
