"""What `fwshapley explain` is asked to compute: semivalues, outputs, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import fwshapley as fw
from fwshapley._internal.checks import find_closest
from fwshapley._internal.wording import listed
from fwshapley.cli.input_format import parse_number_list
from fwshapley.explanation.default_outputs import default_outputs
from fwshapley.semivalues import Total


@dataclass(frozen=True)
class Request:
    """What to compute for each input.

    Attributes:
        weights: semivalues; None for the one that the explainer is for, by default Shapley.
        outputs: "all", "predicted", or names or numbers of outputs, separated by commas; None for the usual ones.
        total: of the values.
        refine: number of coalitions to correct learned values with.
        errors: whether to estimate the errors of learned values.
        method: "network" takes one pass; "auto" samples coalitions if the network was not measured to be good.
    """

    weights: list[fw.Semivalue] | None
    outputs: str | None
    total: Literal["auto", Total]
    refine: int | None = None
    errors: bool = False
    method: Literal["auto", "network"] = "auto"

    def __post_init__(self) -> None:
        if self.refine is not None and self.errors:
            raise ValueError("--errors is for values without --refine, which has standard errors: give one of them")
        if self.refine is not None and self.total == "efficient":
            raise ValueError("--refine gives raw values: leave --total efficient out")

    def choose_outputs(self, names: Sequence[str], *, are_classes: bool) -> str | list[int]:
        """Return "all", "predicted", or numbers of the outputs to explain.

        Args:
            names: of all outputs.
            are_classes: whether one of them is predicted.
        """
        usual = default_outputs(len(names), are_classes=are_classes)
        if self.outputs is None and not isinstance(usual, str):
            return usual
        wanted = self.outputs or ("predicted" if are_classes else "all")
        if wanted in ("all", "predicted"):
            return wanted
        return [_output_number(name.strip(), names) for name in wanted.split(",")]


def read_weights(alpha: float | None, beta: float | None, pairs: Sequence[str] | None) -> list[fw.Semivalue] | None:
    """Return the semivalues that the options name; None if they name none."""
    if not pairs:
        if alpha is None and beta is None:
            return None
        return [fw.Beta(1.0 if alpha is None else alpha, 1.0 if beta is None else beta)]
    if alpha is not None or beta is not None:
        raise ValueError("--alpha and --beta give one semivalue, --weights several: use one of the two")
    semivalues: list[fw.Semivalue] = []
    for pair in pairs:
        numbers = parse_number_list(pair)
        if len(numbers) != 2:  # noqa: PLR2004 - alpha and beta
            raise ValueError(f"--weights must be alpha and beta, such as 16,1; got {pair}")
        semivalues.append(fw.Beta(*numbers))
    return semivalues


def _output_number(wanted: str, names: Sequence[str]) -> int:
    if wanted in names:
        return names.index(wanted)
    if wanted.isdecimal() and int(wanted) < len(names):
        return int(wanted)
    meant = find_closest(wanted, names)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    raise ValueError(f"there is no output {wanted!r}{hint}; the outputs are {listed(names)}")
