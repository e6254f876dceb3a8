"""Exported explainers give the values of the explainers that they were exported from, without torch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import onnxruntime
import pandas as pd
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

import fwshapley as fw
from fwshapley._internal.onnx_facts import FACTS_KEY
from fwshapley.objectives import Kernel, Multilinear
from fwshapley.objectives import multilinear as of_training
from fwshapley.serving import ExportedExplainer
from fwshapley.serving.mixtures import MOMENT_NODES, BanzhafNodes, read_basis
from models import ImageModel, TableModel, images, rows, seeded

SEVERAL = [fw.Shapley(), fw.Beta(16, 1), fw.Beta(0.3, 2.7), fw.Banzhaf(0.2), fw.LeaveOneOut()]
CALIBRATED = SEVERAL[:2]
TOLERANCE = 1e-5


def fit(x: Any, *arguments: Any, **options: Any) -> fw.FeatureExplainer:  # noqa: ANN401 - of FeatureExplainer
    """Return an explainer after a few steps, with a last layer that is far from zero."""
    explainer = fw.FeatureExplainer(*arguments, **options)
    same: dict[str, Any] = {"augment": lambda x, _: x}  # so that no mixed rows are predicted, which takes longest
    explainer.fit(x, budget=fw.Budget(steps=3), batch_size=16, n_coalitions=4, progress=False, **same)
    generator = torch.Generator().manual_seed(0)
    for parameter in list(explainer.network_.parameters())[-2:]:
        parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return explainer


def mixed_table(count: int = 60) -> pd.DataFrame:
    """Return numbers with gaps, texts, dates and flags."""
    generator = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": np.where(generator.random(count) < 0.2, np.nan, generator.normal(40, 10, count)),
            "city": generator.choice(["Oslo", "Rome", "Bern"], count),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, count), "D"),
            "member": generator.random(count) < 0.5,
        }
    )


def score(table: pd.DataFrame) -> NDArray[np.float64]:
    days = (table["since"] - pd.Timestamp("2020-01-01")).dt.days
    one = table["age"].fillna(0) / 40 + (table["city"] == "Rome")
    return np.stack([one, days / 900 * table["member"]], 1).astype(float)


class Case(NamedTuple):
    """An explainer and inputs for it.

    Attributes:
        original: the explainer.
        x: inputs.
        exported: what has its values, from a file or in torch.
        folder: of the files "e.onnx" and, for the table, "s.onnx".
    """

    original: fw.FeatureExplainer
    x: Any
    exported: ExportedExplainer
    folder: Path


IN_FILES: dict[str, Callable[[], tuple[fw.FeatureExplainer, Any]]] = {
    "table": lambda: (fit(mixed_table(), score), mixed_table().iloc[:7]),
    "encoder": lambda: (fit(images(40), seeded(ImageModel), fw.grid(8, 8, patch=2), output="logit"), images(5, seed=1)),
    "slim": lambda: (
        fit(images(40), seeded(ImageModel), fw.segments(np.arange(64).reshape(8, 8) // 24), network="slim"),
        images(5, seed=1),
    ),
}
IN_TORCH: dict[str, Callable[[], tuple[fw.FeatureExplainer, Any]]] = {
    "array": lambda: (fit(rows(100, 4), seeded(TableModel)), rows(5, 4, seed=1)),
    "kernel": lambda: (fit(rows(100, 4), seeded(TableModel), objective="kernel", weights=fw.Beta(4, 1)), rows(5, 4)),
    "unet": lambda: (fit(images(40), seeded(ImageModel), fw.grid(8, 8, patch=2), network="unet"), images(5, seed=1)),
}


@pytest.fixture(scope="module", params=[*IN_FILES, *IN_TORCH])
def case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Case:
    folder = tmp_path_factory.mktemp("exported")
    if request.param in IN_TORCH:
        original, x = IN_TORCH[request.param]()
        return Case(original, x, ExportedExplainer.of(original), folder)
    original, x = IN_FILES[request.param]()
    surrogate = None
    if request.param == "table":
        original.calibrate(mixed_table(), n_inputs=16, n_calls=40, weights=CALIBRATED, progress=False)
        surrogate = folder / "s.onnx"
    original.to_onnx(folder / "e.onnx", surrogate=surrogate)
    return Case(original, x, fw.load_onnx(folder / "e.onnx"), folder)


def test_an_exported_explainer_gives_the_same_values(case: Case) -> None:
    x, exported = case.x, case.exported
    is_kernel = isinstance(case.original.fitted_.objective, Kernel)
    for options in ({"outputs": "all"}, {"outputs": [1], "total": "efficient"}):
        weights = None if is_kernel else SEVERAL
        ours, theirs = (one.explain(x, weights=weights, **options) for one in (exported, case.original))
        expected = theirs.values.numpy()
        np.testing.assert_allclose(ours.values, expected, rtol=TOLERANCE, atol=TOLERANCE * np.abs(expected).max())
        np.testing.assert_allclose(ours.base_values, theirs.base_values, rtol=1e-6)
        assert ours.outputs.tolist() == theirs.outputs.tolist()
        assert (ours.total, ours.weights, ours.output_names) == (theirs.total, theirs.weights, theirs.output_names)
        assert ours.players.names == theirs.players.names
        assert ours.encodings == theirs.encodings
        made = {name: fact for name, fact in theirs.provenance.items() if name != "relative_error"}  # of "quality"
        assert json.dumps(ours.provenance) == json.dumps(made)
    one = exported.explain(x[:1], outputs="all").values
    np.testing.assert_allclose(one[0], exported.explain(x, outputs="all").values[0], rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("case", ["table"], indirect=True)
def test_expected_errors_are_those_of_the_calibrated_explainer(case: Case) -> None:
    ours, theirs = (one.explain(case.x, weights=CALIBRATED, errors=True) for one in (case.exported, case.original))
    assert ours.expected_error is not None
    assert theirs.expected_error is not None
    np.testing.assert_allclose(ours.expected_error, theirs.expected_error, rtol=1e-4)
    with pytest.raises(ValueError, match="errors were calibrated for Shapley"):
        case.exported.explain(case.x, weights=fw.Banzhaf(), errors=True)
    with pytest.raises(ValueError, match="pass total='raw'"):
        case.exported.explain(case.x, total="efficient", errors=True)


@pytest.mark.parametrize("case", ["table"], indirect=True)
def test_the_surrogate_is_exported_too(case: Case) -> None:
    session = onnxruntime.InferenceSession(case.folder / "s.onnx")
    assert FACTS_KEY in session.get_modelmeta().custom_metadata_map
    coalitions = torch.rand(7, 4, generator=torch.Generator().manual_seed(0)) < 0.5
    inputs = case.exported.encode(case.x)
    (values,) = session.run(["values"], {"inputs": inputs, "coalitions": coalitions.numpy()})
    expected = case.original.masked_model_(torch.from_numpy(inputs), coalitions[:, None])[:, 0]
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(ValueError, match="contains a surrogate"):
        fw.load_onnx(case.folder / "s.onnx")


WITHOUT_TORCH = """
import sys
sys.modules["torch"] = None  # importing it is an error from here on
import pandas as pd
import fwshapley as fw
import fwshapley.serving
explainer = fw.load_onnx("e.onnx")
table = pd.read_csv("x.csv", parse_dates=["since"])
attribution = explainer.explain(table, weights=[fw.Shapley(), fw.Beta(4, 1)], total="efficient")
print(attribution.to_dataframe().shape)
"""


@pytest.mark.parametrize("case", ["table"], indirect=True)
def test_importing_and_running_it_does_not_import_torch(case: Case) -> None:
    case.x.to_csv(case.folder / "x.csv", index=False)
    done = subprocess.run(  # noqa: S603 - our own code
        [sys.executable, "-c", WITHOUT_TORCH],
        cwd=case.folder,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout.strip() == "(112, 5)", done.stderr


def test_mixtures_are_those_of_training(semivalue_for: Callable[[int], fw.Semivalue]) -> None:
    weights = semivalue_for(6)
    assert MOMENT_NODES == of_training.MOMENT_NODES
    objective = Multilinear(unit=tuple(range(1, 13)))
    if not weights.is_mixture:
        with pytest.raises(TypeError, match="not a mixture"):
            read_basis(objective.facts()).mixture(weights)
        return
    expected = objective.mixtures([weights], torch.device("cpu"))[0]
    np.testing.assert_allclose(read_basis(objective.facts()).mixture(weights), expected, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("n", [1, 2, 5, 9])
def test_banzhaf_values_at_a_few_t_give_every_weighting(
    n: int, smooth_game: Callable[..., Any], semivalue_for: Callable[[int], fw.Semivalue]
) -> None:
    weights, game = semivalue_for(n), smooth_game(n)
    if not weights.is_mixture:
        pytest.skip("it is not a mixture over t")
    basis = BanzhafNodes.of(n)
    known = fw.exact_values(game, [fw.Banzhaf(t) for t in basis.t])
    np.testing.assert_allclose(basis.mixture(weights) @ known.numpy(), fw.exact_values(game, weights), atol=1e-10)


class Odd(nn.Module):
    """A network that computes something else in Python for each input, which no graph can contain."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4 * channels)

    def forward(self, x: Tensor) -> Tensor:
        signs = [1 if float(row[0].detach()) > 0 else -1 for row in x]
        out: Tensor = self.linear(x).unflatten(1, (4, -1)) * torch.tensor(signs)[:, None, None]
        return out


def test_what_cannot_be_exported_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="surrogate=None explains a function"):
        fit(rows(60, 4), lambda x: x[:, 0] * x[:, 1], surrogate=None).to_onnx(tmp_path / "e.onnx")
    with pytest.raises(ValueError, match="the Odd of the explainer cannot be exported to ONNX"):
        fit(rows(60, 4), seeded(TableModel), network=Odd).to_onnx(tmp_path / "e.onnx")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "other.onnx").write_bytes(b"no graph")
    with pytest.raises(ValueError, match="is not an ONNX file that can be run"):
        fw.load_onnx(tmp_path / "other.onnx")
