"""The categories that boosted trees were trained with, in pandas' dtype for them; they take no texts instead."""

from __future__ import annotations

import json
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

XGBOOST_CATEGORICAL = "c"
"""Type of a feature of XGBoost that contains categories."""


def find_categories(model: Any) -> dict[str, list[Any]]:  # noqa: ANN401 - any model
    """Return the categories of the DataFrame that a model of LightGBM or XGBoost was trained on, by name of the column.

    HistGradientBoosting takes texts as well, and other models have no categories of their own.
    """
    libraries = {parent.__module__.partition(".")[0] for parent in type(model).__mro__}
    if libraries.isdisjoint({"lightgbm", "xgboost"}):
        return {}
    if hasattr(model, "get_booster") or hasattr(model, "save_raw"):
        if not getattr(model, "__sklearn_is_fitted__", lambda: True)():
            return {}
        booster = model.get_booster() if hasattr(model, "get_booster") else model
        if XGBOOST_CATEGORICAL not in (booster.feature_types or []):
            return {}
        learner = json.loads(booster.save_raw("json"))["learner"]
        levels = read_xgboost_levels(learner["gradient_booster"])
        names = learner.get("feature_names") or []
    else:
        booster = getattr(model, "booster_", model)
        if not getattr(booster, "pandas_categorical", None):
            return {}
        head, _, footer = booster.model_to_string(num_iteration=1).partition("end of trees")
        header = dict(line.partition("=")[::2] for line in head.splitlines() if "=" in line)
        levels = read_lightgbm_levels(header, footer)
        names = booster.feature_name()
    return {names[column]: of for column, of in levels.items() if names}


def read_xgboost_levels(booster: Mapping[str, Any]) -> dict[int, list[Any]]:
    """Return the categories of the DataFrame that a model was trained on, by column, from XGBoost's JSON.

    XGBoost 3.2 stores names that are not ASCII incorrectly; such columns have no levels, and need codes.
    """
    inner = booster["gbtree"] if booster["name"] == "dart" else booster
    levels: dict[int, list[Any]] = {}
    for column, encoding in enumerate(inner["model"].get("cats", {}).get("enc", [])):
        values = encoding["values"]
        if "offsets" not in encoding:
            levels[column] = values
        elif values and min(values) >= 0:
            text = bytes(values)
            levels[column] = [text[start:stop].decode("ascii") for start, stop in pairwise(encoding["offsets"])]
    return levels


def read_lightgbm_levels(header: Mapping[str, str], footer: str) -> dict[int, list[Any]]:
    """Return the categories of the DataFrame that a model was trained on, by column, from LightGBM's text.

    LightGBM saves the categories, and which features it treats as categorical. Where their numbers differ (ordered
    categories of pandas are numbers to LightGBM), columns cannot be told, and codes are needed.

    Args:
        header: fields before the trees.
        footer: text after them.
    """
    lines = footer.splitlines()
    saved = next((line.partition(":")[2] for line in lines if line.startswith("pandas_categorical:")), "null")
    categories = json.loads(saved) or []
    start = "[categorical_feature:"
    declared = next((line.removeprefix(start).strip(" ]") for line in lines if line.startswith(start)), "")
    columns = [int(column) for column in declared.split(",") if column.strip().isdigit()]
    if len(columns) != len(categories):
        columns = [column for column, info in enumerate(header["feature_infos"].split()) if info[0] not in "[n"]
    return dict(zip(columns, categories, strict=True)) if len(columns) == len(categories) else {}
