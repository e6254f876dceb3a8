"""Read a fitted model, or the file that its library wrote, as a `TreeEnsemble`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, get_args

from fwshapley._internal.checks import Array, check_choice, check_path, shorten
from fwshapley.trees.ensemble import Output, TreeEnsemble
from fwshapley.trees.libraries import LIBRARIES, find_library


def read_model(
    model: Any,  # noqa: ANN401 - of any of four libraries
    *,
    output: str | None = None,
    categories: Array | None = None,
) -> TreeEnsemble:
    """Read the trees of a fitted model: exactly what its library's `predict` computes, in arrays.

    Supported are decision trees, forests, ExtraTrees, GradientBoosting and HistGradientBoosting of scikit-learn, models
    and boosters of XGBoost (gbtree, dart), LightGBM (without linear trees) and CatBoost (without CTR splits). A model
    that stopped early is read up to its best iteration if its `predict` does so. Nothing is unpickled, and no library
    is imported.

    Args:
        model: the fitted model; a `TreeEnsemble`, which is returned; or the path of a model that XGBoost wrote as JSON,
            LightGBM as text, or CatBoost as JSON.
        output: "margin" (the score before the link function), "value" (of a regression) or "probability" (of trees
            and forests); by default what the sum of the trees is. Others are refused: they have no closed form.
        categories: rows that contain every category of the training data, for a CatBoost model that splits on
            categories: it stores hashes of them alone. Models of other libraries do not need it.

    Example:
        >>> from sklearn.datasets import load_iris
        >>> from sklearn.ensemble import RandomForestClassifier
        >>> x, y = load_iris(return_X_y=True)
        >>> forest = RandomForestClassifier(5, random_state=0).fit(x, y)
        >>> bool(abs(read_model(forest).predict(x) - forest.predict_proba(x)).max() < 1e-12)
        True
    """
    ensemble = _read(model, categories)
    if output is not None:
        _check_output(output, ensemble)
    return ensemble


def _read(model: Any, categories: Array | None) -> TreeEnsemble:  # noqa: ANN401 - as above
    """Read what `read_model` takes."""
    if isinstance(model, TreeEnsemble):
        return model
    if isinstance(model, str | os.PathLike):
        return _read_file(check_path("model", model))
    library = find_library(model)
    if library == "sklearn":
        from fwshapley.trees.sklearn_reader import read_sklearn  # noqa: PLC0415 - one reader is needed at a time

        return read_sklearn(model)
    if library == "xgboost":
        from fwshapley.trees.xgboost_reader import read_xgboost  # noqa: PLC0415 - as above

        return read_xgboost(model)
    if library == "lightgbm":
        from fwshapley.trees.lightgbm_reader import read_lightgbm  # noqa: PLC0415 - as above

        return read_lightgbm(model)
    if library == "catboost":
        from fwshapley.trees.catboost_reader import read_catboost  # noqa: PLC0415 - as above

        return read_catboost(model, categories)
    raise TypeError(
        f"model must be a fitted tree ensemble of {', '.join(LIBRARIES)}, or a path, got {shorten(model)}; "
        "use FeatureExplainer for other models"
    )


def _read_file(path: Path) -> TreeEnsemble:
    """Read a model file of XGBoost, LightGBM or CatBoost, told apart by its contents."""
    if not path.is_file():
        raise FileNotFoundError(f"{path} is missing: expected a model that XGBoost, LightGBM or CatBoost wrote")
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path} is a binary file; save the model as JSON (XGBoost: save_model('model.json'), CatBoost: "
            "save_model('model.json', format='json')), or pass the loaded model"
        ) from error
    if text.startswith("tree\n"):
        from fwshapley.trees.lightgbm_reader import read_lightgbm_text  # noqa: PLC0415 - one reader is needed at a time

        return read_lightgbm_text(text)
    try:
        document = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} is neither JSON nor a LightGBM text file: {error}") from error
    keys = set(document) if isinstance(document, dict) else set()
    if "learner" in keys:
        from fwshapley.trees.xgboost_reader import read_xgboost_json  # noqa: PLC0415 - as above

        return read_xgboost_json(document)
    if "model_info" in keys:
        from fwshapley.trees.catboost_reader import read_catboost_json  # noqa: PLC0415 - as above

        return read_catboost_json(document)
    raise ValueError(
        f"{path} must be a model that save_model of XGBoost, LightGBM or CatBoost wrote, got JSON with "
        f"{shorten(sorted(keys))}; dumps of single trees lack the base score and the types of features"
    )


def _check_output(requested: str, ensemble: TreeEnsemble) -> None:
    """Raise a ValueError if something is requested that the trees do not add up to."""
    check_choice("output", requested, get_args(Output))
    available, source = ensemble.output, ensemble.source
    if requested == available or (requested == "margin" and available == "value"):
        return
    if available == "margin":
        reason = (
            f"a {requested} of {source} is a nonlinear function of a sum of trees, for which no closed form is known"
        )
        hint = "pass output='margin' to explain the sum, or use FeatureExplainer"
    else:
        reason = f"the trees of {source} sum to a {available}"
        hint = f"pass output={available!r}"
    raise ValueError(f"output={requested!r} cannot be explained exactly: {reason}; {hint}")
