from __future__ import annotations

from typing import get_args

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from brute_force import all_coalitions
from fwshapley.games import masked_model as masking
from fwshapley.games import scales
from fwshapley.games.masked_model import MaskedModel, PredictionGame, class_log_odds
from fwshapley.games.scales import Output
from fwshapley.players import columns
from models import TableModel, rows, seeded

N, CLASSES = 4, 3
CPU = torch.device("cpu")


class CountingSurrogate(fw.explanation.Surrogate):
    """Remembers how many rows it saw in each call."""

    seen: list[int]

    def forward(self, x: Tensor, coalitions: Tensor) -> Tensor:
        self.seen.append(len(x))
        return super().forward(x, coalitions)


def masked_model(output: Output = "probability") -> MaskedModel:
    surrogate = CountingSurrogate(seeded(TableModel), columns(N), torch.zeros(1, N)).eval()
    surrogate.seen = []
    return MaskedModel(surrogate, output, N, CPU)


def seen_by(masked: MaskedModel) -> list[int]:
    assert isinstance(masked.surrogate, CountingSurrogate)
    return masked.surrogate.seen


@pytest.mark.parametrize("output", ["probability", "logit", "raw"])
def test_a_coalition_is_worth_what_the_model_says_of_the_filled_input(output: Output) -> None:
    x, coalitions = rows(5, N), all_coalitions(N).expand(5, -1, -1)
    masked = masked_model(output)
    found = masked(x, coalitions)
    assert found.shape == (5, 16, CLASSES)
    assert not found.requires_grad
    model = seeded(TableModel).eval()
    for number in range(16):
        logits = model(x * coalitions[:, number])
        probability = logits.softmax(1)
        expected = {"raw": logits, "probability": probability, "logit": torch.logit(probability.double()).float()}
        assert_close(found[:, number], expected[output].detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("most", [1, 7, 16, 1000])
def test_coalitions_are_asked_about_in_chunks_without_a_difference(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    x, coalitions = rows(5, N), all_coalitions(N).expand(5, -1, -1)
    masked = masked_model()
    whole = masked(x, coalitions)
    assert seen_by(masked) == [80]
    monkeypatch.setattr(masking, "MAX_CPU_ELEMENTS", most * N)
    assert_close(masked(x, coalitions), whole)
    chunks = seen_by(masked)[1:]
    assert sum(chunks) == 80
    assert max(chunks) <= most


def test_the_ends_are_nobody_and_everyone() -> None:
    x, masked = rows(3, N), masked_model("raw")
    model = seeded(TableModel).eval()
    assert_close(masked.empty_values(x), model(torch.zeros_like(x)).detach())
    assert_close(masked.full_values(x), model(x).detach())


def test_a_prediction_game_is_a_game() -> None:
    x, masked = rows(1, N), masked_model()
    game = PredictionGame(masked, x)
    assert isinstance(game, fw.games.Game)
    assert game.n_players == N
    assert game.device == CPU
    assert_close(game(all_coalitions(N)), masked(x, all_coalitions(N)[None])[0])
    assert game(all_coalitions(N)[:0]).shape == (0, CLASSES)
    values = fw.exact_values(game, fw.Shapley())
    assert_close(values.sum(0), (masked.full_values(x) - masked.empty_values(x))[0].double(), rtol=0, atol=1e-6)


def test_log_odds_of_classes_are_the_logit_of_their_probability() -> None:
    logits = torch.randn(50, CLASSES, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 3
    probability = logits.softmax(1)
    assert_close(class_log_odds(logits), (probability / (1 - probability)).log())


def test_log_odds_of_two_classes_are_the_difference_of_their_logits() -> None:
    logits = torch.tensor([[2.0, -1.0], [0.5, 0.5]], dtype=torch.float64)
    difference = logits[:, 0] - logits[:, 1]
    assert_close(class_log_odds(logits), torch.stack([difference, -difference], 1))


@pytest.mark.parametrize("extreme", [30.0, 200.0, 1e4])
def test_log_odds_are_exact_for_extreme_logits(extreme: float) -> None:
    logits = torch.tensor([[extreme, 0.0, -extreme], [-extreme, -extreme, 0.0]])
    found = class_log_odds(logits)
    others = logits[0, 1:].logsumexp(0)
    assert_close(found[0, 0], logits[0, 0] - others)  # of which p itself, rounded to 1, knows nothing
    assert_close(found[1, 2], extreme - torch.tensor(2.0).log())
    assert_close(found[0, 1:], logits[0, 1:] - extreme)


def test_nothing_is_trained_by_asking() -> None:
    masked = masked_model()
    before = {name: tensor.clone() for name, tensor in masked.surrogate.state_dict().items()}
    masked(rows(5, N), torch.ones(5, 2, N, dtype=torch.bool))
    assert all(torch.equal(tensor, before[name]) for name, tensor in masked.surrogate.state_dict().items())
    assert all(parameter.grad is None for parameter in masked.surrogate.parameters())
    assert isinstance(masked.surrogate, nn.Module)


@pytest.mark.parametrize("output", ["label_probability", "label_logit"])
def test_labels_are_worth_their_own_probability_or_log_odds(output: Output) -> None:
    x, coalitions = rows(5, N), all_coalitions(N).expand(5, -1, -1)
    found, logits = masked_model(output)(x, coalitions), masked_model("raw")(x, coalitions)
    assert_close(found, logits.sigmoid() if output == "label_probability" else logits)
    if output == "label_probability":  # not one of classes that exclude each other
        assert bool(((found >= 0) & (found <= 1)).all())
        assert not torch.allclose(found.sum(-1), torch.ones(5, 16), atol=0.01)


def test_one_label_is_one_of_two_classes() -> None:
    logits = rows(20, 1).double()
    both = torch.cat([logits, torch.zeros_like(logits)], 1)
    pairs: list[tuple[Output, Output]] = [("label_probability", "probability"), ("label_logit", "logit")]
    for label, classes in pairs:
        assert_close(masking.LINKS[label](logits), masking.LINKS[classes](both)[:, :1])


def test_every_output_has_a_kind_and_a_worth() -> None:
    assert set(masking.LINKS) == set(scales.KINDS) == set(get_args(Output))
    assert set(scales.KINDS.values()) == set(get_args(scales.Kind))


def test_a_network_on_a_cpu_gets_few_images_at_once_and_a_function_many() -> None:
    seen: list[int] = []

    class Network(nn.Module):
        def __init__(self, *, learns: bool) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1)) if learns else 1.0

        def forward(self, x: Tensor, coalitions: Tensor) -> Tensor:  # noqa: ARG002 - all see everything
            seen.append(len(x))
            return x.flatten(1)[:, :1] * self.scale

    coalitions = torch.zeros(5, 100, 4, dtype=torch.bool)
    for learns in (True, False):
        masked = MaskedModel(Network(learns=learns), "raw", 4, torch.device("cpu"))
        assert masked(torch.ones(5, 1, 32, 32), coalitions).shape == (5, 100, 1)
    assert seen == [128, 128, 128, 116, 500]
    assert masked(torch.ones(5, 1, 1024, 1024), coalitions[:, :2]).shape == (5, 2, 1)
    assert seen[5:] == [8, 2]
