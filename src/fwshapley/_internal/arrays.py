"""Arrays of numpy and of torch alike, without importing torch: only a caller that has a tensor has imported it."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor
    from torch import device as Device  # noqa: N812 - the name of a type
else:  # for annotations in modules that do not import torch
    Tensor = Device = Any

__all__ = ["Device", "Tensor", "is_tensor", "to_numpy"]


def is_tensor(value: object) -> bool:
    """Whether a value is a torch tensor."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def to_numpy(values: Any) -> NDArray[Any]:  # noqa: ANN401 - a tensor, an array, a list or a DataFrame
    """Return values as a numpy array; a tensor is detached and copied to the CPU if it is elsewhere."""
    if is_tensor(values):
        tensor = values.detach().cpu()
        return np.asarray((tensor.float() if tensor.dtype == sys.modules["torch"].bfloat16 else tensor).numpy())
    return np.asarray(values.to_numpy() if hasattr(values, "to_numpy") else values)
