"""Transformers that predict from the visible players alone: hidden tokens are not attended to.

A model of transformers, or any module that is called in the same way, becomes a module on (inputs, coalitions), which
is the model itself if nothing is hidden. A copy of it, trained further, is the surrogate. Attention to hidden tokens is
masked before the softmax by the model's own `attention_mask`, as in ViT-Shapley (Covert et al., 2023): the class token
sees what is visible, at its place in the input, and nothing else.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from fwshapley.explanation.inputs.predictions import as_columns
from fwshapley.explanation.inputs.returned_entries import find_entry, take_entry
from fwshapley.explanation.inputs.select_output import copy_in_single
from fwshapley.networks.token_inputs import TokenInputs, inputs_from_facts, visible_tokens
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

    def facts(self) -> dict[str, Any]:
        """Return how it is called, and the configuration of a model of transformers, which replaces its code."""
        write = getattr(getattr(self.model, "config", None), "to_json_string", None)
        return {
            "class": type(self).__name__,
            "network": type(self.model).__name__,
            "config": None if write is None else json.loads(write()),
            "inputs": self.inputs.facts(),
        }

    @classmethod
    def from_facts(cls, facts: Mapping[str, Any], model: nn.Module | None) -> MaskedTransformer | None:
        """Return a transformer that `facts` describe, with any weights; None if its code is not known.

        Args:
            facts: as saved.
            model: of the same architecture; None makes it of its configuration.
        """
        if model is None and facts["config"] is None:
            return None
        made = copy_in_single(_make_model(facts) if model is None else model)
        return cls(made, inputs_from_facts(facts["inputs"]))

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


def _make_model(facts: Mapping[str, Any]) -> nn.Module:
    """Return a model of transformers with the class and the configuration that were saved, untrained."""
    try:
        import transformers  # noqa: PLC0415 - optional, and slow to import
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("this explainer needs transformers: pip install 'fwshapley[transformers]'") from error
    kind = getattr(transformers, facts["network"], None)
    if not (isinstance(kind, type) and issubclass(kind, transformers.PreTrainedModel)):
        raise ValueError(  # noqa: TRY004 - the file is wrong, not a type
            f"transformers has no model {facts['network']!r}; pass the model as model=..."
        )
    configuration: Any = kind.config_class
    made: nn.Module = kind(configuration.from_dict(dict(facts["config"])))
    return made
