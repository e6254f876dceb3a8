from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pandas as pd
import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import fwshapley as fw
from fwshapley.explanation.inputs.predictions import PREDICTIONS, Predictions, predict
from fwshapley.explanation.learned.fidelity import divergence
from fwshapley.explanation.learned.fitting import OF_TABLE
from fwshapley.explanation.learned.removal import check_removal, encode_removal, make_fill
from fwshapley.explanation.learned.surrogate import take_batch
from fwshapley.games.masked_model import MaskedModel
from fwshapley.games.scales import Kind, Output
from fwshapley.networks.mlp import ColumnKinds
from fwshapley.players import columns
from fwshapley.training.batches import Batch, Shard
from fwshapley.training.budget import History, TrainingOptions
from models import ImageModel, TableModel, images, rows, seeded

N, CLASSES = 4, 3
X, X_VALID = rows(512, N), rows(256, N, seed=1)
EVERYONE = torch.ones(256, N, dtype=torch.bool)


def game_of(surrogate: nn.Module, output: Output) -> MaskedModel:
    return MaskedModel(surrogate, output, N, torch.device("cpu"))


def trained(
    model: nn.Module,
    surrogate: nn.Module | None = None,
    *,
    output: Output = "probability",
    steps: int = 60,
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None,
    **options: Any,  # noqa: ANN401 - options of training
) -> tuple[nn.Module, History]:
    if surrogate is None:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            surrogate = fw.explanation.TableSurrogate(X, columns(N), predict(model, X[:1], output).shape[1])
    arguments: dict[str, Any] = {"budget": fw.Budget(steps=steps), "batch_size": 256, "progress": False}
    chosen = TrainingOptions(**arguments | options)
    history = fw.explanation.train_surrogate(game_of(surrogate, output), model, X, X_VALID, chosen, augment=augment)
    return surrogate, history


def fill_of_table(removal: Any) -> Tensor:  # noqa: ANN401 - whatever the explainer takes
    check_removal(removal)
    return make_fill(encode_removal(removal, None, torch.float32), X)


def test_hidden_positions_are_filled_and_shown_ones_are_not() -> None:
    seen: list[Tensor] = []
    network = nn.Linear(N, CLASSES)
    network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    coalitions = torch.tensor([[True, False, False, True]])
    fw.explanation.Surrogate(network, columns(N), torch.full((1, N), 9.0))(X[:1], coalitions)
    assert seen[0].tolist() == [[X[0, 0].item(), 9, 9, X[0, 3].item()]]


def test_a_surrogate_can_tell_the_network_the_mask() -> None:
    players = fw.grid(8, 8, patch=4)
    seen: list[Tensor] = []
    network = seeded(ImageModel, CLASSES, 2).eval()
    network.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))
    surrogate = fw.explanation.Surrogate(network, players, torch.zeros(1, 1, 1, 1), tell_mask=True)
    coalitions = torch.tensor([[True, False, False, True]] * 2)
    assert surrogate(images(2), coalitions).shape == (2, CLASSES)
    assert seen[0].shape == (2, 2, 8, 8)
    assert torch.equal(seen[0][:, 1:], players.spread(coalitions).float())
    assert torch.equal(seen[0][:, :1], images(2) * players.spread(coalitions))


@pytest.mark.parametrize("kind", get_args(Kind))
def test_with_background_data_the_prediction_is_the_mean_over_it(kind: Kind) -> None:
    model, background = seeded(TableModel).eval(), rows(3, N, seed=2)
    surrogate = fw.explanation.Surrogate(model, columns(N), make_fill(background, X), kind=kind)
    coalitions = torch.tensor([[True, False, True, False]] * 5)
    filled = [PREDICTIONS[kind](model(torch.where(coalitions, X[:5], row))) for row in background]
    assert_close(PREDICTIONS[kind](surrogate(X[:5], coalitions)), torch.stack(filled).mean(0))


