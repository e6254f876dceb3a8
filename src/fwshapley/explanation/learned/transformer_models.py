"""Which models are transformers that can hide players by themselves, and how: `adapt_model`."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import shorten
from fwshapley.explanation.inputs.model_functions import describe_failure
from fwshapley.explanation.inputs.select_output import copy_in_single
from fwshapley.explanation.learned.masked_transformer import MaskedTransformer
from fwshapley.games.scales import Output
from fwshapley.networks.token_inputs import ImageInputs, TextInputs, TokenRemoval
from fwshapley.players import Players
from fwshapley.text_players import OWNERS, TOKENS, TextPlayers, tokens

TESTED_INPUTS = 4
MAX_INFLUENCE = 1e-3
ROUNDING = 1e-6
"""Most that hidden players may change outputs, relative to visible ones."""

DEFAULT_NAME = "LABEL_"
"""Names of classes that transformers gives if nobody did."""


class Adapted(NamedTuple):
    """A model that is a transformer, ready to hide players, or any other model as it was.

    Attributes:
        model: a frozen copy if it is a transformer.
        output: what its outputs mean, as its configuration says; "auto" if it does not.
        names: of its outputs; None if they are not known.
    """

    model: Any
    output: Output | Literal["auto"] = "auto"
    names: tuple[str, ...] | None = None


def split_pipeline(model: Any, players: Players | None) -> tuple[Any, Players | None]:  # noqa: ANN401 - any model
    """Return the model of a pipeline of transformers; its tokens are the players if none are passed.

    Args:
        model: a pipeline, or any model, which is returned as it is.
        players: as they were passed.
    """
    if not (hasattr(model, "task") and isinstance(getattr(model, "model", None), nn.Module)):
        return model, players
    tokenizer = getattr(model, "tokenizer", None)
    if players is None and tokenizer is not None:
        players = tokens(tokenizer)
    return model.model, players


def limit_players(model: Any, players: Players | None) -> Players | None:  # noqa: ANN401 - any model
    """Return the players of texts that are not longer than a model can read; any other players as they are."""
    if not isinstance(players, TextPlayers):
        return players
    if not isinstance(model, nn.Module):
        raise TypeError(
            "model must be a torch module that takes input_ids and attention_mask, or a pipeline of transformers, to "
            f"explain texts; got {shorten(model)}"
        )
    position = next((part for name, part in model.named_modules() if name.endswith("position_embeddings")), None)
    if not isinstance(position, nn.Embedding):
        return players
    reserved = 0 if position.padding_idx is None else position.padding_idx + 1  # RoBERTa's positions begin there
    return players.at_most(position.num_embeddings - reserved)


def adapt_model(
    model: Any,  # noqa: ANN401 - any model
    players: Players | None,
    x: Float[Tensor, "some ..."],
    removal: object,
) -> Adapted:
    """Return a transformer as a module that hides players by itself; any other model as it is.

    Args:
        model: of texts, or perhaps of transformers.
        players: of the inputs.
        x: some inputs, on the device where the model is to run.
        removal: as `FeatureExplainer` takes it.
    """
    if isinstance(players, TextPlayers):
        _check_vocabulary(model, players, x)
        copied = copy_in_single(model).to(x.device)
        adapted = _adapt_text_model(copied, players, x[:TESTED_INPUTS], removal)
    elif _is_vision_transformer(model) and players is not None and removal in ("auto", "attention"):
        found = _adapt_image_model(model, players, x[:TESTED_INPUTS])
        if found is None:
            if removal == "attention":
                raise ValueError(
                    "removal='attention' needs players that consist of the patches of the model, and a model that "
                    "takes attention_mask; pass such a grid, or another removal"
                )
            return Adapted(model)
        adapted = found
    else:
        return Adapted(model)
    return Adapted(adapted, *_describe_outputs(getattr(model, "config", None)))


def hides_players(model: MaskedTransformer, x: Float[Tensor, "some ..."], changed: Float[Tensor, "some ..."]) -> bool:
    """Whether hidden players have no influence on a transformer: it predicts the same whatever they are.

    Args:
        model: on inputs and coalitions.
        x: some inputs.
        changed: inputs of which every player is another one.
    """
    hidden = torch.zeros(len(x), int(model.inputs.owners(x).max()) + 1, dtype=torch.bool, device=x.device)
    with torch.no_grad():
        difference = (model(x, hidden) - model(changed, hidden)).abs().max()
        usual = (model(x) - model(changed)).abs().max()
    return float(difference) <= MAX_INFLUENCE * float(usual) + ROUNDING


def _adapt_text_model(
    model: nn.Module, players: TextPlayers, x: Float[Tensor, "some 2 length"], removal: object
) -> MaskedTransformer:
    """Return a model of texts that hides players as `removal` says, or as it can."""
    mask_token = players.tokenizer.mask_token_id
    if removal not in ("auto", *get_args(TokenRemoval)):
        choices = ", ".join(map(repr, ("auto", *get_args(TokenRemoval))))
        raise ValueError(f"removal must be one of {choices} for texts, got {shorten(removal)}")
    masked = MaskedTransformer(model, TextInputs("attention"))
    _try_model(masked, x)
    if removal in ("auto", "attention"):
        if hides_players(masked, x, _exchange_tokens(x, players)):
            return masked
        if removal == "attention":
            raise ValueError(
                "removal='attention' needs a model whose attention_mask keeps hidden tokens from changing its outputs, "
                "and those of this one change; pass removal='mask_token' or 'zero'"
            )
    if removal in ("auto", "mask_token") and mask_token is not None:
        return MaskedTransformer(model, TextInputs("mask_token", int(mask_token)))
    if removal != "zero":
        also = " and the model's outputs change with tokens that attention_mask hides" if removal == "auto" else ""
        raise ValueError(
            f"removal={removal!r} cannot hide tokens: the tokenizer has no mask token{also}; pass removal='zero', "
            "which replaces their embeddings by zeros"
        )
    if not hasattr(model, "get_input_embeddings"):
        raise ValueError("removal='zero' needs a model with get_input_embeddings(), as those of transformers have")
    return MaskedTransformer(model, TextInputs("zero"))


def _exchange_tokens(x: Float[Tensor, "some 2 length"], players: TextPlayers) -> Float[Tensor, "some 2 length"]:
    """Return texts of which every token of a player is another one, but none is the padding."""
    count, numbers = len(players.tokenizer), x[:, TOKENS]
    other = (numbers + 1) % count
    other = torch.where(other == players.padding_token, (other + 1) % count, other)
    return torch.stack([torch.where(x[:, OWNERS] >= 0, other, numbers), x[:, OWNERS]], 1)


def _try_model(model: MaskedTransformer, x: Float[Tensor, "some 2 length"]) -> None:
    """Call a model, or raise an error that says how it is called."""
    try:
        with torch.no_grad():
            model(x)
    except Exception as error:  # whatever a user's model may raise
        raise ValueError(
            "the model failed on input_ids and attention_mask of shape "
            f"{(len(x), x.shape[2])}: {describe_failure(error)}; does the tokenizer belong to it?"
        ) from error


def _check_vocabulary(model: nn.Module, players: TextPlayers, x: Float[Tensor, "some 2 length"]) -> None:
    """Raise an error if a tokenizer makes tokens that a model does not know."""
    if not hasattr(model, "get_input_embeddings"):
        return
    size = model.get_input_embeddings().num_embeddings  # type: ignore[operator]  # of any model of transformers
    largest = max(len(players.tokenizer) - 1, int(x[:, TOKENS].max()))
    if largest >= size:
        raise ValueError(
            f"the tokenizer does not match the model: it has tokens up to number {largest:,}, and the model has "
            f"embeddings for {size:,}; pass the tokenizer that the model was trained with"
        )


def _is_vision_transformer(model: object) -> bool:
    """Whether a model is one of transformers that sees an image as patches of one size."""
    config = getattr(model, "config", None)
    return isinstance(model, nn.Module) and hasattr(config, "patch_size") and hasattr(config, "image_size")


def _adapt_image_model(
    model: nn.Module, players: Players, x: Float[Tensor, "some channels height width"]
) -> MaskedTransformer | None:
    """Return a vision transformer that hides players; None if it cannot, or if they cut through its patches."""
    owners = _owners_of_patches(players, model.config.patch_size)  # type: ignore[union-attr, arg-type]  # it has one
    if owners is None:
        return None
    copied = copy_in_single(model).to(x.device)
    try:
        with torch.no_grad():
            states = copied.base_model(pixel_values=x[:1]).last_hidden_state  # type: ignore[operator]
            masked = MaskedTransformer(copied, ImageInputs(owners.to(x.device), states.shape[1] - len(owners)))
            return masked if hides_players(masked, x, x.mean() - x.flip(1, 2, 3)) else None
    except (TypeError, ValueError, RuntimeError, AttributeError):  # it is not called in this way
        return None


def _owners_of_patches(players: Players, patch_size: int | tuple[int, int]) -> Int[Tensor, " patches"] | None:
    """Return the player of each patch in reading order; None if some patch has pixels of several players."""
    rows, columns = (patch_size, patch_size) if isinstance(patch_size, int) else patch_size
    height, width = players.assignment.shape
    if height % rows or width % columns:
        return None
    pixels = torch.from_numpy(players.assignment).unflatten(1, (-1, columns)).unflatten(0, (-1, rows))
    smallest, largest = pixels.amin((1, 3)), pixels.amax((1, 3))
    return smallest.flatten() if bool((smallest == largest).all()) else None


def _describe_outputs(config: Any) -> tuple[Output | Literal["auto"], tuple[str, ...] | None]:  # noqa: ANN401 - of transformers
    """Return what the outputs of a model are, and their names, if its configuration says so."""
    labels = getattr(config, "id2label", None)
    if not labels:
        return "auto", None
    names = tuple(str(labels[number]) for number in sorted(labels))
    known = not all(name.startswith(DEFAULT_NAME) for name in names) and len(set(names)) == len(names)
    problem = getattr(config, "problem_type", None)
    if len(names) == 1 or problem == "regression":
        return "raw", names if known else None
    return "label_probability" if problem == "multi_label_classification" else "probability", names if known else None
