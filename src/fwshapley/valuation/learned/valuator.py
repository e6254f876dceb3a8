"""A network that predicts the values of points in one pass, also of new points and under other weightings."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, get_args

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from fwshapley._internal.checks import Array, check_checkpoint, check_choice, check_jobs, check_path, check_whole
from fwshapley._internal.files import check_writable_file
from fwshapley._internal.safetensors_file import Bundle, digest, load_bundle, save_bundle
from fwshapley._internal.version import __version__
from fwshapley._internal.wording import listed
from fwshapley.semivalues import Semivalue, check_weights
from fwshapley.training.budget import Budget, History, TrainingOptions
from fwshapley.training.loop import train
from fwshapley.valuation.base import Valuator
from fwshapley.valuation.knn.closed_forms import make_form
from fwshapley.valuation.knn.distances import Metric, place_more
from fwshapley.valuation.knn.engine import value_every_label
from fwshapley.valuation.knn.problem import NeighborProblem, check_problem
from fwshapley.valuation.learned import quadrature
from fwshapley.valuation.learned.fidelity import ValuationFidelity
from fwshapley.valuation.learned.losses import NeighborGames
from fwshapley.valuation.learned.paper_network import PublishedNetwork
from fwshapley.valuation.learned.point_network import PointNetwork
from fwshapley.valuation.learned.training import (
    LEARNING_RATE,
    Trained,
    predict_at_nodes,
    train_as_published,
    train_by_regression,
    train_on_coalitions,
)
from fwshapley.valuation.result import OTHER_POINTS, Valuation
from fwshapley.valuation.validation import (
    UNSEEN_ADVICE,
    check_device,
    check_labels,
    check_points,
    reorder_columns,
)

Method = Literal["regression", "multilinear", "published"]
NetworkUtility = Literal["soft", "vote"]

KIND = "valuator"
DEFAULT_BUDGET = Budget(steps=3000)


class AmortizedValuator(Valuator):
    """A network that predicts the values of points: in one pass, also of new points, without the training set.

    For the training points themselves `KNNValuator` is exact and as fast; this is for new points. Weightings of large
    coalitions (a large beta, leave-one-out) depend on a few neighbors; a network predicts them much less precisely.

    Args:
        weights: the semivalue, or a list of them; None is Shapley. A network that was trained by "regression" or
            "multilinear" predicts values under every mixture over t, so `value` accepts other weights than these.
        utility: "soft" or "vote" of the k nearest neighbors.
        k: number of nearest neighbors.
        method: "regression", on the exact values of the training points under every label; "multilinear", least squares
            on coalitions of all points; "published", the form of the FW-Shapley paper, least squares on batches whose
            points are the only players. The last two are for comparison.
        metric: "euclidean" or "cosine". Columns are used as they are: scale them first.
        batch_size: points of a training step; for "published", the players of a game.
        budget: how long the network is trained; None is 3000 steps.
        seed: of all random numbers.
        n_jobs: number of cores for the exact values, as `KNNValuator` takes it.
        device: "cpu", "cuda", or "auto" for a GPU if there is one.
        checkpoint: file to save to every 20 seconds, at the end, and when interrupted.
        resume: continue from the checkpoint if it exists.
        progress: show progress when it takes long: bars on a terminal, lines elsewhere.

    Attributes:
        result_: the Valuation of the training points; its standard errors are the root mean squared errors of the
            network on held-out points, NaN without exact values.
        values_: its values.
        classes_: the labels, in order.
        fidelity_: agreement with exact values, under the first weighting, on points that were held out of training
            (but used to select the best state); None without exact values.
        history_: history of the training.
        network_: the network.

    Example:
        >>> import fwshapley as fw
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(60, 2)) + np.repeat([[0], [4]], 30, axis=0)
        >>> y = np.repeat([0, 1], 30)
        >>> valuator = fw.AmortizedValuator(fw.Beta(4, 1), budget=fw.Budget(steps=50)).fit(x, y)
        >>> valuator.value([[4.0, 4.0], [4.0, 4.0]], [0, 1]).suspects(1).tolist()
        [0]
    """

    network_: PointNetwork | PublishedNetwork
    history_: History
    fidelity_: ValuationFidelity | None

    def __init__(
        self,
        weights: Semivalue | Sequence[Semivalue] | None = None,
        *,
        utility: NetworkUtility = "soft",
        k: int = 5,
        method: Method = "regression",
        metric: Metric = "euclidean",
        batch_size: int = 256,
        budget: Budget | None = None,
        seed: int = 0,
        n_jobs: int | None = None,
        device: str | torch.device = "auto",
        checkpoint: str | Path | None = None,
        resume: bool = False,
        progress: bool = True,
    ) -> None:
        self.weights = weights
        self.utility: NetworkUtility = utility
        self.k = k
        self.method: Method = method
        self.metric: Metric = metric
        self.batch_size = batch_size
        self.budget = budget
        self.seed = seed
        self.n_jobs = n_jobs
        self.device = device
        self.checkpoint = checkpoint
        self.resume = resume
        self.progress = progress

    def fit(self, x: Array, y: Array, reference: tuple[Array, Array] | None = None) -> Self:
        """Train the network on values of the points of x, by how they help to predict reference points or each other.

        Args:
            x: features of the training points: numbers.
            y: their labels.
            reference: reference points and their labels, of every class; None is possible for "regression" alone.
        """
        options = self._check_arguments(reference)
        problem = check_problem(
            x, y, reference, weights=self.weights, k=self.k, utility=self.utility, metric=self.metric
        )
        _warn_of_uninformative_data(problem)
        trained, targets = self._train(problem, options)
        labels = torch.from_numpy(problem.labels)
        values = predict_at_nodes(trained.network, torch.from_numpy(problem.points).float(), labels)
        mixtures = _node_mixtures(trained.network, list(problem.weights), problem.n)
        products = fidelity = None
        if targets is not None:
            predicted, exact = values[trained.held_out], targets[trained.held_out, labels[trained.held_out]]
            error = predicted - exact
            products = error.T @ error / len(error)
            fidelity = ValuationFidelity.between(predicted @ mixtures[0], exact @ mixtures[0])
        mixed, stderr = _mix(mixtures, values, products)
        result = Valuation(
            mixed,
            stderr,
            list(problem.weights),
            labels=labels,
            classes=problem.class_names,
            references=problem.n_references,
            error_bound=0.0,
            provenance=self._provenance(problem, trained.history),
        )
        self.result_ = result if isinstance(self.weights, (list, tuple)) else result.unstacked()
        self.network_ = trained.network
        self.history_ = trained.history
        self.fidelity_ = fidelity
        self._set_state(problem.classes, problem.column_names, torch.from_numpy(problem.places.center), products)
        return self

    def value(self, x: Array, y: Array, weights: Semivalue | Sequence[Semivalue] | None = None) -> Valuation:
        """Predict the values of points; a new point's value is that of joining the training points alone.

        Args:
            x: features of the points.
            y: their labels, which must be among the classes of `fit`.
            weights: None is those of `fit`.
        """
        self._check_fitted()
        result = self.result_
        chosen = result.weights if weights is None else weights
        weightings = check_weights(chosen)
        if isinstance(self.network_, PublishedNetwork) and weightings != result.weightings:
            raise ValueError(
                f"weights must be {', '.join(map(str, result.weightings))}, for which this network was trained; got "
                f"{', '.join(map(str, weightings))}"
            )
        points = self._to_coordinates(x)
        codes, _ = check_labels("y", y, len(points), classes=self.classes_, advice=UNSEEN_ADVICE)
        labels = torch.from_numpy(codes)
        mixtures = _node_mixtures(self.network_, weightings, len(result))
        values, stderr = _mix(mixtures, predict_at_nodes(self.network_, points, labels), self._error_products)
        new = replace(result, values=values, stderr=stderr, weights=weightings, labels=labels)
        return new if isinstance(chosen, (list, tuple)) else new.unstacked()

    def save(self, path: str | Path) -> None:
        """Write the network and the values of the training points to one safetensors file."""
        self._check_fitted()
        result = self.result_._to_bundle()  # noqa: SLF001 - the result is part of this file
        facts = {
            "arguments": self._arguments_as_json(),
            "result": result.facts,
            "classes": self.classes_.tolist(),
            "column_names": None if self._column_names is None else list(map(str, self._column_names)),
            "fidelity": None if self.fidelity_ is None else asdict(self.fidelity_),
            "history": asdict(self.history_),
            "published": isinstance(self.network_, PublishedNetwork),
        }
        arrays = {f"network.{name}": tensor for name, tensor in self.network_.state_dict().items()}
        arrays |= {f"result.{name}": array for name, array in result.arrays.items()}
        arrays["center"] = self._center
        if self._error_products is not None:
            arrays["error_products"] = self._error_products
        save_bundle(check_path("path", path), KIND, facts, arrays)

    @classmethod
    def load(cls, path: str | Path, *, device: str | torch.device = "auto") -> AmortizedValuator:
        """Read a valuator that `save` wrote; it can value points at once.

        Args:
            path: the file.
            device: where the network runs.
        """
        facts, arrays = load_bundle(check_path("path", path), KIND)
        result = Valuation._from_bundle(Bundle(facts["result"], _select(arrays, "result.")))  # noqa: SLF001 - as in save
        arguments = facts["arguments"] | {"device": device}
        arguments["budget"] = None if arguments["budget"] is None else Budget(**arguments["budget"])
        valuator = cls(result.weights, **arguments)
        state = _select(arrays, "network.")
        n_columns = len(arrays["center"])
        network: PointNetwork | PublishedNetwork
        if facts["published"]:
            network = PublishedNetwork(torch.zeros(2, n_columns), len(facts["classes"]))
        else:
            network = PointNetwork.with_shapes_of(state, n_columns)
        network.load_state_dict(state)
        valuator.network_ = network.to(check_device(device)).eval()
        valuator.history_ = History.from_facts(facts["history"])
        valuator.fidelity_ = None if facts["fidelity"] is None else ValuationFidelity(**facts["fidelity"])
        valuator.result_ = result
        names = None if facts["column_names"] is None else tuple(facts["column_names"])
        valuator._set_state(np.array(facts["classes"]), names, arrays["center"], arrays.get("error_products"))
        return valuator

    def _set_state(
        self,
        classes: np.ndarray,
        column_names: tuple[Any, ...] | None,
        center: Float64[Tensor, " columns"],
        error_products: Float64[Tensor, "nodes nodes"] | None,
    ) -> None:
        """Store what `value` needs besides the network and the result."""
        self.classes_ = classes
        self._column_names = column_names
        self._center = center
        self._error_products = error_products
        self.n_features_in_ = len(center)

    def _check_arguments(self, reference: object) -> TrainingOptions:
        """Return the options of training, after a check of all arguments that do not depend on the data."""
        check_choice("method", self.method, get_args(Method))
        check_choice("utility", self.utility, get_args(NetworkUtility))
        check_whole("batch_size", self.batch_size, minimum=2)
        check_jobs(self.n_jobs)
        options = TrainingOptions(
            DEFAULT_BUDGET if self.budget is None else self.budget,
            self.batch_size,
            LEARNING_RATE,
            seed=self.seed,
            checkpoint=check_checkpoint(self.checkpoint, resume=self.resume),
            resume=self.resume,
            progress=self.progress,
        )
        check_writable_file(options.checkpoint)
        if self.method == "published" and len(check_weights(self.weights)) > 1:
            raise ValueError(
                "weights must be one semivalue for method='published', which learns one weighting at a time; fit one "
                "valuator for each"
            )
        if reference is None and self.method != "regression":
            raise ValueError(
                f"reference must be a pair (x, y) for method={self.method!r}, got None; only 'regression' values the "
                "points by each other"
            )
        return options

    def _train(
        self, problem: NeighborProblem, options: TrainingOptions
    ) -> tuple[Trained, Float64[Tensor, "n classes nodes"] | None]:
        """Return the trained network, and the exact values that it was trained on, if any."""
        device = check_device(self.device)
        games = NeighborGames(problem, torch.device(device))
        trainer = partial(
            train,
            options=options,
            device=torch.device(device),
            identity=self._identity(problem),
            description="training on values",
        )
        if self.method == "published":
            return train_as_published(games, problem.weights[0], self.batch_size, trainer, self.seed), None
        nodes = quadrature.nodes(problem.n)
        at_nodes = replace(problem, weights=tuple(quadrature.banzhaf_values(nodes)))
        if self.method == "multilinear":
            reach = make_form("soft", at_nodes.weights, torch.tensor(problem.counts), self.k).reach
            return train_on_coalitions(games, nodes, reach.mean(1) / self.k, trainer, self.seed), None
        targets = value_every_label(at_nodes, device=device, n_jobs=self.n_jobs, progress=self.progress)
        return train_by_regression(games, targets, trainer, self.seed), targets

    def _to_coordinates(self, x: Array) -> Float[Tensor, "points columns"]:
        """Return points as the network takes them; those on a GPU stay there."""
        metric, columns = self.result_.provenance["metric"], self.n_features_in_
        if isinstance(x, Tensor) and x.device.type != "cpu" and metric == "euclidean":
            points = x.flatten(1)
            if points.shape[1:] != (columns,) or not bool(points.isfinite().all()):
                check_points("x", x, columns=columns)
            return (points.double() - self._center.to(points.device)).float()
        rows = check_points("x", reorder_columns("x", x, self._column_names), columns=columns)
        return torch.from_numpy(place_more(rows, self._center.numpy(), metric)[:, :-2]).float()

    def _arguments_as_json(self) -> dict[str, Any]:
        arguments = {name: getattr(self, name) for name in ("utility", "k", "method", "metric", "batch_size", "seed")}
        return {**arguments, "budget": None if self.budget is None else asdict(self.budget)}

    def _identity(self, problem: NeighborProblem) -> dict[str, Any]:
        """Return what a resumed run must have in common with the one that wrote the checkpoint."""
        names = ("points", "labels", "reference", "reference_labels")
        data = digest({name: getattr(problem, name) for name in names})
        return {"data": data, "weights": [w.to_json() for w in problem.weights], **self._arguments_as_json()}

    def _provenance(self, problem: NeighborProblem, history: History) -> dict[str, Any]:
        return {
            "method": f"network, {self.method}",
            "utility": self.utility,
            "k": self.k,
            "metric": self.metric,
            "seed": self.seed,
            "steps": history.steps,
            "stopped": history.stopped,
            "reference": OTHER_POINTS if problem.held_out else "given",
            "fwshapley": __version__,
        }


def _node_mixtures(
    network: PointNetwork | PublishedNetwork, weights: list[Semivalue], n: int
) -> Float64[Tensor, "weights nodes"]:
    """Return how much the network's values at each node count in each weighting."""
    if isinstance(network, PublishedNetwork):
        return torch.ones(1, 1, dtype=torch.float64)
    return quadrature.mixtures(weights, n)


