"""MXFP4 rounding of expert weights during training, equal to what the export writes."""
import torch

GROUP = 32


def rounded(w: torch.Tensor) -> torch.Tensor:
    """w [..., C] as encode_mxfp4 and decode_mxfp4 of the reference give it back."""
    x = w.reshape(*w.shape[:-1], -1, GROUP)
    biggest = x.abs().amax(-1, keepdim=True).clamp(min=2.0 ** -120)
    _, exponent = torch.frexp(biggest)                     # biggest = m 2^e with m in [1/2, 1)
    scale = torch.ldexp(torch.ones_like(biggest), exponent - 3)
    y = x / scale
    size = y.abs()
    step = torch.where(size < 2.0, 0.5, torch.where(size < 4.0, 1.0, 2.0)).to(x.dtype)
    # torch.round takes ties to even multiples of the step, which are the even codes
    y = torch.sign(y) * torch.clamp(torch.round(size / step) * step, max=6.0)
    return (y * scale).reshape(w.shape)


def fake_quant(w: torch.Tensor) -> torch.Tensor:
    """The rounded weight, with the gradient of the unrounded one."""
    return w + (rounded(w.detach()) - w.detach())
