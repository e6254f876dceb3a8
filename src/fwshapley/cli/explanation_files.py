"""Explanations in files: values as a table or as arrays, a picture of each input, and of all rows of a table."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.files import written_whole
from fwshapley._internal.version import __version__
from fwshapley._internal.wording import counted
from fwshapley.cli.input_files import Inputs
from fwshapley.cli.input_format import InputFormat
from fwshapley.explanation.attribution import Attribution
from fwshapley.explanation.pictures.image_plots import LOG_ODDS
from fwshapley.games.scales import Kind
from fwshapley.plots.figure import readable
from fwshapley.semivalues import Semivalue

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_TITLE = 80
"""Letters of the title of a picture."""

VALUES, PICTURES = "values", "pictures"
SKIPPED = "skipped.csv"
"""Lists the entries because of which rows were not explained."""

RECORD = "explain.json"
"""Lists the files that were written, so that another run replaces these and nothing else."""

FileFormat = Literal["csv", "npz"]
Predictor = Literal["the model", "the surrogate"]


@dataclass(frozen=True, eq=False)
class Explanations:
    """Values of some inputs.

    Attributes:
        attribution: under a list of semivalues.
        inputs: the explained inputs.
        format: of the files that they were read from.
        predictions: what "the model" and "the surrogate" predict; exact values have no surrogate, and the model is not
            always known.
        kind: what they predict.
        differ: inputs for which surrogate and model predict different classes, if this is known.
        predicted_by: which of them predicts the outputs that are explained; otherwise None.
    """

    attribution: Attribution
    inputs: Inputs
    format: InputFormat
    predictions: Mapping[Predictor, Float[Tensor, "inputs outputs"]]
    kind: Kind
    predicted_by: Predictor | None = None
    differ: Bool[Tensor, " inputs"] | None = None

    @property
    def weights(self) -> list[Semivalue]:
        """The semivalues."""
        assert isinstance(self.attribution.weights, list)  # noqa: S101 - see the class
        return self.attribution.weights

    def name(self, place: int) -> str:
        """Name of an input: its file, or its row and file."""
        return self.inputs.name(place)


def write_explanations(results: Explanations, folder: Path, *, form: FileFormat | None, pictures: int) -> str:
    """Write values and pictures, all of them or none, and remove other files of an earlier run; return a summary."""
    form = form or ("npz" if results.attribution.players.is_image else "csv")
    values = folder / f"{VALUES}.{form}"
    names = _picture_names(results, min(pictures, len(results.inputs)))
    drawn = [folder / PICTURES / f"{name}.png" for name in names]
    shown = _as_pictures(results)
    summaries = {} if shown.players.is_image or not pictures else SUMMARIES
    made = [new for new in (folder / PICTURES, folder) if not new.exists()]
    skipped = results.inputs.unusable
    lists = [] if skipped is None else [SKIPPED]
    written = [values.name, *lists, *summaries, *(f"{PICTURES}/{path.name}" for path in drawn)]
    outdated = [folder / name for name in _listed_files(folder) if name not in written]
    try:
        with ExitStack() as stack:
            facts = {"version": __version__, "files": written, "skipped": list(results.inputs.skipped)}
            record = json.dumps(facts, indent=2)
            stack.enter_context(written_whole(folder / RECORD)).write_text(f"{record}\n", encoding="utf-8")
            WRITERS[form](results, stack.enter_context(written_whole(values)))
            if skipped is not None:
                skipped.to_csv(stack.enter_context(written_whole(folder / SKIPPED)), index=False)
            for name, draw in summaries.items():
                draw(shown).savefig(stack.enter_context(written_whole(folder / name)))
            for place, path in enumerate(drawn):
                name = results.name(place)
                figure = shown.plot([place], names=None if shown.players.is_image else [name])
                if shown.players.is_image:
                    figure.suptitle(readable(name, MAX_TITLE), fontsize="medium")
                figure.savefig(stack.enter_context(written_whole(path)))
        for path in outdated:
            path.unlink(missing_ok=True)
            made += [path.parent] * (path.parent != folder)  # removed below if it is empty now
    finally:
        for new in made:
            if new.exists() and not any(new.iterdir()):
                new.rmdir()
    return ", ".join(
        [values.name, *lists, *summaries, *([f"{counted(len(drawn), 'picture')} in {PICTURES}"] if drawn else [])]
    )


def _listed_files(folder: Path) -> list[str]:
    """Return the files that the record of the last run lists, of the kinds that we write; none if it is damaged."""
    try:
        names = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
        return [name for name in names if name in (*VALUE_FILES, SKIPPED, *SUMMARIES) or PICTURE_FILE.fullmatch(name)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _as_pictures(results: Explanations) -> Attribution:
    """Return the attribution with images as they were before they were normalized, and what the model predicts."""
    attribution = results.attribution
    if not attribution.players.is_image:
        return attribution
    images = torch.from_numpy(results.format.denormalize(attribution.inputs.numpy()))
    shown = replace(attribution, inputs=images)
    if "the model" not in results.predictions:
        return shown
    predictions = results.predictions["the model"].gather(1, attribution.outputs)
    are_odds = attribution.provenance.get("output") in LOG_ODDS
    return replace(shown, predictions=predictions.logit() if are_odds else predictions)


def _picture_names(results: Explanations, count: int) -> list[str]:
    """Return different names for files of pictures."""
    names: list[str] = []
    for place in range(count):
        name = results.name(place)
        plain = re.sub(
            r"[^\w.-]+", "_", name if results.inputs.rows[place] is not None else str(Path(name).with_suffix(""))
        )
        taken, number = plain, 2
        while taken in names:
            taken, number = f"{plain}_{number}", number + 1
        names.append(taken)
    return names


def _write_arrays(results: Explanations, path: Path) -> None:
    """Write arrays that numpy reads without pickle."""
    attribution = results.attribution
    rows = [-1 if row is None else row for row in results.inputs.rows]
    optional = {"stderr": attribution.stderr, "expected_error": attribution.expected_error}
    errors: dict[str, Any] = {name: _to_numpy(error) for name, error in optional.items() if error is not None}
    with path.open("wb") as file:
        np.savez(
            file,
            values=_to_numpy(attribution.values),
            base_values=_to_numpy(attribution.base_values),
            outputs=attribution.outputs.numpy(),
            output_names=np.array(attribution.output_names, dtype=str),
            players=np.array(attribution.players.names, dtype=str),
            assignment=attribution.players.assignment,
            weights=np.array(list(map(str, results.weights)), dtype=str),
            total=np.array(attribution.total, dtype=str),
            files=np.array(results.inputs.files, dtype=str),
            rows=np.array(rows, dtype=np.int64),
            **_predicted(results),
            **errors,
        )


def _predicted(results: Explanations) -> dict[str, Any]:
    """Return predictions of each input and output, by their name in files."""
    return {
        f"{name.removeprefix('the ')}_prediction": _to_numpy(outputs) for name, outputs in results.predictions.items()
    }


def _predictions_in_lines(results: Explanations) -> dict[str, Any]:
    """Return predictions of the output of each line; where outputs are classes, also the most probable class."""
    attribution = results.attribution
    n_weights = len(results.weights)
    numbers = attribution.outputs.numpy()
    lines = {}
    for name, predictions in _predicted(results).items():
        explained = np.take_along_axis(predictions, numbers, 1)
        lines[name] = np.repeat(explained[:, None], n_weights, 1).reshape(-1)
        if results.kind == "classes":
            classes = np.array(attribution.output_names, dtype=object)[predictions.argmax(1)]
            lines[name.replace("prediction", "class")] = np.repeat(classes, n_weights * numbers.shape[1])
    return lines


def _write_table(results: Explanations, path: Path) -> None:
    """Write a line for each input, semivalue and output, with a column for each player, and for its standard error."""
    attribution, inputs = results.attribution, results.inputs
    count, outputs = attribution.outputs.shape
    n_weights = len(results.weights)
    lines = {
        "file": np.repeat(np.array(inputs.files, dtype=object), n_weights * outputs),
        "row": np.repeat(np.array(inputs.rows, dtype=object), n_weights * outputs),
        "weights": np.tile(np.repeat(list(map(str, results.weights)), outputs), count),
        "output": [
            attribution.output_names[number]
            for numbers in attribution.outputs.tolist() for _ in results.weights for number in numbers
        ],
        "base_value": _to_numpy(attribution.base_values[:, None].expand(-1, n_weights, -1).reshape(-1)),
    }  # fmt: skip
    if all(row is None for row in inputs.rows):
        del lines["row"]
    if attribution.expected_error is not None:
        lines["expected_error"] = _to_numpy(attribution.expected_error.transpose(0, 1).reshape(-1))
    lines |= _predictions_in_lines(results)
    names = [f"{name} (player)" if name in lines else name for name in attribution.players.names]
    parts = [pd.DataFrame(lines), pd.DataFrame(_in_lines(attribution.values), columns=names)]
    if attribution.stderr is not None:
        of_errors = [f"{name} (stderr)" for name in names]
        parts.append(pd.DataFrame(_in_lines(attribution.stderr), columns=of_errors))
    table = pd.concat(parts, axis=1)
    table.to_csv(path, index=False)


def _in_lines(values: Float[Tensor, "weights batch players outputs"]) -> NDArray[np.floating[Any]]:
    """Values of the players in the order of inputs, semivalues and outputs."""
    return _to_numpy(values.permute(1, 0, 3, 2).flatten(0, 2))


def _to_numpy(values: Tensor) -> NDArray[np.floating[Any]]:
    """Return exact values in their double precision, others in single."""
    array: NDArray[np.floating[Any]] = (values if values.dtype == torch.float64 else values.float()).numpy()
    return array


WRITERS: Mapping[FileFormat, Callable[[Explanations, Path], None]] = {"csv": _write_table, "npz": _write_arrays}
VALUE_FILES = tuple(f"{VALUES}.{form}" for form in WRITERS)
PICTURE_FILE = re.compile(rf"{PICTURES}/[\w.-]+\.png")
SUMMARIES: Mapping[str, Callable[[Attribution], Figure]] = {
    "importance.png": Attribution.plot_importance,
    "beeswarm.png": Attribution.plot_beeswarm,
}
"""Pictures of all rows of a table, and how they are drawn."""
TEXTS_PAGE = "texts.html"
"""Texts with colored words."""

FILES = (*VALUE_FILES, SKIPPED, *SUMMARIES, TEXTS_PAGE, PICTURES, RECORD)
"""Files and folders of ours in a folder of explanations."""
