"""What a picture of an attribution shows: which rows, which output of each, and the errors of their values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from numpy import ndarray

from fwshapley import plots
from fwshapley._internal.arrays import to_numpy
from fwshapley._internal.checks import Array, check_choice, check_whole
from fwshapley._internal.result import Result
from fwshapley.players import Players
from fwshapley.semivalues import Total


class ShownValues(Result):
    """The choice of rows and outputs, for the pictures of an `Attribution`."""

    values: Array
    base_values: Array
    outputs: Array
    inputs: Array
    total: Total
    players: Players
    output_names: tuple[str, ...]
    provenance: Mapping[str, Any]
    stderr: Array | None
    expected_error: Array | None
    predictions: Array | None
    encodings: Mapping[str, Any]

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def n_calls(self) -> int | None:
        """Game calls per input of refined or sampled values; otherwise None."""
        n_calls: int | None = self.provenance.get("calls_per_input")
        return n_calls

    def _with_output(self, name: str, label: str) -> str:
        """Return the name of a row and of its output, unless there is a single output without a name."""
        return name if self._has_nameless_output else f"{name}, {output_title(label)}"

    @property
    def _has_nameless_output(self) -> bool:
        return self.output_names == ("output 0",)

    def _output_labels(self, rows: Int[ndarray, " rows"], columns: Int[ndarray, " rows"]) -> list[str]:
        """Return the names of one output of each row."""
        return [self.output_names[int(number)] for number in to_numpy(self.outputs)[rows, columns]]

    def _largest(self, rows: Int[ndarray, " rows"]) -> Int[ndarray, " rows"]:
        """Return the output of each row that has the largest prediction, under the first weighting."""
        return (to_numpy(self.base_values)[rows] + self._stacked(self.values)[0, rows].sum(1)).argmax(1)

    def _columns_of(self, rows: Int[ndarray, " rows"], output: int | str | None) -> Int[ndarray, " rows"]:
        """Return which explained output of each row is shown."""
        if output is None:
            return self._largest(rows)
        if isinstance(output, str):
            is_output = to_numpy(self.outputs)[rows] == self._output_number(output)
            lacking = rows[~is_output.any(1)]
            if len(lacking):
                raise ValueError(f"output {output!r} was not explained for input {lacking[0]}")
            return is_output.argmax(1)
        index = check_place("output", output, to_numpy(self.outputs).shape[1], "explained outputs")
        return np.full_like(rows, index)

    def _output_number(self, output: str) -> int:
        """Return the number of an explained output by its name."""
        explained = np.unique(to_numpy(self.outputs)).tolist()
        check_choice("output", output, [self.output_names[number] for number in explained])
        return self.output_names.index(output)

    def _check_rows(self, rows: object) -> list[int]:
        if isinstance(rows, int):
            return list(range(min(check_whole("rows", rows), len(self))))
        if isinstance(rows, str) or not isinstance(rows, Sequence | ndarray) or not len(rows):
            raise TypeError(f"rows must be a number of inputs or a list of their indices, got {rows!r}")
        return [check_place("rows", row, len(self), "inputs") for row in rows]

    def _plotted_errors(self, rows: Int[ndarray, " rows"], columns: Int[ndarray, " rows"]) -> plots.Errors:
        source = "" if self.n_calls is None else f"{self.provenance['method']}, {self.n_calls:,} calls"
        errors: Array
        if self.stderr is not None:
            errors, note = self.stderr, "standard error"
        elif self.expected_error is not None:
            errors, note = self._error_per_player(), "expected error"
        else:
            return plots.Errors(None, "", source)
        return plots.Errors(of_output(self._stacked(errors)[:, rows], columns), note, source)

    def _stacked(self, array: Array) -> Float[ndarray, "weights batch players outputs"]:
        """Return values or errors as a numpy array that has an axis for the weightings in any case."""
        plain = to_numpy(array)
        return plain if isinstance(self.weights, list) else plain[None]

    def _error_per_player(self) -> Float[ndarray, "*weights batch players outputs"]:
        return np.broadcast_to(to_numpy(self.expected_error)[..., None, :], tuple(self.values.shape))


def check_place(argument: str, place: int, count: int, what: str) -> int:
    """Return a number from 0 to below a count, or raise an error that names the argument."""
    number = check_whole(argument, place, minimum=0)
    if number >= count:
        raise ValueError(f"{argument} must be below {count}, the number of {what}; got {number}")
    return number


def of_output(
    values: Float[ndarray, "weights rows players outputs"], output: Int[ndarray, " rows"]
) -> Float[ndarray, "weights rows players"]:
    """Return the values of one output of each row."""
    return values[:, np.arange(len(output)), :, output].transpose(1, 0, 2)


def output_title(name: str) -> str:
    """Return a title for an output, whose name may already start with "output"."""
    return name if name.startswith("output") else f"output {name}"
