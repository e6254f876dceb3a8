"""Transformers that predict from the visible players alone: hidden tokens are not attended to.

A model of transformers, or any module that is called in the same way, becomes a module on (inputs, coalitions), which
is the model itself if nothing is hidden. A copy of it, trained further, is the surrogate. Attention to hidden tokens is
masked before the softmax by the model's own `attention_mask`, as in ViT-Shapley (Covert et al., 2023): the class token
sees what is visible, at its place in the input, and nothing else.
"""

from __future__ import annotations

import copy

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fwshapley.explanation.inputs.predictions import as_columns
from fwshapley.explanation.inputs.returned_entries import find_entry, take_entry
from fwshapley.networks.token_inputs import TokenInputs, visible_tokens
from fwshapley.networks.transformer import FRESH_WIDTH, FreshEncoder, TransformerNetwork
from fwshapley.players import Players
from fwshapley.text_players import TextPlayers


class MaskedTransformer(nn.Module):
    """A transformer on inputs whose hidden players have no influence.

    Args:
        model: of transformers, or called in the same way.
        inputs: how it is called.
    """

    def __init__(self, model: nn.Module, inputs: TokenInputs) -> None:
        super().__init__()
        self.model, self.inputs = model, inputs

    def forward(
        self, x: Float[Tensor, "batch ..."], coalitions: Bool[Tensor, "batch players"] | None = None
    ) -> Float[Tensor, "batch outputs"]:
        """Logits or values from the visible players; from all of them without coalitions."""
        parts = []
        for rows, part in self.inputs.parts(x):
            visible = None if coalitions is None else visible_tokens(self.inputs.owners(part), coalitions[rows])
            returned = self.inputs.call(self.model, part, visible)
            logits = take_entry(returned, find_entry(returned, len(part)))
            parts.append((rows, as_columns(logits)))
        order = torch.cat([rows for rows, _ in parts]).argsort()
        return torch.cat([logits for _, logits in parts])[order]

    def network(self, players: Players, channels: int) -> TransformerNetwork:
        """Return an untrained explaining network that starts from this transformer's encoder.

        Args:
            players: of the inputs.
            channels: per player.
        """
        base = getattr(self.model, "base_model", None)
        width = getattr(getattr(self.model, "config", None), "hidden_size", None)
        if isinstance(base, nn.Module) and width is not None:
            encoder = copy.deepcopy(base)
            if hasattr(encoder, "pooler"):
                setattr(encoder, "pooler", None)  # noqa: B010 - mypy: it is a module; of the class token alone
            encoder.requires_grad_(requires_grad=True)
        else:
            assert isinstance(players, TextPlayers)  # noqa: S101 - images are for models of transformers alone
            encoder, width = FreshEncoder(len(players.tokenizer), players.n_players), FRESH_WIDTH
        inputs = copy.deepcopy(self.inputs)
        return TransformerNetwork(encoder, inputs, width=width, n_players=players.n_players, channels=channels)
