"""The explaining network of transformers: the surrogate's encoder, and a light head that reads each player's tokens."""

from __future__ import annotations

from types import SimpleNamespace

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley.networks.mlp import zero
from fwshapley.networks.token_inputs import TokenInputs
from fwshapley.text_players import PADDING

HEAD_WIDTH = 64
"""Width of an attention head."""

FRESH_WIDTH, FRESH_LAYERS = 128, 2
"""Of the encoder for a model whose hidden states are not known."""


class TransformerNetwork(nn.Module):
    """Transformer with a head for every token: inputs to (batch, players, channels), in one pass.

    The head is one attention block and a perceptron, as in ViT-Shapley; a player gets the mean over its tokens. Players
    that an input does not have get zeros, and so does every player at initialization.

    Args:
        encoder: returns an object with last_hidden_state; it goes on learning.
        inputs: how it is called.
        width: of the hidden states.
        n_players: most players of an input.
        channels: per player.
    """

    rate_factor = 0.05
    """Its learning rate, relative to that of networks that start at random. The head's output is multiplied by the
    inverse, so that its last layer, which starts at zero, learns as fast as that of other networks."""

    def __init__(self, encoder: nn.Module, inputs: TokenInputs, *, width: int, n_players: int, channels: int) -> None:
        super().__init__()
        self.encoder, self.inputs = encoder, inputs
        self.n_players, self.channels = n_players, channels
        self.before = nn.LayerNorm(width)
        heads = max(count for count in range(1, max(2, width // HEAD_WIDTH + 1)) if width % count == 0)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        last = nn.Linear(2 * width, channels)
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.GELU(), last)
        zero(last)

    def forward(self, x: Float[Tensor, "batch ..."]) -> Float[Tensor, "batch players channels"]:
        """Attribution channels of every player."""
        parts = [(rows, self._of_part(part)) for rows, part in self.inputs.parts(x)]
        order = torch.cat([rows for rows, _ in parts]).argsort()
        return torch.cat([outputs for _, outputs in parts])[order]

    def _of_part(self, x: Tensor) -> Float[Tensor, "batch players channels"]:
        owners = self.inputs.owners(x)
        states: Tensor = self.inputs.call(self.encoder, x, None).last_hidden_state
        normalized, padding = self.before(states), owners == PADDING
        mixed, _ = self.attention(normalized, normalized, normalized, key_padding_mask=padding, need_weights=False)
        return mean_by_player(self.head(states + mixed).float() / self.rate_factor, owners, self.n_players)


class FreshEncoder(nn.Module):
    """A small transformer that starts at random, for texts whose model does not tell its hidden states.

    Args:
        n_tokens: size of the vocabulary.
        length: most tokens of a text.
    """

    def __init__(self, n_tokens: int, length: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(n_tokens, FRESH_WIDTH)
        self.positions = nn.Embedding(length, FRESH_WIDTH)
        layer = nn.TransformerEncoderLayer(
            FRESH_WIDTH, FRESH_WIDTH // HEAD_WIDTH, 4 * FRESH_WIDTH, dropout=0.0, batch_first=True, norm_first=True
        )
        self.layers = nn.TransformerEncoder(layer, FRESH_LAYERS, enable_nested_tensor=False)

    def forward(
        self, input_ids: Int[Tensor, "batch length"], attention_mask: Int[Tensor, "batch length"]
    ) -> SimpleNamespace:
        """Hidden states, as models of transformers return them."""
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        embedded = self.tokens(input_ids) + self.positions(places)
        return SimpleNamespace(last_hidden_state=self.layers(embedded, src_key_padding_mask=attention_mask == 0))


def mean_by_player(
    outputs: Float[Tensor, "batch tokens channels"], owners: Int[Tensor, "batch tokens"], n_players: int
) -> Float[Tensor, "batch players channels"]:
    """Return the mean output over the tokens of each player, zeros for players without any.

    Example:
        >>> mean_by_player(torch.tensor([[[9.0], [2.0], [4.0], [5.0]]]), torch.tensor([[-1, 0, 0, 1]]), 3).flatten()
        tensor([3., 5., 0.])
    """
    batch, _, channels = outputs.shape
    place = torch.where(owners >= 0, owners, n_players)  # one more place takes the tokens of no player
    sums = outputs.new_zeros(batch, n_players + 1, channels)
    sums = sums.scatter_add(1, place[..., None].expand_as(outputs), outputs)
    counts = torch.zeros(batch, n_players + 1, device=outputs.device).scatter_add(
        1, place, torch.ones_like(place).float()
    )
    return (sums / counts.clamp(min=1)[..., None].to(sums.dtype))[:, :n_players]