def test_a_model_of_one_output_without_an_axis_gets_one() -> None:
    class Sum(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.sum(1)

    surrogate = fw.explanation.Surrogate(Sum(), columns(N), torch.zeros(1, N), kind="values")
    assert_close(surrogate(X[:5], EVERYONE[:5]), X[:5].sum(1, keepdim=True))
    assert predict(Sum(), X[:5], "raw").shape == (5, 1)  # also without parameters that say where it is


@pytest.mark.parametrize(
    ("removal", "expected"),
    [
        ("zero", torch.zeros(1, 1)),
        ("auto", torch.zeros(1, 1)),
        ("mean", X.mean(0, keepdim=True)),
        ([1, 2, 3, 4], torch.tensor([[1.0, 2, 3, 4]])),
        (np.ones((2, N)), torch.ones(2, N)),
    ],
)
def test_fills_are_what_was_asked_for(removal: object, expected: Tensor) -> None:
    assert_close(fill_of_table(removal), expected)


def test_where_zero_is_plausible_hidden_pixels_become_what_no_pixel_is() -> None:
    digits = images(20).clamp(min=0) / images(20).max()  # half of it is background
    assert float(make_fill("auto", digits)) == pytest.approx(-0.5)
    assert float(make_fill("zero", digits)) == 0
    assert float(make_fill("auto", 2 * digits + 1)) == 0  # from 1 to 3: zero is already out of range
    few = torch.ones(1000, 1)
    few[:10] = 0
    assert float(make_fill("auto", few)) == 0  # 1 % of zeros may be chance


@pytest.mark.parametrize("removal", [torch.zeros(N + 1), torch.zeros(2, N + 1), torch.zeros(()), torch.zeros(0, N)])
def test_a_removal_of_another_shape_is_refused(removal: Tensor) -> None:
    with pytest.raises(ValueError, match=r"removal must be a baseline of shape \(4,\)"):
        fill_of_table(removal)


def test_predictions_say_which_inputs_are_decided_otherwise() -> None:
    said, other = torch.tensor([[0.9, 0.2], [0.4, 0.6]]), torch.tensor([[0.8, 0.7], [0.3, 0.9]])
    cases: dict[Kind, list[bool]] = {"classes": [False, False], "labels": [True, False]}
    for kind, differ in cases.items():
        found = Predictions(said, other, kind)
        assert found.differ is not None
        assert found.differ.tolist() == differ
        assert str(found).endswith(f"for {sum(differ)} of 2 inputs")
    assert Predictions(said, other, "values").differ is None
    assert Predictions(None, other, "classes").differ is None


@pytest.mark.parametrize("output", ["probability", "label_logit"])
def test_an_explainer_tells_what_model_and_surrogate_predict(output: Output) -> None:
    model = seeded(TableModel)
    explainer = fw.FeatureExplainer(model, output=output, device="cpu")
    found = explainer.fit(X, X_VALID, budget=fw.Budget(steps=4), progress=False).predictions(X_VALID)
    assert found.model is not None
    assert_close(found.model, predict(model, X_VALID, output))
    worth = explainer.masked_model_.full_values(X_VALID)
    assert_close(found.surrogate, worth.sigmoid() if output == "label_logit" else worth)


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_removal_is_refused() -> None:
    with pytest.raises(ValueError, match=r"removal must be one of 'auto', 'zero', .*; got 'blur'"):
        fill_of_table("blur")


def test_a_fresh_surrogate_of_a_table_sees_only_what_is_shown() -> None:
    surrogate = fw.explanation.TableSurrogate(X, columns(N), CLASSES)
    coalitions = torch.tensor([[True, False, True, True]])
    changed = X[:1].clone()
    changed[0, 1] = 100
    assert torch.equal(surrogate(X[:1], coalitions), surrogate(changed, coalitions))
    assert not torch.equal(surrogate(X[:1], EVERYONE[:1]), surrogate(changed, EVERYONE[:1]))


def test_training_lowers_the_divergence_and_freezes_what_it_trained() -> None:
    surrogate, history = trained(seeded(TableModel).eval())
    losses = [loss for _, loss in history.validation]
    assert min(losses) < 0.5 * losses[0]
    assert not any(parameter.requires_grad for parameter in surrogate.parameters())
    assert not surrogate.training


def test_with_independent_features_a_linear_models_surrogate_is_linear_too() -> None:
    model = nn.Linear(N, 2)
    weights, bias = torch.tensor([[1.0, -2.0, 0.5, 0.0], [0.0, 1.0, 1.0, -1.0]]), torch.tensor([0.7, -0.3])
    model.load_state_dict({"weight": weights, "bias": bias})
    surrogate, _ = trained(model, output="raw", steps=100, batch_size=64, **OF_TABLE)
    with torch.no_grad():
        nobody = surrogate(X_VALID[:1], ~EVERYONE[:1])[0]
        some = torch.tensor([[True, True, False, False]] * 256)
        seen = surrogate(X_VALID, some)
    spread = float(X_VALID.matmul(weights.T).std())
    assert float((nobody - bias).abs().max()) < 0.15 * spread  # the mean prediction
    assert float((seen - (X_VALID * some) @ weights.T - bias).square().mean().sqrt()) < 0.2 * spread
    fidelity = fw.explanation.measure_fidelity(game_of(surrogate, "raw"), model, X_VALID)
    hidden = weights.square().sum().item()  # the variance of what is hidden when everything is
    assert fidelity.agreement is None
    assert fidelity.prior_distance < 0.3
    assert fidelity.divergence[0] == pytest.approx(0.95 * hidden, rel=0.2)
    pairs = zip(fidelity.divergence, fidelity.divergence[1:], strict=False)
    assert all(fewer > 0.9 * more for fewer, more in pairs)  # but for noise, the less is hidden, the smaller
    assert fidelity.divergence[-1] < 0.1 * fidelity.divergence[0]


def test_the_fidelity_of_a_perfect_surrogate_is_known() -> None:
    model = seeded(TableModel).eval()

    class Knows(nn.Module):
        """The model itself when anything is shown, its mean prediction when nothing is."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model
            self.mean = nn.Parameter(predict(model, X_VALID, "probability").mean(0).log())

        def forward(self, x: Tensor, coalitions: Tensor) -> Tensor:
            return torch.where(coalitions.any(1, keepdim=True), self.model(x), self.mean)

    fidelity = fw.explanation.measure_fidelity(game_of(Knows(), "probability"), model, X_VALID)
    assert fidelity.agreement == 1
    assert fidelity.prior_distance == pytest.approx(0, abs=1e-6)
    assert len(fidelity.divergence) == 10
    assert fidelity.divergence[-1] == pytest.approx(0, abs=1e-6)
    assert fidelity.divergence[0] > 0
    told = str(fidelity)
    assert "the model's class for 100.0% of complete inputs" in told
    assert f"its divergence from the model is {fidelity.divergence[0]:.2g} with less than a tenth" in told


def test_the_divergence_is_that_of_kullback_and_leibler_or_squared_error() -> None:
    logits = rows(6, CLASSES)
    target = rows(6, CLASSES, seed=1).softmax(1)
    kl = (target * (target.log() - logits.log_softmax(1))).sum(1)
    assert_close(divergence(logits, target, "probability"), kl)
    assert_close(divergence(logits, target, "logit"), kl)
    assert_close(divergence(target.log(), target, "probability"), torch.zeros(6), rtol=0, atol=1e-6)
    assert_close(divergence(logits, target, "raw"), (logits - target).square().sum(1))


def test_training_a_surrogate_with_dropout_can_be_repeated() -> None:
    model = seeded(TableModel).eval()
    results = []
    for _ in range(2):
        surrogate = fw.explanation.Surrogate(seeded(TableModel), columns(N), torch.zeros(1, N))
        results.append(trained(model, surrogate, steps=10, batch_size=32))
    (one, history), (other, again) = results
    assert history.loss == again.loss
    assert all(torch.equal(left, right) for left, right in zip(one.parameters(), other.parameters(), strict=True))


def test_augmented_inputs_are_predicted_anew() -> None:
    calls: list[int] = []
    model = seeded(TableModel).eval()
    model.register_forward_pre_hook(lambda _, inputs: calls.append(len(inputs[0])))

    def flip(x: Tensor, generator: torch.Generator) -> Tensor:
        return x * torch.where(torch.rand(len(x), 1, generator=generator) < 0.5, -1, 1)

    trained(model, fw.explanation.TableSurrogate(X, columns(N), CLASSES), steps=3, augment=flip)
    assert calls == [1, 256, 256, 256, 256]  # a check, the validation inputs, and three batches


def test_a_batch_is_taken_in_its_order_and_augmented() -> None:
    batch = Batch(torch.tensor([3, 1]), Shard(), torch.Generator().manual_seed(0), spent=0.0)
    assert torch.equal(take_batch(X, batch, None), X[[3, 1]])
    augment: Callable[[Tensor, torch.Generator], Tensor] = lambda x, _: -x  # noqa: E731
    assert torch.equal(take_batch(X, batch, augment), -X[[3, 1]])


def test_asking_a_model_in_training_mode_does_not_change_it() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    predict(model.train(), torch.randn(8, 4), "raw")
    assert model.training
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


def test_a_model_that_fails_is_left_in_training_mode_too() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.BatchNorm1d(3)).train()
    with pytest.raises(RuntimeError, match="shapes"):
        predict(model, torch.randn(8, 5), "raw")
    assert all(module.training for module in model.modules())


KINDS = ColumnKinds((0, 3, 0), (False, False, True))


def mixed_rows() -> Tensor:
    """Return rows of a number, a category and a number that may be missing."""
    x = torch.stack([X[:60, 0], torch.arange(60.0) % 3, X[:60, 1]], 1)
    x[::4, 2] = torch.nan
    return x


@pytest.mark.parametrize("players", [columns(3), fw.groups({"pair": [1, 2]}, count=3)], ids=["columns", "pair"])
def test_hiding_a_player_hides_its_categories_and_gaps(players: fw.players.Players) -> None:
    x = mixed_rows()
    surrogate = fw.explanation.TableSurrogate(x, players, CLASSES, column_kinds=KINDS)
    hidden = torch.tensor([[True, *[False] * (players.n_players - 1)]] * 60)
    changed = x.clone()
    changed[:, 1] = (x[:, 1] + 1) % 3
    changed[:, 2] = torch.where(x[:, 2].isnan(), 9.0, torch.nan)
    assert torch.equal(surrogate(x, hidden), surrogate(changed, hidden))
    assert bool(surrogate(changed, ~hidden).isfinite().all())
    for column in (1, 2):
        other = x.clone()
        other[:, column] = changed[:, column]
        assert bool((surrogate(x, ~hidden) != surrogate(other, ~hidden)).any(1).all())  # shown, either is seen
    moved = x.clone()
    moved[:, 0] += 1
    assert torch.equal(surrogate(x, ~hidden), surrogate(moved, ~hidden))


@pytest.mark.parametrize("players", [columns(3), fw.groups({"pair": [0, 2]}, count=3)], ids=["columns", "pair"])
def test_coalitions_of_a_row_are_predicted_together_as_one_by_one(players: fw.players.Players) -> None:
    x = mixed_rows()[:5]
    surrogate = fw.explanation.TableSurrogate(mixed_rows(), players, CLASSES, column_kinds=KINDS).eval()
    coalitions = rows(5 * 7, players.n_players).view(5, 7, -1) > 0
    one_by_one = surrogate(x.repeat_interleave(7, 0), coalitions.flatten(0, 1)).view(5, 7, CLASSES)
    assert_close(surrogate.predict_coalitions(x, coalitions), one_by_one)


def test_a_surrogate_starts_in_the_units_of_its_targets() -> None:
    targets = 1e6 * (X[:, :2] + 5)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        plain = fw.explanation.TableSurrogate(X, columns(N), 2)
        torch.manual_seed(0)
        scaled = fw.explanation.TableSurrogate(X, columns(N), 2, targets=targets)
    expected = targets.mean(0) + targets.std(0, correction=0) * plain(X_VALID, EVERYONE)
    assert_close(scaled(X_VALID, EVERYONE), expected)


def test_the_divergence_of_labels_is_that_of_each_and_of_its_absence() -> None:
    logits, target = rows(6, CLASSES), rows(6, CLASSES, seed=1).sigmoid()
    target[0] = torch.tensor([0.0, 1.0, 0.5])  # certain ones
    both = torch.stack([target, 1 - target], -1)
    said = torch.stack([logits, torch.zeros_like(logits)], -1)
    expected = sum(divergence(said[:, label], both[:, label], "probability") for label in range(CLASSES))
    for output in ("label_probability", "label_logit"):
        assert_close(divergence(logits, target, output), expected)
        assert_close(divergence(target[1:].logit(), target[1:], output), torch.zeros(5), rtol=0, atol=1e-6)


def test_what_is_predicted_of_labels_is_their_own_probability() -> None:
    model = seeded(TableModel).eval()
    with torch.no_grad():
        assert_close(predict(model, X, "label_logit"), model(X).sigmoid())


def test_labels_are_decided_one_by_one() -> None:
    class Same(nn.Module):
        """Says of the first label the opposite."""

        def forward(self, x: Tensor, _: Tensor) -> Tensor:
            return x * torch.tensor([-1.0, 1, 1, 1])

    fidelity = fw.explanation.measure_fidelity(game_of(Same(), "label_probability"), nn.Identity(), X_VALID)
    assert fidelity.agreement == pytest.approx(3 / 4)


@pytest.mark.usefixtures("unchecked")
def test_a_removal_may_be_a_row_of_a_frame() -> None:
    frame = pd.DataFrame(X.numpy(), columns=list("abcd"))
    assert_close(fill_of_table(frame.iloc[3]), X[3:4])
    assert_close(fill_of_table(frame.mean()), X.mean(0, keepdim=True))
    check_removal(frame)


def test_the_mean_ignores_gaps() -> None:
    x = mixed_rows()
    assert_close(make_fill("mean", x), x.nanmean(0, keepdim=True))


def test_a_model_that_fails_gets_its_modes_back() -> None:
    model = nn.Sequential(nn.Linear(N, 2), nn.Dropout()).train()
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        predict(model, rows(8, N + 1), "raw")
    assert all(module.training for module in model.modules())


def test_a_surrogate_whose_training_fails_is_left_frozen_and_in_evaluation_mode() -> None:
    def fail(_x: Tensor, _generator: torch.Generator) -> Tensor:
        raise ZeroDivisionError

    surrogate = fw.explanation.TableSurrogate(X, columns(N), CLASSES)
    with pytest.raises(ZeroDivisionError):
        trained(seeded(TableModel), surrogate, augment=fail)
    assert not surrogate.training
    assert not any(parameter.requires_grad for parameter in surrogate.parameters())
