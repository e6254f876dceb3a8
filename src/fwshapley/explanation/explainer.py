"""Explain any model, in the interventional or the conditional game, by the best method for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, get_args

from jaxtyping import Bool
from numpy import ndarray

from fwshapley._internal.checks import Array, check_choice, check_flag, check_seed
from fwshapley._internal.progress import announce
from fwshapley._internal.wording import counted, duration
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.method_choice import (
    BACKGROUND_ROWS,
    Game,
    Method,
    choose_method,
    expected_seconds,
    require_data,
)
from fwshapley.explanation.untrained.exact_explainer import ExactExplainer, describe_scale
from fwshapley.games.scales import Output
from fwshapley.players import Players
from fwshapley.semivalues import Semivalue, Total
from fwshapley.superpixels import check_fixed_players
from fwshapley.tables.unusable_entries import UnusableEntry
from fwshapley.training.budget import Budget, check_budget

if TYPE_CHECKING:
    from shap import Explanation

    from fwshapley.explanation.learned.feature_explainer import FeatureExplainer

DEFAULT_BUDGET = Budget(seconds=120)


class Explainer:
    """Explains a model by the exact method that it allows; if there is none, trains a network to explain it.

    In this order: closed forms of tree ensembles, closed forms of linear models, enumeration of the coalitions of at
    most 12 players, and a `FeatureExplainer`, which is trained here. One line on standard error says which was chosen
    and why, as do `method`, `game` and `reason`.

    Two games differ in what hidden features become. In the interventional game, they take the values of rows of `data`,
    over which predictions are averaged. In the conditional game, a surrogate predicts from the visible features alone.

    Args:
        model: what `TreeExplainer`, `LinearExplainer` or `FeatureExplainer` accept: an estimator, a function of arrays
            or DataFrames, a torch module that returns logits.
        data: rows that stand in for hidden features, or that a network is trained on; enumeration and sampling choose
            `n_background` of them. A torch Dataset or DataLoader is collected. None is possible for trees alone, whose
            training weights then stand in (path-dependent game).
        game: "interventional" trains nothing: if there is no exact method, coalitions are sampled. "conditional" trains
            a `FeatureExplainer`. "auto" is the order above.
        players: what gets credit; by default each column of a table.
        output: scale of the values. "auto" is what the method explains: margins of boosted trees, probabilities of
            forests, scores of linear classifiers (`decision_function`), probabilities of other classifiers.
        output_names: one per output; by default the classes of an estimator.
        method: "auto", or one that must be used: "trees", "linear", "enumeration" (up to 16 players), "sampling" or
            "learned".
        n_calls: coalitions to sample with each background row, as for `InterventionalExplainer`; if given,
            coalitions are sampled where there is no exact method, instead of training a network.
        n_background: rows of `data` that enumeration and sampling use at most; others use all.
        budget: of training, if there is any.
        device: of torch modules and of training, and of trees if it is a GPU such as "cuda".
        seed: of everything random.
        progress: say what was chosen, and show progress.

    Attributes:
        explainer: the explainer that was chosen.
        method: "trees", "linear", "enumeration", "sampling" or "learned".
        game: "interventional", "conditional", or "path-dependent" for trees without data.
        reason: why the method was chosen.

    Example:
        >>> import fwshapley as fw, numpy as np
        >>> from sklearn.linear_model import LinearRegression
        >>> x = np.random.default_rng(0).normal(size=(50, 3))
        >>> explainer = fw.Explainer(LinearRegression().fit(x, x[:, 0] - x[:, 1]), x, progress=False)
        >>> explainer.method, explainer.reason.split(";")[0]
        ('linear', 'LinearRegression is a sum of effects of its columns')
        >>> explainer.explain(x[:5], weights=fw.Beta(16, 1)).values.shape
        (5, 3, 1)
    """

    explainer: ExactExplainer | FeatureExplainer
    method: Method
    game: str
    reason: str

    def __init__(
        self,
        model: Any,  # noqa: ANN401 - any model
        data: Array | None = None,
        *,
        players: Players | None = None,
        output: Output | Literal["auto"] = "auto",
        output_names: Sequence[str] | None = None,
        game: Game = "auto",
        method: Method = "auto",
        n_calls: int | Literal["auto"] = "auto",
        n_background: int = BACKGROUND_ROWS,
        budget: Budget = DEFAULT_BUDGET,
        device: Any = "auto",  # noqa: ANN401 - a name or a torch device
        seed: int = 0,
        progress: bool = True,
    ) -> None:
        check_choice("game", game, get_args(Game))
        check_choice("method", method, get_args(Method))
        check_choice("output", output, ("auto", *get_args(Output)))
        check_fixed_players(players)
        check_budget(budget)
        check_seed(seed)
        check_flag("progress", progress)
        torch = sys.modules.get("torch")
        if torch is not None and isinstance(data, torch.utils.data.Dataset | torch.utils.data.DataLoader):
            from fwshapley.explanation.inputs.input_reading import read_inputs  # noqa: PLC0415 - it needs torch

            data = read_inputs(data, "data", players=players, progress=progress).x
        explainer, self.method, self.game, self.reason = choose_method(
            model,
            data,
            game=game,
            method=method,
            players=players,
            output=output,
            output_names=output_names,
            n_calls=n_calls,
            n_background=n_background,
            device=device,
            seed=seed,
            progress=progress,
        )
        if explainer is None:
            require_data(data)
            work = f"training a network for up to {_spelled(budget)}"
        else:
            kind = "sampled" if self.method == "sampling" else "exact"
            work = f"{kind} values of {describe_scale(explainer.provenance['output'])}"
        announce("fw.Explainer", f"{self.game} game", work, f"since {self.reason}", enabled=progress)
        if explainer is None:
            if progress and budget.seconds is not None and game == method == "auto":
                _say_if_sampling_is_sooner(model, require_data(data), players, output, budget.seconds)
            from fwshapley.explanation.learned.feature_explainer import FeatureExplainer  # noqa: PLC0415 - it needs torch

            learned = FeatureExplainer(
                model, players, output=output, output_names=output_names, device=device, seed=seed
            )
            explainer = learned.fit(data, budget=budget, progress=progress)
        self.explainer = explainer

    def __repr__(self) -> str:
        return f"Explainer({self.method}, {self.game} game: {self.reason})"

    def explain(
        self,
        x: Array,
        *,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        outputs: str | Sequence[int] | Sequence[str] = "auto",
        total: Total = "raw",
    ) -> Attribution:
        """Return the values of the players of each input.

        A trained explainer answers by its network if that was measured to be good, otherwise by sampled coalitions of
        each input; `print(attribution)` says which. For one pass of the network in any case, call
        `explainer.explainer.explain`.

        Args:
            x: a batch of inputs.
            weights: a semivalue or a list of them; by default Shapley.
            outputs: "all"; "predicted", the class that the model predicts; or names or numbers of some. "auto" is the
                positive one of two classes, otherwise all.
            total: "raw" for the semivalue itself; "efficient" shifts it to sum to the prediction less the base value.
        """
        return self.explainer.explain(x, weights=weights, outputs=outputs, total=total, **self._by_measured_quality)

    def usable(self, x: Array) -> Bool[ndarray, " rows"]:
        """Return which rows can be explained: not those with missing or unknown entries that there is no rule for.

        Args:
            x: a batch of inputs.
        """
        return self.explainer.usable(x)

    def find_unusable(self, x: Array) -> list[UnusableEntry]:
        """Return the entries for which `explain` refuses rows: where each is, what is there, and what is wrong with it.

        Args:
            x: a batch of inputs.
        """
        return self.explainer.find_unusable(x)

    def __call__(self, x: Array, *, weights: Semivalue | None = None) -> Explanation:
        """Explain inputs as shap's explainers do; values and base value add up to the prediction.

        Args:
            x: a batch of inputs.
            weights: a semivalue; by default Shapley.
        """
        return self.explainer(x, weights=weights, **self._by_measured_quality)

    @property
    def _by_measured_quality(self) -> dict[str, Any]:
        """Options of a trained explainer whose quality is known."""
        return {} if getattr(self.explainer, "quality_", None) is None else {"method": "auto"}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the explainer that was chosen, which `fw.load` reads.

        Enumeration, sampling and linear pipelines call the model, which is not saved: pass it to `fw.load` as model=...

        Args:
            path: a file; for a learned explainer a folder.
        """
        self.explainer.save(path)


def _say_if_sampling_is_sooner(
    model: Any,  # noqa: ANN401 - any model
    data: Array,
    players: Players | None,
    output: Output | Literal["auto"],
    budget_seconds: float,
) -> None:
    """Write a line if sampling would explain all rows of the data in less time than training may take."""
    seconds = len(data) * expected_seconds(model, data, players=players, output=output)
    if seconds < budget_seconds:
        sooner = f"sampling explains the {counted(len(data), 'row')} of data without training"
        announce("fw.Explainer", sooner, f"in about {duration(seconds)}: game='interventional'")


def _spelled(budget: Budget) -> str:
    """Return a budget in words."""
    parts = [] if budget.seconds is None else [duration(budget.seconds)]
    return " or ".join([*parts, *([] if budget.steps is None else [counted(budget.steps, "step")])])
