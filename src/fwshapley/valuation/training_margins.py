"""Margins of training points, recorded while a network learns them.

A network learns correct labels early and wrong ones late, against what similar points say. So the margin of a label,

    z[label] - max of the other z,

averaged over the steps of the training that saw the point, is lower for wrong labels even where the network has learned
them by heart in the end (Pleiss et al., *Identifying mislabeled data using the area under the margin ranking*, 2020).
"""

from __future__ import annotations

import torch
from jaxtyping import Float, Float32, Int64
from torch import Tensor, nn


class MarginRecorder(nn.Module):
    """A network beside the sums of the margins of its training points, which a checkpoint saves with its parameters.

    Args:
        network: from inputs to logits.
        n: number of points.
    """

    sums: Tensor
    counts: Tensor

    def __init__(self, network: nn.Module, n: int) -> None:
        super().__init__()
        self.network = network
        self.register_buffer("sums", torch.zeros(n))
        self.register_buffer("counts", torch.zeros(n))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits of the network."""
        return self.network(x)

    @torch.no_grad()
    def record(self, points: Int64[Tensor, " batch"], margins: Float[Tensor, " batch"], times: Tensor) -> None:
        """Add margins, each of which is a sum over some times."""
        self.sums.index_add_(0, points.to(self.sums.device), margins.float())
        self.counts.index_add_(0, points.to(self.counts.device), times.float())

    def means(self, otherwise: Float[Tensor, " n"]) -> Float32[Tensor, " n"]:
        """Return the mean margin of each point; of points that no step saw, another number."""
        sums, counts = self.sums.cpu(), self.counts.cpu()
        return torch.where(counts > 0, sums / counts.clamp(min=1), otherwise.float())


def recorder_in(module: nn.Module) -> MarginRecorder:
    """Return the recorder in a module that training may have wrapped, as it does for several processes."""
    recorder = getattr(module, "module", module)
    if not isinstance(recorder, MarginRecorder):
        raise TypeError(f"expected a MarginRecorder, got {type(recorder).__name__}")
    return recorder


def margins_of(logits: Float[Tensor, "*batch classes"], labels: Int64[Tensor, "*batch"]) -> Float[Tensor, "*batch"]:
    """Return the logit of each label minus the largest of the other classes."""
    own = logits.gather(-1, labels[..., None])
    others = logits.scatter(-1, labels[..., None], -torch.inf)
    return own[..., 0] - others.max(-1).values
