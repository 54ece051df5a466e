"""Products of float32 rows on the device that trains."""

from __future__ import annotations

from toolheads.arrays import Floats
from toolheads.errors import ConfigError
from toolheads.scorers.exact import Multiply, multiplied


def multiply_on(device: str) -> Multiply:
    """What multiplies rows: the device, tile by tile, or numpy where there is none.

    Args:
        device: As torch names it; `auto` is CUDA where there is a GPU, else numpy.

    Raises:
        ConfigError: If there is no such device.
    """
    import torch  # here, since numpy alone does without a device

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "numpy"
    if device == "numpy":
        return multiplied
    try:
        torch.empty(1, device=device)
    except (RuntimeError, AssertionError) as e:
        reason = " ".join(str(e).split())
        msg = f"device must be auto, numpy or one that torch has, got {device!r}: {reason:.120}"
        raise ConfigError(msg) from e

    def multiply(one: Floats, two: Floats) -> Floats:
        # A tile that is mapped from a file is read-only or about to be let go: it is copied.
        on_device = [torch.tensor(rows, device=device) for rows in (one, two)]
        before = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")  # the slack of a search counts on it
        try:
            product: Floats = (on_device[0] @ on_device[1].T).cpu().numpy()
        finally:
            torch.set_float32_matmul_precision(before)
        return product

    return multiply
