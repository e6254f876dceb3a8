"""A network that knows what points are worth: one pass for points seen or unseen, under any weighting."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64, Int64
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.bundle import digest, load_bundle, save_bundle
from fwshapley._internal.checks import Array, check_choice, check_seed, check_whole
from fwshapley.explanation.inputs import check_budget
from fwshapley.games.knn import Utility
from fwshapley.games.retraining import RetrainingUtility, is_regressor
from fwshapley.semivalues import Semivalue
from fwshapley.training.budget import Budget, History
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.knn.closed_forms import make_form
from fwshapley.valuation.knn.distances import Metric, column_ranges, in_units, place_more
from fwshapley.valuation.knn.problem import Setting, check_pair, check_setting, check_weights
from fwshapley.valuation.learned import quadrature as grid
from fwshapley.valuation.learned.cautions import warn_of_a_poor_guess, warn_of_what_cannot_be_learned
from fwshapley.valuation.learned.knowledge import Known, Likeness
from fwshapley.valuation.learned.losses import Lesson
from fwshapley.valuation.learned.paper_network import PublishedNetwork
from fwshapley.valuation.learned.point_network import PointNetwork
from fwshapley.valuation.learned.teachers import Taught, teach_by_fits, teach_neighbors
from fwshapley.valuation.learned.training import (
    POINTS_AT_ONCE,
    Learned,
    Plan,
    learn_as_published,
    learn_by_coalitions,
    learn_by_regression,
)
from fwshapley.valuation.result import OTHER_POINTS, Valuation
from fwshapley.valuation.retraining.data import check_data
from fwshapley.valuation.validation import NEWCOMER_ADVICE, check_device, check_labels, check_points, in_order
from fwshapley.version import __version__

Method = Literal["regression", "multilinear", "published"]
"""How a network learns: from exact values; from coalitions of all points at every t; from batches, as in the paper."""

Given = tuple[Array, Array, tuple[Array, Array] | None]
"""Points, labels and reference as they came: a model that is retrained takes them as they are."""

KIND = "valuator"
USUAL_BUDGET = Budget(steps=3000)
USUAL_FITS, FEWEST_FITS = 2, 20
"""Fits per point, for a model that is retrained, and the fewest in all."""


class AmortizedValuator(Valuator):
    """Values of points by a network: in one pass, unseen ones too, and without the training set.

    For the training points themselves and a nearest-neighbor utility, `KNNValuator` is exact and as quick. This is for
    points to come; and for models that must be retrained, where it starts from what nearest neighbors say and learns
    from the scores of fits how the model differs. Weightings of large coalitions (a large beta, leave-one-out) depend
    on a few neighbors: of unseen points a network knows them much less well.

    Args:
        weights: the semivalue, or several; None is Shapley. A network that learns from nearest neighbors knows every
            mixture over t, so that `value` may be asked for others; the others know the one they were taught.
        utility: "soft" or "vote" of the k nearest neighbors, or a `RetrainingUtility`: any model and score.
        k: neighbors that decide; for a RetrainingUtility, those that a first guess is made by.
        method: "regression", from the exact values of the training points under every label, or from the scores of
            fits; "multilinear", by least squares on coalitions of all points; "published", the FW-Shapley paper's
            form, by least squares on batches that play alone. The last two are for comparison.
        metric: "euclidean" or "cosine". Beside a RetrainingUtility, which gets columns as they are, "euclidean" divides
            each by its range; nearest neighbors alone are taken as they are: scale columns first.
        batch: points of a training step; for "published", the players of a game.
        fits: of a RetrainingUtility's model, at least 20; None is twice as many as there are points.
        budget: how long the network is trained; None is 3000 steps.
        seed: of all that is random.
        n_jobs: cores, or processes to fit models in, as `KNNValuator` and `RetrainingValuator` have it.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        checkpoint: file to save to every 20 seconds, in the end, and when interrupted; the scores of fits go to a
            second one beside it.
        resume: go on from it, if it is there.
        progress: show progress when it takes long: bars on a terminal, lines elsewhere.

    Attributes:
        result_: the Valuation of the training points, after `fit`; for a RetrainingUtility with standard errors of
            the process that fits are explained by, else with the network's error on points that it was not taught.
        values_: its values.
        likeness_: how well the network agrees with exact values on points that it was not taught (but by which its best
            state was chosen), under the first weighting; None where there are no exact values to learn from.
        resemblance_: of a RetrainingUtility, correlation of its scores with those of the simpler models that values
            were first guessed by, whatever the size of coalitions explains taken away; a low one is warned of.
        history_: of its training.

    Example:
        >>> valuator = AmortizedValuator(Beta(4, 1)).fit(x, y, reference=(x_valid, y_valid))
        >>> valuator.value(x_new, y_new).suspects()
    """

    def __init__(
        self,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        *,
        utility: Utility | RetrainingUtility | str = "soft",
        k: int = 5,
        method: Method = "regression",
        metric: Metric = "euclidean",
        batch: int = 256,
        fits: int | None = None,
        budget: Budget | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        device: str | torch.device = "auto",
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> None:
        self.weights, self.utility, self.k, self.method, self.metric = weights, utility, k, method, metric
        self.batch, self.fits, self.budget, self.seed, self.n_jobs = batch, fits, budget, seed, n_jobs
        self.device, self.checkpoint, self.resume, self.progress = device, checkpoint, resume, progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None = None) -> Self:
        """Learn what points like those of x are worth to reference points, or each to the others.

        Args:
            x: features of the training points: numbers.
            y: their labels.
            reference: points to be predicted, and their labels, of every class; None only for a nearest-neighbor
                utility learned by regression.
        """
        fitted = copy(self)  # so that a fit that fails leaves what an earlier one found as it was
        fitted._fit(x, y, reference)  # noqa: SLF001 - of its own class
        vars(self).update({name: value for name, value in vars(fitted).items() if name.endswith("_")})
        return self

    def _fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None) -> None:
        several, plan = self._check_arguments(reference)
        x_reference, y_reference = (None, None) if reference is None else check_pair(reference)
        setting = check_setting(
            x, y, x_reference, y_reference, weights=several, k=self.k, utility=self._neighbor_utility,
            metric=self.metric,
        )  # fmt: skip
        warn_of_what_cannot_be_learned(setting)
        units = self._column_units(setting)
        if units is not None:
            setting = setting._replace(places=in_units(setting.places, units))
        plan = replace(plan, identity=self._identity(setting))
        taught, learned = self._learn(setting, plan, (x, y, reference))
        self.network_, self.history_ = learned.network, learned.history
        self.known_ = Known(
            weights=tuple(several),
            stacked=isinstance(self.weights, (list, tuple)),
            every=len(getattr(learned.network, "spread", ())) > 1,
            metric=self.metric,
            classes=setting.classes,
            names=setting.names,
            n=len(setting.labels),
            references=len(setting.other_labels) - setting.held_out,
            provenance=self._provenance(setting, learned),
        )
        self.center_ = torch.from_numpy(setting.places.center)
        self.units_ = torch.ones_like(self.center_) if units is None else torch.from_numpy(units)
        labels = torch.from_numpy(setting.labels)
        own = self._at_nodes(_placed(setting), labels)
        self.error_, self.likeness_ = self._judge(taught, learned.held_out, own, labels)
        self.result_ = self._valuation(own, labels, several, stacked=self.known_.stacked)
        if taught is not None and taught.values is not None and taught.stderr is not None:
            self.result_ = replace(
                self.result_,
                values=taught.values.view_as(self.result_.values),
                stderr=taught.stderr.view_as(self.result_.stderr),
            )
        self.resemblance_ = None if taught is None else taught.resemblance

    def value(self, x: Array, y: Array, weights: Semivalue | Sequence[Semivalue] | None = None) -> Valuation:
        """Value points by one pass of the network: an unseen one as if it alone had joined the training points.

        Args:
            x: features of the points.
            y: their labels, of the classes that `fit` saw.
            weights: None for those of `fit`.
        """
        if not hasattr(self, "network_"):
            raise RuntimeError("nothing has been learned yet: call fit(x, y) first, or load(path)")
        several, stacked = list(self.known_.weights), self.known_.stacked
        if weights is not None:
            several, stacked = check_weights(weights), isinstance(weights, (list, tuple))
        if not self.known_.every and several != list(self.known_.weights):
            raise ValueError(
                f"this network was taught {', '.join(map(str, self.known_.weights))} alone: fit one with the weights "
                "you want"
            )
        points = self._place(x)
        codes, _ = check_labels("y", y, len(points), classes=self.known_.classes, advice=NEWCOMER_ADVICE)
        labels = torch.from_numpy(codes)
        return self._valuation(self._at_nodes(points, labels), labels, several, stacked=stacked)

    def save(self, path: str | Path) -> None:
        """Write the network, and the values of the training points, to one safetensors file."""
        values = self.values_
        facts = {
            "arguments": self._plain_arguments(),
            "known": self.known_.facts(),
            "likeness": None if self.likeness_ is None else asdict(self.likeness_),
            "resemblance": self.resemblance_,
            "history": asdict(self.history_),
            "published": isinstance(self.network_, PublishedNetwork),
        }
        tensors = {f"network.{name}": tensor for name, tensor in self.network_.state_dict().items()}
        tensors |= {"center": self.center_, "units": self.units_, "values": values, "stderr": self.result_.stderr}
        tensors |= {"labels": self.result_.labels} | ({} if self.error_ is None else {"error": self.error_})
        save_bundle(Path(path), KIND, facts, tensors)

    @classmethod
    def load(cls, path: str | Path, *, device: str | torch.device = "auto") -> AmortizedValuator:
        """Read what `save` wrote: it values points at once.

        A RetrainingUtility's model is not saved: to `fit` again, give it anew by set_params(utility=...).
        """
        facts, tensors = load_bundle(Path(path), KIND)
        known = Known.from_facts(facts["known"])
        arguments = facts["arguments"] | {"device": device}
        arguments["budget"] = None if arguments["budget"] is None else Budget(**arguments["budget"])
        made = cls(list(known.weights) if known.stacked else known.weights[0], **arguments)
        state = {name.partition(".")[2]: each for name, each in tensors.items() if name.startswith("network.")}
        blank = torch.zeros(2, len(tensors["center"]))
        network: PointNetwork | PublishedNetwork
        if facts["published"]:
            network = PublishedNetwork(blank, len(known.classes))
        else:
            landmarks = torch.zeros_like(state["neighborhood.landmarks"])
            labels = torch.zeros(len(landmarks), dtype=torch.int64)
            network = PointNetwork(blank, landmarks, labels, state["center"], state["spread"])
        network.load_state_dict(state)
        made.network_, made.known_ = network.to(check_device(device)).eval(), known
        made.center_ = tensors["center"]
        made.units_ = tensors.get("units", torch.ones_like(made.center_))
        made.history_ = History.from_facts(facts["history"])
        made.likeness_ = None if facts["likeness"] is None else Likeness(**facts["likeness"])
        made.resemblance_ = facts.get("resemblance")
        made.error_ = tensors.get("error")
        made.result_ = known.valuation(tensors["values"], tensors["stderr"], tensors["labels"])
        return made

    def _check_arguments(self, reference: object) -> tuple[list[Semivalue], Plan]:
        """Return weightings and how to train, or raise an error that says which argument is wrong."""
        several = check_weights(self.weights)
        check_choice("method", self.method, get_args(Method))
        budget = self.budget or USUAL_BUDGET
        check_budget(budget)
        by_fits = isinstance(self.utility, RetrainingUtility)
        if hasattr(self.utility, "fit"):
            raise TypeError(f"utility is a {type(self.utility).__name__}: wrap it, utility=RetrainingUtility(model)")
        if not by_fits and self.utility not in ("soft", "vote"):
            raise ValueError(
                f"utility must be 'soft', 'vote' or a RetrainingUtility, got {self.utility!r}; a model is not saved "
                "with a valuator: give it anew by set_params(utility=RetrainingUtility(...))"
            )
        if isinstance(self.utility, RetrainingUtility) and is_regressor(self.utility.model):
            raise ValueError(
                f"AmortizedValuator learns from few fits of a classifier, and {self.utility.model} is a regressor: use "
                "RetrainingValuator(model, method='least squares')"
            )
        if by_fits and self.method != "regression":
            raise ValueError(f"method={self.method!r} plays nearest neighbors: a RetrainingUtility takes 'regression'")
        if self.fits is not None and not by_fits:
            raise ValueError("fits=... is for a RetrainingUtility: nearest neighbors take none")
        if len(several) > 1 and (by_fits or self.method == "published"):
            way = "utility=RetrainingUtility(...)" if by_fits else "method='published'"
            raise ValueError(f"{way} takes one weighting at a time; fit one valuator for each")
        if reference is None and (by_fits or self.method != "regression"):
            way = "utility=RetrainingUtility(...)" if by_fits else f"method={self.method!r}"
            raise ValueError(
                f"{way} needs points to be predicted, which are no training points: fit(x, y, reference=(x_reference, "
                "y_reference)); nearest neighbors learned by 'regression' do without"
            )
        if self.resume and self.checkpoint is None:
            raise ValueError("resume=True needs the checkpoint to go on from: checkpoint=...")
        plan = Plan(
            budget, check_whole("batch", self.batch, minimum=2), check_seed(self.seed),
            torch.device(check_device(self.device)), None if self.checkpoint is None else Path(self.checkpoint),
            self.resume, {}, self.progress,
        )  # fmt: skip
        return several, plan

    def _learn(self, setting: Setting, plan: Plan, given: Given) -> tuple[Taught | None, Learned]:
        lesson = _lesson(setting, plan.device)
        if isinstance(self.utility, RetrainingUtility):
            taught = self._teach_by_fits(self.utility, setting, plan, given)
            return taught, learn_by_regression(lesson, taught.targets, plan)
        if self.method == "published":
            return None, learn_as_published(lesson, setting.weights[0], plan)
        nodes = grid.nodes(len(setting.labels))
        at_nodes = setting._replace(weights=tuple(grid.banzhaf_values(nodes)))
        if self.method == "multilinear":
            counts = torch.bincount(torch.from_numpy(setting.labels))
            reach = make_form("soft", at_nodes.weights, counts, self.k).reach
            return None, learn_by_coalitions(lesson, nodes, reach.mean(1) / self.k, plan)
        taught = teach_neighbors(at_nodes, device=str(plan.device), n_jobs=self.n_jobs, progress=self.progress)
        return taught, learn_by_regression(lesson, taught.targets, plan)

    def _teach_by_fits(self, utility: RetrainingUtility, setting: Setting, plan: Plan, given: Given) -> Taught:
        points = check_data(utility.model, *given)
        fits = USUAL_FITS * points.n if self.fits is None else check_whole("fits", self.fits, minimum=FEWEST_FITS)
        checkpoint = plan.checkpoint and plan.checkpoint.with_name(f"{plan.checkpoint.stem}-fits.safetensors")
        taught = teach_by_fits(
            utility.on(points.x, points.y, points.x_reference, points.y_reference), setting, setting.weights[0],
            fits=fits, seed=plan.seed, identity={**plan.identity, "fits": fits}, n_jobs=self.n_jobs,
            checkpoint=checkpoint, resume=plan.resume, device=str(plan.device), progress=plan.progress,
        )  # fmt: skip
        if taught.resemblance is not None:
            warn_of_a_poor_guess(taught.resemblance, fits)
        return taught

    def _column_units(self, setting: Setting) -> NDArray[np.float64] | None:
        """Units that columns are looked at in, if not as they were given.

        Nearest neighbors are the game itself, so that distances are as they were given. Beside a model that is
        retrained they are but a help, and no column should drown the others: each is divided by its range. Deviations
        would blow up columns that hardly ever differ from one number, as pixels at the edge of an image.
        """
        if isinstance(self.utility, RetrainingUtility) and self.metric == "euclidean":
            return column_ranges(setting.places)
        return None

    def _place(self, x: Array) -> Float[Tensor, "points columns"]:
        """Points as the network takes them; those on a GPU stay there."""
        columns = len(self.center_)
        if isinstance(x, Tensor) and x.device.type != "cpu" and self.known_.metric == "euclidean":
            points = x.flatten(1)
            if points.shape[1:] != (columns,) or not bool(points.isfinite().all()):
                check_points("x", x, columns=columns)
            center, units = self.center_.to(points.device), self.units_.to(points.device)
            return ((points.double() - center) / units).float()
        rows = check_points("x", in_order("x", x, self.known_.names), columns=columns)
        placed = place_more(rows, self.center_.numpy(), self.known_.metric)[:, :-2]
        return (torch.from_numpy(placed) / self.units_).float()

    @torch.no_grad()
    def _at_nodes(
        self, points: Float[Tensor, "points columns"], labels: Int64[Tensor, " points"]
    ) -> Float64[Tensor, "points nodes"]:
        """Values of points with their labels, at every node that the network knows."""
        device = self.network_.coordinates.mean.device
        found = []
        for some, label in zip(points.split(POINTS_AT_ONCE), labels.split(POINTS_AT_ONCE), strict=True):
            every = self.network_.values(some.to(device))
            found.append(every[torch.arange(len(some), device=device), label.to(device)])
        return torch.cat(found).double().cpu()

    def _judge(
        self,
        taught: Taught | None,
        held_out: Int64[Tensor, " rows"],
        own: Float64[Tensor, "n nodes"],
        labels: Int64[Tensor, " n"],
    ) -> tuple[Float64[Tensor, "nodes nodes"] | None, Likeness | None]:
        """Mean product of the errors at two nodes, on points that were not taught, and what they come to."""
        if taught is None:
            return None, None
        said, exact = own[held_out], taught.targets[held_out, labels[held_out]]
        error, mix = said - exact, self.known_.mixtures(list(self.known_.weights))[0]
        spread = error.T @ error / len(held_out)
        if taught.stderr is not None:  # the teacher itself is not sure
            return spread + taught.stderr.square().mean(), None
        return spread, Likeness.between(said @ mix, exact @ mix)

    def _valuation(
        self, own: Float64[Tensor, "points nodes"], labels: Int64[Tensor, " points"], several: list[Semivalue], *,
        stacked: bool,
    ) -> Valuation:  # fmt: skip
        mix = self.known_.mixtures(several)
        values = mix @ own.T
        errors = torch.full((len(several),), torch.nan, dtype=torch.float64)
        if self.error_ is not None:
            errors = (mix @ self.error_ * mix).sum(1).clamp(min=0).sqrt()
        stderr = errors[:, None].expand_as(values).clone()
        asked = replace(self.known_, weights=tuple(several), stacked=stacked)
        return asked.valuation(values if stacked else values[0], stderr if stacked else stderr[0], labels)

    @property
    def _neighbor_utility(self) -> Utility:
        return "vote" if self.utility == "vote" else "soft"

    def _plain_arguments(self) -> dict[str, Any]:
        """Arguments that JSON can hold."""
        plain = {name: getattr(self, name) for name in ("k", "method", "metric", "batch", "fits", "seed")}
        budget = None if self.budget is None else asdict(self.budget)
        return {**plain, "utility": str(self.utility), "budget": budget}

    def _utility_facts(self) -> dict[str, Any]:
        """What is known of the utility, as JSON holds it."""
        if not isinstance(self.utility, RetrainingUtility):
            return {"utility": self.utility}
        return {"utility": str(self.utility), "nobody": self.utility.nobody, "seed of the model": self.utility.seed}

    def _identity(self, setting: Setting) -> dict[str, Any]:
        """What must not change between a checkpoint and its resumption."""
        places = {
            "x": torch.from_numpy(setting.places.factor),
            "y": torch.from_numpy(setting.labels),
            "references": torch.from_numpy(setting.places.references),
            "their labels": torch.from_numpy(setting.other_labels),
        }
        weights = [each.to_json() for each in setting.weights]
        return {"data": digest(places), "weights": weights, **self._plain_arguments(), **self._utility_facts()}

    def _provenance(self, setting: Setting, learned: Learned) -> dict[str, Any]:
        return {
            "method": f"network, {self.method}",
            "utility": str(self.utility),
            "k": self.k,
            "metric": self.metric,
            "seed": self.seed,
            "steps": learned.history.steps,
            "stopped": learned.history.stopped,
            "reference": OTHER_POINTS if setting.held_out else "given",
            "fwshapley": __version__,
        }


def _placed(setting: Setting) -> Float[Tensor, "n columns"]:
    return torch.from_numpy(setting.places.factor[:, :-2]).float()


def _lesson(setting: Setting, device: torch.device) -> Lesson:
    return Lesson(
        _placed(setting).to(device),
        torch.from_numpy(setting.labels).to(device),
        torch.from_numpy(setting.places.references).float().to(device),
        torch.from_numpy(setting.other_labels).to(device),
        len(setting.classes),
        setting.k,
        setting.utility,
    )
