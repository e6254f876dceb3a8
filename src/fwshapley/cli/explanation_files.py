"""Explanations in files: values as a table or as arrays, and a picture of each input."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from torch import Tensor

from fwshapley._internal.files import check_free, written_whole
from fwshapley._internal.wording import counted
from fwshapley.cli.explaining import Answer
from fwshapley.explanation.attribution import Attribution
from fwshapley.version import __version__

VALUES, PICTURES = "values", "pictures"
RECORD = "explain.json"
"""Lists what was written, so that another run replaces all of it, and nothing else."""

Format = Literal["csv", "npz"]


def check_folder(folder: Path, *, force: bool) -> None:
    """Raise an error if explanations cannot or should not be written to a folder."""
    check_free(folder, [*VALUE_FILES, PICTURES, RECORD], force=force)


def write_explanations(answer: Answer, folder: Path, *, form: Format | None, pictures: int) -> str:
    """Write values and pictures, all of them or none; return what was written, in a few words.

    What an earlier run wrote and this one did not is removed.
    """
    form = form or ("npz" if answer.attribution.players.is_image else "csv")
    values = folder / f"{VALUES}.{form}"
    names = _picture_names(answer, min(pictures, len(answer.inputs)))
    drawn = [folder / PICTURES / f"{name}.png" for name in names]
    shown = _as_pictures(answer)
    made = [each for each in (folder / PICTURES, folder) if not each.exists()]
    written = [values.name, *(f"{PICTURES}/{path.name}" for path in drawn)]
    outdated = [folder / name for name in _listed_files(folder) if name not in written]
    try:
        with ExitStack() as stack:
            facts = {"version": __version__, "files": written, "skipped": list(answer.inputs.skipped)}
            record = json.dumps(facts, indent=2)
            stack.enter_context(written_whole(folder / RECORD)).write_text(f"{record}\n", encoding="utf-8")
            WRITERS[form](answer, stack.enter_context(written_whole(values)))
            for place, path in enumerate(drawn):
                figure = shown.plot([place], names=[answer.name(place)])
                if shown.players.is_image:
                    figure.suptitle(answer.name(place), fontsize="medium")
                figure.savefig(stack.enter_context(written_whole(path)))
        for path in outdated:
            path.unlink(missing_ok=True)
            made += [path.parent] * (path.parent != folder)  # to go if it is empty now
    finally:
        for each in made:
            if each.exists() and not any(each.iterdir()):
                each.rmdir()
    return values.name + (f", {counted(len(drawn), 'picture')} in {PICTURES}" if drawn else "")


def _listed_files(folder: Path) -> list[str]:
    """Names of files that the record of the last run lists, of the kinds that we write; none if it is damaged."""
    try:
        names = json.loads((folder / RECORD).read_text(encoding="utf-8"))["files"]
        return [name for name in names if name in VALUE_FILES or PICTURE_FILE.fullmatch(name)]
    except (OSError, ValueError, LookupError, TypeError):
        return []


def _as_pictures(answer: Answer) -> Attribution:
    """Return the attribution with images as they were before they were normalized."""
    attribution = answer.attribution
    if not attribution.players.is_image:
        return attribution
    return replace(attribution, inputs=torch.from_numpy(answer.reading.picture(attribution.inputs.numpy())))


def _picture_names(answer: Answer, count: int) -> list[str]:
    """Return names for files of pictures, each once."""
    names: list[str] = []
    for place in range(count):
        name = answer.name(place)
        plain = re.sub(
            r"[^\w.-]+", "_", name if answer.inputs.rows[place] is not None else str(Path(name).with_suffix(""))
        )
        taken, number = plain, 2
        while taken in names:
            taken, number = f"{plain}_{number}", number + 1
        names.append(taken)
    return names


def _write_arrays(answer: Answer, path: Path) -> None:
    """Write arrays that numpy reads without pickle."""
    attribution = answer.attribution
    rows = [-1 if row is None else row for row in answer.inputs.rows]
    known = {"stderr": attribution.stderr, "expected_error": attribution.expected_error}
    errors: dict[str, Any] = {name: error.float().numpy() for name, error in known.items() if error is not None}
    with path.open("wb") as file:
        np.savez(
            file,
            values=attribution.values.float().numpy(),
            base_values=attribution.base_values.float().numpy(),
            outputs=attribution.outputs.numpy(),
            output_names=np.array(attribution.output_names, dtype=str),
            players=np.array(attribution.players.names, dtype=str),
            assignment=attribution.players.assignment,
            weights=np.array([str(each) for each in answer.weights], dtype=str),
            total=np.array(attribution.total, dtype=str),
            files=np.array(answer.inputs.files, dtype=str),
            rows=np.array(rows, dtype=np.int64),
            **_predicted(answer),
            **errors,
        )


def _predicted(answer: Answer) -> dict[str, Any]:
    """What is predicted of each input and output: by the surrogate, and by the model where it is at hand."""
    both = {"model_prediction": answer.predictions.model, "surrogate_prediction": answer.predictions.surrogate}
    return {name: said.float().numpy() for name, said in both.items() if said is not None}


def _predictions_in_lines(answer: Answer) -> dict[str, Any]:
    """The same of the output of each line; where outputs are classes, with the most likely one of its input."""
    attribution, weightings = answer.attribution, len(answer.weights)
    numbers, lines = attribution.outputs.numpy(), {}
    for name, said in _predicted(answer).items():
        own = np.take_along_axis(said, numbers, 1)
        lines[name] = np.repeat(own[:, None], weightings, 1).reshape(-1)
        if answer.predictions.kind == "classes":
            classes = np.array(attribution.output_names, dtype=object)[said.argmax(1)]
            lines[name.replace("prediction", "class")] = np.repeat(classes, weightings * numbers.shape[1])
    return lines


def _write_table(answer: Answer, path: Path) -> None:
    """Write a line for each input, weighting and output, with a column for each player, and for its standard error."""
    attribution, inputs = answer.attribution, answer.inputs
    count, outputs = attribution.outputs.shape
    weightings = len(answer.weights)
    lines = {
        "file": np.repeat(np.array(inputs.files, dtype=object), weightings * outputs),
        "row": np.repeat(np.array(inputs.rows, dtype=object), weightings * outputs),
        "weights": np.tile(np.repeat([str(each) for each in answer.weights], outputs), count),
        "output": [
            attribution.output_names[number]
            for numbers in attribution.outputs.tolist() for _ in answer.weights for number in numbers
        ],
        "base_value": attribution.base_values.float()[:, None].expand(-1, weightings, -1).reshape(-1).numpy(),
    }  # fmt: skip
    if all(row is None for row in inputs.rows):
        del lines["row"]
    if attribution.expected_error is not None:
        lines["expected_error"] = attribution.expected_error.float().transpose(0, 1).reshape(-1).numpy()
    lines |= _predictions_in_lines(answer)
    names = [f"{name} (player)" if name in lines else name for name in attribution.players.names]
    parts = [pd.DataFrame(lines), pd.DataFrame(_in_lines(attribution.values), columns=names)]
    if attribution.stderr is not None:
        of_errors = [f"{name} (stderr)" for name in names]
        parts.append(pd.DataFrame(_in_lines(attribution.stderr), columns=of_errors))
    table = pd.concat(parts, axis=1)
    table.to_csv(path, index=False)


def _in_lines(values: Float[Tensor, "weights batch players outputs"]) -> NDArray[np.float32]:
    """Values of the players in the order of inputs, weightings and outputs."""
    return values.float().permute(1, 0, 3, 2).flatten(0, 2).numpy()


WRITERS: Mapping[Format, Callable[[Answer, Path], None]] = {"csv": _write_table, "npz": _write_arrays}
VALUE_FILES = tuple(f"{VALUES}.{form}" for form in WRITERS)
PICTURE_FILE = re.compile(rf"{PICTURES}/[\w.-]+\.png")
