"""Semivalues of a text model without training: exact for short texts, sampled for longer ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, get_args

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from fwshapley._internal.checks import Array, check_choice, check_names, check_seed, check_whole, shorten
from fwshapley._internal.progress import ProgressBar
from fwshapley._internal.tensor_checks import choose_device
from fwshapley._internal.version import __version__
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.default_outputs import default_outputs
from fwshapley.explanation.inputs.input_checks import Outputs, choose_outputs, freeze_model
from fwshapley.explanation.inputs.predictions import raw_outputs
from fwshapley.explanation.learned.fitting import game_of
from fwshapley.explanation.learned.removal import RemovalName
from fwshapley.explanation.learned.sampled_values import SampledValues, default_calls, fewest_calls, sample_values
from fwshapley.explanation.learned.transformer_models import adapt_model, limit_players, split_pipeline
from fwshapley.explanation.text.text_attribution import TextAttribution, of_texts
from fwshapley.games.masked_model import MaskedModel, PredictionGame
from fwshapley.games.scales import KINDS, Output
from fwshapley.semivalues import Semivalue, Total, check_weights
from fwshapley.text_players import TextPlayers

MAX_ENUMERATED = 12
"""Players whose coalitions are all evaluated by default."""

CHECKED_TEXTS = 8


class TextExplainer:
    """Semivalues of a text model for a few texts, exact for short ones and sampled for longer ones; no training.

    Hidden words are not attended to, if the model's `attention_mask` allows it, see docs/guide/text.md. A surrogate is
    not trained, so the model may never have seen the like of such texts. `FeatureExplainer` trains one, and a network
    that explains a text in one pass.

    Args:
        model: of transformers, or any torch module that takes input_ids and attention_mask; or a pipeline.
        players: made by `tokens`, `words` or `sentences`; None is the tokens of a pipeline.
        removal: what hides a word: "attention" to it is masked, the "mask_token" replaces it, or "zero" its embedding.
            "auto" is attention if the model's outputs then do not change with hidden words, else the mask token.
        output: scale of the values, as for `FeatureExplainer`.
        n_calls: coalitions to evaluate for each text; 2**players or more give exact values. "auto" is all of them for
            up to 12 players, and 8 per player, but at least 256, for more.
        output_names: one per output of the model; by default those of its configuration.
        device: "auto" is a GPU if there is one.
        seed: of the coalitions.

    Example:
        >>> from tokenizers import Tokenizer, models, pre_tokenizers
        >>> from transformers import BertConfig, BertForSequenceClassification, PreTrainedTokenizerFast
        >>> vocabulary = Tokenizer(models.WordLevel({"[UNK]": 0, "good": 1, "film": 2}, unk_token="[UNK]"))
        >>> vocabulary.pre_tokenizer = pre_tokenizers.Whitespace()
        >>> tokenizer = PreTrainedTokenizerFast(
        ...     tokenizer_object=vocabulary, unk_token="[UNK]", mask_token="[UNK]"
        ... )
        >>> config = BertConfig(vocab_size=3, hidden_size=8, num_attention_heads=1)
        >>> explainer = fw.TextExplainer(BertForSequenceClassification(config), fw.tokens(tokenizer), device="cpu")
        >>> explainer.explain(["a good film"], weights=[fw.Shapley(), fw.Banzhaf()], progress=False).values.shape
        torch.Size([2, 1, 3, 1])
    """

    def __init__(
        self,
        model: nn.Module | Any,  # noqa: ANN401 - a pipeline
        players: TextPlayers | None = None,
        *,
        removal: RemovalName = "auto",
        output: Output | Literal["auto"] = "auto",
        n_calls: int | Literal["auto"] = "auto",
        output_names: Sequence[str] | None = None,
        device: str | torch.device = "auto",
        seed: int = 0,
    ) -> None:
        found, chosen = split_pipeline(model, players)
        if not isinstance(chosen, TextPlayers):
            raise TypeError(f"players must be made by fw.tokens, fw.words or fw.sentences, got {shorten(players)}")
        limited = limit_players(found, chosen)
        assert isinstance(limited, TextPlayers)  # noqa: S101 - checked above
        check_choice("removal", removal, ("auto", "attention", "mask_token", "zero"))
        check_choice("output", output, ("auto", *get_args(Output)))
        self.model: nn.Module = found
        self.players = limited
        self.removal = removal
        self.output = output
        self.n_calls = n_calls if n_calls == "auto" else check_whole("n_calls", n_calls)
        self.output_names = None if output_names is None else check_names("output_names", output_names)
        self.device = choose_device(device)
        self.seed = check_seed(seed)

    def __repr__(self) -> str:
        return f"TextExplainer({type(self.model).__name__}, {self.players!r}, n_calls={self.n_calls!r})"

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: Outputs = "auto",
        total: Total = "raw",
        progress: bool = True,
    ) -> TextAttribution:
        """Return the values of the players of each text, with standard errors where they were sampled.

        Args:
            x: texts, or one text.
            weights: a semivalue or a list of them, which share the coalitions; by default Shapley.
            outputs: as for `FeatureExplainer.explain`.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to the prediction less the base value.
            progress: show progress if it takes long.
        """
        check_choice("total", total, get_args(Total))
        weightings = check_weights(weights)
        texts = torch.from_numpy(self.players.read(x, "x")).to(self.device)
        game, names = self._make_game(texts)
        if isinstance(outputs, str) and outputs == "auto":
            outputs = default_outputs(len(names), are_classes=KINDS[game.output] == "classes")
        chosen = choose_outputs(outputs, len(texts), names, game.output)
        if chosen is None:
            chosen = raw_outputs(game.surrogate, texts).argmax(1, keepdim=True)
        numbers = chosen.to(self.device)
        counts = game.counts(texts)
        values, stderr = self._sample(game, texts, numbers, weightings, total, progress=progress)
        most = max(map(self._calls_of, counts.tolist()))
        is_exact = all(self._calls_of(n) == 2**n for n in counts.tolist())
        attribution = Attribution(
            values=values.float(),
            stderr=None if is_exact else stderr.float(),
            base_values=game.empty_values(texts).gather(1, numbers),
            outputs=numbers,
            inputs=texts,
            weights=weightings,
            total=total,
            players=self.players,
            output_names=names,
            provenance={
                "method": "enumeration" if is_exact else "sampling",
                "game": f"the model with hidden {self.players.unit}s",
                **({} if is_exact else {"calls_per_input": most}),
                "output": game.output,
                "version": __version__,
            },
        )
        of_all = of_texts(attribution, x, self.players)
        return of_all if isinstance(weights, list | tuple) else of_all.unstacked()

    def game(self, x: str) -> PredictionGame:
        """Return the game of a text, for any estimator.

        Args:
            x: the text.
        """
        encoded = torch.from_numpy(self.players.read(x, "x")).to(self.device)
        if len(encoded) != 1:
            raise ValueError(f"x must be one text, got {len(encoded)}; each has a game of its own")
        [(_, game)] = self._make_game(encoded)[0].by_count(encoded)
        return PredictionGame(game, encoded)

    def _make_game(self, texts: Float[Tensor, "texts 2 length"]) -> tuple[MaskedModel, tuple[str, ...]]:
        """Return the game of any texts, and the names of the model's outputs."""
        some = texts[:CHECKED_TEXTS]
        adapted = adapt_model(self.model, self.players, some, self.removal)
        meaning = adapted.output if self.output == "auto" else self.output
        names = adapted.names if self.output_names is None else self.output_names
        model, output, names = freeze_model(adapted.model, some, meaning, names, None)
        return game_of(self.players, model, output, self.device), names

    def _sample(
        self,
        game: MaskedModel,
        texts: Float[Tensor, "texts 2 length"],
        outputs: Int[Tensor, "texts outputs"],
        weightings: list[Semivalue],
        total: Total,
        *,
        progress: bool,
    ) -> SampledValues:
        """Return the values of each text, whose number of coalitions depends on its number of players."""
        generator = torch.Generator(self.device).manual_seed(self.seed)
        shape = (2, len(weightings), len(texts), game.n_players, outputs.shape[1])
        whole = torch.zeros(shape, dtype=torch.float64, device=self.device)
        with ProgressBar("sampling coalitions of texts", len(texts), enabled=progress) as bar:
            for rows, own in game.by_count(texts):
                part = sample_values(
                    own,
                    texts[rows],
                    outputs[rows],
                    weightings,
                    n_calls=self._calls_of(own.n_players),
                    generator=generator,
                    total=total,
                )
                whole[:, :, rows, : own.n_players] = torch.stack(tuple(part))
                bar.advance(len(texts[rows]))
        return SampledValues(*whole)

    def _calls_of(self, n: int) -> int:
        """Return the number of coalitions to evaluate for a text of n players, or raise an error if it is too small."""
        if self.n_calls == "auto":
            return 2**n if n <= MAX_ENUMERATED else default_calls(n)
        if self.n_calls < min(fewest_calls(n), 2**n):
            raise ValueError(f"n_calls must be at least {fewest_calls(n)} for {n} players, got {self.n_calls}")
        return min(self.n_calls, 2**n)
