"""How a transformer is called on texts and on images, with some of the tokens hidden."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from fwshapley.text_players import OWNERS, PADDING, SPECIAL, TOKENS

TokenRemoval = Literal["attention", "mask_token", "zero"]
"""What hides a token: attention to it is masked; the mask token replaces it; or zeros replace its embedding."""

CPU_TOKENS, GPU_TOKENS = 2**12, 2**15
"""Most tokens in a call. Texts of similar length are in the same call, so that few tokens are padding."""


class TokenInputs(nn.Module, ABC):
    """How a transformer is called. It has no parameters, so a model and the network that explains it share it."""

    @abstractmethod
    def facts(self) -> dict[str, Any]:
        """Return the arguments of the constructor, for JSON; `inputs_from_facts` reads them."""

    @abstractmethod
    def parts(self, x: Float[Tensor, "batch ..."]) -> Iterator[tuple[Int[Tensor, " rows"], Tensor]]:
        """Yield the inputs of each call, and their rows."""

    @abstractmethod
    def owners(self, x: Float[Tensor, "batch ..."]) -> Int[Tensor, "batch tokens"]:
        """Player of each token, SPECIAL or PADDING."""

    @abstractmethod
    def call(
        self, model: nn.Module, x: Float[Tensor, "batch ..."], visible: Bool[Tensor, "batch tokens"] | None
    ) -> Any:  # noqa: ANN401 - whatever a model returns
        """Return what a model makes of the visible tokens; of all without a mask."""


class TextInputs(TokenInputs):
    """Encoded texts, see `fwshapley.text_players`.

    Args:
        removal: what hides a token.
        mask_token: number of the mask token.
    """

    def __init__(self, removal: TokenRemoval = "attention", mask_token: int | None = None) -> None:
        super().__init__()
        self.removal, self.mask_token = removal, mask_token

    def facts(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        return {"removal": self.removal, "mask_token": self.mask_token}

    def parts(self, x: Float[Tensor, "batch 2 length"]) -> Iterator[tuple[Int[Tensor, " rows"], Tensor]]:
        """Yield texts of similar length, without padding that none of them needs."""
        lengths, order = (x[:, OWNERS] != PADDING).sum(1).sort(descending=True)
        most, longest = _most_tokens(x), lengths.tolist()
        begin = 0
        while begin < len(longest):
            rows = order[begin : begin + max(1, most // longest[begin])]
            yield rows, x[rows, :, : longest[begin]]
            begin += len(rows)

    def owners(self, x: Float[Tensor, "batch 2 length"]) -> Int[Tensor, "batch length"]:
        """Player of each token."""
        return x[:, OWNERS].long()

    def call(self, model: nn.Module, x: Float[Tensor, "batch 2 length"], visible: Tensor | None) -> Any:  # noqa: ANN401 - as above
        """Return what a model makes of visible tokens: it gets input_ids or inputs_embeds, and attention_mask."""
        tokens, present = x[:, TOKENS].long(), x[:, OWNERS] != PADDING
        if visible is None:
            return model(input_ids=tokens, attention_mask=present.long())
        if self.removal == "attention":
            return model(input_ids=tokens, attention_mask=visible.long())
        kept = visible | ~present
        if self.removal == "mask_token":
            return model(input_ids=tokens.where(kept, self.mask_token), attention_mask=present.long())  # type: ignore[arg-type]  # it has one
        embeddings = model.get_input_embeddings()(tokens)  # type: ignore[operator]  # of any such model
        return model(inputs_embeds=embeddings * kept[..., None].to(embeddings.dtype), attention_mask=present.long())


class ImageInputs(TokenInputs):
    """Images whose players consist of the patches that a vision transformer sees.

    Args:
        owners: player of each patch, in reading order.
        n_special: tokens before the patches, such as the class token.
    """

    token_owners: Tensor

    def __init__(self, owners: Int[Tensor, " patches"], n_special: int) -> None:
        super().__init__()
        self.register_buffer("token_owners", torch.cat([owners.new_full((n_special,), SPECIAL), owners]))

    def facts(self) -> dict[str, Any]:
        """Return the arguments of the constructor."""
        owners = self.token_owners[self.token_owners >= 0]
        return {"owners": owners.tolist(), "n_special": len(self.token_owners) - len(owners)}

    def parts(self, x: Float[Tensor, "batch channels height width"]) -> Iterator[tuple[Int[Tensor, " rows"], Tensor]]:
        """Yield as many images as a call can take."""
        most = max(1, _most_tokens(x) // len(self.token_owners))
        for rows in torch.arange(len(x), device=x.device).split(most):
            yield rows, x[rows]

    def owners(self, x: Float[Tensor, "batch channels height width"]) -> Int[Tensor, "batch tokens"]:
        """Player of each token: the same in all images."""
        return self.token_owners.expand(len(x), -1)

    def call(self, model: nn.Module, x: Float[Tensor, "batch channels height width"], visible: Tensor | None) -> Any:  # noqa: ANN401 - as above
        """Return what a model makes of visible patches: it gets pixel_values and attention_mask."""
        return model(pixel_values=x) if visible is None else model(pixel_values=x, attention_mask=visible.long())


def inputs_from_facts(facts: Mapping[str, Any]) -> TokenInputs:
    """Return what `facts` describe."""
    if "owners" in facts:
        return ImageInputs(torch.tensor(facts["owners"]), facts["n_special"])
    return TextInputs(facts["removal"], facts["mask_token"])


def visible_tokens(
    owners: Int[Tensor, "batch tokens"], coalitions: Bool[Tensor, "batch players"]
) -> Bool[Tensor, "batch tokens"]:
    """Return which tokens are visible: those of the players in a coalition, and special ones."""
    return (coalitions.gather(1, owners.clamp(min=0)) & (owners >= 0)) | (owners == SPECIAL)


def _most_tokens(x: Tensor) -> int:
    return CPU_TOKENS if x.device.type == "cpu" else GPU_TOKENS
