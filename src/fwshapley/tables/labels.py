"""Labels as classes, and columns of labels that are names or remarks."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fwshapley._internal.wording import counted, listed, shortened

MAX_TEXTS = 20
"""Different texts that may all occur once; more of them are names or remarks."""


class Classes(NamedTuple):
    """Classes in order.

    Attributes:
        names: of the classes.
        numeric: whether all are numbers, so that 1 and 1.0 are the same.
    """

    names: tuple[str, ...]
    numeric: bool

    def positions(self, labels: Iterable[str]) -> NDArray[np.int64]:
        """Return the position of each label among the classes, or -1."""
        texts = pd.Series(labels, dtype=object)
        spelled = texts.map({text: _spell(text) for text in texts.unique()}) if self.numeric else texts
        return pd.Index(self.names).get_indexer(pd.Index(spelled)).astype(np.int64)


def find_classes(labels: pd.Series, where: str) -> Classes:
    """Return the classes among labels, in order.

    Args:
        labels: as text, none missing.
        where: what contains them, for errors.
    """
    texts = labels.unique().tolist()
    numeric = bool(np.isfinite(pd.to_numeric(pd.Series(texts), errors="coerce")).all())
    names = tuple(sorted(set(map(_spell, texts)), key=Decimal)) if numeric else tuple(sorted(texts))
    if len(names) == 1:
        raise ValueError(f"every label in {where} is {shortened(names[0])}: at least 2 classes are needed")
    if not numeric and len(names) > MAX_TEXTS and len(names) > len(labels) / 2:
        raise ValueError(
            f"{where} looks like names or remarks, not classes: {len(names):,} different values in "
            f"{counted(len(labels), 'row')} ({listed(names, most=3)}); choose another, or group them into classes"
        )
    return Classes(names, numeric)


def _spell(text: str) -> str:
    """Return a number in one spelling of its value, and any other text as it is."""
    for kind in (int, float):
        try:
            number = kind(text)
        except ValueError:
            continue
        return str(int(number)) if np.isfinite(number) and number == int(number) else repr(number)
    return text
