"""A sum of decision trees as flat arrays: what every reader returns and every engine computes with."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, get_args

import numpy as np
from jaxtyping import Bool, Float64, Int, Int32, Real
from numpy import ndarray

from fwshapley._internal.checks import Array, check_choice, check_flag, check_names, check_path
from fwshapley._internal.safetensors_file import Bundle, load_bundle, save_bundle
from fwshapley.tables.unusable_entries import UnusableEntry, refuse
from fwshapley.trees.decisions import Splits, find_leaves, sum_leaf_values
from fwshapley.trees.row_encoding import ReadRows, read_rows

Output = Literal["margin", "value", "probability"]
"""What an ensemble predicts: a score before its link function, a regression value, or class probabilities."""

InputType = Literal["float32", "float64"]
Unseen = Literal["missing", "other", "error"]

PER_NODE = ("feature", "threshold", "left", "right", "missing_left", "categories", "unseen_left", "cover")
"""Arrays with one entry per node."""

TYPES = {
    "feature": np.int32,
    "threshold": np.float64,
    "left": np.int32,
    "right": np.int32,
    "missing_left": np.bool_,
    "categories": np.int32,
    "unseen_left": np.bool_,
    "cover": np.float64,
    "value": np.float64,
    "base": np.float64,
    "roots": np.int32,
    "category_sets": np.bool_,
    "missing_number": np.float64,
    "accepts_missing": np.bool_,
}
"""Types of all arrays."""

FACTS = (
    "feature_names",
    "output_names",
    "output",
    "has_classes",
    "input_dtype",
    "zero_threshold",
    "levels_in_frames",
    "unseen",
    "named",
    "source",
)
"""Fields that a saved ensemble has as JSON, besides the levels."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TreeEnsemble:
    """Sum of trees, f(x) = base + sum over trees of the value of the leaf that x reaches.

    Arrays run over the nodes of all trees, one tree after another. A numerical split sends x <= threshold to the left
    (x is first rounded to `input_dtype`, as the library does), a categorical one the codes in its row of
    `category_sets`. `read_model` makes ensembles from fitted models.

    Attributes:
        feature: the feature that a node splits on; -1 at a leaf.
        threshold: of numerical splits.
        left, right: index of the children in these arrays; -1 at a leaf.
        value: (nodes, outputs), 0 at inner nodes. Means of forests are divided in.
        cover: weight of the training rows that reached a node.
        roots: the first node of each tree.
        base: what is added to the sum of all trees, one per output.
        feature_names, output_names: one per feature and one per output.
        output: "margin", "value" or "probability".
        has_classes: whether the outputs are mutually exclusive classes, or one output decides between two.
        input_dtype: "float32" or "float64".
        missing_left: where a missing value goes; by default to the right.
        categories: row of `category_sets` of a categorical split; -1 for a numerical one.
        category_sets: (sets, codes), whether a category code goes to the left.
        unseen_left: where a code outside the columns of `category_sets` goes.
        accepts_missing: (features,), whether the model has a rule for missing values of a feature; by default it has.
        missing_number: (features,), a number that counts as missing besides NaN; NaN if there is none.
        zero_threshold: numbers of at most this size are read as 0.
        levels: by feature, the categories that the codes 0, 1, ... stand for; other features contain codes already.
        levels_in_frames: whether levels are read from DataFrames only, as pandas' categories or as text, and arrays
            contain codes.
        unseen: what a category that is not among the levels is: "missing", an "error", or "other": it goes where
            `unseen_left` says, and categories are compared as text.
        named: whether `feature_names` come from the model, so that the columns of a DataFrame are checked.
        source: what the ensemble was read from, e.g. "xgboost.XGBClassifier".

    Example:
        >>> import numpy as np
        >>> stump = TreeEnsemble(
        ...     feature=np.array([0, -1, -1]), threshold=np.array([0.5, 0, 0]),
        ...     left=np.array([1, -1, -1]), right=np.array([2, -1, -1]),
        ...     value=np.array([[0], [1], [3]]), cover=np.array([4, 3, 1]), roots=np.array([0]), base=np.array([10]),
        ...     feature_names=("height",), output_names=("value",), output="value", input_dtype="float64",
        ... )
        >>> stump.predict(np.array([[0.2], [0.9]])).tolist()
        [[11.0], [13.0]]
    """

    feature: Int[ndarray, " nodes"]
    threshold: Real[ndarray, " nodes"]
    left: Int[ndarray, " nodes"]
    right: Int[ndarray, " nodes"]
    value: Real[ndarray, "nodes outputs"]
    cover: Real[ndarray, " nodes"]
    roots: Int[ndarray, " trees"]
    base: Real[ndarray, " outputs"]
    feature_names: tuple[str, ...]
    output_names: tuple[str, ...]
    output: Output
    input_dtype: InputType
    has_classes: bool = False
    missing_left: Bool[ndarray, " nodes"] | None = None
    categories: Int[ndarray, " nodes"] | None = None
    category_sets: Bool[ndarray, "sets codes"] | None = None
    unseen_left: Bool[ndarray, " nodes"] | None = None
    accepts_missing: Bool[ndarray, " features"] | None = None
    missing_number: Real[ndarray, " features"] | None = None
    zero_threshold: float = 0.0
    levels: Mapping[int, Sequence[Any]] = field(default_factory=dict)
    levels_in_frames: bool = False
    unseen: Unseen = "missing"
    named: bool = True
    source: str = ""
    kind: ClassVar[str] = "tree ensemble"

    def __post_init__(self) -> None:
        nodes = len(self.feature)
        defaults = {
            "missing_left": np.zeros(nodes),
            "categories": np.full(nodes, -1),
            "category_sets": np.zeros((0, 1)),
            "unseen_left": np.zeros(nodes),
            "missing_number": np.full(len(self.feature_names), np.nan),
            "accepts_missing": np.ones(len(self.feature_names)),
        }
        for name, default in defaults.items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, default)
        for name, dtype in TYPES.items():
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name), dtype=dtype))
        object.__setattr__(self, "feature_names", check_names("feature_names", self.feature_names))
        object.__setattr__(self, "output_names", check_names("output_names", self.output_names))
        object.__setattr__(self, "levels", {int(column): tuple(of) for column, of in self.levels.items()})
        check_choice("output", self.output, get_args(Output))
        check_choice("input_dtype", self.input_dtype, get_args(InputType))
        check_choice("unseen", self.unseen, get_args(Unseen))
        check_flag("has_classes", self.has_classes)
        if not self.zero_threshold >= 0:
            raise ValueError(f"zero_threshold must not be negative, got {self.zero_threshold!r}")
        self._check_shapes()
        self._check_structure()

    @property
    def n_features(self) -> int:
        """Number of features of a row, whether or not a tree splits on them."""
        return len(self.feature_names)

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return len(self.output_names)

    @property
    def n_trees(self) -> int:
        """Number of trees."""
        return len(self.roots)

    @cached_property
    def splits(self) -> Splits:
        """The arrays that decide where a row goes, as compiled code takes them."""
        return Splits(*(getattr(self, name) for name in Splits._fields))

    @cached_property
    def is_categorical(self) -> Bool[ndarray, " features"]:
        """Which features categorical splits use."""
        flags = np.zeros(self.n_features, dtype=bool)
        flags[self.feature[self.splits.categories >= 0]] = True
        return flags

    def encode(self, x: Array, *, argument: str = "x") -> Float64[ndarray, "rows features"]:
        """Return rows as the splits read them: rounded, missing values as NaN, categories as codes.

        Args:
            x: (rows, features), an array or a DataFrame. If the model has names of features, columns are found by them.
            argument: what errors call the rows.
        """
        read = self._read(x, argument)
        refuse(read.unusable, x.index if hasattr(x, "iloc") else range(len(read.rows)))
        return read.rows

    def find_unusable(self, x: Array) -> list[UnusableEntry]:
        """Return the entries that `encode` refuses, row by row: missing or unknown ones for which there is no rule.

        Args:
            x: (rows, features), an array or a DataFrame.
        """
        return self._read(x, "x").unusable

    def _read(self, x: Array, argument: str) -> ReadRows:
        return read_rows(
            x,
            argument=argument,
            names=self.feature_names,
            named=self.named,
            dtype=self.input_dtype,
            levels=self.levels,
            levels_in_frames=self.levels_in_frames,
            unseen=self.unseen,
            is_categorical=self.is_categorical,
            missing_number=np.asarray(self.missing_number),
            zero_threshold=self.zero_threshold,
            accepts_missing=np.asarray(self.accepts_missing),
        )

    def apply(self, x: Array) -> Int32[ndarray, "rows trees"]:
        """Return the leaf that each row reaches in each tree, as an index of the nodes of all trees.

        Args:
            x: (rows, features), an array or a DataFrame.
        """
        return find_leaves(self.splits, self.roots, self.encode(x))

    def predict(self, x: Array) -> Float64[ndarray, "rows outputs"]:
        """Return the outputs of each row.

        Args:
            x: (rows, features), an array or a DataFrame.
        """
        return self.base + sum_leaf_values(self.splits, self.roots, self.value, self.encode(x))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the ensemble to one safetensors file, without pickle.

        Args:
            path: file to write; an existing file is replaced.
        """
        bundle = self.to_bundle()
        save_bundle(check_path("path", path), self.kind, bundle.facts, bundle.arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> TreeEnsemble:
        """Read an ensemble that `save` wrote.

        Args:
            path: the file.
        """
        return cls.from_bundle(load_bundle(check_path("path", path), cls.kind))

    def to_bundle(self) -> Bundle:
        """Return the facts, for JSON, and the arrays."""
        facts = {name: getattr(self, name) for name in FACTS} | {"levels": list(self.levels.items())}
        return Bundle(facts, {name: getattr(self, name) for name in TYPES})

    @classmethod
    def from_bundle(cls, bundle: Bundle) -> TreeEnsemble:
        """Return the ensemble whose `to_bundle` was saved."""
        names = {name: tuple(bundle.facts[name]) for name in ("feature_names", "output_names")}
        return cls(**bundle.facts | names | {"levels": dict(bundle.facts["levels"])}, **bundle.arrays)

    def _check_shapes(self) -> None:
        nodes, outputs = len(self.feature), len(self.output_names)
        expected = dict.fromkeys(PER_NODE, (nodes,)) | {
            "value": (nodes, outputs),
            "base": (outputs,),
            "missing_number": (self.n_features,),
            "accepts_missing": (self.n_features,),
        }
        for name, shape in expected.items():
            if getattr(self, name).shape != shape:
                raise ValueError(f"{name} must have shape {shape}, got {getattr(self, name).shape}")
        finite = {"value": self.value, "base": self.base, "cover": self.cover}
        for name, array in finite.items():
            if not np.isfinite(array).all():
                raise ValueError(f"{name} must be finite; got {array[~np.isfinite(array)][0]}")
        if (self.cover < 0).any():
            raise ValueError(f"cover must not be negative, got {self.cover.min():g}")
        if (self.feature >= self.n_features).any():
            raise ValueError(
                f"feature must be below {self.n_features}, the number of features; got {self.feature.max()}"
            )
        categories, rows = self.splits.categories, len(self.splits.category_sets)
        if (categories >= rows).any():
            raise ValueError(f"categories must be rows 0..{rows - 1} of category_sets, got {categories.max()}")
        numerical = (self.feature >= 0) & (categories < 0)
        if np.isnan(self.threshold[numerical]).any():
            raise ValueError("threshold must be a number at every numerical split, got NaN")

    def _check_structure(self) -> None:
        """Raise a ValueError unless every node belongs to exactly one tree, and trees follow each other."""
        reached = np.zeros(len(self.feature), dtype=np.int64)
        front = self.roots
        while len(front):
            if front.min() < 0 or front.max() >= len(reached):
                raise ValueError(f"left, right and roots must be nodes 0..{len(reached) - 1} with two children or none")
            np.add.at(reached, front, 1)
            if reached.max() > 1:
                raise ValueError(f"node {int(reached.argmax())} must have one parent, got two: not a tree")
            inner = front[self.feature[front] >= 0]
            front = np.concatenate([self.left[inner], self.right[inner]])
        if not reached.all():
            raise ValueError(f"node {int(reached.argmin())} must belong to a tree, but no root leads to it")
        inner = np.flatnonzero(self.feature >= 0)
        trees = np.searchsorted(np.sort(self.roots), np.stack([inner, self.left[inner], self.right[inner]]), "right")
        if (trees[0] != trees[1:]).any():
            node = int(inner[(trees[0] != trees[1:]).any(0)][0])
            raise ValueError(f"node {node} must have its children in its own tree: nodes of a tree follow its root")