def _mix(
    mixtures: Float64[Tensor, "weights nodes"],
    at_nodes: Float64[Tensor, "points nodes"],
    error_products: Float64[Tensor, "nodes nodes"] | None,
) -> tuple[Float64[Tensor, "weights points"], Float64[Tensor, "weights points"]]:
    """Return the values under each weighting, and their standard errors from the mean products of errors at nodes."""
    values = mixtures @ at_nodes.T
    errors = torch.full((len(mixtures),), torch.nan, dtype=torch.float64)
    if error_products is not None:
        errors = (mixtures @ error_products * mixtures).sum(1).clamp(min=0).sqrt()
    return values, errors[:, None].expand_as(values).clone()


def _select(arrays: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _warn_of_uninformative_data(problem: NeighborProblem) -> None:
    """Warn of classes without a reference point, and of points that are all equal: a network cannot learn from them."""
    missing = problem.classes[np.bincount(problem.reference_labels, minlength=len(problem.classes)) == 0]
    if len(missing):
        warnings.warn(
            f"no reference point has the class {listed(missing)}: points with this label have values of at most 0, "
            "whether the label is wrong or not; add reference points of every class",
            stacklevel=3,
        )
    if (problem.points == problem.points[0]).all():
        warnings.warn("all points of x are equal: only their labels can be told apart", stacklevel=3)
