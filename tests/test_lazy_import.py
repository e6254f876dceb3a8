"""`import fwshapley` is fast: names are imported when they are first used, and torch only by what computes with it."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import fwshapley as fw

HEAVY = ("accelerate", "joblib", "matplotlib", "numba", "pandas", "rich", "scipy", "sklearn", "torch")


def modules_after(code: str) -> set[str]:
    """Names of the modules that a new process has imported after running some code."""
    command = [sys.executable, "-c", f"{code}\nimport sys\nprint(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())  # noqa: S603 - our own code


def test_importing_the_package_imports_nothing_heavy() -> None:
    assert modules_after("import fwshapley").isdisjoint(HEAVY)


@pytest.mark.parametrize(
    "code",
    [
        "import fwshapley as fw; fw.Beta(16, 1).size_law(100); fw.Shapley().quadrature(4)",
        "import fwshapley as fw; fw.grid(8, 8, patch=2)",
        "import fwshapley as fw; fw.Attribution",
        "import fwshapley as fw; fw.TreeExplainer",
        "import fwshapley as fw; fw.Explainer",
        "import fwshapley.plots",
        "import fwshapley.serving.http.server, fwshapley.serving.model_folder, fwshapley.serving.page",
        "import fwshapley._internal.safetensors_file, fwshapley._internal.html, fwshapley._internal.progress",
    ],
)
def test_what_serves_does_not_import_torch(code: str) -> None:
    assert "torch" not in modules_after(code)


ROWS = "import fwshapley as fw, numpy as np; x = np.random.default_rng(0).normal(size=(30, 3)); y = x @ [1, 2, 0]"
FRAME = f"{ROWS}; import pandas as pd; x = pd.DataFrame(x, columns=list('abc'))"
FITTED = {
    "trees": "from sklearn.tree import DecisionTreeRegressor as M; e = fw.TreeExplainer(M().fit(x, y), x)",
    "linear": "from sklearn.linear_model import Ridge as M; e = fw.LinearExplainer(M().fit(x, y), x)",
    "front door, trees": "from sklearn.tree import DecisionTreeRegressor as M; e = fw.Explainer(M().fit(x, y), x)",
    "front door, linear": "from sklearn.linear_model import Ridge as M; e = fw.Explainer(M().fit(x, y), x)",
}


@pytest.mark.parametrize("rows", [ROWS, FRAME], ids=["array", "DataFrame"])
@pytest.mark.parametrize("fitted", FITTED.values(), ids=list(FITTED))
def test_exact_values_of_trees_and_linear_models_do_not_import_torch(rows: str, fitted: str, tmp_path: Path) -> None:
    used = f"e.explain(x[:2], weights=[fw.Shapley(), fw.Beta(4, 1)]); e.save({str(tmp_path / 'e')!r})"
    loaded = f"fw.load({str(tmp_path / 'e')!r}).explain(x[:2])"
    assert "torch" not in modules_after(f"{rows}\n{fitted}\n{used}\n{loaded}")


@pytest.mark.parametrize(
    "path", ["fwshapley", "fwshapley.explanation", "fwshapley.games", "fwshapley.trees", "fwshapley.valuation"]
)
def test_every_public_name_can_be_imported(path: str) -> None:
    module = importlib.import_module(path)
    names = module.__all__
    assert len(names) == len(set(names))
    for name in names:
        assert getattr(module, name) is not None
    assert set(names) <= set(dir(module))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="Shapely"):
        fw.Shapely  # type: ignore[attr-defined]  # noqa: B018 - the access is what is tested
